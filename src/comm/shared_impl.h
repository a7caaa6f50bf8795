/* Memory that the ranks of a host share, and the collectives over it. */
#ifndef MEGA_SHARED_IMPL_H
#define MEGA_SHARED_IMPL_H

#include "watch/record_impl.h"

enum { SHARED_RING = 4 /* buffers of a rank and tag */ };
#define SHARED_MOST_BYTES ((size_t)256 << 10) /* of one of them */

/* Of this rank, for a tag. */
typedef struct shared_ring {
    uint64_t next;           /* post */
    int first, stride, size; /* the group of the last ones */
} shared_ring;

typedef struct comm_shared comm_shared;

/* Whether all ranks of op's group are among those that share memory. */
bool shared_holds(const comm_op *op);
/* Before a collective's first post: whether it may post already. */
bool shared_enter(const comm_op *op);
/* The world ranks, at most so many, that have yet to read what this one posted to the group before; their number. */
int shared_held_by(const comm_op *op, int *ranks, int most);
/* The buffer of the next post; NULL while a member has not read what lies there. */
char *shared_room(const comm_op *op);
bool shared_has_room(const comm_op *op, int member); /* as far as this member goes */
void shared_post(const comm_op *op);                 /* to all others of the group, with op->mine as its call */
/* The next post of a member; NULL while it is not there. */
const char *shared_read(const comm_op *op, int member);
const comm_call *shared_call(const char *buffer); /* the call that posted what shared_read returned */
void shared_is_read(const comm_op *op, int member);
bool shared_was_read(const comm_op *op, int member); /* by this member, all that was posted to it */

/* Whether each rank of this host may read the memory of the others (process_vm_readv), where they have it. */
bool shared_reaches(const comm_op *op);
/* [bytes] at an address of a member → out. *there: false where its process has ended, and nothing is read. */
mega_status shared_fetch(const comm_op *op, int member, const void *theirs, void *out, size_t bytes, bool *there);

#endif
