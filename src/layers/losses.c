/* Losses and metrics of values that are replicated over tp. (Cross-entropy over a sharded vocabulary:
 * mega_vocab_loss.) */
#include "layers_impl.h"

static const mega_loss no_loss = {{0}, {0}};

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

mega_loss mega_accuracy(const mega_builder *b, mega_tensor logits, mega_tensor labels)
{
    if (!layer_has_all_rows(b, "mega_accuracy")) return no_loss;
    return mega_op_accuracy(b->graph, logits, labels);
}
