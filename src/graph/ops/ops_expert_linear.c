/* The linear layers of experts and their gradients. The letters are those of ops_experts.h; the weights [E, N, K] of
 * all experts are a tensor [E * N, K]. */
#include "op_members.h"

/* Operands. */
enum { EXPERT_LINEAR_X, EXPERT_LINEAR_WEIGHT, EXPERT_LINEAR_FIRST, EXPERT_LINEAR_BIAS };
enum { EXPERT_LINEAR_GRAD_X_DY, EXPERT_LINEAR_GRAD_X_WEIGHT, EXPERT_LINEAR_GRAD_X_FIRST };
enum { EXPERT_LINEAR_GRAD_W_DY, EXPERT_LINEAR_GRAD_W_X, EXPERT_LINEAR_GRAD_W_FIRST };
enum { EXPERT_LINEAR_GRAD_W_DWEIGHT, EXPERT_LINEAR_GRAD_W_DBIAS };

static int64_t experts_of(const mega_graph *g, const instruction *op, int first)
{
    return mega_op_in_dim(g, op, first, 0) - 1;
}

static mega_status check_experts(const mega_graph *g, const instruction *op, int first)
{
    MEGA_TRY(mega_op_check_dims(g, op, first, "first", MEGA_I32, 1));
    if (experts_of(g, op, first) >= 1) return MEGA_OK;
    return MEGA_MISTAKE("op %s in \"%s\": first (%s) has one element; expected one more than there are experts",
                        mega_op_table[op->kind]->name, op->scope, g->tensor[op->in[first]].name);
}

/* Checks the weights of the experts, whose rows `*of_one` each has. */
static mega_status check_expert_weight(const mega_graph *g, const instruction *op, int weight, int64_t experts,
                                       int64_t *of_one)
{
    MEGA_TRY(mega_op_check_dims(g, op, weight, "weight", g->dtype, 2));
    const int64_t rows = mega_op_in_dim(g, op, weight, 0);
    if (rows % experts != 0)
        return MEGA_MISTAKE("op %s in \"%s\": weight (%s) has %lld rows for %lld experts; expected a multiple of them",
                            mega_op_table[op->kind]->name, op->scope, g->tensor[op->in[weight]].name, (long long)rows,
                            (long long)experts);
    *of_one = rows / experts;
    return MEGA_OK;
}

/* A multiply-add for each row that counts, of which only one expert's weights do. */
static op_cost experts_cost_of(const mega_graph *g, const instruction *op, int64_t n, int64_t k)
{
    op_cost c = mega_op_traffic(g, op);
    c.flops = 2.0 * (double)op->attr.rows * (double)n * (double)k;
    return c;
}

/* ---- expert_linear: in x [R, K], weight [E * N, K], first [E + 1], bias [E, N] or none; out [R, N] ---- */

mega_tensor mega_op_expert_linear(mega_graph *g, mega_tensor x, mega_tensor weight, mega_tensor bias, int rank,
                                  const mega_expert_places *at)
{
    instruction op = {.kind = OP_EXPERT_LINEAR,
                      .in = {[EXPERT_LINEAR_X] = x.id,
                             [EXPERT_LINEAR_WEIGHT] = weight.id,
                             [EXPERT_LINEAR_FIRST] = at->first.id,
                             [EXPERT_LINEAR_BIAS] = bias.id},
                      .attr = {.rows = at->counted, .rank = rank}};
    return mega_graph_emit(g, &op);
}

static mega_status expert_linear_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t n = 0;
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_LINEAR_X, "x", g->dtype, 2));
    MEGA_TRY(check_experts(g, op, EXPERT_LINEAR_FIRST));
    const int64_t experts = experts_of(g, op, EXPERT_LINEAR_FIRST);
    MEGA_TRY(check_expert_weight(g, op, EXPERT_LINEAR_WEIGHT, experts, &n));
    MEGA_TRY(mega_op_check_operand(
        g, op, EXPERT_LINEAR_WEIGHT, "weight",
        mega_shape_2d(g->dtype, mega_extent_mul(experts, n), mega_op_in_dim(g, op, EXPERT_LINEAR_X, 1))));
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_LINEAR_BIAS, "bias", mega_shape_2d(g->dtype, experts, n)));
    out[0] = mega_shape_2d(g->dtype, mega_op_in_dim(g, op, EXPERT_LINEAR_X, 0), n);
    return MEGA_OK;
}

/* Emits dx first, as linear does. */
static void expert_linear_gradient(mega_graph *g, const instruction *op)
{
    const int32_t dy = mega_graph_output_gradient(g, op, 0), first = op->in[EXPERT_LINEAR_FIRST];
    if (g->tensor[op->in[EXPERT_LINEAR_X]].needs_gradient) {
        instruction x = {.kind = OP_EXPERT_LINEAR_GRAD_X,
                         .in = {[EXPERT_LINEAR_GRAD_X_DY] = dy,
                                [EXPERT_LINEAR_GRAD_X_WEIGHT] = op->in[EXPERT_LINEAR_WEIGHT],
                                [EXPERT_LINEAR_GRAD_X_FIRST] = first},
                         .attr = op->attr};
        mega_graph_gradient_add(g, op->in[EXPERT_LINEAR_X], mega_graph_emit(g, &x).id);
    }
    const int32_t bias = op->in[EXPERT_LINEAR_BIAS];
    instruction w = {
        .kind = OP_EXPERT_LINEAR_GRAD_W,
        .in = {[EXPERT_LINEAR_GRAD_W_DY] = dy,
               [EXPERT_LINEAR_GRAD_W_X] = op->in[EXPERT_LINEAR_X],
               [EXPERT_LINEAR_GRAD_W_FIRST] = first},
        .out = {[EXPERT_LINEAR_GRAD_W_DWEIGHT] = mega_graph_gradient_tensor(g, op->in[EXPERT_LINEAR_WEIGHT]),
                [EXPERT_LINEAR_GRAD_W_DBIAS] = bias == 0 ? 0 : mega_graph_gradient_tensor(g, bias)},
        .attr = op->attr};
    mega_graph_emit(g, &w);
}

static op_cost expert_linear_cost(const mega_graph *g, const instruction *op)
{
    const tensor_shape *y = &g->tensor[op->out[0]].shape;
    return experts_cost_of(g, op, y->dim[1], mega_op_in_dim(g, op, EXPERT_LINEAR_X, 1));
}

static void expert_linear_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_expert_linear_args *a = args;
    a->experts = experts_of(b->g, op, EXPERT_LINEAR_FIRST);
    if (op->attr.rank > 0) a->bias = NULL;
}

const op_row mega_op_row_expert_linear = {
    OP_ROW(expert_linear, 4, 1, expert_linear),
    .optional_in = 1u << EXPERT_LINEAR_BIAS,
    .shape = expert_linear_shape,
    .gradient = expert_linear_gradient,
    .cost = expert_linear_cost,
    .members = MEMBERS(OUT(expert_linear, y, 0), IN(expert_linear, x, EXPERT_LINEAR_X),
                       IN(expert_linear, weight, EXPERT_LINEAR_WEIGHT), IN(expert_linear, bias, EXPERT_LINEAR_BIAS),
                       IN(expert_linear, first, EXPERT_LINEAR_FIRST), DIM(expert_linear, rows, EXPERT_LINEAR_X, 0),
                       DIM(expert_linear, in, EXPERT_LINEAR_X, 1), OUT_DIM(expert_linear, out, 0, 1)),
    .bind = expert_linear_bind};

/* ---- expert_linear_grad_x: in dy [R, N], weight [E * N, K], first [E + 1]; out dx [R, K] ---- */

static mega_status expert_linear_grad_x_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    int64_t n = 0;
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_LINEAR_GRAD_X_DY, "dy", g->dtype, 2));
    MEGA_TRY(check_experts(g, op, EXPERT_LINEAR_GRAD_X_FIRST));
    MEGA_TRY(
        check_expert_weight(g, op, EXPERT_LINEAR_GRAD_X_WEIGHT, experts_of(g, op, EXPERT_LINEAR_GRAD_X_FIRST), &n));
    const int64_t rows = mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_X_DY, 0);
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_LINEAR_GRAD_X_DY, "dy", mega_shape_2d(g->dtype, rows, n)));
    out[0] = mega_shape_2d(g->dtype, rows, mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_X_WEIGHT, 1));
    return MEGA_OK;
}

static op_cost expert_linear_grad_x_cost(const mega_graph *g, const instruction *op)
{
    const tensor_shape *dx = &g->tensor[op->out[0]].shape;
    return experts_cost_of(g, op, dx->dim[1], mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_X_DY, 1));
}

static void expert_linear_grad_x_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_expert_linear_args *a = args;
    a->experts = experts_of(b->g, op, EXPERT_LINEAR_GRAD_X_FIRST);
    a->turned = true;
}

const op_row mega_op_row_expert_linear_grad_x = {
    OP_ROW(expert_linear_grad_x, 3, 1, expert_linear), .shape = expert_linear_grad_x_shape,
    .cost = expert_linear_grad_x_cost,
    .members = MEMBERS(OUT(expert_linear, y, 0), IN(expert_linear, x, EXPERT_LINEAR_GRAD_X_DY),
                       IN(expert_linear, weight, EXPERT_LINEAR_GRAD_X_WEIGHT),
                       IN(expert_linear, first, EXPERT_LINEAR_GRAD_X_FIRST),
                       DIM(expert_linear, rows, EXPERT_LINEAR_GRAD_X_DY, 0),
                       DIM(expert_linear, in, EXPERT_LINEAR_GRAD_X_DY, 1), OUT_DIM(expert_linear, out, 0, 1)),
    .bind = expert_linear_grad_x_bind};

/* ---- expert_linear_grad_w: in dy [R, N], x [R, K], first [E + 1]; out dweight [E * N, K] acc, dbias [E, N] acc or
 *      none; both accumulated ---- */

static mega_status expert_linear_grad_w_shape(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_LINEAR_GRAD_W_DY, "dy", g->dtype, 2));
    MEGA_TRY(mega_op_check_dims(g, op, EXPERT_LINEAR_GRAD_W_X, "x", g->dtype, 2));
    MEGA_TRY(check_experts(g, op, EXPERT_LINEAR_GRAD_W_FIRST));
    const int64_t experts = experts_of(g, op, EXPERT_LINEAR_GRAD_W_FIRST),
                  n = mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_W_DY, 1),
                  k = mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_W_X, 1);
    MEGA_TRY(mega_op_check_operand(g, op, EXPERT_LINEAR_GRAD_W_X, "x",
                                   mega_shape_2d(g->dtype, mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_W_DY, 0), k)));
    out[EXPERT_LINEAR_GRAD_W_DWEIGHT] = mega_shape_2d(g->acc, mega_extent_mul(experts, n), k);
    out[EXPERT_LINEAR_GRAD_W_DBIAS] = mega_shape_2d(g->acc, experts, n);
    return MEGA_OK;
}

static op_cost expert_linear_grad_w_cost(const mega_graph *g, const instruction *op)
{
    return experts_cost_of(g, op, mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_W_DY, 1),
                           mega_op_in_dim(g, op, EXPERT_LINEAR_GRAD_W_X, 1));
}

static void expert_linear_grad_w_bind(const op_binder *b, const instruction *op, void *args)
{
    mega_expert_linear_grad_w_args *a = args;
    a->experts = experts_of(b->g, op, EXPERT_LINEAR_GRAD_W_FIRST);
    if (op->attr.rank > 0) a->dbias = NULL;
    a->accumulate = !op->attr.overwrites;
    a->first_in_step = op->attr.first_in_step;
}

const op_row mega_op_row_expert_linear_grad_w = {
    OP_ROW(expert_linear_grad_w, 3, 2, expert_linear_grad_w),
    .optional_out = 1u << EXPERT_LINEAR_GRAD_W_DBIAS,
    .accumulates = 1u << EXPERT_LINEAR_GRAD_W_DWEIGHT | 1u << EXPERT_LINEAR_GRAD_W_DBIAS,
    .overwrites = 1u << EXPERT_LINEAR_GRAD_W_DWEIGHT,
    .shape = expert_linear_grad_w_shape,
    .cost = expert_linear_grad_w_cost,
    .members = MEMBERS(OUT(expert_linear_grad_w, dweight, EXPERT_LINEAR_GRAD_W_DWEIGHT),
                       OUT(expert_linear_grad_w, dbias, EXPERT_LINEAR_GRAD_W_DBIAS),
                       IN(expert_linear_grad_w, dy, EXPERT_LINEAR_GRAD_W_DY),
                       IN(expert_linear_grad_w, x, EXPERT_LINEAR_GRAD_W_X),
                       IN(expert_linear_grad_w, first, EXPERT_LINEAR_GRAD_W_FIRST),
                       DIM(expert_linear_grad_w, rows, EXPERT_LINEAR_GRAD_W_DY, 0),
                       DIM(expert_linear_grad_w, out, EXPERT_LINEAR_GRAD_W_DY, 1),
                       DIM(expert_linear_grad_w, in, EXPERT_LINEAR_GRAD_W_X, 1)),
    .bind = expert_linear_grad_w_bind};
