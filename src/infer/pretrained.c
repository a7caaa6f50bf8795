/* Reads a model folder for generation and evaluation. */
#include "megalith/pretrained.h"
#include "budget.h"
#include "megalith/file.h"
#include "megalith/model_parts.h"

/* A stage of a pipeline holds its own layers; the folder holds, and is compared with, those of all. */
static mega_status read_weights(mega_pretrained *m, mega_checkpoint *c, const mega_model_parts *parts,
                                const mega_pretrained_options *o)
{
    MEGA_TRY(mega_model_parts_declare(parts, mega_model_parts_own(parts, 0), m->params));
    MEGA_TRY(mega_params_place(m->params, o->compute, INT64_MAX));
    MEGA_TRY(budget_check(o->memory_limit, m->params, NULL, 0, "reading the model",
                          "--bf16, or more ranks (--tensor-model-parallel-size, --pipeline-model-parallel-size)"));
    MEGA_TRY(mega_params_allocate(m->params, MEGA_PARAMS_WEIGHTS));
    MEGA_TRY(mega_checkpoint_read_params(c, mega_model_parts_params(parts), m->params));
    return mega_params_publish(m->params);
}

static mega_status load_tokenizer(mega_pretrained *m)
{
    static const char *const files[] = {"tokenizer.json", "vocab.json"};
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = mega_path_join(m->folder, files[i]);
        if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "model %s: no memory for a path", m->folder);
        found = found || mega_file_exists(path);
        mega_free(path);
    }
    return found ? mega_tokenizer_load(&m->tokenizer, m->folder) : MEGA_OK;
}

static mega_status build(mega_pretrained *m, mega_checkpoint *c, const mega_pretrained_options *o)
{
    m->folder = mega_strdup(mega_checkpoint_folder(c));
    if (m->folder == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for the name of its folder");
    m->iteration = mega_checkpoint_iteration(c);
    MEGA_TRY(mega_layout_create(&m->layout, o->world, &o->layout));
    m->shape = *mega_checkpoint_shape(c);
    const mega_language_options cut = {.tp = m->layout->tp.size,
                                       .stages = m->layout->pp.size,
                                       .vocab_multiple = o->vocab_multiple,
                                       .first_stage_layers = o->first_stage_layers,
                                       .last_stage_layers = o->last_stage_layers};
    MEGA_TRY(mega_language_model_create(&m->language, &m->shape, &cut));
    MEGA_TRY(mega_params_create(&m->params, m->layout));
    const mega_model_sizes sizes = {.mode = MEGA_EVAL, .samples = cut.tp, .positions = 1};
    mega_model_parts *parts = NULL;
    MEGA_TRY(mega_model_parts_create(&parts, &m->language.model, m->layout, o->compute, sizes, cut.stages));
    const mega_status st = read_weights(m, c, parts, o);
    mega_model_parts_destroy(parts);
    MEGA_TRY(st);
    return load_tokenizer(m);
}

static mega_status check_found(const mega_checkpoint *c, const char *path)
{
    if (c != NULL) return mega_checkpoint_check_shape(c);
    return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                     "model %s: there is no checkpoint in it; expected a --save folder of pretrain_gpt, one of its "
                     "iter_… folders, or a Hugging Face GPT-2 folder",
                     path);
}

mega_status mega_pretrained_check(const char *path)
{
    mega_checkpoint *c = NULL;
    MEGA_TRY(mega_checkpoint_open(&c, path, false));
    const mega_status st = check_found(c, path);
    mega_checkpoint_close(c);
    return st;
}

mega_status mega_pretrained_load(mega_pretrained *out, const char *path, const mega_pretrained_options *options)
{
    mega_checkpoint *c = NULL;
    MEGA_TRY(mega_checkpoint_open_ranks(&c, path, false, options->team,
                                        options->world != NULL ? mega_world_comm(options->world) : NULL));
    mega_pretrained m = {0};
    mega_status st = check_found(c, path);
    if (st == MEGA_OK) st = build(&m, c, options);
    mega_checkpoint_close(c);
    if (st != MEGA_OK) {
        mega_pretrained_fini(&m);
        return st;
    }
    *out = m;
    return MEGA_OK;
}

void mega_pretrained_fini(mega_pretrained *m)
{
    mega_tokenizer_destroy(m->tokenizer);
    mega_params_destroy(m->params);
    mega_language_model_fini(&m->language);
    mega_layout_destroy(m->layout);
    mega_free(m->folder);
    *m = (mega_pretrained){0};
}
