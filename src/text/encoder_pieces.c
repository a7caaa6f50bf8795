/* The encoder of a pipeline: splits normalized text, and merges the words. */
#include "encoder.h"
#include "megalith/utf8.h"
#include <string.h>

/* Unknown characters become their bytes, if all of them have tokens; else the unknown token, one for a row of them if they
 * are fused; else nothing. A byte that is not UTF-8 counts as a character. */
int64_t mega_encoder_symbols(mega_encoder *e, const uint8_t *word, size_t n)
{
    const mega_tokenizer *t = e->tokenizer;
    const mega_pipeline *p = t->pipe;
    int32_t *symbol = e->bpe.symbol;
    int64_t count = 0;
    bool after_unknown = false;
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        const int length = word[at] < 0x80 ? 1 : mega_utf8_decode(word + at, n - at, &cp);
        const size_t bytes = length > 0 ? (size_t)length : 1;
        const int32_t id = bytes == 1 ? (word[at] < 0x80 ? t->byte_id[word[at]] : -1)
                                      : mega_vocabulary_find(&t->vocabulary, (const char *)word + at, bytes, false);
        bool all = p->byte_fallback;
        for (size_t i = 0; i < bytes && id < 0 && all; i++) all = p->byte_token[word[at + i]] >= 0;
        if (id >= 0) {
            symbol[count++] = id;
        } else if (all) {
            for (size_t i = 0; i < bytes; i++) symbol[count++] = p->byte_token[word[at + i]];
        } else if (p->unknown >= 0 && !(after_unknown && p->fuse_unknown)) {
            symbol[count++] = p->unknown;
        }
        after_unknown = id < 0 && !all;
        at += bytes;
    }
    return count;
}

/* Encodes the pieces from `first` on that follow each other without a gap; returns how many. */
static mega_status encode_stretch(mega_encoder *e, const mega_piece *piece, int64_t count, const uint8_t *text,
                                  size_t begin, int64_t *taken, mega_ids *out)
{
    int64_t last = 0;
    while (last + 1 < count && piece[last].end == piece[last + 1].begin) last++;
    *taken = last + 1;
    e->next_piece = piece;
    e->piece_base = piece[0].begin;
    return e->words(e, text + piece[0].begin, piece[last].end - piece[0].begin, begin + piece[0].begin, out);
}

mega_status mega_encoder_pieces(mega_encoder *e, const uint8_t *text, size_t n, size_t begin, bool first, mega_ids *out)
{
    const mega_pipeline *p = e->tokenizer->pipe;
    e->finder = MEGA_FIND_SPLIT;
    e->split = p->fast;
    if (p->fast != MEGA_SPLIT_NONE) return e->words(e, text, n, begin, out);
    if (p->num_pre == 0 && p->splits_at_mark) {
        e->finder = MEGA_FIND_MARKS;
        return e->words(e, text, n, begin, out);
    }
    mega_span made;
    MEGA_TRY(mega_pipeline_split(p, e->match, (mega_span){text, n}, first, e->splitted, e->pieces, &made));
    enum { LONG_PIECE = 64 };
    const bool at_marks = p->splits_at_mark && (int64_t)(made.n / LONG_PIECE) > e->pieces[0].count;
    e->finder = at_marks ? MEGA_FIND_MARKS : MEGA_FIND_PIECES;
    for (int64_t i = 0; i < e->pieces[0].count && at_marks; i++) {
        const mega_piece *one = &e->pieces[0].piece[i];
        MEGA_TRY(e->words(e, made.text + one->begin, one->end - one->begin, begin + one->begin, out));
    }
    for (int64_t i = 0, taken; i < e->pieces[0].count && !at_marks; i += taken)
        MEGA_TRY(encode_stretch(e, e->pieces[0].piece + i, e->pieces[0].count - i, made.text, begin, &taken, out));
    return MEGA_OK;
}
