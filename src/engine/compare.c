/* Compares, before the first step, what all ranks must do alike. No two may wait for each other for ever, whatever the
 * groups are in which they do. Compared are the collectives of programs and of the update, over each group with those
 * of higher levels (mega_layout_level); the order of programs; the messages of a pipeline (compare_links.c), and
 * whether its stages come to the end of their orders of messages and sums. mega_engine_create has already compared
 * options and models, so the number of programs and the types are the same. */
#include "megalith/compare.h"
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_step.h"
#include "megalith/hash.h"
#include "megalith/memory.h"

#include <stdio.h>

/* ---- a step: the order of its programs ---- */

static uint64_t hash_passes(const void *list, int64_t begin, int64_t end)
{
    const mega_schedule_pass *pass = list;
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row[] = {pass[i].forward, pass[i].micro_batch, pass[i].chunk};
        hash = mega_hash64(hash, row, sizeof row);
    }
    return hash;
}

static void describe_pass(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    const mega_schedule_pass *x = (const mega_schedule_pass *)list + i;
    snprintf(out, MEGA_COMPARED_TEXT, "%s of micro-batch %d through program %d", x->forward ? "forward" : "backward",
             x->micro_batch, x->chunk);
}

static mega_status compare_passes(mega_comm *comm, const mega_schedule_pass *pass, int64_t passes)
{
    const mega_compared l = {
        .what = "steps", .item = "part", .list = pass, .count = passes, .hash = hash_passes, .describe = describe_pass};
    return mega_comm_compare(comm, &l);
}

/* ---- the model ---- */

static uint64_t hash_layers(const void *list, int64_t begin, int64_t end)
{
    return mega_model_parts_hash(list, (int)begin, (int)end);
}

static void describe_layer(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    mega_model_parts_print(list, (int)i, out, MEGA_COMPARED_TEXT);
}

mega_status engine_compare_models(const mega_engine *e)
{
    const mega_compared l = {.what = "models",
                             .item = "layer",
                             .list = e->model.parts,
                             .count = mega_model_parts_layers(e->model.parts),
                             .hash = hash_layers,
                             .describe = describe_layer};
    return mega_comm_compare(e->layout->world.comm, &l);
}

/* ---- all comparisons ---- */

static mega_status compare_programs(const mega_engine *e, mega_comm *comm)
{
    for (int c = 0; c < e->programs.chunks; c++) {
        for (engine_kind k = ENGINE_TRAIN; k < ENGINE_KINDS; k++) {
            const mega_program *p = engine_program_of(&e->programs.chunk[c], k);
            if (p != NULL) MEGA_TRY(mega_program_compare_collectives(p, comm));
        }
    }
    return MEGA_OK;
}

/* Whether the stages of a pipeline come to the end of a step, or of an evaluation. Before the engine has memory there
 * are no buffers, whose reuse stages wait for. */
static mega_status compare_order(const mega_engine *e, engine_stage *s, const mega_schedule_pass *pass, int64_t passes)
{
    mega_order order = {.item = NULL};
    if (s->slot == NULL) return MEGA_OK;
    mega_status st = stage_list(s, pass, passes, &order);
    if (st == MEGA_OK) st = stage_list_end(s, &order);
    if (!s->forward_only && e->update != NULL) mega_update_list(e->update, &order);
    if (st == MEGA_OK) st = mega_order_check(&order, e->layout->pp.comm);
    mega_order_fini(&order);
    return st;
}

/* The same for a generation: a run begins while messages of those before it are on their way. */
static mega_status compare_order_of_generation(mega_engine *e, const mega_schedule_pass *pass, int64_t passes)
{
    static const engine_kind run[] = {ENGINE_PREFILL, ENGINE_DECODE, ENGINE_DECODE, ENGINE_PREFILL};
    mega_order order = {.item = NULL};
    mega_status st = MEGA_OK;
    if (e->runs.stage[ENGINE_PREFILL].slot == NULL) return MEGA_OK;
    for (size_t i = 0; i < sizeof run / sizeof *run && st == MEGA_OK; i++)
        st = stage_list(&e->runs.stage[run[i]], pass, passes, &order);
    for (engine_kind k = ENGINE_PREFILL; k < ENGINE_KINDS && st == MEGA_OK; k++)
        st = stage_list_end(&e->runs.stage[k], &order);
    if (st == MEGA_OK) st = mega_order_check(&order, e->layout->pp.comm);
    mega_order_fini(&order);
    return st;
}

static mega_status compare_training(mega_engine *e, mega_schedule_pass *schedule, const mega_pipeline *p)
{
    const mega_layout *l = e->layout;
    const mega_axis *const axis[] = {&l->tp, &l->cp, &l->ep, &l->edp, &l->dp};
    const int64_t passes = mega_schedule_make(p, l->pp.rank, schedule);
    MEGA_TRY(engine_compare_links(e, schedule, passes, ENGINE_TRAIN));
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) {
        MEGA_TRY(compare_passes(axis[i]->comm, schedule, passes));
        if (e->update != NULL) MEGA_TRY(mega_update_compare(e->update, axis[i]->comm));
    }
    return compare_order(e, &e->programs.stage, schedule, passes);
}

static mega_status compare_evaluation(mega_engine *e, mega_schedule_pass *schedule, const mega_pipeline *p)
{
    const int64_t passes = p->micro_batches * p->chunks;
    mega_schedule_forward(p->stages, p->chunks, p->micro_batches, schedule);
    if (engine_program_of(&e->programs.chunk[0], ENGINE_EVALUATE) != NULL)
        MEGA_TRY(engine_compare_links(e, schedule, passes, ENGINE_EVALUATE));
    return compare_order(e, &e->programs.evaluate_stage, schedule, passes);
}

static mega_status compare_generation(mega_engine *e, mega_schedule_pass *schedule)
{
    const int64_t passes = engine_schedule_run(e, ENGINE_DECODE, schedule); /* a prefill has the same */
    for (engine_kind k = ENGINE_PREFILL; k < ENGINE_KINDS; k++)
        if (engine_program_of(&e->programs.chunk[0], k) != NULL) MEGA_TRY(engine_compare_links(e, schedule, passes, k));
    return compare_order_of_generation(e, schedule, passes);
}

/* schedule: buffer for that of one stage. */
static mega_status compare_all(mega_engine *e, mega_schedule_pass *schedule, const mega_pipeline *p)
{
    const mega_layout *l = e->layout;
    const mega_axis *const axis[] = {&l->tp, &l->cp, &l->ep, &l->edp, &l->dp};
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) MEGA_TRY(compare_programs(e, axis[i]->comm));
    if (e->programs.train != NULL) MEGA_TRY(compare_training(e, schedule, p));
    MEGA_TRY(compare_evaluation(e, schedule, p));
    return e->options.generate ? compare_generation(e, schedule) : MEGA_OK;
}

static mega_pipeline pipeline_of_steps(const mega_engine *e)
{
    return engine_pipeline(e, e->options.batch.global_batch / e->options.batch.micro_step);
}

static mega_status schedule_open(const mega_engine *e, mega_schedule_pass **out)
{
    const mega_pipeline steps = pipeline_of_steps(e),
                        runs = engine_pipeline(e, engine_micro_batches_of(&e->options, ENGINE_DECODE));
    const int64_t of_steps = mega_schedule_length(&steps), of_runs = mega_schedule_length(&runs),
                  most = of_steps > of_runs ? of_steps : of_runs;
    *out = mega_malloc((size_t)most * sizeof **out);
    return *out != NULL ? MEGA_OK
                        : MEGA_FAIL(MEGA_ERR_MEMORY, "comparison of ranks: no memory for %lld steps", (long long)most);
}

mega_status mega_engine_compare_ranks(mega_engine *e)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_compare_ranks", "e", e));
    const mega_pipeline p = pipeline_of_steps(e);
    mega_schedule_pass *schedule;
    mega_status st = engine_begin_call(e, schedule_open(e, &schedule));
    if (st == MEGA_OK) st = compare_all(e, schedule, &p);
    mega_free(schedule);
    return st;
}

mega_status engine_compare_training(mega_engine *e)
{
    const mega_layout *l = e->layout;
    const mega_axis *const axis[] = {&l->tp, &l->cp, &l->ep, &l->edp, &l->dp};
    const mega_pipeline p = pipeline_of_steps(e);
    mega_schedule_pass *schedule;
    mega_status st = engine_agree(e, schedule_open(e, &schedule));
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++)
        for (int c = 0; c < e->programs.chunks && st == MEGA_OK; c++)
            st = engine_agree(e, mega_program_compare_collectives(e->programs.chunk[c].train, axis[i]->comm));
    if (st == MEGA_OK) st = compare_training(e, schedule, &p);
    mega_free(schedule);
    return engine_agree(e, st);
}
