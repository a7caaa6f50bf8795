/* megalith generate_samples_gpt: text from a trained model. Prompts, a prompt file, unconditional samples, or a
 * conversation on standard input. */
#include "cli.h"
#include "commands.h"
#include "loaded.h"
#include "megalith/documents.h"
#include "megalith/file.h"
#include "megalith/generate.h"
#include "megalith/json.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct session {
    mega_config *cfg;
    mega_world *world; /* every rank makes the same text; the first prints and writes it */
    mega_loaded loaded;
    mega_generator *generator;
    mega_sampling sampling;
    mega_writer *genfile, *sample_file;
    uint64_t next_index; /* of the next sequence: addresses its random numbers */
    int64_t new_tokens;
    double started;
} session;

static bool is_first(const session *s)
{
    return mega_world_rank(s->world) == 0;
}

/* One sequence of a batch: its prompt and what is shown of it. */
typedef struct sequence {
    mega_ids ids;       /* prompt */
    const char *prompt; /* borrowed; "" for unconditional */
    mega_ids fresh;     /* room for the new tokens */
} sequence;

/* Text on its way to the terminal: bytes of an unfinished UTF-8 sequence wait here. */
typedef struct stream {
    const mega_tokenizer *tokenizer;
    mega_buffer pending;
    int32_t eod;
    bool on;
    mega_status status;
} stream;

static bool stream_token(void *user, int row, int32_t token)
{
    stream *s = user;
    if (!s->on || row != 0 || token == s->eod) return true;
    s->status = mega_tokenizer_piece(s->tokenizer, token, &s->pending);
    s->on = s->status == MEGA_OK; /* the run goes on: other ranks do */
    if (!s->on) return true;
    const size_t rest = mega_utf8_incomplete(s->pending.data, s->pending.size);
    const size_t ready = s->pending.size - rest;
    fwrite(s->pending.data, 1, ready, stdout);
    fflush(stdout);
    memmove(s->pending.data, s->pending.data + ready, rest);
    s->pending.size = rest;
    return true;
}

static mega_status decode_text(const session *s, const mega_ids *ids, mega_buffer *out)
{
    const int64_t count = ids->count > 0 && ids->id[ids->count - 1] == mega_tokenizer_eod(s->loaded.tokenizer)
                              ? ids->count - 1
                              : ids->count;
    MEGA_TRY(mega_tokenizer_decode(s->loaded.tokenizer, ids->id, count, out));
    if (out->data == NULL) mega_buffer_puts(out, "");
    return mega_buffer_check(out, "generated text");
}

/* A sample may end within a character, and an untrained model writes any bytes; JSON holds UTF-8 alone. Each byte that
 * is none becomes U+FFFD. */
static mega_status append_utf8(mega_buffer *out, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const size_t valid = mega_utf8_valid_bytes(text, bytes);
        mega_buffer_append(out, text, valid);
        if (valid < bytes) mega_buffer_puts(out, "\xef\xbf\xbd");
        const size_t past = valid < bytes ? valid + 1 : valid;
        text += past;
        bytes -= past;
    }
    return mega_buffer_check(out, "generated text");
}

/* {"text": prompt and continuation, "length": tokens of both, "finished": ended by itself} */
static mega_status write_genfile(session *s, const sequence *q, const mega_buffer *text, bool finished)
{
    if (s->genfile == NULL) return MEGA_OK;
    mega_buffer whole = {0};
    mega_status st = append_utf8(&whole, q->prompt, strlen(q->prompt));
    if (st == MEGA_OK) st = append_utf8(&whole, text->data, text->size);
    json_t *row = st != MEGA_OK
                      ? NULL
                      : json_pack("{s:s%, s:I, s:b}", "text", whole.size > 0 ? whole.data : "", whole.size, "length",
                                  (json_int_t)(q->ids.count + q->fresh.count), "finished", finished);
    char *line = row == NULL ? NULL : mega_json_dump(row, JSON_COMPACT);
    if (st == MEGA_OK && line == NULL) st = MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a line of --genfile");
    if (st == MEGA_OK) st = mega_writer_write(s->genfile, line, strlen(line));
    if (st == MEGA_OK) st = mega_writer_write(s->genfile, "\n", 1);
    if (st == MEGA_OK) st = mega_writer_flush(s->genfile);
    free(line);
    json_decref(row);
    mega_buffer_fini(&whole);
    return st;
}

static mega_status write_sample_file(session *s, const sequence *q, const char *text)
{
    if (s->sample_file == NULL) return MEGA_OK;
    char *block = mega_format("\nContext:%s\n\nMegatron-LM:%s\n", q->prompt, text);
    if (block == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a sample");
    const mega_status st = mega_writer_write(s->sample_file, block, strlen(block));
    mega_free(block);
    return st;
}

static mega_status report(session *s, const sequence *q, bool finished, bool streamed)
{
    mega_buffer text = {0};
    mega_status st = decode_text(s, &q->fresh, &text);
    if (st == MEGA_OK && !streamed) {
        printf("%s", q->prompt);
        fwrite(text.data, 1, text.size, stdout);
    }
    if (st == MEGA_OK) {
        printf("\n");
        fflush(stdout);
        st = write_genfile(s, q, &text, finished);
    }
    if (st == MEGA_OK) st = write_sample_file(s, q, text.data);
    mega_buffer_fini(&text);
    return st;
}

static int64_t room_for(const session *s, int64_t prompt)
{
    const int64_t most = s->loaded.model.gpt.positions - prompt;
    return s->cfg->generate.out_seq_length < most ? s->cfg->generate.out_seq_length : most;
}

/* What the generator is asked for. */
static mega_status prepare_batch(session *s, sequence *q, mega_generation *g, int count)
{
    for (int b = 0; b < count; b++) {
        const int64_t most = room_for(s, q[b].ids.count);
        if (most < 1)
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "prompt of %lld tokens: the model has %lld positions, so at most %lld prompt tokens leave room "
                "for a new one; shorten it: \"%.60s…\"",
                (long long)q[b].ids.count, (long long)s->loaded.model.gpt.positions,
                (long long)s->loaded.model.gpt.positions - 1, q[b].prompt);
        MEGA_TRY(mega_ids_reserve(&q[b].fresh, most));
        g[b] = (mega_generation){.prompt = q[b].ids.id,
                                 .prompt_count = q[b].ids.count,
                                 .max_new = most,
                                 .index = s->next_index++,
                                 .tokens = q[b].fresh.id};
    }
    return MEGA_OK;
}

/* Generates for up to a batch of sequences. Text is streamed when there is one. */
static mega_status run_batch(session *s, sequence *q, int count)
{
    mega_generation g[MEGA_CLI_MOST_BATCH];
    MEGA_TRY(mega_cli_agree(s->world, prepare_batch(s, q, g, count)));
    const bool streamed = count == 1;
    stream out = {.tokenizer = s->loaded.tokenizer, .eod = mega_tokenizer_eod(s->loaded.tokenizer), .on = streamed};
    if (streamed) {
        printf("%s", q[0].prompt);
        fflush(stdout);
    }
    const mega_status st = mega_generator_run(s->generator, g, count, &s->sampling, out.eod, stream_token, &out);
    if (streamed && out.pending.size > 0) fwrite(out.pending.data, 1, out.pending.size, stdout);
    mega_buffer_fini(&out.pending);
    MEGA_TRY(st);
    if (out.status != MEGA_OK) return out.status;
    for (int b = 0; b < count; b++) {
        q[b].fresh.count = g[b].count;
        s->new_tokens += g[b].count;
        MEGA_TRY(report(s, &q[b], g[b].finished, streamed));
    }
    return MEGA_OK;
}

static void sequence_fini(sequence *q)
{
    mega_ids_fini(&q->ids);
    mega_ids_fini(&q->fresh);
    *q = (sequence){0};
}

/* Where prompts come from: each call gives the next one (borrowed until the next call), or NULL at the end. */
typedef const char *next_prompt(void *user);

static mega_status encode_prompt(session *s, const char *prompt, mega_ids *out)
{
    if (prompt[0] == '\0') { /* unconditional: the model begins a document */
        const int32_t eod = mega_tokenizer_eod(s->loaded.tokenizer);
        if (eod < 0)
            return MEGA_FAIL(MEGA_ERR_USAGE, "an empty prompt needs an end-of-document token, which %s has not",
                             mega_tokenizer_type(s->loaded.tokenizer));
        MEGA_TRY(mega_ids_reserve(out, 1));
        out->id[out->count++] = eod;
        return MEGA_OK;
    }
    return mega_encoder_encode_special(s->loaded.encoder, prompt, strlen(prompt), out);
}

static mega_status run_all(session *s, next_prompt *next, void *user)
{
    sequence q[MEGA_CLI_MOST_BATCH] = {0};
    char *text[MEGA_CLI_MOST_BATCH] = {0};
    mega_status st = MEGA_OK;
    const char *prompt = "";
    while (st == MEGA_OK && prompt != NULL) {
        int count = 0;
        while (st == MEGA_OK && count < s->cfg->generate.batch && (prompt = next(user)) != NULL) {
            text[count] = mega_strdup(prompt);
            if (text[count] == NULL) {
                st = MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a prompt");
                break;
            }
            q[count].prompt = text[count];
            st = encode_prompt(s, text[count], &q[count].ids);
            count++;
        }
        st = mega_cli_agree(s->world, st); /* nobody waits in a program for a rank that failed */
        if (st == MEGA_OK && count > 0) st = mega_cli_agree(s->world, run_batch(s, q, count));
        for (int b = 0; b < count; b++) {
            sequence_fini(&q[b]);
            mega_free(text[b]);
            text[b] = NULL;
        }
    }
    return st;
}

typedef struct list_source {
    const mega_list *list;
    size_t at;
} list_source;
static const char *next_of_list(void *user)
{
    list_source *l = user;
    return l->at < l->list->count ? l->list->item[l->at++] : NULL;
}

static const char *next_unconditional(void *user)
{
    int64_t *left = user;
    return (*left)-- > 0 ? "" : NULL;
}

/* Lines of a stream; empty ones are passed over, a line that says stop ends it (as the original does). */
typedef struct line_source {
    mega_world *world;
    mega_status status;
    FILE *file;
    char *line;
    size_t capacity;
    bool ask;
} line_source;
static const char *next_line(void *user)
{
    line_source *l = user;
    for (;;) {
        if (l->ask) {
            printf("\nContext prompt (stop to exit) >>> ");
            fflush(stdout);
        }
        ssize_t n = getline(&l->line, &l->capacity, l->file);
        if (n < 0) return NULL;
        while (n > 0 && (l->line[n - 1] == '\n' || l->line[n - 1] == '\r')) l->line[--n] = '\0';
        if (strcmp(l->line, "stop") == 0) return NULL;
        if (n > 0) return l->line;
    }
}

/* A launcher gives standard input to the first rank alone: it reads for all. */
static mega_status share_line(line_source *l, const char **line)
{
    mega_comm *all = mega_world_comm(l->world);
    int64_t bytes = *line == NULL ? 0 : (int64_t)strlen(*line) + 1;
    MEGA_TRY(mega_comm_broadcast(all, "length of a prompt", &bytes, (int64_t)sizeof bytes, 0));
    if (bytes == 0) return MEGA_OK;
    if ((size_t)bytes > l->capacity) {
        char *grown = realloc(l->line, (size_t)bytes);
        if (grown == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a prompt");
        l->line = grown;
        l->capacity = (size_t)bytes;
    }
    MEGA_TRY(mega_comm_broadcast(all, "prompt", l->line, bytes, 0));
    *line = l->line;
    return MEGA_OK;
}

static const char *next_shared_line(void *user)
{
    line_source *l = user;
    const char *line = mega_world_rank(l->world) == 0 ? next_line(l) : NULL;
    if (mega_world_size(l->world) > 1) l->status = share_line(l, &line);
    return l->status == MEGA_OK ? line : NULL;
}

static mega_status run_lines(session *s, FILE *file, bool ask)
{
    line_source lines = {.world = s->world, .file = file, .ask = ask};
    const mega_status st = run_all(s, next_shared_line, &lines);
    free(lines.line);
    return st == MEGA_OK ? lines.status : st;
}

static mega_status run_file(session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    FILE *file = fopen(o->sample_input_file, "r");
    if (file == NULL)
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "--sample-input-file %s: cannot be opened (%m); expected a text file with one prompt a line",
                         o->sample_input_file);
    char *path = o->sample_output_file != NULL ? mega_strdup(o->sample_output_file)
                                               : mega_format("%s.out", o->sample_input_file);
    mega_status st = path == NULL  ? MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a path")
                     : is_first(s) ? mega_writer_create(&s->sample_file, path)
                                   : MEGA_OK;
    if (st == MEGA_OK) st = run_lines(s, file, false);
    if (st == MEGA_OK && s->sample_file != NULL) {
        mega_writer *w = s->sample_file;
        s->sample_file = NULL;
        st = mega_writer_close(w, false);
        if (st == MEGA_OK) mega_info("samples are in %s", path);
    }
    fclose(file);
    mega_free(path);
    return st;
}

static mega_status run_mode(session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    if (o->prompt.count > 0) return run_all(s, next_of_list, &(list_source){&o->prompt, 0});
    if (o->num_samples > 0) {
        int64_t left = o->num_samples;
        return run_all(s, next_unconditional, &left);
    }
    if (o->sample_input_file != NULL) return run_file(s);
    return run_lines(s, stdin, isatty(STDIN_FILENO) || o->interactive);
}

static mega_status open_generator(session *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    MEGA_TRY(mega_loaded_open(&s->loaded, s->cfg, s->world));
    if (s->loaded.model.layout->dp.size > 1)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "%d ranks, %s: a text is made by one model; start as many ranks as share it, or raise that",
                         mega_world_size(s->world), mega_config_origin(s->cfg, "tensor_model_parallel_size"));
    if (mega_config_was_set(s->cfg, "out_seq_length") && o->out_seq_length > s->loaded.model.gpt.positions)
        mega_warn("--out-seq-length %lld: the model has %lld positions, so texts end there, prompt included",
                  (long long)o->out_seq_length, (long long)s->loaded.model.gpt.positions);
    MEGA_TRY(mega_loaded_need_tokenizer(&s->loaded));
    if (o->batch > MEGA_CLI_MOST_BATCH)
        return MEGA_FAIL(MEGA_ERR_USAGE, "--batch %lld: at most %d texts are made at the same time",
                         (long long)o->batch, MEGA_CLI_MOST_BATCH);
    s->sampling = (mega_sampling){.greedy = o->greedy,
                                  .temperature = o->temperature,
                                  .top_k = o->top_k,
                                  .top_p = o->top_p,
                                  .seed = (uint32_t)s->cfg->seed};
    const mega_generator_options g = {.batch = o->batch,
                                      .capacity = s->loaded.model.gpt.positions,
                                      .no_cache = o->recompute,
                                      .backend = s->loaded.backend,
                                      .team = s->loaded.team};
    MEGA_TRY(
        mega_generator_create(&s->generator, &s->loaded.model.gpt, s->loaded.model.params, s->loaded.model.layout, &g));
    return MEGA_OK;
}

static mega_status finish(session *s)
{
    const double seconds = mega_time_now() - s->started;
    if (s->genfile != NULL) {
        mega_writer *w = s->genfile;
        s->genfile = NULL;
        MEGA_TRY(mega_writer_close(w, false));
        mega_info("JSON lines are in %s", s->cfg->generate.genfile);
    }
    if (s->next_index == 0)
        mega_warn("no prompt was read; give --prompt TEXT, a file that is not empty, or --num-samples N");
    mega_info("%lld new tokens, %.1f tokens/s", (long long)s->new_tokens,
              seconds > 0.0 ? (double)s->new_tokens / seconds : 0.0);
    return MEGA_OK;
}

static mega_status run(session *s)
{
    MEGA_TRY(mega_cli_agree(s->world, open_generator(s)));
    if (s->cfg->dry_run) {
        mega_cli_dry_run("text would be generated by %s", s->loaded.model.folder);
        return MEGA_OK;
    }
    if (s->cfg->generate.genfile != NULL && is_first(s)) {
        const mega_status st = mega_writer_create(&s->genfile, s->cfg->generate.genfile);
        if (st != MEGA_OK) MEGA_CONTEXT("--genfile");
        MEGA_TRY(st);
    }
    s->started = mega_time_now();
    MEGA_TRY(run_mode(s));
    return finish(s);
}

static mega_status run_on(mega_world *world, mega_config *cfg)
{
    session s = {.cfg = cfg, .world = world};
    const mega_status st = run(&s);
    mega_writer_abandon(s.genfile);
    mega_writer_abandon(s.sample_file);
    mega_generator_destroy(s.generator);
    mega_loaded_close(&s.loaded);
    return st;
}

int mega_command_generate_samples_gpt(int argc, char **argv)
{
    return mega_cli_on_ranks("generate_samples_gpt", argc, argv, run_on);
}
