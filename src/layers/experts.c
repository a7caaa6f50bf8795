/* Layers of experts: the router, and the linear layers of all experts as one op. */
#include "megalith/experts.h"
#include "layers_impl.h"

#include <stdio.h>

struct mega_experts {
    int64_t num_experts;
    mega_expert_places at;
};

/* ---- the linear layers of the experts ---- */

/* Requests weights and biases of the experts; a part of a weight in the tensor "….weight" has its bias in "….bias". */
static layer_linear experts_request(const mega_builder *b, const mega_experts *e, const char *name, int64_t out,
                                    int64_t in, const mega_param_options *weight, bool no_bias)
{
    char full[2 * MEGA_PATH]; /* a name that is cut here is too long in any case */
    layer_linear p = {.bias = mega_none()};
    snprintf(full, sizeof full, "%s.weight", name);
    mega_param_options cut = *weight;
    cut.shard_count = true;
    p.weight = mega_builder_params(b, full, e->num_experts, out, in, &cut);
    if (no_bias) return p;
    char file[MEGA_PARAM_PARTS][MEGA_PATH] = {""};
    mega_param_options bias = {
        .shard_rows = weight->shard_rows, .blocks = weight->shard_rows ? weight->blocks : 0, .shard_count = true};
    if (!weight->shard_columns) layer_copy_parts_to_bias(b, name, weight, &bias, file);
    snprintf(full, sizeof full, "%s.bias", name);
    p.bias = mega_builder_params(b, full, e->num_experts, out, 0, &bias);
    return p;
}

static mega_tensor experts_linear(const mega_builder *b, const mega_experts *e, const char *name, mega_tensor x,
                                  int64_t out, int64_t in, const mega_linear_options *o)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    if (out < 1)
        mega_builder_fail(b,
                          LAYER_FAIL(MEGA_ERR_USAGE, b, name, "out_channels %lld; expected 1 or more", (long long)out));
    const layer_linear p = experts_request(b, e, name, out, in, &o->weight, o->no_bias);
    const mega_tensor y = mega_op_expert_linear(b->graph, x, p.weight, p.bias, &e->at);
    mega_scope_leave(b->graph, s);
    return y;
}

static bool experts_have_name(const mega_builder *b, const char *name)
{
    if (name != NULL && name[0] != '\0') return true;
    mega_builder_fail(b, MEGA_MISTAKE("layer \"%s\": a linear layer of experts has no name; give it one", b->path));
    return false;
}

mega_tensor mega_experts_column_linear(const mega_builder *b, const mega_experts *experts, const char *name,
                                       mega_tensor x, int64_t out_channels, const mega_linear_options *options)
{
    mega_linear_options o = options != NULL ? *options : (mega_linear_options){.no_bias = false};
    if (!experts_have_name(b, name)) return mega_none();
    o.weight.shard_rows = true;
    return experts_linear(b, experts, name, x, out_channels, mega_tensor_channels(b, x), &o);
}

mega_tensor mega_experts_row_linear(const mega_builder *b, const mega_experts *experts, const char *name, mega_tensor x,
                                    int64_t out_channels, const mega_linear_options *options)
{
    mega_linear_options o = options != NULL ? *options : (mega_linear_options){.no_bias = false};
    if (!experts_have_name(b, name)) return mega_none();
    o.weight.shard_columns = true;
    if (!o.no_bias)
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_UNSUPPORTED, b, name,
                                        "biases of experts whose input channels are cut over %s are not implemented "
                                        "yet; set no_bias",
                                        "tp"));
    return experts_linear(b, experts, name, x, out_channels, mega_tensor_channels(b, x) * b->layout->tp.size, &o);
}

/* ---- the layer ---- */

/* The choices and weights of all rows that this rank computes. With sequence parallelism the logits of the rows of all
 * ranks of tp are gathered; the router's gradients are partial sums, like those of a norm. */
static mega_router_result moe_route(const mega_builder *b, const char *name, mega_tensor x, const mega_moe_options *o)
{
    if (!layer_has_slab(b)) return mega_router(b, name, x, o->num_experts, &o->router);
    mega_router_result r = {.logits = layer_router_logits(b, name, x, o->num_experts, &o->router)};
    r.logits = mega_op_gather_from_sequence(b->graph, r.logits, &b->layout->tp);
    const mega_route_result chosen = mega_op_route(b->graph, r.logits, o->router.choice_bias, &o->router.route);
    r.choice = chosen.choice, r.weight = chosen.weight, r.share = chosen.share;
    return r;
}

static bool moe_is_described(const mega_builder *b, const char *name, const mega_moe_options *o,
                             mega_expert_function *expert)
{
    if (mega_graph_status(b->graph) != MEGA_OK) return false;
    if (name != NULL && name[0] != '\0' && o != NULL && o->num_experts > 0 && expert != NULL) return true;
    mega_builder_fail(
        b, MEGA_MISTAKE("layer \"%s\": a layer of experts called \"%s\", of %lld experts%s; expected a name, "
                        "options, 1 expert or more and a function that describes them",
                        b->path, name == NULL ? "" : name, o == NULL ? 0LL : (long long)o->num_experts,
                        expert == NULL ? ", without a function" : ""));
    return false;
}

mega_tensor mega_moe(const mega_builder *b, const char *name, mega_tensor x, const mega_moe_options *options,
                     mega_expert_function *expert, const void *self, mega_router_result *out_router)
{
    mega_graph *g = b->graph;
    char router[2 * MEGA_PATH]; /* a name that is cut here is too long in any case */
    if (out_router != NULL) *out_router = (mega_router_result){{0}, {0}, {0}, {0}};
    if (!moe_is_described(b, name, options, expert)) return mega_none();
    snprintf(router, sizeof router, "%s.gate", name);
    const mega_router_result r = moe_route(b, options->router_name != NULL ? options->router_name : router, x, options);
    const mega_scope s = mega_scope_enter(g, "%s", name);
    const mega_experts experts = {options->num_experts, mega_op_expert_order(g, r.choice, options->num_experts)};
    const mega_tensor rows = mega_op_expert_rows(g, layer_to_cut_weights(b, x), &experts.at);
    const mega_tensor y = expert(b, &experts, rows, self);
    /* y are partial sums over tp, so that the gradient of the weights is one too. With sequence parallelism the gather
     * of the logits adds it up. */
    const mega_tensor weight = layer_has_slab(b) ? r.weight : mega_op_copy_to_group(g, r.weight, &b->layout->tp);
    const mega_tensor sum = layer_from_cut_weights(b, mega_op_expert_combine(g, y, weight, &experts.at));
    mega_scope_leave(g, s);
    if (out_router != NULL) *out_router = r;
    return sum;
}
