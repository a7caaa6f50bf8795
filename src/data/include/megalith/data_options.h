/* Options of data sets: where they lie, how they are split, what a sample of one shows.
 * Its rows are in data/options.c. */
#ifndef MEGALITH_DATA_OPTIONS_H
#define MEGALITH_DATA_OPTIONS_H

#include "megalith/option.h"

typedef struct mega_data_options {
    mega_list data_path, data_path2, train_data_path, valid_data_path, test_data_path; /* [weight] prefix … */
    const char *split, *data_cache_path;
    bool reset_position_ids, reset_attention_mask, eod_mask_loss;
} mega_data_options;

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_data_paths_section, mega_data_samples_section;
#endif
