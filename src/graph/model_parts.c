/* One part of a model: its parameters, and its layers as a program whose inputs and outputs are the values at its
 * borders. */
#include "megalith/parameter_request.h"
#include "model_impl.h"

mega_builder parts_builder(const mega_model_parts *p, mega_mode mode, mega_graph *g)
{
    return (mega_builder){.graph = g,
                          .layout = p->layout,
                          .mode = mode,
                          .samples = p->sizes.samples,
                          .positions = p->sizes.positions,
                          .cache = p->sizes.cache,
                          .length = p->sizes.length};
}

const char *mega_border_name(mega_border kind, int value)
{
    static const char *const name[][MEGA_FLOW_VALUES] = {
        {"stage_input", "stage_input.1", "stage_input.2", "stage_input.3"},
        {"stage_input_gradient", "stage_input_gradient.1", "stage_input_gradient.2", "stage_input_gradient.3"},
        {"stage_output", "stage_output.1", "stage_output.2", "stage_output.3"},
        {"stage_output_gradient", "stage_output_gradient.1", "stage_output_gradient.2", "stage_output_gradient.3"}};
    return name[kind][value >= 0 && value < MEGA_FLOW_VALUES ? value : 0];
}

/* ---- parameters ---- */

/* The layers, and therefore the stages, that request a parameter. */
typedef struct holders {
    int requests, layer, first, last; /* number of requests; the first layer; first and last stage */
} holders;

static void find_holders(const mega_model_parts *p, holders *of)
{
    for (int i = 0, part = 0; i < p->num_requests; i++) {
        const param_request *q = &p->request[i];
        holders *h = &of[q->param];
        while (p->first[part + 1] <= q->layer) part++;
        const int stage = part % p->layout->pp.size;
        if (h->requests++ == 0) *h = (holders){1, q->layer, stage, stage};
        h->first = stage < h->first ? stage : h->first;
        h->last = stage > h->last ? stage : h->last;
    }
}

static mega_status parts_declare(const mega_model_parts *p, int part, const holders *of, mega_params *params)
{
    for (int i = 0; i < p->num_requests; i++) {
        const param_request *q = &p->request[i];
        const holders *h = &of[q->param];
        int index;
        if (q->layer < p->first[part] || q->layer >= p->first[part + 1]) continue;
        mega_param record = *mega_params_get(p->params, q->param);
        if (record.held_by > 0 && record.held_by - 1 != p->layout->ep.rank) continue; /* another rank's expert */
        record.layer = h->layer + 1;
        record.is_shared = h->requests > 1;
        record.tie = h->first == h->last                     ? MEGA_TIE_NONE
                     : part % p->layout->pp.size == h->first ? MEGA_TIE_OWNER
                                                             : MEGA_TIE_COPY;
        MEGA_TRY(mega_params_request(params, &record, false, &index));
    }
    return MEGA_OK;
}

mega_status mega_model_parts_declare(const mega_model_parts *p, int part, mega_params *params)
{
    holders *of = mega_calloc((size_t)mega_params_count(p->params) + 1, sizeof *of);
    if (of == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for a list of %d parameters", mega_params_count(p->params));
    find_holders(p, of);
    const mega_status st = parts_declare(p, part, of, params);
    mega_free(of);
    return st;
}

/* ---- borders ---- */

/* Adds inputs for the values that enter before `layer`. */
static void parts_enter(const mega_model_parts *p, int layer, mega_mode mode, mega_graph *g, mega_flow *flow)
{
    for (int v = 0; v < MEGA_FLOW_VALUES && layer > 0; v++) {
        const border_value *value = &p->border[layer].value[v];
        mega_tensor *t = flow_value(flow, v);
        if (value->shape.num_dims == 0) continue;
        if (value->same_as >= 0) {
            *t = *flow_value(flow, value->same_as);
            continue;
        }
        *t = mega_graph_input(g, mega_border_name(MEGA_BORDER_INPUT, v), value->shape.dtype, value->shape.num_dims,
                              value->shape.dim);
        if (mode == MEGA_TRAIN && value->needs_gradient)
            mega_graph_want_gradient(g, *t, mega_border_name(MEGA_BORDER_INPUT_GRADIENT, v));
    }
}

static mega_status parts_check_value(const mega_model_parts *p, int layer, int v, const mega_graph *g, mega_tensor t)
{
    const border_value *expected = &p->border[layer].value[v];
    const char *path = mega_model_parts_path(p, layer - 1);
    char now[96] = "nothing", then[96] = "nothing";
    if (t.id != 0) mega_shape_text(now, sizeof now, &g->tensor[t.id].shape);
    if (expected->shape.num_dims != 0) mega_shape_text(then, sizeof then, &expected->shape);
    if (t.id == 0 ? expected->shape.num_dims != 0 : !mega_shape_equal(&g->tensor[t.id].shape, &expected->shape))
        return MEGA_MISTAKE(
            "layer \"%s\" (%d of the list) hands over %s as value %d of the flow, but %s when the whole "
            "model was described; a layer must hand over the same in every mode and on every rank",
            path, layer - 1, now, v, then);
    if (t.id != 0 && expected->shape.dtype != g->dtype && expected->shape.dtype != g->acc)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "layer \"%s\" (%d of the list) hands over %s to the next pipeline stage; only computed values "
                         "pass, so request inputs by name (mega_input) in the layers that read them",
                         path, layer - 1, now);
    return MEGA_OK;
}

/* Adds outputs for the values that leave before `layer`. A value that the part only passes on is copied, because its
 * incoming and outgoing messages are in progress at different times. */
static void parts_leave(const mega_model_parts *p, int layer, mega_mode mode, mega_graph *g, mega_flow *flow)
{
    for (int v = 0; v < MEGA_FLOW_VALUES && layer < p->num_layers; v++) {
        const border_value *value = &p->border[layer].value[v];
        mega_tensor t = *flow_value(flow, v);
        if (g->status == MEGA_OK) mega_graph_fail(g, parts_check_value(p, layer, v, g, t));
        if (g->status != MEGA_OK || t.id == 0 || value->same_as >= 0) continue;
        if (g->tensor[t.id].role != ROLE_VALUE) t = mega_op_scale(g, t, 1.0);
        mega_graph_output(g, t, mega_border_name(MEGA_BORDER_OUTPUT, v));
        if (mode == MEGA_TRAIN && value->needs_gradient)
            mega_graph_seed_gradient(g, t, mega_border_name(MEGA_BORDER_OUTPUT_GRADIENT, v));
    }
}

/* ---- describing ---- */

static mega_status check_declared(const mega_model_parts *p, int declared, const mega_params *params)
{
    if (params == NULL || mega_params_count(params) == declared) return MEGA_OK;
    return MEGA_MISTAKE(
        "parameter %s: it is requested in a program, but was not when the whole model %s was described; a "
        "layer must request the same parameters in every mode and on every rank",
        mega_params_get(params, declared)->name, model_name(&p->model));
}

/* Takes from the losses of this part the labels that any layer of the model ignores. */
static void ignore_labels(const mega_model_parts *p, mega_graph *g)
{
    for (int i = 0; i < p->num_ignored; i++)
        for (int k = 0; k < g->names.num_named; k++)
            if (strcmp(p->ignored[i].input, g->names.named[k].name) == 0)
                mega_graph_ignore(g, (mega_tensor){g->names.named[k].tensor}, p->ignored[i].label);
}

mega_status mega_model_parts_describe(const mega_model_parts *p, int part, mega_mode mode, mega_graph *g)
{
    const int first = p->first[part], end = p->first[part + 1];
    const int declared = g->params != NULL ? mega_params_count(g->params) : 0;
    const mega_builder base = parts_builder(p, mode, g);
    mega_flow flow = {.x = mega_none()};
    mega_graph_set_sequence_parallel(g, p->model.sequence_parallel && mode != MEGA_GENERATE);
    parts_enter(p, first, mode, g, &flow);
    /* with sequence parallelism, what a rank saves is a share of the rows already */
    if (mode == MEGA_TRAIN && p->model.distribute_saved && !mega_graph_is_sequence_parallel(g))
        mega_recompute_distribute(g, &p->layout->tp);
    for (int l = first; l < end && g->status == MEGA_OK; l++) {
        if (mode == MEGA_TRAIN && model_begins_region(p, l, first)) mega_graph_region_begin(g);
        model_describe_layer(&p->model, l, &base, &flow);
        if (mode == MEGA_TRAIN && model_ends_region(p, l, end)) mega_graph_region_end(g);
    }
    parts_leave(p, end, mode, g, &flow);
    ignore_labels(p, g);
    MEGA_TRY(mega_graph_status(g));
    return check_declared(p, declared, g->params);
}

/* ---- without an engine ---- */

static mega_status parts_check_alone(const char *call, const mega_model *m, int programs, int program,
                                     const void *given)
{
    if (m == NULL || given == NULL)
        return MEGA_MISTAKE("%s: its %s is NULL; give it", call, m == NULL ? "model" : "last argument");
    if (programs >= 1 && program >= 0 && program < programs) return MEGA_OK;
    return MEGA_MISTAKE("%s: program %d of %d; expected at least one program, and one of them", call, program,
                        programs);
}

/* Describes micro-batches with one row per tp rank, so that sequence parallelism can divide the rows. */
mega_status mega_model_declare(const mega_model *m, int programs, mega_params *params)
{
    MEGA_TRY(parts_check_alone("mega_model_declare", m, programs, 0, params));
    const mega_layout *layout = mega_params_layout(params);
    const mega_model_sizes sizes = {.mode = MEGA_EVAL, .samples = layout->tp.size, .positions = 1};
    mega_model_parts *parts = NULL;
    mega_status st = mega_model_parts_create(m, layout, MEGA_F32, sizes, layout->pp.size * programs, &parts);
    for (int program = 0; program < programs && st == MEGA_OK; program++) {
        if (program > 0) mega_params_next_part(params);
        st = mega_model_parts_declare(parts, mega_model_parts_own(parts, program), params);
    }
    mega_model_parts_destroy(parts);
    return st;
}

mega_status mega_model_describe(const mega_model *m, int programs, int program, mega_model_sizes what, mega_graph *g)
{
    MEGA_TRY(parts_check_alone("mega_model_describe", m, programs, program, g));
    const mega_mode mode = what.mode;
    mega_model_parts *parts = NULL;
    if (mode == MEGA_TRAIN) what.mode = MEGA_EVAL;
    const mega_layout *layout = mega_graph_layout(g);
    mega_status st = mega_model_parts_create(m, layout, mega_graph_dtype(g), what, layout->pp.size * programs, &parts);
    const int part = st == MEGA_OK ? mega_model_parts_own(parts, program) : 0;
    if (st == MEGA_OK) st = mega_model_parts_declare(parts, part, mega_graph_params(g));
    if (st == MEGA_OK) st = mega_model_parts_describe(parts, part, mode, g);
    mega_model_parts_destroy(parts);
    return st;
}
