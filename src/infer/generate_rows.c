/* One run of an engine's program for a generator: which tokens it reads, and the logits that it leaves. */
#include "encode.h"
#include "infer_impl.h"

#include <string.h>

/* Returns the samples of a micro-batch of a run. */
static int64_t generator_micro_batch(const mega_generator *g)
{
    return mega_engine_train_micro_batch_size(g->engine);
}

/* Fills the rows of the next run: the tokens of each active sequence that are not in its cache yet, as far as they fit.
 * The first pipeline stage reads these tokens; the last one needs the position of the last of them. */
static void fill_inputs(mega_generator *g, mega_run program)
{
    mega_batch *batch = mega_engine_run_batch(g->engine, program);
    const int64_t rows = mega_engine_run_rows(g->engine, program), samples = generator_micro_batch(g);
    for (int64_t b = 0; b < g->batch; b++) {
        mega_sample *sample = mega_batch_sample(batch, b);
        int32_t *tokens = mega_sample_i32(sample, "tokens", rows);
        int32_t *positions = mega_sample_i32(sample, "position_ids", rows);
        int32_t *last_row = mega_sample_i32(sample, "last_rows", 1), *end = mega_sample_i32(sample, "cross_key_end", 1);
        const int64_t pending = g->active[b] ? g->length[b] - g->filled[b] : 0;
        const int64_t n = pending < rows ? pending : rows;
        const int32_t *from = g->history + b * g->capacity + g->filled[b];
        for (int64_t r = 0; r < rows && tokens != NULL; r++) tokens[r] = r < n ? from[r] : 0;
        for (int64_t r = 0; r < rows && positions != NULL; r++) {
            const int64_t position = g->filled[b] + r;
            positions[r] = (int32_t)(position < g->m.positions ? position : g->m.positions - 1);
        }
        if (last_row != NULL) *last_row = (int32_t)(b % samples * rows + (n > 0 ? n - 1 : 0)); /* of its micro-batch */
        if (end != NULL) *end = g->source[b];
        g->taken[b] = n;
    }
}

int64_t generator_begin_text(mega_generator *g, int64_t b, const mega_generation *text)
{
    int32_t *history = g->history + b * g->capacity;
    if (!g->m.has_source) memcpy(history, text->prompt, (size_t)text->prompt_count * sizeof *history);
    else
        history[0] = g->m.start;
    return g->m.has_source ? 1 : text->prompt_count;
}

mega_status generator_read_sources(mega_generator *g, const mega_generation *text, int count, bool is_same)
{
    const int64_t rows = g->m.has_source ? mega_engine_run_rows(g->engine, MEGA_RUN_PREFILL) : 0;
    if (generator_most_pending(g) == 0 || !g->m.has_source) return MEGA_OK;
    mega_batch *batch = mega_engine_run_batch(g->engine, MEGA_RUN_PREFILL);
    for (int64_t b = 0; b < g->batch; b++) {
        mega_sample *sample = mega_batch_sample(batch, b);
        int32_t *tokens = mega_sample_i32(sample, "tokens", rows), *end = mega_sample_i32(sample, "key_end", rows);
        int32_t *positions = mega_sample_i32(sample, "position_ids", rows);
        const mega_generation *t = is_same ? text : b < count ? &text[b] : NULL;
        g->source[b] = t != NULL ? (int32_t)t->prompt_count : 1;
        for (int64_t r = 0; r < rows; r++) {
            if (tokens != NULL) tokens[r] = t != NULL && r < t->prompt_count ? t->prompt[r] : 0;
            if (positions != NULL) positions[r] = (int32_t)r;
            if (end != NULL) end[r] = g->source[b];
        }
    }
    return mega_engine_run(g->engine, MEGA_RUN_PREFILL, g->filled);
}

int64_t generator_most_pending(const mega_generator *g)
{
    int64_t most = 0;
    for (int64_t b = 0; b < g->batch; b++) {
        const int64_t pending = g->active[b] ? g->length[b] - g->filled[b] : 0;
        if (pending > most) most = pending;
    }
    return most;
}

mega_status generator_run_rows(mega_generator *g, mega_run *out)
{
    *out = generator_most_pending(g) > 1 && !g->reads_singly ? MEGA_RUN_PREFILL : MEGA_RUN_DECODE;
    fill_inputs(g, *out);
    return mega_engine_run(g->engine, *out, g->filled);
}

const float *generator_row_logits(mega_generator *g, mega_run program, int64_t b)
{
    const int64_t samples = generator_micro_batch(g), row = b % samples;
    mega_run_value all;
    if (!mega_engine_run_output_of(g->engine, program, "logits", b / samples, &all)) return NULL;
    encode_logits(g->engine, &all, row, samples, g->m.vocab, g->m.padded_vocab, g->logits);
    return g->logits;
}
