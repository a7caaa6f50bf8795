/* Beam search with the programs of an engine: each open beam is a sequence of the batch. */
#include "infer_impl.h"

#include <math.h>
#include <string.h>

static mega_status check_beams(const mega_generator *g, const mega_generation *text, const mega_beam_options *o)
{
    if (g->beams == NULL) return MEGA_MISTAKE("beam search: the generator was made without beams (has_beams)");
    if (o->width < 1 || o->width > g->batch)
        return MEGA_MISTAKE("beam search: %d beams; expected 1 to %lld, for which the generator was made", o->width,
                            (long long)g->batch);
    if (o->num_more_stops < 0 || o->num_more_stops > BEAM_MORE_STOPS ||
        (o->num_more_stops > 0 && o->more_stops == NULL))
        return MEGA_MISTAKE("beam search: num_more_stops %d; expected 0 to %d, and their list", o->num_more_stops,
                            BEAM_MORE_STOPS);
    if ((2 + o->num_more_stops) * (int64_t)o->width > g->options.draw_vocab)
        return MEGA_MISTAKE("beam search: %d beams, and a vocabulary of %lld ids; expected at most %lld beams",
                            o->width, (long long)g->options.draw_vocab,
                            (long long)g->options.draw_vocab / (2 + o->num_more_stops));
    if (!isfinite(o->length_penalty))
        return MEGA_MISTAKE("beam search: length_penalty %g; expected a number", o->length_penalty);
    if (o->stop < -1 || o->stop >= g->m.vocab)
        return MEGA_MISTAKE("beam search: stop %d; expected an id below %lld, or -1: none", o->stop,
                            (long long)g->m.vocab);
    if (text->max_new < 1)
        return MEGA_MISTAKE("beam search: max_new %lld; expected 1 or more", (long long)text->max_new);
    return generator_check_text(g, text, 0);
}

/* *begun: the number of tokens before the new ones. */
static mega_status begin_sequences(mega_generator *g, const mega_generation *text, int64_t *begun)
{
    g->count = 0;
    g->reads_singly = g->m.has_source;
    for (int64_t b = 0; b < g->batch; b++) {
        g->filled[b] = 0;
        g->active[b] = b < g->beams->options.width;
        g->length[b] = g->active[b] ? generator_begin_text(g, b, text) : 0;
    }
    *begun = g->length[0];
    return generator_read_sources(g, text, 1, true);
}

/* Reads the pending tokens of all open beams, of which each has as many. */
static mega_status read_pending(mega_generator *g, mega_run *program)
{
    while (generator_most_pending(g) > 0) {
        MEGA_TRY(generator_run_rows(g, program));
        for (int64_t b = 0; b < g->batch; b++) g->filled[b] += (int32_t)g->taken[b];
    }
    return mega_engine_wait(g->engine);
}

/* What beams_rank reads. */
typedef struct ranked {
    mega_generator *g;
    mega_run program;
    bool is_finite; /* all logits so far */
} ranked;

static const float *logits_of(void *user, int beam)
{
    ranked *r = user;
    const float *logits = generator_row_logits(r->g, r->program, beam);
    r->is_finite = r->is_finite && mega_logits_are_finite(logits, r->g->m.vocab);
    return logits;
}

static int32_t last_of(void *user, int beam)
{
    const mega_generator *g = ((ranked *)user)->g;
    return g->history[beam * g->capacity + g->length[beam] - 1];
}

/* The last stage ranks the candidates and sends them to all stages. */
static mega_status rank_candidates(mega_generator *g, mega_run program)
{
    const mega_axis *pp = &mega_engine_layout(g->engine)->pp;
    beams *b = g->beams;
    ranked r = {.g = g, .program = program, .is_finite = true};
    mega_run_value logits;
    if (mega_engine_run_output(g->engine, program, "logits", &logits)) {
        beams_rank(b, g->m.vocab, g->options.draw_vocab, logits_of, last_of, &r);
        if (!r.is_finite) b->best[0].token = NOT_FINITE;
    }
    MEGA_TRY(
        mega_comm_broadcast(pp->comm, "beams", b->best, (int64_t)sizeof *b->best * beams_candidates(b), pp->size - 1));
    return b->best[0].token == NOT_FINITE ? generator_not_finite(g, g->filled[0]) : MEGA_OK;
}

/* Gives each sequence the tokens and the cache of the beam that it continues. */
static mega_status continue_beams(mega_generator *g, int64_t prompt)
{
    beams *b = g->beams;
    const int64_t filled = g->filled[0];
    for (int64_t i = b->options.width; i < g->batch; i++) b->source[i] = (int32_t)i;
    if (!g->options.no_cache && filled > prompt)
        MEGA_TRY(mega_engine_select_caches(g->engine, b->source, prompt, filled));
    for (int i = 0; i < b->options.width; i++) {
        memcpy(g->history + i * g->capacity + prompt, b->open.token + i * b->most, (size_t)b->made * sizeof(int32_t));
        g->length[i] = prompt + b->made;
        if (g->options.no_cache) g->filled[i] = 0;
    }
    return MEGA_OK;
}

static mega_status search_beams(mega_generator *g, const mega_generation *text, const mega_beam_options *options,
                                mega_beam_text *texts, int *count)
{
    const int64_t max_new = text->max_new;
    MEGA_TRY(check_beams(g, text, options));
    for (int i = 0; i < options->width; i++)
        if (texts[i].tokens == NULL)
            return MEGA_MISTAKE("beam search: text %d has no place for its tokens (tokens is NULL)", i);
    int64_t begun = 0;
    beams_begin(g->beams, options, max_new);
    MEGA_TRY(begin_sequences(g, text, &begun));
    bool is_done = false;
    while (g->beams->made < max_new) {
        mega_run program = MEGA_RUN_DECODE;
        MEGA_TRY(read_pending(g, &program));
        MEGA_TRY(rank_candidates(g, program));
        is_done = beams_step(g->beams, beams_candidates(g->beams));
        if (is_done) break;
        MEGA_TRY(continue_beams(g, begun));
        if (options->step != NULL && !options->step(options->user)) break;
    }
    *count = beams_finish(g->beams, is_done, texts);
    return MEGA_OK;
}

mega_status mega_generator_beams(mega_generator *g, const int32_t *prompt, int64_t prompt_count, int64_t max_new,
                                 const mega_beam_options *options, mega_beam_text *texts, int *count)
{
    static const char call[] = "mega_generator_beams";
    if (g == NULL || options == NULL || texts == NULL || count == NULL)
        return MEGA_MISTAKE("%s: the generator, the options, texts or count are NULL", call);
    const mega_generation text = {.prompt = prompt, .prompt_count = prompt_count, .max_new = max_new};
    MEGA_TRY(generator_enter(g, call));
    return generator_leave(g, search_beams(g, &text, options, texts, count));
}
