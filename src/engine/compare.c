/* Compares, before the first step, what all ranks must do alike: the collectives of programs, the order of programs,
 * the sums at the end of a step, and the messages of a pipeline (compare_links.c). mega_engine_create has already
 * compared options and models, so the number of programs and the types are the same. */
#include "megalith/compare.h"
#include "engine_build.h"
#include "engine_calls.h"
#include "engine_step.h"
#include "megalith/hash.h"
#include "megalith/memory.h"

#include <stdio.h>

/* ---- a step: the order of its programs, then its buckets ---- */

typedef struct pass_list {
    const mega_engine *e;
    const mega_schedule_pass *pass;
    int64_t passes;
} pass_list;

/* Returns how many elements of the bucket have gradients that are partial sums over tp. */
static int64_t partial_gradients_in(const mega_params *p, const mega_bucket *b)
{
    int64_t count = 0;
    for (int i = b->first_param; i < b->first_param + b->num_params; i++)
        if (mega_params_get(p, i)->grads_are_partial) count += mega_params_get(p, i)->count;
    return count;
}

static uint64_t hash_passes(const void *list, int64_t begin, int64_t end)
{
    const pass_list *l = list;
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = begin; i < end; i++) {
        int64_t row[3];
        if (i < l->passes) {
            row[0] = l->pass[i].forward;
            row[1] = l->pass[i].micro_batch;
            row[2] = l->pass[i].chunk;
        } else {
            const mega_bucket *b = mega_params_bucket(l->e->params, (int)(i - l->passes));
            row[0] = b->count;
            row[1] = engine_reduces(l->e, (int)(i - l->passes));
            row[2] = partial_gradients_in(l->e->params, b);
        }
        hash = mega_hash64(hash, row, sizeof row);
    }
    return hash;
}

static void describe_pass(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    const pass_list *l = list;
    if (i < l->passes) {
        const mega_schedule_pass *x = &l->pass[i];
        snprintf(out, MEGA_COMPARED_TEXT, "%s of micro-batch %d through program %d",
                 x->forward ? "forward" : "backward", x->micro_batch, x->chunk);
        return;
    }
    const int bucket = (int)(i - l->passes);
    const mega_bucket *b = mega_params_bucket(l->e->params, bucket);
    snprintf(out, MEGA_COMPARED_TEXT, "sum of bucket %d, %lld gradients (%lld also over tp), %s", bucket,
             (long long)b->count, (long long)partial_gradients_in(l->e->params, b),
             engine_reduces(l->e, bucket) ? "in the backward" : "after it");
}

static mega_status compare_passes(const mega_engine *e, mega_comm *comm, const mega_schedule_pass *pass, int64_t passes)
{
    const pass_list list = {e, pass, passes};
    const mega_compared l = {.what = "steps",
                             .item = "part",
                             .list = &list,
                             .count = passes + mega_params_num_buckets(e->params),
                             .hash = hash_passes,
                             .describe = describe_pass};
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

/* schedule: buffer for that of one stage. */
static mega_status compare_all(const mega_engine *e, mega_schedule_pass *schedule, const mega_pipeline *p)
{
    const mega_layout *l = e->layout;
    const mega_axis *const axis[] = {&l->tp, &l->cp, &l->dp, &l->ep};
    const int64_t passes = e->programs.train != NULL ? mega_schedule_make(p, l->pp.rank, schedule) : 0;
    if (e->programs.train != NULL) MEGA_TRY(engine_compare_links(e, schedule, passes, ENGINE_TRAIN));
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) {
        if (e->programs.train != NULL) MEGA_TRY(compare_passes(e, axis[i]->comm, schedule, passes));
        MEGA_TRY(compare_programs(e, axis[i]->comm));
    }
    mega_schedule_forward(p->stages, p->chunks, p->micro_batches, schedule);
    for (engine_kind k = ENGINE_EVALUATE; k < ENGINE_KINDS; k++)
        if (engine_program_of(&e->programs.chunk[0], k) != NULL)
            MEGA_TRY(engine_compare_links(e, schedule, p->micro_batches * p->chunks, k));
    return MEGA_OK;
}

mega_status mega_engine_compare_ranks(const mega_engine *e)
{
    MEGA_TRY(engine_check_given(e, "mega_engine_compare_ranks", "e", e));
    const mega_pipeline p = engine_pipeline(e, e->options.batch.global_batch / e->options.batch.micro_step);
    mega_schedule_pass *schedule = mega_malloc((size_t)mega_schedule_length(&p) * sizeof *schedule);
    mega_status st = schedule != NULL ? MEGA_OK
                                      : MEGA_FAIL(MEGA_ERR_MEMORY, "comparison of ranks: no memory for %lld steps",
                                                  (long long)mega_schedule_length(&p));
    st = engine_begin_call(e, st);
    if (st == MEGA_OK) st = compare_all(e, schedule, &p);
    mega_free(schedule);
    return st;
}
