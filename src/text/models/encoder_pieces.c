/* The encoder of a pipeline: splits normalized text, and merges the words. */
#include "encoder.h"
#include "megalith/utf8.h"

/* Unknown characters become their bytes, if all of them have tokens; else the unknown token, one for a row of them if
 * they are fused; else nothing. A byte that is not UTF-8 counts as a character. */
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

mega_status mega_pipeline_find_whole(const mega_tokenizer *t, mega_pipeline *p)
{
    const mega_vocabulary *v = &t->vocabulary;
    mega_encoder e = {.tokenizer = t};
    bool any = false;
    mega_status st = MEGA_OK;
    for (int64_t id = 0; id < v->size && st == MEGA_OK; id++) {
        const mega_token *token = mega_vocabulary_get(v, id);
        if (token == NULL || token->size < 2 || (token->flags & MEGA_TOKEN_RAW) != 0) continue;
        const uint8_t *bytes = (const uint8_t *)mega_token_bytes(v, token);
        int64_t count = 0;
        st = mega_encoder_merge(&e, bytes, token->size, 0, &count);
        if (st == MEGA_ERR_FORMAT) st = MEGA_OK; /* a byte without a token: only the whole word has an id */
        if (count == 1 && e.bpe.symbol[0] == id) continue;
        const unsigned bit = mega_whole_bit(bytes, token->size);
        p->whole[bit / 64] |= (uint64_t)1 << bit % 64;
        any = true;
    }
    p->ignore_merges = any;
    mega_bpe_fini(&e.bpe);
    return st;
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
    if (p->model == MEGA_MODEL_UNIGRAM && p->num_pre == 0)
        return mega_encoder_unigram(e, text, n, &(mega_piece){.end = n}, 1, begin, out);
    if (p->fast != MEGA_SPLIT_NONE) return e->words(e, text, n, begin, out);
    if (p->num_pre == 0 && p->splits_at_mark) {
        e->finder = MEGA_FIND_MARKS;
        return e->words(e, text, n, begin, out);
    }
    mega_span made;
    MEGA_TRY(mega_pipeline_split(p, e->match, (mega_span){text, n}, first, e->splitted, e->pieces, &made));
    enum { LONG_PIECE = 64 }; /* mean bytes of a piece above which pieces are cut at marks first (bench_tokenizer) */
    if (p->model == MEGA_MODEL_UNIGRAM)
        return mega_encoder_unigram(e, made.text, made.n, e->pieces[0].piece, e->pieces[0].count, begin, out);
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
