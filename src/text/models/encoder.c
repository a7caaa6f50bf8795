/* Text to ids: splits off added tokens first, and passes the text between them to the encoder of the tokenizer's
 * kind. */
#include "encoder.h"

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

static mega_status create_pipeline(mega_encoder *e, const mega_pipeline *p)
{
    bool has_regex = false;
    for (int i = 0; i < p->num_normalize; i++) has_regex = has_regex || p->normalize[i].regex != NULL;
    for (int i = 0; i < p->num_pre; i++) has_regex = has_regex || p->pre[i].regex != NULL;
    return has_regex ? mega_regex_match_create(&e->match) : MEGA_OK;
}

mega_status mega_encoder_create(const mega_tokenizer *t, mega_encoder **out)
{
    mega_encoder *e = mega_calloc(1, sizeof *e);
    if (e == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "encoder of %s: no memory", t->name);
    e->tokenizer = t;
    e->split = MEGA_SPLIT_GPT2;
    mega_status st = t->merges.count > 0 || t->pipe != NULL ? create_words(e) : MEGA_OK;
    if (st == MEGA_OK && t->pipe != NULL) st = create_pipeline(e, t->pipe);
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
    MEGA_FREE(e->symbols, e->path);
    mega_regex_match_destroy(e->match);
    for (int i = 0; i < 2; i++) {
        mega_buffer_fini(&e->normal[i]);
        mega_buffer_fini(&e->splitted[i]);
        mega_free(e->pieces[i].piece);
    }
    mega_free(e);
}

static mega_status encode_plain(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    if (n == 0) return MEGA_OK;
    if (e->tokenizer->pipe != NULL) return mega_encoder_pieces(e, text, n, begin, begin == 0 && !e->drops_first, out);
    switch (e->tokenizer->kind) {
    case MEGA_KIND_CHAR: return mega_encoder_chars(e->tokenizer, text, n, begin, out);
    case MEGA_KIND_NULL: return mega_encoder_numbers(e->tokenizer, text, n, begin, out);
    default: return mega_encoder_bpe(e, text, n, begin, out);
    }
}

/* Pass 0 looks for tokens that are not `normalized`, pass 1 for the others in the remaining text, after it is
 * normalized, as Hugging Face's `tokenizers` does. A special token that is not requested stays text, and still hides
 * tokens that overlap it. */
static mega_status encode_pass(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, int pass, bool special,
                               mega_ids *out)
{
    const mega_tokenizer *t = e->tokenizer;
    if (pass == 2) return encode_plain(e, text, n, begin, out);
    if (pass == 1 && t->pipe != NULL) {
        mega_span normal;
        if (begin == 0)
            MEGA_TRY(mega_pipeline_drops_first(t->pipe, e->match, (mega_span){text, n}, e->normal, &e->drops_first));
        MEGA_TRY(mega_pipeline_normalize(t->pipe, e->match, (mega_span){text, n}, e->normal, &normal));
        text = normal.text;
        n = normal.n;
    }
    size_t done = 0;
    for (size_t from = 0, at, end;;) {
        const int i = mega_added_find(t, text, n, from, done, pass, special, &at, &end, &from);
        if (i < 0) break;
        if (at > done) MEGA_TRY(encode_pass(e, text + done, at - done, begin + done, pass + 1, special, out));
        MEGA_TRY(mega_ids_reserve(out, 1));
        out->id[out->count++] = t->added[i].id;
        done = end;
    }
    return done < n ? encode_pass(e, text + done, n - done, begin + done, pass + 1, special, out) : MEGA_OK;
}

static mega_status encoder_put_ids(const int32_t *id, int count, mega_ids *out)
{
    MEGA_TRY(mega_ids_reserve(out, count));
    for (int i = 0; i < count; i++) out->id[out->count++] = id[i];
    return MEGA_OK;
}

static mega_status encoder_run(mega_encoder *e, const char *text, size_t bytes, int pass, bool special, bool whole,
                               mega_ids *out)
{
    const int64_t before = out->count;
    const mega_pipeline *p = whole ? e->tokenizer->pipe : NULL;
    mega_status st = p != NULL ? encoder_put_ids(p->prefix, p->num_prefix, out) : MEGA_OK;
    if (st == MEGA_OK) st = encode_pass(e, (const uint8_t *)text, bytes, 0, pass, special, out);
    if (st == MEGA_OK && p != NULL) st = encoder_put_ids(p->suffix, p->num_suffix, out);
    if (st != MEGA_OK) out->count = before;
    return st;
}

mega_status mega_encoder_encode(mega_encoder *e, const char *text, size_t bytes, mega_ids *out)
{
    const mega_tokenizer *t = e->tokenizer;
    const bool special = t->special_in_data && !t->splits_special;
    const int pass = t->pipe != NULL || t->has_plain_added || (special && t->num_added > 0) ? 0 : 2;
    return encoder_run(e, text, bytes, pass, special, true, out);
}

mega_status mega_encoder_encode_part(mega_encoder *e, const char *text, size_t bytes, mega_ids *out)
{
    const mega_tokenizer *t = e->tokenizer;
    const bool special = t->special_in_data && !t->splits_special;
    const int pass = t->pipe != NULL || t->has_plain_added || (special && t->num_added > 0) ? 0 : 2;
    return encoder_run(e, text, bytes, pass, special, false, out);
}

mega_status mega_encoder_encode_special(mega_encoder *e, const char *text, size_t bytes, mega_ids *out)
{
    const int pass = e->tokenizer->pipe != NULL || e->tokenizer->num_added > 0 ? 0 : 2;
    return encoder_run(e, text, bytes, pass, !e->tokenizer->splits_special, true, out);
}
