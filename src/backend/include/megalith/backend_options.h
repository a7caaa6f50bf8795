/* Options of the kernels: implementation, number type and threads. The options are declared in backend/options.c. */
#ifndef MEGALITH_BACKEND_OPTIONS_H
#define MEGALITH_BACKEND_OPTIONS_H

#include "megalith/backend_kind.h"
#include "megalith/dtype.h"
#include "megalith/option.h"

/* Who makes graphs of what a GPU does in a pass. */
typedef enum mega_cuda_graphs { MEGA_CUDA_GRAPHS_LOCAL, MEGA_CUDA_GRAPHS_NONE } mega_cuda_graphs;

typedef struct mega_backend_options {
    bool fp16, bf16, fp64;   /* none: fp32; fp64 needs the plain kernels */
    mega_dtype params_dtype; /* type of computation and activations; derived from the two flags */
    mega_backend_kind backend;
    const char *device;   /* cpu, auto, cuda or cuda:N */
    int64_t gpu;          /* derived: number of the GPU, with backend CUDA */
    int64_t num_threads;  /* derived if not given; at least 1 */
    bool no_pack_weights; /* pack the weights again for each GEMM of a step */
    mega_cuda_graphs cuda_graph_impl;
    const char *matmul_library; /* auto, own, cublaslt or a path (mega_cuda_use_library) */
} mega_backend_options;

/* The option tables, one per title of --help. */
extern const mega_option_section mega_backend_precision_section, mega_backend_threads_section,
    mega_backend_kernels_section;
#endif
