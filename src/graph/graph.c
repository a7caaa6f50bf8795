/* The functions that a model function calls to describe a graph. The graph records the first error, after which every
 * call does nothing, so that a description reads like formulas. */
#include "graph_impl.h"
#include "megalith/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

mega_status mega_graph_create(mega_dtype dtype, mega_params *params, const mega_layout *layout, mega_graph **out)
{
    if (out == NULL) return MEGA_MISTAKE("mega_graph_create: out is NULL; give it");
    if (dtype != MEGA_F32 && !mega_dtype_is_half(dtype) && dtype != MEGA_F64)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "graph in %s is not implemented yet; expected f32, bf16, f16 or f64",
                         mega_dtype_name(dtype));
    mega_graph *g = mega_calloc(1, sizeof *g);
    if (g == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory");
    g->dtype = dtype;
    g->acc = dtype == MEGA_F64 ? MEGA_F64 : MEGA_F32;
    g->params = params;
    g->layout = layout;
    g->num_tensors = 1; /* id 0 is none; its zero shape is never read */
    g->cap_tensors = 64;
    g->tensor = mega_calloc((size_t)g->cap_tensors, sizeof *g->tensor);
    if (g->tensor == NULL) {
        mega_graph_destroy(g);
        return MEGA_NO_MEMORY("graph", "its tensors");
    }
    g->tensor[0].name = "(none)";
    *out = g;
    return MEGA_OK;
}

void mega_graph_destroy(mega_graph *g)
{
    if (g == NULL) return;
    mega_arena_fini(&g->arena);
    mega_free(g->tensor);
    mega_free(g->op);
    mega_free(g->names.named);
    mega_free(g->names.seed);
    mega_free(g->names.wanted);
    mega_free(g->walk.dropout);
    mega_free(g->results.head);
    mega_free(g->results.output);
    mega_free(g->walk.request);
    mega_free(g->weights.tensor);
    mega_free(g->weights.gradient);
    mega_free(g->buckets.ready);
    mega_free(g->buckets.reduces);
    mega_free(g);
}

mega_status mega_graph_status(const mega_graph *g)
{
    if (g == NULL) return MEGA_MISTAKE("mega_graph_status: the graph is NULL; create one first");
    return g->status == MEGA_OK ? MEGA_OK : mega_error_restore(&g->error);
}

mega_dtype mega_graph_dtype(const mega_graph *g)
{
    return g->dtype;
}

mega_params *mega_graph_params(const mega_graph *g)
{
    return g->params;
}

const mega_layout *mega_graph_layout(const mega_graph *g)
{
    return g->layout;
}

void mega_graph_fail(mega_graph *g, mega_status st)
{
    if (g->status != MEGA_OK || st == MEGA_OK) return;
    g->status = st;
    mega_error_get_of(st, &g->error);
}

/* ---- scopes ---- */

mega_scope mega_scope_enter(mega_graph *g, const char *fmt, ...)
{
    const size_t length = strlen(g->scope.path);
    char *end = g->scope.path + length;
    size_t room = sizeof g->scope.path - length;
    if (length > 0 && room > 1) {
        *end++ = '.';
        room--;
    }
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(end, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room)
        mega_graph_fail(g, MEGA_MISTAKE("scope \"%s…\": longer than %zu characters; use shorter names", g->scope.path,
                                        sizeof g->scope.path - 1));
    g->scope.stored = NULL;
    return (mega_scope){length};
}

void mega_scope_leave(mega_graph *g, mega_scope scope)
{
    g->scope.path[scope.length] = '\0';
    g->scope.stored = NULL;
}

static const char *scope_text(mega_graph *g)
{
    if (g->scope.stored == NULL) g->scope.stored = mega_arena_strdup(&g->arena, g->scope.path);
    return g->scope.stored == NULL ? "" : g->scope.stored;
}

/* ---- tensors ---- */

int32_t mega_graph_tensor_add(mega_graph *g, const graph_tensor *t)
{
    if (g->status != MEGA_OK) return 0;
    if (!mega_array_reserve(&g->tensor, &g->cap_tensors, g->num_tensors + 1, sizeof *g->tensor)) {
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for %d tensors", g->num_tensors + 1));
        return 0;
    }
    if (t->name == NULL) {
        mega_graph_fail(g, MEGA_NO_MEMORY("graph", "the name of a tensor"));
        return 0;
    }
    g->tensor[g->num_tensors] = *t;
    return g->num_tensors++;
}

/* Checks the shape of a tensor that a caller or a formula gives. */
static mega_status check_size(const mega_graph *g, const char *what, const tensor_shape *s)
{
    char text[96];
    if (mega_shape_count(s) <= MEGA_MOST_ELEMENTS) return MEGA_OK;
    return MEGA_MISTAKE(
        "graph in \"%s\": %s would be %s, more than %lld elements; check the sizes that its shape is made "
        "of",
        g->scope.path, what, mega_shape_text(text, sizeof text, s), (long long)MEGA_MOST_ELEMENTS);
}

mega_status mega_graph_name_add(mega_graph *g, named_tensor **list, int *count, const char *name, int32_t tensor)
{
    const char *shown = name == NULL ? "" : name; /* a gradient that the caller gives may have no name */
    for (int i = 0; i < *count && name != NULL; i++)
        if ((*list)[i].name != NULL && strcmp((*list)[i].name, name) == 0)
            return MEGA_MISTAKE("graph in \"%s\": the name \"%s\" is given to two tensors; expected one", g->scope.path,
                                shown);
    const char *text = name == NULL ? NULL : mega_arena_strdup(&g->arena, name);
    if ((name != NULL && text == NULL) || !mega_array_add(list, *count, sizeof **list))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for the name \"%s\"", shown);
    (*list)[(*count)++] = (named_tensor){text, tensor};
    return MEGA_OK;
}

static mega_tensor add_named(mega_graph *g, tensor_role role, const char *name, mega_dtype dtype, int num_dims,
                             const int64_t *dim)
{
    if (g->status != MEGA_OK) return (mega_tensor){0};
    if (name == NULL || dim == NULL) {
        mega_graph_fail(g, MEGA_MISTAKE("graph in \"%s\": an input or a state without %s; give it", g->scope.path,
                                        name == NULL ? "a name" : "dimensions"));
        return (mega_tensor){0};
    }
    graph_tensor t = {.role = role, .name = mega_arena_strdup(&g->arena, name), .shape = {dtype, num_dims, {0}}};
    bool fits = num_dims >= 1 && num_dims <= GRAPH_MAX_DIMS;
    for (int d = 0; d < num_dims && fits; d++) {
        t.shape.dim[d] = dim[d];
        fits = dim[d] >= 1;
    }
    if (!fits) {
        mega_graph_fail(
            g, MEGA_MISTAKE("graph in \"%s\": \"%s\" has %d dimensions or one of less than an element; expected "
                            "1 to %d dimensions of at least 1",
                            g->scope.path, name, num_dims, GRAPH_MAX_DIMS));
        return (mega_tensor){0};
    }
    mega_graph_fail(g, check_size(g, name, &t.shape));
    const int32_t id = mega_graph_tensor_add(g, &t);
    if (id != 0) mega_graph_fail(g, mega_graph_name_add(g, &g->names.named, &g->names.num_named, name, id));
    return (mega_tensor){id};
}

mega_tensor mega_graph_input(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim)
{
    return add_named(g, ROLE_INPUT, name, dtype, num_dims, dim);
}

void mega_graph_set_id_limit(mega_graph *g, mega_tensor ids, int64_t count)
{
    if (g->status != MEGA_OK || ids.id <= 0 || ids.id >= g->num_tensors) return;
    graph_tensor *t = &g->tensor[ids.id];
    if (t->role == ROLE_VIEW) t = &g->tensor[t->base];
    if (t->role == ROLE_INPUT && count > 0 && (t->below == 0 || count < t->below)) t->below = count;
}

void mega_graph_note_table(mega_graph *g, mega_tensor table)
{
    if (g->status != MEGA_OK || table.id <= 0 || table.id >= g->num_tensors) return;
    if (g->tensor[table.id].role == ROLE_WEIGHT) mega_params_note_table(g->params, g->tensor[table.id].param);
}

/* The input that a tensor is, or that it is a view of; NULL: it is none. */
static graph_tensor *input_of(const mega_graph *g, int32_t id)
{
    if (g->status != MEGA_OK || id <= 0 || id >= g->num_tensors) return NULL;
    graph_tensor *t = &g->tensor[id];
    if (t->role == ROLE_VIEW) t = &g->tensor[t->base];
    return t->role == ROLE_INPUT ? t : NULL;
}

void mega_graph_ignore(mega_graph *g, mega_tensor labels, int32_t label)
{
    graph_tensor *t = input_of(g, labels.id);
    if (g->status != MEGA_OK) return;
    if (t == NULL || t->shape.dtype != MEGA_I32) {
        mega_graph_fail(g,
                        MEGA_MISTAKE("graph: a label to be ignored is given for a tensor in \"%s\" that is no input of "
                                     "labels; give the input, of type i32",
                                     g->scope.path));
        return;
    }
    t->has_ignored = true;
    t->ignored = label;
}

/* Limits ids to the rows of the whole table without padding. Ids of rows on another rank are valid. */
void mega_graph_set_row_limit(mega_graph *g, mega_tensor ids, mega_tensor table)
{
    if (g->status != MEGA_OK || table.id <= 0 || table.id >= g->num_tensors) return;
    const graph_tensor *t = &g->tensor[table.id];
    if (t->role == ROLE_WEIGHT) mega_graph_set_id_limit(g, ids, mega_params_get(g->params, t->param)->true_shape[0]);
    mega_graph_note_table(g, table);
}

mega_tensor mega_graph_state(mega_graph *g, const char *name, mega_dtype dtype, int num_dims, const int64_t *dim)
{
    if (g->status != MEGA_OK) return (mega_tensor){0};
    const char *full = mega_arena_format(&g->arena, "%s%s%s", g->scope.path, g->scope.path[0] == '\0' ? "" : ".", name);
    if (full != NULL) return add_named(g, ROLE_STATE, full, dtype, num_dims, dim);
    mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for the name of state \"%s\"", name));
    return (mega_tensor){0};
}

static bool is_tensor(const mega_graph *g, mega_tensor t)
{
    return t.id > 0 && t.id < g->num_tensors;
}

void mega_graph_output(mega_graph *g, mega_tensor t, const char *name)
{
    if (g->status != MEGA_OK) return;
    if (!is_tensor(g, t) || g->tensor[t.id].role != ROLE_VALUE) {
        mega_graph_fail(g,
                        MEGA_MISTAKE("graph: output \"%s\" is not a value that the program computes; inputs, weights "
                                     "and views cannot be outputs",
                                     name));
        return;
    }
    g->tensor[t.id].is_output = true;
    mega_graph_fail(g, mega_graph_name_add(g, &g->names.named, &g->names.num_named, name, t.id));
}

bool mega_graph_reserve_params(mega_graph *g)
{
    const int count = g->params == NULL ? 0 : mega_params_count(g->params), old = g->weights.cap;
    if (count <= old) return true;
    const int capacity = count > 2 * old ? count : 2 * old;
    const size_t bytes = (size_t)capacity * sizeof(int32_t), added = (size_t)(capacity - old) * sizeof(int32_t);
    int32_t *weights = mega_realloc(g->weights.tensor, bytes);
    if (weights != NULL) g->weights.tensor = weights;
    int32_t *gradients = weights == NULL ? NULL : mega_realloc(g->weights.gradient, bytes);
    if (gradients == NULL) {
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for %d parameters", count));
        return false;
    }
    g->weights.gradient = gradients;
    memset(weights + old, 0, added);
    memset(gradients + old, 0, added);
    g->weights.cap = capacity;
    return true;
}

mega_tensor mega_graph_param(mega_graph *g, int param)
{
    if (g->status != MEGA_OK || !mega_graph_reserve_params(g)) return (mega_tensor){0};
    if (g->params == NULL || param < 0 || param >= mega_params_count(g->params)) {
        mega_graph_fail(g, MEGA_MISTAKE("graph in \"%s\": parameter number %d is not declared; %d are", g->scope.path,
                                        param, g->params == NULL ? 0 : mega_params_count(g->params)));
        return (mega_tensor){0};
    }
    if (g->weights.tensor[param] == 0) {
        const mega_param *r = mega_params_get(g->params, param);
        const graph_tensor t = {
            .role = ROLE_WEIGHT,
            .name = mega_arena_strdup(&g->arena, r->name), /* copied, because records may move when more are declared */
            .param = param,
            .shape = {r->in_acc ? g->acc : g->dtype,
                      r->num_dims,
                      {r->local_shape[0], r->num_dims == 1 ? 0 : r->local_shape[1], 0, 0}}};
        g->weights.tensor[param] = mega_graph_tensor_add(g, &t);
    } else if (g->tensor[g->weights.tensor[param]].is_joined) {
        mega_graph_fail(g, MEGA_MISTAKE("graph in \"%s\": parameter %s is requested alone, and also as one of several "
                                        "that are one tensor; request it in one way",
                                        g->scope.path, mega_params_get(g->params, param)->name));
        return (mega_tensor){0};
    }
    return (mega_tensor){g->weights.tensor[param]};
}

mega_tensor mega_graph_joined_params(mega_graph *g, int first)
{
    if (g->status != MEGA_OK || !mega_graph_reserve_params(g)) return (mega_tensor){0};
    const int count = mega_params_joined(g->params, first);
    if (g->weights.tensor[first] == 0) {
        const mega_param *r = mega_params_get(g->params, first);
        const graph_tensor t = {.role = ROLE_WEIGHT,
                                .name = mega_arena_strdup(&g->arena, r->name),
                                .param = first,
                                .is_joined = true,
                                .shape = mega_shape_2d(g->dtype, r->num_dims == 1 ? count : count * r->local_shape[0],
                                                       r->local_shape[r->num_dims == 1 ? 0 : 1])};
        const int32_t joined = mega_graph_tensor_add(g, &t);
        for (int i = 0; i < count; i++) g->weights.tensor[first - i] = joined;
    } else if (!g->tensor[g->weights.tensor[first]].is_joined) {
        mega_graph_fail(g, MEGA_MISTAKE("graph in \"%s\": parameter %s is requested as one of several that are one "
                                        "tensor, and also alone; request it in one way",
                                        g->scope.path, mega_params_get(g->params, first)->name));
        return (mega_tensor){0};
    }
    return (mega_tensor){g->weights.tensor[first]};
}

int32_t mega_graph_gradient_tensor(mega_graph *g, int32_t weight)
{
    if (g->status != MEGA_OK) return 0;
    if (g->tensor[weight].role != ROLE_WEIGHT) {
        mega_graph_fail(g,
                        MEGA_MISTAKE("gradient of \"%s\" in \"%s\": it is used as a weight, but is no parameter; pass "
                                     "what mega_graph_param gives",
                                     g->tensor[weight].name, g->scope.path));
        return 0;
    }
    const int param = g->tensor[weight].param;
    if (g->weights.gradient[param] == 0) {
        graph_tensor t = {.role = ROLE_GRADIENT, .param = param, .shape = g->tensor[weight].shape};
        t.is_joined = g->tensor[weight].is_joined;
        t.shape.dtype = g->acc;
        t.name = mega_arena_format(&g->arena, "d(%s)", g->tensor[weight].name);
        const int32_t gradient = mega_graph_tensor_add(g, &t);
        for (int i = 0; i < (t.is_joined ? mega_params_joined(g->params, param) : 1); i++)
            g->weights.gradient[param - i] = gradient;
    }
    return g->weights.gradient[param];
}

int mega_graph_dim_count(const mega_graph *g, mega_tensor t)
{
    return is_tensor(g, t) ? g->tensor[t.id].shape.num_dims : 0;
}

int64_t mega_graph_dim(const mega_graph *g, mega_tensor t, int dim)
{
    return dim >= 0 && dim < mega_graph_dim_count(g, t) ? g->tensor[t.id].shape.dim[dim] : 0;
}

void mega_graph_region_begin(mega_graph *g)
{
    if (g->regions.open != 0)
        mega_graph_fail(g, MEGA_MISTAKE("graph in \"%s\": a recompute region begins inside another; end "
                                        "the first before",
                                        g->scope.path));
    g->regions.open = ++g->regions.count;
}

void mega_recompute_distribute(mega_graph *g, const mega_axis *axis)
{
    g->regions.saved_axis = *axis;
}

void mega_graph_set_sequence_parallel(mega_graph *g, bool on)
{
    g->sequence_parallel = on && g->layout->tp.size > 1;
}

bool mega_graph_is_sequence_parallel(const mega_graph *g)
{
    return g->sequence_parallel;
}

bool mega_graph_region_is_open(const mega_graph *g)
{
    return g->regions.open != 0;
}

void mega_graph_region_end(mega_graph *g)
{
    if (g->regions.open == 0)
        mega_graph_fail(g, MEGA_MISTAKE("graph in \"%s\": a recompute region ends that never began", g->scope.path));
    g->regions.open = 0;
}

void mega_graph_seed_gradient(mega_graph *g, mega_tensor t, const char *name)
{
    if (g->status != MEGA_OK) return;
    if (!is_tensor(g, t)) {
        mega_graph_fail(g, MEGA_MISTAKE("graph: gradient \"%s\" is given for no tensor of this graph", name));
        return;
    }
    const tensor_shape *s = &g->tensor[t.id].shape;
    if (name == NULL) name = "";
    if (s->dtype != g->dtype && s->dtype != g->acc) {
        mega_graph_fail(
            g, MEGA_MISTAKE("graph: gradient \"%s\" is given for %s, which is %s; only values of %s or %s have "
                            "gradients",
                            name, g->tensor[t.id].name, mega_dtype_name(s->dtype), mega_dtype_name(g->dtype),
                            mega_dtype_name(g->acc)));
        return;
    }
    const mega_tensor d = mega_graph_input(g, name, s->dtype, s->num_dims, s->dim);
    if (d.id == 0) return;
    mega_graph_fail(g, mega_graph_name_add(g, &g->names.seed, &g->names.num_seeds, NULL, t.id));
    mega_graph_fail(g, mega_graph_name_add(g, &g->names.seed, &g->names.num_seeds, NULL, d.id));
}

void mega_graph_want_gradient(mega_graph *g, mega_tensor input, const char *name)
{
    if (g->status != MEGA_OK) return;
    if (!is_tensor(g, input) || g->tensor[input.id].role != ROLE_INPUT) {
        mega_graph_fail(g, MEGA_MISTAKE("gradient \"%s\" of \"%s\": only of inputs; parameters have "
                                        "theirs in mega_params_grad",
                                        name, is_tensor(g, input) ? g->tensor[input.id].name : "no tensor"));
        return;
    }
    g->tensor[input.id].needs_gradient = true;
    mega_graph_fail(g, mega_graph_name_add(g, &g->names.wanted, &g->names.num_wanted, name, input.id));
}

/* ---- instructions ---- */

static const char *result_name(mega_graph *g, const instruction *op, int out)
{
    const char *base = op->scope[0] == '\0' ? mega_op_table[op->kind]->name : op->scope;
    const char *prefix = op->backward ? "d." : "";
    if (out == 0 && op->attr.what != NULL && !mega_op_is_collective(op->kind))
        return mega_arena_format(&g->arena, "%s%s.%s", prefix, base, op->attr.what);
    if (out == 0) return mega_arena_format(&g->arena, "%s%s", prefix, base);
    return mega_arena_format(&g->arena, "%s%s:%d", prefix, base, out);
}

static mega_status check_operands(const mega_graph *g, const instruction *op)
{
    const op_row *row = mega_op_table[op->kind];
    for (int i = 0; i < row->num_in; i++)
        if (op->in[i] < 0 || op->in[i] >= g->num_tensors)
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "op %s in \"%s\": operand %d is tensor %d, but this graph has %d; pass tensors of one graph", row->name,
                op->scope, i, (int)op->in[i], g->num_tensors - 1);
    for (int i = 0; i < row->num_in; i++)
        if (op->in[i] == 0 && !(row->optional_in >> i & 1))
            return MEGA_MISTAKE("op %s in \"%s\": operand %d is missing; the op reads %d", row->name, op->scope, i,
                                row->num_in);
    for (int i = 0; i < row->num_out; i++)
        if (op->out[i] == 0 && (row->accumulates & ~row->optional_out) >> i & 1)
            return MEGA_MISTAKE("op %s in \"%s\": result %d is added to and must be given", row->name, op->scope, i);
    return MEGA_OK;
}

static mega_status make_outputs(mega_graph *g, instruction *op)
{
    const op_row *row = mega_op_table[op->kind];
    tensor_shape shape[OP_MAX_OUT];
    memset(shape, 0, sizeof shape);
    MEGA_TRY(check_operands(g, op));
    MEGA_TRY(row->shape(g, op, shape));
    for (int i = 0; i < row->num_out; i++) {
        if (op->out[i] == 0 && (row->optional_out >> i & 1)) continue;
        MEGA_TRY(check_size(g, row->name, &shape[i]));
        if (op->out[i] == 0) {
            const graph_tensor t = {.role = ROLE_VALUE, .shape = shape[i], .name = result_name(g, op, i)};
            op->out[i] = mega_graph_tensor_add(g, &t);
            if (op->out[i] == 0) return g->status;
        } else if (!mega_shape_equal(&g->tensor[op->out[i]].shape, &shape[i])) {
            char found[96], expected[96];
            return MEGA_MISTAKE("op %s in \"%s\": result %s is %s; expected %s", row->name, op->scope,
                                g->tensor[op->out[i]].name,
                                mega_shape_text(found, sizeof found, &g->tensor[op->out[i]].shape),
                                mega_shape_text(expected, sizeof expected, &shape[i]));
        }
    }
    return MEGA_OK;
}

mega_tensor mega_graph_emit(mega_graph *g, instruction *op)
{
    if (g->status != MEGA_OK) return (mega_tensor){0};
    op->scope = scope_text(g);
    op->backward = g->in_backward;
    op->region = g->regions.open;
    op->first_use = -1;
    const mega_status st = make_outputs(g, op);
    if (st != MEGA_OK) {
        mega_graph_fail(g, st);
        return (mega_tensor){0};
    }
    if (!mega_array_reserve(&g->op, &g->cap_ops, g->num_ops + 1, sizeof *g->op)) {
        mega_graph_fail(g, MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for %d instructions", g->num_ops + 1));
        return (mega_tensor){0};
    }
    g->op[g->num_ops++] = *op;
    return (mega_tensor){op->out[0]};
}

void mega_graph_gradient_add(mega_graph *g, int32_t tensor, int32_t contribution)
{
    if (g->status != MEGA_OK || contribution == 0 || !g->tensor[tensor].needs_gradient) return;
    const int32_t of = g->tensor[tensor].rows_of;
    if (g->tensor[tensor].role == ROLE_WEIGHT) {
        mega_graph_accumulate(g, tensor, 0, contribution);
        return;
    }
    if (of != 0 && g->tensor[of].role == ROLE_WEIGHT) {
        mega_graph_accumulate(g, of, g->tensor[tensor].offset, contribution);
        return;
    }
    if (of != 0) {
        mega_graph_gradient_add(g, of, mega_graph_view_gradient(g, tensor, contribution));
        return;
    }
    if (g->tensor[tensor].gradient == 0) {
        g->tensor[tensor].gradient = contribution;
        return;
    }
    const mega_tensor sum = mega_op_add(g, (mega_tensor){g->tensor[tensor].gradient}, (mega_tensor){contribution});
    g->tensor[tensor].gradient = sum.id;
}
