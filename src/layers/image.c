/* Image layers: convolution, pooling, batch norm. The positions of a sample are the pixels of an image. */
#include "layers_impl.h"

#include <math.h>

/* Largest kernel size. Its square times any realistic number of channels still fits the number of elements of a
 * tensor. */
enum { MOST_KERNEL = 1024 };

/* Sets *out to the windows of a layer over images of this size. Returns false, and records an error, if size is
 * NULL. */
static bool windows_of(const mega_builder *b, const char *layer, const mega_image_size *size, int window, int stride,
                       int padding, mega_windows *out)
{
    if (mega_graph_status(b->graph) != MEGA_OK || !layer_has_all_rows(b, layer)) return false;
    if (size == NULL) {
        mega_builder_fail(
            b, LAYER_FAIL(MEGA_ERR_USAGE, b, layer, "inout_size is NULL; give the height and width of the images"));
        return false;
    }
    *out = (mega_windows){
        .height = size->height, .width = size->width, .size = window, .stride = stride, .padding = padding};
    return true;
}

/* Sets *size to the image size of the result of an op with these windows; returns y. */
static mega_tensor resized(const mega_builder *b, mega_tensor y, const mega_windows *w, mega_image_size *size)
{
    if (mega_graph_status(b->graph) == MEGA_OK)
        *size = (mega_image_size){.height = mega_windows_along(w, w->height), .width = mega_windows_along(w, w->width)};
    return y;
}

mega_tensor mega_conv2d(const mega_builder *b, const char *name, mega_tensor x, int64_t out_channels,
                        const mega_conv_options *options, mega_image_size *inout_size)
{
    static const mega_conv_options none = {.kernel_size = 0};
    const mega_conv_options *o = options != NULL ? options : &none;
    mega_windows w;
    const int size = o->kernel_size;
    if (!windows_of(b, "mega_conv2d", inout_size, size, o->stride != 0 ? o->stride : 1, o->padding, &w))
        return mega_none();
    if (size < 1 || size > MOST_KERNEL) {
        mega_builder_fail(b, MEGA_MISTAKE("layer \"%s\", mega_conv2d \"%s\": kernel_size %d; expected 1 to %d pixels",
                                          b->path, name, size, MOST_KERNEL));
        return mega_none();
    }
    const int64_t fan_in = mega_tensor_channels(b, x) * size * size;
    const mega_param_options weight = {
        .init = o->init, .file_dims = 4, .file_dim = {out_channels, mega_tensor_channels(b, x), size, size}};
    const mega_param_options bias = {.init = MEGA_INIT_FAN_IN, .init_std = 1.0 / sqrt((double)fan_in)};
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor filter = layer_param(b, name, "weight", out_channels, fan_in, &weight);
    const mega_tensor added = o->no_bias ? mega_none() : layer_param(b, name, "bias", out_channels, 0, &bias);
    const mega_tensor y = mega_op_conv2d(b->graph, x, filter, added, &w);
    mega_scope_leave(b->graph, s);
    return resized(b, y, &w, inout_size);
}

static bool pool_windows(const mega_builder *b, const char *layer, const mega_pool_options *o,
                         const mega_image_size *size, mega_windows *out)
{
    static const mega_pool_options none = {.window = 0};
    if (o == NULL) o = &none;
    return windows_of(b, layer, size, o->window, o->stride != 0 ? o->stride : o->window, o->padding, out);
}

mega_tensor mega_max_pool2d(const mega_builder *b, mega_tensor x, const mega_pool_options *options,
                            mega_image_size *inout_size)
{
    mega_windows w;
    if (!pool_windows(b, "mega_max_pool2d", options, inout_size, &w)) return mega_none();
    return resized(b, mega_op_max_pool2d(b->graph, x, &w), &w, inout_size);
}

mega_tensor mega_mean_pool2d(const mega_builder *b, mega_tensor x, const mega_pool_options *options,
                             mega_image_size *inout_size)
{
    mega_windows w;
    if (!pool_windows(b, "mega_mean_pool2d", options, inout_size, &w)) return mega_none();
    return resized(b, mega_op_mean_pool2d(b->graph, x, &w), &w, inout_size);
}

/* Checks sizes. A group must consist of whole samples, so that its statistics are the same in every layout. */
static mega_status image_check_groups(const mega_builder *b, const char *name, mega_tensor x, int group_samples,
                                      double momentum)
{
    if (!(momentum >= 0 && momentum < 1))
        return MEGA_MISTAKE("layer \"%s\", mega_batch_norm \"%s\": momentum %g; expected 0 or more, and below 1",
                            b->path, name, momentum);
    if (b->mode != MEGA_TRAIN && momentum > 0 && group_samples >= 1) return MEGA_OK; /* running statistics: no groups */
    if (group_samples < 1 || b->samples % group_samples != 0 || mega_tensor_rows(b, x) % b->samples != 0)
        return MEGA_MISTAKE(
            "layer \"%s\", mega_batch_norm \"%s\": groups of %d samples in a micro-batch of %lld samples "
            "and %lld rows; expected a divisor of the samples, and whole samples",
            b->path, name, group_samples, (long long)b->samples, (long long)mega_tensor_rows(b, x));
    return MEGA_OK;
}

/* With momentum 0 there are no running statistics. */
static mega_batch_norm_running running_statistics(const mega_builder *b, const char *name, int64_t channels,
                                                  int group_samples, double momentum)
{
    mega_param_options o = {
        .init = MEGA_INIT_ZERO, .is_buffer = true, .buffer_momentum = momentum, .buffer_samples = group_samples};
    mega_batch_norm_running r = {.momentum = momentum};
    if (momentum <= 0) return r;
    r.mean = layer_param(b, name, "running_mean", channels, 0, &o);
    o.init = MEGA_INIT_ONE;
    r.var = layer_param(b, name, "running_var", channels, 0, &o);
    return r;
}

mega_tensor mega_batch_norm(const mega_builder *b, const char *name, mega_tensor x, int group_samples, double momentum,
                            double epsilon)
{
    const mega_param_options ones = {.init = MEGA_INIT_ONE};
    const int64_t channels = mega_tensor_channels(b, x);
    if (mega_graph_status(b->graph) != MEGA_OK || !layer_has_all_rows(b, "mega_batch_norm")) return mega_none();
    mega_builder_fail(b, image_check_groups(b, name, x, group_samples, momentum));
    if (mega_graph_status(b->graph) != MEGA_OK) return mega_none();
    const mega_scope s = mega_scope_enter(b->graph, "%s", name);
    const mega_tensor gain = layer_param(b, name, "weight", channels, 0, &ones);
    const mega_tensor bias = layer_param(b, name, "bias", channels, 0, NULL);
    const mega_batch_norm_running running = running_statistics(b, name, channels, group_samples, momentum);
    const int64_t rows = mega_tensor_rows(b, x) / b->samples * group_samples;
    const mega_tensor y = b->mode != MEGA_TRAIN && momentum > 0
                              ? mega_op_batch_norm_fixed(b->graph, x, gain, bias, running.mean, running.var, epsilon)
                              : mega_op_batch_norm_running(b->graph, x, gain, bias, &running, rows, epsilon).y;
    mega_scope_leave(b->graph, s);
    return y;
}
