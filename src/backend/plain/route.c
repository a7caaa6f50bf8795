/* Choices of experts with their weights, and the gradient of the weights: plain kernels (ops_route.h). */
#include "backend_impl.h"
#include <math.h>

/* Scores of all experts for a token. whole: of SIGMOID the sum that makes shares of them, else 1. */
typedef struct route_scores {
    double score[MEGA_ROUTE_EXPERTS], whole;
} route_scores;

static void softmax_of(double *x, int64_t n)
{
    double max = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++) sum += x[i] = exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

static void find_scores(route_scores *s, const void *logits, mega_dtype t, int64_t at, int64_t experts,
                        mega_route_score kind)
{
    s->whole = 1.0;
    for (int64_t e = 0; e < experts; e++) s->score[e] = get(logits, t, at + e);
    if (kind != MEGA_ROUTE_SIGMOID) {
        softmax_of(s->score, experts);
        return;
    }
    s->whole = 1e-20;
    for (int64_t e = 0; e < experts; e++) s->whole += s->score[e] = 1.0 / (1.0 + exp(-s->score[e]));
}

/* ---- the choice ---- */

/* What a token chooses by; closed: experts that it may not choose, or has chosen. */
typedef struct route_keys {
    double key[MEGA_ROUTE_EXPERTS];
    bool closed[MEGA_ROUTE_EXPERTS];
} route_keys;

/* Returns the open item with the largest key, of equal ones the first; a NaN is the smallest. */
static int64_t route_take_best(route_keys *k, int64_t begin, int64_t end)
{
    int64_t best = -1;
    double most = -INFINITY;
    for (int64_t e = begin; e < end; e++) {
        if (k->closed[e] || (best >= 0 && !(k->key[e] > most))) continue;
        best = e;
        most = isnan(k->key[e]) ? -INFINITY : k->key[e];
    }
    k->closed[best] = true;
    return best;
}

static double biased_score(const mega_route_args *a, const route_scores *s, int64_t e)
{
    return s->score[e] + (a->bias != NULL ? get(a->bias, acc_of(a->head.dtype), e) : 0.0);
}

/* Closes the experts of all groups but the best ones. */
static void close_groups(const mega_route_args *a, const route_scores *s, route_keys *k)
{
    const mega_route_options *o = &a->options;
    const int64_t size = a->experts / o->groups;
    route_keys group;
    for (int64_t e = 0; e < a->experts; e++) k->key[e] = biased_score(a, s, e);
    for (int64_t g = 0; g < o->groups; g++) {
        group.key[g] = 0.0;
        group.closed[g] = false;
        for (int64_t i = 0; i < o->group_best; i++)
            group.key[g] += k->key[route_take_best(k, g * size, (g + 1) * size)];
    }
    for (int64_t e = 0; e < a->experts; e++) k->closed[e] = true;
    for (int64_t i = 0; i < o->chosen_groups; i++) {
        const int64_t first = route_take_best(&group, 0, o->groups) * size;
        for (int64_t e = first; e < first + size; e++) k->closed[e] = false;
    }
}

static void route_choose(const mega_route_args *a, const route_scores *s, int64_t row)
{
    const mega_route_options *o = &a->options;
    const bool by_logits = a->bias == NULL || o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN;
    route_keys k;
    for (int64_t e = 0; e < a->experts; e++) k.closed[e] = false;
    if (o->groups > 0) close_groups(a, s, &k);
    for (int64_t e = 0; e < a->experts; e++)
        k.key[e] = by_logits ? get(a->logits, a->logits_dtype, row * a->experts + e) : biased_score(a, s, e);
    for (int64_t e = 0; e < a->experts && by_logits && a->bias != NULL; e++)
        k.key[e] += get(a->bias, acc_of(a->head.dtype), e);
    for (int64_t e = 0; e < a->experts && a->keys != NULL; e++)
        k.key[e] = get(a->keys, acc_of(a->head.dtype), row * a->experts + e);
    for (int64_t j = 0; j < o->choices; j++)
        a->choice[row * o->choices + j] = (int32_t)route_take_best(&k, 0, a->experts);
}

/* ---- the weights ---- */

static double factor_of(const mega_route_options *o)
{
    return o->scale != 0.0 ? o->scale : 1.0;
}

/* p: the softmax of choice j over the logits near it, 0 for all others (SOFTMAX_OF_NEAR). */
static void softmax_of_near(double *p, const mega_route_options *o, const int32_t *choice, int64_t j,
                            const void *logits, mega_dtype t, int64_t at, int64_t experts)
{
    const double chosen = get(logits, t, at + choice[j]);
    double sum = 0.0;
    for (int64_t e = 0; e < experts; e++) {
        const double z = get(logits, t, at + e);
        p[e] = chosen - z > o->margin * fmax(fabs(z), chosen) ? 0.0 : exp(z - chosen);
    }
    for (int64_t i = 0; i < j; i++) p[choice[i]] = 0.0;
    for (int64_t e = 0; e < experts; e++) sum += p[e];
    for (int64_t e = 0; e < experts; e++) p[e] /= sum;
}

/* w[j]: the weights of SOFTMAX_OF_NEAR. */
static void near_weights(double *w, const mega_route_args *a, const int32_t *choice, int64_t at)
{
    double p[MEGA_ROUTE_EXPERTS];
    for (int64_t j = 0; j < a->options.choices; j++) {
        softmax_of_near(p, &a->options, choice, j, a->logits, a->logits_dtype, at, a->experts);
        w[j] = p[choice[j]];
    }
}

/* w[j]: the score of choice j, or the softmax over the chosen logits. Returns what the weights are divided by. */
static double chosen_scores(double *w, const mega_route_options *o, const route_scores *s, const int32_t *choice,
                            const void *logits, mega_dtype t, int64_t at)
{
    double sum = o->epsilon;
    for (int64_t j = 0; j < o->choices; j++)
        w[j] = o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN ? get(logits, t, at + choice[j]) : s->score[choice[j]];
    if (o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN) softmax_of(w, o->choices);
    for (int64_t j = 0; j < o->choices; j++) sum += w[j];
    return o->normalized ? sum : 1.0;
}

static void plain_route_run(const mega_queue *queue, const void *args)
{
    const mega_route_args *a = args;
    const mega_route_options *o = &a->options;
    const mega_dtype acc = acc_of(a->head.dtype);
    route_scores s;
    double w[MEGA_ROUTE_EXPERTS];
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        find_scores(&s, a->logits, a->logits_dtype, r * a->experts, a->experts, o->score);
        route_choose(a, &s, r);
        const int32_t *choice = a->choice + r * o->choices;
        const double whole = chosen_scores(w, o, &s, choice, a->logits, a->logits_dtype, r * a->experts);
        if (o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR) near_weights(w, a, choice, r * a->experts);
        for (int64_t j = 0; j < o->choices; j++) put(a->weight, acc, r * o->choices + j, factor_of(o) * w[j] / whole);
        for (int64_t e = 0; e < a->experts; e++) put(a->share, acc, r * a->experts + e, s.score[e] / s.whole);
    }
}

/* ---- the gradient ---- */

/* d[e] becomes the gradient of logit e, from that of softmax p. */
static void softmax_gradient(double *d, const double *p, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += p[i] * d[i];
    for (int64_t i = 0; i < n; i++) d[i] = p[i] * (d[i] - sum);
}

/* dw[j]: the gradient of the score of choice j; of SOFTMAX_OF_CHOSEN that of its logit. */
static void chosen_gradient(double *dw, const mega_route_grad_args *a, const route_scores *s, int64_t row)
{
    const mega_route_options *o = &a->options;
    double w[MEGA_ROUTE_EXPERTS], mean = 0.0;
    const double whole =
        chosen_scores(w, o, s, a->choice + row * o->choices, a->logits, a->logits_dtype, row * a->experts);
    for (int64_t j = 0; j < o->choices; j++)
        dw[j] = factor_of(o) * get(a->dweight, acc_of(a->head.dtype), row * o->choices + j);
    if (o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN) softmax_gradient(dw, w, o->choices);
    for (int64_t j = 0; j < o->choices && o->normalized; j++) mean += dw[j] * w[j] / whole;
    for (int64_t j = 0; j < o->choices && o->normalized; j++) dw[j] = (dw[j] - mean) / whole;
}

/* Adds to d the gradients of the logits by those of the weights of SOFTMAX_OF_NEAR. */
static void near_gradient(double *d, const mega_route_grad_args *a, int64_t row)
{
    const mega_route_options *o = &a->options;
    const int32_t *choice = a->choice + row * o->choices;
    double p[MEGA_ROUTE_EXPERTS];
    for (int64_t j = 0; j < o->choices; j++) {
        softmax_of_near(p, o, choice, j, a->logits, a->logits_dtype, row * a->experts, a->experts);
        const double dw = factor_of(o) * get(a->dweight, acc_of(a->head.dtype), row * o->choices + j) * p[choice[j]];
        for (int64_t e = 0; e < a->experts; e++) d[e] -= dw * p[e];
        d[choice[j]] += dw;
    }
}

/* d[e]: the gradient of score e by that of the shares. */
static void share_gradient(double *d, const mega_route_grad_args *a, const route_scores *s, int64_t row)
{
    const mega_dtype acc = acc_of(a->head.dtype);
    double mean = 0.0;
    for (int64_t e = 0; e < a->experts; e++) d[e] = a->dshare != NULL ? get(a->dshare, acc, row * a->experts + e) : 0.0;
    if (a->options.score != MEGA_ROUTE_SIGMOID) return;
    for (int64_t e = 0; e < a->experts; e++) mean += d[e] * s->score[e] / s->whole;
    for (int64_t e = 0; e < a->experts; e++) d[e] = (d[e] - mean) / s->whole;
}

static void plain_route_grad_run(const mega_queue *queue, const void *args)
{
    const mega_route_grad_args *a = args;
    const mega_route_options *o = &a->options;
    const bool of_logits = o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN, of_near = o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR;
    const bool of_scores = a->dweight != NULL && !of_logits && !of_near;
    route_scores s;
    double d[MEGA_ROUTE_EXPERTS], dw[MEGA_ROUTE_EXPERTS];
    (void)queue;
    for (int64_t r = 0; r < a->rows; r++) {
        const int32_t *choice = a->choice + r * o->choices;
        find_scores(&s, a->logits, a->logits_dtype, r * a->experts, a->experts, o->score);
        share_gradient(d, a, &s, r);
        if (a->dweight != NULL && !of_near) chosen_gradient(dw, a, &s, r);
        for (int64_t j = 0; j < o->choices && of_scores; j++) d[choice[j]] += dw[j];
        if (o->score != MEGA_ROUTE_SIGMOID) softmax_gradient(d, s.score, a->experts);
        for (int64_t e = 0; e < a->experts && o->score == MEGA_ROUTE_SIGMOID; e++)
            d[e] *= s.score[e] * (1.0 - s.score[e]);
        for (int64_t j = 0; j < o->choices && a->dweight != NULL && of_logits; j++) d[choice[j]] += dw[j];
        if (a->dweight != NULL && of_near) near_gradient(d, a, r);
        for (int64_t e = 0; e < a->experts; e++) put(a->dlogits, a->head.dtype, r * a->experts + e, d[e]);
    }
}

const mega_kernel mega_plain_route = {.name = "route", .run = plain_route_run};
const mega_kernel mega_plain_route_grad = {.name = "route_grad", .run = plain_route_grad_run};
