/* Losses and metrics of values that are replicated over tp. (Cross-entropy over a sharded vocabulary:
 * mega_vocab_loss.) */
#include "layers_impl.h"

static const mega_loss no_loss = {{0}, {0}};

void mega_ignore_label(const mega_builder *b, mega_tensor labels, int32_t label)
{
    mega_graph_ignore(b->graph, labels, label);
}

mega_tensor mega_row_cross_entropy(const mega_builder *b, mega_tensor logits, mega_tensor labels)
{
    if (!layer_has_all_rows(b, "mega_row_cross_entropy")) return mega_none();
    return mega_op_cross_entropy(b->graph, logits, labels);
}

mega_loss mega_cross_entropy(const mega_builder *b, mega_tensor logits, mega_tensor labels, mega_tensor weights)
{
    if (!layer_has_all_rows(b, "mega_cross_entropy")) return no_loss;
    const int64_t classes = mega_tensor_channels(b, logits);
    const mega_tensor losses = mega_op_cross_entropy(b->graph, logits, labels);
    if (mega_graph_status(b->graph) != MEGA_OK) return no_loss;
    return (mega_loss){.sum = mega_op_weighted_sum(b->graph, losses, weights).sum,
                       .weight = mega_op_labelled_sum(b->graph, labels, weights, classes)};
}

mega_loss mega_sum(const mega_builder *b, mega_tensor x, mega_tensor weights)
{
    if (!layer_has_all_rows(b, "mega_sum")) return no_loss;
    if (mega_tensor_channels(b, x) > 0) x = mega_op_row_sum(b->graph, x);
    return mega_op_weighted_sum(b->graph, x, weights);
}

mega_loss mega_squared_error(const mega_builder *b, mega_tensor x, mega_tensor target, mega_tensor weights)
{
    if (!layer_has_all_rows(b, "mega_squared_error")) return no_loss;
    return mega_op_weighted_sum(b->graph, mega_op_squared_error(b->graph, x, target), weights);
}

/* ---- a classifier of samples ---- */

mega_tensor mega_pooler(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_linear_options *options)
{
    mega_linear_options o = options != NULL ? *options : (mega_linear_options){.no_bias = false};
    o.weight.shard_rows = true;
    const int64_t channels = mega_tensor_channels(b, x);
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const layer_linear p = layer_request_linear(b, name, out_channels, channels, &o.weight, o.no_bias);
    if (layer_has_slab(b)) x = mega_op_first_rows(b->graph, layer_to_cut_weights(b, x), b->positions);
    else /* the rows first, so that tp exchanges only their gradients */
        x = layer_to_cut_weights(b, mega_op_first_rows(b->graph, x, b->positions));
    x = layer_add_bias(b, mega_op_linear(b->graph, x, p.weight), p.bias);
    mega_scope_leave(b->graph, s);
    return x;
}

/* The sum over tp gives every rank the logits of all samples, so that the bias has whole gradients on each. */
static mega_tensor class_logits(const mega_builder *b, const char *name, mega_tensor x, int64_t classes,
                                const mega_linear_options *options)
{
    mega_linear_options o = options != NULL ? *options : (mega_linear_options){.no_bias = false};
    o.weight.shard_columns = o.weight.whole_gradients = true;
    const int64_t channels = mega_tensor_channels(b, x) * b->layout->tp.size;
    const layer_linear p = layer_request_linear(b, name, classes, channels, &o.weight, o.no_bias);
    const mega_tensor logits = mega_op_linear(b->graph, x, p.weight);
    return layer_add_bias(b, mega_op_reduce_from_group(b->graph, logits, &b->layout->tp), p.bias);
}

static mega_loss loss_of_logits(const mega_builder *b, mega_tensor logits, mega_tensor labels, int64_t classes)
{
    const mega_tensor losses = mega_op_cross_entropy(b->graph, logits, labels);
    const mega_loss loss = {.sum = mega_op_weighted_sum(b->graph, losses, mega_none()).sum,
                            .weight = mega_op_labelled_sum(b->graph, labels, mega_none(), classes)};
    return mega_graph_status(b->graph) == MEGA_OK ? loss : no_loss;
}

mega_loss mega_class_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels, int64_t classes,
                          const mega_linear_options *options, mega_tensor *out_logits)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor logits = class_logits(b, name, x, classes, options);
    const mega_loss loss = loss_of_logits(b, logits, labels, classes);
    if (out_logits != NULL) *out_logits = logits;
    mega_scope_leave(b->graph, s);
    return loss;
}

mega_loss mega_choice_loss(const mega_builder *b, const char *name, mega_tensor x, mega_tensor labels, int64_t choices,
                           const mega_linear_options *options, mega_tensor *out_logits)
{
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor logits = class_logits(b, name, x, 1, options);
    const mega_loss loss = loss_of_logits(b, mega_op_reshape(b->graph, logits, choices), labels, choices);
    if (out_logits != NULL) *out_logits = logits;
    mega_scope_leave(b->graph, s);
    return loss;
}

mega_loss mega_accuracy(const mega_builder *b, mega_tensor logits, mega_tensor labels)
{
    if (!layer_has_all_rows(b, "mega_accuracy")) return no_loss;
    return mega_op_accuracy(b->graph, logits, labels);
}
