/* The parameters with which the preprocessor cuts sentences: read from a folder, or learnt from the input before it is
 * tokenized. */
#include "data_impl.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "preprocess_impl.h"

static mega_status learn_text(void *trainer, const char *text, size_t size)
{
    return mega_punkt_learn(trainer, text, size);
}

static mega_status learn_sentences(const mega_preprocess_job *job, mega_punkt *p)
{
    mega_punkt_trainer *trainer;
    MEGA_TRY(mega_punkt_trainer_create(p, &trainer));
    mega_status st = mega_preprocess_texts(job, "learning where sentences end",
                                           "--split-sentences learns from the input where sentences end before it cuts "
                                           "them, which standard input does not "
                                           "allow; give a file, or --sentence-parameters FOLDER",
                                           learn_text, trainer);
    if (st == MEGA_OK) st = mega_punkt_finish(trainer);
    mega_punkt_trainer_destroy(trainer);
    return st;
}

/* Reads FOLDER, or FOLDER/LANGUAGE if it has that. */
static mega_status read_parameters(const mega_preprocess_sentences *o, mega_punkt *p)
{
    char *inside = mega_path_join(o->parameters, o->language);
    if (inside == NULL) return MEGA_NO_MEMORY("--sentence-parameters", "the name of a folder");
    const char *folder = mega_folder_exists(inside) ? inside : o->parameters;
    const mega_status st = mega_punkt_read(p, folder);
    if (st != MEGA_OK) MEGA_CONTEXT("--sentence-parameters");
    else
        mega_info("Sentences end as the parameters in %s say", folder);
    mega_free(inside);
    return st;
}

static mega_status prepare_sentences(const mega_preprocess_job *job, const mega_preprocess_sentences *o, mega_punkt *p)
{
    if (o->abbreviations != NULL) {
        const mega_status st = mega_punkt_read_abbreviations(p, o->abbreviations);
        if (st != MEGA_OK) MEGA_CONTEXT("--abbreviations");
        MEGA_TRY(st);
    }
    if (o->parameters != NULL) MEGA_TRY(read_parameters(o, p));
    else if (!mega_punkt_needs_none(o->language)) {
        mega_info("Learning from the input where sentences end (--sentence-parameters FOLDER reads it instead)");
        MEGA_TRY(learn_sentences(job, p));
    }
    return o->save != NULL ? mega_punkt_write(p, o->save) : MEGA_OK;
}

mega_status mega_preprocess_learn(const mega_preprocess_job *job, const mega_preprocess_sentences *o, mega_punkt **out)
{
    mega_punkt *p;
    MEGA_TRY(mega_punkt_create(o->language, &p));
    const mega_status st = prepare_sentences(job, o, p);
    if (st == MEGA_OK) *out = p;
    else
        mega_punkt_destroy(p);
    return st;
}
