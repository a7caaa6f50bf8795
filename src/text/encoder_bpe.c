/* Byte-level BPE: words by GPT-2's split, each from the cache or merged anew. */
#include "encoder.h"
#include "pretokenize.h"
#include <string.h>

static mega_status no_byte(const mega_encoder *e, const uint8_t *word, size_t at, size_t begin)
{
    return MEGA_FAIL(
        MEGA_ERR_FORMAT,
        "byte 0x%02X at byte %zu of the text: the vocabulary of %s has no token for it; use one that holds all "
        "256 bytes, as those of GPT-2 and of train_tokenizer do",
        word[at], begin + at, e->tokenizer->name);
}

/* Leaves the ids in e->bpe.symbol. */
static mega_status merge_word(mega_encoder *e, const uint8_t *word, size_t n, size_t begin, int64_t *count)
{
    MEGA_TRY(mega_bpe_reserve(&e->bpe, (int64_t)n));
    for (size_t i = 0; i < n; i++) {
        e->bpe.symbol[i] = e->tokenizer->byte_id[word[i]];
        if (e->bpe.symbol[i] < 0) return no_byte(e, word, i, begin);
    }
    *count = mega_bpe_merge(&e->bpe, &e->tokenizer->merges, (int64_t)n);
    return *count < 0 ? MEGA_ERR_MEMORY : MEGA_OK;
}

static uint64_t hash_word(const uint8_t word[32])
{
    uint64_t part[4];
    memcpy(part, word, sizeof part);
    uint64_t h = part[0] * 0x9E3779B97F4A7C15ull ^ part[1] * 0xC2B2AE3D27D4EB4Full;
    h = (h ^ h >> 29) + part[2] * 0x165667B19E3779F9ull + part[3] * 0xD6E8FEB86659FD93ull;
    h *= 0xFF51AFD7ED558CCDull;
    return h ^ h >> 32;
}

static mega_status encode_word(mega_encoder *e, const uint8_t *word, size_t n, size_t begin, mega_ids *out)
{
    int64_t count;
    if (n > MEGA_CACHE_WORD) {
        MEGA_TRY(merge_word(e, word, n, begin, &count));
        MEGA_TRY(mega_ids_reserve(out, count));
        memcpy(out->id + out->count, e->bpe.symbol, (size_t)count * sizeof *out->id);
        out->count += count;
        return MEGA_OK;
    }
    uint8_t key[32] = {0};
    memcpy(key, word, n);
    key[MEGA_CACHE_WORD] = (uint8_t)n;
    mega_cached_word *cached = &e->cache[hash_word(key) & (MEGA_CACHE_SLOTS - 1)];
    MEGA_TRY(mega_ids_reserve(out, MEGA_CACHE_WORD));
    if (cached->size == n && memcmp(cached->word, key, MEGA_CACHE_WORD) == 0) {
        memcpy(out->id + out->count, cached->id,
               sizeof cached->id); /* all eight: one move; the surplus is overwritten */
        out->count += cached->count;
        return MEGA_OK;
    }
    MEGA_TRY(merge_word(e, word, n, begin, &count));
    memcpy(out->id + out->count, e->bpe.symbol, (size_t)count * sizeof *out->id);
    out->count += count;
    if (count <= MEGA_CACHE_IDS) {
        memcpy(cached->word, key, MEGA_CACHE_WORD);
        memcpy(cached->id, e->bpe.symbol, (size_t)count * sizeof *cached->id);
        cached->size = (uint8_t)n;
        cached->count = (uint8_t)count;
    }
    return MEGA_OK;
}

/* Without merges every byte is its own token, whatever the words are. */
static mega_status encode_bytes(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    MEGA_TRY(mega_ids_reserve(out, (int64_t)n));
    int32_t *id = out->id + out->count;
    for (size_t i = 0; i < n; i++) {
        id[i] = e->tokenizer->byte_id[text[i]];
        if (id[i] < 0) return no_byte(e, text, i, begin);
    }
    out->count += (int64_t)n;
    return MEGA_OK;
}

mega_status mega_encoder_bpe(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    if (e->cache == NULL) return encode_bytes(e, text, n, begin, out);
    for (size_t at = 0; at < n;) {
        const size_t end = mega_word_end(text, at, n);
        MEGA_TRY(encode_word(e, text + at, end - at, begin + at, out));
        at = end;
    }
    return MEGA_OK;
}
