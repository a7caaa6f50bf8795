/* Custom ops: C functions of the caller, one for the forward and one for the backward. Every thread of the team calls
 * them; 16-bit operands are widened before the call and results rounded after it. They work on the host: where it
 * cannot reach the device's memory in place, operands are copied here before the call and results back after it. A call
 * that fails leaves zeros, so that later instructions still run and other ranks receive their messages; the program
 * then returns the error. */
#include "megalith/builder.h"
#include "megalith/device_memory.h"
#include "program_impl.h"

#include <assert.h>
#include <stdatomic.h>

/* Operands `in` of custom: the inputs; of custom_grad: gradients of the outputs (0: none), then the inputs, then the
 * outputs. */
enum { CUSTOM_IN = 3, CUSTOM_OUT = 2, CUSTOM_ALL = CUSTOM_IN + CUSTOM_OUT, CUSTOM_GRAD_IN = 6 };

typedef struct custom_failure {
    atomic_flag busy;
    int thread; /* the lowest thread that failed, so that the message does not depend on timing */
    mega_error_record record;
} custom_failure;

typedef struct custom_args {
    mega_kernel_head head;
    const mega_custom_op *op;
    const void *self;
    custom_failure *failure;
    char *copies; /* memory for copies of the operands; NULL: the host reaches them in place */
    int num_in, num_out;
    bool is_backward;
    mega_dtype dtype; /* dtype that the function sees */
    /* inputs first, then outputs */
    void *value[CUSTOM_ALL], *gradient[CUSTOM_ALL]; /* NULL: absent */
    mega_dtype type[CUSTOM_ALL];
    int64_t rows[CUSTOM_ALL], channels[CUSTOM_ALL];
} custom_args;
static_assert(sizeof(custom_args) <= PROGRAM_ARGS_BYTES, "arguments of a custom op fit in those of a call");

/* ---- describe ---- */

static mega_status check_custom(const mega_builder *b, const mega_custom_op *op, const mega_tensor *in,
                                const mega_tensor *out)
{
    const mega_graph *g = b->graph;
    const char *name = op != NULL && op->name != NULL ? op->name : "";
    if (op == NULL || op->name == NULL || op->shape == NULL || op->forward == NULL || in == NULL || out == NULL)
        return MEGA_MISTAKE(
            "layer \"%s\", custom op \"%s\": the op, its name, shape, forward, in or out is NULL; give all "
            "of them",
            b->path, name);
    if (op->num_in < 1 || op->num_in > CUSTOM_IN || op->num_out < 1 || op->num_out > CUSTOM_OUT ||
        op->num_in + 2 * op->num_out > CUSTOM_GRAD_IN)
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "layer \"%s\", custom op \"%s\": %d inputs and %d outputs; expected 1 to %d inputs and 1 output, "
            "or 1 to %d inputs and 2 outputs; divide the op, or join its inputs by rows of more channels",
            b->path, name, op->num_in, op->num_out, CUSTOM_IN, CUSTOM_GRAD_IN - 2 * CUSTOM_OUT);
    for (int i = 0; i < op->num_in; i++) {
        const tensor_shape *s = &g->tensor[in[i].id > 0 && in[i].id < g->num_tensors ? in[i].id : 0].shape;
        const bool is_float = s->dtype == g->dtype || s->dtype == g->acc || s->dtype == MEGA_F32;
        if (s->num_dims < 1 || s->num_dims > 2 || !is_float)
            return MEGA_MISTAKE(
                "layer \"%s\", custom op \"%s\": input %d is no matrix and no vector of %s; pass computed "
                "values, parameters or float inputs",
                b->path, name, i, mega_dtype_name(g->dtype));
    }
    if (g->sequence_parallel && !op->is_row_wise)
        return MEGA_MISTAKE(
            "layer \"%s\", custom op \"%s\": with sequence parallelism a rank of tp has a part of the rows; "
            "set is_row_wise if row i of its outputs depends on row i of its inputs only",
            b->path, name);
    return MEGA_OK;
}

static int64_t channels_of(const tensor_shape *s)
{
    return s->num_dims == 1 ? 1 : s->dim[1];
}

static mega_status custom_shapes(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_custom_op *c = op->attr.custom;
    int64_t rows_in[CUSTOM_IN], channels_in[CUSTOM_IN], rows[CUSTOM_OUT] = {0}, channels[CUSTOM_OUT] = {0};
    for (int i = 0; i < c->num_in; i++) {
        rows_in[i] = mega_op_in_dim(g, op, i, 0);
        channels_in[i] = channels_of(mega_op_in(g, op, i));
    }
    c->shape(op->attr.self, rows_in, channels_in, rows, channels);
    for (int i = 0; i < c->num_out; i++) {
        if (rows[i] < 1 || channels[i] < 1 || (c->is_row_wise && rows[i] != rows_in[0]))
            return MEGA_MISTAKE(
                "custom op \"%s\" in \"%s\": its shape gives output %d %lld rows and %lld channels; expected "
                "at least 1%s",
                c->name, op->scope, i, (long long)rows[i], (long long)channels[i],
                c->is_row_wise ? ", and the rows of its first input, as it is row-wise" : "");
        out[i] = mega_shape_2d(g->dtype, rows[i], channels[i]);
    }
    return MEGA_OK;
}

/* Adds a tensor for an optional output, which mega_graph_emit does not create. */
static int32_t add_value(mega_graph *g, const tensor_shape *shape, const char *prefix, const char *name, int number)
{
    const graph_tensor t = {.role = ROLE_VALUE,
                            .shape = *shape,
                            .name = mega_arena_format(&g->arena, "%s%s%s%s:%d", prefix, g->scope.path,
                                                      g->scope.path[0] == '\0' ? "" : ".", name, number)};
    return mega_graph_tensor_add(g, &t);
}

void mega_custom(const mega_builder *b, const mega_custom_op *op, const void *self, const mega_tensor *in,
                 mega_tensor *out)
{
    mega_graph *g = b->graph;
    mega_tensor from[CUSTOM_IN] = {{0}}; /* a copy, as `out` may be `in` */
    for (int i = 0; op != NULL && in != NULL && i < op->num_in && i < CUSTOM_IN; i++) from[i] = in[i];
    for (int i = 0; op != NULL && out != NULL && i < op->num_out && i < CUSTOM_OUT; i++) out[i] = mega_none();
    if (g->status != MEGA_OK) return;
    mega_graph_fail(g, check_custom(b, op, in != NULL ? from : NULL, out));
    if (g->status != MEGA_OK) return;
    instruction i = {.kind = OP_CUSTOM, .attr = {.custom = op, .self = self, .what = op->name}, .scope = g->scope.path};
    tensor_shape shape[CUSTOM_OUT] = {{0}};
    for (int k = 0; k < op->num_in; k++) i.in[k] = from[k].id;
    mega_graph_fail(g, custom_shapes(g, &i, shape));
    if (op->num_out > 1 && g->status == MEGA_OK) i.out[1] = add_value(g, &shape[1], "", op->name, 1);
    mega_graph_emit(g, &i);
    for (int k = 0; k < op->num_out && g->status == MEGA_OK; k++) out[k] = (mega_tensor){i.out[k]};
}

static void custom_gradient(mega_graph *g, const instruction *op)
{
    const mega_custom_op *c = op->attr.custom;
    instruction d = {.kind = OP_CUSTOM_GRAD, .attr = op->attr};
    if (c->backward == NULL) {
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                     "custom op \"%s\" in \"%s\" has no backward, but the loss depends on a parameter "
                                     "through it; give it one",
                                     c->name, op->scope));
        return;
    }
    for (int i = 0; i < c->num_out; i++) {
        d.in[i] = mega_graph_output_gradient(g, op, i);
        d.in[c->num_out + c->num_in + i] = op->out[i];
    }
    for (int i = 0; i < c->num_in; i++) {
        d.in[c->num_out + i] = op->in[i];
        if (g->tensor[op->in[i]].needs_gradient) d.out[i] = add_value(g, mega_op_in(g, op, i), "d.", c->name, i);
    }
    mega_graph_emit(g, &d);
    for (int i = 0; i < c->num_in && g->status == MEGA_OK; i++) mega_graph_gradient_add(g, op->in[i], d.out[i]);
}

static mega_status custom_grad_shapes(const mega_graph *g, const instruction *op, tensor_shape *out)
{
    const mega_custom_op *c = op->attr.custom;
    for (int i = 0; i < c->num_out; i++)
        MEGA_TRY(mega_op_check_operand(g, op, i, "d_out", *mega_op_in(g, op, c->num_out + c->num_in + i)));
    for (int i = 0; i < c->num_in; i++) out[i] = *mega_op_in(g, op, c->num_out + i);
    return MEGA_OK;
}

static op_cost custom_cost(const mega_graph *g, const instruction *op)
{
    const bool is_backward = op->kind == OP_CUSTOM_GRAD;
    const int first = is_backward ? op->attr.custom->num_out : 0;
    op_cost cost = mega_op_traffic(g, op);
    cost.flops = op->attr.custom->flops_per_row * (double)mega_op_in_dim(g, op, first, 0) * (is_backward ? 2.0 : 1.0);
    return cost;
}

/* ---- bind ---- */

static void bind_operand(const op_binder *b, custom_args *a, int k, int32_t value, int32_t gradient)
{
    const tensor_shape *s = &b->g->tensor[value].shape;
    a->value[k] = b->address(b, value);
    a->gradient[k] = b->address(b, gradient);
    a->type[k] = s->dtype;
    a->rows[k] = s->dim[0];
    a->channels[k] = channels_of(s);
}

static void custom_bind(const op_binder *b, const instruction *op, void *args)
{
    custom_args *a = args;
    const mega_custom_op *c = op->attr.custom;
    a->op = c;
    a->self = op->attr.self;
    a->num_in = c->num_in;
    a->num_out = c->num_out;
    a->is_backward = op->kind == OP_CUSTOM_GRAD;
    a->dtype = b->g->acc;
    for (int i = 0; i < c->num_in; i++)
        bind_operand(b, a, i, op->in[a->is_backward ? c->num_out + i : i], a->is_backward ? op->out[i] : 0);
    for (int i = 0; i < c->num_out; i++)
        bind_operand(b, a, c->num_in + i, a->is_backward ? op->in[c->num_out + c->num_in + i] : op->out[i],
                     a->is_backward ? op->in[i] : 0);
}

/* ---- run ---- */

static bool is_widened(const custom_args *a, int k)
{
    return a->type[k] != a->dtype;
}

static size_t operand_bytes(const custom_args *a, int k, mega_dtype dtype)
{
    return (size_t)(a->rows[k] * a->channels[k]) * mega_dtype_size(dtype);
}

static size_t aligned(size_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* Whether the host reaches the operands in place. */
static bool is_in_place(const custom_args *a)
{
    const void *operand = NULL;
    for (int k = 0; k < a->num_in + a->num_out && operand == NULL; k++) operand = a->value[k];
    return mega_device_is_host(operand);
}

/* Bytes of the widened operands, and of copies of all if the host needs them. */
static size_t room_bytes(const custom_args *a)
{
    size_t bytes = 0;
    for (int k = 0; k < a->num_in + a->num_out; k++) {
        if (is_widened(a, k)) bytes += aligned(operand_bytes(a, k, a->dtype));
        if (!is_in_place(a)) bytes += aligned(operand_bytes(a, k, a->type[k]));
    }
    return bytes * (a->is_backward ? 2 : 1);
}

static size_t custom_scratch(const void *args, int threads)
{
    (void)threads;
    return is_in_place(args) ? room_bytes(args) : 0;
}

static void custom_release(void *args)
{
    MEGA_FREE(((custom_args *)args)->failure, ((custom_args *)args)->copies);
}

static mega_status custom_prepare(void *args, int threads)
{
    custom_args *a = args;
    (void)threads;
    a->failure = mega_calloc(1, sizeof *a->failure);
    if (!is_in_place(a)) a->copies = mega_malloc(room_bytes(a));
    if (a->failure == NULL || (!is_in_place(a) && a->copies == NULL)) {
        custom_release(args);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "custom op \"%s\": no memory", a->op->name);
    }
    atomic_flag_clear(&a->failure->busy);
    return MEGA_OK;
}

/* An operand on the device, where the host reaches it, and as the function sees it. */
typedef struct custom_seen {
    void *operand, *here, *wide;
} custom_seen;

typedef struct custom_run {
    const custom_args *a;
    const void *in[CUSTOM_IN], *d_out[CUSTOM_OUT];
    void *out[CUSTOM_OUT], *d_in[CUSTOM_IN];
} custom_run;

static void keep_failure(custom_failure *f, int thread, mega_status st)
{
    while (atomic_flag_test_and_set(&f->busy)) continue;
    if (f->record.code == MEGA_OK || thread < f->thread) {
        mega_error_get_of(st, &f->record);
        f->thread = thread;
    }
    atomic_flag_clear(&f->busy);
}

static void custom_work(void *user, int thread, int size)
{
    const custom_run *r = user;
    const custom_args *a = r->a;
    const mega_custom_call call = {.num_in = a->num_in,
                                   .num_out = a->num_out,
                                   .in = r->in,
                                   .out = r->out,
                                   .d_out = a->is_backward ? r->d_out : NULL,
                                   .d_in = a->is_backward ? r->d_in : NULL,
                                   .rows = a->rows,
                                   .channels = a->channels,
                                   .dtype = a->dtype,
                                   .thread = thread,
                                   .num_threads = size};
    mega_error_clear(); /* so that a failure without a message does not report an older one */
    const mega_status st = (a->is_backward ? a->op->backward : a->op->forward)(a->self, &call);
    if (st != MEGA_OK) keep_failure(a->failure, thread, st);
}

static void custom_convert(mega_team *team, const custom_args *a, int k, void *dst, mega_dtype to, const void *src,
                           mega_dtype from)
{
    const mega_convert_args c = {.head = {.dtype = a->head.dtype},
                                 .dst = dst,
                                 .src = src,
                                 .count = a->rows[k] * a->channels[k],
                                 .dst_dtype = to,
                                 .src_dtype = from,
                                 .scale = 1.0};
    mega_cpu_convert.run(&(mega_queue){.team = team}, &c);
}

static void *custom_take(char **room, size_t bytes)
{
    void *taken = *room;
    *room += aligned(bytes);
    return taken;
}

/* Shows an operand to the function: itself, or copies in the next pieces of the room. */
static custom_seen custom_see(mega_team *team, const custom_args *a, int k, void *operand, bool is_read, char **room)
{
    custom_seen s = {operand, operand, operand};
    if (operand == NULL) return s;
    if (!is_in_place(a)) {
        s.here = s.wide = custom_take(room, operand_bytes(a, k, a->type[k]));
        if (is_read) mega_device_read(s.here, operand, operand_bytes(a, k, a->type[k]));
    }
    if (!is_widened(a, k)) return s;
    s.wide = custom_take(room, operand_bytes(a, k, a->dtype));
    if (is_read) custom_convert(team, a, k, s.wide, a->dtype, s.here, a->type[k]);
    return s;
}

/* Rounds what the function wrote into the operand; zeros after a failure. */
static void custom_written(mega_team *team, const custom_args *a, int k, const custom_seen *s)
{
    const size_t bytes = operand_bytes(a, k, a->type[k]);
    if (s->operand == NULL) return;
    if (a->failure->record.code != MEGA_OK) {
        mega_device_fill(s->operand, 0, bytes);
        return;
    }
    if (s->wide != s->here) custom_convert(team, a, k, s->here, a->type[k], s->wide, a->dtype);
    if (s->here != s->operand) mega_device_write(s->operand, s->here, bytes);
}

static void custom_kernel_run(const mega_queue *queue, const void *args)
{
    const custom_args *a = args;
    custom_run r = {.a = a};
    custom_seen d_in[CUSTOM_IN], out[CUSTOM_OUT];
    char *room = is_in_place(a) ? a->head.scratch : a->copies;
    for (int i = 0; i < a->num_in; i++) {
        r.in[i] = custom_see(mega_queue_team(queue), a, i, a->value[i], true, &room).wide;
        d_in[i] = custom_see(mega_queue_team(queue), a, i, a->gradient[i], false, &room);
        r.d_in[i] = d_in[i].wide;
    }
    for (int i = 0; i < a->num_out; i++) {
        const int k = a->num_in + i;
        out[i] = custom_see(mega_queue_team(queue), a, k, a->value[k], a->is_backward, &room);
        r.out[i] = out[i].wide;
        r.d_out[i] = custom_see(mega_queue_team(queue), a, k, a->gradient[k], true, &room).wide;
    }
    mega_team_run(mega_queue_team(queue), custom_work, &r);
    for (int i = 0; i < a->num_in && a->is_backward; i++) custom_written(mega_queue_team(queue), a, i, &d_in[i]);
    for (int i = 0; i < a->num_out && !a->is_backward; i++)
        custom_written(mega_queue_team(queue), a, a->num_in + i, &out[i]);
}

void mega_custom_take_failure(mega_program *p, int instruction_number, const void *args)
{
    const custom_args *a = args;
    mega_error_record *failed = &a->failure->record;
    if (failed->code == MEGA_OK) return;
    if (p->failed.code == MEGA_OK) {
        mega_error_restore(failed);
        mega_error_prepend("custom op \"%s\" in \"%s\", %s", a->op->name, p->g->op[instruction_number].scope,
                           a->is_backward ? "backward" : "forward");
        mega_error_get_of(failed->code, &p->failed);
    }
    failed->code = MEGA_OK;
}

const char *mega_program_custom_op(const mega_program *p)
{
    for (int i = 0; i < p->g->num_ops; i++)
        if (p->g->op[i].kind == OP_CUSTOM) return p->g->op[i].attr.custom->name;
    return NULL;
}

static const mega_kernel custom_kernel = {.name = "custom",
                                          .run = custom_kernel_run,
                                          .prepare = custom_prepare,
                                          .release = custom_release,
                                          .scratch = custom_scratch};

/* ---- custom: in 1 to 3 operands; out 1 or 2 ---- */

const op_row mega_op_row_custom = {OP_ROW(custom, CUSTOM_IN, CUSTOM_OUT, NONE),
                                   .optional_in = 1u << 1 | 1u << 2,
                                   .optional_out = 1u << 1,
                                   .shape = custom_shapes,
                                   .gradient = custom_gradient,
                                   .cost = custom_cost,
                                   .bind = custom_bind,
                                   .host = &custom_kernel};

/* ---- custom_grad: in gradients of the outputs (0: none), the inputs, the outputs; out gradients of the inputs (0: not
 *      needed) ---- */

const op_row mega_op_row_custom_grad = {OP_ROW(custom_grad, CUSTOM_GRAD_IN, CUSTOM_IN, NONE),
                                        .optional_in = (1u << CUSTOM_GRAD_IN) - 1,
                                        .optional_out = (1u << CUSTOM_IN) - 1,
                                        .shape = custom_grad_shapes,
                                        .cost = custom_cost,
                                        .bind = custom_bind,
                                        .host = &custom_kernel};
