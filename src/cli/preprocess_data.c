/* megalith preprocess_data: converts text files to PREFIX_KEY_document.bin and .idx. */
#include "cli.h"
#include "cli_tokenizer.h"
#include "commands.h"
#include "inputs.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/preprocess.h"
#include "megalith/progress.h"
#include "megalith/signals.h"
#include "megalith/threads.h"
#include <inttypes.h>
#include <string.h>

static const char command[] = "preprocess_data";

static mega_preprocess_job job_from(const mega_command_options *cfg)
{
    const mega_preprocess_options *o = &cfg->preprocess;
    return (mega_preprocess_job){
        .inputs = (const char *const *)o->input.item,
        .num_inputs = (int)o->input.count,
        .format = (mega_document_format)o->input_format,
        .split_on_blank_lines = o->split_on_blank_lines,
        .keys = (const char *const *)o->json_keys.item,
        .num_keys = (int)o->json_keys.count,
        .append_eod = o->append_eod,
        .output_prefix = o->output_prefix,
        .workers = (int)o->workers,
        .log_interval = mega_options_was_set(cfg->train.engine.options, "log_interval") ? o->log_interval : 0,
        .skip_bad_lines = o->on_bad_line == MEGA_BAD_LINE_SKIP,
        .stop = mega_signals_stop(),
    };
}

static bool makes_vocabulary(const mega_command_options *cfg)
{
    return strcmp(cfg->train.text.tokenizer_type, "CharTokenizer") == 0 &&
           !mega_file_exists(cfg->train.text.vocab_file);
}

static mega_preprocess_sentences sentences_from(const mega_command_options *cfg)
{
    const mega_preprocess_options *o = &cfg->preprocess;
    return (mega_preprocess_sentences){.language = o->lang,
                                       .parameters = o->sentence_parameters,
                                       .abbreviations = o->abbreviations,
                                       .save = o->save_sentence_parameters};
}

/* A language without rules here may have parameters of its own, in a folder of its name. */
static mega_status check_language(const mega_command_options *cfg)
{
    const mega_preprocess_options *o = &cfg->preprocess;
    if (!o->split_sentences || o->lang == NULL || mega_punkt_knows(o->lang)) return MEGA_OK;
    char *folder = o->sentence_parameters != NULL ? mega_path_join(o->sentence_parameters, o->lang) : NULL;
    const bool has_folder = folder != NULL && mega_folder_exists(folder);
    mega_free(folder);
    if (has_folder) return MEGA_OK;
    return MEGA_MISTAKE(
        "%s: a language whose ends of sentences are not known here; expected english, german, french, "
        "greek, russian, chinese, japanese, korean, thai, hindi, urdu or another language of Europe or "
        "India, by its English name or its code of two letters; english, where sentences end with . ? and "
        "! too",
        mega_options_origin(cfg->train.engine.options, "lang"));
}

static void preprocess_check(mega_command_options *cfg)
{
    mega_options_add_mistake(cfg->train.engine.options, check_language(cfg));
    const mega_preprocess_job job = job_from(cfg);
    const bool is_known = !mega_options_is_faulty(cfg->train.engine.options, MEGA_TOPIC_OPTIONS | MEGA_TOPIC_TOKENIZER);
    mega_tokenizer *tokenizer = NULL;
    if (is_known && !makes_vocabulary(cfg))
        mega_options_add_mistake(cfg->train.engine.options, mega_cli_tokenizer(cfg, &tokenizer));
    const mega_cli_inputs inputs = {.files = {.inputs = job.inputs,
                                              .num_inputs = job.num_inputs,
                                              .format = job.format,
                                              .split_on_blank_lines = job.split_on_blank_lines},
                                    .keys = job.keys,
                                    .num_keys = job.num_keys,
                                    .skip_bad_lines = job.skip_bad_lines,
                                    .tokenizer = tokenizer};
    mega_cli_check_inputs(cfg, &inputs);
    mega_tokenizer_destroy(tokenizer);
}

static mega_status make_vocabulary(const mega_command_options *cfg, const mega_preprocess_job *job)
{
    if (!makes_vocabulary(cfg)) return MEGA_OK;
    MEGA_TRY(mega_preprocess_char_vocabulary(job, cfg->train.text.vocab_file));
    mega_info("%s: made from the characters of the input", cfg->train.text.vocab_file);
    return MEGA_OK;
}

static mega_status preprocess_show_result(const mega_preprocess_job *job, const mega_preprocess_result *r)
{
    int64_t tokens = 0;
    for (int k = 0; k < job->num_keys; k++) tokens += r->tokens[k];
    char duration[32], bytes[32], rate[32];
    mega_format_duration(duration, sizeof duration, r->seconds);
    mega_format_bytes(bytes, sizeof bytes, (double)r->text_bytes);
    mega_format_bytes(rate, sizeof rate, r->seconds > 0 ? (double)r->text_bytes / r->seconds : 0.0);
    printf("%" PRId64 " document%s, %" PRId64 " tokens, %.2f bytes a token; %s of text in %s (%s/s)\n", r->documents,
           r->documents == 1 ? "" : "s", tokens, tokens > 0 ? (double)r->text_bytes / (double)tokens : 0.0, bytes,
           duration, rate);
    if (r->empty_documents > 0) printf("%" PRId64 " of them without a token\n", r->empty_documents);
    if (job->sentences != NULL) printf("%" PRId64 " sentence%s\n", r->sentences, r->sentences == 1 ? "" : "s");
    if (job->skip_bad_lines) printf("%" PRId64 " bad line%s left out\n", r->bad_lines, r->bad_lines == 1 ? "" : "s");
    for (int k = 0; k < job->num_keys; k++) {
        char *prefix = mega_preprocess_output(job, k);
        if (prefix == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a file name");
        printf("written: %s.bin and .idx, %" PRId64 " tokens (--data-path %s)\n", prefix, r->tokens[k], prefix);
        mega_free(prefix);
    }
    if (tokens == 0) mega_warn("--input: the text has no tokens, and no training takes a data set without any");
    return MEGA_OK;
}

static mega_status preprocess_data_run(const mega_command_options *cfg)
{
    const double started = mega_time_now();
    mega_preprocess_job job = job_from(cfg);
    MEGA_TRY(make_vocabulary(cfg, &job));
    mega_tokenizer *tokenizer;
    MEGA_TRY(mega_cli_tokenizer(cfg, &tokenizer));
    job.tokenizer = tokenizer;
    mega_punkt *punkt = NULL;
    mega_status st = MEGA_OK;
    if (cfg->preprocess.split_sentences) {
        const mega_preprocess_sentences sentences = sentences_from(cfg);
        st = mega_preprocess_learn(&job, &sentences, &punkt);
        job.sentences = punkt;
        job.keep_newlines = cfg->preprocess.keep_newlines;
    }
    mega_info("Vocab size: %" PRId64, mega_tokenizer_size(tokenizer));
    mega_info("Output prefix: %s", job.output_prefix);
    mega_info("Time to startup: %.3f", mega_time_now() - started);
    mega_preprocess_result result;
    if (st == MEGA_OK) st = mega_preprocess(&job, &result);
    if (st == MEGA_OK) st = preprocess_show_result(&job, &result);
    mega_punkt_destroy(punkt);
    mega_tokenizer_destroy(tokenizer);
    return st;
}

int mega_command_preprocess_data(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse_checked(&cfg, command, argc, argv, preprocess_check, &exit_status)) return exit_status;
    exit_status = 0;
    if (cfg.train.dry_run) {
        mega_cli_dry_run("%zu inputs would be tokenized by %" PRId64 " threads into %s_KEY_%s.bin and .idx",
                         cfg.preprocess.input.count, cfg.preprocess.workers, cfg.preprocess.output_prefix,
                         cfg.preprocess.split_sentences ? "sentence" : "document");
    } else {
        mega_signals_watch(command, -1, "the reading ends, and what was written is removed");
        const mega_status st = preprocess_data_run(&cfg);
        if (st != MEGA_OK) exit_status = mega_cli_fail(command, st);
    }
    mega_command_options_fini(&cfg);
    return exit_status;
}
