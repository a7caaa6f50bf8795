/* What tests of graphs and programs share: declaring parameters and inputs, and a program with all that it needs. */
#ifndef GRAPH_TESTS_GRAPH_KIT_H
#define GRAPH_TESTS_GRAPH_KIT_H

#include "kit.h"
#include "megalith/program.h"
#include <stdio.h>

/* Adds a parameter of this name and shape; cols 0: a vector. `like` has its other members. */
static inline void declare_like(mega_params *p, mega_param like, const char *name, int64_t rows, int64_t cols)
{
    like.num_dims = cols == 0 ? 1 : 2;
    like.shape[0] = like.true_shape[0] = rows;
    like.shape[1] = like.true_shape[1] = cols;
    snprintf(like.name, sizeof like.name, "%s", name);
    need(mega_params_add(p, &like, NULL));
}

static inline mega_tensor declare_input(mega_graph *g, const char *name, mega_dtype dtype, int64_t rows, int64_t cols)
{
    const int64_t dim[2] = {rows, cols};
    return mega_graph_input(g, name, dtype, cols == 0 ? 1 : 2, dim);
}

static inline mega_tensor param_named(mega_graph *g, const char *name)
{
    return mega_graph_param(g, mega_params_find(mega_graph_params(g), name));
}

/* A built program with all that it needs. */
typedef struct built_program {
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
} built_program;

static inline void built_program_end(built_program *k)
{
    mega_program_destroy(k->program);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

#endif
