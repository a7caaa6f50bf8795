/* A pipeline schedule is a list of passes: the order in which one stage runs its forward and backward programs. Pure
 * functions make it, so it can be printed by `plan` and tested without ranks. */
#ifndef MEGALITH_PIPELINE_H
#define MEGALITH_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mega_schedule_pass {
    bool forward;
    int32_t micro_batch;
    int32_t slot;  /* which arena of saved tensors holds this micro-batch from its forward to its backward */
    int32_t chunk; /* which program of the stage; 0 if it has only one */
} mega_schedule_pass;

/* Makes the 1F1B schedule of one stage (Narayanan et al. 2021): stages - stage - 1 warm-up forwards, then one forward
 * and one backward alternately, then the remaining backwards. With one stage: forward and backward of each micro-batch.
 * out [2 * micro_batches]. */
void mega_schedule_1f1b(int stage, int stages, int64_t micro_batches, mega_schedule_pass *out);
/* Returns the number of arenas of saved tensors that this stage needs: its maximum of micro-batches in flight. */
int mega_schedule_slots(int stage, int stages, int64_t micro_batches);

/* Makes the interleaved 1F1B schedule of one stage (the same paper). Every stage holds `chunks` parts of the model;
 * chunk k of the first stage follows chunk k - 1 of the last stage. So the pipeline fills in steps of one chunk, and
 * stages wait only 1/chunks as long. micro_batches is a multiple of stages. A stage runs 2 * (stages - stage - 1) +
 * (chunks - 1) * stages warm-up forwards. (If micro_batches == stages, Megatron runs all forwards first; this order
 * works there too and keeps fewer in flight.) out [2 * micro_batches * chunks]. */
enum { MEGA_SCHEDULE_CHUNKS = 256 }; /* maximum per stage */
void mega_schedule_interleaved(int stage, int stages, int chunks, int64_t micro_batches, mega_schedule_pass *out);

/* The schedule of a whole pipeline: 1F1B, or interleaved 1F1B if chunks > 1. */
typedef struct mega_pipeline {
    int stages, chunks; /* chunks 0 counts as 1 */
    int64_t micro_batches;
} mega_pipeline;
int64_t mega_schedule_length(const mega_pipeline *p); /* returns the passes per stage */
int64_t mega_schedule_make(const mega_pipeline *p, int stage, mega_schedule_pass *out);
int mega_schedule_slots_of(const mega_pipeline *p, int stage, int chunk);

/* Makes a schedule of forwards only, for evaluation; all use slot 0. With several chunks per stage, `stages`
 * micro-batches go through one chunk before the next. out [micro_batches * chunks]. */
void mega_schedule_forward(int stages, int chunks, int64_t micro_batches, mega_schedule_pass *out);

#endif
