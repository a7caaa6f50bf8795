/* Choices of experts and their gradient: the threads share the rows. Scores are computed in float, and choices are kept
 * in a list in descending order, into which few of many experts come. F64 runs the plain kernels. */
#include "cpu/share.h"
#include <math.h>
#include <string.h>

/* A row of logits and the scores of its experts. whole: of SIGMOID the sum that makes shares of them, else 1. */
typedef struct route_row {
    float logit[MEGA_ROUTE_EXPERTS], score[MEGA_ROUTE_EXPERTS];
    double whole;
} route_row;

static void row_softmax(float *out, const float *x, int64_t n)
{
    float max = -INFINITY;
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += out[i] = expf(x[i] - max);
    const float share = (float)(1.0 / sum);
    for (int64_t i = 0; i < n; i++) out[i] *= share;
}

static void row_scores(route_row *r, const void *logits, mega_dtype t, int64_t row, int64_t experts,
                       mega_route_score kind)
{
    double sum = 1e-20;
    r->whole = 1.0;
    for (int64_t at = 0; at < experts; at += CPU_BLOCK)
        block_get(r->logit + at, logits, t, row * experts + at, experts - at < CPU_BLOCK ? experts - at : CPU_BLOCK);
    if (kind != MEGA_ROUTE_SIGMOID) {
        row_softmax(r->score, r->logit, experts);
        return;
    }
    for (int64_t e = 0; e < experts; e++) sum += r->score[e] = 1.0f / (1.0f + expf(-r->logit[e]));
    r->whole = sum;
}

/* ---- the choice ---- */

/* The best of those offered so far, in descending order. */
typedef struct route_list {
    float key[MEGA_ROUTE_EXPERTS];
    int32_t item[MEGA_ROUTE_EXPERTS];
    int64_t count, most;
} route_list;

static void list_begin(route_list *l, int64_t most)
{
    l->count = 0, l->most = most;
}

/* Items come in ascending order, so that one stays behind those that have the same key. */
static void list_offer(route_list *l, float key, int64_t item)
{
    if (isnan(key)) key = -INFINITY;
    if (l->count == l->most && !(key > l->key[l->most - 1])) return;
    int64_t at = l->count < l->most ? l->count++ : l->most - 1;
    for (; at > 0 && key > l->key[at - 1]; at--) l->key[at] = l->key[at - 1], l->item[at] = l->item[at - 1];
    l->key[at] = key, l->item[at] = (int32_t)item;
}

static float row_key(const mega_route_args *a, const route_row *r, int64_t e, bool by_logits)
{
    return (by_logits ? r->logit[e] : r->score[e]) + (a->bias != NULL ? ((const float *)a->bias)[e] : 0.0f);
}

/* Marks the groups from which the token chooses. */
static void row_groups(const mega_route_args *a, const route_row *r, route_list *best, bool *is_open)
{
    const mega_route_options *o = &a->options;
    const int64_t size = a->experts / o->groups;
    route_list groups;
    list_begin(&groups, o->chosen_groups);
    for (int64_t g = 0; g < o->groups; g++) {
        float sum = 0.0f;
        list_begin(best, o->group_best);
        for (int64_t e = g * size; e < (g + 1) * size; e++) list_offer(best, row_key(a, r, e, false), e);
        for (int64_t i = 0; i < o->group_best; i++) sum += row_key(a, r, best->item[i], false);
        list_offer(&groups, sum, g);
        is_open[g] = false;
    }
    for (int64_t i = 0; i < o->chosen_groups; i++) is_open[groups.item[i]] = true;
}

static void row_choose(const mega_route_args *a, const route_row *r, int64_t row, int32_t *choice)
{
    const mega_route_options *o = &a->options;
    const bool by_logits = a->bias == NULL || o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN;
    const float *keys = a->keys != NULL ? (const float *)a->keys + row * a->experts : NULL;
    const int64_t groups = o->groups > 0 ? o->groups : 1, size = a->experts / groups;
    bool is_open[MEGA_ROUTE_EXPERTS] = {true};
    route_list best;
    if (o->groups > 0) row_groups(a, r, &best, is_open);
    list_begin(&best, o->choices);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t e = g * size; e < (g + 1) * size && is_open[g]; e++)
            list_offer(&best, keys != NULL ? keys[e] : row_key(a, r, e, by_logits), e);
    memcpy(choice, best.item, (size_t)o->choices * sizeof *choice);
}

/* ---- the weights ---- */

static double row_factor(const mega_route_options *o)
{
    return o->scale != 0.0 ? o->scale : 1.0;
}

/* p: the softmax of choice j over the logits near it, 0 for all others (SOFTMAX_OF_NEAR). */
static void row_softmax_near(float *p, const mega_route_options *o, const route_row *r, const int32_t *choice,
                             int64_t j, int64_t experts)
{
    const float chosen = r->logit[choice[j]], margin = (float)o->margin;
    double sum = 0.0;
    for (int64_t e = 0; e < experts; e++) {
        const float z = r->logit[e];
        p[e] = chosen - z > margin * fmaxf(fabsf(z), chosen) ? 0.0f : expf(z - chosen);
    }
    for (int64_t i = 0; i < j; i++) p[choice[i]] = 0.0f;
    for (int64_t e = 0; e < experts; e++) sum += p[e];
    const float share = (float)(1.0 / sum);
    for (int64_t e = 0; e < experts; e++) p[e] *= share;
}

/* w[j]: the weights of SOFTMAX_OF_NEAR. */
static void row_near_weights(float *w, const mega_route_args *a, const route_row *r, const int32_t *choice)
{
    float p[MEGA_ROUTE_EXPERTS];
    for (int64_t j = 0; j < a->options.choices; j++) {
        row_softmax_near(p, &a->options, r, choice, j, a->experts);
        w[j] = p[choice[j]];
    }
}

/* w[j]: the score of choice j, or the softmax over the chosen logits. Returns what the weights are divided by. */
static double row_chosen(float *w, const mega_route_options *o, const route_row *r, const int32_t *choice)
{
    const bool of_chosen = o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN;
    double sum = o->epsilon;
    for (int64_t j = 0; j < o->choices; j++) w[j] = of_chosen ? r->logit[choice[j]] : r->score[choice[j]];
    if (of_chosen) row_softmax(w, w, o->choices);
    for (int64_t j = 0; j < o->choices; j++) sum += w[j];
    return o->normalized ? sum : 1.0;
}

static void route_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_route_args *a = ((const cpu_job *)user)->args;
    const mega_route_options *o = &a->options;
    float w[MEGA_ROUTE_EXPERTS];
    route_row r;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        int32_t *const choice = a->choice + row * o->choices;
        row_scores(&r, a->logits, a->logits_dtype, row, a->experts, o->score);
        row_choose(a, &r, row, choice);
        const float factor = (float)(row_factor(o) / row_chosen(w, o, &r, choice)), share = (float)(1.0 / r.whole);
        if (o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR) row_near_weights(w, a, &r, choice);
        for (int64_t j = 0; j < o->choices; j++) ((float *)a->weight)[row * o->choices + j] = factor * w[j];
        for (int64_t e = 0; e < a->experts; e++) ((float *)a->share)[row * a->experts + e] = r.score[e] * share;
    }
}

static void cpu_route_run(const mega_queue *queue, const void *args)
{
    const mega_route_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_route.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), route_work, args, a->rows, 1, a->rows * a->experts * 8);
}

/* ---- the gradient ---- */

/* d[i] becomes the gradient of the logit, from that of softmax p. */
static void row_softmax_gradient(float *d, const float *p, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)p[i] * d[i];
    for (int64_t i = 0; i < n; i++) d[i] = p[i] * (d[i] - (float)sum);
}

/* dw[j]: the gradient of the score of choice j; of SOFTMAX_OF_CHOSEN that of its logit. */
static void row_chosen_gradient(float *dw, const mega_route_grad_args *a, const route_row *r, int64_t row)
{
    const mega_route_options *o = &a->options;
    float w[MEGA_ROUTE_EXPERTS];
    double mean = 0.0;
    const double whole = row_chosen(w, o, r, a->choice + row * o->choices);
    for (int64_t j = 0; j < o->choices; j++)
        dw[j] = (float)(row_factor(o) * ((const float *)a->dweight)[row * o->choices + j]);
    if (o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN) row_softmax_gradient(dw, w, o->choices);
    for (int64_t j = 0; j < o->choices && o->normalized; j++)
        mean += dw[j] * (w[j] / whole); /* in double: it cancels */
    for (int64_t j = 0; j < o->choices && o->normalized; j++) dw[j] = (float)((dw[j] - mean) / whole);
}

/* Adds to d the gradients of the logits by those of the weights of SOFTMAX_OF_NEAR. */
static void row_near_gradient(float *d, const mega_route_grad_args *a, const route_row *r, int64_t row)
{
    const mega_route_options *o = &a->options;
    const int32_t *choice = a->choice + row * o->choices;
    float p[MEGA_ROUTE_EXPERTS];
    for (int64_t j = 0; j < o->choices; j++) {
        row_softmax_near(p, o, r, choice, j, a->experts);
        const float dw = (float)(row_factor(o) * ((const float *)a->dweight)[row * o->choices + j]) * p[choice[j]];
        for (int64_t e = 0; e < a->experts; e++) d[e] += dw * ((e == choice[j] ? 1.0f : 0.0f) - p[e]);
    }
}

/* d[e]: the gradient of score e by that of the shares. */
static void row_share_gradient(float *d, const mega_route_grad_args *a, const route_row *r, int64_t row)
{
    double mean = 0.0;
    if (a->dshare == NULL) memset(d, 0, (size_t)a->experts * sizeof *d);
    else
        memcpy(d, (const float *)a->dshare + row * a->experts, (size_t)a->experts * sizeof *d);
    if (a->options.score != MEGA_ROUTE_SIGMOID) return;
    for (int64_t e = 0; e < a->experts; e++) mean += d[e] * (r->score[e] / r->whole);
    for (int64_t e = 0; e < a->experts; e++) d[e] = (float)((d[e] - mean) / r->whole);
}

static void route_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_route_grad_args *a = ((const cpu_job *)user)->args;
    const mega_route_options *o = &a->options;
    const bool of_logits = o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN, of_near = o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR;
    const bool has_weights = a->dweight != NULL && !of_near, has_near = a->dweight != NULL && of_near;
    float d[MEGA_ROUTE_EXPERTS], dw[MEGA_ROUTE_EXPERTS];
    route_row r;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        const int32_t *choice = a->choice + row * o->choices;
        row_scores(&r, a->logits, a->logits_dtype, row, a->experts, o->score);
        row_share_gradient(d, a, &r, row);
        if (has_weights) row_chosen_gradient(dw, a, &r, row);
        for (int64_t j = 0; j < o->choices && has_weights && !of_logits; j++) d[choice[j]] += dw[j];
        if (o->score != MEGA_ROUTE_SIGMOID) row_softmax_gradient(d, r.score, a->experts);
        else
            for (int64_t e = 0; e < a->experts; e++) d[e] *= r.score[e] * (1.0f - r.score[e]);
        for (int64_t j = 0; j < o->choices && has_weights && of_logits; j++) d[choice[j]] += dw[j];
        if (has_near) row_near_gradient(d, a, &r, row);
        for (int64_t at = 0; at < a->experts; at += CPU_BLOCK)
            block_put(a->dlogits, a->head.dtype, row * a->experts + at,
                      a->experts - at < CPU_BLOCK ? a->experts - at : CPU_BLOCK, d + at);
    }
}

static void cpu_route_grad_run(const mega_queue *queue, const void *args)
{
    const mega_route_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_route_grad.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), route_grad_work, args, a->rows, 1, a->rows * a->experts * 8);
}

const mega_kernel mega_cpu_route = {.name = "route", .run = cpu_route_run};
const mega_kernel mega_cpu_route_grad = {.name = "route_grad", .run = cpu_route_grad_run};
