/* The rules of a beam search: those of Megatron-LM (beam_search_and_return_on_first_stage) and of Hugging Face
 * transformers. */
#include "beam.h"
#include "megalith/memory.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

static bool allocate_rows(beam_rows *r, int64_t rows, int64_t most)
{
    r->token = mega_calloc((size_t)(rows * most), sizeof *r->token);
    r->count = mega_calloc((size_t)rows, sizeof *r->count);
    r->score = mega_calloc((size_t)rows, sizeof *r->score);
    return r->token != NULL && r->count != NULL && r->score != NULL;
}

static void free_rows(beam_rows *r)
{
    MEGA_FREE(r->token, r->count, r->score);
}

mega_status beams_create(int64_t width, int64_t most, beams **out)
{
    beams *b = mega_calloc(1, sizeof *b);
    if (b == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "beam search: no memory");
    *out = b;
    b->width = width;
    b->most = most;
    b->is_stopped = mega_calloc((size_t)width + 1, sizeof *b->is_stopped);
    b->source = mega_calloc((size_t)width, sizeof *b->source);
    b->best = mega_calloc((2 + BEAM_MORE_STOPS) * (size_t)width, sizeof *b->best);
    if (allocate_rows(&b->open, width, most) && allocate_rows(&b->next, width, most) &&
        allocate_rows(&b->ended, width + 1, most) && b->is_stopped != NULL && b->source != NULL && b->best != NULL)
        return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "beam search: no memory for %lld beams of %lld tokens", (long long)width,
                     (long long)most);
}

void beams_destroy(beams *b)
{
    if (b == NULL) return;
    free_rows(&b->open);
    free_rows(&b->next);
    free_rows(&b->ended);
    MEGA_FREE(b->is_stopped, b->source, b->best, b);
}

void beams_begin(beams *b, const mega_beam_options *options, int64_t max_new)
{
    b->options = *options;
    b->max_new = max_new;
    b->made = 0;
    b->num_ended = 0;
    for (int i = 0; i < options->width; i++) b->open.score[i] = 0.0;
}

int beams_candidates(const beams *b)
{
    return (2 + b->options.num_more_stops) * b->options.width;
}

static bool is_stop(const beams *b, int32_t token)
{
    bool is = token == b->options.stop;
    for (int i = 0; i < b->options.num_more_stops; i++) is = is || token == b->options.more_stops[i];
    return is;
}

/* ---- candidates ---- */

/* Better scores first; among equals the lower beam and token, so that the order is the same on every system. */
static bool is_better(const beam_candidate *a, const beam_candidate *b)
{
    if (a->score != b->score) return a->score > b->score;
    return a->beam != b->beam ? a->beam < b->beam : a->token < b->token;
}

/* Inserts a candidate in a sorted list of at most `most`. Returns the new length. */
static int insert(beam_candidate *best, int n, int most, beam_candidate c)
{
    if (n == most && !is_better(&c, &best[n - 1])) return n;
    int at = n < most ? n++ : n - 1;
    for (; at > 0 && is_better(&c, &best[at - 1]); at--) best[at] = best[at - 1];
    best[at] = c;
    return n;
}

/* The number that is subtracted from logits to give logarithms of probabilities. forbidden: an id whose logit counts as
 * -1e10, or -1. */
static double log_sum(const float *x, int64_t vocab, int32_t forbidden)
{
    double most = -INFINITY, sum = 0.0;
    for (int64_t v = 0; v < vocab; v++)
        if (v != forbidden && (double)x[v] > most) most = (double)x[v];
    for (int64_t v = 0; v < vocab; v++)
        if (v != forbidden) sum += exp((double)x[v] - most);
    return most + log(sum);
}

int beams_rank(beams *b, int64_t vocab, int64_t draw_vocab, beam_logits *row, beam_last *last, void *user)
{
    const mega_beam_options *o = &b->options;
    const int open = b->made == 0 ? 1 : o->width, most = beams_candidates(b); /* all beams begin alike */
    int n = 0;
    for (int i = 0; i < open; i++) {
        const float *x = row(user, i);
        const bool forbids = o->forbids && o->forbidden >= 0 && last(user, i) == o->forbidden_after;
        const int32_t forbidden = forbids ? o->forbidden : -1;
        const double base = b->open.score[i] - log_sum(x, vocab, forbidden);
        for (int64_t v = 0; v < draw_vocab; v++) {
            const double logit = v == forbidden ? -1e10 : (double)x[v];
            if (n < most || base + logit >= b->best[n - 1].score)
                n = insert(b->best, n, most, (beam_candidate){base + logit, i, (int32_t)v});
        }
    }
    return n;
}

/* ---- texts that have ended ---- */

static int worst_ended(const beams *b)
{
    int worst = 0;
    for (int i = 1; i < b->num_ended; i++)
        if (b->ended.score[i] < b->ended.score[worst]) worst = i;
    return worst;
}

static void copy_row(const beams *b, beam_rows *to, int64_t i, const beam_rows *from, int64_t j, int64_t count)
{
    memcpy(to->token + i * b->most, from->token + j * b->most, (size_t)count * sizeof *to->token);
    to->count[i] = count;
}

/* Adds the text of an open beam and one token more (token -1: none), if it is among the best `width`. */
static void add_ended(beams *b, double sum, int64_t beam, int32_t token, bool is_stopped)
{
    const int64_t count = b->made + (token >= 0);
    const double score = sum / pow((double)count, b->options.length_penalty);
    int at = b->num_ended;
    if (at == b->options.width) {
        at = worst_ended(b);
        if (score <= b->ended.score[at]) return;
    } else {
        b->num_ended++;
    }
    copy_row(b, &b->ended, at, &b->open, beam, b->made);
    if (token >= 0) b->ended.token[at * b->most + b->made] = token;
    b->ended.count[at] = count;
    b->ended.score[at] = score;
    b->is_stopped[at] = is_stopped;
}

/* Whether a text of `length` tokens and this sum is no better than the worst of those that have ended. */
static bool is_no_better(const beams *b, double sum, int64_t length)
{
    if (b->num_ended < b->options.width) return false;
    return b->ended.score[worst_ended(b)] >= sum / pow((double)length, b->options.length_penalty);
}

/* ---- a step ---- */

/* The open beams of the next step; returns their number. */
static int open_next(beams *b, const beam_candidate *best, int n)
{
    int count = 0;
    for (int i = 0; i < n && count < b->options.width; i++) {
        if (is_stop(b, best[i].token)) continue;
        copy_row(b, &b->next, count, &b->open, best[i].beam, b->made);
        b->next.token[count * b->most + b->made] = best[i].token;
        b->next.count[count] = b->made + 1;
        b->next.score[count] = best[i].score;
        b->source[count++] = best[i].beam;
    }
    return count;
}

/* Megatron: the id `stop` ends a text if it is one of the best `width` candidates. */
static bool step_megatron(beams *b, int n)
{
    for (int i = 0; i < n && i < b->options.width; i++)
        if (is_stop(b, b->best[i].token)) add_ended(b, b->best[i].score, b->best[i].beam, b->best[i].token, true);
    return is_no_better(b, b->best[0].score, b->made + 1);
}

/* transformers: a text that reaches the greatest length has ended as well. Once the search is full, early stopping ends
 * it in the step that filled it. */
static bool step_transformers(beams *b, int n)
{
    const bool is_last = b->made + 1 == b->max_new;
    for (int i = 0; i < n && i < b->options.width; i++) {
        const bool stops = is_stop(b, b->best[i].token);
        if (stops || is_last) add_ended(b, b->best[i].score, b->best[i].beam, b->best[i].token, stops);
    }
    if (is_last) return true;
    if (b->options.early_stopping == MEGA_EARLY_STOPPING_TRUE) return b->num_ended == b->options.width;
    const bool is_far = b->options.early_stopping == MEGA_EARLY_STOPPING_NEVER && b->options.length_penalty > 0.0;
    return is_no_better(b, b->next.score[0], is_far ? b->max_new : b->made + 1);
}

bool beams_step(beams *b, int n)
{
    const int open = open_next(b, b->best, n);
    const bool is_done = b->options.rules == MEGA_BEAMS_MEGATRON ? step_megatron(b, n) : step_transformers(b, n);
    const beam_rows old = b->open;
    if (open < b->options.width) return true; /* fewer ids than beams: checked before the search */
    b->open = b->next;
    b->next = old;
    b->made++;
    return is_done;
}

int beams_finish(beams *b, bool is_done, mega_beam_text *texts)
{
    for (int i = 0; !is_done && i < b->options.width; i++) add_ended(b, b->open.score[i], i, -1, false);
    const int count = b->num_ended;
    for (int i = 0; i < count; i++) {
        int best = 0; /* of those that are not written yet; the first among equals */
        for (int k = 1; k < b->num_ended; k++)
            if (b->ended.score[k] > b->ended.score[best]) best = k;
        texts[i].count = b->ended.count[best];
        texts[i].score = b->ended.score[best];
        texts[i].finished = b->is_stopped[best];
        memcpy(texts[i].tokens, b->ended.token + best * b->most, (size_t)texts[i].count * sizeof(int32_t));
        b->ended.score[best] = -INFINITY;
    }
    return count;
}
