/* Divides tokenized texts into training and validation and cuts them into blocks. The ranks of a host hold one copy:
 * the rank that tokenizes stores a head of fixed size and then all arrays in the shared memory, where the others find
 * both. */
#include "megalith/blocks.h"
#include "data_impl.h"
#include "megalith/batch.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include <math.h>
#include <string.h>

enum { SPLITS = 2, HEAD_KEY = 0x68656164, BODY_KEY = 0x626f6479 };

typedef struct blocks_head {
    int64_t texts[SPLITS], count[SPLITS]; /* count: of blocks */
    uint64_t hash[SPLITS];
    int64_t tokens;
} blocks_head;

struct mega_blocks {
    int64_t length;
    mega_gpt_block head_block, body_block;
    blocks_head head;
    const int64_t *start[SPLITS]; /* the first token of each block */
    const int32_t *token;
};

static size_t body_bytes(const blocks_head *h)
{
    return (size_t)(h->count[0] + h->count[1]) * sizeof(int64_t) + (size_t)h->tokens * sizeof(int32_t);
}

static void set_arrays(mega_blocks *b)
{
    const int64_t *start = b->body_block.data;
    b->start[MEGA_SPLIT_TRAIN] = start;
    b->start[MEGA_SPLIT_VALID] = start + b->head.count[MEGA_SPLIT_TRAIN];
    b->token = (const int32_t *)(const void *)(start + b->head.count[0] + b->head.count[1]);
}

/* ---- cutting ---- */

/* The texts [first, end) are cut by themselves. */
typedef struct blocks_range {
    int64_t first, end;
} blocks_range;

static int64_t tokens_before(const mega_blocks_text *t, int64_t text)
{
    return text > 0 ? t->end[text - 1] : 0;
}

/* Returns the number of blocks, at most `most` (0: all); start (NULL: only count) receives the first token of each. */
static int64_t cut_split(const mega_blocks_text *t, blocks_range r, int64_t length, int64_t most, int64_t *start)
{
    int64_t count = 0;
    for (int64_t first = r.first; first < r.end; first += MEGA_BLOCKS_TEXTS) {
        const int64_t last = first + MEGA_BLOCKS_TEXTS < r.end ? first + MEGA_BLOCKS_TEXTS : r.end;
        const int64_t end = tokens_before(t, last);
        for (int64_t at = tokens_before(t, first); end - at >= length; at += length, count++) {
            if (most > 0 && count == most) return count;
            if (start != NULL) start[count] = at;
        }
    }
    return count;
}

/* Returns how many of the texts are for validation, as `datasets` computes a slice in percent: rounded, halves to the
 * even number. */
static int64_t share_of(const mega_blocks_options *o, int64_t texts)
{
    return (int64_t)rint((double)texts * (double)o->validation_percent / 100);
}

static uint64_t blocks_hash(const mega_blocks *b, int split)
{
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = 0; i < b->head.count[split]; i++)
        hash = mega_hash64(hash, b->token + b->start[split][i], (size_t)b->length * sizeof *b->token);
    return hash;
}

static mega_status need_blocks(const mega_blocks_options *o, const mega_blocks_text *t, blocks_range r, int split)
{
    const bool is_train = split == MEGA_SPLIT_TRAIN;
    const bool is_share = !is_train && o->validation->count == 0;
    if (is_share && o->validation_percent == 0) return MEGA_OK;
    if (is_share && r.end == r.first)
        return MEGA_MISTAKE(
            "the validation data are %lld %% of the %lld text%s of %s, which is less than one; give more "
            "text, --validation_file, a larger --validation_split_percentage, or 0 to train without them",
            (long long)o->validation_percent, (long long)t->texts, t->texts == 1 ? "" : "s", o->train->item[0]);
    return MEGA_MISTAKE(
        "the %s data (%s%s) have %lld text%s with %lld tokens, from which no block of %lld tokens can be "
        "cut; give more text%s, or a smaller --block_size",
        is_train ? "training" : "validation", is_share ? "a share of " : "",
        is_train || is_share ? o->train->item[0] : o->validation->item[0], (long long)(r.end - r.first),
        r.end - r.first == 1 ? "" : "s", (long long)(tokens_before(t, r.end) - tokens_before(t, r.first)),
        (long long)o->length, is_share ? ", --validation_file, a larger --validation_split_percentage" : "");
}

static mega_status fill_splits(const mega_blocks_options *o, mega_blocks_text *t, const blocks_range range[SPLITS],
                               mega_blocks *b)
{
    blocks_head *h = &b->head;
    h->tokens = t->tokens;
    for (int s = 0; s < SPLITS; s++) {
        h->texts[s] = range[s].end - range[s].first;
        const int64_t most = s == MEGA_SPLIT_TRAIN ? o->most_train : o->most_validation;
        h->count[s] = cut_split(t, range[s], o->length, most, NULL);
        if (h->count[s] == 0) MEGA_TRY(need_blocks(o, t, range[s], s));
    }
    MEGA_TRY(mega_gpt_block_make(o->share, HEAD_KEY, sizeof *h, "the head of blocks", &b->head_block));
    MEGA_TRY(mega_gpt_block_make(o->share, BODY_KEY, body_bytes(h), "blocks of tokens", &b->body_block));
    set_arrays(b);
    int64_t *start = b->body_block.data;
    cut_split(t, range[MEGA_SPLIT_TRAIN], o->length, o->most_train, start);
    cut_split(t, range[MEGA_SPLIT_VALID], o->length, o->most_validation, start + h->count[MEGA_SPLIT_TRAIN]);
    mega_blocks_text_move(t, (int32_t *)(void *)(start + h->count[0] + h->count[1]));
    for (int s = 0; s < SPLITS; s++) h->hash[s] = blocks_hash(b, s);
    memcpy(b->head_block.data, h, sizeof *h);
    return MEGA_OK;
}

static mega_status blocks_make(const mega_blocks_options *o, mega_blocks *b)
{
    mega_blocks_text t = {.end = NULL};
    mega_status st = mega_blocks_tokenize(o, o->train, &t);
    const int64_t of_train = t.texts;
    if (st == MEGA_OK) st = mega_blocks_tokenize(o, o->validation, &t);
    const int64_t cut_at = o->validation->count > 0 ? 0 : share_of(o, of_train);
    const blocks_range range[SPLITS] = {
        {cut_at, of_train}, {o->validation->count > 0 ? of_train : 0, o->validation->count > 0 ? t.texts : cut_at}};
    if (st == MEGA_OK) st = fill_splits(o, &t, range, b);
    mega_blocks_text_fini(&t);
    return st;
}

/* ---- building ---- */

static bool blocks_find(const mega_blocks_options *o, mega_blocks *b)
{
    if (!mega_gpt_block_find(o->share, HEAD_KEY, sizeof b->head, &b->head_block)) return false;
    memcpy(&b->head, b->head_block.data, sizeof b->head);
    if (!mega_gpt_block_find(o->share, BODY_KEY, body_bytes(&b->head), &b->body_block)) return false;
    set_arrays(b);
    return true;
}

mega_status mega_blocks_build(const mega_blocks_options *o, mega_blocks **out)
{
    mega_blocks *b = mega_calloc(1, sizeof *b);
    if (b == NULL) return MEGA_NO_MEMORY("data set", "blocks of tokens");
    b->length = o->length;
    const mega_status st = blocks_find(o, b) ? MEGA_OK : blocks_make(o, b);
    if (st != MEGA_OK) mega_blocks_destroy(b);
    else
        *out = b;
    return st;
}

void mega_blocks_destroy(mega_blocks *b)
{
    if (b == NULL) return;
    mega_gpt_block_fini(&b->head_block);
    mega_gpt_block_fini(&b->body_block);
    mega_free(b);
}

/* ---- reading ---- */

int64_t mega_blocks_count(const mega_blocks *b, int split)
{
    return b->head.count[split];
}

int64_t mega_blocks_texts(const mega_blocks *b, int split)
{
    return b->head.texts[split];
}

size_t mega_blocks_bytes(const mega_blocks *b)
{
    return b->head_block.bytes + b->body_block.bytes;
}

uint64_t mega_blocks_hash(const mega_blocks *b, int split)
{
    return b->head.hash[split];
}

const int32_t *mega_blocks_tokens(const mega_blocks *b, int split, int64_t index)
{
    return b->token + b->start[split][index];
}

mega_status mega_blocks_read(const mega_blocks *b, int split, int64_t index, mega_sample *sample)
{
    const int64_t L = b->length;
    if (index < 0 || index >= b->head.count[split])
        return MEGA_MISTAKE("block %lld: expected 0 to %lld", (long long)index, (long long)b->head.count[split] - 1);
    const int32_t *token = mega_blocks_tokens(b, split, index);
    int32_t *const input = mega_sample_i32(sample, "tokens", L), *const label = mega_sample_i32(sample, "labels", L),
                   *const position = mega_sample_i32(sample, "position_ids", L),
                   *const begin = mega_sample_i32(sample, "key_begin", L);
    float *const mask = mega_sample_f32(sample, "loss_mask", L);
    for (int64_t i = 0; i < L; i++) {
        const bool is_last = i == L - 1;
        if (input != NULL) input[i] = token[i];
        if (label != NULL) label[i] = token[is_last ? i : i + 1];
        if (mask != NULL) mask[i] = is_last ? 0.0F : 1.0F;
        if (position != NULL) position[i] = (int32_t)i;
        if (begin != NULL) begin[i] = 0;
    }
    return MEGA_OK;
}
