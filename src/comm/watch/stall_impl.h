/* Formats the report of a wait that does not end. */
#ifndef MEGA_STALL_IMPL_H
#define MEGA_STALL_IMPL_H

#include "megalith/memory.h"
#include "watch/exchange.h"

enum { CHAIN = WIRE_RANKS }; /* ranks in one report */

#define STALE_S 3.0 /* older information is reported with its age */

/* The ranks of a chain of waits, each once. */
typedef struct chain {
    int rank[CHAIN], count;
} chain;

/* Why a wait ends before its limit. */
typedef struct loss {
    int dead; /* rank; -1: none */
    int lost; /* a rank whose host is lost; -1: none */
} loss;

void chain_add(chain *c, const int *ranks, int count);
/* Returns whether this record says that its rank waits for others. */
bool stall_waits(const record_view *v);
/* The operation whose messages op waits for: op itself, or the first of its queue. */
const comm_op *stall_head(const comm_op *op);
/* Appends the chain of waits that begins at this rank. */
void stall_put_report(mega_buffer *out, const comm_op *op);
void stall_put_loss(mega_buffer *out, const comm_op *op, const loss *l);

#endif
