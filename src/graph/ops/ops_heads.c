/* Channels of heads. The gradient takes them back: it is the same op with both sides exchanged. */
#include "op_members.h"

/* Operands. */
enum { HEADS_X };

/* ---- head_channels: in x [T, from * from_dim]; out [T, to * to_dim] ---- */

mega_tensor mega_op_head_channels(mega_graph *g, mega_tensor x, const mega_head_channels *part)
{
    instruction op = {.kind = OP_HEAD_CHANNELS, .in = {[HEADS_X] = x.id}, .attr = {.head_channels = *part}};
    return mega_graph_emit(g, &op);
}

static bool head_channels_fit(int64_t heads, int64_t dim, int64_t first, int64_t count)
{
    return heads >= 1 && dim >= 1 && first >= 0 && count >= 1 && first <= dim - count;
}

static mega_status head_channels_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_head_channels *p = &op->attr.head_channels;
    MEGA_TRY(mega_op_check_dims(g, op, HEADS_X, "x", g->dtype, 2));
    const tensor_shape *x = mega_op_in(g, op, HEADS_X);
    const bool is_right = head_channels_fit(p->from, p->from_dim, p->from_first, p->count) &&
                          head_channels_fit(p->to, p->to_dim, p->to_first, p->count) &&
                          (p->from == p->to || p->from == 1 || p->to == 1) &&
                          mega_extent_mul(p->from, p->from_dim) == x->dim[1];
    if (!is_right)
        return MEGA_MISTAKE("op head_channels in \"%s\": %lld channels from %lld on of %lld heads of %lld, in rows of "
                            "%lld, to %lld on of %lld heads of %lld; expected channels that both heads have, rows of "
                            "these heads, and as many heads on both sides or one head on a side",
                            op->scope, (long long)p->count, (long long)p->from_first, (long long)p->from,
                            (long long)p->from_dim, (long long)x->dim[1], (long long)p->to_first, (long long)p->to,
                            (long long)p->to_dim);
    out[0] = mega_shape_2d(x->dtype, x->dim[0], mega_extent_mul(p->to, p->to_dim));
    return MEGA_OK;
}

static void head_channels_gradient(mega_graph *g, const instruction *op)
{
    const mega_head_channels p = op->attr.head_channels;
    const mega_head_channels back = {.from = p.to,
                                     .from_dim = p.to_dim,
                                     .from_first = p.to_first,
                                     .to = p.from,
                                     .to_dim = p.from_dim,
                                     .to_first = p.from_first,
                                     .count = p.count};
    const mega_tensor dy = {mega_graph_output_gradient(g, op, 0)};
    mega_graph_gradient_add(g, op->in[HEADS_X], mega_op_head_channels(g, dy, &back).id);
}

const op_row mega_op_row_head_channels = {
    OP_ROW(head_channels, 1, 1, head_channels), .shape = head_channels_shape, .gradient = head_channels_gradient,
    .members = MEMBERS(OUT(head_channels, y, 0), IN(head_channels, x, HEADS_X), DIM(head_channels, rows, HEADS_X, 0),
                       ATTR(head_channels, part, head_channels))};
