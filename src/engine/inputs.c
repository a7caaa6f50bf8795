/* The named inputs of a model (mega_input): one list for all ranks, made when the engine is created. A rank stores only
 * the data of the inputs that its own programs read. */
#include "engine_build.h"
#include "engine_data.h"
#include "megalith/compare.h"
#include "megalith/hash.h"
#include "megalith/memory.h"

#include <stdio.h>

/* The kinds of programs, from first to last, that fill their inputs from the same batch. */
typedef struct kinds {
    engine_kind first, last;
} kinds;

/* Returns the input records of one program of a stage, in all [stages, chunks, kinds, MEGA_INPUTS]. A record with an
 * empty name ends the list of a program. */
static mega_batch_input *inputs_records_at(const mega_engine *e, mega_batch_input *all, int stage, int chunk,
                                           engine_kind k)
{
    return all + ((size_t)(stage * e->programs.chunks + chunk) * ENGINE_KINDS + k) * MEGA_INPUTS;
}

static mega_status inputs_read_own(const mega_engine *e, mega_batch_input *own)
{
    for (int c = 0; c < e->programs.chunks; c++)
        for (engine_kind k = ENGINE_TRAIN; k < ENGINE_KINDS; k++) {
            const mega_program *p = engine_program_of(&e->programs.chunk[c], k);
            int count;
            if (p == NULL) continue;
            MEGA_TRY(mega_batch_inputs_of(p, e->options.micro_batch, inputs_records_at(e, own, 0, c, k), &count));
        }
    return MEGA_OK;
}

/* Adds the inputs of all programs to the batch, in the order of the model's parts; part n is chunk n / stages of stage
 * n % stages. */
static mega_status inputs_add_all(const mega_engine *e, kinds of, mega_batch_input *all, int stages, int own,
                                  mega_batch *out)
{
    for (engine_kind k = of.first; k <= of.last; k++)
        for (int part = 0; part < stages * e->programs.chunks; part++) {
            const mega_batch_input *in = inputs_records_at(e, all, part % stages, part / stages, k);
            for (int i = 0; i < MEGA_INPUTS && in[i].name[0] != '\0'; i++)
                MEGA_TRY(mega_batch_add(out, &in[i], part % stages == own));
        }
    return MEGA_OK;
}

/* Training and evaluation share one batch. The two programs of generation have one each, because their samples have
 * different numbers of rows. */
static mega_status make_batches(mega_engine *e, mega_batch_input *all, int stages, int own)
{
    MEGA_TRY(inputs_add_all(e, (kinds){ENGINE_TRAIN, ENGINE_EVALUATE}, all, stages, own, e->data.batch));
    for (engine_kind k = ENGINE_PREFILL; k < ENGINE_KINDS && e->options.generate; k++) {
        MEGA_TRY(mega_batch_create(engine_run_samples(e), &e->runs.batch[k]));
        MEGA_TRY(inputs_add_all(e, (kinds){k, k}, all, stages, own, e->runs.batch[k]));
    }
    return MEGA_OK;
}

/* A plan runs on one rank, which knows only the inputs of its own stage. */
mega_status engine_collect_inputs(mega_engine *e)
{
    const bool is_plan = e->options.layout.planned_ranks > 0;
    const int stages = is_plan ? 1 : e->layout->pp.size;
    const size_t records = (size_t)e->programs.chunks * ENGINE_KINDS * MEGA_INPUTS;
    MEGA_TRY(mega_batch_create(e->data.capacity, &e->data.batch));
    mega_batch_set_part(e->data.batch, e->options.per_token_loss ? 0 : e->options.micro_batch);
    mega_batch_input *all = mega_calloc((size_t)(stages + 1) * records, sizeof *all), *own = all;
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "engine: no memory for the inputs of %d stages", stages);
    if (stages > 1) own = all + (size_t)stages * records;
    mega_status st = inputs_read_own(e, own);
    if (!is_plan) st = mega_comm_agree(e->layout->pp.comm, st);
    if (st == MEGA_OK && stages > 1)
        st = mega_comm_all_gather(e->layout->pp.comm, "names of inputs", all, own, (int64_t)(records * sizeof *all),
                                  MEGA_U8);
    if (st == MEGA_OK) st = make_batches(e, all, stages, is_plan ? 0 : e->layout->pp.rank);
    mega_free(all);
    if (st != MEGA_OK) MEGA_CONTEXT("model");
    const bool reads_ahead = e->data.has_set && e->data.set.is_thread_safe;
    const bool is_late =
        e->options.late_results && e->options.backend == MEGA_BACKEND_CUDA && e->programs.train != NULL;
    if (st == MEGA_OK && is_late && e->layout->world.size == 1)
        st = mega_batch_create_like(e->data.batch, &e->late.rows);
    if (st == MEGA_OK && reads_ahead) st = mega_reader_create(&e->data.set, e->data.batch, &e->data.reader);
    return st;
}

static uint64_t hash_inputs(const void *list, int64_t begin, int64_t end)
{
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = begin; i < end; i++) {
        const mega_batch_input *in = mega_batch_input_get(((const mega_engine *)list)->data.batch, (int)i);
        hash = mega_hash64(hash, in, sizeof *in);
    }
    return hash;
}

static void describe_input(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    const mega_batch_input *in = mega_batch_input_get(((const mega_engine *)list)->data.batch, (int)i);
    snprintf(out, MEGA_COMPARED_TEXT, "\"%s\", %lld numbers per sample of type %s", in->name, (long long)in->per_sample,
             mega_dtype_name((mega_dtype)in->dtype));
}

mega_status engine_compare_inputs(const mega_engine *e)
{
    const mega_compared inputs = {.what = "inputs of the model",
                                  .item = "input",
                                  .list = e,
                                  .count = mega_batch_num_inputs(e->data.batch),
                                  .hash = hash_inputs,
                                  .describe = describe_input};
    return mega_comm_compare(e->layout->world.comm, &inputs);
}

int64_t engine_micro_batches(const mega_engine *e)
{
    return mega_batch_num_samples(e->data.batch) / e->options.micro_batch;
}
