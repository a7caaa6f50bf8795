/* A report of a wait that does not end, in words. */
#ifndef MEGA_STALL_IMPL_H
#define MEGA_STALL_IMPL_H

#include "megalith/memory.h"
#include "watch/exchange.h"

enum { CHAIN = WIRE_RANKS }; /* ranks in one report */

#define STALE_S 3.0 /* what was heard longer ago is said to be so */

/* Who waits for whom, each once. */
typedef struct chain {
    int rank[CHAIN], count;
} chain;

/* Why a wait ends before its limit. */
typedef struct loss {
    int dead; /* rank; -1: none */
    int lost; /* a rank whose host is lost; -1: none */
} loss;

void chain_add(chain *c, const int *ranks, int count);
/* Whether it says of itself that it waits, for those of its record. */
bool stall_waits(const record_view *v);
/* The operation whose messages op waits for: where it stands in a queue, the first there. */
const comm_op *stall_head(const comm_op *op);
/* From this rank on along those that are waited for. */
void stall_put_report(mega_buffer *out, const comm_op *op);
void stall_put_loss(mega_buffer *out, const comm_op *op, const loss *l);

#endif
