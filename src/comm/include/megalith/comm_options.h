/* Options of how ranks are laid out and how long they wait for each other.
 * Its rows are in comm/options.c. */
#ifndef MEGALITH_COMM_OPTIONS_H
#define MEGALITH_COMM_OPTIONS_H

#include "megalith/option.h"

typedef struct mega_comm_options {
    int64_t tensor_model_parallel_size, pipeline_model_parallel_size;
    double distributed_timeout_minutes;
} mega_comm_options;

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_comm_distributed_section;
#endif
