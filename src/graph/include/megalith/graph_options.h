/* Options of data parallelism (gradient buckets and ZeRO) and of recomputation. The option rows are in
 * graph/options.c. */
#ifndef MEGALITH_GRAPH_OPTIONS_H
#define MEGALITH_GRAPH_OPTIONS_H

#include "megalith/option.h"

/* Types of gradients: sent between ranks, and held. */
typedef enum mega_communication {
    MEGA_COMMUNICATION_FP32,
    MEGA_COMMUNICATION_FP16,
    MEGA_COMMUNICATION_BF16
} mega_communication;
typedef enum mega_ddp_impl { MEGA_DDP_LOCAL, MEGA_DDP_TORCH, MEGA_DDP_FSDP } mega_ddp_impl;

typedef enum mega_recompute_granularity {
    MEGA_RECOMPUTE_NONE,
    MEGA_RECOMPUTE_FULL,
    MEGA_RECOMPUTE_SELECTIVE
} mega_recompute_granularity;
typedef enum mega_recompute_method {
    MEGA_RECOMPUTE_METHOD_NONE,
    MEGA_RECOMPUTE_UNIFORM,
    MEGA_RECOMPUTE_BLOCK
} mega_recompute_method;

typedef struct mega_graph_options {
    mega_ddp_impl ddp_impl;
    int64_t ddp_bucket_size; /* elements */
    bool use_distributed_optimizer, overlap_grad_reduce;
    mega_communication communication_data_type, grad_accum_dtype;
    double gradient_predivide_factor; /* NAN when not given */
    bool prescale_gradients;
    int64_t zero_stage; /* if not given, it follows from ddp_impl and use_distributed_optimizer */
    int64_t stage3_prefetch_bucket_size, stage3_param_persistence_threshold; /* elements */
    int64_t stage3_max_reuse_distance, stage3_max_live_parameters;           /* elements */
    mega_recompute_granularity recompute_granularity;
    mega_recompute_method recompute_method;
    int64_t recompute_num_layers;
    int64_t activation_checkpoint_interval; /* 0: not given; the three above follow from it */
    int64_t activation_budget;              /* bytes; 0: none */
    bool distribute_saved_activations;
} mega_graph_options;

/* The option rows, one section per title of --help. */
extern const mega_option_section mega_graph_distributed_section, mega_graph_zero_section, mega_graph_recompute_section;
#endif
