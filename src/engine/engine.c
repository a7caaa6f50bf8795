/* Builds an engine: parameters, programs, memory plan, allocation. */
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_data.h"
#include "engine_losses.h"
#include "engine_state.h"
#include "engine_step.h"
#include "engine_watch.h"
#include "megalith/comm_users.h"
#include "megalith/cuda.h"
#include "megalith/device_memory.h"
#include "megalith/log.h"
#include "megalith/threads.h"
#include <math.h>

enum { DEFAULT_BUCKET_ELEMENTS = 40000000, LOSS_BYTES = sizeof(double[MEGA_METRICS][2]) };

/* Memory of a process besides its arena after some steps, measured with bench_memory (AVX2): 0.24 to 0.33 MB with one
 * thread, 0.27 to 0.36 MB with two, 0.30 to 0.40 MB with four. */
#define LIBRARY_BYTES ((size_t)260000)
#define THREAD_BYTES  ((size_t)25000)

void engine_find_overwritten_gradients(mega_engine *e)
{
    const int count = mega_params_count(e->params);
    for (int i = 0; i < count; i++) e->programs.overwritten[i] = false;
    for (int c = 0; c < e->programs.chunks; c++)
        for (int i = 0; i < count; i++)
            e->programs.overwritten[i] =
                e->programs.overwritten[i] || mega_program_overwrites_gradient(e->programs.chunk[c].train, i);
}

static mega_status find_overwritten(mega_engine *e)
{
    const int count = mega_params_count(e->params);
    e->programs.overwritten = mega_calloc((size_t)count + 1, sizeof *e->programs.overwritten);
    if (e->programs.overwritten == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for a list of %d parameters", count);
    engine_find_overwritten_gradients(e);
    return MEGA_OK;
}

static mega_status engine_walk_model(mega_engine *e, const mega_model *model)
{
    const mega_engine_options *o = &e->options;
    const int stages = e->layout->pp.size;
    const mega_model_sizes sizes = {
        .mode = MEGA_EVAL, .samples = o->micro_batch, .positions = o->seq, .groups = e->model.groups};
    mega_model walked = *model;
    engine_override_recompute(o, &walked);
    if (o->generate) walked.sequence_parallel = false; /* MEGA_GENERATE allows any number of rows */
    e->programs.chunks = stages > 1 && o->stage_programs > 1 ? o->stage_programs : 1;
    return mega_model_parts_create(&walked, e->layout, o->compute, sizes, stages * e->programs.chunks, &e->model.parts);
}

static mega_status check_expert_ranks(const mega_engine *e)
{
    const mega_params *whole = mega_model_parts_params(e->model.parts);
    bool has_experts = false;
    if (e->layout->ep.size == 1) return MEGA_OK;
    for (int i = 0; i < mega_params_count(whole) && !has_experts; i++)
        has_experts = mega_params_get(whole, i)->held_by > 0;
    if (has_experts) return MEGA_OK;
    return MEGA_MISTAKE(
        "--expert-model-parallel-size %d (layout.ep): the model has no experts to divide; leave it at 1",
        e->layout->ep.size);
}

mega_status engine_build(mega_engine *e, const mega_model *model)
{
    mega_engine_options *o = &e->options;
    const bool compresses = o->optimizer.row == NULL && mega_optimizer_kind_compresses(o->optimizer.kind);
    const int64_t bucket = o->bucket_elements > 0 ? o->bucket_elements : DEFAULT_BUCKET_ELEMENTS;
    e->lengths.positions = o->seq;
    MEGA_TRY(mega_layout_create(o->world, &o->layout, &e->layout));
    mega_users_add(mega_layout_users(e->layout), 1);
    MEGA_TRY(engine_check_ramp(e));
    if (!o->no_train) MEGA_TRY(mega_param_groups_create(o->group, o->num_groups, o->schedule.max_lr, &e->model.groups));
    MEGA_TRY(mega_params_create(e->layout, &e->params));
    mega_params_set_groups(e->params, e->model.groups);
    MEGA_TRY(engine_walk_model(e, model));
    MEGA_TRY(check_expert_ranks(e));
    MEGA_TRY(mega_param_groups_check(e->model.groups, mega_model_parts_params(e->model.parts)));
    MEGA_TRY(engine_choose_regions(e, model));
    e->data.capacity = o->batch.global_batch / e->layout->dp.size;
    if (compresses) o->place.overlap_reduce = false; /* the update decides whether gradients are summed */
    MEGA_TRY(engine_describe_chunks(e, model));      /* declares the parameters */
    MEGA_TRY(engine_find_ties(e));
    MEGA_TRY(mega_params_shard(e->params, o->zero_stage));
    MEGA_TRY(mega_params_persist(e->params, o->zero_persistence));
    MEGA_TRY(mega_params_sum_in(e->params, o->sums.dtype));
    MEGA_TRY(mega_params_hold_gradients_in(e->params, o->grad_accum_dtype));
    mega_params_run_in(e->params, o->backend, &(mega_queue){.team = o->team});
    MEGA_TRY(mega_params_place(e->params, o->compute, bucket));
    MEGA_TRY(engine_build_chunks(e));
    if (!o->no_train) {
        MEGA_TRY(find_overwritten(e));
        o->optimizer.queue = (mega_queue){.team = o->team};
        o->optimizer.backend = o->backend;
        MEGA_TRY(mega_optimizer_create(e->params, e->layout, &o->optimizer, &e->optimizer));
    }
    return MEGA_OK;
}

/* The list of losses, and the update program, which sums them. */
static mega_status engine_finish_build(mega_engine *e)
{
    MEGA_TRY(engine_collect_losses(e));
    MEGA_TRY(engine_try_lengths(e));
    return engine_make_update(e);
}

/* Builds the engine on all ranks. If one rank finds a mistake in the model, all return that error, so that no rank
 * enters a collective that others do not join. */
static mega_status engine_build_alike(mega_engine *e, const mega_model *model)
{
    mega_status st = engine_check_options(model, &e->options);
    if (st == MEGA_OK) st = engine_cut_epochs(e);
    if (e->options.world == NULL) {
        MEGA_TRY(st);
        MEGA_TRY(engine_build(e, model));
        MEGA_TRY(engine_collect_inputs(e));
        return engine_finish_build(e);
    }
    mega_comm *world = mega_world_comm(e->options.world);
    MEGA_TRY(mega_comm_agree(world, st));
    MEGA_TRY(engine_compare_options(&e->options)); /* ranks with other layouts would wait for each other in build */
    MEGA_TRY(engine_compare_data(e));
    MEGA_TRY(mega_comm_agree(world, engine_build(e, model)));
    if (e->options.layout.planned_ranks > 0) {
        MEGA_TRY(engine_collect_inputs(e));
        return engine_finish_build(e);
    }
    MEGA_TRY(engine_compare_models(e));
    MEGA_TRY(mega_comm_agree(world, engine_collect_inputs(e)));
    MEGA_TRY(engine_compare_inputs(e));
    MEGA_TRY(mega_comm_agree(world, engine_finish_build(e)));
    return engine_compare_losses(e);
}

mega_status mega_engine_create(const mega_setup *setup, mega_engine **out)
{
    if (out == NULL || setup == NULL)
        return MEGA_MISTAKE("mega_engine_create: %s is NULL; give it", out == NULL ? "out" : "setup");
    mega_engine *e = mega_calloc(1, sizeof *e);
    if (e == NULL) return MEGA_NO_MEMORY("engine", "its record");
    e->step.grad_norm = NAN;
    mega_status st = engine_read_setup(e, setup);
    if (st == MEGA_OK && e->options.compute == MEGA_F64) e->options.backend = MEGA_BACKEND_PLAIN;
    if (st == MEGA_OK) engine_scale_reset(e);
    if (st == MEGA_OK) st = engine_name_options_as_given(e, engine_build_alike(e, setup->model));
    if (st != MEGA_OK) {
        mega_error_record why;
        mega_error_get(&why);
        mega_engine_destroy(e);
        return mega_error_restore(&why);
    }
    *out = e;
    return MEGA_OK;
}

mega_status mega_initialize(const mega_setup *setup, mega_engine **out)
{
    mega_engine *e = NULL;
    if (out == NULL) return MEGA_MISTAKE("mega_initialize: out is NULL; give it");
    MEGA_TRY(mega_engine_create(setup, &e));
    const mega_status st = mega_engine_allocate(e);
    if (st != MEGA_OK) {
        mega_error_record why;
        mega_error_get(&why);
        mega_engine_destroy(e);
        return mega_error_restore(&why);
    }
    *out = e;
    return MEGA_OK;
}

/* The walk over the model counted this rank's share of each GEMM, so the sum is multiplied by the size of tp. */
mega_engine_cost engine_cost_of(const mega_engine *e, const mega_model_parts *parts)
{
    mega_engine_cost sum = {0, 0};
    for (int l = 0; l < mega_model_parts_layers(parts); l++) {
        sum.flops += mega_model_parts_flops(parts, l);
        sum.masked_flops += mega_model_parts_masked_flops(parts, l);
    }
    const double each = 3.0 * e->layout->tp.size / (double)e->options.micro_batch;
    return (mega_engine_cost){sum.flops * each, sum.masked_flops * each};
}

void mega_engine_cost_get(const mega_engine *e, mega_engine_cost *out)
{
    if (engine_check_given(e, "mega_engine_cost_get", "out", out) != MEGA_OK) {
        if (out != NULL) *out = (mega_engine_cost){0, 0};
        return;
    }
    *out = e->lengths.positions == e->options.seq ? engine_cost_of(e, e->model.parts) : e->lengths.cost;
}

void mega_engine_destroy(mega_engine *e)
{
    if (e == NULL) return;
    if (engine_check_free(e, "mega_engine_destroy") != MEGA_OK) {
        mega_warn("%s; the engine was not destroyed", mega_error_message());
        return;
    }
    mega_reader_destroy(e->data.reader);
    /* other ranks may still read this rank's memory, and the groups of an exchange must outlive it; ranks that have
     * agreed on a failure have all begun the same ones (mega_update_step.is_cut) */
    (void)mega_update_wait(e->update);
    if (e->late.is_awaited) MEGA_IGNORE(mega_device_finish(e->memory.device)); /* it may run what is freed here */
    engine_monitor_close(e);
    engine_close_runs(e);
    engine_destroy_chunks(e);
    mega_update_destroy(e->update);
    mega_optimizer_destroy(e->optimizer);
    mega_params_destroy(e->params);
    mega_model_parts_destroy(e->model.parts);
    mega_param_groups_destroy(e->model.groups);
    mega_users_add(mega_layout_users(e->layout), -1);
    mega_layout_destroy(e->layout);
    mega_batch_destroy(e->data.batch);
    mega_batch_destroy(e->late.rows);
    mega_free(e->programs.overwritten);
    mega_free(e->ties.tie);
    mega_free(e->ties.stages);
    mega_free(e->programs.schedule);
    mega_device_free(e->memory.arena, e->memory.bytes);
    mega_comm_forget_device(e->options.world, e->memory.device);
    mega_device_close(e->memory.device);
    engine_client_free(e);
    engine_forget_setup(e);
    engine_return_borrowed(e);
    mega_team_destroy(e->owned.team);
    mega_world_destroy(e->owned.world);
    mega_free(e);
}

/* Returns the bytes of the persistent buffers; *workspace receives those of the region that programs share. */
static size_t arena_bytes(const mega_engine *e, size_t *workspace)
{
    const int buffers = MEGA_PARAMS_WEIGHTS | (e->programs.train != NULL ? MEGA_PARAMS_GRADS : 0);
    size_t resident =
        mega_params_region_bytes(e->params, buffers) + mega_region_round(mega_update_scratch_bytes(e->update));
    size_t own;
    if (e->optimizer != NULL) resident += mega_optimizer_region_bytes(e->optimizer);
    resident += mega_region_round(LOSS_BYTES);
    engine_chunks_region(e, &own, workspace);
    return resident + own;
}

/* Returns the bytes of the largest exchange of gradients and weights over a group: dp, or edp of experts. */
static size_t largest_bucket(const mega_engine *e, const mega_comm *group)
{
    size_t most = 0;
    for (int i = 0; i < mega_params_num_buckets(e->params); i++) {
        const size_t sum = mega_dtype_size(mega_params_sum_dtype(e->params, i)),
                     weight = mega_dtype_size(e->options.compute);
        const size_t bytes = (size_t)mega_params_bucket(e->params, i)->count * (sum > weight ? sum : weight);
        if (mega_params_group(e->params, i).comm == group && bytes > most) most = bytes;
    }
    return most;
}

/* Returns the bytes of buffers that the collectives of a step fill. */
static size_t engine_buffer_bytes(const mega_engine *e)
{
    const mega_layout *l = e->layout;
    const mega_axis *axis[] = {&l->tp, &l->cp, &l->dp, &l->pp, &l->ep, &l->edp, &l->world};
    size_t sum = 0;
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) {
        const mega_comm *comm = axis[i]->comm;
        const size_t of_programs = engine_chunks_largest_collective(e, comm);
        const size_t of_buckets = e->programs.train != NULL ? largest_bucket(e, comm) : 0;
        sum += mega_comm_buffer_bytes(comm, of_programs > of_buckets ? of_programs : of_buckets);
    }
    return sum;
}

void mega_engine_memory_get(const mega_engine *e, mega_engine_memory *out)
{
    mega_engine_memory m = {0};
    if (engine_check_given(e, "mega_engine_memory_get", "out", out) != MEGA_OK) {
        if (out != NULL) *out = m;
        return;
    }
    m.zero_stage = mega_params_zero_stage(e->params);
    m.shards = mega_params_shards(e->params).size;
    m.masters = mega_params_master_bytes(e->params);
    m.weights = mega_params_bytes(e->params, MEGA_PARAMS_WEIGHTS) - m.masters;
    m.gradients = e->programs.train != NULL
                      ? mega_params_bytes(e->params, MEGA_PARAMS_GRADS) + mega_update_scratch_bytes(e->update)
                      : 0;
    m.moments = e->optimizer != NULL ? mega_optimizer_bytes(e->optimizer) : 0;
    m.data = mega_batch_bytes(e->data.batch) + (e->late.rows != NULL ? mega_batch_bytes(e->late.rows) : 0) +
             mega_reader_bytes(e->data.reader) + mega_region_round(LOSS_BYTES);
    for (int k = 0; k < ENGINE_KINDS; k++) m.data += e->runs.batch[k] != NULL ? mega_batch_bytes(e->runs.batch[k]) : 0;
    const size_t threads = (size_t)mega_team_size(e->options.team) + (e->data.reader != NULL ? 1 : 0);
    m.libraries = LIBRARY_BYTES + THREAD_BYTES * threads + engine_buffer_bytes(e);
    m.total = m.weights + m.masters + m.gradients + m.moments + m.data + m.libraries;
    m.records = mega_params_record_bytes(e->params) + mega_model_parts_bytes(e->model.parts);
    engine_chunks_memory(e, &m);
    size_t workspace;
    m.device = arena_bytes(e, &workspace);
    m.device += workspace;
    *out = m;
}

/* Allocates all large buffers of the device in one mapping: first the persistent ones, then the region that programs
 * share. Rows of batches are memory of the host. */
static mega_status engine_allocate_arena(mega_engine *e, mega_region *resident, mega_region *workspace)
{
    size_t workspace_bytes;
    const size_t resident_bytes = arena_bytes(e, &workspace_bytes);
    e->memory.bytes = resident_bytes + workspace_bytes;
    MEGA_TRY(mega_device_alloc(e->memory.device, &e->memory.arena, e->memory.bytes, "the memory of the engine"));
    *resident = (mega_region){.base = e->memory.arena, .bytes = resident_bytes};
    *workspace = (mega_region){.base = (char *)e->memory.arena + resident_bytes, .bytes = workspace_bytes};
    return MEGA_OK;
}

static mega_status engine_open_gpu(mega_engine *e)
{
    char text[MEGA_CUDA_TEXT];
    MEGA_TRY(mega_cuda_open(e->options.gpu, &e->memory.device));
    MEGA_TRY(mega_cuda_use_library(e->memory.device, e->options.matmul_library));
    if (mega_world_rank(e->options.world) == 0 && mega_cuda_library_get(e->memory.device, text))
        mega_info("matrix products by %s", text);
    return MEGA_OK;
}

static mega_status engine_allocate(mega_engine *e)
{
    const int64_t of_batch = e->data.capacity / e->options.micro_batch;
    const int64_t of_run = e->options.generate ? e->options.micro_batches : 1;
    const int64_t micro_batches = of_batch > of_run ? of_batch : of_run;
    const bool train = e->programs.train != NULL;
    mega_region resident, workspace;
    MEGA_TRY(engine_check_allocate(e));
    if (e->options.backend == MEGA_BACKEND_CUDA && e->memory.device == NULL) /* an earlier call may have opened it */
        MEGA_TRY(engine_open_gpu(e));
    MEGA_TRY(engine_allocate_arena(e, &resident, &workspace));
    MEGA_TRY(mega_params_allocate_in(e->params, MEGA_PARAMS_WEIGHTS | (train ? MEGA_PARAMS_GRADS : 0), &resident));
    MEGA_TRY(mega_batch_allocate(e->data.batch));
    if (e->late.rows != NULL) MEGA_TRY(mega_batch_allocate(e->late.rows));
    if (e->data.reader != NULL) MEGA_TRY(mega_reader_start(e->data.reader));
    void *scratch = NULL, *losses = NULL;
    MEGA_TRY(mega_region_take(&resident, &scratch, mega_update_scratch_bytes(e->update), "sums of gradients"));
    if (train) mega_update_allocate(e->update, scratch);
    const mega_pipeline all = engine_pipeline(e, micro_batches);
    e->programs.schedule = mega_calloc((size_t)mega_schedule_length(&all), sizeof *e->programs.schedule);
    if (e->programs.schedule == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for a schedule of %lld micro-batches",
                         (long long)micro_batches);
    if (train) MEGA_TRY(mega_optimizer_allocate_in(e->optimizer, &resident));
    MEGA_TRY(mega_region_take(&resident, &losses, LOSS_BYTES, "sums of losses"));
    e->memory.losses = losses;
    return engine_allocate_chunks(e, &resident, &workspace);
}

static mega_status check_initialize(const mega_engine *e)
{
    static const char call[] = "mega_engine_initialize";
    MEGA_TRY(engine_check_allocated(e, call));
    if (e->micro.phase != ENGINE_FORWARDED) return MEGA_OK;
    return MEGA_MISTAKE("%s: the backward pass still reads the weights of its forward; call mega_engine_backward first",
                        call);
}

static mega_status initialize(mega_engine *e, uint32_t seed)
{
    MEGA_TRY(engine_begin_call(e, check_initialize(e)));
    engine_micro_discard(e);
    engine_reset_to_step_0(e);
    e->memory.has_moments = true;
    MEGA_TRY(engine_agree(e, mega_params_initialize_team(e->params, seed, e->options.team)));
    e->memory.has_weights = true;
    return MEGA_OK;
}

/* Says once what of the caller's own the host computes on copies. */
static void say_host_work(const mega_engine *e)
{
    const char *op = NULL;
    for (int c = 0; c < e->programs.chunks && op == NULL; c++)
        for (engine_kind k = ENGINE_TRAIN; k < ENGINE_KINDS && op == NULL; k++) {
            const mega_program *p = engine_program_of(&e->programs.chunk[c], k);
            op = p != NULL ? mega_program_custom_op(p) : NULL;
        }
    if (op != NULL)
        mega_info("custom op \"%s\" runs on the host: in each pass its operands are copied from the device, and its "
                  "results to it",
                  op);
    if (e->optimizer != NULL && e->options.optimizer.row != NULL)
        mega_info("optimizer %s runs on the host: in each step what it updates is copied from the device and back",
                  e->options.optimizer.row->name);
}

static void say_kernels(const mega_engine *e)
{
    const mega_cuda_loaded k = mega_cuda_loaded_get(e->memory.device);
    char chip[16] = "PTX";
    if (k.chip > 0) snprintf(chip, sizeof chip, "sm_%d", k.chip);
    mega_info("%s: loaded %d files of kernels, %s, %.2f MB, in %.2f s", e->memory.device->name, k.images, chip,
              (double)k.bytes * 1e-6, k.seconds);
}

/* Lets the GPUs of the ranks exchange by themselves, if they can, and says what they do. */
static mega_status connect_devices(const mega_engine *e)
{
    char said[MEGA_COMM_SAID] = "";
    mega_members **stages = mega_calloc((size_t)e->ties.count + 1, sizeof *stages);
    for (int i = 0; i < e->ties.count && stages != NULL; i++) stages[i] = &e->ties.tie[i].stages;
    mega_status st = mega_comm_agree(
        e->layout->world.comm, stages != NULL ? MEGA_OK : MEGA_NO_MEMORY("engine", "the stages of tied parameters"));
    if (st == MEGA_OK && !e->options.no_nccl)
        st = mega_layout_connect(e->layout, e->memory.device, stages, e->ties.count, e->options.needs_nccl, said);
    mega_free(stages);
    MEGA_TRY(st);
    if (said[0] != '\0' && e->layout->world.rank == 0) mega_info("%s", said);
    return MEGA_OK;
}

static mega_status allocate_all(mega_engine *e)
{
    MEGA_TRY(engine_begin_call(e, engine_allocate(e)));
    MEGA_TRY(connect_devices(e));
    if (e->options.backend == MEGA_BACKEND_CUDA && e->layout->world.rank == 0) say_kernels(e);
    if (!mega_device_is_host(e->memory.arena) && e->layout->world.rank == 0) say_host_work(e);
    e->memory.is_allocated = true;
    mega_memory_trim(); /* building programs leaves gaps, which no plan counts */
    return e->memory.initializes ? initialize(e, e->options.dropout_seed) : MEGA_OK;
}

mega_status mega_engine_allocate(mega_engine *e)
{
    MEGA_TRY(engine_enter(e, "mega_engine_allocate"));
    return engine_leave(e, allocate_all(e));
}

mega_status mega_engine_initialize(mega_engine *e, uint32_t seed)
{
    MEGA_TRY(engine_enter(e, "mega_engine_initialize"));
    return engine_leave(e, initialize(e, seed));
}
