/* Writes an offline run of Weights & Biases. Its records are protocol buffers; the numbers of their fields are those of
 * wandb_internal.proto in its package. */
#include "megalith/wandb.h"
#include "megalith/json.h"
#include "megalith/process.h"
#include "megalith/threads.h"
#include "wandb_files.h"
#include "wandb_log.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Record: fields of the kinds used here. */
enum { OF_HISTORY = 2, OF_SUMMARY = 3, OF_RUN = 17, OF_EXIT = 18, OF_HEADER = 21, OF_ENVIRONMENT = 26, OF_INFO = 200 };
enum { VALUE_JSON = 16 };

static mega_status wandb_put_record(mega_wandb *w, unsigned kind, mega_buffer *body)
{
    mega_buffer *r = &w->record;
    r->size = 0;
    r->failed = false;
    proto_put_int(r, 1, (uint64_t)++w->records);
    proto_put_message(r, kind, body);
    proto_put_text(&w->inner, 1, w->id); /* the stream is the run */
    proto_put_message(r, OF_INFO, &w->inner);
    MEGA_TRY(mega_buffer_check(r, w->folder));
    return wandb_log_put(w->log, w->step, r);
}

/* Item { 1 key, 16 value_json } as field 1 of body. */
static void put_item(mega_wandb *w, mega_buffer *body, const char *key, const char *value)
{
    proto_put_text(&w->inner, 1, key);
    proto_put_text(&w->inner, VALUE_JSON, value);
    proto_put_message(body, 1, &w->inner);
}

static void wandb_put_number(mega_wandb *w, mega_buffer *body, const char *key, double x)
{
    w->text.size = 0;
    if (isnan(x)) mega_buffer_puts(&w->text, "NaN"); /* as its package spells them */
    else if (isinf(x))
        mega_buffer_puts(&w->text, x > 0 ? "Infinity" : "-Infinity");
    else if (x == floor(x) && fabs(x) < 1e15)
        mega_buffer_printf(&w->text, "%.0f", x);
    else
        mega_buffer_json_double(&w->text, x);
    put_item(w, body, key, w->text.data);
}

/* Timestamp { 1 seconds, 2 nanos } */
static void put_time(mega_buffer *body, unsigned field, mega_buffer *inner, double at)
{
    const double whole = floor(at);
    proto_put_int(inner, 1, (uint64_t)whole);
    proto_put_int(inner, 2, (uint64_t)((at - whole) * 1e9));
    proto_put_message(body, field, inner);
}

static void put_given(mega_buffer *body, unsigned field, const char *text)
{
    if (text != NULL && text[0] != '\0') proto_put_text(body, field, text);
}

static mega_status wandb_put_header(mega_wandb *w)
{
    char build[MEGA_BUILD_ID_TEXT];
    mega_buffer *version = &w->inner, *body = &w->body;
    mega_build_id(build);
    mega_buffer_printf(&w->text, "megalith %s", build);
    proto_put_text(version, 1, w->text.data);
    proto_put_text(version, 2, "0.0.1"); /* any reader */
    proto_put_message(body, 1, version);
    return wandb_put_record(w, OF_HEADER, body);
}

static mega_status put_run(mega_wandb *w, const mega_wandb_run *run)
{
    char host[MEGA_HOST_BYTES];
    mega_buffer config = {0}, *body = &w->body;
    const char *key;
    json_t *value;
    json_object_foreach(run->config, key, value)
    {
        char *text = mega_json_dump(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (json_is_real(value)) wandb_put_number(w, &config, key, json_real_value(value)); /* the shortest digits */
        else if (text != NULL)
            put_item(w, &config, key, text);
        config.failed = config.failed || text == NULL;
        free(text);
    }
    mega_host_name(host);
    proto_put_text(body, 1, w->id);
    put_given(body, 2, run->team);
    put_given(body, 3, run->project);
    if (config.size > 0) proto_put_message(body, 4, &config);
    put_given(body, 6, run->group);
    put_given(body, 8, run->name);
    proto_put_text(body, 13, host);
    put_time(body, 17, &w->inner, w->began);
    body->failed = body->failed || config.failed;
    mega_buffer_fini(&config);
    return wandb_put_record(w, OF_RUN, body);
}

static mega_status put_environment(mega_wandb *w)
{
    wandb_machine m;
    mega_buffer *body = &w->body;
    wandb_machine_get(&m);
    proto_put_text(body, 1, m.os);
    put_time(body, 3, &w->inner, w->began);
    proto_put_text(body, 6, "megalith");
    proto_put_text(body, 12, m.host);
    proto_put_int(body, 16, (uint64_t)m.cores);
    proto_put_text(body, 199, w->id);
    return wandb_put_record(w, OF_ENVIRONMENT, body);
}

/* Returns the folder of the run; its name sorts by time, as those of the package. */
static char *run_folder(const char *folder, const char *id, double now)
{
    char when[32];
    const time_t seconds = (time_t)now;
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(when, sizeof when, "%Y%m%d_%H%M%S", &local);
    return mega_format("%s%swandb/offline-run-%s-%s", folder, folder[0] != '\0' ? "/" : "", when, id);
}

static mega_status open_log(mega_wandb *w)
{
    char *files = mega_format("%s/files", w->folder), *log = mega_format("%s/run-%s.wandb", w->folder, w->id);
    mega_status st =
        files != NULL && log != NULL ? mega_folder_create(files) : MEGA_NO_MEMORY(w->folder, "the paths of a run");
    if (st == MEGA_OK) st = wandb_log_create(log, &w->log);
    MEGA_FREE(files, log);
    return st;
}

static void free_run(mega_wandb *w)
{
    mega_buffer *const all[] = {&w->record, &w->body, &w->inner, &w->text, &w->row};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mega_buffer_fini(all[i]);
    for (int i = 0; i < w->keys; i++) mega_free(w->key[i].name);
    MEGA_FREE(w->folder, w);
}

mega_status mega_wandb_open(const mega_wandb_run *run, mega_wandb **out)
{
    char token[MEGA_TOKEN_BYTES];
    mega_wandb *w = mega_calloc(1, sizeof *w);
    if (w == NULL) return MEGA_NO_MEMORY("wandb", "a run");
    mega_token_make(token);
    memcpy(w->id, token, sizeof w->id - 1);
    w->began = run->now;
    w->folder = run_folder(run->folder != NULL ? run->folder : "", w->id, run->now);
    mega_status st = w->folder != NULL ? open_log(w) : MEGA_NO_MEMORY("wandb", "a run");
    if (st == MEGA_OK) st = wandb_put_header(w);
    if (st == MEGA_OK) st = put_run(w, run);
    if (st == MEGA_OK) st = put_environment(w);
    if (st == MEGA_OK) st = wandb_write_config(w, run->config);
    if (st == MEGA_OK) st = wandb_write_metadata(w);
    if (st == MEGA_OK) st = wandb_log_flush(w->log);
    if (st == MEGA_OK) {
        *out = w;
        return MEGA_OK;
    }
    (void)wandb_log_close(w->log);
    free_run(w);
    return st;
}

/* Returns the key's last value; NULL: there is no room or memory for another. */
static wandb_key *find_key(mega_wandb *w, const char *name)
{
    for (int i = 0; i < w->keys; i++)
        if (strcmp(w->key[i].name, name) == 0) return &w->key[i];
    if (w->keys == WANDB_KEYS) return NULL;
    wandb_key *k = &w->key[w->keys];
    k->name = mega_strdup(name);
    if (k->name == NULL) return NULL;
    w->keys++;
    return k;
}

/* Writes the values of the row: first as the summary so far, then as a row of the history. */
static mega_status write_row(mega_wandb *w)
{
    if (!w->has_row) return MEGA_OK;
    w->has_row = false;
    for (unsigned kind = OF_SUMMARY;; kind = OF_HISTORY) {
        mega_buffer *body = &w->row;
        body->size = 0;
        body->failed = false;
        for (int i = 0; i < w->keys; i++)
            if (w->key[i].is_in_row) wandb_put_number(w, body, w->key[i].name, w->key[i].value);
        wandb_put_number(w, body, "_step", (double)w->step);
        wandb_put_number(w, body, "_timestamp", w->at);
        wandb_put_number(w, body, "_runtime", w->at - w->began);
        if (kind == OF_SUMMARY) {
            MEGA_TRY(wandb_put_record(w, kind, body));
            continue;
        }
        for (int i = 0; i < w->keys; i++) w->key[i].is_in_row = false;
        proto_put_int(&w->inner, 1, (uint64_t)w->step);
        proto_put_message(body, 2, &w->inner);
        return wandb_put_record(w, kind, body);
    }
}

mega_status mega_wandb_put(mega_wandb *w, const char *key, double value, int64_t step, double now)
{
    if (w->has_row && step != w->step) MEGA_TRY(write_row(w));
    wandb_key *k = find_key(w, key);
    if (k == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "wandb: no room for the key \"%s\"; a run has at most %d", key, WANDB_KEYS);
    k->value = value;
    k->is_in_row = w->has_row = true;
    w->step = step;
    w->at = now;
    return MEGA_OK;
}

mega_status mega_wandb_flush(mega_wandb *w)
{
    MEGA_TRY(write_row(w));
    return wandb_log_flush(w->log);
}

const char *mega_wandb_folder(const mega_wandb *w)
{
    return w->folder;
}

mega_missing mega_wandb_missing(const mega_wandb *w)
{
    return wandb_log_missing(w->log);
}

/* RunExitRecord { 1 exit_code, 2 runtime } */
static mega_status wandb_write_end(mega_wandb *w, double now)
{
    MEGA_TRY(write_row(w));
    proto_put_int(&w->body, 1, 0);
    proto_put_int(&w->body, 2, (uint64_t)(now > w->began ? now - w->began : 0));
    MEGA_TRY(wandb_put_record(w, OF_EXIT, &w->body));
    return wandb_log_flush(w->log);
}

mega_status mega_wandb_close(mega_wandb *w, double now, mega_missing *missing)
{
    *missing = (mega_missing){0};
    if (w == NULL) return MEGA_OK;
    mega_status st = wandb_write_end(w, now);
    const mega_status summary = wandb_write_summary(w, now);
    if (st == MEGA_OK) st = summary;
    *missing = wandb_log_missing(w->log);
    const mega_status closed = wandb_log_close(w->log);
    if (st == MEGA_OK) st = closed;
    free_run(w);
    return st;
}
