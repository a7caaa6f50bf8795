/* Memory that the ranks of a host share: posting and reading buffers. */
#ifndef MEGA_SHARED_IMPL_H
#define MEGA_SHARED_IMPL_H

#include "watch/record_impl.h"

enum { SHARED_RING = 4 /* buffers per rank and tag */ };
#define SHARED_MOST_BYTES ((size_t)256 << 10) /* largest buffer */
#define SHARED_CALL_BYTES ((size_t)4 << 10)   /* pages that a buffer fills besides: the call, and its ends */

/* This rank's ring of buffers for a tag. */
typedef struct shared_ring {
    uint64_t next;           /* number of the next post */
    int first, stride, size; /* the group of the last posts */
} shared_ring;

typedef struct comm_shared comm_shared;

/* Returns whether all ranks of the group share this memory. */
bool shared_holds(const mega_comm *comm);
/* Called before a collective's first post. Returns whether it may post already. */
bool shared_enter(const comm_op *op);
/* Lists the world ranks, at most `most`, that have not read what this rank posted to the previous group. Returns their
 * number. */
int shared_held_by(const comm_op *op, int *ranks, int most);
/* Returns the buffer for the next post; NULL while a member has not read its previous content. */
char *shared_post_buffer(const comm_op *op);
bool shared_buffer_is_read(const comm_op *op, int member); /* whether this member has read it */
/* posts the buffer to all others of the group, with op->mine as its call */
void shared_post(const comm_op *op);
/* Returns the next post of a member; NULL if it has not arrived. */
const char *shared_read(const comm_op *op, int member);
const comm_call *shared_call(const char *buffer); /* the call that posted what shared_read returned */
void shared_is_read(const comm_op *op, int member);
bool shared_was_read(const comm_op *op, int member); /* whether this member has read everything that was posted to it */

/* Returns whether each rank of this host may read the memory of the others (process_vm_readv). */
bool shared_reaches(const comm_op *op);
/* Copies bytes from an address in a member's process to out. *there false: its process has ended, and nothing is
 * read. */
mega_status shared_fetch(const comm_op *op, int member, const void *theirs, void *out, size_t bytes, bool *there);

#endif
