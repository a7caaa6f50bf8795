/* What the files about models share. */
#ifndef MEGA_MODEL_IMPL_H
#define MEGA_MODEL_IMPL_H

#include "graph_impl.h"
#include "megalith/model_parts.h"

/* A value of the flow between two layers; num_dims 0: none. */
typedef struct border_value {
    tensor_shape shape;
    int32_t tensor;      /* of the walk's graph */
    int same_as;         /* an earlier value of this border that is the same tensor; -1: none is */
    bool needs_gradient; /* it depends on a parameter */
} border_value;

typedef struct layer_border {
    border_value value[MEGA_FLOW_VALUES];
} layer_border;

struct mega_model_parts {
    mega_model model;
    const mega_layout *layout;
    mega_model_sizes sizes;
    mega_params *params;
    int num_layers, num_parts;
    int *first;                              /* [num_parts + 1]: layers */
    double *flops, *masked_flops, *elements; /* by layer, like those below */
    uint64_t *ops_hash;                      /* of what the layer computes, the same on all ranks */
    bool *recomputes;
    layer_border *border;   /* [num_layers + 1]: what passes before each layer */
    param_request *request; /* by layer */
    int num_requests;
};

static inline const char *model_name(const mega_model *m)
{
    return m->name != NULL ? m->name : "without a name";
}

/* Describes one layer of the list with the graph, sizes and mode of `base`. */
void model_describe_layer(const mega_model *m, int layer, const mega_builder *base, mega_flow *flow);
mega_tensor *flow_value(mega_flow *flow, int value);
/* model_parts.c */
mega_builder parts_builder(const mega_model_parts *p, mega_mode mode, mega_graph *g);

#endif
