/* Ids to text. */
#include "megalith/utf8.h"
#include "tokenizer/tokenizer_impl.h"
#include <string.h>

struct mega_decoder {
    const mega_tokenizer *tokenizer;
    bool continues, stripping, after_blank, written;
    int64_t index, strip_left;
    mega_buffer held; /* decoded text that is to be cleaned up */
    mega_buffer run;  /* bytes that are written when the run of their tokens ends */
    mega_buffer scratch[2];
};

static void decoder_begin(mega_decoder *d, const mega_tokenizer *t, bool continues)
{
    d->tokenizer = t;
    d->continues = d->written = continues;
    d->after_blank = false;
    d->index = 0;
    d->stripping = !continues && t->pipe != NULL && t->pipe->decoder.strip_most > 0;
    d->strip_left = d->stripping ? t->pipe->decoder.strip_most : 0;
    d->run.size = d->held.size = 0;
}

static void decoder_fini(mega_decoder *d)
{
    mega_buffer_fini(&d->held);
    mega_buffer_fini(&d->run);
    mega_buffer_fini(&d->scratch[0]);
    mega_buffer_fini(&d->scratch[1]);
}

static mega_status get_token(const mega_tokenizer *t, int32_t id, int64_t index, const mega_token **out)
{
    if (id < 0 || id >= t->size)
        return MEGA_MISTAKE("id %d at index %lld is not in the vocabulary of %s; its ids are 0 to %lld", id,
                            (long long)index, t->name, (long long)t->size - 1);
    *out = mega_vocabulary_get(&t->vocabulary, id);
    if (*out == NULL && t->kind != MEGA_KIND_NULL)
        return MEGA_MISTAKE("id %d at index %lld is a gap in the vocabulary of %s: no token has this id", id,
                            (long long)index, t->name);
    return MEGA_OK;
}

/* Appends decoded text, without the characters that are stripped from its begin. */
static void decoder_put(mega_decoder *d, const char *text, size_t n, mega_buffer *out)
{
    while (d->stripping && n > 0) {
        uint32_t cp = 0;
        const int length = mega_utf8_decode((const uint8_t *)text, n, &cp);
        d->stripping = d->strip_left > 0 && length > 0 && cp == d->tokenizer->pipe->decoder.strip;
        if (!d->stripping) break;
        d->strip_left--;
        text += length;
        n -= (size_t)length;
    }
    if (n > 0) d->written = true;
    mega_buffer_append(out, text, n);
}

static void decoder_replace_all(const char *text, size_t n, const mega_text *from, const mega_text *to,
                                mega_buffer *out)
{
    while (n > 0) {
        const char *found = from->size > 0 ? memmem(text, n, from->data, from->size) : NULL;
        const size_t before = found != NULL ? (size_t)(found - text) : n;
        mega_buffer_append(out, text, before);
        if (found == NULL) return;
        mega_buffer_append(out, to->data, to->size);
        text += before + from->size;
        n -= before + from->size;
    }
}

/* Makes a text without the blanks before punctuation and inside contractions. `tokenizers` also knows "do not". */
static mega_span decoder_clean_spaces(mega_decoder *d, const char *text, size_t n, bool not )
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    int next = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const mega_text from = {(char *)(uintptr_t)pairs[i][0], strlen(pairs[i][0])};
        const mega_text to = {(char *)(uintptr_t)pairs[i][1], strlen(pairs[i][1])};
        if ((!not &&i == 7) || memmem(text, n, from.data, from.size) == NULL) continue;
        mega_buffer *made = &d->scratch[next];
        next = 1 - next;
        made->size = 0;
        decoder_replace_all(text, n, &from, &to, made);
        if (made->size == 0) return (mega_span){(const uint8_t *)"", 0}; /* no memory */
        text = made->data;
        n = made->size;
    }
    return (mega_span){(const uint8_t *)text, n};
}

static void put_clean(mega_decoder *d, const char *text, size_t n, bool not, mega_buffer *out)
{
    const mega_span made = decoder_clean_spaces(d, text, n, not );
    decoder_put(d, (const char *)made.text, made.n, out);
}

static void decoder_put_run(mega_decoder *d, mega_buffer *out)
{
    const char *bytes = d->run.data;
    const size_t n = d->run.size;
    const bool each = d->tokenizer->pipe->decoder.sentencepiece;
    if (n == 0) return;
    d->run.size = 0;
    if (d->tokenizer->pipe->decoder.wordpiece) {
        put_clean(d, bytes, n, false, out);
        return;
    }
    size_t valid = mega_utf8_valid_bytes(bytes, n);
    if (valid < n && !each) valid = 0;
    for (size_t at = 0; at < n;) {
        decoder_put(d, bytes + at, valid, out);
        at += valid;
        if (at < n) {
            decoder_put(d, "\xEF\xBF\xBD", 3, out);
            at++;
        }
        valid = each ? mega_utf8_valid_bytes(bytes + at, n - at) : 0;
    }
}

/* The byte that a token <0xHH> stands for, -1 for any other. */
static int byte_of(const mega_tokenizer *t, int32_t id, const char *text, size_t n)
{
    const mega_pipeline *p = t->pipe;
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9'                     ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                   : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return p->decoder.sentencepiece && p->byte_token[value] != id ? -1 : value;
}

/* What SentencePiece shows of a token that stands for no byte. */
static void put_sentencepiece(mega_decoder *d, int32_t id, const char *text, size_t n, mega_buffer *out)
{
    const mega_pipeline *p = d->tokenizer->pipe;
    const mega_decoder_steps *steps = &p->decoder;
    const bool at_begin = !d->after_blank && !d->written && (p->dummy_prefix || p->remove_extra);
    d->after_blank = false;
    if (id == p->unknown) {
        decoder_put(d, steps->unknown.data, steps->unknown.size, out);
        return;
    }
    if ((mega_vocabulary_get(&d->tokenizer->vocabulary, id)->flags & MEGA_TOKEN_CONTROL) != 0) return;
    if (at_begin && n >= 3 && memcmp(text, steps->from[0].data, 3) == 0) {
        text += 3;
        n -= 3;
        if (!p->remove_extra) d->after_blank = d->written = true;
    }
    d->scratch[0].size = 0;
    decoder_replace_all(text, n, &steps->from[0], &steps->to[0], &d->scratch[0]);
    decoder_put(d, d->scratch[0].data, d->scratch[0].size, out);
}

static void put_replaced(mega_decoder *d, const char *text, size_t n, mega_buffer *out)
{
    static const mega_text nothing = {NULL, 0};
    const mega_decoder_steps *steps = &d->tokenizer->pipe->decoder;
    const bool drops = steps->metaspace && d->index == 0 && !d->continues;
    for (int i = 0; i < steps->replacements; i++) {
        mega_buffer *made = &d->scratch[i % 2];
        made->size = 0;
        decoder_replace_all(text, n, &steps->from[i], drops && i == 0 ? &nothing : &steps->to[i], made);
        if (made->failed) out->failed = true;
        text = made->data;
        n = made->size;
    }
    decoder_put(d, text, n, out);
}

/* The place of the last blank in a text such that no replacement of put_clean reaches over it; 0: none. The longest
 * replacements are those of " n't" and of " ' ", which may first make the former from " n ' t". */
static size_t safe_blank(const mega_buffer *b)
{
    const char *text = b->data;
    for (size_t at = b->size; at-- > 1;)
        if (text[at] == ' ' && text[at - 1] != '\'' && !(text[at - 1] == 'n' && at > 1 && text[at - 2] == ' '))
            return at;
    return 0;
}

static void put_wordpiece(mega_decoder *d, const char *text, size_t n, mega_buffer *out)
{
    const mega_decoder_steps *steps = &d->tokenizer->pipe->decoder;
    const mega_text *prefix = &steps->prefix;
    const bool first = d->index == 0 && !d->continues;
    const bool joins = n >= prefix->size && prefix->size > 0 && memcmp(text, prefix->data, prefix->size) == 0;
    mega_buffer *token = &d->run;
    if (!first && !joins) mega_buffer_append(token, " ", 1);
    const size_t skipped = !first && joins ? prefix->size : 0;
    mega_buffer_append(token, text + skipped, n - skipped);
    if (token->failed) return;
    const size_t ready = steps->whole ? safe_blank(token) : token->size;
    if (ready == 0) return;
    if (steps->cleanup) put_clean(d, token->data, ready, !steps->whole, out);
    else
        decoder_put(d, token->data, ready, out);
    token->size -= ready;
    memmove(token->data, token->data + ready, token->size);
}

/* Appends what is decoded and waits to be cleaned up: all, or what no later text changes. */
static void put_held(mega_decoder *d, bool all, mega_buffer *out)
{
    const size_t ready = all ? d->held.size : safe_blank(&d->held);
    if (ready == 0) return;
    const mega_span made = decoder_clean_spaces(d, d->held.data, ready, false);
    mega_buffer_append(out, (const char *)made.text, made.n);
    d->held.size -= ready;
    memmove(d->held.data, d->held.data + ready, d->held.size);
}

static void add_token(mega_decoder *d, int32_t id, const mega_token *token, mega_buffer *out)
{
    const mega_tokenizer *t = d->tokenizer;
    const mega_pipeline *p = t->pipe;
    if (t->kind == MEGA_KIND_NULL) {
        mega_buffer_printf(out, d->index == 0 && !d->continues ? "%d" : " %d", id);
    } else if (p == NULL || p->decoder.none) {
        mega_buffer_append(out, mega_token_bytes(&t->vocabulary, token), token->size);
    } else if (p->decoder.wordpiece) {
        put_wordpiece(d, mega_token_bytes(&t->vocabulary, token), token->size, out);
    } else {
        const char *text = mega_token_bytes(&t->vocabulary, token);
        const int byte = p->decoder.byte_fallback ? byte_of(t, id, text, token->size) : -1;
        if (byte >= 0) {
            mega_buffer_append(&d->run, &(char){(char)byte}, 1);
        } else {
            decoder_put_run(d, out);
            if (p->decoder.sentencepiece) put_sentencepiece(d, id, text, token->size, out);
            else
                put_replaced(d, text, token->size, out);
        }
    }
}

/* A text without what found no memory on its way would be another text. */
static mega_status decoder_check(const mega_decoder *d, mega_buffer *out)
{
    out->failed = out->failed || d->run.failed || d->held.failed || d->scratch[0].failed || d->scratch[1].failed;
    return mega_buffer_check(out, "decoded text");
}

mega_status mega_decoder_add(mega_decoder *d, int32_t id, mega_buffer *out)
{
    const mega_tokenizer *t = d->tokenizer;
    const mega_token *token = NULL;
    MEGA_TRY(get_token(t, id, d->index, &token));
    add_token(d, id, token, t->cleans_up ? &d->held : out);
    d->index++;
    if (t->cleans_up && !d->held.failed) put_held(d, false, out);
    return decoder_check(d, out);
}

mega_status mega_decoder_finish(mega_decoder *d, mega_buffer *out)
{
    const bool cleans = d->tokenizer->cleans_up;
    if (d->tokenizer->pipe != NULL) decoder_put_run(d, cleans ? &d->held : out);
    if (cleans && !d->held.failed) put_held(d, true, out);
    const mega_status st = decoder_check(d, out);
    decoder_begin(d, d->tokenizer, d->continues);
    return st;
}

mega_status mega_decoder_create(const mega_tokenizer *t, bool continues, mega_decoder **out)
{
    mega_decoder *d = mega_calloc(1, sizeof *d);
    if (d == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "decoder of %s: no memory", t->name);
    decoder_begin(d, t, continues);
    *out = d;
    return MEGA_OK;
}

void mega_decoder_destroy(mega_decoder *d)
{
    if (d == NULL) return;
    decoder_fini(d);
    mega_free(d);
}

static mega_status decode_all(const mega_tokenizer *t, const int32_t *ids, int64_t count, bool continues,
                              mega_buffer *out)
{
    mega_decoder d = {0};
    mega_status st = MEGA_OK;
    decoder_begin(&d, t, continues);
    for (int64_t i = 0; i < count && st == MEGA_OK; i++) st = mega_decoder_add(&d, ids[i], out);
    if (st == MEGA_OK) st = mega_decoder_finish(&d, out);
    decoder_fini(&d);
    return st;
}

mega_status mega_tokenizer_decode(const mega_tokenizer *t, const int32_t *ids, int64_t count, mega_buffer *out)
{
    return decode_all(t, ids, count, false, out);
}

mega_status mega_tokenizer_decode_more(const mega_tokenizer *t, const int32_t *ids, int64_t count, mega_buffer *out)
{
    return decode_all(t, ids, count, true, out);
}

mega_status mega_tokenizer_piece(const mega_tokenizer *t, int32_t id, mega_buffer *out)
{
    mega_decoder d = {0};
    decoder_begin(&d, t, t->kind != MEGA_KIND_NULL); /* a number without the blank before it */
    mega_status st = mega_decoder_add(&d, id, out);
    if (st == MEGA_OK && d.held.size > 0) mega_buffer_append(out, d.held.data, d.held.size);
    if (st == MEGA_OK && d.run.size > 0) mega_buffer_append(out, d.run.data, d.run.size); /* the byte as it is */
    decoder_fini(&d);
    return st == MEGA_OK ? mega_buffer_check(out, "decoded token") : st;
}
