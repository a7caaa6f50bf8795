/* Declarations shared by the model*.c files. */
#ifndef MEGA_MODEL_IMPL_H
#define MEGA_MODEL_IMPL_H

#include "graph_impl.h"
#include "megalith/model_parts.h"

/* A value that one layer passes to the next; num_dims 0: none. */
typedef struct border_value {
    tensor_shape shape;
    int32_t tensor;      /* number of the tensor in the graph of the walk */
    int same_as;         /* an earlier value of this border that is the same tensor; -1: none */
    bool needs_gradient; /* it depends on a parameter */
} border_value;

typedef struct layer_border {
    border_value value[MEGA_FLOW_VALUES];
} layer_border;

/* A label that a layer of the model takes out of all losses of an input, also of those in other parts. */
typedef struct ignored_label {
    char *input;
    int32_t label;
} ignored_label;

struct mega_model_parts {
    mega_model model;
    const mega_layout *layout;
    mega_model_sizes sizes;
    mega_params *params;
    int num_layers, num_parts;
    int *first;                              /* [num_parts + 1]: first layer of each part */
    double *flops, *masked_flops, *elements; /* by layer, like the next arrays */
    uint64_t *ops_hash;                      /* hash of the ops of the layer, the same on all ranks */
    bool *has_head;                          /* the layer computes gradients in the forward (mega_vocab_loss) */
    double *bytes;                           /* of the values that the layer computes */
    bool *recomputes;                        /* the layer may be recomputed: its type matches, and it has no head */
    int *region;            /* number of the recomputed region of the layer, from 1 in each part; 0: it is in none */
    layer_border *border;   /* [num_layers + 1]: the values that enter each layer */
    param_request *request; /* by layer */
    ignored_label *ignored;
    int num_requests, num_ignored;
};

static inline const char *model_name(const mega_model *m)
{
    return m->name != NULL ? m->name : "without a name";
}

/* Describes one layer of the list with the graph, sizes and mode of `base`. */
void model_describe_layer(const mega_model *m, int layer, const mega_builder *base, mega_flow *flow);
mega_tensor *flow_value(mega_flow *flow, int value);
/* model_regions.c */
void model_find_regions(mega_model_parts *p); /* those that the model asks for */
/* Whether a region begins or ends with this layer, of a part of the layers first … end - 1. */
bool model_begins_region(const mega_model_parts *p, int layer, int first);
bool model_ends_region(const mega_model_parts *p, int layer, int end);
/* model_parts.c */
mega_builder parts_builder(const mega_model_parts *p, mega_mode mode, mega_graph *g);

#endif
