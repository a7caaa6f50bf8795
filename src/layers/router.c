/* The router of a mixture of experts, its losses and metrics (router.h). */
#include "megalith/router.h"
#include "layers_impl.h"

static const mega_router_result no_router = {.is_gathered = false};
static const mega_router_balance_result no_balance = {{{0}, {0}}, {{0}, {0}}, {{0}, {0}}, {{0}, {0}}};

/* The bits are those of a dropout of this name. */
mega_tensor mega_router_jitter(const mega_builder *b, const char *name, mega_tensor x, double jitter)
{
    if (!(jitter >= 0.0 && jitter < 1.0))
        mega_builder_fail(
            b, LAYER_FAIL(MEGA_ERR_USAGE, b, name, "jitter %g; expected 0 or more, and below 1", layer_shown(jitter)));
    if (mega_graph_status(b->graph) != MEGA_OK || b->mode != MEGA_TRAIN || jitter == 0.0) return x;
    const mega_tensor sample = layer_own_rows(b, layer_row_input(b, "sample_id"));
    const mega_tensor position = layer_own_rows(b, layer_row_input(b, "seq_position"));
    return mega_op_route_jitter(b->graph, x, jitter, mega_builder_dropout_site(b, name), sample, position);
}

mega_tensor layer_router_logits(const mega_builder *b, const char *name, mega_tensor x, int64_t experts,
                                const mega_router_options *options)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const layer_linear p =
        layer_request_linear(b, name, experts, mega_tensor_channels(b, x), &options->weight, !options->has_bias);
    x = mega_router_jitter(b, name, x, options->jitter);
    const mega_tensor logits = options->has_bias ? layer_add_bias(b, mega_op_linear(b->graph, x, p.weight), p.bias)
                                                 : mega_op_wide_linear(b->graph, x, p.weight);
    mega_scope_leave(b->graph, s);
    return logits;
}

int64_t layer_group_tokens(const mega_builder *b, const char *layer, int64_t group_samples, int64_t tokens)
{
    if (group_samples >= 1 && b->samples % group_samples == 0 && tokens % b->samples == 0)
        return tokens / b->samples * group_samples;
    mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_USAGE, b, layer,
                                    "groups of %lld samples in a micro-batch of %lld samples and %lld tokens; expected "
                                    "a divisor of the samples, and whole samples",
                                    (long long)group_samples, (long long)b->samples, (long long)tokens));
    return 0;
}

/* Returns the keys of the choice, or none where the logits decide. */
static mega_tensor router_keys(const mega_builder *b, const char *name, const mega_router_options *o,
                               const mega_router_result *r)
{
    if (!o->sinkhorn || b->mode != MEGA_TRAIN || mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    if (o->choice_bias.id != 0)
        mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_USAGE, b, name,
                                        "%s and a choice_bias; expected one of them, as each decides the choice",
                                        "sinkhorn"));
    if (!r->is_gathered && !layer_has_all_rows(b, name)) return mega_none();
    const int64_t samples = o->sinkhorn_group > 0 ? o->sinkhorn_group : b->samples;
    const int64_t group = layer_group_tokens(b, name, samples, mega_tensor_rows(b, r->logits));
    return group > 0 ? mega_op_route_sinkhorn(b->graph, r->logits, group) : mega_none();
}

void layer_route(const mega_builder *b, const char *name, const mega_router_options *options, mega_router_result *r)
{
    const mega_tensor keys = router_keys(b, name, options, r);
    const mega_route_result chosen = keys.id != 0
                                         ? mega_op_route_by(b->graph, r->logits, keys, &options->route)
                                         : mega_op_route(b->graph, r->logits, options->choice_bias, &options->route);
    r->choice = chosen.choice, r->weight = chosen.weight, r->share = chosen.share;
}

mega_router_result mega_router(const mega_builder *b, const char *name, mega_tensor x, int64_t experts,
                               const mega_router_options *options)
{
    static const mega_router_options no_options;
    if (mega_graph_status(b->graph) != MEGA_OK) return no_router;
    if (options == NULL) options = &no_options; /* the op rejects 0 choices */
    mega_router_result r = {.logits = layer_router_logits(b, name, x, experts, options)};
    if (mega_graph_status(b->graph) != MEGA_OK) return no_router;
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    layer_route(b, name, options, &r);
    mega_scope_leave(b->graph, s);
    return mega_graph_status(b->graph) == MEGA_OK ? r : no_router;
}

/* The mean over groups. */
static mega_loss of_groups(const mega_builder *b, mega_tensor x)
{
    return mega_op_weighted_sum(b->graph, x, mega_none());
}

static bool has_losses(const mega_builder *b, const mega_router_result *router, const char *layer)
{
    return mega_graph_status(b->graph) == MEGA_OK && (router->is_gathered || layer_has_all_rows(b, layer));
}

/* A loss of a gathered result is whole on each rank of tp. The gather of the logits adds up the gradients of the ranks,
 * so that each gives its part of the loss. */
static mega_loss of_ranks(const mega_builder *b, const mega_router_result *router, mega_loss loss)
{
    if (router->is_gathered) loss.sum = mega_op_mean_over_group(b->graph, loss.sum, &b->layout->tp);
    return loss;
}

mega_router_balance_result mega_router_balance(const mega_builder *b, const mega_router_result *router,
                                               int64_t group_samples, int64_t counted)
{
    if (!has_losses(b, router, "mega_router_balance")) return no_balance;
    const int64_t group =
        layer_group_tokens(b, "mega_router_balance", group_samples, mega_tensor_rows(b, router->share));
    if (group == 0) return no_balance;
    if (counted == 0) counted = mega_tensor_channels(b, router->choice);
    const mega_route_balance_result r = mega_op_route_balance(b->graph, router->share, router->choice, group, counted);
    if (mega_graph_status(b->graph) != MEGA_OK) return no_balance;
    const mega_route_load_result load = mega_op_route_load(b->graph, r.fraction);
    const mega_router_balance_result balance = {.loss = of_ranks(b, router, of_groups(b, r.loss)),
                                                .fullest = of_groups(b, load.fullest),
                                                .emptiest = of_groups(b, load.emptiest),
                                                .entropy = of_groups(b, load.entropy)};
    return mega_graph_status(b->graph) == MEGA_OK ? balance : no_balance;
}

mega_loss mega_router_z_loss(const mega_builder *b, const mega_router_result *router, mega_tensor weights)
{
    static const mega_loss none = {{0}, {0}};
    if (!has_losses(b, router, "mega_router_z_loss")) return none;
    return of_ranks(b, router, mega_op_weighted_sum(b->graph, mega_op_route_z(b->graph, router->logits), weights));
}
