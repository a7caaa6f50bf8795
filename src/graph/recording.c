/* Runs of a program as one piece of work of a device: the launches of a forward or a backward are recorded when it runs
 * for the second time, and replayed from then on. What changes between runs is not in their arguments but in memory of
 * the device (control.c). The exception: the first micro-batch of a step overwrites held gradients and later ones add
 * to them, and a library is given that as an argument, so each has a recording. The first run loads the kernels, which
 * a recording cannot do. */
#include "megalith/device_memory.h"
#include "program_impl.h"

enum { PASSES = 2, VARIANTS = 2 }; /* forward, backward; later micro-batches of a step, the first */

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

static bool are_launched(const mega_program *p, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (!is_launched(p, i)) return false;
    return begin < end;
}

mega_status mega_recordings_allocate(mega_program *p)
{
    const int forward = p->g->num_forward;
    if (p->queue.device == NULL || !p->records) return MEGA_OK;
    p->is_recordable[0] = are_launched(p, 0, forward);
    p->is_recordable[1] = are_launched(p, forward, p->g->num_ops);
    p->recording = mega_calloc((size_t)p->slots * PASSES * VARIANTS, sizeof *p->recording);
    return p->recording != NULL ? MEGA_OK : MEGA_NO_MEMORY(p->name, "its recordings");
}

void mega_recordings_free(mega_program *p)
{
    for (int i = 0; p->recording != NULL && i < p->slots * PASSES * VARIANTS; i++)
        p->queue.device->forget(p->queue.device, p->recording[i].work);
    mega_free(p->recording);
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

/* Micro-batch m is in slot m % slots, so the first is in slot 0, which later ones may reach again. */
mega_program_graphs mega_program_graphs_get(const mega_program *p, int64_t micro_batches)
{
    const int begin[PASSES + 1] = {0, p->g->num_forward, p->g->num_ops};
    const int64_t slots = micro_batches < p->slots ? micro_batches : p->slots;
    const int64_t later = micro_batches - 1 < p->slots ? micro_batches - 1 : p->slots;
    mega_program_graphs all = {0};
    for (int i = 0; i < PASSES && p->records && p->backend == MEGA_BACKEND_CUDA; i++) {
        if (!are_launched(p, begin[i], begin[i + 1])) continue;
        const int64_t graphs = are_first_other(p, begin[i], begin[i + 1]) ? 1 + later : slots;
        all.graphs += graphs;
        all.instructions += graphs * (begin[i + 1] - begin[i]);
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

bool mega_recording_applies(const mega_program *p, int begin)
{
    return p->recording != NULL && p->is_recordable[begin > 0 ? 1 : 0];
}

mega_status mega_recording_run(mega_program *p, int slot, int begin, int end)
{
    mega_device *const device = p->queue.device;
    const int pass = begin > 0 ? 1 : 0;
    const int variant = p->step.first_micro_batch && are_first_other(p, begin, end) ? 1 : 0;
    program_recording *r = &p->recording[(slot * PASSES + pass) * VARIANTS + variant];
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
