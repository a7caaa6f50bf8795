/* Describing a model: the builder, inputs, parameters and losses.
 *
 * A layer is a C function that writes the forward computation of one rank into a graph. Values that pass between ops
 * are matrices [rows, channels] in row-major order; a row is one position of one sample.
 *
 * A layer that needs a parameter requests it by name. The first request declares the parameter; a later request under
 * the same full name shares it, also from another program of this rank.
 *
 * Errors. A function that returns a tensor does not return a status. It records the first mistake in the graph with the
 * path of the layer; from then on every call returns mega_none() and does nothing, so that a layer reads like formulas.
 *
 * Names. Paths and the names of parameters, inputs, losses and outputs are UTF-8 without control characters, because
 * checkpoints and messages hold them; others are recorded as MEGA_ERR_USAGE.
 *
 * Ownership. The graph copies names and options. Tensors and builders are values and own nothing. */
#ifndef MEGALITH_BUILDER_H
#define MEGALITH_BUILDER_H

#include "megalith/comm.h"
#include "megalith/dtype.h"
#include "megalith/param_init.h"
#include "megalith/status.h"
#include "megalith/tensor.h"
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline mega_tensor mega_none(void)
{
    mega_tensor t = {0};
    return t;
}

typedef enum mega_mode { MEGA_TRAIN, MEGA_EVAL, MEGA_GENERATE } mega_mode;

enum { MEGA_PATH = MEGA_PARAM_NAME };

/* The context in which a layer is described. A layer passes it on to the functions that it calls, unchanged or with a
 * longer path. */
typedef struct mega_builder {
    mega_graph *graph;
    const mega_layout *layout;
    mega_mode mode;       /* dropout is active in MEGA_TRAIN only; attention keeps a cache in MEGA_GENERATE */
    int64_t samples;      /* samples per micro-batch */
    int64_t positions;    /* positions per sample in this program */
    int64_t cache;        /* MEGA_GENERATE: positions that the cache holds per sample */
    int64_t length;       /* MEGA_GENERATE: positions of a prompt and its continuation, at most `cache`; 0: `cache` */
    int index;            /* number 0, 1, ... of a copy of a repeated layer */
    char path[MEGA_PATH]; /* prefix of parameter names, such as "transformer.h.3" */
} mega_builder;

/* Returns b with the formatted text appended to its path after a dot. Records MEGA_ERR_USAGE if the new path does not
 * fit in MEGA_PATH, or if the text is empty and the path is not. */
mega_builder mega_builder_at(const mega_builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Records an error that the layer itself detected, for instance mega_builder_fail(b, MEGA_MISTAKE(...)).
 * Has no effect if st is MEGA_OK or if an error is already recorded. */
void mega_builder_fail(const mega_builder *b, mega_status st);

/* Return the number of rows or channels of x on this rank. mega_tensor_channels returns 0 for a vector, and both return
 * 0 for mega_none(). */
int64_t mega_tensor_rows(const mega_builder *b, mega_tensor x);
int64_t mega_tensor_channels(const mega_builder *b, mega_tensor x);

/* Returns the named input, which the user of the engine fills (dataset.h). With channels > 0 its shape is [samples *
 * positions, channels]; its data are MEGA_F32 and are converted to the compute type. With channels 0 the shape is
 * [samples * positions], MEGA_I32 for ids or MEGA_F32 for weights, which stay F32. A second request under the same name
 * returns the same input; one with another dtype or shape is recorded as MEGA_ERR_USAGE. "sample_id" and "seq_position"
 * (I32, channels 0) are filled by the engine with the number of each row's sample and its position in it; a program may
 * have them for samples of several lengths, such as those of an encoder and of a decoder. */
mega_tensor mega_input(const mega_builder *b, const char *name, mega_dtype dtype, int64_t positions, int64_t channels);

/* The values that one layer passes to the next, and one pipeline stage to the next: the main value x, and up to
 * MEGA_FLOW_MORE further values, such as the output of an encoder. Unused members are mega_none(). */
enum { MEGA_FLOW_MORE = 3 };
typedef struct mega_flow {
    mega_tensor x, more[MEGA_FLOW_MORE];
} mega_flow;

/* ---- parameters ---- */

/* Whether the optimizer applies weight decay. By default it does so to matrices only. */
typedef enum mega_decay { MEGA_DECAY_DEFAULT, MEGA_DECAY_YES, MEGA_DECAY_NO } mega_decay;

/* Options of a parameter. NULL, or a zero-initialized struct, means: replicated, MEGA_INIT_FAN_IN (a vector: zero), and
 * stored in the checkpoint as one tensor under the name of the parameter. */
typedef struct mega_param_options {
    mega_init init;
    double init_std; /* finite, 0 or more */
    mega_decay decay;
    double lr_scale;                /* factor on the learning rate; 0 means 1 */
    bool shard_rows, shard_columns; /* shard over tp; at most one may be set */
    bool shard_count;               /* mega_builder_params: shard the parameters themselves over ep, see there */
    int blocks;                     /* number of equal parts, each sharded, that are consecutive in the file: 3 for Q,
                                       K, V, at most MEGA_PARAM_PARTS; 0 means 1. Other parts are listed in `part` */
    mega_param_part part[MEGA_PARAM_PARTS]; /* their `file` is the name in the checkpoint after the path, such as
                                               "self_attn.q_proj.weight". Each row of the parameter and of these tensors
                                               is in exactly one part, and tp divides the rows of each part */
    int num_parts;                          /* 0: `blocks` equal parts */
    bool transposed_in_file;                /* the checkpoint holds [in, out], like Conv1D of Hugging Face */
    int64_t padding_rows; /* trailing rows that are not in the checkpoint: zero, without gradient (vocabulary) */
    int file_dims;        /* dimensions in the file, such as 4 for a convolution [out, in, height, width]; 0: those of
                               rows and columns */
    int64_t file_dim[4];  /* shape in the file: the same elements in the same order */
    bool is_stacked; /* of mega_builder_params: all of them are in each of the tensors that the parts name, one after
                        the other in a further dimension before the others */
    bool partial_gradients; /* replicated, but each rank of tp uses it for a part of the work only, such as its heads:
                               its gradients are summed over tp */
    bool whole_gradients; /* replicated, and each rank of tp uses it for the same rows, also with sequence parallelism:
                               its gradients are not summed over tp */
    bool is_frozen;       /* not trained: no update, no optimizer state, left out of norms and clipping */
    bool is_buffer;       /* saved and loaded but not optimized, such as running statistics; it has no gradient */
    double buffer_momentum; /* running statistics: the fraction that each group of buffer_samples samples replaces */
    int64_t buffer_samples; /* in a step; momentum 0: the buffer is constant */
    /* a bias of the choice of experts, one element an expert: each step adds buffer_rate to those that fewer tokens
     * than the mean chose, and subtracts it from those that more did. buffer_choices: choices of a token */
    double buffer_rate;
    int64_t buffer_choices;
    bool in_acc; /* a buffer that the graph reads in the acc type, also where it computes in 16 bits */
} mega_param_options;

/* Returns this rank's slice of the parameter PATH.NAME, in the compute type (or acc: in_acc). rows and columns are
 * those of the whole model, padding included: [rows, columns], or [rows] if columns is 0. options may be NULL. A later
 * request must agree with the first in shape, and in options unless its own are NULL or zero-initialized; otherwise it
 * is recorded as MEGA_ERR_USAGE. With sequence parallelism, a parameter that is not sharded works on this rank's part
 * of the rows, so that its gradients are partial sums over tp, unless whole_gradients says otherwise. */
mega_tensor mega_builder_param(const mega_builder *b, const char *name, int64_t rows, int64_t columns,
                               const mega_param_options *options);
/* Returns `count` parameters of one shape as one tensor, [count * rows, columns], or [count, rows] if columns is 0,
 * such as the weights of the experts of a layer. Each is a parameter of its own, with its own initial values and its
 * own tensor in the checkpoint. In `name`, and in the names of files in `options`, # becomes its number, from 0; the
 * name of one alone need not have it. With shard_count each of the n ranks of ep holds count / n of them, rank r those
 * from number r * count / n on, and the tensor has only these. */
mega_tensor mega_builder_params(const mega_builder *b, const char *name, int64_t count, int64_t rows, int64_t columns,
                                const mega_param_options *options);
enum { MEGA_MOST_JOINED = 4096 };

/* ---- recomputation (activation checkpointing) ---- */

/* What a layer describes between begin and end is computed again in the backward instead of kept (DeepSpeed's
 * checkpoint): of its values only those that enter it, and those that are read after it, are saved. Results keep their
 * bits. Call them in pairs within one layer. A region inside another, such as one of mega_model.recompute_interval, is
 * part of that one. Without effect except in MEGA_TRAIN. A head (mega_vocab_loss) must stand outside. */
void mega_recompute_begin(const mega_builder *b);
void mega_recompute_end(const mega_builder *b);

/* ---- losses, metrics and outputs ---- */

/* Adds a named loss to the model. Training minimizes the sum of coefficient * loss over all names, from which
 * differentiation starts; with coefficient 0 the loss is a metric, which is reported and has no gradient. The name has
 * fewer than MEGA_LOSS_NAME characters and may be added once; a model has at most MEGA_METRICS names. The weight must
 * not depend on parameters. If a head (mega_vocab_loss) is given another weight than its own, that weight must be
 * described before the head. */
void mega_loss_add(const mega_builder *b, const char *name, mega_loss loss, double coefficient);

/* Adds to the loss of this name, which several layers of the model may do, on any pipeline stage and with one
 * coefficient: its value is the sum over these layers. All of them must give it the same weight, such as the number of
 * samples. */
void mega_layer_loss_add(const mega_builder *b, const char *name, mega_loss loss, double coefficient);

/* Makes x readable under this name after a forward pass (mega_engine_read_output), in training and in evaluation. A
 * caller that computes a loss itself may pass the gradient of x (mega_engine_backward_from); without it the gradient is
 * zero. x must be whole on every tp rank. */
void mega_output(const mega_builder *b, const char *name, mega_tensor x);

/* ---- custom ops, which run on the host ---- */

/* Arguments of one run of a custom op. Tensors are [rows, channels] of `dtype`: F32, or F64 in an F64 program; a vector
 * has one channel. 16-bit tensors are widened before the call and rounded after it. All pointers are to memory of the
 * host, borrowed for the call: the tensors themselves, or copies where the host cannot reach the device's memory. */
typedef struct mega_custom_call {
    int num_in, num_out;
    const void *const *in;
    void *const *out;               /* forward: written; backward: the results of the forward, read only */
    const void *const *d_out;       /* backward: gradients of out; NULL for an output without a gradient */
    void *const *d_in;              /* backward: overwritten with gradients; NULL: not needed */
    const int64_t *rows, *channels; /* of in[0], in[1], ..., then of out[0], out[1], ... */
    mega_dtype dtype;
    /* Every thread of the team makes the call and takes its share of the work, such as rows r with
     * r % num_threads == thread, or all of it where thread is 0. Results must not depend on num_threads. */
    int thread, num_threads;
} mega_custom_call;

/* A custom op of up to 3 inputs and 1 output, or 2 and 2. A forward or backward that fails returns a status and leaves
 * a message (MEGA_FAIL); its results count as zeros until the step ends with that error on every rank. */
typedef struct mega_custom_op {
    const char *name;
    int num_in, num_out;
    /* Computes the shapes of the outputs from those of the inputs. Runs on the thread that builds the program, several
     * times. */
    void (*shape)(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                  int64_t *out_channels);
    mega_status (*forward)(const void *self, const mega_custom_call *call);
    mega_status (*backward)(const void *self, const mega_custom_call *call); /* NULL: no gradient, and a loss that
                                                                                needs one through it is an error */
    bool is_row_wise;     /* row i of the outputs depends on row i of the inputs only, so that rows may be sharded */
    double flops_per_row; /* used by plans; 0: unknown */
} mega_custom_op;

/* Applies op to in[0 .. num_in - 1] and writes the results, of the compute type, to out[0 .. num_out - 1]. Inputs are
 * values, parameters or float inputs; out may be the array in. op and self are borrowed until the program is destroyed.
 */
void mega_custom(const mega_builder *b, const mega_custom_op *op, const void *self, const mega_tensor *in,
                 mega_tensor *out);

/* ---- dropout ---- */

/* Returns the address of the random bits of a dropout, a hash of PATH.NAME, so that neither the layout nor the
 * order of layers changes its mask. Two dropouts of one program with one address are recorded as MEGA_ERR_USAGE. */
uint32_t mega_builder_dropout_site(const mega_builder *b, const char *name);

#ifdef __cplusplus
}
#endif
#endif
