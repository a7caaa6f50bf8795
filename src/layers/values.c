/* Layers without parameters: arithmetic and reshaping. */
#include "layers_impl.h"

mega_tensor mega_add(const mega_builder *b, mega_tensor x, mega_tensor y)
{
    return mega_op_add(b->graph, x, y);
}

mega_tensor mega_mul(const mega_builder *b, mega_tensor x, mega_tensor y)
{
    return mega_op_mul(b->graph, x, y);
}

mega_tensor mega_scale(const mega_builder *b, mega_tensor x, double factor)
{
    return mega_op_scale(b->graph, x, factor);
}

mega_tensor mega_bias_add(const mega_builder *b, mega_tensor x, mega_tensor bias)
{
    return mega_op_bias_add(b->graph, x, bias);
}

/* Returns the rows of x per sample of the micro-batch; 0, and records an error, if x does not have equally many rows
 * for each sample. */
static int64_t value_positions(const mega_builder *b, const char *layer, mega_tensor x)
{
    const int64_t rows = mega_tensor_rows(b, x) * (layer_has_slab(b) ? b->layout->tp.size : 1);
    if (mega_graph_status(b->graph) != MEGA_OK) return 0;
    if (b->samples > 0 && rows > 0 && rows % b->samples == 0) return rows / b->samples;
    mega_builder_fail(b, LAYER_FAIL(MEGA_ERR_USAGE, b, layer,
                                    "a value of %lld rows; expected as many for each of the %lld "
                                    "samples",
                                    (long long)rows, (long long)b->samples));
    return 0;
}

mega_tensor mega_reshape(const mega_builder *b, mega_tensor x, int64_t channels)
{
    const int64_t positions = value_positions(b, "mega_reshape", x);
    const int64_t of_row = mega_tensor_channels(b, x) > 0 ? mega_tensor_channels(b, x) : 1;
    if (positions == 0) return mega_none();
    if (channels < 1 || positions * of_row % channels != 0) {
        mega_builder_fail(
            b, MEGA_MISTAKE("layer \"%s\", mega_reshape: rows of %lld channels; a sample has %lld values, and "
                            "a row must not cross a sample, so expected a divisor of them",
                            b->path, (long long)channels, (long long)(positions * of_row)));
        return mega_none();
    }
    return mega_op_reshape(b->graph, x, channels);
}

mega_tensor mega_first_position(const mega_builder *b, mega_tensor x)
{
    const int64_t positions = value_positions(b, "mega_first_position", x);
    if (positions == 0 || !layer_has_all_rows(b, "mega_first_position")) return mega_none();
    return mega_op_first_rows(b->graph, x, positions);
}

mega_tensor mega_mean_positions(const mega_builder *b, mega_tensor x)
{
    const int64_t positions = value_positions(b, "mega_mean_positions", x);
    if (positions == 0 || !layer_has_all_rows(b, "mega_mean_positions")) return mega_none();
    return mega_op_mean_rows(b->graph, x, positions);
}
