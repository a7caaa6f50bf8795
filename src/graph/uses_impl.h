/* Which instructions write and read each tensor: one index, which every pass that needs it makes from the list of
 * instructions. It is valid until the list changes. */
#ifndef MEGA_USES_IMPL_H
#define MEGA_USES_IMPL_H

#include "graph_impl.h"

typedef struct tensor_use {
    int op, operand; /* number of the instruction; which of its operands or results */
} tensor_use;

/* In the order of the instructions. */
typedef struct use_list {
    const tensor_use *use;
    int count;
} use_list;

typedef struct graph_uses {
    tensor_use *write, *read;
    int *write_at, *read_at; /* by tensor: where its part of the list begins; it ends where the next one begins */
} graph_uses;

/* Returns MEGA_ERR_MEMORY; call mega_uses_fini in any case. */
mega_status mega_uses_find(const mega_graph *g, graph_uses *out);
void mega_uses_fini(graph_uses *u);

/* Results that name exactly this tensor: writes to a view are listed under the view. */
static inline use_list mega_uses_writes(const graph_uses *u, int32_t t)
{
    return (use_list){u->write + u->write_at[t], u->write_at[t + 1] - u->write_at[t]};
}
/* Operands that name this tensor or a view of it; an instruction that reads it twice is listed twice. Views have no
 * list. */
static inline use_list mega_uses_reads(const graph_uses *u, int32_t t)
{
    return (use_list){u->read + u->read_at[t], u->read_at[t + 1] - u->read_at[t]};
}

#endif
