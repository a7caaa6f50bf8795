/* Changes of the list of instructions: the only code that inserts, moves or removes them. (Gradient rules append.) */
#ifndef MEGA_EDIT_IMPL_H
#define MEGA_EDIT_IMPL_H

#include "graph_impl.h"

typedef struct insertion {
    int before; /* the instruction before which it is inserted; num_ops: at the end */
    int order;
    instruction op;
} insertion;

/* Insertions that a pass collects while the numbers of instructions stay valid. Zero-initialised is valid and empty. */
typedef struct graph_edit {
    insertion *list;
    int count;
    int64_t capacity;
} graph_edit;

/* Collects one. Insertions before the same instruction keep their order. Returns MEGA_ERR_MEMORY. */
mega_status mega_edit_insert(graph_edit *e, int before, const instruction *op);
/* Inserts all that was collected, and adjusts the numbers of instructions that the graph keeps. Returns
 * MEGA_ERR_MEMORY, and then changes nothing. */
mega_status mega_edit_apply(graph_edit *e, mega_graph *g);
void mega_edit_fini(graph_edit *e);

/* Moves instruction `from` up to place `to` <= from. */
void mega_edit_move_up(mega_graph *g, int from, int to);
/* Marks an instruction for removal by mega_edit_compact; until then it has no operands. */
void mega_edit_remove(mega_graph *g, int i);
/* Removes the marked instructions. */
void mega_edit_compact(mega_graph *g);

#endif
