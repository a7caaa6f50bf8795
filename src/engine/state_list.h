/* Lists the tensors of a checkpoint, with the part of each that this rank holds, for saving and loading. */
#ifndef MEGALITH_STATE_LIST_H
#define MEGALITH_STATE_LIST_H

#include "engine_impl.h"
#include "megalith/memory.h"

/* Items and names are in one arena. Every rank has the same list of all tensors of the model. A zero-initialized list
 * is valid and empty. */
typedef struct state_list {
    mega_arena arena;
    mega_state_tensor *item;
    int count;
} state_list;
mega_status state_list_weights(state_list *l, const mega_engine *e);
mega_status state_list_moments(state_list *l, const mega_engine *e);

/* If several ranks hold the same part, only one writes it: empties the items that another rank writes. */
void state_leave_to_others(state_list *l, const mega_engine *e);

#endif
