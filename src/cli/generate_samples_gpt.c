/* megalith generate_samples_gpt: generates text with a trained model, from prompts, from a prompt file, without
 * prompts, or in a conversation on standard input. */
#include "cli.h"
#include "commands.h"
#include "generate.h"
#include "megalith/encoding.h"
#include "megalith/file_kind.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <unistd.h>

static bool is_first_rank(const session *s)
{
    return mega_world_rank(s->world) == 0;
}

/* Before the first prompt of many is answered. */
static mega_status check_prompts(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    MEGA_TRY(mega_file_read_kind(path, "text in UTF-8", 0, &text, &bytes));
    const mega_status st = mega_encoding_check_text(path, 1, text, bytes);
    mega_free(text);
    return st;
}

/* Opens the input and the output file on the first rank, which reads and writes for all. */
static mega_status open_files(session *s, FILE **file, const char *path)
{
    const char *input = s->cfg->generate.sample_input_file;
    if (!is_first_rank(s)) return MEGA_OK;
    *file = fopen(input, "r");
    if (*file == NULL)
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "--sample-input-file %s: cannot be opened (%m); expected a text file with one prompt a line",
                         input);
    const bool is_file = fseek(*file, 0, SEEK_SET) == 0; /* what was read from a pipe could not be put back */
    if (is_file) MEGA_TRY(check_prompts(input));
    if (is_file) rewind(*file);
    return generate_output_open(&s->sample_file, "--sample-output-file", path);
}

static bool reads_conversation(const mega_generate_options *o)
{
    return o->prompt.count == 0 && o->num_samples == 0 && o->sample_input_file == NULL;
}

static bool asks_for_prompts(const mega_generate_options *o)
{
    return reads_conversation(o) && (isatty(STDIN_FILENO) || o->interactive);
}

/* Called before an output is closed, which would empty it. */
static mega_status check_prompts_came(const session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    if (!is_first_rank(s) || s->next_index > 0 || asks_for_prompts(o)) return MEGA_OK; /* who was asked may leave */
    return MEGA_MISTAKE(
        "%s holds no prompt; give --prompt TEXT, --sample-input-file FILE with a prompt in each line, or "
        "--num-samples N for texts that begin without a prompt",
        o->sample_input_file != NULL ? o->sample_input_file : "standard input");
}

static mega_status run_file(session *s)
{
    const char *path = s->cfg->generate.sample_output_file; /* derived if it was not given */
    FILE *file = NULL;
    mega_status st = mega_cli_agree(s->world, open_files(s, &file, path));
    if (st == MEGA_OK) st = generate_from_lines(s, file, false);
    if (st == MEGA_OK) st = check_prompts_came(s);
    if (st == MEGA_OK) st = generate_output_close(&s->sample_file, "samples");
    if (file != NULL) fclose(file);
    return st;
}

static mega_status run_mode(session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    if (o->prompt.count > 0) return generate_from_list(s, &o->prompt);
    if (o->num_samples > 0) return generate_unconditional(s, o->num_samples);
    if (o->sample_input_file != NULL) return run_file(s);
    return generate_from_lines(s, stdin, asks_for_prompts(o));
}

/* Rejects a conversation on a terminal with several copies of the model: a text would appear only once every copy has
 * a prompt. */
static mega_status check_conversation(const session *s)
{
    const int texts = mega_engine_layout(s->loaded.model.engine)->edp.size;
    if (texts == 1 || !is_first_rank(s) || !reads_conversation(&s->cfg->generate) || !isatty(STDIN_FILENO))
        return MEGA_OK;
    return MEGA_MISTAKE(
        "prompts are read from the terminal, and %d copies of the model generate only when every copy has a "
        "prompt; start only the %d ranks of one copy of the model, or give the prompts by --prompt TEXT or "
        "--sample-input-file FILE",
        texts, mega_engine_layout(s->loaded.model.engine)->world.size / texts);
}

static mega_status check_beams_of_source(const session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    if (!generate_has_source(s) || o->num_beams == 1 || (!o->logprobs && o->return_logits == NULL)) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "%s with %s: what the model says of a text that beams have found is not computed for an encoder "
                     "with a decoder; leave one of them out",
                     mega_options_origin(s->cfg->train.engine.options, o->logprobs ? "logprobs" : "return_logits"),
                     mega_options_origin(s->cfg->train.engine.options, "num_beams"));
}

static mega_status open_generator(session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    MEGA_TRY(mega_loaded_open(s->cfg, s->world, &s->loaded));
    const int64_t begun = generate_has_source(s); /* a decoder of texts takes what it begins with as a position */
    if (mega_options_was_set(s->cfg->train.engine.options, "out_seq_length") &&
        o->out_seq_length > s->loaded.model.shape.positions - begun)
        mega_warn("--out-seq-length %lld: the model has %lld positions, so texts end there%s",
                  (long long)o->out_seq_length, (long long)s->loaded.model.shape.positions,
                  generate_has_source(s) ? ", the token that begins them included" : ", prompt included");
    MEGA_TRY(mega_loaded_need_tokenizer(&s->loaded));
    MEGA_TRY(check_beams_of_source(s));
    if (o->batch > MEGA_CLI_MOST_BATCH)
        return MEGA_MISTAKE("--batch %lld: at most %d texts are made at the same time", (long long)o->batch,
                            MEGA_CLI_MOST_BATCH);
    MEGA_TRY(generate_rules_make(s->cfg, &s->loaded, &s->ends, &s->rules));
    s->rules.token = generate_stream_token;
    if (o->return_logits != NULL) s->rules.logits = generate_stream_logits;
    generate_beams_make(s->cfg, &s->rules, &s->ends, &s->beams);
    const int64_t positions = generate_positions(s), samples = o->num_beams > 1 ? o->num_beams : o->batch;
    const mega_pretrained_sizes sizes = mega_pretrained_generation(samples, positions, o->inference_micro_batches,
                                                                   o->inference_batch_times_seqlen_threshold);
    MEGA_TRY(mega_pretrained_load(&s->loaded.model, &sizes));
    MEGA_TRY(check_conversation(s));
    const mega_generator_options g = {.draw_vocab = mega_pretrained_known(&s->loaded.model, s->loaded.tokenizer),
                                      .no_cache = o->recompute,
                                      .has_beams = o->num_beams > 1,
                                      .tokenizer = s->loaded.tokenizer,
                                      .folder = s->loaded.model.folder};
    MEGA_TRY(mega_generator_create(s->loaded.model.engine, &s->loaded.model.language, &g, &s->generator));
    return generate_open_rounds(s);
}

static mega_status generate_finish(session *s)
{
    const double seconds = mega_time_now() - s->started;
    MEGA_TRY(check_prompts_came(s));
    MEGA_TRY(generate_output_close(&s->genfile, "JSON lines"));
    if (s->logits != NULL) MEGA_TRY(generate_logits_finish(s->logits));
    mega_info("%lld new tokens, %.1f tokens/s", (long long)s->new_tokens,
              seconds > 0.0 ? (double)s->new_tokens / seconds : 0.0);
    return MEGA_OK;
}

static mega_status open_logits(session *s)
{
    const char *path = s->cfg->generate.return_logits;
    if (path == NULL || !is_first_rank(s)) return MEGA_OK;
    return generate_logits_open(&s->logits, path, s->loaded.model.shape.vocab);
}

static mega_status open_genfile(session *s)
{
    const char *path = s->cfg->generate.genfile;
    if (path == NULL || !is_first_rank(s)) return MEGA_OK;
    if (reads_conversation(&s->cfg->generate) && mega_file_same("/dev/stdin", path))
        return MEGA_MISTAKE(
            "--genfile %s: standard input is the same file, which would be emptied before its prompts are "
            "read; give another name",
            path);
    return generate_output_open(&s->genfile, "--genfile", path);
}

/* For --dry-run, which acquires no lock. */
static mega_status generate_check_outputs(const session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    if (!is_first_rank(s)) return MEGA_OK;
    MEGA_TRY(generate_output_check("--genfile", o->genfile));
    return o->sample_input_file == NULL ? MEGA_OK
                                        : generate_output_check("--sample-output-file", o->sample_output_file);
}

static mega_status generate_run(session *s)
{
    MEGA_TRY(mega_cli_agree(s->world, open_generator(s)));
    MEGA_TRY(generate_check_prompts(s));
    if (s->cfg->train.dry_run) {
        MEGA_TRY(mega_cli_agree(s->world, generate_check_outputs(s)));
        mega_cli_dry_run("text would be generated by %s", s->loaded.model.folder);
        return MEGA_OK;
    }
    MEGA_TRY(mega_cli_agree(s->world, open_genfile(s)));
    MEGA_TRY(mega_cli_agree(s->world, open_logits(s)));
    s->started = mega_time_now();
    MEGA_TRY(run_mode(s));
    return mega_cli_agree(s->world, generate_finish(s));
}

static mega_status generate_run_on(mega_world *world, mega_command_options *cfg)
{
    session s = {.cfg = cfg, .world = world};
    const mega_status st = generate_run(&s);
    generate_output_keep(&s.genfile);
    generate_output_keep(&s.sample_file);
    generate_logits_close(s.logits);
    generate_close_rounds(&s);
    mega_generator_destroy(s.generator);
    mega_loaded_close(&s.loaded);
    return st;
}

int mega_command_generate_samples_gpt(int argc, char **argv)
{
    return mega_cli_on_ranks("generate_samples_gpt",
                             "the command ends after the instruction under way; finished texts stay in its files", argc,
                             argv, generate_run_on);
}
