/* Writes CSV files. A file keeps the rows that it has: a run that is resumed, or another one, appends to them, as with
 * DeepSpeed. */
#include "csv.h"
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include "megalith/output.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TAGS = 128 };

typedef struct csv_file {
    char *tag;
    mega_outbox *box;
} csv_file;

struct csv_monitor {
    char *folder;
    csv_file file[MOST_TAGS];
    int files;
    mega_buffer row; /* kept, so that a step allocates nothing */
};

/* What the files of the folder belong to. Somebody else's file of that name stays. */
static mega_status write_config(const char *folder, const json_t *config)
{
    mega_buffer b = {0};
    char *path = mega_path_join(folder, "run.json"), *text = mega_json_dump(config, JSON_INDENT(1));
    mega_status st = path != NULL && text != NULL ? MEGA_OK : MEGA_NO_MEMORY(folder, "the settings of the run");
    if (st == MEGA_OK && mega_output_is_free(path, MEGA_OUTPUT_ABOUT)) {
        mega_buffer_printf(&b, "%s\n \"config\": %s}\n", MEGA_OUTPUT_ABOUT_MARK, text);
        st = mega_buffer_check(&b, path);
        if (st == MEGA_OK) st = mega_file_write_atomic(path, b.data, b.size);
    }
    mega_buffer_fini(&b);
    mega_free(path);
    free(text);
    return st;
}

mega_status csv_monitor_open(const char *folder, const json_t *config, csv_monitor **out)
{
    MEGA_TRY(mega_folder_create(folder));
    if (config != NULL) MEGA_TRY(write_config(folder, config));
    csv_monitor *m = mega_calloc(1, sizeof *m);
    if (m != NULL) m->folder = mega_strdup(folder);
    if (m == NULL || m->folder == NULL) {
        mega_free(m);
        return MEGA_NO_MEMORY(folder, "a writer of CSV files");
    }
    *out = m;
    return MEGA_OK;
}

static char *csv_path(const csv_monitor *m, const char *tag)
{
    char *path = mega_format("%s/%s.csv", m->folder, tag);
    if (path == NULL) return NULL;
    for (char *c = path + strlen(m->folder) + 1; *c != '\0'; c++)
        if (*c == '/' || *c == ' ') *c = '_';
    return path;
}

static mega_status add_file(csv_monitor *m, const char *tag, csv_file **out)
{
    if (m->files == MOST_TAGS)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: more than %d names of values; write fewer", m->folder, MOST_TAGS);
    const char *slash = strrchr(tag, '/');
    char *path = csv_path(m, tag), *head = mega_format("step,%s\n", slash != NULL ? slash + 1 : tag);
    csv_file f = {.tag = mega_strdup(tag)};
    mega_status st = path != NULL && head != NULL && f.tag != NULL ? MEGA_OK : MEGA_NO_MEMORY(m->folder, "a CSV file");
    if (st == MEGA_OK) st = mega_outbox_create(path, head, strlen(head), &f.box);
    MEGA_FREE(path, head);
    if (st != MEGA_OK) {
        mega_free(f.tag);
        return st;
    }
    m->file[m->files] = f;
    *out = &m->file[m->files++];
    return MEGA_OK;
}

static mega_status find_file(csv_monitor *m, const char *tag, csv_file **out)
{
    for (int i = 0; i < m->files; i++) {
        if (strcmp(m->file[i].tag, tag) != 0) continue;
        *out = &m->file[i];
        return MEGA_OK;
    }
    return add_file(m, tag, out);
}

mega_status csv_monitor_put(csv_monitor *m, const char *tag, double value, int64_t step)
{
    csv_file *f = NULL;
    MEGA_TRY(find_file(m, tag, &f));
    m->row.size = 0;
    m->row.failed = false;
    mega_buffer_printf(&m->row, "%lld,", (long long)step);
    if (isfinite(value)) mega_buffer_json_double(&m->row, value);
    else
        mega_buffer_puts(&m->row, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    mega_buffer_puts(&m->row, "\n");
    MEGA_TRY(mega_buffer_check(&m->row, m->folder));
    return mega_outbox_put(f->box, step, step, m->row.data, m->row.size);
}

mega_status csv_monitor_flush(csv_monitor *m)
{
    mega_status st = MEGA_OK;
    for (int i = 0; i < m->files; i++) {
        const mega_status now = mega_outbox_flush(m->file[i].box);
        if (st == MEGA_OK) st = now;
    }
    return st;
}

mega_missing csv_monitor_missing(const csv_monitor *m)
{
    mega_missing sum = {0};
    for (int i = 0; i < m->files; i++) {
        const mega_missing one = mega_outbox_missing(m->file[i].box);
        if (one.pieces == 0) continue;
        if (sum.pieces == 0 || one.first < sum.first) sum.first = one.first;
        if (sum.pieces == 0 || one.last > sum.last) sum.last = one.last;
        sum.pieces += one.pieces;
    }
    return sum;
}

mega_status csv_monitor_close(csv_monitor *m)
{
    mega_status st = MEGA_OK;
    if (m == NULL) return MEGA_OK;
    for (int i = 0; i < m->files; i++) {
        const mega_status now = mega_outbox_close(m->file[i].box);
        if (st == MEGA_OK) st = now;
        mega_free(m->file[i].tag);
    }
    mega_buffer_fini(&m->row);
    MEGA_FREE(m->folder, m);
    return st;
}
