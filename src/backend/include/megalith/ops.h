/* Ops that a model can use, by family. Each ops_FAMILY.h begins with the lists of its kernels and ops; the op table and
 * the tests are generated from these lists. The arguments of each kernel follow with their contract; backend/ defines
 * the kernels. Last comes the function that adds the op to a graph; graph/ defines it next to the op's row in the op
 * table.
 *
 * Letters: T rows (tokens of this rank), B sequences, S positions, C channels, H heads, G key/value heads, D head size,
 * V vocabulary rows on this rank, R rows of a head chunk. Weights are [out, in].
 *
 * A kernel works on raw pointers and sizes. It does not use a graph or a communicator, allocates nothing and cannot
 * fail: the op's row in the op table has checked the shapes. Each kernel exists as mega_plain_NAME (the definition: one
 * loop per index, sums in double, one thread) and as mega_cpu_NAME (fast). Both take the same argument struct.
 *
 * The dtype of a call (head.dtype) is the type of activations and weights: MEGA_F32, MEGA_BF16, MEGA_F16, or MEGA_F64
 * (plain only). "acc" is the accumulation type for it: f64 for F64, else f32. Statistics, logits and weight gradients
 * are acc. Gradients of weights accumulate (+=); all other outputs are overwritten (=) unless a comment says otherwise.
 * Outputs do not overlap inputs unless a comment says so. A pointer marked "or NULL" is optional. Rows are dense unless
 * a leading dimension (ld_*) is given. */
#ifndef MEGALITH_OPS_H
#define MEGALITH_OPS_H

#include "megalith/ops_attention.h"
#include "megalith/ops_elementwise.h"
#include "megalith/ops_experts.h"
#include "megalith/ops_heads.h"
#include "megalith/ops_image.h"
#include "megalith/ops_linear.h"
#include "megalith/ops_loss.h"
#include "megalith/ops_norm.h"
#include "megalith/ops_rope.h"
#include "megalith/ops_route.h"
#include "megalith/ops_rows.h"
#include "megalith/ops_wide_norm.h"

/* clang-format off */
/* X(UPPER, lower): every op of the families; X(name): every kernel of theirs. */
#define MEGA_OPS(X) \
    MEGA_OPS_ROWS(X) MEGA_OPS_NORM(X) MEGA_OPS_LINEAR(X) MEGA_OPS_ELEMENTWISE(X) \
    MEGA_OPS_ATTENTION(X) MEGA_OPS_ROPE(X) MEGA_OPS_WIDE_NORM(X) MEGA_OPS_IMAGE(X) MEGA_OPS_LOSS(X) \
    MEGA_OPS_ROUTE(X) MEGA_OPS_EXPERTS(X) MEGA_OPS_HEADS(X)
#define MEGA_OPS_KERNELS(X) \
    MEGA_KERNELS_ROWS(X) MEGA_KERNELS_NORM(X) MEGA_KERNELS_LINEAR(X) MEGA_KERNELS_ELEMENTWISE(X) \
    MEGA_KERNELS_ATTENTION(X) MEGA_KERNELS_ROPE(X) MEGA_KERNELS_WIDE_NORM(X) MEGA_KERNELS_IMAGE(X) MEGA_KERNELS_LOSS(X) \
    MEGA_KERNELS_ROUTE(X) MEGA_KERNELS_EXPERTS(X) MEGA_KERNELS_HEADS(X)
/* clang-format on */

#endif
