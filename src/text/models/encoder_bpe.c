/* Byte-level BPE without optimizations; the fast one is encode_body.c. */
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

mega_status mega_encoder_merge(mega_encoder *e, const uint8_t *word, size_t n, size_t begin, int64_t *count)
{
    const mega_pipeline *pipe = e->tokenizer->pipe;
    const bool characters = pipe != NULL && !pipe->byte_level;
    int64_t symbols = (int64_t)n;
    MEGA_TRY(mega_bpe_reserve(&e->bpe, symbols));
    if (pipe != NULL && pipe->model == MEGA_MODEL_WORDPIECE) {
        *count = mega_encoder_wordpiece(pipe, word, n, e->bpe.symbol);
        return MEGA_OK;
    }
    for (size_t i = 0; i < n && !characters; i++) {
        e->bpe.symbol[i] = e->tokenizer->byte_id[word[i]];
        if (e->bpe.symbol[i] < 0) return no_byte(e, word, i, begin);
    }
    if (characters) symbols = mega_encoder_symbols(e, word, n);
    *count = mega_bpe_merge(&e->bpe, &e->tokenizer->merges, symbols);
    return *count < 0 ? MEGA_ERR_MEMORY : MEGA_OK;
}

size_t mega_encoder_word_end(mega_encoder *e, const uint8_t *text, size_t at, size_t n)
{
    if (e->finder == MEGA_FIND_SPLIT) return mega_split_end(e->split, text, at, n);
    if (e->finder == MEGA_FIND_PIECES) return e->next_piece++->end - e->piece_base;
    for (size_t i = at + 1; i + 2 < n; i++)
        if (text[i] == 0xE2 && text[i + 1] == 0x96 && text[i + 2] == 0x81 &&
            (i < at + 3 || memcmp(text + i - 3, "\xE2\x96\x81", 3) != 0))
            return i;
    return n;
}

mega_status mega_encode_words_plain(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    for (size_t at = 0, end; at < n; at = end) {
        end = mega_encoder_word_end(e, text, at, n);
        int64_t count;
        MEGA_TRY(mega_encoder_merge(e, text + at, end - at, begin + at, &count));
        MEGA_TRY(mega_ids_reserve(out, count));
        memcpy(out->id + out->count, e->bpe.symbol, (size_t)count * sizeof *out->id);
        out->count += count;
    }
    return MEGA_OK;
}

/* Without merges every byte is its own token, however the text is split into words. */
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
    return e->cache.line == NULL ? encode_bytes(e, text, n, begin, out) : e->words(e, text, n, begin, out);
}
