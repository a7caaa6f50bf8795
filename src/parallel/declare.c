/* Which parameters a layer has, and how each is cut: the one record that everyone else derives from. */
#include "megalith/layers.h"

#include <stdio.h>

static mega_status add(mega_params *p, const char *path, const char *name, const char *kind, mega_param *record)
{
    const int n =
        snprintf(record->name, sizeof record->name, "%s%s%s.%s", path, path[0] == '\0' ? "" : ".", name, kind);
    if (n < 0 || (size_t)n >= sizeof record->name)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "parameter %s.%s.%s: the name is longer than the %zu characters a record holds", path, name,
                         kind, sizeof record->name - 1);
    if (record->blocks == 0) record->blocks = 1;
    int index;
    return mega_params_add(p, record, &index);
}

static mega_param matrix(int64_t rows, int64_t cols, const mega_linear_shape *s)
{
    return (mega_param){.num_dims = 2,
                        .shape = {rows, cols},
                        .true_shape = {rows, cols},
                        .transposed_in_file = s->transposed_in_file,
                        .blocks = s->blocks,
                        .init = s->xavier ? MEGA_INIT_XAVIER_UNIFORM : MEGA_INIT_NORMAL,
                        .init_std = s->init_std,
                        .weight_decay = true};
}

/* One-dimensional tensors carry no weight decay (Megatron's parameter groups). */
static mega_param vector(int64_t count, mega_init init)
{
    return (mega_param){.num_dims = 1, .shape = {count, 1}, .true_shape = {count, 1}, .init = init};
}

mega_status mega_declare_column_linear(mega_params *p, const char *path, const char *name, const mega_linear_shape *s)
{
    mega_param weight = matrix(s->out, s->in, s), bias = vector(s->out, MEGA_INIT_ZERO);
    weight.axis = bias.axis = MEGA_AXIS_TP;
    bias.blocks = s->blocks;
    MEGA_TRY(add(p, path, name, "weight", &weight));
    return add(p, path, name, "bias", &bias);
}

mega_status mega_declare_row_linear(mega_params *p, const char *path, const char *name, const mega_linear_shape *s)
{
    mega_param weight = matrix(s->out, s->in, s), bias = vector(s->out, MEGA_INIT_ZERO);
    weight.axis = MEGA_AXIS_TP;
    weight.cut_dim = 1;
    bias.grads_are_summands = s->sequence_parallel;
    MEGA_TRY(add(p, path, name, "weight", &weight));
    return add(p, path, name, "bias", &bias);
}

mega_status mega_declare_vocab_embedding(mega_params *p, const char *path, const char *name, int64_t vocab,
                                         int64_t padded, int64_t width, const mega_linear_shape *init)
{
    mega_param table = matrix(padded, width, init);
    table.true_shape[0] = vocab;
    table.axis = MEGA_AXIS_TP;
    table.tie = init->tie;
    return add(p, path, name, "weight", &table);
}

mega_status mega_declare_embedding(mega_params *p, const char *path, const char *name, int64_t rows, int64_t width,
                                   const mega_linear_shape *init)
{
    mega_param table = matrix(rows, width, init);
    table.grads_are_summands = init->sequence_parallel;
    return add(p, path, name, "weight", &table);
}

mega_status mega_declare_layer_norm(mega_params *p, const char *path, const char *name, int64_t width,
                                    bool sequence_parallel)
{
    mega_param gain = vector(width, MEGA_INIT_ONE), bias = vector(width, MEGA_INIT_ZERO);
    gain.grads_are_summands = bias.grads_are_summands = sequence_parallel;
    MEGA_TRY(add(p, path, name, "weight", &gain));
    return add(p, path, name, "bias", &bias);
}
