/* Cuts a text into sentences: finds the marks that may end one, decides about each by the word before it and the word
 * after it, and gives closing marks to the sentence that they close. */
#include "punkt_impl.h"
#include <string.h>

mega_status mega_punkt_create(const char *language, mega_punkt **out)
{
    mega_punkt *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_NO_MEMORY("sentences", "the rules of a language");
    punkt_rules_init(&p->rules, language);
    *out = p;
    return MEGA_OK;
}

void mega_punkt_destroy(mega_punkt *p)
{
    if (p == NULL) return;
    punkt_table_fini(&p->table);
    mega_free(p);
}

/* ---- memory of a thread ---- */

typedef struct work {
    mega_buffer context;
    punkt_word word[2];
} work;

static work *work_of(mega_sentence_spans *s)
{
    if (s->work == NULL) s->work = mega_calloc(1, sizeof(work));
    return s->work;
}

void mega_sentence_spans_fini(mega_sentence_spans *s)
{
    work *w = s->work;
    if (w != NULL) {
        mega_buffer_fini(&w->word[0].type);
        mega_buffer_fini(&w->word[1].type);
        mega_free(w);
    }
    mega_free(s->span);
    *s = (mega_sentence_spans){.span = NULL};
}

/* ---- one text ---- */

/* A mark that may end a sentence. `word` is where the word before it begins; `after` is the end of what decides. */
typedef struct candidate {
    size_t word, mark, end, after, next; /* next: where the next sentence would begin */
} candidate;

typedef struct cutter {
    const mega_punkt *p;
    const char *text;
    size_t bytes;
    bool spaced, keep;
    mega_sentence_spans *out;
    work *work;
    size_t run_end;                /* of the last run of periods */
    size_t black_begin, black_end; /* the last characters without white space between them that were looked at */
    size_t begin;                  /* of the sentence that is being read */
} cutter;

static uint16_t kind_at(const cutter *c, size_t at, int *length)
{
    return punkt_kind(&c->p->rules, c->text + at, c->bytes - at, length);
}

static size_t skip_while(const cutter *c, size_t at, bool spaces)
{
    int length;
    while (at < c->bytes && (bool)(kind_at(c, at, &length) & PUNKT_SPACE) == spaces) at += (size_t)length;
    return at;
}

/* Describes what follows the mark at `mark`, which ends at `end`; false if no sentence can end there. */
static bool look_behind_mark(cutter *c, size_t mark, size_t end, candidate *k)
{
    int length;
    if (end >= c->bytes) return false;
    *k = (candidate){.mark = mark, .end = end};
    if (kind_at(c, end, &length) & PUNKT_NON_WORD) {
        k->after = end + (size_t)length;
        k->next = end;
        return true;
    }
    k->next = skip_while(c, end, true);
    if (k->next >= c->bytes || (c->spaced && k->next == end)) return false;
    if (k->next < c->black_begin || k->next >= c->black_end) {
        c->black_begin = k->next;
        c->black_end = skip_while(c, k->next, false);
    }
    k->after = c->black_end;
    return true;
}

/* Returns the last ASCII white space of [begin, end), counted from begin; 0 if there is none. */
static size_t last_space(const cutter *c, size_t begin, size_t end)
{
    for (size_t at = end; at-- > begin;) {
        const char b = c->text[at];
        if (b == ' ' || (b >= 9 && b <= 13)) return at - begin;
    }
    return 0;
}

/* Returns whether the context of a candidate has an end of a sentence in front of its last word. */
static bool ends_sentence(cutter *c, const candidate *k)
{
    const punkt_rules *r = &c->p->rules;
    punkt_word *w = c->work->word;
    size_t at = k->word;
    int now = 0;
    const punkt_table *t = &c->p->table;
    bool is_first = true;
    if (!punkt_next_word(r, c->text, k->after, &at, &w[0])) return false;
    punkt_prefetch(t, w[0].type.data, punkt_no_period(&w[0]));
    for (; punkt_next_word(r, c->text, k->after, &at, &w[!now]); now = !now) {
        punkt_prefetch(t, w[!now].type.data, punkt_no_period(&w[!now]));
        if (is_first) punkt_first_pass(c->p, &w[0]);
        is_first = false;
        punkt_first_pass(c->p, &w[!now]);
        punkt_second_pass(c->p, &w[now], &w[!now]);
        if (w[now].ends) return true;
    }
    return false;
}

/* ---- spans ---- */

static bool is_marks_alone(const cutter *c, size_t begin, size_t end)
{
    int length;
    for (size_t at = begin; at < end; at += (size_t)length)
        if (!(kind_at(c, at, &length) & PUNKT_END)) return false;
    return true;
}

/* Adds a sentence, or gives it to the one before it if it is nothing but marks. */
static mega_status put_span(cutter *c, size_t begin, size_t end)
{
    mega_sentence_spans *s = c->out;
    if (begin >= end) return MEGA_OK;
    if (s->count > 0 && is_marks_alone(c, begin, end)) {
        s->span[s->count - 1].end = end;
        return MEGA_OK;
    }
    if (!mega_array_reserve(&s->span, &s->capacity, s->count + 1, sizeof *s->span))
        return MEGA_NO_MEMORY("sentences", "their places");
    s->span[s->count++] = (mega_sentence_span){begin, end};
    return MEGA_OK;
}

static mega_status decide(cutter *c, const candidate *k)
{
    if (!ends_sentence(c, k)) return MEGA_OK;
    const size_t begin = c->begin;
    c->begin = k->next;
    return put_span(c, begin, k->end);
}

/* Returns whether the mark is inside of a run of periods, whose last one alone may end a sentence. */
static bool is_inside_run(cutter *c, size_t mark)
{
    if (mark >= c->run_end) {
        c->run_end = punkt_run_end(&c->p->rules, c->text, mark, c->bytes, true);
    }
    return mark + 1 < c->run_end;
}

static mega_status punkt_find_spans(cutter *c)
{
    const uint8_t *text = (const uint8_t *)c->text;
    const bool *may_end = c->p->rules.may_end;
    const size_t bytes = c->bytes;
    candidate held = {0}, k;
    bool is_held = false;
    size_t begin = 0, stop = 0; /* of the word before the last mark; that mark */
    for (size_t at = 0;;) {
        int length = 1;
        while (at + 4 <= bytes &&
               !(may_end[text[at]] | may_end[text[at + 1]] | may_end[text[at + 2]] | may_end[text[at + 3]]))
            at += 4;
        while (at < bytes && !may_end[text[at]]) at++;
        if (at == bytes) break;
        if (!punkt_is_end(&c->p->rules, c->text + at, c->bytes - at, &length)) {
            at += (size_t)length;
            continue;
        }
        const size_t mark = at;
        at += (size_t)length;
        if ((c->text[mark] == '.' && is_inside_run(c, mark)) || !look_behind_mark(c, mark, at, &k)) continue;
        const size_t space = last_space(c, stop, mark);
        k.word = space > 0 ? stop + space + 1 : !c->spaced && mark > stop ? stop : begin;
        /* a mark whose word reaches back over the one before it makes that one part of a run of marks */
        if (is_held && stop <= k.word) MEGA_TRY(decide(c, &held));
        held = k;
        is_held = true;
        begin = k.word;
        stop = mark;
    }
    if (is_held) MEGA_TRY(decide(c, &held));
    size_t end = c->bytes;
    while (end > c->begin) { /* without the white space at the end */
        size_t last = end - 1;
        int length;
        while (last > c->begin && ((uint8_t)c->text[last] & 0xc0) == 0x80) last--;
        if (!(kind_at(c, last, &length) & PUNKT_SPACE) || last + (size_t)length != end) break;
        end = last;
    }
    return put_span(c, c->begin, end);
}

/* ---- closing marks ---- */

/* Returns the bytes of closing marks at the beginning of a sentence, with the white space after them in *all. */
static size_t closing_marks(const cutter *c, const mega_sentence_span *s, size_t *all)
{
    const uint16_t closes = c->p->rules.closes_one ? PUNKT_QUOTE : PUNKT_CLOSES;
    size_t at = s->begin, after;
    int length;
    if (c->p->rules.closes_one && (kind_at(c, at, &length) & PUNKT_CLOSES)) {
        at += (size_t)length;
        for (after = at; after < s->end && (kind_at(c, after, &length) & PUNKT_SPACE);) after += (size_t)length;
        *all = after - s->begin;
        return at - s->begin;
    }
    while (at < s->end && (kind_at(c, at, &length) & closes)) at += (size_t)length;
    if (at == s->begin) return 0;
    for (after = at; after < s->end && (kind_at(c, after, &length) & PUNKT_SPACE);) after += (size_t)length;
    const bool dashes = !c->p->rules.closes_one && at + 2 <= s->end && memcmp(c->text + at, "--", 2) == 0;
    if (after == at && at < s->end && !dashes) return 0;
    *all = after - s->begin;
    return at - s->begin;
}

/* Gives closing marks at the beginning of a sentence to the one before it. */
static void realign(cutter *c)
{
    mega_sentence_spans *s = c->out;
    int64_t kept = 0;
    size_t moved = 0;
    for (int64_t i = 0; i < s->count; i++) {
        size_t all = 0, begin = s->span[i].begin + moved, end = s->span[i].end;
        const size_t marks = i + 1 < s->count ? closing_marks(c, &s->span[i + 1], &all) : 0;
        moved = marks > 0 ? all : 0;
        if (marks > 0) end = s->span[i + 1].begin + marks;
        if (begin < end) s->span[kept++] = (mega_sentence_span){begin, end};
    }
    s->count = kept;
}

mega_status mega_punkt_cut(const mega_punkt *p, const char *text, size_t bytes, bool keep_newlines,
                           mega_sentence_spans *out)
{
    out->count = 0;
    cutter c = {.p = p, .text = text, .bytes = bytes, .spaced = p->rules.spaced && !keep_newlines, .out = out};
    c.work = work_of(out);
    if (c.work == NULL) return MEGA_NO_MEMORY("sentences", "words");
    MEGA_TRY(punkt_find_spans(&c));
    MEGA_TRY(mega_buffer_check(&c.work->word[0].type, "the words of a text"));
    MEGA_TRY(mega_buffer_check(&c.work->word[1].type, "the words of a text"));
    realign(&c);
    for (int64_t i = 0; keep_newlines && i < out->count; i++)
        out->span[i].end = i + 1 < out->count ? out->span[i + 1].begin : bytes;
    return MEGA_OK;
}
