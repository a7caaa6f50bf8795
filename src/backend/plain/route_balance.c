/* The balance loss of a router, its gradient, how evenly experts are used and how often each is chosen: plain kernels
 * (ops_route.h). */
#include "backend_impl.h"
#include <math.h>

/* Returns the part of the first `counted` choices of the tokens of group g that is expert e. */
static double chosen_fraction(const mega_route_balance_args *a, int64_t g, int64_t e)
{
    int64_t count = 0;
    for (int64_t t = g * a->rows; t < (g + 1) * a->rows; t++)
        for (int64_t j = 0; j < a->counted; j++) count += a->choice[t * a->choices + j] == e ? 1 : 0;
    return (double)count / (double)(a->rows * a->counted);
}

static void plain_route_balance_run(const mega_queue *queue, const void *args)
{
    const mega_route_balance_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    (void)queue;
    for (int64_t g = 0; g < a->groups; g++) {
        double loss = 0.0;
        for (int64_t e = 0; e < a->experts; e++) {
            const double fraction = chosen_fraction(a, g, e);
            double sum = 0.0;
            for (int64_t t = g * a->rows; t < (g + 1) * a->rows; t++) sum += get(a->share, acc, t * a->experts + e);
            put(a->fraction, acc, g * a->experts + e, fraction);
            loss += fraction * (sum / (double)a->rows);
        }
        put(a->loss, acc, g, (double)a->experts * loss);
    }
}

static void plain_route_balance_grad_run(const mega_queue *queue, const void *args)
{
    const mega_route_balance_grad_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    (void)queue;
    for (int64_t t = 0; t < a->groups * a->rows; t++) {
        const int64_t g = t / a->rows;
        const double factor = get(a->dloss, acc, g) * (double)a->experts / (double)a->rows;
        for (int64_t e = 0; e < a->experts; e++)
            put(a->dshare, acc, t * a->experts + e, factor * get(a->fraction, acc, g * a->experts + e));
    }
}

static void plain_route_load_run(const mega_queue *queue, const void *args)
{
    const mega_route_load_args *a = args;
    const mega_dtype acc = acc_of(a->head.dtype);
    (void)queue;
    for (int64_t g = 0; g < a->groups; g++) {
        double most = 0.0, least = INFINITY, entropy = 0.0;
        for (int64_t e = 0; e < a->experts; e++) {
            const double f = get(a->fraction, acc, g * a->experts + e);
            most = fmax(most, f);
            least = fmin(least, f);
            if (f > 0.0) entropy -= f * log(f);
        }
        put(a->fullest, acc, g, most * (double)a->experts);
        put(a->emptiest, acc, g, least * (double)a->experts);
        put(a->entropy, acc, g, a->experts > 1 ? entropy / log((double)a->experts) : 1.0);
    }
}

static void plain_route_count_run(const mega_queue *queue, const void *args)
{
    const mega_route_count_args *a = args;
    int64_t count[MEGA_ROUTE_EXPERTS] = {0};
    (void)queue;
    for (int64_t i = 0; i < a->rows * a->choices; i++) count[a->choice[i]]++;
    for (int64_t e = 0; e < a->experts; e++) put_add(a->counts, acc_of(a->head.dtype), e, (double)count[e]);
}

const mega_kernel mega_plain_route_balance = {.name = "route_balance", .run = plain_route_balance_run};
const mega_kernel mega_plain_route_balance_grad = {.name = "route_balance_grad", .run = plain_route_balance_grad_run};
const mega_kernel mega_plain_route_load = {.name = "route_load", .run = plain_route_load_run};
const mega_kernel mega_plain_route_count = {.name = "route_count", .run = plain_route_count_run};
