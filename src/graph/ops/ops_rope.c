/* Rotary position embedding. Its gradient is the opposite rotation. */
#include "op_members.h"

#include <math.h>
#include <string.h>

/* Operands. */
enum { ROPE_X, ROPE_POSITIONS };

/* ---- rope: in x [T, C], positions [T]; out [T, C] ---- */

mega_tensor mega_op_rope(mega_graph *g, mega_tensor x, mega_tensor positions, const mega_rope_shape *s)
{
    instruction op = {.kind = OP_ROPE, .in = {[ROPE_X] = x.id, [ROPE_POSITIONS] = positions.id}, .attr = {.rope = *s}};
    if (g->status != MEGA_OK) return (mega_tensor){0};
    if (s->frequency != NULL && s->rotated > 1) {
        const size_t bytes = (size_t)(s->rotated / 2) * sizeof(float);
        float *frequency = mega_arena_alloc(&g->arena, bytes);
        if (frequency == NULL) {
            mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_MEMORY, "op rope in \"%s\": no memory for %lld frequencies",
                                         g->scope.path, (long long)(s->rotated / 2)));
            return (mega_tensor){0};
        }
        memcpy(frequency, s->frequency, bytes);
        op.attr.rope.frequency = frequency;
    }
    return mega_graph_emit(g, &op);
}

static mega_status rope_check(const instruction *op, int64_t cols)
{
    const mega_rope_shape *s = &op->attr.rope;
    const bool is_right = s->heads >= 1 && s->head_dim >= 1 && mega_extent_mul(s->heads, s->head_dim) <= cols &&
                          s->rotated >= 2 && s->rotated % 2 == 0 && s->rotated <= s->head_dim && s->frequency != NULL;
    if (!is_right)
        return MEGA_MISTAKE(
            "op rope in \"%s\": %lld of the %lld channels of %lld heads in rows of %lld, frequencies %s; "
            "expected an even number of channels, at least 2, of heads that fit, and frequencies",
            op->scope, (long long)s->rotated, (long long)s->head_dim, (long long)s->heads, (long long)cols,
            s->frequency == NULL ? "missing" : "given");
    if (isfinite(s->factor)) return MEGA_OK;
    return MEGA_MISTAKE("op rope in \"%s\": factor %g; expected a finite number", op->scope,
                        isnan(s->factor) ? fabs((double)s->factor) : (double)s->factor);
}

static mega_status rope_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, ROPE_X, "x", g->dtype, 2));
    out[0] = *mega_op_in(g, op, ROPE_X);
    MEGA_TRY(mega_op_check_operand(g, op, ROPE_POSITIONS, "positions", mega_shape_1d(MEGA_I32, out[0].dim[0])));
    return rope_check(op, out[0].dim[1]);
}

static void rope_gradient(mega_graph *g, const instruction *op)
{
    instruction d = {.kind = OP_ROPE,
                     .in = {[ROPE_X] = mega_graph_output_gradient(g, op, 0), [ROPE_POSITIONS] = op->in[ROPE_POSITIONS]},
                     .attr = op->attr};
    d.attr.rope.inverse = !op->attr.rope.inverse;
    mega_graph_gradient_add(g, op->in[ROPE_X], mega_graph_emit(g, &d).id);
}

static void rope_bind(const op_binder *b, const instruction *op, void *args)
{
    ((mega_rope_args *)args)->frequency = b->table(b, op);
}

const op_row mega_op_row_rope = {
    OP_ROW(rope, 2, 1, rope),
    .overlays = 1u << ROPE_X,
    .shape = rope_shape,
    .gradient = rope_gradient,
    .members =
        MEMBERS(OUT(rope, out, 0), IN(rope, x, ROPE_X), IN(rope, positions, ROPE_POSITIONS), DIM(rope, rows, ROPE_X, 0),
                DIM(rope, cols, ROPE_X, 1), ATTR(rope, heads, rope.heads), ATTR(rope, head_dim, rope.head_dim),
                ATTR(rope, rotated, rope.rotated), ATTR(rope, factor, rope.factor),
                ATTR(rope, interleaved, rope.interleaved), ATTR(rope, inverse, rope.inverse)),
    .bind = rope_bind};
