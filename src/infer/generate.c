/* The generation loop: reads prompts in chunks, then generates one token per sequence at a time. */
#include "megalith/generate.h"
#include "megalith/batch.h"
#include "megalith/memory.h"

#include <string.h>

struct mega_generator {
    mega_language_model m;
    mega_generator_options options;
    mega_engine *engine;
    int64_t batch, capacity; /* number of sequences; most tokens of a sequence */
    int32_t *filled;         /* [batch] rows of each cache that are filled */
    int32_t *history;        /* [batch, capacity] prompt, followed by new tokens */
    int64_t *length;         /* [batch] tokens in history */
    int64_t *taken;          /* [batch] rows given to the run in progress */
    bool *active;            /* [batch] */
    int32_t *drawn;          /* [batch] the token drawn for each sequence that got one */
    mega_candidate *scratch; /* [vocab] */
    float *logits;           /* [vocab], float for any compute type */
};

int64_t mega_generator_prefill(int64_t samples, int64_t positions, int64_t prompt_tokens)
{
    enum { MOST_ROWS = 64 };
    int64_t rows = positions < MOST_ROWS ? positions : MOST_ROWS;
    if (prompt_tokens > 0 && prompt_tokens / samples < rows) rows = prompt_tokens / samples;
    return rows > 1 ? rows : 1;
}

static mega_status generator_allocate(mega_generator *g)
{
    const size_t batch = (size_t)g->batch;
    g->filled = mega_calloc(batch, sizeof *g->filled);
    g->history = mega_calloc(batch * (size_t)g->capacity, sizeof *g->history);
    g->length = mega_calloc(batch, sizeof *g->length);
    g->taken = mega_calloc(batch, sizeof *g->taken);
    g->active = mega_calloc(batch, sizeof *g->active);
    g->drawn = mega_calloc(batch, sizeof *g->drawn);
    g->scratch = mega_calloc((size_t)g->m.vocab, sizeof *g->scratch);
    g->logits = mega_calloc((size_t)g->m.vocab, sizeof *g->logits);
    if (!g->filled || !g->history || !g->length || !g->taken || !g->active || !g->drawn || !g->scratch || !g->logits)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for %zu sequences of %lld tokens", batch,
                         (long long)g->capacity);
    return MEGA_OK;
}

mega_status mega_generator_create(mega_engine *engine, const mega_language_model *m,
                                  const mega_generator_options *options, mega_generator **out)
{
    if (mega_engine_run_rows(engine, MEGA_RUN_DECODE) < 0) return MEGA_ERR_USAGE;
    if (mega_engine_positions(engine) > m->positions)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "generation: sequences of %lld tokens requested; expected 1 to %lld tokens (the model's "
                         "positions), prompt included",
                         (long long)mega_engine_positions(engine), (long long)m->positions);
    if (options->draw_vocab < 0 || options->draw_vocab > m->vocab)
        return MEGA_FAIL(MEGA_ERR_USAGE, "generation: %lld ids to draw from; the model has %lld (0: all of them)",
                         (long long)options->draw_vocab, (long long)m->vocab);
    mega_generator *g = mega_calloc(1, sizeof *g);
    if (g == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory");
    g->m = *m;
    g->options = *options;
    if (g->options.draw_vocab == 0) g->options.draw_vocab = m->vocab;
    g->engine = engine;
    g->batch = mega_engine_train_micro_batch_size(engine);
    g->capacity = mega_engine_positions(engine);
    const mega_status st = generator_allocate(g);
    if (st != MEGA_OK) {
        mega_generator_destroy(g);
        return st;
    }
    *out = g;
    return MEGA_OK;
}

void mega_generator_destroy(mega_generator *g)
{
    if (g == NULL) return;
    mega_free(g->filled);
    mega_free(g->history);
    mega_free(g->length);
    mega_free(g->taken);
    mega_free(g->active);
    mega_free(g->drawn);
    mega_free(g->scratch);
    mega_free(g->logits);
    mega_free(g);
}

static mega_status generator_check_sequences(const mega_generator *g, const mega_generation *s, int count)
{
    if (count < 1 || count > g->batch)
        return MEGA_FAIL(MEGA_ERR_USAGE, "generation: %d sequences given, the generator was made for 1 to %lld", count,
                         (long long)g->batch);
    for (int b = 0; b < count; b++) {
        if (s[b].prompt_count < 1)
            return MEGA_FAIL(MEGA_ERR_USAGE, "generation: prompt %d is empty; give it at least one token", b);
        if (s[b].prompt_count + s[b].max_new > g->capacity)
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "generation: prompt %d has %lld tokens and %lld new ones are wanted, together more than the %lld "
                "that fit; shorten the prompt or ask for fewer",
                b, (long long)s[b].prompt_count, (long long)s[b].max_new, (long long)g->capacity);
        for (int64_t i = 0; i < s[b].prompt_count; i++) {
            if (s[b].prompt[i] < 0 || s[b].prompt[i] >= g->m.vocab)
                return MEGA_FAIL(MEGA_ERR_USAGE,
                                 "generation: token %lld of prompt %d is %d, the vocabulary has ids 0 to %lld",
                                 (long long)i, b, s[b].prompt[i], (long long)g->m.vocab - 1);
        }
    }
    return MEGA_OK;
}

static void generator_start(mega_generator *g, mega_generation *s, int count)
{
    for (int64_t b = 0; b < g->batch; b++) {
        g->filled[b] = 0;
        g->active[b] = b < count && s[b].max_new > 0;
        g->length[b] = b < count ? s[b].prompt_count : 0;
        if (b >= count) continue;
        memcpy(g->history + b * g->capacity, s[b].prompt, (size_t)s[b].prompt_count * sizeof(int32_t));
        s[b].count = 0;
        s[b].finished = false;
    }
}

/* Fills the rows of the next run: the tokens of each active sequence that are not in its cache yet, as far as they fit.
 * The first pipeline stage reads these tokens; the last one needs the position of the last of them. */
static void generator_fill_inputs(mega_generator *g, mega_run program)
{
    mega_batch *batch = mega_engine_run_batch(g->engine, program);
    const int64_t rows = mega_engine_run_rows(g->engine, program);
    for (int64_t b = 0; b < g->batch; b++) {
        mega_sample *sample = mega_batch_sample(batch, b);
        int32_t *tokens = mega_sample_i32(sample, "tokens", rows);
        int32_t *positions = mega_sample_i32(sample, "position_ids", rows);
        int32_t *last_row = mega_sample_i32(sample, "last_rows", 1);
        const int64_t pending = g->active[b] ? g->length[b] - g->filled[b] : 0;
        const int64_t n = pending < rows ? pending : rows;
        const int32_t *from = g->history + b * g->capacity + g->filled[b];
        for (int64_t r = 0; r < rows && tokens != NULL; r++) {
            const int64_t position = g->filled[b] + r;
            tokens[r] = r < n ? from[r] : 0;
            positions[r] = (int32_t)(position < g->m.positions ? position : g->m.positions - 1);
        }
        if (last_row != NULL) *last_row = (int32_t)(b * rows + (n > 0 ? n - 1 : 0));
        g->taken[b] = n;
    }
}

/* The largest number of tokens that are not yet in the cache of their sequence; 0: no sequence is active. */
static int64_t most_pending(const mega_generator *g)
{
    int64_t most = 0;
    for (int64_t b = 0; b < g->batch; b++) {
        const int64_t pending = g->active[b] ? g->length[b] - g->filled[b] : 0;
        if (pending > most) most = pending;
    }
    return most;
}

/* Logits of sequence b, in float. Each rank of tp has computed those of a part of the vocabulary. */
static const float *row_logits(mega_generator *g, const mega_run_value *all, int64_t b)
{
    const bool is_float = all->dtype == MEGA_F32;
    const int64_t ranks = mega_engine_layout(g->engine)->tp.size, part = g->m.padded_vocab / ranks;
    if (is_float && ranks == 1) return (const float *)all->data + b * part;
    for (int64_t v = 0; v < g->m.vocab; v++) {
        const int64_t at = (v / part * g->batch + b) * part + v % part;
        g->logits[v] = is_float ? ((const float *)all->data)[at] : (float)((const double *)all->data)[at];
    }
    return g->logits;
}

/* Whether the last run has read all tokens of the sequence, so that its next one can be drawn. */
static bool generator_draws(const mega_generator *g, int64_t b)
{
    return g->taken[b] > 0 && g->filled[b] + g->taken[b] == g->length[b];
}

static bool draws_any(const mega_generator *g, int count)
{
    for (int b = 0; b < count; b++)
        if (generator_draws(g, b)) return true;
    return false;
}

/* The last stage draws the next tokens and sends them to all stages. */
static mega_status generator_draw(mega_generator *g, mega_run program, const mega_generation *s, int count,
                                  const mega_sampling *sampling)
{
    const mega_axis *pp = &mega_engine_layout(g->engine)->pp;
    mega_run_value logits;
    const bool has_logits = mega_engine_run_output(g->engine, program, "logits", &logits);
    for (int b = 0; b < count && has_logits; b++)
        if (generator_draws(g, b))
            g->drawn[b] = mega_sample_token(row_logits(g, &logits, b), g->options.draw_vocab, sampling, s[b].index,
                                            g->length[b], g->scratch);
    return mega_comm_broadcast(pp->comm, "next tokens", g->drawn, (int64_t)sizeof *g->drawn * count, pp->size - 1);
}

/* One run through all layers: pending tokens of each sequence, as many as fit. Only the last chunk of a prompt draws a
 * token; earlier chunks pass through the stages at the same time, without waiting for each other. */
static mega_status run_rows(mega_generator *g, const mega_generation *s, int count, int64_t pending,
                            const mega_sampling *sampling)
{
    const mega_run program = pending > 1 ? MEGA_RUN_PREFILL : MEGA_RUN_DECODE;
    generator_fill_inputs(g, program);
    MEGA_TRY(mega_engine_run(g->engine, program, g->filled));
    if (!draws_any(g, count)) return MEGA_OK;
    MEGA_TRY(mega_engine_wait(g->engine));
    return generator_draw(g, program, s, count, sampling);
}

/* A sequence whose tokens are all in the cache gets its next one. */
static bool generator_advance(mega_generator *g, mega_generation *s, int b, int32_t eod, mega_token_sink *sink,
                              void *user)
{
    const int32_t token = g->drawn[b];
    s->tokens[s->count++] = token;
    g->history[b * g->capacity + g->length[b]++] = token;
    s->finished = token == eod;
    g->active[b] = !s->finished && s->count < s->max_new;
    if (g->options.no_cache) g->filled[b] = 0;
    return sink == NULL || sink(user, b, token);
}

mega_status mega_generator_run(mega_generator *g, mega_generation *sequences, int count, const mega_sampling *sampling,
                               int32_t eod, mega_token_sink *sink, void *user)
{
    MEGA_TRY(generator_check_sequences(g, sequences, count));
    generator_start(g, sequences, count);
    int64_t pending;
    while ((pending = most_pending(g)) > 0) {
        MEGA_TRY(run_rows(g, sequences, count, pending, sampling));
        for (int b = 0; b < count; b++) {
            const bool has_next = generator_draws(g, b);
            g->filled[b] += (int32_t)g->taken[b];
            if (has_next && !generator_advance(g, &sequences[b], b, eod, sink, user)) return MEGA_OK;
        }
    }
    return MEGA_OK;
}
