/* A model: a list of layers. One rank runs all of them; with a pipeline, each stage runs a range of them. */
#ifndef MEGALITH_MODEL_H
#define MEGALITH_MODEL_H

#include "megalith/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Describes one layer: reads *flow (all mega_none() in the first layer) and replaces it with what the next layer reads.
 * `self` is the pointer of the layer's row. Called several times per engine: once for the whole model, then for each
 * program, and under a curriculum by the first step of each length. It must be a pure function of its arguments. Runs
 * on the thread that creates the engine or runs the step. */
typedef void mega_layer_describe(const mega_builder *b, const void *self, mega_flow *flow);

/* One row of the list. */
typedef struct mega_layer {
    const char *path; /* prefix of its parameter names; "%d" becomes the index of a layer that repeats */
    mega_layer_describe *describe;
    const void *self; /* borrowed, passed to describe */
    int repeat;       /* number of copies; 0: 1 */
    const char *type; /* matched by MEGA_PARTITION_TYPE and recompute_type; NULL: path */
} mega_layer;

/* How a pipeline divides the list into stages. DeepSpeed's partition_method. */
typedef enum mega_partition {
    MEGA_PARTITION_PARAMETERS, /* balances the number of parameters (DeepSpeed's default) */
    MEGA_PARTITION_UNIFORM,    /* balances the number of layers */
    MEGA_PARTITION_TYPE,       /* balances the number of layers whose type matches a regular expression */
    MEGA_PARTITION_FLOPS       /* balances floating-point operations, from the cost column of the op table */
} mega_partition;

/* A plain value. A call that takes it borrows everything that it points to. */
typedef struct mega_model {
    const char *name; /* for messages; programs print the paths of layers without it */
    const mega_layer *layer;
    int num_layers;    /* rows of the list */
    int64_t positions; /* per sample, for layers that use mega_builder.positions; 0: 1 */
    mega_partition partition;
    const char *partition_type; /* MEGA_PARTITION_TYPE: an extended regular expression; case is ignored */
    /* Explicit boundaries, the first layer of each part (Megatron's uneven ends, T5's split); NULL: balance. There are
     * as many parts as stages times programs per stage. */
    const int *first_layer;
    int recompute_interval;     /* layers per recomputed region; 0: none. DeepSpeed's activation_checkpoint_interval */
    const char *recompute_type; /* regular expression for the types of layers to recompute; NULL: all. A layer that
                                   computes its gradients in the forward (mega_vocab_loss) never is */
    int recompute_regions;      /* at most this many regions in each part; 0: no limit */
    bool sequence_parallel;     /* activations between sharded layers are sharded by rows (layers.h); not in
                                   MEGA_GENERATE */
    bool distribute_saved;      /* the saved inputs of recomputed regions are sharded over tp by rows; they must be the
                                   same on its ranks. With sequence_parallel they are shares already */
} mega_model;

/* Cuts `count` consecutive weights into `parts` ranges so that the difference between the largest and the smallest sum
 * is minimal; of several such cuts it chooses the later boundary, from the last one to the first, as DeepSpeed does.
 * Range i begins at out[i] and ends before out[i + 1]; out has space for parts + 1 numbers. A pure function.
 * If parts > count, range p begins at min(p, count).
 * Returns MEGA_ERR_USAGE unless parts >= 1, count >= 0 and every weight is finite and at least 0. */
MEGA_CHECK_RESULT mega_status mega_partition_balance(const double *weight, int count, int parts, int *out);

#ifdef __cplusplus
}
#endif
#endif
