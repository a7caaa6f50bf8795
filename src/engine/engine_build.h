/* Builds an engine: from mega_setup to programs with memory, the same on all ranks. */
#ifndef MEGALITH_ENGINE_BUILD_H
#define MEGALITH_ENGINE_BUILD_H

#include "engine_impl.h"

/* setup.c. Converts mega_setup to e->options, and creates the world and the team unless mega_setup has them. */
mega_status engine_read_setup(mega_engine *e, const mega_setup *setup);
/* Rewrites the message of failure st so that options are named as the caller wrote them (argv or JSON). Returns st. */
mega_status engine_name_options_as_given(const mega_engine *e, mega_status st);
void engine_forget_setup(mega_engine *e);
/* compare_links.c. Collective over pp. Checks that both ends of each link expect the same messages in these steps. */
mega_status engine_compare_links(const mega_engine *e, const mega_schedule_pass *step, int64_t steps, engine_kind kind);
/* compare.c. Collective over the world. Checks that all ranks have the same model. */
mega_status engine_compare_models(const mega_engine *e);
/* Collective over the world. What mega_engine_compare_ranks does for a step, with the training programs in place. */
mega_status engine_compare_training(mega_engine *e);
/* run.c. Writes the passes of a run forward, each micro-batch in a slot of its own, and returns their number. */
int64_t engine_schedule_run(const mega_engine *e, engine_kind kind, mega_schedule_pass *out);
/* recompute.c. engine_override_recompute writes what the options say into the model. engine_choose_regions is
 * collective over the world, if ranks run: it meets a budget. */
void engine_override_recompute(const mega_engine_options *o, mega_model *m);
mega_status engine_choose_regions(mega_engine *e, const mega_model *model);
/* engine.c. Creates layout, parameters, programs and optimizer from the options; allocates nothing large. */
mega_status engine_build(mega_engine *e, const mega_model *model);

/* chunks.c. Building and memory of the programs. Sizes are totals over all programs of this rank. */
mega_pipeline engine_pipeline(const mega_engine *e, int64_t micro_batches);
mega_program *engine_program_of(const engine_chunk *c, engine_kind kind);        /* NULL: not built */
int64_t engine_micro_batches_of(const mega_engine_options *o, engine_kind kind); /* of a run forward; each has a slot */
/* engine_describe_chunks describes the programs as graphs, which declares the parameters. Once these have their memory
 * layout, engine_build_chunks builds the programs. */
mega_status engine_describe_chunks(mega_engine *e, const mega_model *model);
mega_status engine_build_chunks(mega_engine *e);
/* Builds the training program of a chunk for the samples of `parts`, which may be shorter. */
mega_status engine_build_train(mega_engine *e, const mega_model_parts *parts, int chunk, mega_program **out);
/* Gives a training program its memory, and writes where each slot writes its losses to *out_io. */
mega_status engine_allocate_train(const mega_engine *e, mega_program *p, int chunk, mega_region *resident,
                                  mega_region *workspace, mega_region shared, program_io **out_io);
mega_engine_cost engine_cost_of(const mega_engine *e, const mega_model_parts *parts); /* of a sample (engine.c) */
void engine_find_overwritten_gradients(mega_engine *e); /* engine.c: of the training programs that are in place */
void engine_destroy_chunks(mega_engine *e);
void engine_chunks_memory(const mega_engine *e, mega_engine_memory *m);
/* Returns the bytes of the largest collective of all programs over comm. */
size_t engine_chunks_largest_collective(const mega_engine *e, const mega_comm *comm);
void engine_chunks_region(const mega_engine *e, size_t *resident, size_t *workspace);
mega_status engine_allocate_chunks(mega_engine *e, mega_region *resident, const mega_region *workspace);
/* run.c. Prepares the programs that mega_engine_run runs, once the programs are allocated. */
mega_status engine_open_runs(mega_engine *e);
void engine_close_runs(mega_engine *e);
/* Returns the samples of a run of generation. */
static inline int64_t engine_run_samples(const mega_engine *e)
{
    return e->options.micro_batch * e->options.micro_batches;
}
mega_status engine_open_caches(mega_engine *e); /* caches.c; run.c closes them */

#endif
