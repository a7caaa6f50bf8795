/* The list of layers of a model, and the walk over it that collects costs, parameter requests and borders of every
 * layer. */
#include "megalith/hash.h"
#include "model_impl.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

static int model_copies(const mega_layer *row)
{
    return row->repeat > 0 ? row->repeat : 1;
}

static mega_status model_check_ways(const mega_model *m)
{
    if (m->positions < 0)
        return MEGA_MISTAKE("model %s: positions %lld; expected 1 or more, or 0 for 1", model_name(m),
                            (long long)m->positions);
    if ((unsigned)m->partition > MEGA_PARTITION_FLOPS)
        return MEGA_MISTAKE("model %s: partition %d; expected MEGA_PARTITION_PARAMETERS, _UNIFORM, _TYPE or _FLOPS",
                            model_name(m), (int)m->partition);
    return MEGA_OK;
}

static mega_status check_model(const mega_model *m)
{
    if (m->layer == NULL || m->num_layers < 1)
        return MEGA_MISTAKE("model %s: it has no layers; give at least one", model_name(m));
    for (int r = 0; r < m->num_layers; r++) {
        const mega_layer *row = &m->layer[r];
        if (row->path == NULL || row->describe == NULL)
            return MEGA_MISTAKE("model %s: row %d of its layers has no %s; give one", model_name(m), r,
                                row->path == NULL ? "path" : "function describe");
        MEGA_TRY(mega_graph_check_name(model_name(m), "a layer", row->path));
        if (row->repeat < 0)
            return MEGA_MISTAKE("model %s: layer \"%s\" repeats %d times; expected 0 or more", model_name(m), row->path,
                                row->repeat);
    }
    if (m->recompute_interval < 0 || m->recompute_regions < 0)
        return MEGA_MISTAKE("model %s: recompute_interval %d, recompute_regions %d; expected both to be 0 or more",
                            model_name(m), m->recompute_interval, m->recompute_regions);
    return model_check_ways(m);
}

/* Returns the row of a layer; *index receives which copy of the row it is. */
static const mega_layer *model_layer(const mega_model *m, int layer, int *index)
{
    const mega_layer *row = m->layer;
    for (; layer >= model_copies(row); row++) layer -= model_copies(row);
    *index = layer;
    return row;
}

static const char *type_of(const mega_layer *row)
{
    return row->type != NULL ? row->type : row->path;
}

/* Sets, for each layer, whether its type matches the expression, ignoring case. */
static mega_status match_types(const mega_model *m, const char *expression, int layers, bool *out, int *count)
{
    regex_t compiled;
    char what[128];
    const int error = regcomp(&compiled, expression, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    if (error != 0) {
        regerror(error, &compiled, what, sizeof what);
        return MEGA_FAIL(error == REG_ESPACE ? MEGA_ERR_MEMORY : MEGA_ERR_USAGE,
                         "model %s: \"%s\" is no regular expression for types of layers: %s", model_name(m), expression,
                         what);
    }
    *count = 0;
    for (int l = 0; l < layers; l++) {
        int index;
        out[l] = regexec(&compiled, type_of(model_layer(m, l, &index)), 0, NULL, 0) == 0;
        *count += out[l];
    }
    regfree(&compiled);
    return MEGA_OK;
}

/* Sets the path of a layer, with its index in place of "%d". */
static void set_path(mega_builder *b, const mega_layer *row, int index)
{
    const char *number = strstr(row->path, "%d");
    const int before = number != NULL ? (int)(number - row->path) : (int)strlen(row->path);
    char text[16] = "";
    if (number != NULL) snprintf(text, sizeof text, "%d", index);
    const int n =
        snprintf(b->path, sizeof b->path, "%.*s%s%s", before, row->path, text, number != NULL ? number + 2 : "");
    b->index = index;
    if (n < 0 || (size_t)n >= sizeof b->path)
        mega_builder_fail(b, MEGA_MISTAKE("layer \"%s…\": its path has %d characters; expected at most %zu, choose "
                                          "shorter names",
                                          b->path, n, sizeof b->path - 1));
}

/* Returns the prefix for names of ops: the path of the layer without the name of the model. */
static const char *scope_of(const mega_model *m, const char *path)
{
    const size_t n = m->name != NULL ? strlen(m->name) : 0;
    if (n == 0 || strncmp(path, m->name, n) != 0) return path;
    return path[n] == '.' ? path + n + 1 : path[n] == '\0' ? "" : path;
}

/* Checks that the values that a layer leaves in the flow are tensors of the graph. */
static mega_status check_flow(const mega_model *m, int layer, const char *path, const mega_graph *g, mega_flow *flow)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
        const int32_t id = flow_value(flow, v)->id;
        if (id >= 0 && id < g->num_tensors) continue;
        char name[24] = "flow->x";
        if (v > 0) snprintf(name, sizeof name, "flow->more[%d]", v - 1);
        return MEGA_MISTAKE("layer \"%s\" (%d of the list of model %s) leaves %s as tensor %d, which is none of this "
                            "graph; give it a value that this call computed, or mega_none()",
                            path, layer, model_name(m), name, (int)id);
    }
    return MEGA_OK;
}

void model_describe_layer(const mega_model *m, int layer, const mega_builder *base, mega_flow *flow)
{
    mega_builder b = *base;
    mega_graph *g = b.graph;
    int index;
    const mega_layer *row = model_layer(m, layer, &index);
    if (g->status != MEGA_OK) return;
    set_path(&b, row, index);
    g->walk.layer = layer;
    const char *name = scope_of(m, b.path);
    const mega_scope s = name[0] != '\0' ? mega_scope_enter(g, "%s", name) : (mega_scope){strlen(g->scope.path)};
    row->describe(&b, row->self, flow);
    if (g->status == MEGA_OK) mega_graph_fail(g, check_flow(m, layer, b.path, g, flow));
    if (g->status == MEGA_OK && g->regions.opened_by_layer != 0)
        mega_graph_fail(g,
                        MEGA_MISTAKE("layer \"%s\" (%d of the list of model %s): %d more calls of mega_recompute_begin "
                                     "than of mega_recompute_end; call them in pairs",
                                     b.path, layer, model_name(m), g->regions.opened_by_layer));
    mega_scope_leave(g, s);
}

/* ---- the walk ---- */

mega_tensor *flow_value(mega_flow *flow, int value)
{
    return value == 0 ? &flow->x : &flow->more[value - 1];
}

/* Records the values that pass the border before `layer`. */
static void read_border(mega_model_parts *p, const mega_graph *g, int layer, mega_flow *flow)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
        border_value *value = &p->border[layer].value[v];
        const int32_t id = flow_value(flow, v)->id;
        *value = (border_value){.tensor = id, .same_as = -1};
        if (id == 0) continue;
        value->shape = g->tensor[id].shape;
        for (int w = 0; w < v && value->same_as < 0; w++)
            if (p->border[layer].value[w].tensor == id) value->same_as = w;
    }
}

static double bytes_computed(const mega_graph *g, const instruction *op)
{
    double bytes = 0;
    for (int k = 0; k < OP_MAX_OUT; k++)
        if (op->out[k] != 0) bytes += (double)mega_shape_bytes(&g->tensor[op->out[k]].shape);
    return bytes;
}

static mega_status read_ignored(mega_model_parts *p, const mega_graph *g)
{
    p->ignored = mega_calloc((size_t)g->names.num_named + 1, sizeof *p->ignored);
    for (int i = 0; p->ignored != NULL && i < g->names.num_named; i++) {
        const graph_tensor *t = &g->tensor[g->names.named[i].tensor];
        if (!t->has_ignored) continue;
        p->ignored[p->num_ignored] = (ignored_label){mega_strdup(g->names.named[i].name), t->ignored};
        if (p->ignored[p->num_ignored++].input == NULL) break;
    }
    if (p->ignored != NULL && (p->num_ignored == 0 || p->ignored[p->num_ignored - 1].input != NULL)) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for the names of %d inputs", g->names.num_named);
}

static mega_status model_walk(mega_model_parts *p, mega_graph *g)
{
    mega_flow flow = {.x = mega_none()};
    const mega_builder base = parts_builder(p, p->sizes.mode, g);
    g->walk.lists_requests = true;
    mega_graph_set_sequence_parallel(g, p->model.sequence_parallel && p->sizes.mode != MEGA_GENERATE);
    for (int l = 0; l < p->num_layers; l++) {
        const int first = g->num_ops;
        model_describe_layer(&p->model, l, &base, &flow);
        MEGA_TRY(mega_graph_status(g));
        for (int i = first; i < g->num_ops; i++) {
            p->flops[l] += mega_op_cost(g, &g->op[i]).flops;
            p->masked_flops[l] += mega_op_masked_flops(g, &g->op[i]);
            p->bytes[l] += bytes_computed(g, &g->op[i]);
            p->has_head[l] = p->has_head[l] || g->op[i].kind == OP_XENT_GRAD;
            p->ops_hash[l] = mega_op_hash(p->ops_hash[l], g, &g->op[i]);
        }
        read_border(p, g, l + 1, &flow);
    }
    mega_graph_mark_needed(g);
    for (int l = 1; l < p->num_layers; l++)
        for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
            border_value *value = &p->border[l].value[v];
            value->needs_gradient = g->tensor[value->tensor].needs_gradient;
        }
    for (int i = 0; i < g->walk.num_requests; i++) {
        const mega_param *r = mega_params_get(p->params, g->walk.request[i].param);
        if (mega_param_is_trained(r))
            p->elements[g->walk.request[i].layer] += (double)r->shape[0] * (double)r->shape[1];
    }
    p->request = g->walk.request;
    p->num_requests = g->walk.num_requests;
    g->walk.request = NULL;
    return read_ignored(p, g);
}

/* ---- the cut ---- */

static mega_status model_weigh(const mega_model_parts *p, bool *matches, double *weight)
{
    const mega_model *m = &p->model;
    int count = 0;
    if (m->partition == MEGA_PARTITION_TYPE && m->partition_type == NULL)
        return MEGA_MISTAKE("model %s: MEGA_PARTITION_TYPE without partition_type; give the expression", model_name(m));
    if (m->partition == MEGA_PARTITION_TYPE) {
        MEGA_TRY(match_types(m, m->partition_type, p->num_layers, matches, &count));
        if (count == 0)
            return MEGA_MISTAKE(
                "model %s: no layer has a type that matches \"%s\"; give the layers of the list types, or "
                "choose another expression",
                model_name(m), m->partition_type);
    }
    for (int l = 0; l < p->num_layers; l++) switch (m->partition) {
        case MEGA_PARTITION_PARAMETERS: weight[l] = p->elements[l]; break;
        case MEGA_PARTITION_FLOPS: weight[l] = p->flops[l]; break;
        case MEGA_PARTITION_TYPE: weight[l] = matches[l]; break;
        case MEGA_PARTITION_UNIFORM: weight[l] = 1; break;
        }
    return MEGA_OK;
}

static mega_status model_check_cut(const mega_model_parts *p)
{
    for (int i = 0; i < p->num_parts; i++)
        if (p->first[i + 1] <= p->first[i] || p->first[0] != 0)
            return MEGA_MISTAKE(
                "model %s: %d layers in %d parts (stages times programs per stage): part %d would have "
                "layers %d to %d; expected at least one layer in each, from layer 0 to the last; choose "
                "fewer stages or other boundaries",
                model_name(&p->model), p->num_layers, p->num_parts, i, p->first[i], p->first[i + 1] - 1);
    return MEGA_OK;
}

static mega_status model_cut(mega_model_parts *p)
{
    bool *matches = mega_calloc((size_t)p->num_layers, sizeof *matches);
    double *weight = mega_calloc((size_t)p->num_layers, sizeof *weight);
    mega_status st = matches != NULL && weight != NULL
                         ? MEGA_OK
                         : MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for the weights of %d layers", p->num_layers);
    p->first[p->num_parts] = p->num_layers;
    if (p->model.first_layer != NULL) memcpy(p->first, p->model.first_layer, (size_t)p->num_parts * sizeof *p->first);
    else if (p->num_parts > 1) {
        if (st == MEGA_OK) st = model_weigh(p, matches, weight);
        if (st == MEGA_OK) st = mega_partition_balance(weight, p->num_layers, p->num_parts, p->first);
    }
    MEGA_FREE(matches, weight);
    return st == MEGA_OK ? model_check_cut(p) : st;
}

/* A head computes gradients in the forward, so that a layer with one cannot run twice. */
static mega_status find_recomputed(mega_model_parts *p)
{
    int count = 0;
    for (int l = 0; l < p->num_layers; l++) p->recomputes[l] = true;
    if (p->model.recompute_type != NULL)
        MEGA_TRY(match_types(&p->model, p->model.recompute_type, p->num_layers, p->recomputes, &count));
    for (int l = 0; l < p->num_layers; l++) p->recomputes[l] = p->recomputes[l] && !p->has_head[l];
    model_find_regions(p);
    return MEGA_OK;
}

/* ---- create ---- */

static mega_status model_allocate(mega_model_parts *p)
{
    const size_t n = (size_t)p->num_layers;
    p->first = mega_calloc((size_t)p->num_parts + 1, sizeof *p->first);
    p->flops = mega_calloc(n, sizeof *p->flops);
    p->masked_flops = mega_calloc(n, sizeof *p->masked_flops);
    p->ops_hash = mega_calloc(n, sizeof *p->ops_hash);
    p->elements = mega_calloc(n, sizeof *p->elements);
    p->border = mega_calloc(n + 1, sizeof *p->border);
    p->bytes = mega_calloc(n, sizeof *p->bytes);
    p->has_head = mega_calloc(n, sizeof *p->has_head);
    p->recomputes = mega_calloc(n, sizeof *p->recomputes);
    p->region = mega_calloc(n, sizeof *p->region);
    if (p->first != NULL && p->flops != NULL && p->masked_flops != NULL && p->ops_hash != NULL && p->elements != NULL &&
        p->border != NULL && p->bytes != NULL && p->has_head != NULL && p->recomputes != NULL && p->region != NULL) {
        MEGA_TRY(mega_params_create(p->layout, &p->params));
        mega_params_set_groups(p->params, p->sizes.groups);
        return MEGA_OK;
    }
    return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for a list of %d layers", p->num_layers);
}

static mega_status model_fill(mega_model_parts *p, mega_dtype compute)
{
    mega_graph *g = NULL;
    for (int r = 0; r < p->model.num_layers; r++) p->num_layers += model_copies(&p->model.layer[r]);
    MEGA_TRY(model_allocate(p));
    MEGA_TRY(mega_graph_create(compute, p->params, p->layout, &g));
    const mega_status st = model_walk(p, g);
    mega_graph_destroy(g);
    MEGA_TRY(st);
    MEGA_TRY(model_cut(p));
    return find_recomputed(p);
}

mega_status mega_model_parts_create(const mega_model *m, const mega_layout *layout, mega_dtype compute,
                                    mega_model_sizes sizes, int parts, mega_model_parts **out)
{
    if (out == NULL || m == NULL || layout == NULL || parts < 1)
        return MEGA_MISTAKE(
            "mega_model_parts_create: %d parts, or one of out, model and layout is NULL; give all three, "
            "and at least one part",
            parts);
    MEGA_TRY(check_model(m));
    mega_model_parts *p = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory");
    p->model = *m;
    p->layout = layout;
    p->sizes = sizes;
    p->num_parts = parts;
    const mega_status st = model_fill(p, compute);
    if (st != MEGA_OK) {
        mega_model_parts_destroy(p);
        return st;
    }
    *out = p;
    return MEGA_OK;
}

mega_status mega_model_parts_create_like(const mega_model_parts *like, mega_dtype compute, int64_t positions,
                                         mega_model_parts **out)
{
    mega_model m = like->model;
    mega_model_sizes sizes = like->sizes;
    mega_model_parts *p = NULL;
    m.first_layer = like->first;
    if (m.positions > 0) m.positions = positions;
    sizes.positions = positions;
    MEGA_TRY(mega_model_parts_create(&m, like->layout, compute, sizes, like->num_parts, &p));
    p->model.first_layer = NULL; /* it is read above alone */
    memcpy(p->region, like->region, (size_t)p->num_layers * sizeof *p->region);
    *out = p;
    return MEGA_OK;
}

void mega_model_parts_destroy(mega_model_parts *p)
{
    if (p == NULL) return;
    mega_params_destroy(p->params);
    for (int i = 0; i < p->num_ignored; i++) mega_free(p->ignored[i].input);
    MEGA_FREE(p->first, p->flops, p->masked_flops, p->ops_hash, p->elements, p->border, p->bytes, p->has_head,
              p->recomputes, p->region, p->request, p->ignored, p);
}

/* ---- results of the walk ---- */

size_t mega_model_parts_bytes(const mega_model_parts *p)
{
    const size_t of_layer = sizeof *p->border + sizeof *p->flops + sizeof *p->bytes + sizeof *p->ops_hash +
                            sizeof *p->elements + sizeof *p->recomputes + sizeof *p->region;
    return (size_t)p->num_layers * of_layer + (size_t)p->num_requests * sizeof *p->request +
           mega_params_record_bytes(p->params);
}

int mega_model_parts_count(const mega_model_parts *p)
{
    return p->num_parts;
}

int mega_model_parts_own(const mega_model_parts *p, int program)
{
    return program * p->layout->pp.size + p->layout->pp.rank;
}

int mega_model_parts_layers(const mega_model_parts *p)
{
    return p->num_layers;
}

int mega_model_parts_first(const mega_model_parts *p, int part)
{
    return part < 0 ? 0 : p->first[part < p->num_parts ? part : p->num_parts];
}

int mega_model_parts_values(const mega_model_parts *p)
{
    int most = 0;
    for (int i = 1; i < p->num_parts; i++) {
        int values = 0;
        for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
            const border_value *value = &p->border[p->first[i]].value[v];
            values += value->shape.num_dims > 0 && value->same_as < 0;
        }
        most = values > most ? values : most;
    }
    return most;
}

const mega_params *mega_model_parts_params(const mega_model_parts *p)
{
    return p->params;
}

static bool is_layer(const mega_model_parts *p, int layer)
{
    return layer >= 0 && layer < p->num_layers;
}

double mega_model_parts_flops(const mega_model_parts *p, int layer)
{
    return is_layer(p, layer) ? p->flops[layer] : 0;
}

double mega_model_parts_masked_flops(const mega_model_parts *p, int layer)
{
    return is_layer(p, layer) ? p->masked_flops[layer] : 0;
}

const char *mega_model_parts_path(const mega_model_parts *p, int layer)
{
    int index;
    return is_layer(p, layer) ? model_layer(&p->model, layer, &index)->path : "";
}

static uint64_t hash_param(uint64_t hash, const mega_param *r)
{
    const int64_t number[] = {r->shape[0],  r->shape[1],  r->true_shape[0],  r->true_shape[1], r->axis,
                              r->cut_dim,   r->num_parts, r->init,           r->weight_decay,  r->grads_are_partial,
                              r->is_frozen, r->is_buffer, r->buffer_samples, r->file_dims,     r->transposed_in_file,
                              r->stack_at,  r->stack_of,  r->buffer_choices, r->in_acc};
    hash = mega_hash64(hash, r->name, strlen(r->name));
    for (int i = 0; i < r->num_parts; i++) {
        const mega_param_part *p = &r->part[i];
        const int64_t place[] = {p->rows, p->first, p->block, p->stride, p->of_rows};
        const char *file = mega_param_file_name(r, r->file_of[i]);
        hash = mega_hash64(mega_hash64(hash, place, sizeof place), file, strlen(file));
    }
    hash = mega_hash64(hash, r->file_dim, sizeof r->file_dim);
    hash = mega_hash64(hash, &r->lr_scale, sizeof r->lr_scale);
    hash = mega_hash64(hash, &r->own_decay, sizeof r->own_decay);
    hash = mega_hash64(hash, &r->buffer_momentum, sizeof r->buffer_momentum);
    hash = mega_hash64(hash, &r->buffer_rate, sizeof r->buffer_rate);
    hash = mega_hash64(hash, &r->init_std, sizeof r->init_std);
    return mega_hash64(hash, number, sizeof number);
}

uint64_t mega_model_parts_hash(const mega_model_parts *p, int begin, int end)
{
    uint64_t hash = MEGA_HASH_START;
    int part = 0;
    for (int l = begin; l < end; l++) {
        while (p->first[part + 1] <= l) part++;
        hash = mega_hash64(hash, &part, sizeof part);
        hash = mega_hash64(hash, &p->flops[l], sizeof p->flops[l]);
        hash = mega_hash64(hash, &p->ops_hash[l], sizeof p->ops_hash[l]);
        for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
            const tensor_shape *s = &p->border[l + 1].value[v].shape;
            const int64_t number[] = {s->dtype, s->num_dims, s->dim[0], s->dim[1], s->dim[2], s->dim[3]};
            hash = mega_hash64(hash, number, sizeof number);
        }
        for (int i = 0; i < p->num_requests; i++)
            if (p->request[i].layer == l) hash = hash_param(hash, mega_params_get(p->params, p->request[i].param));
    }
    return hash;
}

void mega_model_parts_print(const mega_model_parts *p, int layer, char *out, size_t size)
{
    int part = 0;
    while (part + 1 < p->num_parts && p->first[part + 1] <= layer) part++;
    int n = snprintf(out, size, "\"%s\" in part %d, %.0f parameters, %.6g FLOPs, hash of its ops %08x, hands over",
                     mega_model_parts_path(p, layer), part, p->elements[layer], p->flops[layer],
                     (unsigned)p->ops_hash[layer]);
    for (int v = 0; v < MEGA_FLOW_VALUES && n > 0 && (size_t)n < size; v++) {
        char text[96] = "nothing";
        const tensor_shape *s = &p->border[layer + 1].value[v].shape;
        if (s->num_dims > 0) mega_shape_text(text, sizeof text, s);
        else if (v > 0)
            continue;
        n += snprintf(out + n, size - (size_t)n, " %s", text);
    }
}

bool mega_model_parts_holds(const mega_model_parts *p, int param, int stage)
{
    const int stages = p->layout->pp.size;
    for (int i = 0, part = 0; i < p->num_requests; i++) {
        while (p->first[part + 1] <= p->request[i].layer) part++;
        if (p->request[i].param == param && part % stages == stage) return true;
    }
    return false;
}
