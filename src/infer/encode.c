/* Runs over many samples. */
#include "encode.h"
#include "megalith/dtype.h"

void encode_fill(mega_sample *sample, int64_t positions, const int32_t *tokens, int64_t count, int32_t pad)
{
    const int64_t S = positions, length = tokens != NULL ? count : 1;
    int32_t *ids = mega_sample_i32(sample, "tokens", S), *types = mega_sample_i32(sample, "token_types", S);
    int32_t *places = mega_sample_i32(sample, "position_ids", S), *end = mega_sample_i32(sample, "key_end", S);
    int32_t *labels = mega_sample_i32(sample, "labels", S);
    int32_t *pair = mega_sample_i32(sample, "is_random", 1), *label = mega_sample_i32(sample, "label", 1);
    float *mask = mega_sample_f32(sample, "loss_mask", S);
    for (int64_t i = 0; i < S; i++) { /* a model or a pipeline stage reads some of these */
        if (ids != NULL) ids[i] = tokens != NULL && i < length ? tokens[i] : pad;
        if (types != NULL) types[i] = 0;
        if (places != NULL) places[i] = (int32_t)i;
        if (end != NULL) end[i] = (int32_t)length;
        if (labels != NULL) labels[i] = pad;
        if (mask != NULL) mask[i] = 0.0f;
    }
    if (pair != NULL) *pair = 0;
    if (label != NULL) *label = 0;
}

/* Whether this rank runs a batch whose first samples are `first` of all ranks and `own` of this one. Ranks of ep
 * compute the experts of each other, so that a rank without samples of its own runs, too. */
static bool encode_goes_on(const mega_engine *e, const encode_work *w, int64_t first, int64_t own)
{
    return (mega_engine_layout(e)->ep.size > 1 ? first : own) < w->samples;
}

static mega_status run_batches(mega_engine *e, const encode_work *w)
{
    enum { WAITS_EVERY = 16 }; /* stages of a pipeline seldom wait for each other */
    const mega_axis *dp = &mega_engine_layout(e)->dp;
    const int64_t batch = mega_engine_train_micro_batch_size(e);
    int64_t batches = 0, own = dp->rank * batch;
    for (int64_t first = 0; encode_goes_on(e, w, first, own); first += dp->size * batch, own += dp->size * batch) {
        if (batches++ % WAITS_EVERY == WAITS_EVERY - 1) MEGA_TRY(mega_engine_wait(e));
        mega_batch *b = mega_engine_evaluation_batch(e, batch, first);
        for (int64_t i = 0; i < batch; i++) w->fill(w->user, own + i, i, mega_batch_sample(b, i));
        MEGA_TRY(mega_engine_run(e, MEGA_RUN_EVALUATE, NULL));
        w->take(w->user, own);
    }
    return mega_engine_wait(e);
}

/* Agrees at the end, so that no rank waits for one that failed. */
mega_status encode_run(mega_engine *e, const encode_work *w)
{
    return mega_comm_agree(mega_engine_layout(e)->world.comm, run_batches(e, w));
}

mega_status encode_check_ids(const char *call, const char *text, int64_t number, const int32_t *ids, int64_t count,
                             int64_t vocab)
{
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return MEGA_MISTAKE("%s: token %lld of %s %lld is %d, the vocabulary has ids 0 to %lld", call, (long long)i,
                                text, (long long)number, ids[i], (long long)vocab - 1);
    return MEGA_OK;
}

/* A GPU that has failed gives NaNs; the next mega_engine_wait returns why. */
static void read_or_nan(const mega_run_value *value, int64_t first, int64_t count, void *out)
{
    const mega_status st = mega_run_value_read(value, first, count, out);
    (void)st;
}

void encode_logits(const mega_engine *e, const mega_run_value *all, int64_t row, int64_t rows, int64_t vocab,
                   int64_t padded_vocab, float *out)
{
    const int64_t ranks = mega_engine_layout(e)->tp.size, part = padded_vocab / ranks;
    encode_numbers wide = {.value = all};
    for (int64_t v = 0; v < vocab; v += part) {
        const int64_t n = vocab - v < part ? vocab - v : part, at = (v / part * rows + row) * part;
        if (all->dtype == MEGA_F32) read_or_nan(all, at, n, out + v);
        else
            for (int64_t i = 0; i < n; i++) out[v + i] = (float)encode_number(&wide, at + i);
    }
}

double encode_number(encode_numbers *x, int64_t i)
{
    const mega_run_value *v = x->value;
    if (i < x->first || i >= x->first + x->count) {
        const int64_t most = ENCODE_BYTES / (int64_t)mega_dtype_size(v->dtype);
        x->first = i;
        x->count = v->count - i < most ? v->count - i : most;
        read_or_nan(v, i, x->count, x->piece);
    }
    const void *piece = x->piece;
    if (v->dtype == MEGA_F64) return x->piece[i - x->first];
    if (v->dtype == MEGA_F32) return (double)((const float *)piece)[i - x->first];
    return (double)mega_half_to_f32(((const uint16_t *)piece)[i - x->first], v->dtype);
}
