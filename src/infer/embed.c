/* Mean embeddings of texts. */
#include "megalith/embed.h"
#include "megalith/batch.h"
#include "megalith/dtype.h"

#include <string.h>

static void fill_text(const mega_embed_texts *t, int64_t text, int64_t S, mega_sample *sample)
{
    int32_t *ids = mega_sample_i32(sample, "tokens", S), *types = mega_sample_i32(sample, "token_types", S);
    int32_t *places = mega_sample_i32(sample, "position_ids", S), *end = mega_sample_i32(sample, "key_end", S);
    int32_t *labels = mega_sample_i32(sample, "labels", S);
    int32_t *pair = mega_sample_i32(sample, "is_random", 1), *label = mega_sample_i32(sample, "label", 1);
    float *mask = mega_sample_f32(sample, "loss_mask", S);
    const bool is_real = text < t->count;
    const int64_t first = is_real ? t->begin[text] : 0, length = is_real ? t->begin[text + 1] - first : 1;
    for (int64_t i = 0; i < S; i++) { /* a model or a pipeline stage reads some of these */
        if (ids != NULL) ids[i] = is_real && i < length ? t->tokens[first + i] : t->pad;
        if (types != NULL) types[i] = 0;
        if (places != NULL) places[i] = (int32_t)i;
        if (end != NULL) end[i] = (int32_t)length;
        if (labels != NULL) labels[i] = t->pad;
        if (mask != NULL) mask[i] = 0.0f;
    }
    if (pair != NULL) *pair = 0;
    if (label != NULL) *label = 0;
}

static double embed_at(const mega_run_value *v, int64_t i)
{
    if (v->dtype == MEGA_F64) return ((const double *)v->data)[i];
    if (v->dtype == MEGA_F32) return (double)((const float *)v->data)[i];
    return (double)mega_half_to_f32(((const uint16_t *)v->data)[i], v->dtype);
}

/* Only ranks with the last pipeline stage have the values. */
static void add_means(const mega_engine *e, const mega_embed_texts *t, int64_t text, int64_t batch, int64_t channels,
                      float *out)
{
    const int64_t positions = mega_engine_positions(e);
    mega_run_value hidden;
    if (!mega_engine_run_output(e, MEGA_RUN_EVALUATE, "hidden", &hidden)) return;
    for (int64_t b = 0; b < batch && text + b < t->count; b++) {
        const int64_t length = t->begin[text + b + 1] - t->begin[text + b];
        for (int64_t c = 0; c < channels; c++) {
            double sum = 0;
            for (int64_t i = 0; i < length; i++) sum += embed_at(&hidden, (b * positions + i) * channels + c);
            out[(text + b) * channels + c] = (float)(sum / (double)length);
        }
    }
}

static mega_status run_texts(mega_engine *e, const mega_embed_texts *t, int64_t channels, float *out)
{
    enum { WAITS_EVERY = 16 }; /* stages of a pipeline seldom wait for each other */
    const mega_axis *dp = &mega_engine_layout(e)->dp;
    const int64_t batch = mega_engine_train_micro_batch_size(e), positions = mega_engine_positions(e);
    int64_t batches = 0;
    for (int64_t first = 0; first + dp->rank * batch < t->count; first += dp->size * batch, batches++) {
        const int64_t text = first + dp->rank * batch;
        if (batches > 0 && batches % WAITS_EVERY == 0) MEGA_TRY(mega_engine_wait(e));
        mega_batch *b = mega_engine_evaluation_batch(e, batch, first);
        for (int64_t i = 0; i < batch; i++) fill_text(t, text + i, positions, mega_batch_sample(b, i));
        MEGA_TRY(mega_engine_run(e, MEGA_RUN_EVALUATE, NULL));
        add_means(e, t, text, batch, channels, out);
    }
    return mega_engine_wait(e);
}

mega_status mega_embed(mega_engine *engine, const mega_embed_texts *texts, int64_t channels, float *out)
{
    const int64_t positions = mega_engine_run_rows(engine, MEGA_RUN_EVALUATE), values = texts->count * channels;
    if (positions < 0) return MEGA_ERR_USAGE;
    for (int64_t i = 0; i < texts->count; i++) {
        const int64_t length = texts->begin[i + 1] - texts->begin[i];
        if (length < 1 || length > positions)
            return MEGA_FAIL(MEGA_ERR_USAGE, "embedding: text %lld has %lld tokens; expected 1 to %lld", (long long)i,
                             (long long)length, (long long)positions);
    }
    memset(out, 0, (size_t)values * sizeof *out);
    const mega_layout *layout = mega_engine_layout(engine);
    /* agree first, so that no rank waits for one that failed */
    MEGA_TRY(mega_comm_agree(layout->world.comm, run_texts(engine, texts, channels, out)));
    MEGA_TRY(mega_comm_all_reduce(layout->dp.comm, "embeddings", out, values, MEGA_F32, MEGA_REDUCE_SUM));
    return mega_comm_broadcast(layout->pp.comm, "embeddings", out, values * (int64_t)sizeof *out, layout->pp.size - 1);
}
