/* The fields of a request, with the names, defaults and checks of Megatron-LM's server. As there, a request that is none
 * is answered with status 400, and a value that is refused with status 200 and the reason in place of an answer. */
#include "server.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define AS_TEXT(x)   #x
#define IN_DIGITS(x) AS_TEXT(x)

/* The reading of one request: stops at the first mistake. */
typedef struct reading {
    const json_t *body;
    char *message;
    size_t bytes;
    bool failed;
} reading;

static void wrong(reading *r, const char *field, const char *expected)
{
    if (!r->failed) snprintf(r->message, r->bytes, "%s: expected %s", field, expected);
    r->failed = true;
}

/* NULL: not given, also where it is null. */
static const json_t *value_of(const reading *r, const char *field)
{
    const json_t *v = json_object_get(r->body, field);
    return json_is_null(v) ? NULL : v;
}

static void read_flag(reading *r, const char *field, bool *out)
{
    const json_t *v = value_of(r, field);
    if (v == NULL) return;
    if (!json_is_boolean(v)) wrong(r, field, "true or false");
    *out = json_is_true(v);
}

static void read_whole(reading *r, const char *field, int64_t least, int64_t most, const char *expected, int64_t *out)
{
    const json_t *v = value_of(r, field);
    if (v == NULL) return;
    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most) wrong(r, field, expected);
    *out = json_integer_value(v);
}

/* A number with or without a point: Megatron refuses 1 where it means 1.0, for no reason that a client could want. */
static void read_number(reading *r, const char *field, double least, double most, const char *expected, double *out)
{
    const json_t *v = value_of(r, field);
    if (v == NULL) return;
    const double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(x >= least && x <= most)) wrong(r, field, expected);
    *out = x;
}

static bool is_given(const reading *r, const char *field)
{
    return value_of(r, field) != NULL;
}

/* What is answered with status 400. */
static bool read_prompts(reading *r, server_request *out)
{
    const json_t *list = value_of(r, "prompts");
    size_t i;
    json_t *item;
    if (!json_is_object(r->body)) wrong(r, "the request", "a JSON object with \"prompts\"");
    else if (list == NULL)
        wrong(r, "prompts", "a list of texts; it is missing");
    else if (is_given(r, "max_len"))
        wrong(r, "max_len", "tokens_to_generate instead");
    else if (is_given(r, "sentences"))
        wrong(r, "sentences", "prompts instead");
    else if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > SERVER_PROMPTS)
        wrong(r, "prompts", "a list of 1 to 128 texts");
    if (r->failed) return false;
    json_array_foreach(list, i, item)
    {
        out->prompt[i] = json_string_value(item);
        if (out->prompt[i] == NULL) wrong(r, "prompts", "texts alone");
    }
    out->prompts = (int)json_array_size(list);
    return !r->failed;
}

static void read_drawing(reading *r, server_request *q)
{
    read_number(r, "temperature", 1e-6, 100, "a number above 0, at most 100", &q->temperature);
    read_whole(r, "top_k", 0, 1000, "0 to 1000", &q->top_k);
    read_number(r, "top_p", 0, 1, "a number from 0 to 1", &q->top_p);
    if (q->top_k > 0 && q->top_p > 0) wrong(r, "top_p", "not to be given with top_k");
    read_number(r, "top_p_decay", 0, 1, "a number from 0 to 1", &q->top_p_decay);
    if (q->top_p_decay > 0 && q->top_p == 0) wrong(r, "top_p_decay", "top_p beside it");
    if (is_given(r, "top_p_bound") && q->top_p == 0) wrong(r, "top_p_bound", "top_p beside it");
    read_number(r, "top_p_bound", 1e-9, q->top_p, "a number above 0, at most top_p", &q->top_p_bound);
    read_whole(r, "random_seed", 0, UINT32_MAX, "a number from 0 to 4294967295", &q->random_seed);
}

static void read_beams(reading *r, server_request *q)
{
    read_whole(r, "beam_width", 1, MEGA_CLI_MOST_BATCH, "a number of beams, 1 to " IN_DIGITS(MEGA_CLI_MOST_BATCH),
               &q->beam_width);
    if (q->beam_width > 0 && q->prompts > 1) wrong(r, "beam_width", "one prompt only");
    if (q->beam_width > 0 && q->tokens_to_generate == 0) wrong(r, "beam_width", "tokens_to_generate of 1 or more");
    read_whole(r, "stop_token", 0, INT32_MAX, "an id", &q->stop_token);
    read_number(r, "length_penalty", -100, 100, "a number", &q->length_penalty);
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
    if (out->tokens_to_generate == 0 && !out->logprobs) wrong(&r, "tokens_to_generate", "logprobs with 0 tokens");
    read_drawing(&r, out);
    read_flag(&r, "add_BOS", &out->add_bos);
    for (int i = 0; i < out->prompts; i++)
        if (out->prompt[i][0] == '\0' && !out->add_bos) wrong(&r, "prompts", "add_BOS with an empty text");
    read_flag(&r, "stop_on_double_eol", &out->stop_on_double_eol);
    read_flag(&r, "stop_on_eol", &out->stop_on_eol);
    read_flag(&r, "prevent_newline_after_colon", &out->prevent_newline_after_colon);
    read_flag(&r, "no_log", &out->no_log);
    read_beams(&r, out);
    return r.failed ? message : NULL;
}
