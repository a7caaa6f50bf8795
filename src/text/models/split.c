/* The steps that split a text into pieces, as the pre-tokenizers of `tokenizers` do. */
#include "megalith/utf8.h"
#include "tokenizer/pipeline.h"
#include "unicode/unicode.h"
#include <string.h>

static mega_status add_piece(mega_pieces *out, size_t begin, size_t end, bool first)
{
    if (begin == end) return MEGA_OK;
    if (!mega_array_reserve(&out->piece, &out->capacity, out->count + 1, sizeof *out->piece))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %lld pieces of a text", (long long)out->count);
    out->piece[out->count++] = (mega_piece){begin, end, first};
    return MEGA_OK;
}

/* Puts the parts of one piece together as they arrive in order: matches, and what is between them. */
typedef struct joiner {
    const mega_pre_step *step;
    mega_pieces *out;
    size_t begin; /* of the piece that is split */
    bool first;
    bool open, open_is_match; /* a part that may still grow */
    size_t open_begin, open_end;
} joiner;

static mega_status joiner_flush(joiner *j)
{
    if (!j->open) return MEGA_OK;
    j->open = false;
    return add_piece(j->out, j->open_begin, j->open_end, j->first && j->open_begin == j->begin);
}

static mega_status joiner_add(joiner *j, size_t begin, size_t end, bool match)
{
    bool grows = false;
    match = match != j->step->invert;
    switch (j->step->behavior) {
    case MEGA_SPLIT_REMOVED:
        if (match) return joiner_flush(j);
        break;
    case MEGA_SPLIT_ISOLATED: break;
    case MEGA_SPLIT_WITH_PREVIOUS: grows = match && j->open && !j->open_is_match; break;
    case MEGA_SPLIT_WITH_NEXT: grows = !match && j->open && j->open_is_match; break;
    case MEGA_SPLIT_CONTIGUOUS: grows = j->open && j->open_is_match == match; break;
    }
    if (grows) {
        j->open_end = end;
        j->open_is_match = match;
        return MEGA_OK;
    }
    MEGA_TRY(joiner_flush(j));
    j->open = true;
    j->open_is_match = match;
    j->open_begin = begin;
    j->open_end = end;
    return MEGA_OK;
}

/* Splits text[at..end), which is UTF-8, by an expression. */
static mega_status split_by_regex(joiner *j, mega_regex_match *match, const uint8_t *text, size_t at, size_t end)
{
    size_t done = at;
    for (size_t from = at; from < end;) {
        bool found;
        size_t begin = 0, stop = 0;
        MEGA_TRY(mega_regex_find(j->step->regex, match, text + at, end - at, from - at, &found, &begin, &stop));
        if (!found) break;
        begin += at;
        stop += at;
        if (begin > done) MEGA_TRY(joiner_add(j, done, begin, false));
        if (stop > begin) MEGA_TRY(joiner_add(j, begin, stop, true));
        done = stop;
        from = stop > begin ? stop : stop + 1; /* after an empty match, the next character */
        while (from < end && stop == begin && (text[from] & 0xC0) == 0x80) from++;
    }
    return done < end ? joiner_add(j, done, end, false) : MEGA_OK;
}

static mega_status split_by_string(joiner *j, const uint8_t *text, size_t at, size_t end)
{
    const mega_text *by = &j->step->text;
    while (at < end && by->size > 0) {
        const uint8_t *found = memmem(text + at, end - at, by->data, by->size);
        if (found == NULL) break;
        const size_t begin = (size_t)(found - text);
        if (begin > at) MEGA_TRY(joiner_add(j, at, begin, false));
        MEGA_TRY(joiner_add(j, begin, begin + by->size, true));
        at = begin + by->size;
    }
    return at < end ? joiner_add(j, at, end, false) : MEGA_OK;
}

static mega_status split_by_numbers(joiner *j, const uint8_t *text, size_t at, size_t end)
{
    size_t done = at;
    while (at < end) {
        uint32_t cp = 0;
        const int length = mega_utf8_decode(text + at, end - at, &cp);
        const size_t next = at + (length > 0 ? (size_t)length : 1);
        if (length > 0 && unicode_class(cp) == MEGA_CLASS_NUMBER) {
            if (at > done) MEGA_TRY(joiner_add(j, done, at, false));
            MEGA_TRY(joiner_add(j, at, next, true));
            done = next;
        }
        at = next;
    }
    return done < end ? joiner_add(j, done, end, false) : MEGA_OK;
}

/* Matches are white space or, with the kinds of BERT's characters, punctuation. */
static mega_status split_by_kind(joiner *j, const mega_bert *punctuation, const uint8_t *text, size_t at, size_t end)
{
    size_t done = at;
    while (at < end) {
        uint32_t cp = text[at];
        const int length = cp < 0x80 ? 1 : mega_utf8_decode(text + at, end - at, &cp);
        const size_t next = at + (length > 0 ? (size_t)length : 1);
        const bool match = punctuation != NULL ? (punctuation->kind[cp] & MEGA_BERT_PUNCTUATION) != 0
                                               : unicode_class(cp) == MEGA_CLASS_SPACE;
        if (length > 0 && match) {
            if (at > done) MEGA_TRY(joiner_add(j, done, at, false));
            MEGA_TRY(joiner_add(j, at, next, true));
            done = next;
        }
        at = next;
    }
    return done < end ? joiner_add(j, done, end, false) : MEGA_OK;
}

static mega_status split_by_pattern(joiner *j, mega_split split, const uint8_t *text, size_t at, size_t end)
{
    while (at < end) {
        const size_t stop = at + mega_split_end(split, text + at, 0, end - at);
        MEGA_TRY(joiner_add(j, at, stop, true));
        at = stop;
    }
    return MEGA_OK;
}

static mega_status split_piece(const mega_pre_step *s, const mega_bert *bert, mega_regex_match *match,
                               const uint8_t *text, const mega_piece *piece, mega_pieces *out)
{
    joiner j = {.step = s, .out = out, .begin = piece->begin, .first = piece->first};
    size_t at = piece->begin;
    mega_status st = MEGA_OK;
    switch (s->kind) {
    case MEGA_PRE_STRING: st = split_by_string(&j, text, at, piece->end); break;
    case MEGA_PRE_NUMBERS: st = split_by_numbers(&j, text, at, piece->end); break;
    case MEGA_PRE_WHITE: st = split_by_kind(&j, NULL, text, at, piece->end); break;
    case MEGA_PRE_PUNCTUATION: st = split_by_kind(&j, bert, text, at, piece->end); break;
    case MEGA_PRE_PATTERN: st = split_by_pattern(&j, s->split, text, at, piece->end); break;
    case MEGA_PRE_REGEX:
        while (at < piece->end && st == MEGA_OK) { /* bytes that are not UTF-8 are in no match */
            const size_t valid = mega_utf8_valid_bytes((const char *)text + at, piece->end - at);
            if (valid > 0) st = split_by_regex(&j, match, text, at, at + valid);
            at += valid;
            if (at < piece->end && st == MEGA_OK) st = joiner_add(&j, at, at + 1, false);
            at++;
        }
        break;
    case MEGA_PRE_BYTE_LEVEL:
    case MEGA_PRE_METASPACE:
    case MEGA_PRE_BERT: break;
    }
    return st == MEGA_OK ? joiner_flush(&j) : st;
}

/* Writes the pieces again with a prefix in front of each; a blank that is there already is enough. */
static mega_status add_blanks(const mega_pieces *in, const uint8_t *text, mega_buffer *out, mega_pieces *made)
{
    for (int64_t i = 0; i < in->count; i++) {
        const mega_piece *p = &in->piece[i];
        const size_t begin = out->size;
        if (text[p->begin] != ' ') mega_buffer_append(out, " ", 1);
        mega_buffer_append(out, text + p->begin, p->end - p->begin);
        MEGA_TRY(mega_buffer_check(out, "a text with blanks"));
        MEGA_TRY(add_piece(made, begin, out->size, p->first));
    }
    return MEGA_OK;
}

static bool split_begins_with(const uint8_t *text, size_t n, const mega_text *with)
{
    return n >= with->size && memcmp(text, with->data, with->size) == 0;
}

/* Replaces blanks by the mark, prepends one, and cuts in front of each. */
static mega_status metaspace(const mega_pre_step *s, const mega_pieces *in, const uint8_t *text, mega_buffer *out,
                             mega_pieces *made)
{
    for (int64_t i = 0; i < in->count; i++) {
        const mega_piece *p = &in->piece[i];
        const uint8_t *at = text + p->begin, *const end = text + p->end;
        const size_t begin = out->size;
        size_t open = begin; /* the piece after the last mark, if blanks alone become marks */
        const bool cuts = s->use_pattern && memmem(at, (size_t)(end - at), s->text.data, s->text.size) == NULL;
        const bool wanted = s->prepend == MEGA_PREPEND_ALWAYS || (s->prepend == MEGA_PREPEND_FIRST && p->first);
        if (wanted && *at != ' ' && !split_begins_with(at, (size_t)(end - at), &s->text))
            mega_buffer_append(out, s->text.data, s->text.size);
        while (at < end) {
            const uint8_t *blank = memchr(at, ' ', (size_t)(end - at));
            mega_buffer_append(out, at, (size_t)((blank != NULL ? blank : end) - at));
            if (blank != NULL && cuts) {
                MEGA_TRY(add_piece(made, open, out->size, p->first && open == begin));
                open = out->size;
            }
            if (blank != NULL) mega_buffer_append(out, s->text.data, s->text.size);
            at = blank != NULL ? blank + 1 : end;
        }
        MEGA_TRY(mega_buffer_check(out, "a text with marks"));
        if (cuts || !s->use_pattern) {
            MEGA_TRY(add_piece(made, open, out->size, p->first && open == begin));
            continue;
        }
        const mega_pre_step by_mark = {.kind = MEGA_PRE_STRING, .behavior = MEGA_SPLIT_WITH_NEXT, .text = s->text};
        const mega_piece whole = {begin, out->size, p->first};
        MEGA_TRY(split_piece(&by_mark, NULL, NULL, (const uint8_t *)out->data, &whole, made));
    }
    return MEGA_OK;
}

/* Writes the words and punctuation characters one after another, without the white space between them. */
static mega_status split_bert(const mega_bert *b, const mega_pieces *in, const uint8_t *text, mega_buffer *out,
                              mega_pieces *made)
{
    for (int64_t i = 0; i < in->count; i++) {
        const mega_piece *p = &in->piece[i];
        if (!mega_buffer_reserve(out, p->end - p->begin)) return mega_buffer_check(out, "the words of a text");
        char *const base = out->data, *to = base + out->size, *word = to;
        for (size_t at = p->begin, next; at < p->end; at = next) {
            uint32_t cp = text[at];
            const int length = cp < 0x80 ? 1 : mega_utf8_decode(text + at, p->end - at, &cp);
            const int kind = length > 0 ? b->kind[cp] & (MEGA_BERT_WHITE | MEGA_BERT_PUNCTUATION) : 0;
            next = at + (length > 0 ? (size_t)length : 1);
            if (kind != 0 && to > word) {
                MEGA_TRY(add_piece(made, (size_t)(word - base), (size_t)(to - base), false));
                word = to;
            }
            if ((kind & MEGA_BERT_WHITE) != 0) continue;
            for (size_t k = at; k < next; k++) *to++ = (char)text[k];
            if (kind == 0) continue;
            MEGA_TRY(add_piece(made, (size_t)(word - base), (size_t)(to - base), false));
            word = to;
        }
        MEGA_TRY(add_piece(made, (size_t)(word - base), (size_t)(to - base), false));
        out->size = (size_t)(to - base);
    }
    return MEGA_OK;
}

mega_status mega_pipeline_split(const mega_pipeline *p, mega_regex_match *match, mega_span text, bool first,
                                mega_buffer buffers[2], mega_pieces pieces[2], mega_span *result)
{
    int next = 0;
    *result = text;
    pieces[0].count = 0;
    MEGA_TRY(add_piece(&pieces[0], 0, text.n, first));
    for (int i = 0; i < p->num_pre; i++) {
        const mega_pre_step *s = &p->pre[i];
        const bool rewrites = s->kind == MEGA_PRE_METASPACE || s->kind == MEGA_PRE_BERT ||
                              (s->kind == MEGA_PRE_BYTE_LEVEL && s->prefix_blank);
        pieces[1].count = 0;
        if (rewrites) {
            mega_buffer *out = &buffers[next];
            next = 1 - next;
            out->size = 0;
            if (s->kind == MEGA_PRE_BERT) MEGA_TRY(split_bert(p->bert, &pieces[0], result->text, out, &pieces[1]));
            else if (s->kind == MEGA_PRE_METASPACE)
                MEGA_TRY(metaspace(s, &pieces[0], result->text, out, &pieces[1]));
            else
                MEGA_TRY(add_blanks(&pieces[0], result->text, out, &pieces[1]));
            *result = (mega_span){(const uint8_t *)(out->size > 0 ? out->data : ""), out->size};
        } else if (s->kind != MEGA_PRE_BYTE_LEVEL) {
            for (int64_t k = 0; k < pieces[0].count; k++)
                MEGA_TRY(split_piece(s, p->bert, match, result->text, &pieces[0].piece[k], &pieces[1]));
        } else {
            continue;
        }
        const mega_pieces made = pieces[1];
        pieces[1] = pieces[0];
        pieces[0] = made;
    }
    return MEGA_OK;
}
