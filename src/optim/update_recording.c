/* The update as two graphs of a GPU of one rank: the norm of the gradients, and the optimizer's spans. Each is recorded
 * when it runs for the second time (the first loads kernels), and replayed from then on. The numbers of a step are no
 * arguments of theirs: the check and the kernel of numbers, which are launched between the two, put them in memory. */
#include "update_impl.h"

enum { BEFORE_CHECK, AFTER_CHECK };

/* Whether the host has no part in an instruction but to launch its kernels, with the same arguments each time. */
static bool update_is_launched(const mega_update *u, const update_instruction *x)
{
    const bool is_launched = x->kind == UPDATE_NORM || x->kind == UPDATE_PREPARE || x->kind == UPDATE_SPAN;
    return is_launched && x->when == UPDATE_ALWAYS && x->axis == NULL && u->optimizer->builtin != NULL;
}

void update_look_for_recordings(mega_update *u)
{
    /* several ranks have instructions that exchange, so that they record nothing */
    u->records = u->options.records && u->optimizer->options.backend == MEGA_BACKEND_CUDA;
    for (int i = u->first_applied; i < u->count; i++)
        if (u->list[i].kind == UPDATE_CHECK) u->check = i;
        else if (!update_is_launched(u, &u->list[i]))
            u->records = false;
}

mega_program_graphs mega_update_graphs_get(const mega_update *u)
{
    if (u == NULL || !u->records) return (mega_program_graphs){0};
    const int before = u->check - u->first_applied, after = u->count - u->check - 1;
    return (mega_program_graphs){.graphs = (before > 0) + (after > 0), .instructions = before + after};
}

void update_forget_recordings(mega_update *u)
{
    mega_device *const device = u->optimizer->options.queue.device;
    for (int i = BEFORE_CHECK; i <= AFTER_CHECK; i++)
        if (u->recording[i].work != NULL) device->forget(device, u->recording[i].work);
}

static mega_status launch_range(mega_update *u, int begin, int end)
{
    for (int i = begin; i < end; i++) MEGA_TRY(update_run_one(u, i));
    return MEGA_OK;
}

static mega_status update_run_range(mega_update *u, update_recording *r, int begin, int end)
{
    mega_device *const device = u->optimizer->options.queue.device;
    if (begin == end || device == NULL) return launch_range(u, begin, end);
    if (r->has_run && r->work == NULL && !r->was_refused && device->record(device)) {
        const mega_status st = launch_range(u, begin, end);
        r->work = device->record_end(device);
        r->was_refused = r->work == NULL;
        MEGA_TRY(st);
    }
    if (r->work == NULL) MEGA_TRY(launch_range(u, begin, end));
    else
        device->replay(device, r->work);
    r->has_run = true;
    return MEGA_OK;
}

mega_status update_run_recorded(mega_update *u)
{
    MEGA_TRY(update_run_range(u, &u->recording[BEFORE_CHECK], u->first_applied, u->check));
    MEGA_TRY(update_run_one(u, u->check));
    if (u->step.verdict != MEGA_UPDATE_IS_FINITE) return MEGA_OK;
    return update_run_range(u, &u->recording[AFTER_CHECK], u->check + 1, u->count);
}
