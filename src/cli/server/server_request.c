/* The fields of a request, with the names, defaults and checks of Megatron-LM's server. As there, a request that is
 * none is answered with status 400, and a value that is refused with status 200 and the reason in place of an
 * answer. */
#include "server.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define AS_TEXT(x)   #x
#define IN_DIGITS(x) AS_TEXT(x)

/* The reading of one request: stops at the first mistake. */
typedef struct reading {
    const json_t *body;
    char *message;
    size_t bytes;
    bool failed;
} reading;

static void request_mistake(reading *r, const char *field, const char *expected)
{
    if (!r->failed) snprintf(r->message, r->bytes, "%s: expected %s", field, expected);
    r->failed = true;
}

/* NULL: not given, also where it is null. */
static const json_t *request_value(const reading *r, const char *field)
{
    const json_t *v = json_object_get(r->body, field);
    return json_is_null(v) ? NULL : v;
}

static void read_flag(reading *r, const char *field, bool *out)
{
    const json_t *v = request_value(r, field);
    if (v == NULL) return;
    if (!json_is_boolean(v)) request_mistake(r, field, "true or false");
    *out = json_is_true(v);
}

static void read_whole(reading *r, const char *field, int64_t least, int64_t most, const char *expected, int64_t *out)
{
    const json_t *v = request_value(r, field);
    if (v == NULL) return;
    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most)
        request_mistake(r, field, expected);
    *out = json_integer_value(v);
}

/* A number with or without a point: Megatron refuses 1 where it means 1.0, for no reason that a client could want. */
static void read_number(reading *r, const char *field, double least, double most, const char *expected, double *out)
{
    const json_t *v = request_value(r, field);
    if (v == NULL) return;
    const double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(x >= least && x <= most)) request_mistake(r, field, expected);
    *out = x;
}

static bool is_given(const reading *r, const char *field)
{
    return request_value(r, field) != NULL;
}

static const char *const known[] = {"prompts",
                                    "tokens_to_generate",
                                    "logprobs",
                                    "temperature",
                                    "top_k",
                                    "top_p",
                                    "top_p_decay",
                                    "top_p_bound",
                                    "add_BOS",
                                    "stop_on_eol",
                                    "stop_on_double_eol",
                                    "prevent_newline_after_colon",
                                    "random_seed",
                                    "no_log",
                                    "beam_width",
                                    "stop_token",
                                    "length_penalty"};

/* What other servers call the same. */
static const char *const foreign[][2] = {{"max_tokens", "tokens_to_generate"},
                                         {"max_len", "tokens_to_generate"},
                                         {"sentences", "prompts"},
                                         {"max_new_tokens", "tokens_to_generate"},
                                         {"max_completion_tokens", "tokens_to_generate"},
                                         {"max_length", "tokens_to_generate"},
                                         {"n_predict", "tokens_to_generate"},
                                         {"prompt", "prompts"},
                                         {"inputs", "prompts"},
                                         {"input", "prompts"},
                                         {"text", "prompts"},
                                         {"messages", "prompts"},
                                         {"seed", "random_seed"},
                                         {"num_beams", "beam_width"},
                                         {"best_of", "beam_width"},
                                         {"stop", "stop_token"},
                                         {"eos_token_id", "stop_token"}};

/* Returns how many letters have to be changed, added or left out, in any case. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 48 };
    size_t row[LONGEST + 1], before, up;
    const size_t n = strlen(b);
    if (strlen(a) > LONGEST || n > LONGEST) return SIZE_MAX;
    for (size_t k = 0; k <= n; k++) row[k] = k;
    for (size_t i = 0; a[i] != '\0'; i++) {
        before = row[0]++;
        for (size_t k = 0; k < n; k++) {
            up = row[k + 1];
            const size_t changed = before + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[k]));
            const size_t added = 1 + (up < row[k] ? up : row[k]);
            row[k + 1] = changed < added ? changed : added;
            before = up;
        }
    }
    return row[n];
}

/* Returns the field that a client may have meant; NULL: none is near. */
static const char *nearest(const char *field)
{
    const char *found = NULL;
    size_t least = 1 + strlen(field) / 3;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strcasecmp(field, foreign[i][0]) == 0) return foreign[i][1];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t d = edit_distance(field, known[i]);
        if (d > least || (found != NULL && d == least)) continue;
        found = known[i];
        least = d;
    }
    return found;
}

static void list_known(char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "one of");
    for (size_t i = 0; i < sizeof known / sizeof *known && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s %s", i == 0 ? "" : ",", known[i]);
}

/* A field that is not read would leave its client with another text than it has asked for. */
static void read_names(reading *r)
{
    const char *field;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->body, field, value)
    {
        bool is_known = false;
        char shown[64], expected[400];
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) is_known = is_known || strcmp(field, known[i]) == 0;
        if (is_known) continue;
        const char *meant = nearest(field);
        if (meant != NULL) snprintf(expected, sizeof expected, "%s instead; there is no field of this name", meant);
        else
            list_known(expected, sizeof expected);
        int n = 60; /* bytes at the most, and no part of a character */
        while ((int)strlen(field) > n && n > 0 && ((unsigned char)field[n] & 0xC0) == 0x80) n--;
        snprintf(shown, sizeof shown, "%.*s", n, field);
        request_mistake(r, shown, expected);
        return;
    }
}

/* What is answered with status 400. */
static bool read_prompts(reading *r, server_request *out)
{
    const json_t *list = request_value(r, "prompts");
    size_t i;
    json_t *item;
    if (!json_is_object(r->body)) request_mistake(r, "the request", "a JSON object with \"prompts\"");
    else
        read_names(r);
    if (r->failed) return false;
    if (list == NULL) request_mistake(r, "prompts", "a list of texts; it is missing");
    else if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > SERVER_PROMPTS)
        request_mistake(r, "prompts", "a list of 1 to 128 texts");
    if (r->failed) return false;
    json_array_foreach(list, i, item)
    {
        out->prompt[i] = json_string_value(item);
        if (out->prompt[i] == NULL) request_mistake(r, "prompts", "texts alone");
    }
    out->prompts = (int)json_array_size(list);
    return !r->failed;
}

static void read_drawing(reading *r, server_request *q)
{
    read_number(r, "temperature", 1e-6, 100, "a number above 0, at most 100", &q->temperature);
    read_whole(r, "top_k", 0, 1000, "0 to 1000", &q->top_k);
    read_number(r, "top_p", 0, 1, "a number from 0 to 1", &q->top_p);
    if (q->top_k > 0 && q->top_p > 0) request_mistake(r, "top_p", "not to be given with top_k");
    read_number(r, "top_p_decay", 0, 1, "a number from 0 to 1", &q->top_p_decay);
    if (q->top_p_decay > 0 && q->top_p == 0) request_mistake(r, "top_p_decay", "top_p beside it");
    if (is_given(r, "top_p_bound") && q->top_p == 0) request_mistake(r, "top_p_bound", "top_p beside it");
    read_number(r, "top_p_bound", 1e-9, q->top_p, "a number above 0, at most top_p", &q->top_p_bound);
    read_whole(r, "random_seed", 0, UINT32_MAX, "a number from 0 to 4294967295", &q->random_seed);
}

static void read_beams(reading *r, server_request *q)
{
    read_whole(r, "beam_width", 1, MEGA_CLI_MOST_BATCH, "a number of beams, 1 to " IN_DIGITS(MEGA_CLI_MOST_BATCH),
               &q->beam_width);
    if (q->beam_width > 0 && q->prompts > 1) request_mistake(r, "beam_width", "one prompt only");
    if (q->beam_width > 0 && q->tokens_to_generate == 0)
        request_mistake(r, "beam_width", "tokens_to_generate of 1 or more");
    read_whole(r, "stop_token", 0, INT32_MAX, "an id", &q->stop_token);
    read_number(r, "length_penalty", -100, 100, "a number", &q->length_penalty);
}

/* What draws or ends a text has no effect on beams, nor what directs beams on a text without them: the client would get
 * another text than it has asked for. A value that says what is done anyway is accepted. */
static void read_effects(reading *r, const server_request *q)
{
    const struct {
        const char *field;
        bool is_set;
    } drawn[] = {{"temperature", q->temperature != 1},
                 {"top_k", q->top_k > 0},
                 {"top_p", q->top_p > 0},
                 {"random_seed", q->random_seed >= 0},
                 {"logprobs", q->logprobs},
                 {"stop_on_eol", q->stop_on_eol},
                 {"stop_on_double_eol", q->stop_on_double_eol}},
      searched[] = {{"stop_token", q->stop_token >= 0}, {"length_penalty", q->length_penalty != 1}};
    for (size_t i = 0; q->beam_width > 0 && i < sizeof drawn / sizeof *drawn; i++)
        if (drawn[i].is_set) request_mistake(r, drawn[i].field, "no beam_width beside it; it has no effect on beams");
    for (size_t i = 0; q->beam_width == 0 && i < sizeof searched / sizeof *searched; i++)
        if (searched[i].is_set)
            request_mistake(r, searched[i].field, "beam_width beside it; without beams it has no effect");
}

const char *server_request_read(const json_t *body, server_request *out, int *http, char *message, size_t bytes)
{
    reading r = {.body = body, .message = message, .bytes = bytes};
    *out = (server_request){
        .tokens_to_generate = 64, .temperature = 1, .length_penalty = 1, .random_seed = -1, .stop_token = -1};
    *http = 400;
    if (!read_prompts(&r, out)) return message;
    *http = 200;
    read_whole(&r, "tokens_to_generate", 0, INT32_MAX, "a number of tokens, 0 or more", &out->tokens_to_generate);
    read_flag(&r, "logprobs", &out->logprobs);
    if (out->tokens_to_generate == 0 && !out->logprobs)
        request_mistake(&r, "tokens_to_generate", "logprobs with 0 tokens");
    read_drawing(&r, out);
    read_flag(&r, "add_BOS", &out->add_bos);
    for (int i = 0; i < out->prompts; i++)
        if (out->prompt[i][0] == '\0' && !out->add_bos) request_mistake(&r, "prompts", "add_BOS with an empty text");
    read_flag(&r, "stop_on_double_eol", &out->stop_on_double_eol);
    read_flag(&r, "stop_on_eol", &out->stop_on_eol);
    read_flag(&r, "prevent_newline_after_colon", &out->prevent_newline_after_colon);
    read_flag(&r, "no_log", &out->no_log);
    read_beams(&r, out);
    if (r.failed) return message;
    read_effects(&r, out);
    if (r.failed) *http = 400;
    return r.failed ? message : NULL;
}
