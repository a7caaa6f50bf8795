/* Options of how checkpoints are written.
 * Its rows are in ckpt/options.c. */
#ifndef MEGALITH_CKPT_OPTIONS_H
#define MEGALITH_CKPT_OPTIONS_H

#include "megalith/dtype.h"
#include "megalith/option.h"

typedef enum mega_save_dtype { MEGA_SAVE_F32, MEGA_SAVE_BF16, MEGA_SAVE_F16, MEGA_SAVE_F64 } mega_save_dtype;
mega_dtype mega_save_dtype_of(mega_save_dtype choice);

typedef struct mega_ckpt_options {
    int64_t keep_checkpoints;   /* newest kept; 0: all */
    mega_save_dtype save_dtype; /* of the weights in the folder */
    int64_t max_shard_size;     /* bytes of a file of weights; 0: all in one */
} mega_ckpt_options;

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_ckpt_checkpoint_section;
#endif
