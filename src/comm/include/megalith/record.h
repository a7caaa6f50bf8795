/* The record of what each rank is doing: its activity, its last call into comm/, and since when. Other ranks read it
 * when they wait for this rank (those of its host in a shared page, others over TCP). Setting it costs a few stores; in
 * a world of one rank (or none) the record is NULL, and setting does nothing. Names are copied, and cut if too long. */
#ifndef MEGALITH_RECORD_H
#define MEGALITH_RECORD_H

#include "megalith/comm.h"

typedef struct mega_record mega_record;

mega_record *mega_world_record(mega_world *world);
mega_record *mega_comm_record(const mega_comm *comm); /* the record of this rank in the group's world */

/* A step begins, and ends. During a step, ranks of this host that wait for this one may lend it their cores
 * (core_lending.h). */
void mega_record_step(mega_record *record, int64_t step);
void mega_record_step_end(mega_record *record);
/* `phase` is "forward", "norm" or "save", for example; a micro_batch below 0 is not shown. Clears the scope. */
void mega_record_phase(mega_record *record, const char *phase, int64_t micro_batch);
/* Starts a phase that may take long (writing a checkpoint, for example): until the next phase, waiting for this rank is
 * not reported before the limit. */
void mega_record_long_phase(mega_record *record, const char *phase);
/* The layer for which the next call into comm/ is made: "h.3.attn". */
void mega_record_scope(mega_record *record, const char *scope);

/* Returns whether this rank (`here`) or another of its host has been asked to stop; once true, it stays true. This is
 * how ranks learn between two instructions of a signal to one of them; nothing is sent. For a NULL world: `here`. */
bool mega_world_stops(mega_world *world, bool here);
/* Declares that this rank, which computes on one thread, has confined itself to one of its cores. A rank of this host
 * that waits for it may still lend it another core (mega_seat_narrow). */
void mega_world_narrowed(mega_world *world);

/* Writes the process ids of the ranks of this host, mega_world_local_size of them. Returns false if they cannot see
 * each other, as in separate containers. */
bool mega_world_host_processes(const mega_world *world, int *out);

#endif
