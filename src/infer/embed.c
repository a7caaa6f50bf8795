/* Mean embeddings of texts. */
#include "megalith/embed.h"
#include "encode.h"
#include "megalith/memory.h"

#include <string.h>

typedef struct embed_work {
    mega_engine *engine;
    const mega_embed_texts *texts;
    int64_t channels;
    double *sum; /* [channels] over the positions of a text */
    float *out;
} embed_work;

static void embed_fill(void *user, int64_t number, int64_t row, mega_sample *sample)
{
    const embed_work *w = user;
    const mega_embed_texts *t = w->texts;
    const bool is_real = number < t->count;
    (void)row;
    encode_fill(sample, mega_engine_positions(w->engine), is_real ? t->tokens + t->begin[number] : NULL,
                is_real ? t->begin[number + 1] - t->begin[number] : 0, t->pad);
}

/* Only ranks with the last pipeline stage have the values. */
static void add_means(void *user, int64_t text)
{
    const embed_work *w = user;
    const mega_embed_texts *t = w->texts;
    const int64_t positions = mega_engine_positions(w->engine), channels = w->channels;
    const int64_t batch = mega_engine_train_micro_batch_size(w->engine);
    mega_run_value hidden;
    if (!mega_engine_run_output(w->engine, MEGA_RUN_EVALUATE, "hidden", &hidden)) return;
    encode_numbers x = {.value = &hidden};
    for (int64_t b = 0; b < batch && text + b < t->count; b++) {
        const int64_t length = t->begin[text + b + 1] - t->begin[text + b];
        for (int64_t c = 0; c < channels; c++) w->sum[c] = 0;
        for (int64_t i = 0; i < length; i++)
            for (int64_t c = 0; c < channels; c++) w->sum[c] += encode_number(&x, (b * positions + i) * channels + c);
        for (int64_t c = 0; c < channels; c++) w->out[(text + b) * channels + c] = (float)(w->sum[c] / (double)length);
    }
}

mega_status mega_embed(mega_engine *engine, const mega_embed_texts *texts, int64_t channels, float *out)
{
    const int64_t positions = mega_engine_run_rows(engine, MEGA_RUN_EVALUATE), values = texts->count * channels;
    if (positions < 0) return MEGA_ERR_USAGE;
    for (int64_t i = 0; i < texts->count; i++) {
        const int64_t length = texts->begin[i + 1] - texts->begin[i];
        if (length < 1 || length > positions)
            return MEGA_MISTAKE("embedding: text %lld has %lld tokens; expected 1 to %lld", (long long)i,
                                (long long)length, (long long)positions);
    }
    memset(out, 0, (size_t)values * sizeof *out);
    embed_work work = {.engine = engine, .texts = texts, .channels = channels, .out = out};
    const mega_layout *layout = mega_engine_layout(engine);
    work.sum = mega_calloc((size_t)channels, sizeof *work.sum);
    if (work.sum == NULL) return MEGA_NO_MEMORY("embedding", "the sums of a text");
    const mega_status st = encode_run(
        engine, &(encode_work){.samples = texts->count, .fill = embed_fill, .take = add_means, .user = &work});
    mega_free(work.sum);
    MEGA_TRY(st);
    MEGA_TRY(mega_comm_all_reduce(layout->dp.comm, "embeddings", out, values, MEGA_F32, MEGA_REDUCE_SUM));
    return mega_comm_broadcast(layout->pp.comm, "embeddings", out, values * (int64_t)sizeof *out, layout->pp.size - 1);
}
