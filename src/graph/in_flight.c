/* Communication that a running program has started and not yet waited for. A collective starts at its own instruction;
 * the program waits for it just before its first use, which the schedule pass determines, or at the end of the phase.
 * For the exchange of a bucket the place pass inserts an instruction that waits; otherwise the end of the step waits.
 * Until then, communication progresses whenever an instruction starts, and the plan does not reuse its memory. */
#include "megalith/device_memory.h"
#include "megalith/record.h"
#include "megalith/threads.h"
#include "program_impl.h"

#include <limits.h>
#include <string.h>

/* Whether all ranks have nothing to exchange, in which case the result is zeros. */
static bool is_unneeded(const collective_args *a)
{
    int32_t needed = 1;
    if (a->needed != NULL) mega_device_read(&needed, a->needed, sizeof needed);
    return needed == 0;
}

static mega_status exchange_start(const collective_args *a, mega_request *out)
{
    if (!is_unneeded(a)) return mega_comm_all_to_all_start(a->comm, a->what, a->data, a->in, a->count, a->dtype, out);
    *out = (mega_request){0};
    mega_device_fill(a->data, 0, (size_t)(a->count * mega_comm_size(a->comm)) * mega_dtype_size(a->dtype));
    return MEGA_OK;
}

static mega_status in_flight_start(const collective_args *a, mega_request *out)
{
    if (a->kind == OP_ALL_GATHER)
        return mega_comm_all_gather_start(a->comm, a->what, a->data, a->in, a->count, a->dtype, out);
    if (a->kind == OP_REDUCE_SCATTER)
        return mega_comm_reduce_scatter_start(a->comm, a->what, a->data, a->in, a->count, a->dtype, out);
    if (a->kind == OP_ALL_TO_ALL) return exchange_start(a, out);
    if (a->data != a->in) mega_device_copy(a->data, a->in, (size_t)a->count * mega_dtype_size(a->dtype));
    return mega_comm_all_reduce_start(a->comm, a->what, a->data, a->count, a->dtype, a->reduce, out);
}

/* Waits for one entry of the list and removes it, even if the wait fails. */
static mega_status in_flight_end(mega_program *p, int place)
{
    mega_request request = p->wait[place].request;
    const instruction *op = &p->g->op[p->wait[place].instruction];
    p->num_waits--;
    memmove(&p->wait[place], &p->wait[place + 1], (size_t)(p->num_waits - place) * sizeof *p->wait);
    MEGA_TRY(mega_comm_wait(&request));
    /* a sum in place has no other instruction after it; one with an operand is completed by REDUCE_WAIT */
    if (op->kind == OP_REDUCE_START && op->in[0] == 0) mega_bucket_finish_sum(p, op->attr.bucket);
    return MEGA_OK;
}

static mega_status in_flight_wait(mega_program *p, int place)
{
    const int i = p->wait[place].instruction;
    const instruction *op = &p->g->op[i];
    const bool is_profiled = p->profile != NULL;
    const mega_profile_moment began =
        is_profiled ? mega_profile_queued(p->profile, &p->queue) : (mega_profile_moment){0};
    mega_record_scope(mega_comm_record(op->attr.axis.comm), op->scope);
    MEGA_TRY(in_flight_end(p, place));
    if (is_profiled) mega_profile_wait(p->profile, p->g, i, began, mega_profile_queued(p->profile, &p->queue));
    return MEGA_OK;
}

static bool is_exchange(const program_wait *w)
{
    return w->before == PROGRAM_UNTIL_STEP_END;
}

static mega_status in_flight_add(mega_program *p, int i, int before, const mega_request *request)
{
    if (p->num_waits == PROGRAM_WAITS) MEGA_TRY(in_flight_end(p, 0));
    p->wait[p->num_waits++] = (program_wait){*request, i, before};
    return MEGA_OK;
}

/* Returns the oldest collective in the list if PROGRAM_COLLECTIVES are in progress, or -1 if another may start. */
static int first_of_too_many(const mega_program *p)
{
    int first = -1, collectives = 0;
    for (int k = p->num_waits - 1; k >= 0; k--) {
        if (is_exchange(&p->wait[k])) continue;
        first = k;
        collectives++;
    }
    return collectives < PROGRAM_COLLECTIVES ? -1 : first;
}

mega_status mega_collective_run(mega_program *p, int i, const collective_args *a)
{
    const instruction *op = &p->g->op[i];
    mega_request request;
    if (a->kind == OP_OWN_ROWS) { /* no communication */
        const size_t bytes = (size_t)a->count * mega_dtype_size(a->dtype);
        mega_device_copy(a->data, (const char *)a->in + bytes * (size_t)a->rank, bytes);
        return MEGA_OK;
    }
    const int first = first_of_too_many(p);
    if (first >= 0) MEGA_TRY(in_flight_wait(p, first));
    MEGA_TRY(in_flight_start(a, &request));
    return in_flight_add(p, i, op->first_use < 0 ? INT_MAX : op->first_use, &request);
}

mega_status mega_collectives_wait(mega_program *p, int next, int *waited)
{
    *waited = -1;
    for (int k = 0; k < p->num_waits; k++) {
        if (is_exchange(&p->wait[k]) || p->wait[k].before > next) continue;
        *waited = p->wait[k].instruction;
        return in_flight_wait(p, k);
    }
    return MEGA_OK;
}

void mega_collectives_drop_failed(mega_program *p)
{
    int kept = 0;
    for (int k = 0; k < p->num_waits; k++)
        if (is_exchange(&p->wait[k])) p->wait[kept++] = p->wait[k];
    p->num_waits = kept;
}

mega_status mega_exchange_note_start(mega_program *p, int i, const mega_request *request)
{
    return request->world == NULL ? MEGA_OK : in_flight_add(p, i, PROGRAM_UNTIL_STEP_END, request);
}

mega_status mega_exchange_wait(mega_program *p, op_kind kind, int bucket)
{
    for (int k = 0; k < p->num_waits;) {
        const instruction *op = &p->g->op[p->wait[k].instruction];
        if (op->kind != kind || (bucket >= 0 && op->attr.bucket != bucket)) k++;
        else
            MEGA_TRY(in_flight_end(p, k));
    }
    return MEGA_OK;
}

int mega_exchanges(const mega_program *p)
{
    int count = 0;
    for (int k = 0; k < p->num_waits; k++) count += is_exchange(&p->wait[k]);
    return count;
}
