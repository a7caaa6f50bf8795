/* Writes metrics files, and removes the rows that a resumed run writes again. */
#include "megalith/append.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "metrics_impl.h"

#include "megalith/json.h"
#include <inttypes.h>
#include <string.h>

struct mega_metrics {
    mega_outbox *box;
    mega_buffer row;
    char *run;       /* NULL: rows have no run id */
    int64_t through; /* rows of this run after this iteration are written again */
    bool is_cut;     /* the rows that are written again have been removed */
};

/* Every row begins like this; a kill may leave only a part of it. */
#define ROW_START "{\"iteration\": "
#define QUOTED    40 /* bytes quoted of a line that is not ours */

static mega_status look_for_row(const char *line, size_t bytes, bool *is_row)
{
    json_error_t error;
    json_t *row = mega_json_load(line, bytes, 0, &error);
    const mega_status st = row == NULL ? mega_json_status(&error) : MEGA_OK;
    *is_row = json_is_integer(json_object_get(row, "iteration"));
    json_decref(row);
    return st == MEGA_ERR_MEMORY ? MEGA_FAIL(st, "no memory for the first row of a metrics file") : MEGA_OK;
}

/* A file of notes or data, given by mistake, must not be cut. Blank lines may be dropped. */
static mega_status check_first(const char *path, const char *text, size_t size)
{
    const char *line = text + strspn(text, " \t\r\n");
    const size_t left = size - (size_t)(line - text), start = sizeof ROW_START - 1;
    const char *end = memchr(line, '\n', left);
    const size_t bytes = end != NULL ? (size_t)(end - line) : left;
    bool is_row;
    int shown = 0;
    MEGA_TRY(look_for_row(line, bytes, &is_row));
    if (left == 0 || is_row) return MEGA_OK;
    if (end == NULL && memcmp(line, ROW_START, left < start ? left : start) == 0) return MEGA_OK;
    while (shown < QUOTED && (size_t)shown < bytes && line[shown] >= ' ' && line[shown] <= '~') shown++;
    return MEGA_FAIL(
        MEGA_ERR_FORMAT,
        "--metrics-file %s: its first line is not a row of metrics: found \"%.*s%s\", expected a JSON object "
        "with \"iteration\", as an earlier run writes it; the file was not changed. Give another name, or move "
        "that file away",
        path, shown, line, (size_t)shown < bytes ? "…" : "");
}

mega_status mega_metrics_check(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    if (!mega_file_is_regular(path)) return MEGA_OK;
    MEGA_TRY(mega_file_read_kind(path, "metrics", MEGA_KIND_TABLE, &text, &size));
    const mega_status st = check_first(path, text, size);
    mega_free(text);
    return st;
}

typedef struct keeper {
    const char *run;
    int64_t through, dropped;
    mega_buffer kept;
} keeper;

bool mega_metrics_is_of_run(const json_t *row, const char *run)
{
    const char *of = json_string_value(json_object_get(row, "run"));
    return of == NULL ? run == NULL : run != NULL && strcmp(of, run) == 0;
}

/* Decides whether the run will write this row again. A last line without an end is either half a row left by a kill, or
 * a whole row in a file that somebody edited. */
static mega_status judge_line(keeper *k, const char *line, size_t bytes, bool has_end)
{
    json_error_t error;
    json_t *row = mega_json_load(line, bytes, 0, &error);
    if (row == NULL && mega_json_status(&error) == MEGA_ERR_MEMORY)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a row of a metrics file");
    const json_t *iteration = json_object_get(row, "iteration");
    const bool is_row = json_is_integer(iteration);
    const bool is_again = is_row && mega_metrics_is_of_run(row, k->run) && k->through != MEGA_METRICS_KEEP_ALL &&
                          (json_integer_value(iteration) > k->through || json_is_true(json_object_get(row, "final")));
    json_decref(row);
    k->dropped += is_again;
    if (is_again || (!is_row && !has_end)) return MEGA_OK;
    mega_buffer_append(&k->kept, line, bytes);
    if (!has_end) mega_buffer_puts(&k->kept, "\n");
    return MEGA_OK;
}

static mega_status keep_rows(keeper *k, const char *text, size_t size, const char *path)
{
    for (size_t at = 0, bytes; at < size; at += bytes) {
        const char *end = memchr(text + at, '\n', size - at);
        bytes = end != NULL ? (size_t)(end + 1 - text) - at : size - at;
        MEGA_TRY(judge_line(k, text + at, bytes, end != NULL));
    }
    return mega_buffer_check(&k->kept, path);
}

static mega_status cut_rows_of(const mega_metrics *m, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    keeper k = {.run = m->run, .through = m->through};
    MEGA_TRY(mega_file_read_kind(path, "metrics", MEGA_KIND_TABLE, &text, &size));
    mega_status st = check_first(path, text, size);
    if (st == MEGA_OK) st = keep_rows(&k, text, size, path);
    mega_free(text);
    if (st == MEGA_OK && k.kept.size != size) {
        st = mega_file_write_atomic(path, k.kept.data != NULL ? k.kept.data : "", k.kept.size);
        if (st == MEGA_OK && k.dropped > 0)
            mega_info("metrics file %s: %" PRId64 " row%s of this run after iteration %" PRId64
                      " removed: this run writes %s again",
                      path, k.dropped, k.dropped == 1 ? "" : "s", m->through, k.dropped == 1 ? "it" : "them");
    }
    mega_buffer_fini(&k.kept);
    return st;
}

/* Everything else in the file stays, in particular rows of other runs, which may be appending. */
static mega_status cut_rows(const mega_metrics *m)
{
    const char *path = mega_outbox_path(m->box);
    int held;
    if (!mega_file_is_regular(path)) return MEGA_OK; /* no file, or a pipe */
    MEGA_TRY(mega_append_exclude(&held, path));
    const mega_status st = cut_rows_of(m, path);
    mega_append_admit(held);
    return st;
}

static void free_metrics(mega_metrics *m)
{
    mega_outbox_close(m->box);
    mega_buffer_fini(&m->row);
    MEGA_FREE(m->run, m);
}

mega_status mega_metrics_open(const char *path, const char *run, int64_t keep_through_iteration, mega_metrics **out)
{
    MEGA_TRY(mega_folder_create_for(path));
    MEGA_TRY(mega_metrics_check(path));
    mega_metrics *m = mega_calloc(1, sizeof *m);
    if (m == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--metrics-file %s: no memory for its writer", path);
    m->through = keep_through_iteration;
    m->run = run != NULL ? mega_strdup(run) : NULL;
    mega_status st = run == NULL || m->run != NULL
                         ? mega_outbox_create(path, NULL, 0, &m->box)
                         : MEGA_FAIL(MEGA_ERR_MEMORY, "--metrics-file %s: no memory for its writer", path);
    if (st == MEGA_OK) *out = m;
    else
        free_metrics(m);
    return st;
}

static void put_value(mega_buffer *b, const mega_metric *v)
{
    switch (v->kind) {
    case MEGA_METRIC_INT: mega_buffer_printf(b, "%" PRId64, v->i); break;
    case MEGA_METRIC_FLOAT: mega_buffer_json_float(b, (float)v->x); break;
    case MEGA_METRIC_DOUBLE: mega_buffer_json_double(b, v->x); break;
    case MEGA_METRIC_TEXT: mega_buffer_json_string(b, v->text); break;
    case MEGA_METRIC_BOOL: mega_buffer_puts(b, v->i != 0 ? "true" : "false"); break;
    }
}

static void put_member(mega_buffer *b, const mega_metric *v)
{
    mega_buffer_puts(b, b->size > 0 ? ", " : "{");
    mega_buffer_json_string(b, v->key);
    mega_buffer_puts(b, ": ");
    put_value(b, v);
}

/* The file stays as the run found it until there is a row to write. */
static mega_status metrics_flush(mega_metrics *m)
{
    if (!m->is_cut) MEGA_TRY(cut_rows(m));
    m->is_cut = true;
    return mega_outbox_flush(m->box);
}

mega_status mega_metrics_row(mega_metrics *m, const mega_metric *values, int count)
{
    const int64_t iteration = count > 0 ? values[0].i : 0;
    m->row.size = 0;
    m->row.failed = false;
    for (int i = 0; i < count; i++) put_member(&m->row, &values[i]);
    if (m->run != NULL) put_member(&m->row, &(mega_metric){.key = "run", .kind = MEGA_METRIC_TEXT, .text = m->run});
    mega_buffer_puts(&m->row, m->row.size > 0 ? "}\n" : "{}\n");
    MEGA_TRY(mega_buffer_check(&m->row, mega_outbox_path(m->box)));
    MEGA_TRY(mega_outbox_put(m->box, iteration, iteration, m->row.data, m->row.size));
    return metrics_flush(m);
}

mega_status mega_metrics_sync(mega_metrics *m)
{
    if (!m->is_cut && mega_outbox_missing(m->box).pieces == 0) return MEGA_OK; /* no row yet */
    MEGA_TRY(metrics_flush(m));
    return mega_outbox_sync(m->box);
}

mega_status mega_metrics_close(mega_metrics *m, mega_missing *missing)
{
    *missing = (mega_missing){0};
    if (m == NULL) return MEGA_OK;
    const mega_status st = mega_metrics_sync(m);
    *missing = mega_outbox_missing(m->box);
    free_metrics(m);
    return st;
}

mega_missing mega_metrics_missing(const mega_metrics *m)
{
    return mega_outbox_missing(m->box);
}
