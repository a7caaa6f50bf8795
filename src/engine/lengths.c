/* Training on the first positions of samples, fewer at first (a curriculum). Each length has programs of its own, which
 * are built when a step first needs them and destroyed when a step needs others: lengths only grow, so that each is
 * built once, and at most one length besides that of whole samples has programs. They use the memory of the programs of
 * whole samples, which is planned. Evaluations always read whole samples. */
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_step.h"
#include "megalith/device_memory.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include <string.h>

int64_t engine_length_of(const mega_engine *e, int64_t step)
{
    if (e->options.no_train) return e->options.seq; /* its curriculum was not checked */
    return mega_curriculum_length(&e->options.curriculum, e->options.seq, step);
}

/* Under sequence parallelism the ranks of tp share the rows of a micro-batch out evenly. */
mega_status engine_check_lengths(const mega_model *model, const mega_engine_options *o)
{
    const int64_t tp = o->layout.tp;
    if (!o->curriculum.is_on || o->no_train || !model->sequence_parallel || tp < 2) return MEGA_OK;
    for (int64_t step = 1;;) {
        const int64_t length = mega_curriculum_length(&o->curriculum, o->seq, step);
        if (length * o->micro_batch % tp != 0)
            return MEGA_MISTAKE(
                "curriculum: step %lld reads %lld positions of each sample; sequence parallelism cuts the "
                "%lld rows of its micro-batch over %lld ranks, so that they must be a multiple of that",
                (long long)step, (long long)length, (long long)(length * o->micro_batch), (long long)tp);
        const int64_t until = mega_curriculum_same_until(&o->curriculum, o->seq, step);
        if (until == INT64_MAX) return MEGA_OK;
        step = until + 1;
    }
}

/* ---- the programs of one length, before they are in place ---- */

typedef struct shorter {
    mega_program *program[MEGA_SCHEDULE_CHUNKS]; /* by chunk */
    program_io *io[MEGA_SCHEDULE_CHUNKS];
    mega_program_regions needs; /* together */
    mega_engine_cost cost;      /* of a sample */
} shorter;

static void lengths_discard(const mega_engine *e, shorter *s)
{
    for (int c = 0; c < e->programs.chunks; c++) {
        mega_program_destroy(s->program[c]);
        mega_free(s->io[c]);
    }
}

/* The update program was made for the programs of whole samples, so these must sum the same buckets. */
static mega_status check_like_whole(const mega_engine *e, int chunk, const mega_program *p, int64_t positions)
{
    MEGA_TRY(mega_batch_check_shorter(e->data.batch, p, e->options.micro_batch, positions, e->options.seq));
    for (int b = 0; b < mega_params_num_buckets(e->params); b++)
        if (mega_program_reduces(p, b) != mega_program_reduces(e->programs.chunk[chunk].whole, b))
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "the program sums other gradients than that of whole samples does; "
                                                   "a layer must use the same parameters for samples of any length");
    return MEGA_OK;
}

static mega_status build_shorter(mega_engine *e, int64_t positions, shorter *s)
{
    mega_model_parts *parts = NULL;
    mega_status st = mega_model_parts_create_like(e->model.parts, e->options.compute, positions, &parts);
    for (int c = 0; c < e->programs.chunks && st == MEGA_OK; c++) {
        st = engine_build_train(e, parts, c, &s->program[c]);
        if (st == MEGA_OK) st = check_like_whole(e, c, s->program[c], positions);
        if (st != MEGA_OK) break;
        const mega_program_regions r = mega_program_region_bytes(s->program[c]);
        s->needs.resident += r.resident;
        s->needs.workspace += r.workspace;
        if (r.shared > s->needs.shared) s->needs.shared = r.shared;
    }
    if (parts != NULL) s->cost = engine_cost_of(e, parts);
    mega_model_parts_destroy(parts);
    if (st != MEGA_OK) MEGA_CONTEXT("curriculum, samples of %lld positions", (long long)positions);
    return st;
}

mega_status engine_try_lengths(mega_engine *e)
{
    const int64_t positions = engine_length_of(e, 1);
    shorter s = {.needs = {.resident = 0}};
    if (positions == e->options.seq) return MEGA_OK;
    const mega_status st = build_shorter(e, positions, &s);
    if (st == MEGA_OK) e->lengths.largest = s.needs;
    lengths_discard(e, &s);
    return st;
}

/* ---- memory ---- */

/* A program expects zeros in what it keeps, except in packed weights, which are last. */
static void clear_kept(const mega_region *resident, const mega_program *p)
{
    mega_program_memory m;
    mega_program_memory_get(p, &m);
    mega_device_fill(resident->base + resident->used, 0,
                     mega_program_region_bytes(p).resident - mega_region_round(m.packed_bytes));
}

static void free_overflow(engine_lengths *l)
{
    mega_device_free(l->overflow, l->overflow_bytes);
    l->overflow = NULL;
    l->overflow_bytes = 0;
}

/* A plan of shorter samples may be less dense than that of whole ones, and need more although its tensors are
 * smaller. */
static mega_status take_overflow(mega_engine *e, const mega_program_regions *needs)
{
    engine_lengths *l = &e->lengths;
    l->overflow_bytes = needs->resident + needs->workspace + needs->shared;
    MEGA_TRY(mega_device_alloc(e->memory.device, &l->overflow, l->overflow_bytes, "the programs of shorter samples"));
    if (e->layout->world.rank == 0)
        mega_warn(
            "curriculum: the programs of shorter samples do not fit into the memory of those of whole samples, and "
            "take %.4g MB that no plan counts",
            (double)l->overflow_bytes * 1e-6);
    return MEGA_OK;
}

static mega_status allocate_shorter(mega_engine *e, shorter *s)
{
    const engine_lengths *l = &e->lengths;
    const mega_program_regions *n = &s->needs;
    mega_region resident = l->resident, workspace = l->workspace, shared = l->shared;
    if (n->resident > resident.bytes || n->workspace > workspace.bytes || n->shared > shared.bytes) {
        MEGA_TRY(take_overflow(e, n));
        resident = (mega_region){.base = l->overflow, .bytes = n->resident};
        workspace = (mega_region){.base = resident.base + n->resident, .bytes = n->workspace};
        shared = (mega_region){.base = workspace.base + n->workspace, .bytes = n->shared};
    }
    for (int c = 0; c < e->programs.chunks; c++) {
        clear_kept(&resident, s->program[c]);
        MEGA_TRY(engine_allocate_train(e, s->program[c], c, &resident, &workspace, shared, &s->io[c]));
    }
    return MEGA_OK;
}

/* ---- putting programs in place ---- */

static void put_in_place(engine_chunk *k, mega_program *program, program_io *io)
{
    if (k->ran == k->train) { /* its outputs are overwritten */
        k->ran = NULL;
        k->ran_slot = 0;
    }
    k->train = program;
    k->train_io = io;
}

void engine_drop_lengths(mega_engine *e)
{
    engine_lengths *l = &e->lengths;
    if (e->programs.chunk == NULL || e->programs.chunk[0].train == e->programs.chunk[0].whole) return;
    stage_close(&e->programs.stage);
    e->programs.stage = l->whole_stage;
    l->whole_stage = (engine_stage){.slot = NULL};
    for (int c = 0; c < e->programs.chunks; c++) {
        engine_chunk *k = &e->programs.chunk[c];
        mega_program *program = k->train;
        program_io *io = k->train_io;
        put_in_place(k, k->whole, k->whole_io);
        mega_program_destroy(program);
        mega_free(io);
    }
    e->programs.train = e->programs.chunk[0].train;
    l->positions = e->options.seq;
    free_overflow(l);
}

/* Gives new training programs what the ones before them had: waits, profile and observer. */
static void connect_programs(mega_engine *e)
{
    const engine_lengths *l = &e->lengths;
    for (int c = 0; c < e->programs.chunks; c++) {
        mega_program *p = e->programs.chunk[c].train;
        engine_await_weights(e, p);
        mega_program_profile(p, e->watch.profile);
        mega_program_observe(p, l->observer, l->user);
    }
    e->programs.train = e->programs.chunk[0].train;
    engine_find_overwritten_gradients(e);
}

static void return_to_whole(mega_engine *e)
{
    mega_region resident = e->lengths.resident;
    engine_drop_lengths(e);
    for (int c = 0; c < e->programs.chunks; c++) {
        clear_kept(&resident, e->programs.chunk[c].whole);
        mega_program_write_tables(e->programs.chunk[c].whole);
        resident.used += mega_program_region_bytes(e->programs.chunk[c].whole).resident;
    }
    connect_programs(e);
}

/* Local. */
static mega_status set_length(mega_engine *e, int64_t positions)
{
    engine_lengths *l = &e->lengths;
    shorter s = {.needs = {.resident = 0}};
    return_to_whole(e);
    if (positions == e->options.seq) return MEGA_OK;
    mega_status st = build_shorter(e, positions, &s);
    if (st == MEGA_OK) st = allocate_shorter(e, &s);
    if (st != MEGA_OK) {
        lengths_discard(e, &s);
        free_overflow(l);
        return st;
    }
    l->whole_stage = e->programs.stage;
    for (int c = 0; c < e->programs.chunks; c++) put_in_place(&e->programs.chunk[c], s.program[c], s.io[c]);
    l->positions = positions;
    l->cost = s.cost;
    MEGA_TRY(stage_open(&e->programs.stage, e->layout, e->programs.chunk, e->programs.chunks, ENGINE_TRAIN, 0));
    connect_programs(e);
    return MEGA_OK;
}

mega_status engine_set_length(mega_engine *e)
{
    const int64_t positions = engine_length_of(e, e->progress.iteration + 1);
    if (positions == e->lengths.positions) return MEGA_OK;
    engine_record_phase(e, "building the programs of another length", -1);
    mega_status st = engine_agree(e, set_length(e, positions));
    if (st == MEGA_OK && positions != e->options.seq) st = engine_compare_training(e);
    if (st != MEGA_OK) return_to_whole(e); /* on all ranks: the next step tries again */
    mega_memory_trim();
    return st;
}
