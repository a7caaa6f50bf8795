/* Blocks of the encoder and the decoder of T5 (t5_blocks.h). */
#include "megalith/t5_blocks.h"

#include <stdio.h>

static const mega_t5_options none;

static mega_tensor norm(const mega_builder *b, mega_tensor x, const mega_t5_options *o)
{
    const mega_norm_options n = {.kind = MEGA_RMS_NORM, .epsilon = o->epsilon > 0.0 ? o->epsilon : 1e-6};
    return mega_norm_with(b, "layer_norm", x, &n);
}

/* Names of the tensors of a weight in the file, for as long as its options are used. */
typedef struct weight_files {
    char name[3][MEGA_PATH];
} weight_files;

/* Returns a weight of `count` parts of `rows` rows each, NAME.PART.weight in the file. */
static mega_linear_options bias_weight(const mega_t5_options *o, const char *name, int count, const char *const *part,
                                       int64_t rows, weight_files *files)
{
    mega_linear_options w = {.no_bias = true, .weight = o->weights};
    for (int i = 0; i < count; i++) {
        snprintf(files->name[i], sizeof files->name[i], "%s.%s.weight", name, part[i]);
        w.weight.part[i] = (mega_param_part){.file = files->name[i], .rows = rows};
    }
    w.weight.num_parts = count;
    return w;
}

/* source: mega_none() for self-attention. */
static mega_tensor biased_attention(const mega_builder *b, const char *name, mega_tensor x, mega_tensor source,
                                    int64_t positions, bool is_causal, const mega_t5_options *o)
{
    static const char *const part[] = {"q", "k", "v"};
    const bool is_cross = positions > 0;
    const int64_t channels = mega_tensor_channels(b, x.id != 0 ? x : source);
    const int64_t head_dim = o->head_dim > 0 || o->num_heads < 1 ? o->head_dim : channels / o->num_heads;
    char qkv_name[MEGA_PATH], out_name[MEGA_PATH];
    weight_files files;
    const mega_linear_options qkv = bias_weight(o, name, 3, part, o->num_heads * head_dim, &files);
    const mega_linear_options out = {.no_bias = true, .weight = o->weights};
    const char *begin = is_cross ? o->source_begin : o->key_begin;
    snprintf(qkv_name, sizeof qkv_name, "%s.qkv", name);
    snprintf(out_name, sizeof out_name, "%s.o", name);
    const mega_attention_options a = {.num_heads = o->num_heads,
                                      .head_dim = head_dim,
                                      .scale = 1.0,
                                      .is_causal = is_causal,
                                      .key_begin = begin != NULL ? begin : "",
                                      .key_end = is_cross ? o->source_end : o->key_end,
                                      .bias = is_cross ? mega_none() : o->bias,
                                      .bias_distance = o->bias_distance,
                                      .dropout = o->dropout,
                                      .recompute_core = o->recompute_core,
                                      .qkv = &qkv,
                                      .out = &out,
                                      .qkv_name = qkv_name,
                                      .out_name = out_name};
    return is_cross ? mega_cross_attention(b, name, x, source, positions, &a) : mega_self_attention(b, name, x, &a);
}

static mega_tensor add_self_attention(const mega_builder *of, mega_tensor x, bool is_causal, const mega_t5_options *o)
{
    const mega_builder at = mega_builder_at(of, "layer.0"), *b = &at;
    const mega_tensor y = biased_attention(b, "SelfAttention", norm(b, x, o), mega_none(), 0, is_causal, o);
    return mega_dropout_add(b, "drop", y, x, o->dropout);
}

static mega_tensor feed_forward(const mega_builder *b, mega_tensor x, const mega_t5_options *o)
{
    static const char *const gate[] = {"wi_0", "wi_1"};
    const int64_t channels = mega_tensor_channels(b, x), width = (o->is_gated ? 2 : 1) * o->ffn_channels;
    const mega_linear_options plain = {.no_bias = true, .weight = o->weights};
    weight_files files;
    const mega_linear_options two = bias_weight(o, "DenseReluDense", 2, gate, o->ffn_channels, &files);
    x = mega_column_linear(b, "DenseReluDense.wi", x, width, o->is_gated ? &two : &plain);
    x = o->is_gated ? mega_glu(b, x, o->activation, false) : mega_activation(b, x, o->activation);
    return mega_row_linear(b, "DenseReluDense.wo", x, channels, &plain);
}

static mega_tensor add_feed_forward(const mega_builder *of, int number, mega_tensor x, const mega_t5_options *o)
{
    const mega_builder at = mega_builder_at(of, "layer.%d", number), *b = &at;
    return mega_dropout_add(b, "drop", feed_forward(b, norm(b, x, o), o), x, o->dropout);
}

mega_tensor mega_t5_encoder_block(const mega_builder *b, mega_tensor x, const mega_t5_options *options)
{
    const mega_t5_options *o = options != NULL ? options : &none;
    return add_feed_forward(b, 1, add_self_attention(b, x, false, o), o);
}

mega_tensor mega_t5_decoder_block(const mega_builder *b, mega_tensor x, mega_tensor source, int64_t positions,
                                  const mega_t5_options *options)
{
    const mega_t5_options *o = options != NULL ? options : &none;
    const mega_builder at = mega_builder_at(b, "layer.1");
    if (b->mode == MEGA_GENERATE && source.id != 0)
        return biased_attention(&at, "EncDecAttention", mega_none(), source, positions, false, o);
    x = add_self_attention(b, x, true, o);
    const mega_tensor y = biased_attention(&at, "EncDecAttention", norm(&at, x, o), source, positions, false, o);
    x = mega_dropout_add(&at, "drop", y, x, o->dropout);
    return add_feed_forward(b, 2, x, o);
}
