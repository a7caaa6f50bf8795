/* Stretches of a program as one piece of work of a device: the launches of a forward or a backward are recorded when it
 * runs for the second time, and replayed from then on. Where the host has a part, as in an exchange, a stretch ends and
 * another begins. What changes between runs is not in the arguments of launches but in memory of the device
 * (control.c). The exception: the first micro-batch of a step overwrites held gradients and later ones add to them, and
 * a library is given that as an argument, so each has a recording. The first run loads the kernels, which a recording
 * cannot do. */
#include "megalith/device_memory.h"
#include "program_impl.h"

enum {
    VARIANTS = 2, /* later micro-batches of a step, the first */
    FEWEST = 4    /* instructions of a stretch: the launch of a graph takes the host about as long as two of kernels */
};

struct program_recording {
    bool has_run, was_refused;
    mega_recording *work; /* NULL: not recorded */
};

/* Whether the host has no part in an instruction but to launch its kernels. */
static bool is_launched(const mega_program *p, int i)
{
    const op_kind kind = p->g->op[i].kind;
    if (mega_op_is_bucket(kind)) return kind == OP_GRADS_ZERO || kind == OP_HELD_GRAD_ZERO || kind == OP_HELD_GRAD_ADD;
    return mega_program_kernel(p, &p->g->op[i]) != NULL && kind != OP_CUSTOM && kind != OP_CUSTOM_GRAD;
}

/* Returns the end of the instructions from this one on that are only launched, or the next one if it is not. The host
 * waits for a collective before the first use of its result. */
static int launched_until(const mega_program *p, int begin)
{
    const instruction *op = p->g->op;
    int stop = begin < p->g->num_forward ? p->g->num_forward : p->g->num_ops, end = begin + 1;
    for (int k = 0; k < begin; k++)
        if (mega_op_is_collective(op[k].kind) && op[k].first_use > begin && op[k].first_use < stop)
            stop = op[k].first_use;
    if (!is_launched(p, begin)) return end;
    while (end < stop && is_launched(p, end)) end++;
    return end;
}

/* Moves on to the next stretch, the first after *end; returns false after the last one. */
static bool stretch_next(const mega_program *p, program_stretch *s)
{
    for (int i = s->end, end; i < p->g->num_ops; i = end) {
        end = launched_until(p, i);
        if (end - i < FEWEST) continue;
        *s = (program_stretch){i, end};
        return true;
    }
    return false;
}

mega_status mega_recordings_allocate(mega_program *p)
{
    if (p->queue.device == NULL || !p->records) return MEGA_OK;
    for (program_stretch s = {0, 0}; stretch_next(p, &s);) p->num_stretches++;
    p->stretch = mega_calloc((size_t)p->num_stretches + 1, sizeof *p->stretch);
    p->recording = mega_calloc((size_t)p->slots * (size_t)p->num_stretches * VARIANTS + 1, sizeof *p->recording);
    if (p->stretch == NULL || p->recording == NULL) return MEGA_NO_MEMORY(p->name, "its recordings");
    int n = 0;
    for (program_stretch s = {0, 0}; stretch_next(p, &s);) p->stretch[n++] = s;
    return MEGA_OK;
}

void mega_recordings_free(mega_program *p)
{
    for (int i = 0; p->recording != NULL && i < p->slots * p->num_stretches * VARIANTS; i++)
        p->queue.device->forget(p->queue.device, p->recording[i].work);
    mega_free(p->recording);
    mega_free(p->stretch);
}

/* Whether a library computes an instruction's product, which adds to gradients but overwrites them in the first
 * micro-batch of a step. In a plan nobody knows yet whether it will be found. */
static bool is_first_other(const mega_program *p, const instruction *op)
{
    const bool by_library = p->queue.device != NULL ? p->queue.device->has_library : p->may_use_library;
    return by_library && op->attr.first_in_step && mega_op_table[op->kind]->kernel == MEGA_KERNEL_gemm;
}

/* Whether the first micro-batch of a step has a recording of its own. */
static bool are_first_other(const mega_program *p, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (p->g->op[i].kind == OP_HELD_GRAD_ADD || is_first_other(p, &p->g->op[i])) return true;
    return false;
}

/* Whether the first forward of a step waits for the weights of the update before it, and so is not recorded. */
static bool is_first_awaiting(const mega_program *p)
{
    for (int b = 0; p->weights_wait != NULL && b < mega_params_num_buckets(p->g->params); b++)
        if (mega_params_is_gathered(p->g->params, b)) return true;
    return false;
}

/* Micro-batch m is in slot m % slots, so the first is in slot 0, which later ones may reach again. */
mega_program_graphs mega_program_graphs_get(const mega_program *p, int64_t micro_batches)
{
    const int64_t slots = micro_batches < p->slots ? micro_batches : p->slots;
    const int64_t later = micro_batches - 1 < p->slots ? micro_batches - 1 : p->slots;
    mega_program_graphs all = {0};
    if (!p->records || p->backend != MEGA_BACKEND_CUDA) return all;
    for (program_stretch s = {0, 0}; stretch_next(p, &s);) {
        const bool is_forward = s.begin < p->g->num_forward;
        const int64_t graphs = is_forward && is_first_awaiting(p)   ? later
                               : are_first_other(p, s.begin, s.end) ? 1 + later
                                                                    : slots;
        all.graphs += graphs;
        all.instructions += graphs * (s.end - s.begin);
    }
    return all;
}

/* ---- runs ---- */

static mega_status launch_all(mega_program *p, int slot, int begin, int end)
{
    const program_call *call = p->call + (ptrdiff_t)slot * p->g->num_ops;
    for (int i = begin; i < end; i++)
        if (call[i].kernel != NULL) call[i].kernel->run(&p->queue, call[i].args);
        else
            MEGA_TRY(mega_bucket_run(p, i, call[i].args));
    return MEGA_OK;
}

int mega_recording_find(const mega_program *p, int begin)
{
    int low = 0, high = p->num_stretches;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (p->stretch[middle].begin < begin) low = middle + 1;
        else
            high = middle;
    }
    return low < p->num_stretches && p->stretch[low].begin == begin ? low : -1;
}

mega_status mega_recording_run(mega_program *p, int slot, int number)
{
    mega_device *const device = p->queue.device;
    const int begin = p->stretch[number].begin, end = p->stretch[number].end;
    const int variant = p->step.first_micro_batch && are_first_other(p, begin, end) ? 1 : 0;
    program_recording *r = &p->recording[(slot * p->num_stretches + number) * VARIANTS + variant];
    if (r->has_run && r->work == NULL && !r->was_refused && device->record(device)) {
        const mega_status st = launch_all(p, slot, begin, end);
        r->work = device->record_end(device);
        r->was_refused = r->work == NULL;
        MEGA_TRY(st);
    }
    if (r->work == NULL) MEGA_TRY(launch_all(p, slot, begin, end));
    else
        device->replay(device, r->work);
    r->has_run = true;
    return MEGA_OK;
}
