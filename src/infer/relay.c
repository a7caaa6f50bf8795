/* Activations from stage to stage, forward only. A stage takes up the next run while what it made of the last one is on
 * its way, so that stages work side by side wherever a run does not wait for the result of another. */
#include "relay.h"
#include "megalith/record.h"

bool relay_begins(const relay *r)
{
    return r->pp->rank == 0;
}

bool relay_ends(const relay *r)
{
    return r->pp->rank == r->pp->size - 1;
}

mega_status relay_before(relay *r, mega_program *p)
{
    MEGA_TRY(relay_finish(r));
    for (int v = 0; v < MEGA_FLOW_VALUES && !relay_begins(r); v++) {
        const char *name = mega_border_name(MEGA_BORDER_INPUT, v);
        const size_t bytes = mega_program_tensor_bytes(p, name);
        mega_request comes = {0};
        if (bytes == 0) continue;
        MEGA_TRY(mega_comm_receive_start(r->pp->comm, "activation", r->pp->rank - 1, mega_program_tensor(p, name, 0),
                                         (int64_t)bytes, &comes));
        MEGA_TRY(mega_comm_wait(&comes));
    }
    return MEGA_OK;
}

mega_status relay_after(relay *r, mega_program *p)
{
    for (int v = 0; v < MEGA_FLOW_VALUES && !relay_ends(r); v++) {
        const char *name = mega_border_name(MEGA_BORDER_OUTPUT, v);
        const size_t bytes = mega_program_tensor_bytes(p, name);
        if (bytes == 0) continue;
        MEGA_TRY(mega_comm_send_start(r->pp->comm, "activation", r->pp->rank + 1, mega_program_tensor(p, name, 0),
                                      (int64_t)bytes, &r->goes[v]));
    }
    return MEGA_OK;
}

mega_status relay_finish(relay *r)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) MEGA_TRY(mega_comm_wait(&r->goes[v]));
    return MEGA_OK;
}

mega_status relay_stop_check(const mega_layout *layout, mega_world *world, const mega_team *team, const char *what)
{
    int32_t stop = mega_world_stops(world, mega_team_is_stopped(team));
    MEGA_TRY(mega_comm_all_reduce(layout->tp.comm, "signals", &stop, 1, MEGA_I32, MEGA_REDUCE_MAX));
    MEGA_TRY(mega_comm_all_reduce(layout->pp.comm, "signals", &stop, 1, MEGA_I32, MEGA_REDUCE_MAX));
    return stop == 0 ? MEGA_OK : MEGA_FAIL(MEGA_ERR_INTERRUPTED, "%s was interrupted by a signal", what);
}
