/* Lists the tensors of a checkpoint, with the part of each that this rank holds, for saving and loading. */
#ifndef MEGALITH_SAVED_TENSORS_H
#define MEGALITH_SAVED_TENSORS_H

#include "engine_state.h"
#include "megalith/memory.h"

/* Items and names are in one arena. Every rank has the same list of all tensors of the model. A zero-initialized list
 * is valid and empty. */
typedef struct saved_tensors {
    mega_arena arena;
    mega_state_tensor *item;
    int count;
    int alike; /* the tensors from this one on differ between the ranks of dp */
} saved_tensors;
mega_status saved_tensors_weights(saved_tensors *l, const mega_engine *e);
/* Also what the compression of 1-bit Adam has lost on each rank; that of another layout has no data here. */
mega_status saved_tensors_moments(saved_tensors *l, const mega_engine *e, engine_residuals residuals);

/* If several ranks hold the same part, only one writes it: empties the items that another rank writes. */
void state_leave_to_others(saved_tensors *l, const mega_engine *e);

#endif
