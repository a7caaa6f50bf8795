/* The words of a text as Punkt sees them, and its two passes over them: the first decides by the type of a word, the
 * second by the word after it. Sections are those of Kiss and Strunk (2006). */
#include "punkt_impl.h"
#include <string.h>

/* ---- words ---- */

static bool is_gap(const punkt_rules *r, const char *text, size_t at, size_t end, bool lines, int *length)
{
    return at < end && (lines || text[at] != '\n') && (punkt_kind(r, text + at, end - at, length) & PUNKT_SPACE);
}

size_t punkt_run_end(const punkt_rules *r, const char *text, size_t at, size_t end, bool lines)
{
    const char c = at < end ? text[at] : 0;
    size_t run = at;
    if (c != '.' && c != '-') return at;
    while (run < end && text[run] == c) run++;
    if (run - at >= 2) return run;
    if (c == '-') return at;
    /* three periods or more with a space between two of them */
    size_t next = at, last = at;
    int periods = 0, length = 0;
    while (next < end && text[next] == '.') {
        periods++;
        last = ++next;
        if (!is_gap(r, text, next, end, lines, &length)) break;
        next += (size_t)length;
    }
    return periods >= 3 ? last : at;
}

/* Returns whether a word ends in front of the character at `at`. */
static bool word_ends(const punkt_rules *r, const char *text, size_t at, size_t end)
{
    int length;
    if (at == end) return true;
    const uint16_t kind = punkt_kind(r, text + at, end - at, &length);
    if (kind & (PUNKT_SPACE | PUNKT_NON_WORD)) return true;
    return (text[at] == '.' || text[at] == '-') && punkt_run_end(r, text, at, end, false) > at;
}

static size_t word_end(const punkt_rules *r, const char *text, size_t at, size_t end)
{
    int length;
    (void)punkt_kind(r, text + at, end - at, &length);
    for (at += (size_t)length; !word_ends(r, text, at, end); at += (size_t)length) {
        if (text[at] == ',' && word_ends(r, text, at + 1, end)) break;
        (void)punkt_kind(r, text + at, end - at, &length);
    }
    return at;
}

/* -?[.,]?digit[digits , . -]*, with or without a period after it */
static bool is_punkt_number(const punkt_rules *r, const char *text, size_t n)
{
    size_t at = 0;
    int length = 1;
    bool any = false;
    if (at < n && text[at] == '-') at++;
    if (at < n && (text[at] == '.' || text[at] == ',')) at++;
    for (; at < n; at += (size_t)length) {
        const bool digit = punkt_kind(r, text + at, n - at, &length) & PUNKT_DIGIT;
        if (!digit && (!any || (text[at] != ',' && text[at] != '.' && text[at] != '-'))) return false;
        any = true;
    }
    return any;
}

static void punkt_describe_word(const punkt_rules *r, punkt_word *w)
{
    int length = 1;
    const char *text = w->text;
    const size_t n = w->bytes;
    w->kind = punkt_kind(r, text, n, &length);
    w->period = text[n - 1] == '.';
    w->is_initial = (w->kind & PUNKT_LETTER) && n == (size_t)length + 1 && w->period;
    w->is_ellipsis = n >= 2 && text[0] == '.' && text[1] == '.'; /* such a word is a run of periods */
    w->is_number = is_punkt_number(r, text, n);
    w->stem = STEM_UNKNOWN;
    w->starts_line = w->starts_paragraph = w->abbreviation = w->ellipsis = w->ends = false;
    w->type.size = 0;
    if (w->is_number) mega_buffer_append(&w->type, PUNKT_NUMBER, sizeof PUNKT_NUMBER - 1);
    else
        punkt_lower(text, n, &w->type);
    const size_t known = sizeof PUNKT_NUMBER - 1;
    w->is_number = w->is_number || (w->type.size >= known && memcmp(w->type.data, PUNKT_NUMBER, known) == 0);
}

bool punkt_next_word(const punkt_rules *r, const char *text, size_t end, size_t *at, punkt_word *out)
{
    int length = 1;
    uint16_t kind = PUNKT_SPACE;
    for (; *at < end; *at += (size_t)length) {
        kind = punkt_kind(r, text + *at, end - *at, &length);
        if (!(kind & PUNKT_SPACE)) break;
    }
    if (*at >= end) return false;
    size_t stop = punkt_run_end(r, text, *at, end, false);
    if (stop == *at) stop = kind & PUNKT_NO_START ? *at + (size_t)length : word_end(r, text, *at, end);
    out->text = text + *at;
    out->bytes = stop - *at;
    *at = stop;
    punkt_describe_word(r, out);
    return true;
}

/* ---- the passes ---- */

static bool is_end_mark(const punkt_rules *r, const punkt_word *w)
{
    int length;
    return (punkt_kind(r, w->text, w->bytes, &length) & PUNKT_END) && (size_t)length == w->bytes;
}

static bool is_abbreviation(const punkt_table *t, const char *stem, size_t n, int64_t type)
{
    if (type >= 0 && (t->type[type].flags & TYPE_ABBREVIATION)) return true;
    size_t after = n;
    while (after > 0 && stem[after - 1] != '-') after--;
    if (after == 0) return false;
    const int64_t part = punkt_find(t, stem + after, n - after);
    return part >= 0 && (t->type[part].flags & TYPE_ABBREVIATION);
}

void punkt_first_pass(const mega_punkt *p, punkt_word *w)
{
    if (is_end_mark(&p->rules, w)) {
        w->ends = true;
    } else if (w->is_ellipsis) {
        w->ellipsis = true;
    } else if (w->period && (w->bytes == 1 || w->text[w->bytes - 2] != '.')) {
        if (w->type.size == 0) return; /* no memory */
        /* the type of a number has lost its period, and a number is no abbreviation unless it is listed as written */
        const bool written = w->type.data[w->type.size - 1] == '.';
        const char *stem = written ? w->type.data : w->text;
        const size_t n = written ? w->type.size - 1 : w->bytes - 1;
        const int64_t type = punkt_find(&p->table, stem, n);
        if (written && n > 0) w->stem = type;
        if (is_abbreviation(&p->table, stem, n, type)) w->abbreviation = true;
        else
            w->ends = true;
    }
}

typedef enum verdict { VERDICT_NO, VERDICT_YES, VERDICT_UNKNOWN } verdict;

/* Section 4.1.1: does it look like the first word of a sentence? */
static verdict starts_sentence(const punkt_word *w, uint8_t ortho)
{
    if (w->bytes == 1 && strchr(";:,.!?", w->text[0]) != NULL) return VERDICT_NO;
    if ((w->kind & PUNKT_UPPER) && (ortho & ORTHO_LC) && !(ortho & ORTHO_MID_UC)) return VERDICT_YES;
    if ((w->kind & PUNKT_LOWER) && ((ortho & ORTHO_UC) || !(ortho & ORTHO_BEG_LC))) return VERDICT_NO;
    return VERDICT_UNKNOWN;
}

static void joins(punkt_word *w)
{
    w->ends = false;
    w->abbreviation = true;
}

void punkt_second_pass(const mega_punkt *p, punkt_word *w, const punkt_word *next)
{
    static const punkt_type unknown;
    const punkt_table *t = &p->table;
    if (!w->period) return;
    const size_t stem = punkt_no_period(w);
    const int64_t self = w->stem != STEM_UNKNOWN ? w->stem : punkt_find(t, w->type.data, stem);
    const int64_t after = punkt_find(t, next->type.data, punkt_no_final_period(next));
    const punkt_type *follower = after >= 0 ? &t->type[after] : &unknown;
    /* section 4.1.2; then abbreviations in front of numbers alone ("No. 5") */
    if (punkt_find_pair(t, self, after) >= 0 ||
        (next->is_number && self >= 0 && (t->type[self].flags & TYPE_NUMERIC))) {
        joins(w);
        return;
    }
    /* sections 4.2 and 4.1.3 */
    if ((w->abbreviation || w->ellipsis) && !w->is_initial) {
        if (starts_sentence(next, follower->ortho) == VERDICT_YES ||
            ((next->kind & PUNKT_UPPER) && (follower->flags & TYPE_STARTER))) {
            w->ends = true;
            return;
        }
    }
    /* section 4.3: initials and ordinal numbers */
    const bool ordinal = stem == sizeof PUNKT_NUMBER - 1 && memcmp(w->type.data, PUNKT_NUMBER, stem) == 0;
    if (!w->is_initial && !ordinal) return;
    const verdict v = starts_sentence(next, follower->ortho);
    if (v == VERDICT_NO ||
        (v == VERDICT_UNKNOWN && w->is_initial && (next->kind & PUNKT_UPPER) && !(follower->ortho & ORTHO_LC)))
        joins(w);
}
