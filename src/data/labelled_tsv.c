/* The TSV files of GLUE. The number of columns tells a test file, whose labels are not known: as in Megatron, its
 * samples count as those of label 0. */
#include "labelled.h"
#include "megalith/log.h"

#include <string.h>

enum { TSV_COLUMNS = 64 };

typedef struct tsv_text {
    const char *text;
    size_t bytes;
} tsv_text;

typedef struct tsv {
    labelled_reader *r;
    const char *path;
    int64_t line;
    const mega_labelled_columns *form; /* of this file, once its first line is read */
    tsv_text column[TSV_COLUMNS];
    int columns; /* of a row that has more than TSV_COLUMNS: TSV_COLUMNS + 1 */
} tsv;

static void divide(tsv *t, const char *text, size_t bytes)
{
    t->columns = 0;
    for (;;) {
        const char *tab = memchr(text, '\t', bytes);
        const size_t n = tab != NULL ? (size_t)(tab - text) : bytes;
        if (t->columns < TSV_COLUMNS) t->column[t->columns] = (tsv_text){text, n};
        if (t->columns++ == TSV_COLUMNS || tab == NULL) return;
        text = tab + 1;
        bytes -= n + 1;
    }
}

static bool is_text(tsv_text t, const char *text)
{
    return t.bytes == strlen(text) && memcmp(t.text, text, t.bytes) == 0;
}

static bool is_empty(tsv_text t)
{
    for (size_t i = 0; i < t.bytes; i++)
        if (!labelled_is_blank(t.text[i])) return false;
    return true;
}

/* The label of a row, or -1. */
static int32_t tsv_label(const tsv *t)
{
    const mega_labelled_task *task = t->r->out->task;
    const int column = t->form->label == MEGA_LABELLED_LAST ? t->columns : t->form->label;
    for (int32_t i = 0; column > 0 && i < task->classes; i++)
        if (is_text(t->column[column - 1], task->label[i])) return i;
    return column > 0 ? -1 : 0;
}

static mega_status refuse_label(const tsv *t)
{
    const mega_labelled_task *task = t->r->out->task;
    mega_buffer labels = {0};
    for (int64_t i = 0; i < task->classes; i++)
        mega_buffer_printf(&labels, "%s%s", i == 0 ? "" : i + 1 < task->classes ? ", " : " or ", task->label[i]);
    mega_status st = mega_buffer_check(&labels, t->path);
    if (st == MEGA_OK)
        st = MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld: an unknown label; expected %s", t->path, (long long)t->line,
                       labels.data);
    mega_buffer_fini(&labels);
    return st;
}

/* Some rows of the published files of QQP are broken. */
static mega_status add_row(tsv *t)
{
    labelled_reader *r = t->r;
    const mega_labelled_columns *f = t->form;
    const bool fits = f->or_more ? t->columns >= f->count && t->columns <= TSV_COLUMNS : t->columns == f->count;
    const tsv_text *first = &t->column[f->text - 1], *second = f->second > 0 ? &t->column[f->second - 1] : NULL;
    const bool is_whole = fits && !is_empty(*first) && (second == NULL || !is_empty(*second));
    if (!is_whole && r->out->task->skips_rows) {
        r->set->skipped++;
        return MEGA_OK;
    }
    if (!fits)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld: not the columns of %s; expected %d%s", t->path, (long long)t->line,
                         r->out->task->name, f->count, f->or_more ? " or more" : "");
    if (!is_whole)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld: an empty sentence; expected a text in column %d", t->path,
                         (long long)t->line, is_empty(*first) ? f->text : f->second);
    const int32_t label = tsv_label(t);
    if (label < 0) return refuse_label(t);
    r->first.count = r->second.count = 0;
    MEGA_TRY(labelled_encode(r, first->text, first->bytes, &r->first));
    if (second != NULL) MEGA_TRY(labelled_encode(r, second->text, second->bytes, &r->second));
    MEGA_TRY(labelled_add(r, &r->first, second != NULL ? &r->second : NULL));
    return labelled_add_label(r, label);
}

static bool has_head(const tsv *t, const mega_labelled_columns *f, bool or_more)
{
    return (or_more ? t->columns >= f->count : t->columns == f->count) &&
           (f->begin == NULL || is_text(t->column[0], f->begin));
}

/* A line of names would be a sample if its label were not looked at. */
static mega_status begin_with_row(tsv *t)
{
    if (tsv_label(t) >= 0) return add_row(t);
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "%s:%lld: names of columns, or a row without a label in column %d; files of %s with labels have "
                     "no line of names: leave it out",
                     t->path, (long long)t->line, t->form->label, t->r->out->task->name);
}

static mega_status read_head(tsv *t)
{
    const mega_labelled_task *task = t->r->out->task;
    const mega_labelled_columns *test = &task->test, *whole = &task->with_labels;
    t->form = has_head(t, test, false) ? test : has_head(t, whole, whole->or_more) ? whole : NULL;
    t->r->set->is_test = t->form == test;
    if (t->form == test && t->r->options->needs_labels)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s: its %d columns are those of a test file of %s, which has no labels, and nothing can be "
                         "learnt from it; expected %d columns%s%s%s",
                         t->path, t->columns, task->name, whole->count, whole->or_more ? " or more" : "",
                         whole->begin != NULL ? " that begin with " : "", whole->begin != NULL ? whole->begin : "");
    if (t->form != NULL) return t->form->has_no_names ? begin_with_row(t) : MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "%s:%lld: not the first line of such a file; expected %s %s's columns: %d%s%s%s, in a "
                     "test file %s%d%s%s",
                     t->path, (long long)t->line, whole->has_no_names ? "a row of" : "the names of", task->name,
                     whole->count, whole->or_more ? " or more" : "", whole->begin != NULL ? " that begin with " : "",
                     whole->begin != NULL ? whole->begin : "", whole->has_no_names ? "names of " : "", test->count,
                     test->begin != NULL ? " that begin with " : "", test->begin != NULL ? test->begin : "");
}

static mega_status take_line(void *user, int64_t line, const char *text, size_t bytes)
{
    tsv *t = user;
    t->line = line;
    if (bytes == 0 && line > 1) return MEGA_OK;
    divide(t, text, bytes);
    return line == 1 ? read_head(t) : add_row(t);
}

mega_status labelled_read_tsv(labelled_reader *r, const char *path)
{
    tsv t = {.r = r, .path = path};
    MEGA_TRY(labelled_lines(r, path, take_line, &t));
    if (r->set->skipped > 0)
        mega_warn("%s: %lld rows are left out: columns are missing, or a question is empty", path,
                  (long long)r->set->skipped);
    if (r->set->is_test)
        mega_warn("%s: a test file of %s, without labels: all its samples count as \"%s\", and what is found right "
                  "says nothing about the model",
                  path, r->out->task->name, r->out->task->named[0]);
    return MEGA_OK;
}
