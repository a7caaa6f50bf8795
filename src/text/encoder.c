/* Text to ids: splits off added tokens first, and passes the text between them to the encoder of the tokenizer's
 * kind. */
#include "encoder.h"
#include <string.h>

mega_encode_set mega_encode_set_for(mega_isa isa)
{
    if (isa >= MEGA_ISA_AVX512) return (mega_encode_set){mega_encode_words_avx512, mega_word_ends_avx512};
    if (isa >= MEGA_ISA_AVX2) return (mega_encode_set){mega_encode_words_avx2, mega_word_ends_avx2};
    return (mega_encode_set){mega_encode_words_portable, mega_word_ends_portable};
}

static mega_status create_words(mega_encoder *e)
{
    e->words = mega_encode_set_for(mega_cpu_isa()).words;
    MEGA_TRY(mega_word_cache_init(&e->cache, "word cache of an encoder"));
    if (e->tokenizer->pairs.slot == NULL) return MEGA_OK;
    e->symbols = mega_malloc(sizeof *e->symbols);
    return e->symbols != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "encoder of %s: no memory", e->tokenizer->name);
}

mega_status mega_encoder_create(const mega_tokenizer *t, mega_encoder **out)
{
    mega_encoder *e = mega_calloc(1, sizeof *e);
    if (e == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "encoder of %s: no memory", t->name);
    e->tokenizer = t;
    const mega_status st = t->merges.count > 0 ? create_words(e) : MEGA_OK;
    if (st == MEGA_OK) *out = e;
    else
        mega_encoder_destroy(e);
    return st;
}

void mega_encoder_destroy(mega_encoder *e)
{
    if (e == NULL) return;
    mega_bpe_fini(&e->bpe);
    mega_word_cache_fini(&e->cache);
    mega_free(e->symbols);
    mega_free(e);
}

static mega_status encode_plain(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    if (n == 0) return MEGA_OK;
    switch (e->tokenizer->kind) {
    case MEGA_KIND_CHAR: return mega_encoder_chars(e->tokenizer, text, n, begin, out);
    case MEGA_KIND_NULL: return mega_encoder_numbers(e->tokenizer, text, n, begin, out);
    default: return mega_encoder_bpe(e, text, n, begin, out);
    }
}

/* Returns the longest added token of this pass that begins at p; NULL: none. */
static const mega_added_token *added_at(const mega_tokenizer *t, const uint8_t *p, size_t n, bool normalized)
{
    const mega_added_token *best = NULL;
    for (int i = 0; i < t->num_added; i++) {
        const mega_added_token *a = &t->added[i];
        if (a->normalized == normalized && a->size > 0 && a->size <= n && a->content[0] == (char)*p &&
            (best == NULL || a->size > best->size) && memcmp(a->content, p, a->size) == 0)
            best = a;
    }
    return best;
}

/* Pass 0 looks for tokens that are not `normalized`, pass 1 for the others in the remaining text, as Hugging Face's
 * `tokenizers` does. A special token that is not requested stays text, and still hides tokens that overlap it. */
static mega_status encode_pass(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, int pass, bool special,
                               mega_ids *out)
{
    const mega_tokenizer *t = e->tokenizer;
    if (pass == 2) return encode_plain(e, text, n, begin, out);
    size_t done = 0;
    for (size_t at = 0; at < n;) {
        const mega_added_token *a = added_at(t, text + at, n - at, pass == 1);
        if (a != NULL && (special || !a->special)) {
            MEGA_TRY(encode_pass(e, text + done, at - done, begin + done, pass + 1, special, out));
            MEGA_TRY(mega_ids_reserve(out, 1));
            out->id[out->count++] = a->id;
            done = at + a->size;
        }
        at += a != NULL ? a->size : 1;
    }
    return encode_pass(e, text + done, n - done, begin + done, pass + 1, special, out);
}

mega_status mega_encoder_encode(mega_encoder *e, const char *text, size_t bytes, mega_ids *out)
{
    const int64_t before = out->count;
    const int pass = e->tokenizer->has_plain_added ? 0 : 2;
    const mega_status st = encode_pass(e, (const uint8_t *)text, bytes, 0, pass, false, out);
    if (st != MEGA_OK) out->count = before;
    return st;
}

mega_status mega_encoder_encode_special(mega_encoder *e, const char *text, size_t bytes, mega_ids *out)
{
    const int64_t before = out->count;
    const int pass = e->tokenizer->num_added > 0 ? 0 : 2;
    const mega_status st = encode_pass(e, (const uint8_t *)text, bytes, 0, pass, true, out);
    if (st != MEGA_OK) out->count = before;
    return st;
}
