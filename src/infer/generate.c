/* The generation loop: prompts are read in chunks, then one token a sequence at a time. */
#include "megalith/generate.h"
#include "budget.h"
#include "megalith/assert.h"
#include "megalith/batch.h"
#include "megalith/model_parts.h"
#include "megalith/record.h"
#include "relay.h"

#include <string.h>

struct mega_generator {
    mega_language_model m;
    mega_generator_options options;
    mega_program *prefill, *decode;
    mega_batch *prefill_batch, *decode_batch; /* what they read */
    int64_t chunk;                            /* rows of each prompt that prefill reads */
    int32_t *kv_length;                       /* [batch] rows of each cache that are filled */
    int32_t *history;                         /* [batch, capacity] prompt and new tokens */
    int64_t *length;                          /* [batch] tokens in history */
    int64_t *taken;                           /* [batch] rows given to the run in progress */
    bool *active;                             /* [batch] */
    int32_t *drawn;                           /* [batch] next token of each sequence that has one */
    mega_candidate *scratch;                  /* [vocab] */
    float *logits;                            /* [vocab], float whatever the program computes in */
    const mega_layout *layout;
    relay relay; /* of pipeline stages: every one of them knows the text, the last one draws */
};

#define PREFILL_ROWS 64

static int64_t chunk_rows(const mega_generator_options *o)
{
    int64_t rows = o->capacity < PREFILL_ROWS ? o->capacity : PREFILL_ROWS;
    if (o->prompt_tokens > 0 && o->prompt_tokens / o->batch < rows) rows = o->prompt_tokens / o->batch;
    return rows > 1 ? rows : 1;
}

static mega_status program_create(mega_program **out, const mega_generator *g, mega_params *params,
                                  const mega_layout *layout, int64_t rows, const char *name, mega_program *states_of)
{
    mega_graph *graph = NULL;
    MEGA_TRY(mega_graph_create(&graph, mega_params_compute_dtype(params), params, layout));
    /* A chunk is written whole, also where only its first rows are real: hence the room after the last token. */
    const int64_t capacity = g->options.capacity + g->chunk;
    const mega_model_sizes what = {
        .mode = MEGA_GENERATE, .samples = g->options.batch, .positions = rows, .cache = capacity};
    const mega_status st = mega_model_describe(&g->m.model, 1, 0, what, graph);
    if (st != MEGA_OK) {
        mega_graph_destroy(graph);
        return st;
    }
    const mega_program_options o = {.backend = g->options.backend,
                                    .team = g->options.team,
                                    .name = name,
                                    .world = g->options.world,
                                    .states_of = states_of};
    return mega_program_build(out, graph, &o);
}

static mega_status programs_create(mega_generator *g, mega_params *params, const mega_layout *layout)
{
    MEGA_TRY(program_create(&g->prefill, g, params, layout, g->chunk, "prefill", NULL));
    MEGA_TRY(program_create(&g->decode, g, params, layout, 1, "decode", g->prefill));
    mega_program *const program[] = {g->prefill, g->decode};
    MEGA_TRY(budget_check(g->options.memory_limit, params, (const mega_program *const *)program, 2, "generation",
                          "a smaller --batch or --inference-batch-times-seqlen-threshold, or --bf16"));
    for (int i = 0; i < 2; i++) {
        MEGA_TRY(mega_program_allocate(program[i]));
        mega_program_step(program[i])->kv_length = g->kv_length;
    }
    MEGA_TRY(mega_batch_create_for(&g->prefill_batch, g->prefill, g->options.batch));
    return mega_batch_create_for(&g->decode_batch, g->decode, g->options.batch);
}

static mega_status generator_allocate(mega_generator *g)
{
    const size_t batch = (size_t)g->options.batch;
    g->kv_length = mega_calloc(batch, sizeof *g->kv_length);
    g->history = mega_calloc(batch * (size_t)g->options.capacity, sizeof *g->history);
    g->length = mega_calloc(batch, sizeof *g->length);
    g->taken = mega_calloc(batch, sizeof *g->taken);
    g->active = mega_calloc(batch, sizeof *g->active);
    g->drawn = mega_calloc(batch, sizeof *g->drawn);
    g->scratch = mega_calloc((size_t)g->m.vocab, sizeof *g->scratch);
    g->logits = mega_calloc((size_t)g->m.vocab, sizeof *g->logits);
    if (!g->kv_length || !g->history || !g->length || !g->taken || !g->active || !g->drawn || !g->scratch || !g->logits)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for %zu sequences of %lld tokens", batch,
                         (long long)g->options.capacity);
    return MEGA_OK;
}

mega_status mega_generator_create(mega_generator **out, const mega_language_model *m, mega_params *params,
                                  const mega_layout *layout, const mega_generator_options *options)
{
    if (options->batch < 1 || options->capacity < 1 || options->capacity > m->positions)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "generation: %lld sequences of %lld tokens asked for; expected at least one sequence, of 1 to %lld "
            "tokens (the model's positions), prompt included",
            (long long)options->batch, (long long)options->capacity, (long long)m->positions);
    if (options->draw_vocab < 0 || options->draw_vocab > m->vocab)
        return MEGA_FAIL(MEGA_ERR_USAGE, "generation: %lld ids to draw from; the model has %lld (0: all of them)",
                         (long long)options->draw_vocab, (long long)m->vocab);
    mega_generator *g = mega_calloc(1, sizeof *g);
    if (g == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory");
    g->m = *m;
    g->options = *options;
    if (g->options.draw_vocab == 0) g->options.draw_vocab = m->vocab;
    g->layout = layout;
    g->relay.pp = &layout->pp;
    g->chunk = chunk_rows(options);
    mega_status st = generator_allocate(g);
    if (st == MEGA_OK) st = programs_create(g, params, layout);
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
    mega_program_destroy(g->decode); /* before the owner of its caches */
    mega_program_destroy(g->prefill);
    mega_batch_destroy(g->prefill_batch);
    mega_batch_destroy(g->decode_batch);
    mega_free(g->kv_length);
    mega_free(g->history);
    mega_free(g->length);
    mega_free(g->taken);
    mega_free(g->active);
    mega_free(g->drawn);
    mega_free(g->scratch);
    mega_free(g->logits);
    mega_free(g);
}

static mega_status check_sequences(const mega_generator *g, const mega_generation *s, int count)
{
    if (count < 1 || count > g->options.batch)
        return MEGA_FAIL(MEGA_ERR_USAGE, "generation: %d sequences given, the generator was made for 1 to %lld", count,
                         (long long)g->options.batch);
    for (int b = 0; b < count; b++) {
        if (s[b].prompt_count < 1)
            return MEGA_FAIL(MEGA_ERR_USAGE, "generation: prompt %d is empty; give it at least one token", b);
        if (s[b].prompt_count + s[b].max_new > g->options.capacity)
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "generation: prompt %d has %lld tokens and %lld new ones are wanted, together more than the %lld "
                "that fit; shorten the prompt or ask for fewer",
                b, (long long)s[b].prompt_count, (long long)s[b].max_new, (long long)g->options.capacity);
        for (int64_t i = 0; i < s[b].prompt_count; i++) {
            if (s[b].prompt[i] < 0 || s[b].prompt[i] >= g->m.vocab)
                return MEGA_FAIL(MEGA_ERR_USAGE,
                                 "generation: token %lld of prompt %d is %d, the vocabulary has ids 0 to %lld",
                                 (long long)i, b, s[b].prompt[i], (long long)g->m.vocab - 1);
        }
    }
    return MEGA_OK;
}

static void start(mega_generator *g, mega_generation *s, int count)
{
    for (int64_t b = 0; b < g->options.batch; b++) {
        g->kv_length[b] = 0;
        g->active[b] = b < count && s[b].max_new > 0;
        g->length[b] = b < count ? s[b].prompt_count : 0;
        if (b >= count) continue;
        memcpy(g->history + b * g->options.capacity, s[b].prompt, (size_t)s[b].prompt_count * sizeof(int32_t));
        s[b].count = 0;
        s[b].finished = false;
    }
}

/* Rows of the next run: as many tokens of each active sequence as are not in its cache yet. Where the model begins they
 * are read, where it ends the last of them counts. */
static void fill_inputs(mega_generator *g, mega_program *p, int64_t rows)
{
    mega_batch *batch = p == g->prefill ? g->prefill_batch : g->decode_batch;
    mega_batch_begin(batch, g->options.batch);
    for (int64_t b = 0; b < g->options.batch; b++) {
        mega_sample *sample = mega_batch_sample(batch, b);
        int32_t *tokens = mega_sample_i32(sample, "tokens", rows);
        int32_t *positions = mega_sample_i32(sample, "position_ids", rows);
        int32_t *last_row = mega_sample_i32(sample, "last_rows", 1);
        const int64_t pending = g->active[b] ? g->length[b] - g->kv_length[b] : 0;
        const int64_t n = pending < rows ? pending : rows;
        const int32_t *from = g->history + b * g->options.capacity + g->kv_length[b];
        for (int64_t r = 0; r < rows && tokens != NULL; r++) {
            const int64_t position = g->kv_length[b] + r;
            tokens[r] = r < n ? from[r] : 0;
            positions[r] = (int32_t)(position < g->m.positions ? position : g->m.positions - 1);
        }
        if (last_row != NULL) *last_row = (int32_t)(b * rows + (n > 0 ? n - 1 : 0));
        g->taken[b] = n;
    }
    mega_batch_load(batch, 0, g->options.batch, p, 0);
}

static int64_t most_pending(const mega_generator *g)
{
    int64_t most = 0;
    for (int64_t b = 0; b < g->options.batch; b++) {
        const int64_t pending = g->active[b] ? g->length[b] - g->kv_length[b] : 0;
        if (pending > most) most = pending;
    }
    return most;
}

/* Logits of sequence b, in float. Ranks of tp made those of a part of the vocabulary each. */
static const float *row_logits(mega_generator *g, mega_program *p, int64_t b)
{
    const void *all = mega_program_tensor(p, "logits", 0);
    const bool is_float = g->options.backend == MEGA_PROGRAM_CPU || mega_program_acc_dtype(p) == MEGA_F32;
    const int64_t ranks = g->layout->tp.size, part = g->m.padded_vocab / ranks;
    if (is_float && ranks == 1) return (const float *)all + b * part;
    for (int64_t v = 0; v < g->m.vocab; v++) {
        const int64_t at = (v / part * g->options.batch + b) * part + v % part;
        g->logits[v] = is_float ? ((const float *)all)[at] : (float)((const double *)all)[at];
    }
    return g->logits;
}

/* After a run that read the last of its tokens, a sequence has a next one. */
static bool draws(const mega_generator *g, int64_t b)
{
    return g->taken[b] > 0 && g->kv_length[b] + g->taken[b] == g->length[b];
}

static bool draws_any(const mega_generator *g, int count)
{
    for (int b = 0; b < count; b++)
        if (draws(g, b)) return true;
    return false;
}

/* Next tokens are drawn where the model ends, and told to all stages. */
static mega_status draw(mega_generator *g, mega_program *p, const mega_generation *s, int count,
                        const mega_sampling *sampling)
{
    const mega_axis *pp = &g->layout->pp;
    for (int b = 0; b < count && relay_ends(&g->relay); b++)
        if (draws(g, b))
            g->drawn[b] = mega_sample_token(row_logits(g, p, b), g->options.draw_vocab, sampling, s[b].index,
                                            g->length[b], g->scratch);
    return mega_comm_broadcast(pp->comm, "next tokens", g->drawn, (int64_t)sizeof *g->drawn * count, pp->size - 1);
}

/* One run: what is pending of each sequence, as far as it fits, through all layers. Chunks of a prompt but for the last
 * draw nothing: they go through the stages side by side, and none waits for another. */
static mega_status run_rows(mega_generator *g, const mega_generation *s, int count, int64_t pending,
                            const mega_sampling *sampling)
{
    const bool is_prompt = pending > 1;
    mega_program *p = is_prompt ? g->prefill : g->decode;
    mega_record_phase(mega_comm_record(g->layout->world.comm), is_prompt ? "prompt" : "next token", -1);
    fill_inputs(g, p, is_prompt ? g->chunk : 1);
    MEGA_TRY(relay_before(&g->relay, p));
    MEGA_TRY(mega_program_forward(p, 0));
    MEGA_TRY(relay_after(&g->relay, p));
    const bool is_drawn = draws_any(g, count);
    if (is_drawn || g->layout->pp.size == 1)
        MEGA_TRY(relay_stop_check(g->layout, g->options.world, g->options.team, "generation"));
    return is_drawn ? draw(g, p, s, count, sampling) : MEGA_OK;
}

/* A sequence whose tokens are all in the cache gets its next one. */
static bool advance(mega_generator *g, mega_generation *s, int b, int32_t eod, mega_token_sink *sink, void *user)
{
    const int32_t token = g->drawn[b];
    s->tokens[s->count++] = token;
    g->history[b * g->options.capacity + g->length[b]++] = token;
    s->finished = token == eod;
    g->active[b] = !s->finished && s->count < s->max_new;
    if (g->options.no_cache) g->kv_length[b] = 0;
    return sink == NULL || sink(user, b, token);
}

mega_status mega_generator_run(mega_generator *g, mega_generation *sequences, int count, const mega_sampling *sampling,
                               int32_t eod, mega_token_sink *sink, void *user)
{
    MEGA_TRY(check_sequences(g, sequences, count));
    start(g, sequences, count);
    int64_t pending;
    while ((pending = most_pending(g)) > 0) {
        const mega_status st = run_rows(g, sequences, count, pending, sampling);
        if (st == MEGA_ERR_INTERRUPTED) MEGA_TRY(relay_finish(&g->relay));
        MEGA_TRY(st);
        for (int b = 0; b < count; b++) {
            const bool has_next = draws(g, b);
            g->kv_length[b] += (int32_t)g->taken[b];
            if (has_next && !advance(g, &sequences[b], b, eod, sink, user)) return relay_finish(&g->relay);
        }
    }
    return relay_finish(&g->relay);
}
