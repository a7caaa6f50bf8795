/* Builds a program: runs the passes and the memory plan, then allocates memory and binds calls. */
#include "megalith/assert.h"
#include "megalith/cuda.h"
#include "megalith/device_memory.h"
#include "megalith/parameter_request.h"
#include "program_impl.h"

#include <string.h>

const mega_kernel *mega_program_kernel(const mega_program *p, const instruction *op)
{
    const op_row *row = mega_op_table[op->kind];
    return row->host != NULL ? row->host : mega_kernel_of(p->backend, row->kernel);
}

/* ---- build ---- */

typedef struct pass {
    const char *name;
    mega_status (*run)(mega_graph *g);
} pass;

static mega_status without_marks(mega_graph *g)
{
    mega_graph_drop_marks(g);
    return MEGA_OK;
}

static mega_status check_dtype(const mega_graph *g)
{
    const mega_dtype dtype = g->params == NULL ? g->dtype : mega_params_compute_dtype(g->params);
    if (dtype == g->dtype || mega_params_count(g->params) == 0) return MEGA_OK;
    return MEGA_MISTAKE("mega_program_build: the graph computes in %s, but its parameters were placed in %s; give "
                        "mega_graph_create and mega_params_place one type",
                        mega_dtype_name(g->dtype), mega_dtype_name(dtype));
}

static mega_status run_passes(mega_graph *g, const mega_program_options *o)
{
    const pass passes[] = {
        {"differentiate", o->differentiate ? mega_pass_differentiate : NULL},
        {"differentiate", without_marks},
        {"labels", mega_pass_labels},
        {"recompute", o->differentiate ? mega_pass_recompute : NULL},
        {"fuse", o->no_fusion ? NULL : mega_pass_fuse},
        {"schedule", mega_pass_schedule},
        {"place", mega_pass_place},
        {"begin", o->differentiate ? mega_pass_begin : NULL},
    };
    MEGA_TRY(mega_graph_status(g));
    MEGA_TRY(mega_params_check_placed(g->params, "mega_program_build"));
    MEGA_TRY(check_dtype(g));
    if (!mega_graph_reserve_params(g)) return mega_graph_status(g); /* other graphs may have declared more */
    if (g->regions.open != 0) return MEGA_MISTAKE("graph: a recompute region is not ended; call mega_recompute_end");
    g->num_forward = g->num_ops;
    MEGA_TRY(mega_graph_verify(g, "describe"));
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].run == NULL) continue;
        MEGA_TRY(passes[i].run(g));
        MEGA_TRY(mega_graph_verify(g, passes[i].name));
    }
    return MEGA_OK;
}

/* A backend may not have a kernel for each op yet. */
static mega_status check_kernels(const mega_program *p)
{
    for (int i = 0; i < p->g->num_ops; i++) {
        const instruction *op = &p->g->op[i];
        const op_row *row = mega_op_table[op->kind];
        if (row->kernel == MEGA_KERNEL_NONE || mega_program_kernel(p, op) != NULL) continue;
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "program %s, op %s in \"%s\": CUDA has no kernel for it yet; leave --device out, which computes "
            "on the CPU",
            p->name, row->name, op->scope);
    }
    return MEGA_OK;
}

static mega_status share_states(mega_program *p)
{
    mega_graph *g = p->g;
    for (int i = 0; i < g->names.num_named && p->states_of != NULL; i++) {
        graph_tensor *t = &g->tensor[g->names.named[i].tensor];
        const int32_t other = t->role == ROLE_STATE ? mega_program_find(p->states_of, g->names.named[i].name) : 0;
        if (other == 0) continue;
        const graph_tensor *o = &p->states_of->g->tensor[other];
        char a[96], b[96];
        if (o->role != ROLE_STATE || !mega_shape_equal(&o->shape, &t->shape))
            return MEGA_MISTAKE("program %s: state \"%s\" is %s, but %s in program %s, which shares it", p->name,
                                g->names.named[i].name, mega_shape_text(a, sizeof a, &t->shape),
                                mega_shape_text(b, sizeof b, &o->shape), p->states_of->name);
        if (p->slots > p->states_of->slots)
            return MEGA_MISTAKE("program %s has %d slots, and program %s, whose states it shares, has %d", p->name,
                                p->slots, p->states_of->name, p->states_of->slots);
        t->shared_with = other;
    }
    return MEGA_OK;
}

/* Gives back what the lists of a finished graph have beyond their entries: passes let them grow. */
static mega_status fit_lists(mega_graph *g)
{
    void *tensor = mega_realloc(g->tensor, (size_t)g->num_tensors * sizeof *g->tensor);
    if (tensor != NULL) g->tensor = tensor, g->cap_tensors = g->num_tensors;
    void *op = mega_realloc(g->op, ((size_t)g->num_ops + 1) * sizeof *g->op);
    if (op != NULL) g->op = op, g->cap_ops = g->num_ops + 1;
    return tensor != NULL && op != NULL ? MEGA_OK : MEGA_NO_MEMORY("program", "its lists");
}

mega_status mega_program_build(mega_graph *g, const mega_program_options *options, mega_program **out)
{
    if (out == NULL || g == NULL || options == NULL) {
        mega_graph_destroy(g);
        return MEGA_MISTAKE("mega_program_build: %s is NULL; give it", out == NULL ? "out"
                                                                       : g == NULL ? "the graph"
                                                                                   : "options");
    }
    mega_program *p = mega_calloc(1, sizeof *p);
    if (p == NULL) {
        mega_graph_destroy(g);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "program: no memory");
    }
    p->g = g;
    p->backend = options->backend;
    p->team = options->team;
    p->queue = (mega_queue){.team = options->team};
    p->threads = mega_team_size(options->team);
    p->slots = options->slots > 0 ? options->slots : 1;
    p->passes = options->passes > 0 && options->passes < p->slots ? options->passes : p->slots;
    p->states_of = options->states_of;
    p->pack_weights = options->pack_weights;
    p->records = options->records;
    p->may_use_library = options->may_use_library;
    p->world = options->world;
    p->most_exchanges = options->requests > 0 ? options->requests : MEGA_PROGRAM_REQUESTS;
    g->buckets.place = options->place;
    g->results.per_token_loss = options->per_token_loss;
    p->check = mega_check_level();
    p->step.loss_factor = 1.0;
    p->name = mega_arena_strdup(&g->arena, options->name == NULL ? "program" : options->name);
    mega_status st = p->name == NULL ? MEGA_NO_MEMORY("program", "its name") : MEGA_OK;
    if (st == MEGA_OK && p->backend != MEGA_BACKEND_PLAIN && g->dtype == MEGA_F64)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                       "program %s in f64: the fast kernels compute in f32, bf16 and f16; choose the "
                       "plain backend for f64",
                       p->name);
    if (st == MEGA_OK) st = run_passes(g, options);
    if (st == MEGA_OK) st = check_kernels(p);
    if (st == MEGA_OK) mega_graph_mark_scaled(g);
    if (st == MEGA_OK) st = share_states(p);
    if (st == MEGA_OK) st = mega_program_plan(p);
    if (st == MEGA_OK) st = fit_lists(g);
    if (st != MEGA_OK) {
        mega_program_destroy(p);
        return st;
    }
    *out = p;
    return MEGA_OK;
}

/* ---- allocate ---- */

void *mega_program_address(const mega_program *p, int32_t tensor, int slot)
{
    const graph_tensor *t = &p->g->tensor[tensor];
    if (tensor == 0) return NULL;
    switch (t->role) {
    case ROLE_WEIGHT:
        if (t->base != 0) break;
        return mega_params_weight(p->g->params, t->param);
    case ROLE_GRADIENT:
        if (t->base != 0) break;
        return mega_params_grad(p->g->params, t->param);
    case ROLE_STATE:
        if (t->shared_with != 0) return mega_program_address(p->states_of, t->shared_with, slot);
        return p->state + (size_t)slot * p->state_bytes + t->at;
    case ROLE_VIEW:
    case ROLE_VALUE:
    case ROLE_INPUT: break;
    }
    if (t->base != 0)
        return (char *)mega_program_address(p, t->base, slot) + (size_t)t->offset * mega_dtype_size(t->shape.dtype);
    switch (t->area) {
    case AREA_IO: return p->io[slot] + t->at;
    case AREA_PASS: return p->pass[slot % p->passes] + t->at;
    case AREA_SAVED: return p->saved[slot] + t->at;
    case AREA_SCRATCH: return p->scratch + t->at;
    default: return NULL;
    }
}

static void *slot_address(const op_binder *b, int32_t tensor)
{
    return mega_program_address(b->user, tensor, b->slot);
}

void mega_program_bind_args(const mega_program *p, const op_binder *b, const instruction *op, void *args)
{
    mega_kernel_head *head = args; /* first member of every argument struct */
    head->dtype = p->g->dtype;
    head->step = mega_control_step(p);
    mega_op_fill(b, op, args);
    if (mega_op_table[op->kind]->bind != NULL) mega_op_table[op->kind]->bind(b, op, args);
}

static void bind_collective(const mega_program *p, const op_binder *b, const instruction *op, collective_args *a)
{
    const graph_tensor *t = &p->g->tensor[op->kind == OP_ALL_GATHER ? op->in[0] : op->out[0]];
    a->kind = op->kind;
    a->rank = op->attr.axis.rank;
    a->comm = op->attr.axis.comm;
    a->what = op->attr.what;
    a->data = b->address(b, op->out[0]);
    a->in = b->address(b, op->in[0]);
    a->needed = op->kind == OP_ALL_TO_ALL ? b->address(b, op->in[1]) : NULL;
    a->count = mega_shape_count(&t->shape) / (op->kind == OP_ALL_TO_ALL ? op->attr.axis.size : 1);
    a->dtype = t->shape.dtype;
    a->reduce = op->attr.reduce;
}

static mega_status bind_call(mega_program *p, int slot, int i)
{
    instruction *op = &p->g->op[i];
    program_call *c = &p->call[slot * p->g->num_ops + i];
    const op_binder b = {.g = p->g, .address = slot_address, .table = mega_control_table, .user = p, .slot = slot};
    c->kernel = mega_program_kernel(p, op);
    c->instruction = i;
    c->args = p->call_args + (size_t)(c - p->call) * PROGRAM_ARGS_BYTES;
    if (mega_op_is_bucket(op->kind)) return mega_bucket_bind(p, &b, op, c->args);
    if (c->kernel == NULL) {
        bind_collective(p, &b, op, c->args);
        return MEGA_OK;
    }
    mega_kernel_head *head = c->args;
    if (op->scratch_bytes > 0) head->scratch = p->scratch + op->scratch_at;
    if (op->packed_bytes > 0) head->packed = p->packed + op->packed_at;
    head->packs = op->fills_packed;
    mega_program_bind_args(p, &b, op, c->args);
    if (c->kernel->prepare != NULL) {
        const mega_status st = c->kernel->prepare(c->args, p->threads);
        if (st != MEGA_OK) {
            MEGA_CONTEXT("program %s, op %s in \"%s\"", p->name, mega_op_table[op->kind]->name, op->scope);
            return st;
        }
        c->prepared = true;
    }
    if (p->backend != MEGA_BACKEND_CUDA || mega_op_table[op->kind]->host != NULL) return MEGA_OK;
    return mega_cuda_load(p->queue.device, mega_op_table[op->kind]->kernel, c->args);
}

static mega_status allocate_arenas(mega_program *p, mega_region *resident, mega_region *workspace, mega_region *shared)
{
    p->is_begun = true;
    p->borrows_memory = resident != NULL;
    p->saved = mega_calloc((size_t)p->slots, sizeof *p->saved);
    p->io = mega_calloc((size_t)p->slots, sizeof *p->io);
    p->pass = mega_calloc((size_t)p->passes, sizeof *p->pass);
    p->is_forward_done = mega_calloc((size_t)p->slots, sizeof *p->is_forward_done);
    p->has_given_gradient = mega_calloc((size_t)p->slots, sizeof *p->has_given_gradient);
    p->call = mega_calloc((size_t)p->slots * (size_t)p->g->num_ops + 1, sizeof *p->call);
    if (p->saved == NULL || p->io == NULL || p->pass == NULL || p->is_forward_done == NULL ||
        p->has_given_gradient == NULL || p->call == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory for its calls", p->name);
    void *block = NULL;
    for (int s = 0; s < p->slots; s++) {
        MEGA_TRY(mega_region_take(workspace, &block, p->saved_bytes, "saved activations"));
        p->saved[s] = block;
        MEGA_TRY(mega_region_take(resident, &block, p->io_bytes, "inputs and outputs of a program"));
        p->io[s] = block;
    }
    for (int s = 0; s < p->passes; s++) {
        MEGA_TRY(mega_region_take(resident, &block, p->pass_bytes, "what passes through a program"));
        p->pass[s] = block;
    }
    MEGA_TRY(mega_region_take(p->slots > 1 ? shared : workspace, &block, p->scratch_bytes, "scratch of a program"));
    p->scratch = block;
    MEGA_TRY(mega_region_take(resident, &block, p->state_bytes * (size_t)p->slots, "states of a program"));
    p->state = block;
    MEGA_TRY(mega_region_take(resident, &block, p->control_bytes, "what a program is told"));
    p->control = block;
    MEGA_TRY(mega_region_take(resident, &block, p->packed_bytes, "packed weights"));
    p->packed = block;
    return MEGA_OK;
}

static mega_status check_buffers(const mega_program *p)
{
    const mega_graph *g = p->g;
    for (int t = 1; t < g->num_tensors; t++) {
        const graph_tensor *x = &g->tensor[t];
        const bool missing = x->base == 0 && ((x->role == ROLE_WEIGHT && mega_params_flat_weight(g->params) == NULL) ||
                                              (x->role == ROLE_GRADIENT && mega_params_flat_grad(g->params) == NULL));
        if (missing)
            return MEGA_MISTAKE("program %s: %s has no memory yet; call mega_params_allocate first", p->name, x->name);
    }
    if (p->states_of != NULL && p->states_of->state == NULL)
        return MEGA_MISTAKE("program %s shares the states of %s, which is not allocated yet", p->name,
                            p->states_of->name);
    return MEGA_OK;
}

mega_status mega_program_allocate(mega_program *p)
{
    return mega_program_allocate_in(p, NULL, NULL, NULL);
}

mega_program_regions mega_program_region_bytes(const mega_program *p)
{
    const size_t saved = mega_region_round(p->saved_bytes), scratch = mega_region_round(p->scratch_bytes);
    return (mega_program_regions){.resident = mega_region_round(p->io_bytes) * (size_t)p->slots +
                                              mega_region_round(p->pass_bytes) * (size_t)p->passes +
                                              mega_region_round(p->state_bytes * (size_t)p->slots) +
                                              mega_region_round(p->control_bytes) + mega_region_round(p->packed_bytes),
                                  .workspace = p->slots > 1 ? saved * (size_t)p->slots : saved + scratch,
                                  .shared = p->slots > 1 ? scratch : 0};
}

mega_status mega_program_allocate_in(mega_program *p, mega_region *resident, mega_region *workspace,
                                     mega_region *shared)
{
    if (p == NULL) return MEGA_MISTAKE("mega_program_allocate: the program is NULL; build one first");
    if (p->is_begun)
        return MEGA_MISTAKE("program %s: %s; mega_program_allocate is called once", p->name,
                            p->is_allocated ? "it was allocated before" : "it failed to get its memory before");
    MEGA_TRY(check_buffers(p));
    if (p->backend == MEGA_BACKEND_CUDA && (resident == NULL || mega_device_of(resident->base) == NULL))
        return MEGA_MISTAKE("program %s computes on a GPU, and its memory would be the host's; call "
                            "mega_program_allocate_in with memory of mega_device_alloc",
                            p->name);
    MEGA_TRY(allocate_arenas(p, resident, workspace, shared));
    p->queue.device = mega_device_of(p->control); /* never empty */
    p->call_args =
        mega_calloc((size_t)p->slots * (size_t)p->g->num_ops, PROGRAM_ARGS_BYTES); /* in one piece, as planned */
    if (p->call_args == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "program %s: no memory for its calls", p->name);
    for (int s = 0; s < p->slots; s++)
        for (int i = 0; i < p->g->num_ops; i++) MEGA_TRY(bind_call(p, s, i));
    mega_program_write_tables(p);
    MEGA_TRY(mega_recordings_allocate(p));
    p->is_allocated = true;
    return MEGA_OK;
}

void mega_program_destroy(mega_program *p)
{
    if (p == NULL) return;
    for (int i = 0; p->call != NULL && i < p->slots * p->g->num_ops; i++)
        if (p->call[i].prepared && p->call[i].kernel->release != NULL) p->call[i].kernel->release(p->call[i].args);
    for (int s = 0; s < p->slots && !p->borrows_memory; s++) {
        if (p->saved != NULL) mega_pages_free(p->saved[s], p->saved_bytes);
        if (p->io != NULL) mega_pages_free(p->io[s], p->io_bytes);
        if (p->pass != NULL && s < p->passes) mega_pages_free(p->pass[s], p->pass_bytes);
    }
    if (!p->borrows_memory) {
        mega_pages_free(p->scratch, p->scratch_bytes);
        mega_pages_free(p->state, p->state_bytes * (size_t)p->slots);
        mega_pages_free(p->control, p->control_bytes);
        mega_pages_free(p->packed, p->packed_bytes);
    }
    mega_recordings_free(p);
    mega_arena_fini(&p->args);
    mega_free(p->call_args);
    mega_free(p->saved);
    mega_free(p->io);
    mega_free(p->pass);
    mega_free(p->is_forward_done);
    mega_free(p->has_given_gradient);
    mega_free(p->call);
    mega_free(p->block);
    mega_graph_destroy(p->g);
    mega_free(p);
}

/* ---- queries ---- */

int32_t mega_program_find(const mega_program *p, const char *name)
{
    for (int i = 0; name != NULL && i < p->g->names.num_named; i++)
        if (strcmp(p->g->names.named[i].name, name) == 0) return p->g->names.named[i].tensor;
    return 0;
}

mega_status mega_program_check_slot(const mega_program *p, int slot)
{
    if (p == NULL) return MEGA_MISTAKE("the program is NULL; build one with mega_program_build");
    if (slot >= 0 && slot < p->slots) return MEGA_OK;
    return MEGA_MISTAKE("program %s: slot %d; it was built with %d, expected 0 to %d", p->name, slot, p->slots,
                        p->slots - 1);
}

void *mega_program_tensor(mega_program *p, const char *name, int slot)
{
    if (mega_program_check_slot(p, slot) != MEGA_OK) return NULL;
    return !p->is_allocated ? NULL : mega_program_address(p, mega_program_find(p, name), slot);
}

size_t mega_program_tensor_bytes(const mega_program *p, const char *name)
{
    const int32_t t = mega_program_find(p, name);
    return t == 0 ? 0 : mega_shape_bytes(&p->g->tensor[t].shape);
}

bool mega_program_named_get(const mega_program *p, int number, mega_program_named *out)
{
    if (p == NULL || number < 0 || number >= p->g->names.num_named) return false;
    const graph_tensor *t = &p->g->tensor[p->g->names.named[number].tensor];
    *out = (mega_program_named){.name = p->g->names.named[number].name,
                                .role = t->role == ROLE_INPUT   ? MEGA_PROGRAM_INPUT
                                        : t->role == ROLE_STATE ? MEGA_PROGRAM_STATE
                                                                : MEGA_PROGRAM_OUTPUT,
                                .dtype = t->shape.dtype,
                                .num_dims = t->shape.num_dims,
                                .below = t->below,
                                .classes = t->classes,
                                .is_checked_by_op = t->is_checked_by_op,
                                .leaves_out = t->leaves_out,
                                .ignored = t->has_ignored ? t->ignored : MEGA_IGNORED_LABEL};
    for (int i = 0; i < p->g->names.num_named && t->weights != 0; i++)
        if (p->g->names.named[i].tensor == t->weights) out->weights = p->g->names.named[i].name;
    for (int d = 0; d < out->num_dims; d++) out->dim[d] = t->shape.dim[d];
    return true;
}

bool mega_program_wrong_labels(const mega_program *p, int slot, mega_program_mistake *out)
{
    int32_t wrong[3] = {0};
    for (int i = 0; i < p->g->num_forward; i++) {
        const instruction *op = &p->g->op[i];
        if (op->kind != OP_LABEL_WEIGHTS || op->out[LABEL_WEIGHTS_WRONG] == 0) continue;
        mega_device_read(wrong, mega_program_address(p, op->out[LABEL_WEIGHTS_WRONG], slot), sizeof wrong);
        if (wrong[0] == 0) continue;
        const graph_tensor *labels = &p->g->tensor[op->in[LABEL_WEIGHTS_LABELS]];
        const graph_tensor *whole = &p->g->tensor[mega_graph_root(p->g, op->in[LABEL_WEIGHTS_LABELS])];
        *out = (mega_program_mistake){.labels = labels->name,
                                      .is_input = whole->role == ROLE_INPUT,
                                      .wrong = wrong[0],
                                      .rows = labels->shape.dim[0],
                                      .row = (labels->role == ROLE_VIEW ? labels->offset : 0) + wrong[1],
                                      .all_rows = mega_shape_count(&whole->shape),
                                      .classes = op->attr.valid,
                                      .label = wrong[2],
                                      .ignored = op->attr.ignored};
        return true;
    }
    return false;
}

mega_dtype mega_program_acc_dtype(const mega_program *p)
{
    return p->g->acc;
}

mega_step_block *mega_program_step_block(mega_program *p)
{
    return &p->step;
}

/* Returns the bytes of the used entries of the lists of graph and plan, and of the calls of every slot. */
static size_t record_bytes(const mega_program *p)
{
    const mega_graph *g = p->g;
    const size_t tensors = (size_t)g->num_tensors, ops = (size_t)g->num_ops, slots = (size_t)p->slots;
    return tensors * sizeof *g->tensor + ops * sizeof *g->op + mega_arena_bytes(&g->arena) +
           (size_t)p->num_blocks * sizeof *p->block + slots * ops * (sizeof *p->call + PROGRAM_ARGS_BYTES);
}

void mega_program_memory_get(const mega_program *p, mega_program_memory *out)
{
    if (p == NULL) {
        *out = (mega_program_memory){0};
        return;
    }
    *out = (mega_program_memory){.saved_bytes = p->saved_bytes + p->crossing_bytes,
                                 .scratch_bytes = p->scratch_bytes - p->crossing_bytes,
                                 .live_bytes = p->live_bytes,
                                 .shared_bytes = p->slots > 1 ? p->scratch_bytes : 0,
                                 .shared_live = p->slots > 1 ? p->scratch_live : 0,
                                 .head_bytes = p->head_bytes,
                                 .bucket_bytes = p->held_bytes[HOLDS_GRADIENTS],
                                 .gathered_bytes = p->held_bytes[HOLDS_WEIGHTS],
                                 .input_bytes = p->io_bytes * (size_t)p->slots + p->pass_bytes * (size_t)p->passes,
                                 .state_bytes = p->state_bytes * (size_t)p->slots,
                                 .control_bytes = p->control_bytes,
                                 .packed_bytes = p->packed_bytes,
                                 .record_bytes = record_bytes(p),
                                 .slots = p->slots};
    out->total_bytes = out->saved_bytes * (size_t)p->slots + out->input_bytes + out->scratch_bytes + out->state_bytes +
                       p->control_bytes + p->packed_bytes;
}

void mega_program_cost_get(const mega_program *p, mega_program_cost *out)
{
    *out = (mega_program_cost){0};
    for (int i = 0; i < p->g->num_ops; i++) {
        const instruction *op = &p->g->op[i];
        const op_cost c = mega_op_cost(p->g, op);
        *(op->recomputed ? &out->recompute_flops
          : op->backward ? &out->backward_flops
                         : &out->forward_flops) += c.flops;
        out->bytes += c.bytes;
    }
}

int mega_program_num_instructions(const mega_program *p, bool backward)
{
    return backward ? p->g->num_ops - p->g->num_forward : p->g->num_forward;
}

bool mega_program_overwrites_gradient(const mega_program *p, int param)
{
    const mega_graph *g = p->g;
    if (param < 0 || param >= g->weights.cap) return false;
    const graph_tensor *t = &g->tensor[g->weights.gradient[param]];
    return t->is_overwritten || t->base != 0; /* a value of the program replaces what the buffers hold */
}
