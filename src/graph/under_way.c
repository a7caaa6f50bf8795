/* Collectives of a running program: one is begun where it stands and waited for after the instruction before its first
 * use, which the schedule pass found, or where its phase ends. In between it moves on whenever an instruction begins,
 * and the plan leaves what it works on alone. */
#include "megalith/assert.h"
#include "megalith/record.h"
#include "megalith/threads.h"
#include "program_impl.h"

#include <limits.h>
#include <string.h>

static mega_status begin(const collective_args *a, mega_request *out)
{
    if (a->kind == OP_ALL_GATHER)
        return mega_comm_all_gather_start(a->comm, a->what, a->data, a->in, a->count, a->dtype, out);
    if (a->kind == OP_REDUCE_SCATTER)
        return mega_comm_reduce_scatter_start(a->comm, a->what, a->data, a->in, a->count, a->dtype, out);
    if (a->data != a->in) memcpy(a->data, a->in, (size_t)a->count * mega_dtype_size(a->dtype));
    return mega_comm_all_reduce_start(a->comm, a->what, a->data, a->count, a->dtype, a->reduce, out);
}

/* The request leaves the list also where the wait fails. */
static mega_status wait_for(mega_program *p, int place)
{
    program_wait w = p->wait[place];
    const instruction *op = &p->g->op[w.instruction];
    const double began = p->profile != NULL ? mega_time_now() : 0;
    p->num_waits--;
    memmove(&p->wait[place], &p->wait[place + 1], (size_t)(p->num_waits - place) * sizeof w);
    mega_record_scope(mega_comm_record(op->attr.axis.comm), op->scope);
    MEGA_TRY(mega_comm_wait(&w.request));
    if (p->profile != NULL) mega_profile_wait(p->profile, p->g, w.instruction, began, mega_time_now());
    return MEGA_OK;
}

mega_status mega_collective_run(mega_program *p, int i, const collective_args *a)
{
    const instruction *op = &p->g->op[i];
    mega_request request;
    if (a->kind == OP_OWN_ROWS) { /* nothing is sent */
        const size_t bytes = (size_t)a->count * mega_dtype_size(a->dtype);
        memcpy(a->data, (const char *)a->in + bytes * (size_t)a->rank, bytes);
        return MEGA_OK;
    }
    if (p->num_waits == PROGRAM_WAITS) MEGA_TRY(wait_for(p, 0));
    MEGA_TRY(begin(a, &request));
    p->wait[p->num_waits++] = (program_wait){request, i, op->first_use < 0 ? INT_MAX : op->first_use};
    return MEGA_OK;
}

mega_status mega_collectives_wait(mega_program *p, int next, int *waited)
{
    *waited = -1;
    for (int k = 0; k < p->num_waits; k++) {
        if (p->wait[k].before > next) continue;
        *waited = p->wait[k].instruction;
        return wait_for(p, k);
    }
    return MEGA_OK;
}
