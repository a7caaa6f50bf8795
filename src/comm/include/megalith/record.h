/* Where each rank is. A rank keeps a record that the others read when they wait for it (those of its host in a
 * shared page, others over TCP): what it is doing, the last call into comm/, and since when. Setting costs a few
 * stores; of one rank (or no world) the record is NULL, and setting does nothing. Names are copied and cut. */
#ifndef MEGALITH_RECORD_H
#define MEGALITH_RECORD_H

#include "megalith/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_record mega_record;

mega_record *mega_world_record(mega_world *world);
mega_record *mega_comm_record(const mega_comm *comm); /* of the world that the group is of */

/* A step begins, and ends. In between, ranks of this host that wait for this one may lend it their cores (seat.h). */
void mega_record_step(mega_record *record, int64_t step);
void mega_record_step_end(mega_record *record);
/* "forward", "norm", "save"; a micro-batch below 0: no word of it. Forgets the scope. */
void mega_record_phase(mega_record *record, const char *phase, int64_t micro_batch);
/* One that may take long (a checkpoint is written): waiting for this rank is told no sooner than past the limit. Until
 * the next phase. */
void mega_record_long_phase(mega_record *record, const char *phase);
/* Which layer the next call into comm/ is for: "h.3.attn". */
void mega_record_scope(mega_record *record, const char *scope);

/* Whether this rank (`here`) or another of its host has been asked to stop; what one has said stays said. Ranks that
 * only read learn of a signal to one of them this way between two instructions; nothing is sent. Of NULL: `here`. */
bool mega_world_stops(mega_world *world, bool here);
/* This rank, which computes on one thread, has confined itself to one of the cores that it might use when the world was
 * made. A rank of this host that waits for it may still lend it its own (mega_seat_narrow). */
void mega_world_narrowed(mega_world *world);

/* Process ids of the ranks of this host, mega_world_local_size of them; false: they do not see each other, as in
 * containers apart. */
bool mega_world_host_processes(const mega_world *world, int *out);

#ifdef __cplusplus
}
#endif

#endif
