/* Generates what a request asks for, and writes the answer. */
#include "generate.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include "server.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 512, SUNK_EVERY = 8 };

/* One request under way; its memory is in the arena. */
typedef struct job {
    server *s;
    server_request q;
    mega_arena arena;
    mega_generation text[SERVER_PROMPTS];
    mega_beam_text *beam;
    int beams;
    char message[MESSAGE]; /* why it is refused; "" while it is not */
    int http;
} job;

static void refuse_job(job *j, int http, const char *why)
{
    snprintf(j->message, sizeof j->message, "%s", why);
    j->http = http;
}

/* ---- prompts ---- */

static mega_status answer_encode_prompt(const job *j, const char *prompt, mega_ids *out)
{
    const mega_loaded *l = &j->s->loaded;
    if (j->q.add_bos) {
        MEGA_TRY(mega_ids_reserve(out, 1));
        out->id[out->count++] = mega_tokenizer_eod(l->tokenizer);
    }
    if (prompt[0] == '\0') return MEGA_OK;
    return mega_encoder_encode_special(l->encoder, prompt, strlen(prompt), out);
}

static mega_status answer_take_prompt(job *j, int i)
{
    mega_ids ids = {0};
    mega_status st = answer_encode_prompt(j, j->q.prompt[i], &ids);
    int32_t *copy = st == MEGA_OK ? mega_arena_alloc(&j->arena, (size_t)(ids.count + 1) * sizeof *copy) : NULL;
    if (copy != NULL && ids.count > 0) memcpy(copy, ids.id, (size_t)ids.count * sizeof *copy);
    j->text[i] = (mega_generation){.prompt = copy, .prompt_count = ids.count};
    mega_ids_fini(&ids);
    if (st == MEGA_OK && copy == NULL) return MEGA_NO_MEMORY("server", "a prompt");
    if (st == MEGA_ERR_MEMORY) return st;
    if (st != MEGA_OK) refuse_job(j, 200, mega_error_message()); /* a character that the vocabulary has not */
    return MEGA_OK;
}

static mega_status take_prompts(job *j)
{
    if (j->q.add_bos && mega_tokenizer_eod(j->s->loaded.tokenizer) < 0)
        refuse_job(j, 200, "add_BOS: the tokenizer has no end-of-document id");
    for (int i = 0; i < j->q.prompts && j->message[0] == '\0'; i++) MEGA_TRY(answer_take_prompt(j, i));
    return MEGA_OK;
}

/* As in Megatron all texts end at the same position, so that one with a shorter prompt gets more new tokens; and top_p
 * decays from the first new token of the shortest prompt on. */
static mega_status give_room(job *j)
{
    int64_t longest = 0, shortest = INT64_MAX;
    const int64_t wanted = j->q.tokens_to_generate;
    for (int i = 0; i < j->q.prompts; i++) {
        const int64_t n = j->text[i].prompt_count;
        longest = n > longest ? n : longest;
        shortest = n < shortest ? n : shortest;
    }
    if (wanted > j->s->positions - longest) {
        snprintf(j->message, sizeof j->message,
                 "tokens_to_generate: %lld after a prompt of %lld tokens; the model has %lld positions",
                 (long long)wanted, (long long)longest, (long long)j->s->positions);
        return MEGA_OK;
    }
    for (int i = 0; i < j->q.prompts; i++) {
        mega_generation *t = &j->text[i];
        t->max_new = wanted > 0 ? longest - t->prompt_count + wanted : 0;
        t->drawn = t->prompt_count - shortest;
        t->index = j->q.random_seed >= 0 ? (uint64_t)i : j->s->next_index++;
        t->tokens = mega_arena_alloc(&j->arena, (size_t)(t->max_new + 1) * sizeof *t->tokens);
        if (j->q.logprobs)
            t->logprobs = mega_arena_alloc(&j->arena, (size_t)(t->prompt_count + t->max_new) * sizeof *t->logprobs);
        if (t->tokens == NULL || (j->q.logprobs && t->logprobs == NULL)) return MEGA_NO_MEMORY("server", "a text");
    }
    return MEGA_OK;
}

/* ---- generation ---- */

/* The clock of the first rank counts: all ranks must give up at the same token. */
static bool answer_continues(server *s)
{
    int32_t is_late = mega_time_now() > s->ends_at;
    if (++s->sunk % SUNK_EVERY != 0) return true;
    if (mega_comm_broadcast(mega_world_comm(s->world), "time of a request", &is_late, (int64_t)sizeof is_late, 0) !=
        MEGA_OK)
        return false;
    s->is_late = is_late != 0;
    return !s->is_late;
}

static bool on_token(void *user, int row, int32_t token)
{
    (void)row;
    (void)token;
    return answer_continues(user);
}

static bool on_step(void *user)
{
    return answer_continues(user);
}

static mega_sampling sampling_of(const job *j)
{
    const server_request *q = &j->q;
    const mega_tokenizer *t = j->s->loaded.tokenizer;
    const int64_t own = j->s->cfg->train.engine.seed;
    return (mega_sampling){.temperature = q->temperature,
                           .top_k = q->top_k,
                           .top_p = q->top_p,
                           .top_p_decay = q->top_p_decay,
                           .top_p_bound = q->top_p_bound,
                           .seed = (uint32_t)(q->random_seed >= 0 ? q->random_seed : own),
                           .forbids = q->prevent_newline_after_colon,
                           .forbidden = mega_tokenizer_find(t, "\n", 1),
                           .forbidden_after = mega_tokenizer_find(t, ":", 1)};
}

static mega_status draw_texts(job *j)
{
    server *s = j->s;
    generate_ends ends;
    mega_generation_rules rules = {.sampling = sampling_of(j), .token = on_token, .user = s};
    generate_ends_make(&s->loaded, -1, j->q.stop_on_eol, j->q.stop_on_double_eol, &ends, &rules);
    for (int64_t first = 0; first < j->q.prompts && !s->is_late; first += s->batch) {
        const int64_t left = j->q.prompts - first;
        MEGA_TRY(mega_generator_run(s->generator, j->text + first, (int)(left < s->batch ? left : s->batch), &rules));
    }
    return MEGA_OK;
}

static mega_status search_texts(job *j)
{
    const mega_sampling drawing = sampling_of(j);
    const int64_t width = j->q.beam_width, vocab = j->s->loaded.model.shape.vocab;
    const mega_generation *t = &j->text[0];
    generate_ends ends;
    mega_generation_rules rules = {.num_ends = 0};
    generate_ends_make(&j->s->loaded, (int32_t)j->q.stop_token, false, false, &ends, &rules);
    const mega_beam_options o = {.width = (int)width,
                                 .length_penalty = j->q.length_penalty,
                                 .stop = ends.stop[0],
                                 .more_stops = ends.stop + 1,
                                 .num_more_stops = ends.num_stops - 1,
                                 .forbids = drawing.forbids,
                                 .forbidden = drawing.forbidden,
                                 .forbidden_after = drawing.forbidden_after,
                                 .step = on_step,
                                 .user = j->s};
    if (j->q.stop_token >= vocab) {
        snprintf(j->message, sizeof j->message, "stop_token: expected an id below %lld", (long long)vocab);
        return MEGA_OK;
    }
    if (width > j->s->batch || (1 + ends.num_stops) * width > vocab) {
        snprintf(j->message, sizeof j->message,
                 "beam_width: at most %lld here (--num-beams of the server), and half of the %lld ids of the model",
                 (long long)j->s->batch, (long long)vocab);
        return MEGA_OK;
    }
    j->beam = mega_arena_alloc(&j->arena, (size_t)width * sizeof *j->beam);
    int32_t *tokens = mega_arena_alloc(&j->arena, (size_t)(width * t->max_new) * sizeof *tokens);
    if (j->beam == NULL || tokens == NULL) return MEGA_NO_MEMORY("server", "beams");
    for (int64_t i = 0; i < width; i++) j->beam[i].tokens = tokens + i * t->max_new;
    return mega_generator_beams(j->s->generator, t->prompt, t->prompt_count, t->max_new, &o, j->beam, &j->beams);
}

/* ---- the answer ---- */

/* Appends a text, and its tokens one by one, to the lists of the answer. Returns false when memory is short. */
static bool answer_put_text(const job *j, const mega_generation *t, const int32_t *fresh, int64_t count, json_t *texts,
                            json_t *segments)
{
    const mega_tokenizer *tokenizer = j->s->loaded.tokenizer;
    mega_buffer raw = {0}, text = {0};
    json_t *row = json_array();
    bool is_done = row != NULL;
    for (int64_t i = 0; is_done && i < t->prompt_count + count; i++) {
        const int32_t id = i < t->prompt_count ? t->prompt[i] : fresh[i - t->prompt_count];
        const size_t at = raw.size;
        text.size = 0;
        is_done = mega_tokenizer_piece(tokenizer, id, &raw) == MEGA_OK &&
                  generate_append_utf8(&text, raw.data + at, raw.size - at) == MEGA_OK &&
                  json_array_append_new(row, json_stringn(text.size > 0 ? text.data : "", text.size)) == 0;
    }
    text.size = 0;
    is_done = is_done && generate_append_utf8(&text, raw.data, raw.size) == MEGA_OK &&
              json_array_append_new(texts, json_stringn(text.size > 0 ? text.data : "", text.size)) == 0 &&
              json_array_append(segments, row) == 0;
    json_decref(row);
    mega_buffer_fini(&raw);
    mega_buffer_fini(&text);
    return is_done;
}

static bool put_logprobs(const mega_generation *t, json_t *rows)
{
    json_t *row = json_array();
    bool is_done = row != NULL;
    for (int64_t i = 0; is_done && i < t->prompt_count - 1 + t->count; i++)
        is_done = json_array_append_new(row, json_real((double)t->logprobs[i])) == 0;
    return json_array_append_new(rows, row) == 0 && is_done;
}

static json_t *whole_answer(const job *j)
{
    json_t *texts = json_array(), *segments = json_array(), *numbers = json_array();
    bool is_done = texts != NULL && segments != NULL && numbers != NULL;
    for (int i = 0; is_done && i < j->beams; i++)
        is_done = answer_put_text(j, &j->text[0], j->beam[i].tokens, j->beam[i].count, texts, segments) &&
                  json_array_append_new(numbers, json_real(j->beam[i].score)) == 0;
    for (int i = 0; is_done && j->beam == NULL && i < j->q.prompts; i++)
        is_done = answer_put_text(j, &j->text[i], j->text[i].tokens, j->text[i].count, texts, segments) &&
                  (!j->q.logprobs || put_logprobs(&j->text[i], numbers));
    const char *last = j->beam != NULL ? "scores" : "logprobs";
    if (is_done && (j->beam != NULL || j->q.logprobs))
        return json_pack("{s:o, s:o, s:o}", "text", texts, "segments", segments, last, numbers);
    json_decref(numbers);
    if (is_done) return json_pack("{s:o, s:o, s:n}", "text", texts, "segments", segments, last);
    json_decref(texts);
    json_decref(segments);
    return NULL;
}

static mega_status write_answer(const job *j, char **json, int *http)
{
    json_t *tree = j->message[0] != '\0' ? json_string(j->message) : whole_answer(j);
    char *text = tree == NULL ? NULL : mega_json_dump(tree, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(tree);
    if (text == NULL) return MEGA_NO_MEMORY("server", "an answer");
    *json = text;
    *http = j->message[0] != '\0' ? j->http : 200;
    return MEGA_OK;
}

static mega_status run_job(job *j)
{
    server *s = j->s;
    MEGA_TRY(take_prompts(j));
    if (j->message[0] == '\0') MEGA_TRY(give_room(j));
    const mega_status st = j->message[0] != '\0' ? MEGA_OK : j->q.beam_width > 0 ? search_texts(j) : draw_texts(j);
    if (st == MEGA_ERR_NUMERIC) refuse_job(j, 500, mega_error_message()); /* on all ranks */
    else
        MEGA_TRY(st);
    if (s->is_late) refuse_job(j, 503, "the request took too long (--max-request-seconds)");
    for (int i = 0; i < j->q.prompts; i++) s->tokens += j->text[i].count;
    for (int i = 0; i < j->beams; i++) s->tokens += j->beam[i].count; /* the text itself has none then */
    return MEGA_OK;
}

mega_status server_answer(server *s, const char *body, size_t bytes, char **json, int *http)
{
    json_error_t error;
    job *j = mega_calloc(1, sizeof *j);
    if (j == NULL) return MEGA_NO_MEMORY("server", "a request");
    j->s = s;
    j->http = 200;
    s->is_late = s->is_quiet = false;
    s->sunk = 0;
    s->ends_at = mega_time_now() + (double)s->cfg->server.max_request_seconds;
    json_t *tree = mega_json_load(body, bytes, JSON_REJECT_DUPLICATES, &error);
    mega_status st = MEGA_OK;
    if (tree == NULL) {
        snprintf(j->message, sizeof j->message, "the request is no JSON that can be read: line %d: %s", error.line,
                 error.text);
        j->http = 400;
    } else
        server_request_read(tree, &j->q, &j->http, j->message, sizeof j->message);
    s->is_quiet = j->q.no_log;
    if (j->message[0] == '\0') st = run_job(j);
    if (st == MEGA_OK) st = write_answer(j, json, http);
    json_decref(tree);
    mega_arena_fini(&j->arena);
    mega_free(j);
    return st;
}
