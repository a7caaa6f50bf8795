/* The generation loop: reads prompts in chunks, then generates one token per sequence at a time. */
#include "encode.h"
#include "infer_impl.h"
#include "megalith/in_use.h"
#include "megalith/memory.h"
#include "owned.h"

#include <string.h>

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
    g->source = mega_calloc(batch, sizeof *g->source);
    g->active = mega_calloc(batch, sizeof *g->active);
    g->told = mega_calloc(batch, sizeof *g->told);
    g->scratch = mega_calloc((size_t)g->m.vocab, sizeof *g->scratch);
    g->logits = mega_calloc((size_t)g->m.vocab, sizeof *g->logits);
    g->tail = mega_calloc(batch, sizeof *g->tail);
    if (!g->filled || !g->history || !g->length || !g->taken || !g->source || !g->active || !g->told || !g->scratch ||
        !g->logits || !g->tail)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for %zu sequences of %lld tokens", batch,
                         (long long)g->capacity);
    return MEGA_OK;
}

mega_status mega_generator_create(mega_engine *engine, const mega_language_model *m,
                                  const mega_generator_options *options, mega_generator **out)
{
    if (mega_engine_run_rows(engine, MEGA_RUN_DECODE) < 0) return MEGA_ERR_USAGE;
    if (mega_engine_positions(engine) > m->positions)
        return MEGA_MISTAKE("generation: sequences of %lld tokens requested; expected 1 to %lld tokens (the model's "
                            "positions), prompt included",
                            (long long)mega_engine_positions(engine), (long long)m->positions);
    if (options->draw_vocab < 0 || options->draw_vocab > m->vocab)
        return MEGA_MISTAKE("generation: %lld ids to draw from; the model has %lld (0: all of them)",
                            (long long)options->draw_vocab, (long long)m->vocab);
    mega_generator *g = mega_calloc(1, sizeof *g);
    if (g == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory");
    g->m = *m;
    g->options = *options;
    if (g->options.draw_vocab == 0) g->options.draw_vocab = m->vocab;
    g->engine = engine;
    g->batch = mega_engine_run_samples(engine);
    g->capacity = mega_engine_positions(engine);
    mega_status st = generator_allocate(g);
    if (st == MEGA_OK && options->has_beams) st = beams_create(g->batch, g->capacity, &g->beams);
    if (st != MEGA_OK) {
        mega_generator_destroy(g);
        return st;
    }
    *out = g;
    return MEGA_OK;
}

void mega_generator_destroy(mega_generator *g)
{
    if (g == NULL ||
        mega_refuse_destroy(g->running != NULL, "mega_generator_destroy", "the call that runs this callback"))
        return;
    for (int64_t b = 0; g->tail != NULL && b < g->batch; b++) mega_buffer_fini(&g->tail[b]);
    beams_destroy(g->beams);
    MEGA_FREE(g->tail, g->filled, g->history, g->length, g->taken, g->source, g->active, g->told, g->scratch,
              g->logits);
    infer_owned_destroy(g->owned);
    mega_free(g);
}

static mega_status check_source(const mega_generator *g, const mega_generation *s, int b)
{
    const int64_t most = mega_engine_run_rows(g->engine, MEGA_RUN_PREFILL);
    if (s->prompt_count > most)
        return MEGA_MISTAKE("generation: prompt %d has %lld tokens; the encoder reads at most %lld", b,
                            (long long)s->prompt_count, (long long)most);
    if (s->max_new < 0 || s->max_new >= g->capacity)
        return MEGA_MISTAKE("generation: %lld new tokens for prompt %d; expected 0 to %lld", (long long)s->max_new, b,
                            (long long)g->capacity - 1);
    return MEGA_OK;
}

mega_status generator_check_text(const mega_generator *g, const mega_generation *s, int b)
{
    if (s->prompt_count < 1 || s->prompt == NULL)
        return MEGA_MISTAKE("generation: prompt %d is empty; give it at least one token", b);
    if (g->m.has_source) MEGA_TRY(check_source(g, s, b));
    else if (s->max_new < 0 || s->prompt_count + s->max_new > g->capacity)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "generation: prompt %d has %lld tokens and %lld new ones are wanted, together more than the %lld "
            "that fit; shorten the prompt or ask for fewer",
            b, (long long)s->prompt_count, (long long)s->max_new, (long long)g->capacity);
    return encode_check_ids("generation", "prompt", b, s->prompt, s->prompt_count, g->m.vocab);
}

static mega_status generator_check_sequences(const mega_generator *g, const mega_generation *s, int count)
{
    if (count < 1 || count > g->batch)
        return MEGA_MISTAKE("generation: %d sequences given, the generator was made for 1 to %lld", count,
                            (long long)g->batch);
    for (int b = 0; b < count; b++) {
        MEGA_TRY(generator_check_text(g, &s[b], b));
        if (s[b].max_new > 0 && s[b].tokens == NULL)
            return MEGA_MISTAKE("generation: text %d has no place for its tokens (tokens is NULL)", b);
    }
    return MEGA_OK;
}

/* A text of which only the log-probabilities of its prompt are wanted is read, although nothing is drawn for it. */
static bool has_tokens_to_read(const mega_generator *g, const mega_generation *s)
{
    return s->max_new > 0 || (s->logprobs != NULL && s->prompt_count > 1 && !g->m.has_source);
}

static mega_status generator_start(mega_generator *g, mega_generation *s, int count, const mega_generation_rules *rules)
{
    g->text = s;
    g->count = count;
    g->rules = rules;
    g->reads_singly = g->m.has_source; /* by the encoder, the prompt is */
    for (int64_t b = 0; b < g->batch; b++) {
        g->filled[b] = 0;
        g->active[b] = b < count && has_tokens_to_read(g, &s[b]);
        g->length[b] = b < count ? generator_begin_text(g, b, &s[b]) : 0;
        if (b >= count) continue;
        s[b].count = 0;
        s[b].finished = false;
        g->reads_singly = g->reads_singly || s[b].logprobs != NULL;
    }
    MEGA_TRY(generator_ends_begin(g));
    return generator_read_sources(g, s, count, false);
}

/* Whether the last run has read all tokens of the sequence, so that its next one can be drawn. */
static bool draws(const mega_generator *g, int64_t b)
{
    return g->taken[b] > 0 && g->filled[b] + g->taken[b] == g->length[b] && g->text[b].max_new > 0;
}

/* Whether something is read from the logits of the sequence. */
static bool is_told(const mega_generator *g, int64_t b)
{
    const bool has_next = g->taken[b] > 0 && g->filled[b] + g->taken[b] < g->length[b];
    return draws(g, b) || (has_next && g->text[b].logprobs != NULL);
}

mega_status generator_not_finite(const mega_generator *g, int64_t tokens)
{
    MEGA_TRY(mega_engine_wait(g->engine)); /* a GPU that has failed gives NaNs */
    return MEGA_FAIL(
        MEGA_ERR_NUMERIC,
        "generation: the logits of token %lld are not finite; the weights of %s have NaN or Inf, or are too "
        "large for its computations: give another checkpoint, or float32 in place of --bf16 and --fp16",
        (long long)tokens, g->options.folder != NULL ? g->options.folder : "the model");
}

static void draw_row(mega_generator *g, int64_t b, const float *logits)
{
    const int64_t vocab = g->options.draw_vocab;
    const mega_generation *s = &g->text[b];
    const int32_t *history = g->history + b * g->capacity;
    const mega_draw at = {.index = s->index, .history = history, .count = g->length[b], .drawn = s->drawn + s->count};
    generator_told *told = &g->told[b];
    *told = (generator_told){.token = NOT_FINITE};
    if (!mega_logits_are_finite(logits, g->m.vocab)) return;
    told->token = draws(g, b) ? mega_sample_token(logits, vocab, &g->rules->sampling, &at, g->scratch)
                              : history[g->filled[b] + g->taken[b]];
    if (s->logprobs != NULL) told->logprob = (float)mega_log_probability(logits, g->m.vocab, told->token);
}

/* Sends the logits of a row from the last stage to all of them, and shows them to the caller. */
static mega_status show_logits(mega_generator *g, int b, const float *logits)
{
    const mega_axis *pp = &mega_engine_layout(g->engine)->pp;
    const int64_t vocab = g->m.vocab;
    if (g->rules->logits == NULL || !draws(g, b)) return MEGA_OK;
    if (pp->size > 1) {
        logits = g->logits; /* there the last stage has read them */
        MEGA_TRY(mega_comm_broadcast(pp->comm, "logits", g->logits, vocab * (int64_t)sizeof *logits, pp->size - 1));
    }
    g->rules->logits(g->rules->user, b, logits, vocab);
    return MEGA_OK;
}

/* The last stage draws the next tokens and sends them to all stages. */
static mega_status draw_rows(mega_generator *g, mega_run program)
{
    const mega_axis *pp = &mega_engine_layout(g->engine)->pp;
    for (int b = 0; b < g->count; b++) {
        if (!is_told(g, b)) continue;
        const float *logits = generator_row_logits(g, program, b);
        if (logits != NULL) draw_row(g, b, logits);
        MEGA_TRY(show_logits(g, b, logits));
    }
    MEGA_TRY(mega_comm_broadcast(pp->comm, "next tokens", g->told, (int64_t)sizeof *g->told * g->count, pp->size - 1));
    for (int b = 0; b < g->count; b++)
        if (is_told(g, b) && g->told[b].token == NOT_FINITE) return generator_not_finite(g, g->filled[b] + g->taken[b]);
    return MEGA_OK;
}

/* One run through all layers: pending tokens of each sequence, as many as fit. Only the last chunk of a prompt draws a
 * token; earlier chunks pass through the stages at the same time, without waiting for each other. */
static mega_status run_and_draw(mega_generator *g)
{
    mega_run program;
    bool any = false;
    MEGA_TRY(generator_run_rows(g, &program));
    for (int b = 0; b < g->count; b++) any = any || is_told(g, b);
    if (!any) return MEGA_OK;
    MEGA_TRY(mega_engine_wait(g->engine));
    return draw_rows(g, program);
}

/* A sequence whose tokens are all in the cache gets its next one. *goes_on: the sink says so. */
static mega_status take_token(mega_generator *g, int b, bool *goes_on)
{
    mega_generation *s = &g->text[b];
    const int32_t token = g->told[b].token;
    s->tokens[s->count++] = token;
    g->history[b * g->capacity + g->length[b]++] = token;
    MEGA_TRY(generator_ends(g, b, &s->finished));
    g->active[b] = !s->finished && s->count < s->max_new;
    if (g->options.no_cache) g->filled[b] = 0;
    *goes_on = g->rules->token == NULL || g->rules->token(g->rules->user, b, token);
    return MEGA_OK;
}

static mega_status advance(mega_generator *g, int b, bool *goes_on)
{
    mega_generation *s = &g->text[b];
    const bool has_next = draws(g, b), is_said = is_told(g, b);
    g->filled[b] += (int32_t)g->taken[b];
    if (is_said && s->logprobs != NULL) s->logprobs[g->filled[b] - 1] = g->told[b].logprob;
    if (has_next) return take_token(g, b, goes_on);
    if (g->active[b] && s->max_new == 0 && g->filled[b] >= g->length[b] - 1) g->active[b] = false;
    return MEGA_OK;
}

mega_status generator_enter(mega_generator *g, const char *call)
{
    if (g->running != NULL)
        return MEGA_MISTAKE("%s: the generator is busy with %s; make this call after that one has returned", call,
                            g->running);
    g->running = call;
    return MEGA_OK;
}

mega_status generator_leave(mega_generator *g, mega_status st)
{
    g->running = NULL;
    return st;
}

static mega_status generate(mega_generator *g, mega_generation *sequences, int count,
                            const mega_generation_rules *rules)
{
    MEGA_TRY(generator_check_sequences(g, sequences, count));
    MEGA_TRY(mega_sampling_check(&rules->sampling));
    MEGA_TRY(generator_start(g, sequences, count, rules));
    while (generator_most_pending(g) > 0) {
        MEGA_TRY(run_and_draw(g));
        for (int b = 0; b < count; b++) {
            bool goes_on = true;
            MEGA_TRY(advance(g, b, &goes_on));
            if (!goes_on) return MEGA_OK;
        }
    }
    return MEGA_OK;
}

mega_status mega_generator_run(mega_generator *g, mega_generation *sequences, int count,
                               const mega_generation_rules *rules)
{
    static const char call[] = "mega_generator_run";
    if (g == NULL || sequences == NULL || rules == NULL)
        return MEGA_MISTAKE("%s: the generator, the sequences or the rules are NULL", call);
    MEGA_TRY(generator_enter(g, call));
    return generator_leave(g, generate(g, sequences, count, rules));
}
