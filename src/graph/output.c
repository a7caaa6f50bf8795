/* Named outputs: their declaration in a model, reading one after a forward, and passing the gradient of a loss that the
 * caller computes to the backward. */
#include "megalith/builder.h"
#include "megalith/device_memory.h"
#include "program_impl.h"

#include <string.h>

/* ---- describe ---- */

static mega_status output_check(const mega_builder *b, const char *name, mega_tensor x)
{
    const mega_graph *g = b->graph;
    if (name == NULL || name[0] == '\0')
        return MEGA_MISTAKE("layer \"%s\": an output is declared without a name; give one", b->path);
    MEGA_TRY(mega_graph_check_name(b->path, "an output", name));
    if (x.id <= 0 || x.id >= g->num_tensors)
        return MEGA_MISTAKE("layer \"%s\", output \"%s\": it is no tensor of this graph; pass a value", b->path, name);
    if (g->tensor[x.id].shape.dtype != g->dtype && g->tensor[x.id].shape.dtype != g->acc)
        return MEGA_MISTAKE("layer \"%s\", output \"%s\": %s is %s; expected %s, as computed values are", b->path, name,
                            g->tensor[x.id].name, mega_dtype_name(g->tensor[x.id].shape.dtype),
                            mega_dtype_name(g->dtype));
    if (g->sequence_parallel && b->layout->tp.size > 1)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "layer \"%s\", output \"%s\": with sequence parallelism a rank of tp has a part of the rows, "
                         "which cannot be an output yet; train this model without sequence parallelism",
                         b->path, name);
    return MEGA_OK;
}

static mega_status add_output(mega_graph *g, const char *name, int32_t tensor)
{
    const char *text = mega_arena_strdup(&g->arena, name);
    if (text == NULL || !mega_array_add(&g->results.output, g->results.num_outputs, sizeof *g->results.output))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for the name of output \"%s\"", name);
    g->results.output[g->results.num_outputs++] = (graph_output){.name = text, .tensor = tensor};
    return MEGA_OK;
}

static mega_status check_unused(const mega_builder *b, const char *name)
{
    const mega_graph *g = b->graph;
    for (int i = 0; i < g->results.num_outputs; i++)
        if (strcmp(g->results.output[i].name, name) == 0)
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "layer \"%s\": mega_output declares \"%s\", which an earlier mega_output declared; give each "
                "output a name of its own",
                b->path, name);
    return MEGA_OK;
}

/* Copies inputs, parameters and views, so that the caller reads a separate value. */
void mega_output(const mega_builder *b, const char *name, mega_tensor x)
{
    mega_graph *g = b->graph;
    if (g->status != MEGA_OK) return;
    mega_graph_fail(g, output_check(b, name, x));
    if (g->status == MEGA_OK && g->tensor[x.id].role != ROLE_VALUE) x = mega_op_scale(g, x, 1.0);
    if (g->status == MEGA_OK) mega_graph_fail(g, check_unused(b, name));
    mega_graph_output(g, x, name);
    if (g->status == MEGA_OK) mega_graph_fail(g, add_output(g, name, x.id));
}

/* ---- differentiate ---- */

/* Returns an array by tensor: whether it depends on a parameter through an op that has no gradient (a metric). */
static bool *find_blocked(const mega_graph *g)
{
    bool *blocked = mega_calloc((size_t)g->num_tensors, sizeof *blocked);
    for (int i = 0; i < g->num_ops && blocked != NULL; i++) {
        const instruction *op = &g->op[i];
        bool is_needed = false, is_blocked = false;
        for (int k = 0; k < OP_MAX_IN; k++) {
            is_needed = is_needed || g->tensor[op->in[k]].needs_gradient;
            is_blocked = is_blocked || blocked[mega_graph_root(g, op->in[k])];
        }
        const bool has_gradient =
            op->kind == OP_CUSTOM ? op->attr.custom->backward != NULL : mega_op_table[op->kind]->gradient != NULL;
        if (!is_blocked && (has_gradient || !is_needed)) continue;
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (op->out[k] != 0) blocked[mega_graph_root(g, op->out[k])] = true;
    }
    return blocked;
}

/* Adds an input for the gradient of each output. It has no name, so that no data set has to fill it, and it is zero
 * unless the caller gives the gradient. */
mega_status mega_outputs_seed(mega_graph *g)
{
    if (g->results.num_outputs == 0) return MEGA_OK;
    bool *blocked = find_blocked(g);
    mega_status st = blocked != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory to seed its outputs");
    for (int i = 0; i < g->results.num_outputs && st == MEGA_OK; i++) {
        graph_output *o = &g->results.output[i];
        if (!g->tensor[o->tensor].needs_gradient || blocked[o->tensor]) continue;
        const graph_tensor d = {.role = ROLE_INPUT,
                                .shape = g->tensor[o->tensor].shape,
                                .name = mega_arena_format(&g->arena, "d.%s", o->name)};
        o->gradient = mega_graph_tensor_add(g, &d);
        st = mega_graph_status(g);
        if (st == MEGA_OK) st = mega_graph_name_add(g, &g->names.seed, &g->names.num_seeds, NULL, o->tensor);
        if (st == MEGA_OK) st = mega_graph_name_add(g, &g->names.seed, &g->names.num_seeds, NULL, o->gradient);
    }
    mega_free(blocked);
    return st;
}

/* ---- program ---- */

static const graph_output *find_output(const mega_program *p, const char *name)
{
    for (int i = 0; name != NULL && i < p->g->results.num_outputs; i++)
        if (strcmp(p->g->results.output[i].name, name) == 0) return &p->g->results.output[i];
    return NULL;
}

int mega_program_num_outputs(const mega_program *p)
{
    return p->g->results.num_outputs;
}

bool mega_program_output_get(const mega_program *p, const char *name, int slot, mega_program_output *out)
{
    const graph_output *o = mega_program_check_slot(p, slot) == MEGA_OK ? find_output(p, name) : NULL;
    if (o == NULL) return false;
    const graph_tensor *t = &p->g->tensor[o->tensor];
    *out = (mega_program_output){.dtype = t->shape.dtype,
                                 .count = mega_shape_count(&t->shape),
                                 .takes_gradient = o->gradient != 0,
                                 .value = p->call == NULL ? NULL : mega_program_address(p, o->tensor, slot)};
    return true;
}

static void output_store(void *to, mega_dtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case MEGA_F64: ((double *)to)[i] = value; break;
    case MEGA_BF16:
    case MEGA_F16: ((uint16_t *)to)[i] = mega_f32_to_half((float)value, dtype); break;
    default: ((float *)to)[i] = (float)value; break;
    }
}

/* Writes numbers times a factor to the device, in place or by a window. */
static mega_status output_write(char *to, mega_dtype dtype, const float *from, int64_t count, double factor)
{
    const int64_t size = (int64_t)mega_dtype_size(dtype);
    const bool is_host = mega_device_is_host(to);
    const int64_t most = is_host || count * size < MEGA_DEVICE_WINDOW ? count : MEGA_DEVICE_WINDOW / size;
    void *const window = is_host ? NULL : mega_malloc((size_t)(most * size));
    if (window == NULL && !is_host) return MEGA_NO_MEMORY("outputs", "a window of a gradient");
    for (int64_t at = 0; at < count; at += most) {
        const int64_t n = count - at < most ? count - at : most;
        void *const place = is_host ? to : window;
        for (int64_t i = 0; i < n; i++) output_store(place, dtype, i, (double)from[at + i] * factor);
        if (!is_host) mega_device_write(to + at * size, window, (size_t)(n * size));
    }
    mega_free(window);
    return MEGA_OK;
}

static mega_status output_check_gradient(const mega_program *p, const char *name, int slot, const float *gradient,
                                         int64_t count)
{
    MEGA_TRY(mega_program_check_slot(p, slot));
    const graph_output *o = find_output(p, name);
    if (o == NULL)
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "program %s: it has no output \"%s\"; declare it with mega_output in a layer of the model",
                         p->name, name == NULL ? "" : name);
    const int64_t expected = mega_shape_count(&p->g->tensor[o->tensor].shape);
    if (gradient == NULL || count != expected)
        return MEGA_MISTAKE("output \"%s\": its gradient %s; expected %lld elements", name,
                            gradient == NULL ? "is NULL" : "has another number of elements", (long long)expected);
    if (o->gradient == 0)
        return MEGA_MISTAKE(
            "output \"%s\": it takes no gradient, because %s; give the gradient of another output", name,
            p->g->num_forward == p->g->num_ops ? "the program has no backward"
                                               : "it depends on no parameter through ops with a gradient");
    if (p->is_allocated && p->is_forward_done[slot]) return MEGA_OK;
    return MEGA_MISTAKE("output \"%s\": its gradient is given before a forward of its slot; run it first", name);
}

mega_status mega_program_output_gradient(mega_program *p, const char *name, int slot, const float *gradient,
                                         int64_t count, double weight)
{
    MEGA_TRY(output_check_gradient(p, name, slot, gradient, count));
    const graph_output *o = find_output(p, name);
    const double divisor = p->g->results.per_token_loss ? 1.0 : weight;
    const double factor = weight > 0 ? p->step.loss_factor / divisor : 0;
    MEGA_TRY(output_write(mega_program_address(p, o->gradient, slot), p->g->tensor[o->gradient].shape.dtype, gradient,
                          count, factor));
    p->has_given_gradient[slot] = true;
    return MEGA_OK;
}

void mega_program_forget_given(mega_program *p, int slot)
{
    for (int i = 0; i < p->g->results.num_outputs && p->has_given_gradient[slot]; i++) {
        const int32_t d = p->g->results.output[i].gradient;
        if (d != 0) mega_device_fill(mega_program_address(p, d, slot), 0, mega_shape_bytes(&p->g->tensor[d].shape));
    }
    p->has_given_gradient[slot] = false;
}
