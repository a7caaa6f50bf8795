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
#include "elementwise.h"
#include "megalith/device_memory.h"
#include "optimizer_impl.h"

#include <assert.h>

void lamb_begin(mega_optimizer *o)
{
    mega_device_fill(o->tensor_sum, 0, 2 * (size_t)o->num_tensors * sizeof(double));
}

/* The squares of the stored tensor that span i is in. */
static double *tensor_squares(const mega_optimizer *o, int i)
{
    return (double *)o->tensor_sum + 2 * o->tensor[o->update[i].tensor].stored;
}

/* The first pass over a span, or a piece of one. A tensor that is whole on each rank of tp counts on the first. */
static void prepare_elements(mega_optimizer *o, int i, const optimizer_work *w)
{
    const mega_optimizer_call *c = &w->call;
    const bool counts = o->tensor[o->update[i].tensor].is_cut || o->layout->tp.rank == 0;
    const mega_lamb_moments_args a = {.head = {.dtype = w->compute, .scratch = o->chunk_sum},
                                      .sums = counts ? tensor_squares(o, i) : NULL,
                                      .m = w->state[0],
                                      .v = w->state[1],
                                      .p = c->param,
                                      .g = c->grad,
                                      .count = c->count,
                                      .grad_factor = w->factor,
                                      .number = elementwise_numbers(w, MEGA_KERNEL_lamb_step),
                                      .block = w->block};
    optimizer_run(o, MEGA_KERNEL_lamb_moments, &a);
}

void lamb_prepare(mega_optimizer *o, int i)
{
    static_assert(OPTIMIZER_PIECE % MEGA_LAMB_CHUNK == 0 && OPTIMIZER_GPU_PIECE % MEGA_LAMB_CHUNK == 0,
                  "a piece that another follows has whole chunks");
    optimizer_each_piece(o, i, prepare_elements);
}

void lamb_update(mega_optimizer *o, int i)
{
    const optimizer_work *w = &o->work[i];
    double *ratio = (double *)o->tensor_sum + 2 * o->num_tensors;
    const mega_lamb_ratio_args r = {.head = {.dtype = w->compute},
                                    .ratio = ratio,
                                    .squares = tensor_squares(o, i),
                                    .least = ARGUMENT(&w->call, min_coeff),
                                    .most = ARGUMENT(&w->call, max_coeff)};
    mega_formula_args a = elementwise_args(w, MEGA_KERNEL_lamb_step);
    a.scale = ratio;
    optimizer_run(o, MEGA_KERNEL_lamb_ratio, &r);
    optimizer_run(o, MEGA_KERNEL_lamb_step, &a);
}
