/* What a pipeline stage that only runs forward (evaluation, generation) gets from the stage before and hands on. */
#ifndef MEGALITH_RELAY_H
#define MEGALITH_RELAY_H

#include "megalith/comm.h"
#include "megalith/model_parts.h"
#include "megalith/program.h"
#include "megalith/threads.h"

/* Of one program or of several that take turns: all stages run them in one order. Without a pipeline nothing is done.
 */
typedef struct relay {
    const mega_axis *pp;
    mega_request goes[MEGA_FLOW_VALUES]; /* the outputs of the last run, on their way */
} relay;

bool relay_begins(const relay *r); /* this stage begins the model; ends it */
bool relay_ends(const relay *r);
/* Around each mega_program_forward: its input is here and its output may be written; its output leaves. */
mega_status relay_before(relay *r, mega_program *p);
mega_status relay_after(relay *r, mega_program *p);
mega_status relay_finish(relay *r); /* everything has left */

/* MEGA_ERR_INTERRUPTED, "WHAT was interrupted by a signal", on all ranks of a model once the team of one is asked to
 * stop: what the last programs made means nothing then. Waits for all stages. Collective: tp, pp. `world` is what the
 * programs were built with. */
mega_status relay_stop_check(const mega_layout *layout, mega_world *world, const mega_team *team, const char *what);

#endif
