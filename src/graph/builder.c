/* The context of a layer: extends paths, and returns inputs and parameters by name. Mistakes are recorded in the
 * graph. */
#include "megalith/builder.h"
#include "graph_impl.h"
#include "megalith/name.h"
#include "megalith/parameter_request.h"
#include "megalith/philox.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { INPUT_NAME = 48 };

mega_status mega_graph_check_name(const char *path, const char *what, const char *name)
{
    char text[4 * MEGA_PATH], at[4 * MEGA_PATH];
    if (mega_name_is_text(name)) return MEGA_OK;
    return MEGA_MISTAKE("layer \"%s\": the name of %s, \"%s\", is not UTF-8 text without control characters; choose "
                        "another name, which files and messages can hold",
                        mega_name_escape(at, sizeof at, path), what, mega_name_escape(text, sizeof text, name));
}

mega_builder mega_builder_at(const mega_builder *b, const char *fmt, ...)
{
    mega_builder at = *b;
    size_t length = strlen(b->path);
    if (length > 0 && length + 1 < sizeof at.path) at.path[length++] = '.';
    va_list ap;
    va_start(ap, fmt);
    const int step = fmt == NULL ? 0 : vsnprintf(at.path + length, sizeof at.path - length, fmt, ap);
    va_end(ap);
    if (step == 0 && b->path[0] != '\0') {
        mega_graph_fail(at.graph, MEGA_MISTAKE("layer \"%s\": a part of it has no name; give it one", b->path));
        return *b;
    }
    if (step < 0 || length + (size_t)step >= sizeof at.path)
        mega_graph_fail(at.graph,
                        MEGA_MISTAKE("layer \"%s…\": its path has %lld characters; expected at most %zu, choose "
                                     "shorter names",
                                     at.path, (long long)length + step, sizeof at.path - 1));
    else
        mega_graph_fail(at.graph, mega_graph_check_name(b->path, "a part of it", at.path));
    return at;
}

void mega_builder_fail(const mega_builder *b, mega_status st)
{
    mega_graph_fail(b->graph, st);
}

int64_t mega_tensor_rows(const mega_builder *b, mega_tensor x)
{
    return mega_graph_dim(b->graph, x, 0);
}

int64_t mega_tensor_channels(const mega_builder *b, mega_tensor x)
{
    return mega_graph_dim_count(b->graph, x) < 2 ? 0 : mega_graph_dim(b->graph, x, 1);
}

static int32_t find_named(const mega_graph *g, const char *name)
{
    for (int i = 0; i < g->names.num_named; i++)
        if (strcmp(g->names.named[i].name, name) == 0) return g->names.named[i].tensor;
    return 0;
}

static mega_status builder_check_input(const mega_builder *b, const char *name, mega_dtype dtype, int64_t positions,
                                       int64_t channels)
{
    if (name == NULL || name[0] == '\0')
        return MEGA_MISTAKE("layer \"%s\": an input is requested without a name; give one", b->path);
    MEGA_TRY(mega_graph_check_name(b->path, "an input", name));
    if (dtype == MEGA_I32 && channels > 0)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "layer \"%s\": input \"%s\" is requested as i32 with %lld channels; expected f32, or 0 channels "
            "for ids",
            b->path, name, (long long)channels);
    if (dtype != MEGA_I32 && dtype != MEGA_F32 && dtype != b->graph->dtype)
        return MEGA_MISTAKE("layer \"%s\": input \"%s\" is requested as %s; expected f32 or i32", b->path, name,
                            mega_dtype_name(dtype));
    if (positions >= 1 && channels >= 0) return MEGA_OK;
    return MEGA_MISTAKE(
        "layer \"%s\": input \"%s\" is requested with %lld positions and %lld channels; expected at least "
        "1 position, and 0 channels or more",
        b->path, name, (long long)positions, (long long)channels);
}

static bool builder_leaves_to_engine(const char *name)
{
    return strcmp(name, "sample_id") == 0 || strcmp(name, "seq_position") == 0;
}

/* If the program has an input of the engine for rows of another length, such as those of an encoder, the one of these
 * rows is another input: NAME.POSITIONS. */
static const char *name_by_positions(const mega_builder *b, const char *name, int64_t positions, char other[INPUT_NAME])
{
    const int32_t id = find_named(b->graph, name);
    if (id == 0 || !builder_leaves_to_engine(name) || b->graph->tensor[id].shape.dim[0] == b->samples * positions)
        return name;
    snprintf(other, INPUT_NAME, "%s.%lld", name, (long long)positions);
    return other;
}

mega_tensor mega_input(const mega_builder *b, const char *name, mega_dtype dtype, int64_t positions, int64_t channels)
{
    mega_graph *g = b->graph;
    char other[INPUT_NAME];
    if (g->status != MEGA_OK) return mega_none();
    mega_graph_fail(g, builder_check_input(b, name, dtype, positions, channels));
    if (g->status != MEGA_OK) return mega_none();
    if (channels > 0 && dtype == MEGA_F32) dtype = g->dtype;
    const int64_t dim[2] = {mega_extent_mul(b->samples, positions), channels};
    const bool by_engine = builder_leaves_to_engine(name);
    name = name_by_positions(b, name, positions, other);
    const int32_t id = find_named(g, name);
    if (id == 0) {
        const mega_tensor input = mega_graph_input(g, name, dtype, channels == 0 ? 1 : 2, dim);
        if (input.id != 0) g->tensor[input.id].is_of_engine = by_engine;
        return input;
    }
    const graph_tensor *t = &g->tensor[id];
    const tensor_shape asked = {dtype, channels == 0 ? 1 : 2, {dim[0], dim[1], 0, 0}};
    char a[96], f[96];
    if (t->role != ROLE_INPUT || !mega_shape_equal(&t->shape, &asked))
        mega_graph_fail(g,
                        MEGA_MISTAKE("layer \"%s\": input \"%s\" is requested as %s, but the program has an %s of that "
                                     "name, %s; request one type and shape under a name",
                                     b->path, name, mega_shape_text(a, sizeof a, &asked),
                                     t->role == ROLE_INPUT ? "input" : "output or state",
                                     mega_shape_text(f, sizeof f, &t->shape)));
    return g->status == MEGA_OK ? (mega_tensor){id} : mega_none();
}

static bool is_default(const mega_param_options *o)
{
    return o->init == MEGA_INIT_FAN_IN && o->init_std == 0 && o->decay == MEGA_DECAY_DEFAULT && o->lr_scale == 0 &&
           !o->shard_rows && !o->shard_columns && !o->shard_count && o->blocks == 0 && o->num_parts == 0 &&
           !o->transposed_in_file && o->padding_rows == 0 && !o->partial_gradients && !o->whole_gradients &&
           !o->is_frozen && !o->is_buffer && o->file_dims == 0 && o->buffer_momentum == 0 && o->buffer_samples == 0 &&
           o->buffer_rate == 0 && o->buffer_choices == 0 && !o->in_acc && !o->is_stacked;
}

static bool is_part_given(const mega_param_options *o)
{
    bool given = false;
    for (int i = 0; i < MEGA_PARAM_PARTS; i++) {
        const mega_param_part *p = &o->part[i];
        given = given || p->file != NULL || p->rows != 0 || p->first != 0 || p->block != 0 || p->stride != 0 ||
                p->of_rows != 0;
    }
    return given;
}

/* Checks only the options that parameter.c does not check as part of the record. */
static mega_status builder_check_options(const char *name, const mega_param_options *o, const mega_param *r)
{
    const int64_t rows = r->shape[r->cut_dim];
    if (o->blocks < 0 || o->blocks > MEGA_PARAM_PARTS)
        return MEGA_MISTAKE("parameter %s: %d blocks; expected 1 or more, at most %d, or 0 for 1", name, o->blocks,
                            MEGA_PARAM_PARTS);
    if (o->blocks > 0 && o->num_parts != 0)
        return MEGA_MISTAKE("parameter %s: %d blocks and %d parts; give one of the two", name, o->blocks, o->num_parts);
    if (o->num_parts == 0 && is_part_given(o))
        return MEGA_MISTAKE("parameter %s: parts are given, num_parts is 0; give their number", name);
    if (o->blocks > 1 && rows % o->blocks != 0)
        return MEGA_MISTAKE("parameter %s: %lld %s in %d blocks; expected a multiple of %d", name, (long long)rows,
                            r->cut_dim == 0 ? "rows" : "columns", o->blocks, o->blocks);
    if ((unsigned)o->decay > MEGA_DECAY_NO)
        return MEGA_MISTAKE("parameter %s: decay %d; expected MEGA_DECAY_DEFAULT, MEGA_DECAY_YES or MEGA_DECAY_NO",
                            name, (int)o->decay);
    if (o->padding_rows < 0)
        return MEGA_MISTAKE("parameter %s: padding_rows %lld; expected 0 or more", name, (long long)o->padding_rows);
    return MEGA_OK;
}

/* The record that a request describes, and the names that it points to. */
typedef struct requested {
    mega_param record;
    char file[MEGA_PARAM_PARTS][MEGA_PARAM_NAME];
} requested;

static mega_status copy_parts(const mega_builder *b, const mega_param_options *o, requested *out)
{
    mega_param *r = &out->record;
    if (o->blocks > 1) mega_param_set_blocks(r, o->blocks);
    if (o->num_parts != 0) r->num_parts = o->num_parts;
    for (int i = 0; i < o->num_parts && i < MEGA_PARAM_PARTS; i++) {
        r->part[i] = o->part[i];
        if (o->part[i].file == NULL) continue;
        if (o->part[i].file[0] == '\0')
            return MEGA_MISTAKE("parameter %s: part %d: the name of its tensor is empty; give one, or NULL", r->name,
                                i);
        const int n = snprintf(out->file[i], sizeof out->file[i], "%s%s%s", b->path, b->path[0] == '\0' ? "" : ".",
                               o->part[i].file);
        if (n < 0 || (size_t)n >= sizeof out->file[i])
            return MEGA_MISTAKE(
                "parameter %s: part %d: the name of its tensor, \"%s…\", has %d bytes; expected at most "
                "%zu, choose shorter names",
                r->name, i, out->file[i], n, sizeof out->file[i] - 1);
        r->part[i].file = out->file[i];
    }
    return MEGA_OK;
}

static mega_status make_record(const mega_builder *b, const char *name, int64_t rows, int64_t columns,
                               const mega_param_options *o, requested *out)
{
    mega_param r = {.num_dims = columns == 0 ? 1 : 2,
                    .shape = {rows, columns},
                    .true_shape = {rows - o->padding_rows, columns},
                    .transposed_in_file = o->transposed_in_file,
                    .axis = o->shard_rows || o->shard_columns ? MEGA_AXIS_TP : MEGA_AXIS_NONE,
                    .cut_dim = o->shard_columns ? 1 : 0,
                    .init = o->init,
                    .init_std = o->init_std,
                    .weight_decay = o->decay == MEGA_DECAY_DEFAULT ? columns != 0 : o->decay == MEGA_DECAY_YES,
                    .lr_scale = o->lr_scale,
                    .file_dims = o->file_dims,
                    .is_frozen = o->is_frozen,
                    .is_buffer = o->is_buffer,
                    .buffer_momentum = o->buffer_momentum,
                    .buffer_samples = o->buffer_samples,
                    .buffer_rate = o->buffer_rate,
                    .buffer_choices = o->buffer_choices,
                    .in_acc = o->in_acc};
    for (int d = 0; d < o->file_dims && d < 4; d++) r.file_dim[d] = o->file_dim[d];
    if (columns == 0 && o->init == MEGA_INIT_FAN_IN && o->init_std == 0) r.init = MEGA_INIT_ZERO;
    const bool is_cut = r.axis != MEGA_AXIS_NONE;
    r.grads_are_partial = !is_cut && b->graph->sequence_parallel && !r.is_buffer && !o->whole_gradients;
    if (o->partial_gradients && b->layout->tp.size > 1) r.grads_are_partial = true;
    const int n = snprintf(r.name, sizeof r.name, "%s%s%s", b->path, b->path[0] == '\0' ? "" : ".", name);
    if (n < 0 || (size_t)n >= sizeof r.name)
        return MEGA_MISTAKE("parameter \"%s…\": its name has %d characters; expected at most %zu, choose shorter names",
                            r.name, n, sizeof r.name - 1);
    if (name[0] == '\0')
        return MEGA_MISTAKE("layer \"%s\": a parameter is requested without a name; give one", b->path);
    MEGA_TRY(mega_graph_check_name(b->path, "a parameter", r.name));
    MEGA_TRY(builder_check_options(r.name, o, &r));
    if (o->partial_gradients && (is_cut || r.is_buffer || o->whole_gradients))
        return MEGA_MISTAKE("parameter %s: partial_gradients of %s; expected a replicated parameter", r.name,
                            is_cut        ? "a parameter that is cut over tp"
                            : r.is_buffer ? "a buffer"
                                          : "a parameter with whole_gradients");
    if (o->shard_rows && o->shard_columns)
        return MEGA_MISTAKE("parameter %s: shard_rows and shard_columns are both set; choose one of them", r.name);
    out->record = r;
    return copy_parts(b, o, out);
}

/* Lists a request of the layer that is being described, if the graph lists requests. */
static mega_status note_request(mega_graph *g, int param)
{
    if (!g->walk.lists_requests) return MEGA_OK;
    for (int i = g->walk.num_requests - 1; i >= 0 && g->walk.request[i].layer == g->walk.layer; i--)
        if (g->walk.request[i].param == param) return MEGA_OK;
    if (!mega_array_add(&g->walk.request, g->walk.num_requests, sizeof *g->walk.request))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for a list of %d requests", g->walk.num_requests + 1);
    g->walk.request[g->walk.num_requests++] = (param_request){g->walk.layer, param};
    return MEGA_OK;
}

/* Declares or finds a parameter; *out_index receives its number. */
static mega_status builder_request(const mega_builder *b, const requested *r, bool has_options, int *out_index)
{
    mega_graph *g = b->graph;
    if (g->params == NULL)
        return MEGA_MISTAKE("parameter %s: the graph was created without a list of parameters; give "
                            "mega_graph_create one",
                            r->record.name);
    MEGA_TRY(mega_params_request(g->params, &r->record, has_options, out_index));
    return note_request(g, *out_index);
}

static const mega_param_options default_param = {.init = MEGA_INIT_FAN_IN};

mega_tensor mega_builder_param(const mega_builder *b, const char *name, int64_t rows, int64_t columns,
                               const mega_param_options *options)
{
    mega_graph *g = b->graph;
    requested r;
    int index = -1;
    if (g->status != MEGA_OK) return mega_none();
    if (options == NULL) options = &default_param;
    if (name == NULL) {
        mega_graph_fail(g, MEGA_MISTAKE("layer \"%s\": a parameter is requested without a name; give one", b->path));
        return mega_none();
    }
    mega_status st = make_record(b, name, rows, columns, options, &r);
    if (st == MEGA_OK && options->is_stacked)
        st = MEGA_MISTAKE("parameter %s: is_stacked of one parameter; expected it of mega_builder_params",
                          r.record.name);
    if (st == MEGA_OK) st = builder_request(b, &r, !is_default(options), &index);
    mega_graph_fail(g, st);
    return mega_graph_param(g, index);
}

/* ---- several parameters as one tensor ---- */

/* Writes the name with the number in place of #, which that of one parameter alone need not have. */
static mega_status builder_put_number(const mega_builder *b, char out[MEGA_PARAM_NAME], const char *name,
                                      int64_t number, bool is_alone)
{
    const char *at = strchr(name, '#');
    if (is_alone && at == NULL && strlen(name) < MEGA_PARAM_NAME) {
        memcpy(out, name, strlen(name) + 1);
        return MEGA_OK;
    }
    if (at == NULL || strchr(at + 1, '#') != NULL)
        return MEGA_MISTAKE("layer \"%s\": \"%s\" is the name of several parameters; expected one # in it, in place of "
                            "which each has its number",
                            b->path, name);
    const int n = snprintf(out, MEGA_PARAM_NAME, "%.*s%lld%s", (int)(at - name), name, (long long)number, at + 1);
    if (n < 0 || n >= MEGA_PARAM_NAME)
        return MEGA_MISTAKE("layer \"%s\": the name \"%s\" has %d bytes with its number; expected at most %d, choose a "
                            "shorter one",
                            b->path, name, n, MEGA_PARAM_NAME - 1);
    return MEGA_OK;
}

/* Parameters that are requested as one tensor: their numbers here, and in the whole model. */
typedef struct numbered {
    const char *name;
    int64_t first, count, all;
} numbered;

static mega_status request_numbered(const mega_builder *b, const numbered *n, int64_t number, int64_t rows,
                                    int64_t columns, const mega_param_options *options, int *out_index)
{
    mega_param_options o = *options;
    char own[MEGA_PARAM_NAME], file[MEGA_PARAM_PARTS][MEGA_PARAM_NAME];
    requested r;
    MEGA_TRY(builder_put_number(b, own, n->name, number, n->all == 1));
    for (int i = 0; i < o.num_parts && i < MEGA_PARAM_PARTS; i++) {
        if (o.part[i].file == NULL || strchr(o.part[i].file, '#') == NULL) continue;
        MEGA_TRY(builder_put_number(b, file[i], o.part[i].file, number, false));
        o.part[i].file = file[i];
    }
    MEGA_TRY(make_record(b, own, rows, columns, &o, &r));
    r.record.joins_next = number % n->count > 0;
    if (n->count < n->all) r.record.held_by = 1 + (int)(number / n->count);
    if (o.is_stacked) r.record.stack_at = number, r.record.stack_of = n->all;
    return builder_request(b, &r, !is_default(options), out_index);
}

/* The walk over the whole model declares the parameters of all ranks. */
static mega_tensor request_all(const mega_builder *b, const numbered *n, int64_t rows, int64_t columns,
                               const mega_param_options *options)
{
    mega_graph *g = b->graph;
    const bool is_whole = g->walk.lists_requests;
    const int64_t begin = is_whole ? 0 : n->first, end = is_whole ? n->all : n->first + n->count;
    int index = -1, last = -1, own = -1;
    for (int64_t i = end - 1; i >= begin && g->status == MEGA_OK; i--) { /* memory has the last one first */
        mega_graph_fail(g, request_numbered(b, n, i, rows, columns, options, &index));
        if (g->status == MEGA_OK && last >= 0 && index != last + 1)
            mega_graph_fail(g, MEGA_MISTAKE("layer \"%s\": parameters \"%s\" are requested as one tensor, but were "
                                            "declared apart; request them in one way",
                                            b->path, n->name));
        last = index;
        if (i == n->first) own = index;
    }
    if (g->status != MEGA_OK) return mega_none();
    if (mega_params_joined(g->params, own) != n->count) {
        mega_graph_fail(g, MEGA_MISTAKE("layer \"%s\": %lld parameters called \"%s\" are requested as one tensor, of "
                                        "which an earlier request made %d; request one number of them",
                                        b->path, (long long)n->count, n->name, mega_params_joined(g->params, own)));
        return mega_none();
    }
    return mega_graph_joined_params(g, own);
}

mega_tensor mega_builder_params(const mega_builder *b, const char *name, int64_t count, int64_t rows, int64_t columns,
                                const mega_param_options *options)
{
    mega_graph *g = b->graph;
    if (g->status != MEGA_OK) return mega_none();
    if (options == NULL) options = &default_param;
    const mega_axis ep = options->shard_count ? b->layout->ep : (mega_axis){.size = 1};
    if (name == NULL || count < 1 || count > MEGA_MOST_JOINED)
        mega_graph_fail(g, MEGA_MISTAKE("layer \"%s\": %lld parameters called \"%s\" are requested as one tensor; "
                                        "expected 1 to %d, and a name",
                                        b->path, (long long)count, name == NULL ? "" : name, MEGA_MOST_JOINED));
    else if (count % ep.size != 0)
        mega_graph_fail(g, MEGA_MISTAKE("layer \"%s\": %lld parameters called \"%s\" over %d ranks of ep; expected a "
                                        "multiple of the ranks (--expert-model-parallel-size)",
                                        b->path, (long long)count, name, ep.size));
    if (g->status != MEGA_OK) return mega_none();
    const int64_t each = count / ep.size;
    return request_all(b, &(numbered){name, ep.rank * each, each, count}, rows, columns, options);
}

static mega_status add_dropout(mega_graph *g, const char *path, uint32_t site)
{
    for (int i = 0; i < g->walk.num_dropouts; i++)
        if (g->walk.dropout[i].site == site)
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "dropout \"%s\": dropout \"%s\" of this program would have the same mask; give each a path "
                "of its own",
                path, g->walk.dropout[i].path);
    const char *text = mega_arena_strdup(&g->arena, path);
    if (text == NULL || !mega_array_add(&g->walk.dropout, g->walk.num_dropouts, sizeof *g->walk.dropout))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "graph: no memory for the path of dropout \"%s\"", path);
    g->walk.dropout[g->walk.num_dropouts++] = (dropout_site){text, site};
    return MEGA_OK;
}

void mega_recompute_begin(const mega_builder *b)
{
    mega_graph *g = b->graph;
    if (g->status != MEGA_OK) return;
    g->regions.opened_by_layer++;
    if (b->mode != MEGA_TRAIN || mega_graph_region_is_open(g)) return;
    g->regions.is_open_layers = true;
    mega_graph_region_begin(g);
}

void mega_recompute_end(const mega_builder *b)
{
    mega_graph *g = b->graph;
    if (g->status != MEGA_OK) return;
    if (g->regions.opened_by_layer == 0) {
        mega_graph_fail(
            g,
            MEGA_MISTAKE("layer \"%s\": mega_recompute_end without mega_recompute_begin; call them in pairs", b->path));
        return;
    }
    if (--g->regions.opened_by_layer > 0 || !g->regions.is_open_layers) return;
    g->regions.is_open_layers = false;
    mega_graph_region_end(g);
}

uint32_t mega_builder_dropout_site(const mega_builder *b, const char *name)
{
    mega_graph *g = b->graph;
    if (name == NULL || name[0] == '\0') {
        mega_graph_fail(g, MEGA_MISTAKE("layer \"%s\": a dropout has no name; give it one", b->path));
        return 0;
    }
    const mega_builder at = mega_builder_at(b, "%s", name);
    if (g->status != MEGA_OK) return 0;
    const uint32_t site = mega_dropout_site(at.path);
    mega_graph_fail(g, add_dropout(g, at.path, site));
    return site;
}
