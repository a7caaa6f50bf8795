/* Makes the data set of --train-data FILE (options_train_text.c). */
#include "train_text.h"
#include "cli_tokenizer.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/preprocess.h"
#include "megalith/signals.h"

/* For a dry run, which tokenizes nothing: whether the file is a text. */
static mega_status check_training_text(const char *file)
{
    const mega_documents_options o = {.inputs = &file, .num_inputs = 1, .format = MEGA_DOCUMENT_AUTO};
    mega_documents *d = NULL;
    mega_document_chunk first = {0};
    mega_status st = mega_documents_open(&o, &d);
    if (st == MEGA_OK) st = mega_documents_read(d, &first);
    mega_document_chunk_fini(&first);
    mega_documents_close(d);
    return st;
}

mega_status cli_train_text_leave_out(mega_command_options *cfg)
{
    if (cfg->train_text.file == NULL || cli_train_text_is_made(cfg)) return MEGA_OK;
    MEGA_TRY(check_training_text(cfg->train_text.file));
    mega_info("%s would be tokenized into %s.bin and .idx", cfg->train_text.file, cfg->train.made_data_path);
    cfg->train.data.data_path = (mega_list){0};
    return MEGA_OK;
}

static mega_status tokenize(const mega_command_options *cfg)
{
    static const char *const key = TRAIN_TEXT_KEY;
    mega_tokenizer *tokenizer;
    mega_preprocess_result result;
    MEGA_TRY(mega_cli_tokenizer(cfg, &tokenizer));
    const mega_preprocess_job job = {.inputs = &cfg->train_text.file,
                                     .num_inputs = 1,
                                     .format = MEGA_DOCUMENT_AUTO,
                                     .split_on_blank_lines = true,
                                     .keys = &key,
                                     .num_keys = 1,
                                     .tokenizer = tokenizer,
                                     .append_eod = true,
                                     .output_prefix = cfg->train_text.prefix,
                                     .workers = (int)cfg->train.engine.backend.num_threads,
                                     .stop = mega_signals_stop()};
    const mega_status st = mega_preprocess(&job, &result);
    mega_tokenizer_destroy(tokenizer);
    if (st == MEGA_OK) /* not before: the file may be no text */
        mega_info("%s was tokenized into %s.bin and .idx, which the next run of it finds", cfg->train_text.file,
                  cfg->train.made_data_path);
    return st;
}

mega_status cli_train_text_make(const mega_command_options *cfg, mega_world *world)
{
    mega_status st = MEGA_OK;
    if (cfg->train_text.file == NULL) return MEGA_OK;
    /* one rank of all: what it writes is where all ranks look, as for any data set */
    if (mega_world_rank(world) == 0 && !cli_train_text_is_made(cfg)) st = tokenize(cfg);
    return world != NULL ? mega_comm_agree(mega_world_comm(world), st) : st;
}
