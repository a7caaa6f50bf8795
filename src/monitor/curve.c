/* Reads curves and runs from metrics files. */
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include "metrics_impl.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Calls a function for each finished line. */
typedef mega_status on_row(void *user, json_t *row);

static mega_status each_row(const char *path, const char *text, size_t size, on_row *call, void *user)
{
    int64_t number = 1;
    for (const char *line = text; line < text + size; number++) {
        const char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end == NULL) break; /* a line without an end: still being written */
        const size_t bytes = (size_t)(end + 1 - line);
        json_error_t error;
        json_t *row = mega_json_load(line, bytes, 0, &error);
        mega_status st = MEGA_OK;
        if (json_is_object(row)) st = call(user, row);
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

typedef struct growing_curve {
    mega_curve data;
    int64_t x_capacity, y_capacity;
    const char *y_key;
} growing_curve;

typedef struct collector {
    growing_curve *curve;
    int curves;
    int64_t rows;
    const char *run; /* NULL: rows without a run id */
    const char *x_key;
    json_t *keys; /* keys of all numbers seen, for the message if the requested key is missing */
} collector;

static mega_status add_point(growing_curve *c, double x, double y)
{
    const size_t count = c->data.count + 1;
    if (!mega_array_reserve(&c->data.x, &c->x_capacity, (int64_t)count, sizeof *c->data.x) ||
        !mega_array_reserve(&c->data.y, &c->y_capacity, (int64_t)count, sizeof *c->data.y))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a curve of %zu points", count);
    c->data.x[c->data.count] = x;
    c->data.y[c->data.count++] = y;
    return MEGA_OK;
}

/* null stands for a number that was not finite: a gap in the curve. */
static mega_status curve_collect(void *user, json_t *row)
{
    collector *c = user;
    const char *key;
    json_t *value;
    if (!mega_metrics_is_of_run(row, c->run)) return MEGA_OK;
    c->rows++;
    json_object_foreach(row, key, value)
    {
        if (json_is_number(value) && json_object_set_new(c->keys, key, json_null()) != 0)
            return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the names of a metrics file");
    }
    const json_t *x = json_object_get(row, c->x_key);
    for (int i = 0; json_is_number(x) && i < c->curves; i++) {
        const json_t *y = json_object_get(row, c->curve[i].y_key);
        if (!json_is_number(y) && !json_is_null(y)) continue;
        MEGA_TRY(add_point(&c->curve[i], json_number_value(x), json_is_number(y) ? json_number_value(y) : NAN));
    }
    return MEGA_OK;
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
                             "%s: the file has no rows; expected lines of JSON, as --metrics-file writes them", path)
                 : MEGA_MISTAKE("%s: none of its %" PRId64 " rows has both \"%s\" and \"%s\" as numbers; it has %s",
                                path, c->rows, c->x_key, c->curve->y_key,
                                names.size > 0 ? names.data : "no numbers at all");
    mega_buffer_fini(&names);
    return st;
}

/* ---- runs: their ids, in the order of their last rows ---- */

/* Every row moves its run to the end of the object. */
static mega_status note_run(void *user, json_t *row)
{
    const char *run = json_string_value(json_object_get(row, "run"));
    const char *key = run != NULL ? run : "";
    json_object_del(user, key);
    if (json_object_set_new(user, key, json_true()) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the runs of a metrics file");
}

/* jansson iterates over members in insertion order. */
static const char *last_key(json_t *object)
{
    const char *key, *last = NULL;
    json_t *value;
    json_object_foreach(object, key, value) last = key;
    return last;
}

static mega_status list_runs(json_t *runs, mega_buffer *out, const char *path)
{
    const char *key;
    json_t *value;
    json_object_foreach(runs, key, value)
        mega_buffer_printf(out, "%s%s", out->size > 0 ? ", " : "", *key != '\0' ? key : "none");
    return mega_buffer_check(out, path);
}

static mega_status no_run(json_t *runs, const char *run, const char *path)
{
    mega_buffer names = {0};
    mega_status st = list_runs(runs, &names, path);
    if (st == MEGA_OK)
        st = MEGA_MISTAKE("%s: none of its rows is of run \"%s\"; it has rows of %s", path, run,
                          names.size > 0 ? names.data : "no run at all");
    mega_buffer_fini(&names);
    return st;
}

mega_status mega_metrics_runs(const char *path, mega_buffer *out, int64_t *count)
{
    char *text = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read_kind(path, "metrics", MEGA_KIND_TABLE, &text, &size));
    json_t *runs = json_object();
    mega_status st = each_row(path, text, size, note_run, runs);
    if (st == MEGA_OK) st = list_runs(runs, out, path);
    *count = (int64_t)json_object_size(runs);
    mega_free(text);
    json_decref(runs);
    return st;
}

/* ---- curves ---- */

static mega_status read_run(collector *c, json_t *runs, const char *run, const char *path, const char *text,
                            size_t size)
{
    MEGA_TRY(each_row(path, text, size, note_run, runs));
    if (run != NULL && strcmp(run, "none") == 0) run = "";
    if (run != NULL && json_object_get(runs, run) == NULL) return no_run(runs, run, path);
    c->run = run != NULL ? run : last_key(runs);
    if (c->run != NULL && *c->run == '\0') c->run = NULL;
    MEGA_TRY(each_row(path, text, size, curve_collect, c));
    for (int i = 0; i < c->curves; i++)
        if (c->curve[i].data.count > 0) return MEGA_OK;
    return no_points(c, path);
}

mega_status mega_curves_read(const char *path, const char *run, const char *x_key, const char *const *y_key, int count,
                             mega_curve *out, mega_buffer *out_run)
{
    char *text = NULL;
    size_t size = 0;
    growing_curve *curve = mega_calloc((size_t)count, sizeof *curve);
    if (curve == NULL) return MEGA_NO_MEMORY(path, "the curves");
    for (int i = 0; i < count; i++) curve[i].y_key = y_key[i];
    collector c = {.curve = curve, .curves = count, .x_key = x_key, .keys = json_object()};
    json_t *runs = json_object();
    mega_status st = mega_file_read_kind(path, "metrics", MEGA_KIND_TABLE, &text, &size);
    if (st == MEGA_OK) st = read_run(&c, runs, run, path, text, size);
    if (st == MEGA_OK && out_run != NULL && c.run != NULL) {
        mega_buffer_puts(out_run, c.run);
        st = mega_buffer_check(out_run, path);
    }
    for (int i = 0; i < count; i++) {
        if (st == MEGA_OK) out[i] = curve[i].data;
        else
            mega_curve_fini(&curve[i].data);
    }
    MEGA_FREE(text, curve);
    json_decref(c.keys);
    json_decref(runs);
    return st;
}

mega_status mega_curve_read(const char *path, const char *run, const char *x_key, const char *y_key, mega_curve *out)
{
    return mega_curves_read(path, run, x_key, &y_key, 1, out, NULL);
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
    MEGA_FREE(c->x, c->y);
    *c = (mega_curve){0};
}
