/* Reads plain vocabulary files: vocab.json with merges.txt as in GPT-2, and lists of characters. */
#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json_cursor.h"
#include "megalith/line.h"
#include "megalith/utf8.h"
#include "symbols.h"
#include "tokenizer_impl.h"
#include <string.h>

/* Whether its files write bytes in the alphabet of GPT-2. */
static bool uses_symbols(const mega_tokenizer *t)
{
    return t->pipe != NULL ? t->pipe->byte_level : t->kind == MEGA_KIND_BPE || t->kind == MEGA_KIND_BYTE;
}

mega_status mega_tokenizer_add_symbols(mega_tokenizer *t, mega_buffer *scratch, const char *symbols, size_t n,
                                       int64_t id)
{
    if (!uses_symbols(t)) return mega_vocabulary_add(&t->vocabulary, symbols, n, id, 0);
    scratch->size = 0;
    const bool raw = !mega_symbols_read(scratch, symbols, n);
    MEGA_TRY(mega_buffer_check(scratch, t->name));
    return raw ? mega_vocabulary_add(&t->vocabulary, symbols, n, id, MEGA_TOKEN_RAW)
               : mega_vocabulary_add(&t->vocabulary, scratch->data, scratch->size, id, 0);
}

int32_t mega_tokenizer_find_symbols(const mega_tokenizer *t, mega_buffer *scratch, const char *symbols, size_t n)
{
    if (!uses_symbols(t)) return mega_vocabulary_find(&t->vocabulary, symbols, n, false);
    scratch->size = 0;
    const bool raw = !mega_symbols_read(scratch, symbols, n);
    return raw ? mega_vocabulary_find(&t->vocabulary, symbols, n, true)
               : mega_vocabulary_find(&t->vocabulary, scratch->data, scratch->size, false);
}

static mega_status no_merge(const mega_tokenizer *t, mega_buffer *scratch, const char *left, size_t left_size,
                            const char *right, size_t right_size)
{
    const bool no_left = mega_tokenizer_find_symbols(t, scratch, left, left_size) < 0;
    const bool no_right = mega_tokenizer_find_symbols(t, scratch, right, right_size) < 0;
    MEGA_TRY(mega_buffer_check(scratch, t->name));
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "merge '%.*s %.*s': the vocabulary has no token '%.*s%.*s'; expected vocabulary and merges of "
                     "the same training",
                     (int)left_size, left, (int)right_size, right, no_left || !no_right ? (int)left_size : 0, left,
                     no_right || !no_left ? (int)right_size : 0, right);
}

mega_status mega_tokenizer_add_merge(mega_tokenizer *t, mega_buffer *scratch, const char *left, size_t left_size,
                                     const char *right, size_t right_size)
{
    const bool symbols = uses_symbols(t);
    scratch->size = 0;
    if (!symbols) mega_buffer_append(scratch, left, left_size);
    else if (!mega_symbols_read(scratch, left, left_size))
        return no_merge(t, scratch, left, left_size, right, right_size);
    const size_t cut = scratch->size;
    if (!symbols) mega_buffer_append(scratch, right, right_size);
    else if (!mega_symbols_read(scratch, right, right_size))
        return no_merge(t, scratch, left, left_size, right, right_size);
    MEGA_TRY(mega_buffer_check(scratch, t->name));
    const mega_vocabulary *v = &t->vocabulary;
    const mega_merges *m = &t->merges;
    const char *bytes = scratch->data;
    /* merges usually create tokens in the order of their ids */
    const int64_t guess = m->count == 0 ? -1 : (int64_t)m->list[m->count - 1].id + 1;
    const int32_t id = mega_vocabulary_find_near(v, bytes, scratch->size, guess);
    const int32_t left_id = mega_vocabulary_find(v, bytes, cut, false);
    const int32_t right_id = mega_vocabulary_find(v, bytes + cut, scratch->size - cut, false);
    if (id < 0 || left_id < 0 || right_id < 0) return no_merge(t, scratch, left, left_size, right, right_size);
    return mega_merges_add(&t->merges, left_id, right_id, id);
}

static mega_status files_read_vocab(mega_tokenizer *t, mega_cursor *c, mega_buffer *scratch)
{
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) return mega_cursor_end(c);
        MEGA_TRY(mega_cursor_key(c));
        int64_t id;
        MEGA_TRY(mega_cursor_int(c, &id));
        const mega_status st = mega_tokenizer_add_symbols(t, scratch, c->string.data, c->string.size, id);
        if (st != MEGA_OK) {
            MEGA_CONTEXT("%s", c->name);
            return st;
        }
    }
}

static mega_status tokenizer_files_check_merge(const char *path, const mega_line *l)
{
    const char *blank = memchr(l->text, ' ', l->bytes);
    const size_t left = blank == NULL ? 0 : (size_t)(blank - l->text), right = blank == NULL ? 0 : l->bytes - left - 1;
    if (left > 0 && right > 0 && memchr(blank + 1, ' ', right) == NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s line %lld: '%.*s'; expected two tokens with one blank between them", path,
                     (long long)l->number, l->bytes > 80 ? 80 : (int)l->bytes, l->text);
}

static bool is_no_merge(const mega_line *l)
{
    return l->bytes == 0 || (l->number == 1 && l->bytes >= 8 && memcmp(l->text, "#version", 8) == 0);
}

/* One merge per line; the line number is the rank. The header is optional here: the original drops the first line
 * whatever it holds, Hugging Face's `tokenizers` only one that begins with #version; all files known to us have it. */
static mega_status files_read_merges(mega_tokenizer *t, const char *path, const char *text, size_t size,
                                     mega_buffer *scratch)
{
    for (mega_line l = {.rest = text, .left = size}; mega_line_next(&l);) {
        if (is_no_merge(&l)) continue;
        MEGA_TRY(tokenizer_files_check_merge(path, &l));
        const size_t left = (size_t)((const char *)memchr(l.text, ' ', l.bytes) - l.text);
        const mega_status st =
            mega_tokenizer_add_merge(t, scratch, l.text, left, l.text + left + 1, l.bytes - left - 1);
        if (st != MEGA_OK) {
            MEGA_CONTEXT("%s line %lld", path, (long long)l.number);
            return st;
        }
    }
    return MEGA_OK;
}

static mega_status read_text(const char *path, char **text, size_t *size)
{
    MEGA_TRY(mega_file_read_kind(path, "a file of a tokenizer", 0, text, size));
    const mega_status st = mega_encoding_refuse_mark(path, *text, *size);
    if (st == MEGA_OK) return MEGA_OK;
    mega_free(*text);
    *text = NULL;
    return st;
}

static mega_status fill_bpe(mega_tokenizer *t, const char *vocab_file, const char *merge_file)
{
    char *text = NULL;
    size_t size;
    mega_buffer scratch = {0};
    mega_cursor c;
    mega_status st = read_text(vocab_file, &text, &size);
    if (st == MEGA_OK) {
        mega_cursor_init(&c, vocab_file, text, size);
        mega_vocabulary_bound(&t->vocabulary, size);
        st = files_read_vocab(t, &c, &scratch);
        mega_cursor_fini(&c);
        mega_free(text);
        text = NULL;
    }
    if (st == MEGA_OK) st = read_text(merge_file, &text, &size);
    if (st == MEGA_OK) st = files_read_merges(t, merge_file, text, size, &scratch);
    mega_free(text);
    mega_buffer_fini(&scratch);
    if (st == MEGA_OK) st = mega_tokenizer_add_end_of_text(t);
    return st == MEGA_OK ? mega_tokenizer_finish(t) : st;
}

mega_status mega_tokenizer_read_bpe(const char *vocab_file, const char *merge_file, mega_tokenizer **out)
{
    mega_tokenizer *t = NULL;
    MEGA_TRY(mega_tokenizer_begin(MEGA_KIND_BPE, vocab_file, &t));
    const mega_status st = fill_bpe(t, vocab_file, merge_file);
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    return st;
}

/* The files as a tokenizer.json without steps. Its merges, from *at on, are in the lines that they have in their own
 * file. */
static mega_status put_bpe_json(const char *vocab, const char *merge_file, const char *merges, size_t size,
                                mega_buffer *out, size_t *at)
{
    const char *between = "";
    mega_buffer_printf(out, "{\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":[", vocab);
    *at = out->size;
    for (mega_line l = {.rest = merges, .left = size}; mega_line_next(&l);) {
        if (l.number > 1) mega_buffer_puts(out, "\n");
        if (is_no_merge(&l)) continue;
        MEGA_TRY(tokenizer_files_check_merge(merge_file, &l));
        mega_buffer_puts(out, between);
        if (!mega_json_quote(out, l.text, l.bytes))
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s line %lld: it is not UTF-8", merge_file, (long long)l.number);
        between = ",";
    }
    mega_buffer_puts(out, "]}}\n");
    return mega_buffer_check(out, vocab);
}

mega_status mega_tokenizer_read_bpe_folder(const char *vocab_file, const char *merge_file, mega_folder_rules *rules,
                                           mega_tokenizer **out)
{
    char *vocab = NULL, *merges = NULL;
    size_t vocab_size, merges_size;
    mega_buffer json = {0};
    mega_status st = mega_rules_check_class(rules, MEGA_CLASS_GPT2, vocab_file);
    if (st == MEGA_OK) st = read_text(vocab_file, &vocab, &vocab_size);
    if (st == MEGA_OK) st = read_text(merge_file, &merges, &merges_size);
    if (st == MEGA_OK) st = put_bpe_json(vocab, merge_file, merges, merges_size, &json, &rules->merges_at);
    rules->merges_file = merge_file;
    rules->merges_end = json.size;
    if (st == MEGA_OK) st = mega_tokenizer_read_json_text(vocab_file, rules, &json.data, json.size, out);
    mega_buffer_fini(&json);
    MEGA_FREE(merges, vocab);
    return st;
}

static mega_status add_character(mega_tokenizer *t, mega_cursor *c, size_t at, int64_t id)
{
    uint32_t cp;
    const size_t n = c->string.size;
    const int length = n == 0 ? 0 : mega_utf8_decode((const uint8_t *)c->string.data, n, &cp);
    if ((size_t)length != n && !mega_cursor_string_is(c, MEGA_END_OF_TEXT))
        return mega_cursor_fail(
            c, at, "'%.*s' is not one character; a character vocabulary holds single characters and " MEGA_END_OF_TEXT,
            n > 40 ? 40 : (int)n, n == 0 ? "" : c->string.data);
    const mega_status st = mega_vocabulary_add(&t->vocabulary, c->string.data, n, id, 0);
    if (st != MEGA_OK) MEGA_CONTEXT("%s", c->name);
    return st;
}

/* Reads a list (the index is the id) or an object character -> id. */
static mega_status read_characters(mega_tokenizer *t, mega_cursor *c)
{
    const char bracket = mega_cursor_peek(c) == '{' ? '{' : '[';
    MEGA_TRY(mega_cursor_open(c, bracket));
    int64_t id = 0;
    for (bool first = true, more;; id++) {
        MEGA_TRY(mega_cursor_more(c, bracket, &first, &more));
        if (!more) break;
        mega_cursor_peek(c);
        const size_t at = c->at;
        if (bracket == '{') {
            MEGA_TRY(mega_cursor_key(c));
            MEGA_TRY(mega_cursor_int(c, &id));
        } else {
            MEGA_TRY(mega_cursor_string(c));
        }
        MEGA_TRY(add_character(t, c, at, id));
    }
    MEGA_TRY(mega_cursor_end(c));
    if (t->vocabulary.present == 0) return mega_cursor_fail(c, 0, "the vocabulary is empty");
    MEGA_TRY(mega_tokenizer_add_end_of_text(t));
    return mega_tokenizer_finish(t);
}

mega_status mega_tokenizer_read_char(const char *vocab_file, mega_tokenizer **out)
{
    char *text;
    size_t size;
    MEGA_TRY(read_text(vocab_file, &text, &size));
    mega_tokenizer *t = NULL;
    mega_cursor c;
    mega_cursor_init(&c, vocab_file, text, size);
    mega_status st = mega_tokenizer_begin(MEGA_KIND_CHAR, vocab_file, &t);
    if (st == MEGA_OK) {
        mega_vocabulary_bound(&t->vocabulary, size);
        st = read_characters(t, &c);
    }
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    mega_cursor_fini(&c);
    mega_free(text);
    return st;
}

mega_status mega_tokenizer_is_json(bool *out, const char *path)
{
    char *text;
    size_t size;
    MEGA_TRY(read_text(path, &text, &size));
    mega_cursor c;
    mega_cursor_init(&c, path, text, size);
    bool first = true, more = false;
    mega_status st = MEGA_OK;
    *out = false;
    if (mega_cursor_peek(&c) == '{') {
        st = mega_cursor_open(&c, '{');
        if (st == MEGA_OK) st = mega_cursor_more(&c, '{', &first, &more);
        if (st == MEGA_OK && more) {
            st = mega_cursor_key(&c);
            const char kind = mega_cursor_peek(&c);
            *out = kind != '-' && (kind < '0' || kind > '9');
        }
    }
    mega_cursor_fini(&c);
    mega_free(text);
    return st;
}
