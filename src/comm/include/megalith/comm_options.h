/* Options of how ranks are laid out and how long they wait for each other.
 * Its rows are in comm/options.c. */
#ifndef MEGALITH_COMM_OPTIONS_H
#define MEGALITH_COMM_OPTIONS_H

#include "megalith/option.h"

/* What moves the memory of GPUs between ranks: NCCL, or all the others, which are one: messages of MPI, and memory that
 * ranks of a host share. */
typedef enum mega_distributed_backend {
    MEGA_DISTRIBUTED_AUTO,
    MEGA_DISTRIBUTED_NCCL,
    MEGA_DISTRIBUTED_GLOO,
    MEGA_DISTRIBUTED_MPI,
    MEGA_DISTRIBUTED_CCL,
    MEGA_DISTRIBUTED_HCCL
} mega_distributed_backend;

typedef struct mega_comm_options {
    int64_t tensor_model_parallel_size, pipeline_model_parallel_size, expert_model_parallel_size;
    mega_distributed_backend distributed_backend;
    double distributed_timeout_minutes;
} mega_comm_options;

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_comm_distributed_section;
#endif
