/* Which tensors a checkpoint holds, and what of each this rank has: for saving and loading. */
#ifndef MEGALITH_STATE_LIST_H
#define MEGALITH_STATE_LIST_H

#include "engine_impl.h"
#include "megalith/memory.h"

/* Names and all in one arena. Every rank has the same list, of all tensors of the model. Zero-initialised is valid and
 * empty. */
typedef struct state_list {
    mega_arena arena;
    mega_state_tensor *item;
    int count;
} state_list;
mega_status state_list_weights(state_list *l, const mega_engine *e);
mega_status state_list_moments(state_list *l, const mega_engine *e);

/* Empties what another rank writes: of what several hold alike, one does. */
void state_leave_to_others(state_list *l, const mega_engine *e);

#endif
