/* megalith train_tokenizer: learns a vocabulary from text files. */
#include "cli.h"
#include "commands.h"
#include "inputs.h"
#include "megalith/file.h"
#include "megalith/lock.h"
#include "megalith/memory.h"
#include "megalith/progress.h"
#include "megalith/signals.h"
#include "megalith/threads.h"
#include "megalith/tokenizer_train.h"
#include <string.h>
#include <unistd.h>

static const char command[] = "train_tokenizer";

typedef struct learning {
    const char *what, *unit;
    mega_progress progress;
    uint64_t last;
    bool begun;
} learning;

static bool is_type(const char *type, const char *begin)
{
    return strncmp(type, begin, strlen(begin)) == 0;
}

static bool is_unigram(const char *type)
{
    return strstr(type, "SentencePieceTokenizer") != NULL;
}

static void report(void *user, int64_t made, int64_t wanted)
{
    learning *l = user;
    if (!l->begun) mega_progress_begin(&l->progress, l->what, l->unit, 0, (uint64_t)wanted);
    l->begun = true;
    l->last = (uint64_t)made;
    mega_progress_update(&l->progress, 0, (uint64_t)made);
}

static mega_status vocabulary_finish(mega_trainer *trainer, const char *type, mega_tokenizer **out)
{
    learning l = {.what = "learning merges", .unit = "tokens"};
    if (is_unigram(type)) l = (learning){.what = "choosing pieces", .unit = "dropped"};
    mega_trainer_on_report(trainer, report, &l);
    MEGA_TRY(mega_trainer_finish(trainer, out));
    if (l.begun) mega_progress_end(&l.progress, 0, l.last);
    return MEGA_OK;
}

/* Writes the vocabulary: a character vocabulary as the file that --vocab-file accepts; BPE files are
 * written by save. */
static mega_status vocabulary_write_folder(const mega_tokenizer *t, const char *folder)
{
    MEGA_TRY(mega_tokenizer_save(t, folder));
    if (strcmp(mega_tokenizer_type(t), "CharTokenizer") != 0) return MEGA_OK;
    char *path = mega_path_join(folder, "vocab.json");
    if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s/vocab.json: no memory", folder);
    const mega_status st = mega_tokenizer_save_vocab(t, path);
    mega_free(path);
    return st;
}

/* Locks the output folder with a file inside it, because the folder may have several names. The lock is also held
 * while learning, so that a second process fails before its work and not after it. */
static mega_status lock_output(mega_lock **out, const char *output)
{
    char *path = mega_path_join(output, "train_tokenizer.lock"), *subject = mega_format("--output %s", output);
    mega_status st = MEGA_OK;
    if (path == NULL || subject == NULL) st = MEGA_FAIL(MEGA_ERR_MEMORY, "--output %s: no memory for its lock", output);
    if (st == MEGA_OK) st = mega_folder_create(output);
    if (st == MEGA_OK)
        st = mega_lock_acquire(
            &(mega_lock_request){.path = path, .subject = subject, .remedy = "choose another --output"}, out);
    MEGA_FREE(subject, path);
    return st;
}

static void vocabulary_show_result(const mega_command_options *cfg, const mega_tokenizer *t,
                                   const mega_trainer_counts *counts, double seconds)
{
    const char *folder = cfg->train_tokenizer.output, *type = mega_tokenizer_type(t);
    const bool bpe = is_type(type, "GPT2BPETokenizer"), wordpiece = is_type(type, "BertWordPiece");
    /* in no file: [BOS] and [EOS]; <CLS>, <SEP>, <EOD>, <MASK> and <BOS> */
    const long long added = wordpiece ? 2 : is_type(type, "SentencePieceTokenizer") ? 5 : 0;
    const long long size = (long long)mega_tokenizer_size(t) - added,
                    wanted = (long long)cfg->train_tokenizer.vocab_size;
    char duration[32], bytes[32];
    mega_format_duration(duration, sizeof duration, seconds);
    mega_format_bytes(bytes, sizeof bytes, (double)counts->text_bytes);
    printf("%lld document%s, %s of text in %s\n", (long long)counts->documents, counts->documents == 1 ? "" : "s",
           bytes, duration);
    if (cfg->train_tokenizer.on_bad_line == MEGA_BAD_LINE_SKIP)
        printf("%lld bad line%s left out\n", (long long)counts->bad_lines, counts->bad_lines == 1 ? "" : "s");
    if ((bpe || wordpiece) && size < wanted)
        printf(
            "%lld ids and not %lld: no further pair is seen %lld times; give more text, or a lower --min-frequency\n",
            size, wanted, (long long)cfg->train_tokenizer.min_frequency);
    if (is_unigram(type)) {
        if (size < wanted)
            printf("%lld ids and not %lld: no other string is worth a piece; give more text\n", size, wanted);
        printf("written: %s (--tokenizer-type %s --tokenizer-model %s/tokenizer.model; tokenizer.json for T5)\n",
               folder, type, folder);
        return;
    }
    if (wordpiece) {
        printf("written: %s (--tokenizer-type %s --vocab-file %s/vocab.txt; tokenizer.json for BERT)\n", folder, type,
               folder);
        return;
    }
    printf("written: %s, %lld ids, end of document %d (--tokenizer-type %s --vocab-file %s/vocab.json", folder, size,
           mega_tokenizer_eod(t), type, folder);
    if (bpe) printf(" --merge-file %s/merges.txt", folder);
    printf(")\n");
}

static mega_status learn_vocabulary(const mega_command_options *cfg, mega_trainer *trainer, mega_lock *lock)
{
    const mega_train_tokenizer_options *o = &cfg->train_tokenizer;
    const double started = mega_time_now();
    const mega_trainer_input input = {.documents = {.inputs = (const char *const *)o->input.item,
                                                    .num_inputs = (int)o->input.count,
                                                    .format = (mega_document_format)o->input_format,
                                                    .split_on_blank_lines = o->split_on_blank_lines,
                                                    .stop = mega_signals_stop()},
                                      .keys = (const char *const *)o->json_keys.item,
                                      .num_keys = (int)o->json_keys.count,
                                      .workers = (int)o->workers,
                                      .skip_bad_lines = o->on_bad_line == MEGA_BAD_LINE_SKIP};
    mega_trainer_counts counts;
    mega_tokenizer *t = NULL;
    MEGA_TRY(mega_trainer_read(trainer, &input, &counts));
    MEGA_TRY(vocabulary_finish(trainer, cfg->train.text.tokenizer_type, &t));
    mega_status st = mega_lock_hold(lock);
    if (st == MEGA_OK) st = vocabulary_write_folder(t, o->output);
    if (st == MEGA_OK) vocabulary_show_result(cfg, t, &counts, mega_time_now() - started);
    mega_tokenizer_destroy(t);
    return st;
}

static mega_status vocabulary_train(const mega_command_options *cfg, mega_trainer *trainer)
{
    mega_lock *lock = NULL;
    const char *output = cfg->train_tokenizer.output;
    const bool is_new = !mega_folder_exists(output);
    mega_status st = lock_output(&lock, output);
    if (st == MEGA_OK) st = learn_vocabulary(cfg, trainer, lock);
    mega_lock_release(lock);
    if (st != MEGA_OK && is_new) (void)rmdir(output); /* fails if the folder is not empty */
    return st;
}

static mega_status vocabulary_run(const mega_command_options *cfg)
{
    const mega_train_tokenizer_options *o = &cfg->train_tokenizer;
    mega_trainer *trainer;
    MEGA_TRY(mega_trainer_create(&(mega_trainer_options){.type = cfg->train.text.tokenizer_type,
                                                         .vocab_size = o->vocab_size,
                                                         .min_frequency = o->min_frequency,
                                                         .character_coverage = o->character_coverage,
                                                         .workers = (int)o->workers},
                                 &trainer));
    mega_status st = MEGA_OK;
    if (cfg->train.dry_run)
        mega_cli_dry_run("%zu input%s would be read by %lld threads and a vocabulary written to %s", o->input.count,
                         o->input.count == 1 ? "" : "s", (long long)o->workers, o->output);
    else
        st = vocabulary_train(cfg, trainer);
    mega_trainer_destroy(trainer);
    return st;
}

static void vocabulary_check(mega_command_options *cfg)
{
    const mega_train_tokenizer_options *o = &cfg->train_tokenizer;
    const mega_cli_inputs inputs = {.files = {.inputs = (const char *const *)o->input.item,
                                              .num_inputs = (int)o->input.count,
                                              .format = (mega_document_format)o->input_format,
                                              .split_on_blank_lines = o->split_on_blank_lines},
                                    .keys = (const char *const *)o->json_keys.item,
                                    .num_keys = (int)o->json_keys.count,
                                    .skip_bad_lines = o->on_bad_line == MEGA_BAD_LINE_SKIP};
    mega_cli_check_inputs(cfg, &inputs);
}

int mega_command_train_tokenizer(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse_checked(&cfg, command, argc, argv, vocabulary_check, &exit_status)) return exit_status;
    mega_signals_watch(command, -1, "the reading ends, and nothing is written");
    const mega_status st = vocabulary_run(&cfg);
    mega_command_options_fini(&cfg);
    return st == MEGA_OK ? 0 : mega_cli_fail(command, st);
}
