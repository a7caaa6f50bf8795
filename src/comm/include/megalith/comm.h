/* Communicators, named collectives, and the layout of ranks. All communication goes through here (law 4).
 * Transport `self`: a world of one, where every collective is free and exact. */
#ifndef MEGALITH_COMM_H
#define MEGALITH_COMM_H

#include "megalith/dtype.h"
#include "megalith/status.h"
#include <stdint.h>

typedef struct mega_comm mega_comm; /* a group of ranks */

typedef enum mega_reduce { MEGA_REDUCE_SUM, MEGA_REDUCE_MAX, MEGA_REDUCE_MIN } mega_reduce;

const char *mega_comm_name(const mega_comm *comm); /* "tp", "dp", "world" */
int mega_comm_rank(const mega_comm *comm);
int mega_comm_size(const mega_comm *comm);
uint64_t mega_comm_sequence(const mega_comm *comm); /* collectives so far in this group */

/* Collective: every rank of comm calls these in the same order. Counts are elements. `name` says what for, in reports.
 */
mega_status mega_comm_all_reduce(mega_comm *comm, const char *name, void *data, int64_t count, mega_dtype dtype,
                                 mega_reduce op);
mega_status mega_comm_reduce_scatter(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_out,
                                     mega_dtype dtype);
mega_status mega_comm_all_gather(mega_comm *comm, const char *name, void *out, const void *in, int64_t count_in,
                                 mega_dtype dtype);
mega_status mega_comm_broadcast(mega_comm *comm, const char *name, void *data, int64_t bytes, int root);
mega_status mega_comm_barrier(mega_comm *comm, const char *name);
/* Collective: after local work that may fail. All ranks leave with the status and message of the lowest failing rank.
 */
mega_status mega_comm_agree(mega_comm *comm, mega_status st);

/* One coordinate of this rank. */
typedef struct mega_axis {
    int rank, size;
    mega_comm *comm;
} mega_axis;

/* How the world's ranks divide; tp varies fastest, then cp, dp, pp (Megatron's order). Read by everyone, written here
 * alone. */
typedef struct mega_layout {
    mega_axis world, tp, pp, dp, cp, ep;
} mega_layout;

typedef struct mega_layout_sizes {
    int tp, pp, cp, ep; /* dp = world / (tp*pp*cp) */
} mega_layout_sizes;
/* Collective: world. A layout that does not divide the world is refused with those that do. */
mega_status mega_layout_create(mega_layout **out, const mega_layout_sizes *sizes);
void mega_layout_destroy(mega_layout *layout);

#endif
