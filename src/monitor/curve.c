/* Reads curves and runs from metrics files. */
#include "megalith/file.h"
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

typedef struct collector {
    mega_curve curve;
    int64_t x_capacity, y_capacity;
    int64_t rows;
    const char *run; /* NULL: rows without a run id */
    const char *x_key, *y_key;
    json_t *keys; /* keys of all numbers seen, for the message if the requested key is missing */
} collector;

static mega_status add_point(collector *c, double x, double y)
{
    const size_t count = c->curve.count + 1;
    if (!mega_array_reserve(&c->curve.x, &c->x_capacity, (int64_t)count, sizeof *c->curve.x) ||
        !mega_array_reserve(&c->curve.y, &c->y_capacity, (int64_t)count, sizeof *c->curve.y))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a curve of %zu points", count);
    c->curve.x[c->curve.count] = x;
    c->curve.y[c->curve.count++] = y;
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
                             "%s: the file has no rows; expected lines of JSON, as --metrics-file writes them", path)
                 : MEGA_FAIL(MEGA_ERR_USAGE,
                             "%s: none of its %" PRId64 " rows has both \"%s\" and \"%s\" as numbers; it has %s", path,
                             c->rows, c->x_key, c->y_key, names.size > 0 ? names.data : "no numbers at all");
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
        st = MEGA_FAIL(MEGA_ERR_USAGE, "%s: none of its rows is of run \"%s\"; it has rows of %s", path, run,
                       names.size > 0 ? names.data : "no run at all");
    mega_buffer_fini(&names);
    return st;
}

mega_status mega_metrics_runs(const char *path, mega_buffer *out, int64_t *count)
{
    char *text = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read(&text, &size, path));
    json_t *runs = json_object();
    mega_status st = each_row(path, text, size, note_run, runs);
    if (st == MEGA_OK) st = list_runs(runs, out, path);
    *count = (int64_t)json_object_size(runs);
    mega_free(text);
    json_decref(runs);
    return st;
}

/* ---- a curve ---- */

static mega_status read_run(collector *c, json_t *runs, const char *run, const char *path, const char *text,
                            size_t size)
{
    MEGA_TRY(each_row(path, text, size, note_run, runs));
    if (run != NULL && strcmp(run, "none") == 0) run = "";
    if (run != NULL && json_object_get(runs, run) == NULL) return no_run(runs, run, path);
    c->run = run != NULL ? run : last_key(runs);
    if (c->run != NULL && *c->run == '\0') c->run = NULL;
    MEGA_TRY(each_row(path, text, size, curve_collect, c));
    return c->curve.count == 0 ? no_points(c, path) : MEGA_OK;
}

mega_status mega_curve_read(mega_curve *out, const char *path, const char *run, const char *x_key, const char *y_key)
{
    char *text = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read(&text, &size, path));
    collector c = {.x_key = x_key, .y_key = y_key, .keys = json_object()};
    json_t *runs = json_object();
    const mega_status st = read_run(&c, runs, run, path, text, size);
    mega_free(text);
    json_decref(c.keys);
    json_decref(runs);
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
