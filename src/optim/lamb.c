/* Lamb (You et al. 2020, arXiv 1904.00962) as DeepSpeed's FusedLamb computes it. With g the clipped gradient, m and v
 * states that start at 0, k the number of the update from 1 and d the weight decay of the tensor:
 *
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   u = m / (sqrt(v) + eps) + d p,  or m / sqrt(v + eps) + d p
 *   c = |p| / |u|, at least min_coeff and at most max_coeff; 1 where a norm is 0
 *   p -= lr sqrt(1 - b2^k) / (1 - b1^k) c u
 *
 * The norms are those of the whole tensor: what a checkpoint stores under one name. So there are two passes, and
 * between them the update program sums the squares over the ranks that hold pieces of tensors. The second pass
 * computes u again: keeping it would take as much memory as a state. */
#include "muon.h"
#include "optimizer_impl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct lamb_numbers {
    double beta1, beta2, eps_inside, eps_outside, decay, grad_factor;
    double step; /* of the second pass: learning rate times trust ratio */
} lamb_numbers;

#define REAL    float
#define SQRT    sqrtf
#define NAME(x) x##_f32
#include "lamb_body.c"
#undef REAL
#undef SQRT
#undef NAME
#define REAL    double
#define SQRT    sqrt
#define NAME(x) x##_f64
#include "lamb_body.c"

typedef struct lamb_pass {
    const mega_optimizer_call *call;
    lamb_numbers numbers;
    double *chunk_sum;
    bool wide;
} lamb_pass;

static lamb_numbers numbers_of(const mega_optimizer_call *c)
{
    const bool inside = ARGUMENT(c, eps_inside_sqrt) != 0;
    return (lamb_numbers){.beta1 = ARGUMENT(c, beta1),
                          .beta2 = ARGUMENT(c, beta2),
                          .eps_inside = inside ? ARGUMENT(c, eps) : 0,
                          .eps_outside = inside ? 0 : ARGUMENT(c, eps),
                          .decay = c->weight_decay,
                          .grad_factor = c->grad_factor};
}

void lamb_begin(mega_optimizer *o)
{
    memset(o->tensor_sum, 0, 2 * (size_t)o->num_tensors * sizeof *o->tensor_sum);
}

static void moments_part(void *user, int thread, int64_t begin, int64_t end)
{
    const lamb_pass *w = user;
    (void)thread;
    for (int64_t first = begin; first < end; first += LAMB_CHUNK) {
        const int64_t last = end - first > LAMB_CHUNK ? first + LAMB_CHUNK : end;
        double *sum = &w->chunk_sum[2 * (first / LAMB_CHUNK)];
        (w->wide ? lamb_moments_f64 : lamb_moments_f32)(w->call, &w->numbers, first, last, sum);
    }
}

/* The squares of the stored tensor that span i is in. */
static double *tensor_squares(const mega_optimizer *o, int i)
{
    return &o->tensor_sum[2 * o->tensor[o->update[i].tensor].stored];
}

/* The first pass over a span, or a piece of one. */
static void prepare_elements(mega_optimizer *o, int i, const optimizer_work *w)
{
    const whole_tensor *t = &o->tensor[o->update[i].tensor];
    lamb_pass pass = {&w->call, numbers_of(&w->call), o->chunk_sum, w->compute == MEGA_F64};
    double *sum = tensor_squares(o, i);
    mega_team_for(o->options.queue.team, w->call.count, LAMB_CHUNK, moments_part, &pass);
    if (!t->is_cut && o->layout->tp.rank > 0) return; /* it counts on the first rank of tp */
    for (int64_t k = 0; k * LAMB_CHUNK < w->call.count; k++)
        for (int j = 0; j < 2; j++) sum[j] += o->chunk_sum[2 * k + j];
}

void lamb_prepare(mega_optimizer *o, int i)
{
    static_assert(OPTIMIZER_PIECE % LAMB_CHUNK == 0, "a piece has whole chunks");
    optimizer_each_piece(o, i, prepare_elements);
}

static double trust_ratio(const mega_optimizer_call *c, const double squares[2])
{
    const double param = sqrt(squares[0]), step = sqrt(squares[1]);
    if (param == 0 || step == 0) return 1;
    return fmax(ARGUMENT(c, min_coeff), fmin(ARGUMENT(c, max_coeff), param / step));
}

static double corrected_rate(const mega_optimizer_call *c)
{
    const double k = (double)c->update;
    if (ARGUMENT(c, no_bias_correction) != 0) return c->lr;
    return c->lr * sqrt(1 - pow(ARGUMENT(c, beta2), k)) / (1 - pow(ARGUMENT(c, beta1), k));
}

static void update_f32(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    lamb_numbers n = numbers_of(c);
    n.step = c->lr;
    lamb_step_f32(c, &n, begin, end);
}

static void update_f64(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    lamb_numbers n = numbers_of(c);
    n.step = c->lr;
    lamb_step_f64(c, &n, begin, end);
}

void lamb_update(mega_optimizer *o, int i)
{
    optimizer_work w = o->work[i];
    const mega_optimizer_row row = {.update = w.compute == MEGA_F64 ? update_f64 : update_f32};
    w.call.lr = corrected_rate(&w.call) * trust_ratio(&w.call, tensor_squares(o, i));
    mega_optimizer_row_run(&row, o->options.queue.team, &w);
}
