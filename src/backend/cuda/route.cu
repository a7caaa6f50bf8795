/* Choices of experts with their weights, and the gradient of the weights: a block has a token (ops_route.h). */
#include "xent_row.h"

/* Of a token. A key that is not a number belongs to an expert that may not be chosen, or is chosen already. */
typedef struct route_shared {
    exp_shared sums;
    row_shared fold;
    float score[MEGA_ROUTE_EXPERTS], key[MEGA_ROUTE_EXPERTS];
    float best[ROW_THREADS / 32];
    int32_t where[ROW_THREADS / 32];
    int32_t choice[MEGA_ROUTE_EXPERTS];
} route_shared;

BODY float not_a_number(void)
{
    return bits_float(0x7fc00000u);
}

/* Scores of all experts, each by the thread that reads them again; returns what makes shares of them. */
BODY float find_scores(route_shared *s, const void *logits, mega_dtype t, int64_t at, int64_t experts, bool is_sigmoid)
{
    float whole = 0.0f;
    if (!is_sigmoid) {
        const exp_sum sum = class_sum(logits, t, at, experts, &s->sums);
        for (int64_t e = thread_x(); e < experts; e += ROW_THREADS)
            s->score[e] = device_divide(exp_of(get(logits, t, at + e) - sum.max), sum.sum);
        return 1.0f;
    }
    for (int64_t e = thread_x(); e < experts; e += ROW_THREADS) whole += s->score[e] = logistic(get(logits, t, at + e));
    return row_fold(whole, &s->fold) + 1e-20f;
}

/* ---- the choice ---- */

typedef struct route_best {
    float key;
    int32_t where;
} route_best;

BODY route_best better_of(route_best x, route_best y)
{
    return y.key > x.key || (y.key == x.key && y.where < x.where) ? y : x;
}

/* Returns the item with the largest key, of equal ones the first, in all threads, and closes it. The key of item e is
 * written and read by thread e % ROW_THREADS alone. */
DEVICE int32_t take_best(route_shared *s, int64_t count)
{
    route_best b = {minus_infinity(), (int32_t)count};
    for (int64_t e = thread_x(); e < count; e += ROW_THREADS) {
        const route_best item = {s->key[e], (int32_t)e};
        b = better_of(b, item);
    }
    UNROLL
    for (int m = 16; m > 0; m /= 2) {
        const route_best other = {warp_xor(b.key, m), (int32_t)warp_xor_bits((uint32_t)b.where, m)};
        b = better_of(b, other);
    }
    if (thread_x() % 32 == 0) s->best[thread_x() / 32] = b.key, s->where[thread_x() / 32] = b.where;
    block_barrier();
    UNROLL
    for (int w = 0; w < ROW_THREADS / 32; w++) {
        const route_best other = {s->best[w], s->where[w]};
        b = better_of(b, other);
    }
    block_barrier(); /* the results of the warps are read */
    if (thread_x() == (unsigned)b.where % ROW_THREADS) s->key[b.where] = not_a_number();
    return b.where;
}

BODY float key_of(float v)
{
    return v == v ? v : minus_infinity();
}

BODY float biased_score(const mega_route_args *a, const route_shared *s, int64_t e)
{
    return s->score[e] + (a->bias != NULL ? ((const float *)a->bias)[e] : 0.0f);
}

/* The sum of the largest scores of group g, whose experts this thread alone visits. It closes them as it counts them:
 * key[g * size + i] is not the key of a group, because those are written after all threads are here. */
BODY float group_score(const mega_route_args *a, route_shared *s, int64_t g, int64_t size)
{
    float sum = 0.0f;
    for (int64_t e = g * size; e < (g + 1) * size; e++) s->key[e] = key_of(biased_score(a, s, e));
    for (int64_t i = 0; i < a->options.group_best; i++) {
        route_best b = {minus_infinity(), (int32_t)a->experts};
        for (int64_t e = g * size; e < (g + 1) * size; e++) {
            const route_best item = {s->key[e], (int32_t)e};
            b = better_of(b, item);
        }
        s->key[b.where] = not_a_number();
        sum += biased_score(a, s, b.where);
    }
    return sum;
}

/* choice[g] is 1 for the groups from which the token may choose. */
BODY void choose_groups(const mega_route_args *a, route_shared *s)
{
    const mega_route_options *o = &a->options;
    const int64_t size = a->experts / o->groups;
    block_barrier(); /* the scores are written */
    for (int64_t g = thread_x(); g < o->groups; g += ROW_THREADS) {
        union {
            float f;
            int32_t i;
        } bits;
        bits.f = key_of(group_score(a, s, g, size));
        s->choice[g] = bits.i;
    }
    block_barrier();
    for (int64_t g = thread_x(); g < o->groups; g += ROW_THREADS) {
        s->key[g] = bits_float((uint32_t)s->choice[g]);
        s->choice[g] = 0;
    }
    for (int64_t i = 0; i < o->chosen_groups; i++) {
        const int32_t g = take_best(s, o->groups);
        if (thread_x() == (unsigned)g % ROW_THREADS) s->choice[g] = 1;
    }
    block_barrier();
}

BODY void choose(const mega_route_args *a, mega_dtype t, route_shared *s, int64_t row)
{
    const mega_route_options *o = &a->options;
    const bool by_logits = a->bias == NULL || o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN;
    if (o->groups > 0) choose_groups(a, s);
    for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS) {
        float key = by_logits ? get(a->logits, t, row * a->experts + e) : biased_score(a, s, e);
        if (by_logits && a->bias != NULL) key += ((const float *)a->bias)[e];
        if (a->keys != NULL) key = ((const float *)a->keys)[row * a->experts + e];
        const bool is_open = o->groups == 0 || s->choice[e / (a->experts / o->groups)] != 0;
        s->key[e] = is_open ? key_of(key) : not_a_number();
    }
    for (int64_t j = 0; j < o->choices; j++) {
        const int32_t e = take_best(s, a->experts);
        if (thread_x() == (unsigned)j % ROW_THREADS) s->choice[j] = e;
    }
}

/* ---- the weights ---- */

typedef struct route_chosen {
    exp_sum sum; /* of the exponentials of the chosen logits, of SOFTMAX_OF_CHOSEN */
    float whole; /* by which the weights are divided */
} route_chosen;

BODY float factor_of(const mega_route_options *o)
{
    return o->scale != 0.0 ? (float)o->scale : 1.0f;
}

BODY float chosen_score(const mega_route_options *o, const route_shared *s, const route_chosen *c, int32_t e,
                        float logit)
{
    if (o->score != MEGA_ROUTE_SOFTMAX_OF_CHOSEN) return s->score[e];
    return device_divide(exp_of(logit - c->sum.max), c->sum.sum);
}

/* choice: of the token. The scores have been written before a barrier. */
BODY route_chosen find_chosen(const mega_route_options *o, route_shared *s, const int32_t *choice, const void *logits,
                              mega_dtype t, int64_t at)
{
    route_chosen c = {{minus_infinity(), 0.0f}, 1.0f};
    float sum = 0.0f;
    if (o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN) {
        for (int64_t j = thread_x(); j < o->choices; j += ROW_THREADS) {
            const exp_sum one = {get(logits, t, at + choice[j]), 1.0f};
            c.sum = exp_sum_join(c.sum, one);
        }
        c.sum = exp_sum_fold(c.sum, &s->sums);
    } else if (o->normalized) {
        for (int64_t j = thread_x(); j < o->choices; j += ROW_THREADS) sum += s->score[choice[j]];
        c.whole = row_fold(sum, &s->fold) + (float)o->epsilon;
    }
    return c;
}

/* The exponential of expert e in the softmax of choice j over the logits near it, 0 if it is not near
 * (SOFTMAX_OF_NEAR). choice: of the token. */
BODY float near_exp(const mega_route_options *o, const int32_t *choice, int64_t j, int64_t e, float z, float chosen)
{
    const float size = z < 0.0f ? -z : z, larger = size > chosen ? size : chosen;
    for (int64_t i = 0; i < j; i++)
        if (choice[i] == e) return 0.0f;
    return chosen - z > (float)o->margin * larger ? 0.0f : exp_of(z - chosen);
}

/* Returns their sum, in all threads; that of the chosen expert is 1. */
BODY float near_sum(const mega_route_options *o, route_shared *s, const int32_t *choice, int64_t j, const void *logits,
                    mega_dtype t, int64_t at, int64_t experts)
{
    const float chosen = get(logits, t, at + choice[j]);
    float sum = 0.0f;
    for (int64_t e = thread_x(); e < experts; e += ROW_THREADS)
        sum += near_exp(o, choice, j, e, get(logits, t, at + e), chosen);
    return row_fold(sum, &s->fold);
}

BODY void near_weights(const mega_route_args *a, mega_dtype t, route_shared *s, int64_t row)
{
    const mega_route_options *o = &a->options;
    block_barrier(); /* the choices are written */
    for (int64_t j = 0; j < o->choices; j++) {
        const int32_t e = s->choice[j];
        const float sum = near_sum(o, s, s->choice, j, a->logits, t, row * a->experts, a->experts);
        if (thread_x() != 0) continue;
        a->choice[row * o->choices + j] = e;
        ((float *)a->weight)[row * o->choices + j] = device_divide(factor_of(o), sum);
    }
}

BODY void route_run(const mega_route_args *a, mega_dtype t)
{
    SHARED(route_shared, s);
    const mega_route_options *o = &a->options;
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        const int64_t at = row * a->experts;
        block_barrier(); /* what the row before left has been read */
        const float whole = find_scores(s, a->logits, t, at, a->experts, o->score == MEGA_ROUTE_SIGMOID);
        choose(a, t, s, row);
        const route_chosen c = find_chosen(o, s, s->choice, a->logits, t, at);
        if (o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR) near_weights(a, t, s, row);
        for (int64_t j = thread_x(); j < o->choices && o->score != MEGA_ROUTE_SOFTMAX_OF_NEAR; j += ROW_THREADS) {
            const int32_t e = s->choice[j];
            const float score = chosen_score(o, s, &c, e, get(a->logits, t, at + e));
            a->choice[row * o->choices + j] = e;
            ((float *)a->weight)[row * o->choices + j] = factor_of(o) * device_divide(score, c.whole);
        }
        for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS)
            ((float *)a->share)[at + e] = device_divide(s->score[e], whole);
    }
}
KERNELS_BY_TYPE(route, mega_route_args, ROW_THREADS)

/* ---- the gradient ---- */

/* Sets key[e] to the gradient of score e by that of the shares. */
BODY void share_gradient(const mega_route_grad_args *a, route_shared *s, int64_t at, float whole)
{
    const bool is_sigmoid = a->options.score == MEGA_ROUTE_SIGMOID;
    float mean = 0.0f;
    for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS) {
        s->key[e] = a->dshare != NULL ? ((const float *)a->dshare)[at + e] : 0.0f;
        mean += s->key[e] * device_divide(s->score[e], whole);
    }
    if (!is_sigmoid) return;
    mean = row_fold(mean, &s->fold);
    for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS) s->key[e] = device_divide(s->key[e] - mean, whole);
}

/* Adds to key[e] the gradients of the chosen scores; of SOFTMAX_OF_CHOSEN those of the chosen logits. */
BODY void chosen_gradient(const mega_route_grad_args *a, mega_dtype t, route_shared *s, int64_t row)
{
    const mega_route_options *o = &a->options;
    const int32_t *choice = a->choice + row * o->choices;
    const float *dweight = (const float *)a->dweight + row * o->choices;
    const bool of_chosen = o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN;
    const int64_t at = row * a->experts;
    block_barrier(); /* scores and keys are written */
    const route_chosen c = find_chosen(o, s, choice, a->logits, t, at);
    float mean = 0.0f;
    for (int64_t j = thread_x(); j < o->choices; j += ROW_THREADS)
        mean += factor_of(o) * dweight[j] *
                device_divide(chosen_score(o, s, &c, choice[j], get(a->logits, t, at + choice[j])), c.whole);
    mean = of_chosen || o->normalized ? row_fold(mean, &s->fold) : 0.0f;
    for (int64_t j = thread_x(); j < o->choices; j += ROW_THREADS) {
        const float d = device_divide(factor_of(o) * dweight[j] - mean, c.whole);
        const float p = of_chosen ? chosen_score(o, s, &c, choice[j], get(a->logits, t, at + choice[j])) : 1.0f;
        s->key[choice[j]] += d * p;
    }
    block_barrier();
}

/* Adds to key[e] the gradients of the logits by those of the weights of SOFTMAX_OF_NEAR. A thread writes and reads the
 * keys of its own experts alone. */
BODY void near_gradient(const mega_route_grad_args *a, mega_dtype t, route_shared *s, int64_t row)
{
    const mega_route_options *o = &a->options;
    const int32_t *choice = a->choice + row * o->choices;
    const int64_t at = row * a->experts;
    for (int64_t j = 0; j < o->choices; j++) {
        const float share = device_divide(1.0f, near_sum(o, s, choice, j, a->logits, t, at, a->experts));
        const float d = factor_of(o) * ((const float *)a->dweight)[row * o->choices + j] * share;
        const float chosen = get(a->logits, t, at + choice[j]);
        for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS) {
            const float p = near_exp(o, choice, j, e, get(a->logits, t, at + e), chosen) * share;
            s->key[e] += d * ((e == choice[j] ? 1.0f : 0.0f) - p);
        }
    }
}

BODY void route_grad_row(const mega_route_grad_args *a, mega_dtype t, mega_dtype from, route_shared *s, int64_t row)
{
    const mega_route_options *o = &a->options;
    const bool is_sigmoid = o->score == MEGA_ROUTE_SIGMOID, of_chosen = o->score == MEGA_ROUTE_SOFTMAX_OF_CHOSEN;
    const bool of_near = o->score == MEGA_ROUTE_SOFTMAX_OF_NEAR;
    const int64_t at = row * a->experts;
    float mean = 0.0f;
    share_gradient(a, s, at, find_scores(s, a->logits, from, at, a->experts, is_sigmoid));
    if (a->dweight != NULL && !of_chosen && !of_near) chosen_gradient(a, from, s, row);
    for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS) mean += s->score[e] * s->key[e];
    mean = is_sigmoid ? 0.0f : row_fold(mean, &s->fold);
    for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS)
        s->key[e] = s->score[e] * (is_sigmoid ? s->key[e] * (1.0f - s->score[e]) : s->key[e] - mean);
    if (a->dweight != NULL && of_chosen) chosen_gradient(a, from, s, row);
    if (a->dweight != NULL && of_near) near_gradient(a, from, s, row);
    for (int64_t e = thread_x(); e < a->experts; e += ROW_THREADS) put(a->dlogits, t, at + e, s->key[e]);
}

/* `from` is the type of the logits, t that of their gradient. */
BODY void route_grad_run(const mega_route_grad_args *a, mega_dtype t)
{
    SHARED(route_shared, s);
    for (int64_t row = block_x(); row < a->rows; row += blocks_x()) {
        if (a->logits_dtype == MEGA_F32) route_grad_row(a, t, MEGA_F32, s, row);
        else
            route_grad_row(a, t, t, s, row);
    }
}
KERNELS_BY_TYPE(route_grad, mega_route_grad_args, ROW_THREADS)
