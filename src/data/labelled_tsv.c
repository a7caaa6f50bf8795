/* The TSV files of MNLI and QQP. The number of columns tells a test file, whose labels are not known: as in Megatron, its
 * samples count as those of label 0. */
#include "labelled.h"
#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/log.h"

#include <string.h>

enum { TSV_COLUMNS = 64, STOPS_EVERY = 1024 };

typedef struct tsv_text {
    const char *text;
    size_t bytes;
} tsv_text;

typedef struct tsv {
    labelled_reader *r;
    const char *path;
    int64_t line;
    bool is_test;
    tsv_text column[TSV_COLUMNS];
    int columns;
} tsv;

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Divides a line without the white space at its ends. A line of more columns than TSV_COLUMNS has TSV_COLUMNS + 1. */
static void divide(tsv *t, const char *text, size_t bytes)
{
    while (bytes > 0 && is_space(text[bytes - 1])) bytes--;
    while (bytes > 0 && is_space(*text)) text++, bytes--;
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
        if (!is_space(t.text[i])) return false;
    return true;
}

static mega_status refuse(const tsv *t, const char *what, const char *expected)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld: %s; expected %s", t->path, (long long)t->line, what, expected);
}

static mega_status add(tsv *t, tsv_text a, tsv_text b, int32_t label)
{
    labelled_reader *r = t->r;
    r->first.count = r->second.count = 0;
    MEGA_TRY(labelled_encode(r, a.text, a.bytes, &r->first));
    MEGA_TRY(labelled_encode(r, b.text, b.bytes, &r->second));
    MEGA_TRY(labelled_add(r, &r->first, &r->second));
    return labelled_add_label(r, label);
}

static mega_status add_mnli(tsv *t)
{
    static const char *const label[] = {"contradiction", "entailment", "neutral"};
    enum { FIRST = 8, SECOND = 9, LABELS = 3 };
    if (t->columns <= SECOND + (t->is_test ? 0 : 1) || t->columns > TSV_COLUMNS)
        return refuse(t, "not the columns of MNLI",
                      "the two sentences in the columns 9 and 10, and the label in a last one");
    const tsv_text a = t->column[FIRST], b = t->column[SECOND], is = t->column[t->columns - 1];
    if (is_empty(a) || is_empty(b)) return refuse(t, "an empty sentence", "two sentences");
    int32_t k = 0;
    while (!t->is_test && k < LABELS && !is_text(is, label[k])) k++;
    if (k == LABELS) return refuse(t, "an unknown label", "contradiction, entailment or neutral");
    return add(t, a, b, k);
}

/* Some rows of the published files are broken, and are left out. */
static mega_status add_qqp(tsv *t)
{
    const int wanted = t->is_test ? 3 : 6, first = t->is_test ? 1 : 3;
    const bool is_whole = t->columns == wanted && !is_empty(t->column[first]) && !is_empty(t->column[first + 1]);
    int32_t label = 0;
    if (!is_whole) {
        t->r->set->skipped++;
        return MEGA_OK;
    }
    if (!t->is_test) {
        const tsv_text is = t->column[5];
        if (!is_text(is, "0") && !is_text(is, "1")) return refuse(t, "an unknown label", "0 or 1");
        label = is.text[0] - '0';
    }
    return add(t, t->column[first], t->column[first + 1], label);
}

static mega_status read_head(tsv *t)
{
    const bool is_mnli = t->r->out->kind == MEGA_LABELLED_MNLI;
    t->is_test = t->columns == (is_mnli ? 10 : 3);
    if (t->is_test || (is_mnli ? t->columns > 10 : t->columns == 6)) return MEGA_OK;
    return refuse(t, "not the first line of such a file",
                  is_mnli ? "the names of MNLI's columns: 10 in a test file, else more"
                          : "the names of QQP's columns: 3 in a test file, else 6");
}

static mega_status read_lines(tsv *t, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t n = end != NULL ? (size_t)(end - text) - at : bytes - at;
        t->line++;
        divide(t, text + at, n);
        at += n + 1;
        if (t->line % STOPS_EVERY == 0 && labelled_is_stopped(t->r))
            return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "%s: reading was interrupted by a signal", t->path);
        if (t->line == 1) MEGA_TRY(read_head(t));
        else if (t->columns > 1 || t->column[0].bytes > 0)
            MEGA_TRY(t->r->out->kind == MEGA_LABELLED_MNLI ? add_mnli(t) : add_qqp(t));
    }
    return MEGA_OK;
}

mega_status labelled_read_tsv(labelled_reader *r, const char *path)
{
    tsv t = {.r = r, .path = path};
    char *text = NULL;
    size_t bytes = 0;
    MEGA_TRY(mega_file_read(path, &text, &bytes));
    mega_status st = mega_encoding_check(path, text, bytes);
    if (st == MEGA_OK) st = read_lines(&t, text, bytes);
    mega_free(text);
    if (st == MEGA_OK && r->set->skipped > 0)
        mega_warn("%s: %lld rows are left out: columns are missing, or a question is empty", path,
                  (long long)r->set->skipped);
    return st;
}
