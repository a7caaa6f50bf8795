/* Metrics files. */
#include "megalith/metrics.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include "megalith/json.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct mega_metrics {
    mega_writer *file;
    char *path;
    mega_buffer row;
};

/* Calls a function for each finished line. */
typedef mega_status on_row(void *user, json_t *row, const char *line, size_t bytes);

static mega_status each_row(const char *path, const char *text, size_t size, on_row *call, void *user)
{
    int64_t number = 1;
    for (const char *line = text; line < text + size; number++) {
        const char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end == NULL) break; /* a row that is not finished */
        const size_t bytes = (size_t)(end + 1 - line);
        json_error_t error;
        json_t *row = mega_json_load(line, bytes, 0, &error);
        mega_status st = MEGA_OK;
        if (json_is_object(row)) st = call(user, row, line, bytes);
        else if (strspn(line, " \t\r") + 1 < bytes)
            st = MEGA_FAIL(row == NULL ? mega_json_status(&error) : MEGA_ERR_FORMAT,
                           "%s: line %" PRId64 ": %s; expected a JSON object, as --metrics-file writes it", path,
                           number, row == NULL ? error.text : "no object");
        json_decref(row);
        if (st != MEGA_OK) return st;
        line = end + 1;
    }
    return MEGA_OK;
}

typedef struct keeper {
    mega_buffer kept;
    int64_t through, rows, dropped;
} keeper;

static mega_status keep_row(void *user, json_t *row, const char *line, size_t bytes)
{
    keeper *k = user;
    const json_t *iteration = json_object_get(row, "iteration");
    const bool stays = k->through == MEGA_METRICS_KEEP_ALL ||
                       (json_is_integer(iteration) && json_integer_value(iteration) <= k->through &&
                        !json_is_true(json_object_get(row, "final")));
    k->rows++;
    k->dropped += !stays;
    if (stays) mega_buffer_append(&k->kept, line, bytes);
    return MEGA_OK;
}

/* Rows begin so; of one that a kill cut, this much or less is left. */
#define ROW_START "{\"iteration\": "
#define QUOTED    40 /* bytes of a foreign line */

static mega_status look_for_row(const char *line, size_t bytes, bool *is_row)
{
    json_error_t error;
    json_t *row = mega_json_load(line, bytes, 0, &error);
    const mega_status st = row == NULL ? mega_json_status(&error) : MEGA_OK;
    *is_row = json_is_integer(json_object_get(row, "iteration"));
    json_decref(row);
    return st == MEGA_ERR_MEMORY ? MEGA_FAIL(st, "no memory for the first row of a metrics file") : MEGA_OK;
}

/* Somebody's notes or data, given by mistake, are not cut. Blank lines are nobody's. */
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
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "--metrics-file %s: its first line is no row of metrics: found \"%.*s%s\", expected a JSON object "
                     "with \"iteration\", as an earlier run writes it; nothing was changed: give another name, or move "
                     "that file away",
                     path, shown, line, (size_t)shown < bytes ? "…" : "");
}

mega_status mega_metrics_check(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    if (!mega_file_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_file_read(&text, &size, path));
    const mega_status st = check_first(path, text, size);
    mega_free(text);
    return st;
}

static mega_status cut_rows(const char *path, int64_t through)
{
    char *text = NULL;
    size_t size = 0;
    keeper k = {.through = through};
    MEGA_TRY(mega_file_read(&text, &size, path));
    mega_status st = check_first(path, text, size);
    if (st == MEGA_OK && through > 0) st = each_row(path, text, size, keep_row, &k);
    mega_free(text);
    if (st == MEGA_OK) st = mega_buffer_check(&k.kept, path);
    if (st == MEGA_OK && k.kept.size != size) {
        st = mega_file_write_atomic(path, k.kept.data != NULL ? k.kept.data : "", k.kept.size);
        if (st == MEGA_OK && k.dropped > 0)
            mega_info("metrics file %s: %" PRId64 " of %" PRId64 " rows come after iteration %" PRId64
                      " and are cut off",
                      path, k.dropped, k.rows, through);
        else if (st == MEGA_OK && through <= 0)
            mega_warn("metrics file %s: the run starts anew, and so does the file; its %zu bytes are gone", path, size);
    }
    mega_buffer_fini(&k.kept);
    return st;
}

mega_status mega_metrics_open(mega_metrics **out, const char *path, int64_t keep_through_iteration)
{
    char *folder = mega_path_folder(path);
    if (folder == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--metrics-file %s: no memory for its folder's name", path);
    mega_status st = mega_folder_create(folder);
    mega_free(folder);
    if (st == MEGA_OK && mega_file_exists(path)) st = cut_rows(path, keep_through_iteration);
    if (st != MEGA_OK) return st;
    mega_metrics *m = mega_calloc(1, sizeof *m);
    if (m == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--metrics-file %s: no memory for its writer", path);
    m->path = mega_strdup(path);
    st = m->path != NULL ? mega_writer_append_to(&m->file, path)
                         : MEGA_FAIL(MEGA_ERR_MEMORY, "--metrics-file %s: no memory for its name", path);
    if (st != MEGA_OK) {
        mega_free(m->path);
        mega_free(m);
        return st;
    }
    *out = m;
    return MEGA_OK;
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

mega_status mega_metrics_row(mega_metrics *m, const mega_metric *values, int count)
{
    m->row.size = 0;
    m->row.failed = false;
    for (int i = 0; i < count; i++) {
        mega_buffer_puts(&m->row, i > 0 ? ", " : "{");
        mega_buffer_json_string(&m->row, values[i].key);
        mega_buffer_puts(&m->row, ": ");
        put_value(&m->row, &values[i]);
    }
    mega_buffer_puts(&m->row, count > 0 ? "}\n" : "{}\n");
    MEGA_TRY(mega_buffer_check(&m->row, m->path));
    MEGA_TRY(mega_writer_write(m->file, m->row.data, m->row.size));
    return mega_writer_flush(m->file);
}

/* A writer syncs when it is closed. */
mega_status mega_metrics_sync(mega_metrics *m)
{
    mega_writer *file = m->file;
    m->file = NULL;
    MEGA_TRY(mega_writer_close(file, true));
    return mega_writer_append_to(&m->file, m->path);
}

mega_status mega_metrics_close(mega_metrics *m)
{
    if (m == NULL) return MEGA_OK;
    const mega_status st = m->file != NULL ? mega_writer_close(m->file, true) : MEGA_OK;
    mega_buffer_fini(&m->row);
    mega_free(m->path);
    mega_free(m);
    return st;
}

typedef struct collector {
    mega_curve curve;
    size_t capacity;
    int64_t rows;
    const char *x_key, *y_key;
    json_t *keys; /* names of all numbers seen, for the message when there is no such key */
} collector;

static mega_status add_point(collector *c, double x, double y)
{
    if (c->curve.count == c->capacity) {
        const size_t more = c->capacity == 0 ? 256 : 2 * c->capacity;
        double *xs = mega_realloc(c->curve.x, more * sizeof *xs);
        if (xs != NULL) c->curve.x = xs;
        double *ys = mega_realloc(c->curve.y, more * sizeof *ys);
        if (ys != NULL) c->curve.y = ys;
        if (xs == NULL || ys == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a curve of %zu points", more);
        c->capacity = more;
    }
    c->curve.x[c->curve.count] = x;
    c->curve.y[c->curve.count++] = y;
    return MEGA_OK;
}

/* A null is a number that was not finite: a gap in the curve. */
static mega_status collect(void *user, json_t *row, const char *line, size_t bytes)
{
    (void)line;
    (void)bytes;
    collector *c = user;
    const char *key;
    json_t *value;
    c->rows++;
    json_object_foreach(row, key, value)
    {
        if (json_is_number(value) && json_object_set_new(c->keys, key, json_null()) != 0)
            return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the names of a metrics file");
    }
    const json_t *x = json_object_get(row, c->x_key), *y = json_object_get(row, c->y_key);
    if (!json_is_number(x) || (!json_is_number(y) && !json_is_null(y))) return MEGA_OK;
    return add_point(c, json_number_value(x), json_is_number(y) ? json_number_value(y) : NAN);
}

static mega_status no_points(const collector *c, const char *path)
{
    mega_buffer names = {0};
    const char *key;
    json_t *value;
    json_object_foreach(c->keys, key, value) mega_buffer_printf(&names, "%s%s", names.size > 0 ? ", " : "", key);
    mega_status st = mega_buffer_check(&names, path);
    if (st == MEGA_OK)
        st = c->rows == 0
                 ? MEGA_FAIL(MEGA_ERR_FORMAT,
                             "%s: no rows in it; expected lines of JSON, as --metrics-file writes them", path)
                 : MEGA_FAIL(MEGA_ERR_USAGE,
                             "%s: none of its %" PRId64 " rows has both \"%s\" and \"%s\" as numbers; it has %s", path,
                             c->rows, c->x_key, c->y_key, names.size > 0 ? names.data : "no numbers at all");
    mega_buffer_fini(&names);
    return st;
}

mega_status mega_curve_read(mega_curve *out, const char *path, const char *x_key, const char *y_key)
{
    char *text = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read(&text, &size, path));
    collector c = {.x_key = x_key, .y_key = y_key, .keys = json_object()};
    mega_status st = each_row(path, text, size, collect, &c);
    if (st == MEGA_OK && c.curve.count == 0) st = no_points(&c, path);
    mega_free(text);
    json_decref(c.keys);
    if (st != MEGA_OK) {
        mega_curve_fini(&c.curve);
        return st;
    }
    *out = c.curve;
    return MEGA_OK;
}

void mega_curve_smooth(mega_curve *c, double factor)
{
    double sum = 0.0, weight = 0.0;
    for (size_t i = 0; i < c->count; i++) {
        if (!isfinite(c->y[i])) continue;
        sum = factor * sum + c->y[i];
        weight = factor * weight + 1.0;
        c->y[i] = sum / weight;
    }
}

void mega_curve_fini(mega_curve *c)
{
    mega_free(c->x);
    mega_free(c->y);
    *c = (mega_curve){0};
}
