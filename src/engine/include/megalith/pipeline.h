/* A pipeline schedule is data: the order in which one stage runs its forward and backward programs. Made by a pure
 * function, printed by `plan`, tested without ranks. */
#ifndef MEGALITH_PIPELINE_H
#define MEGALITH_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_schedule_step {
    bool forward;
    int32_t micro_batch;
    int32_t slot;  /* which of the saved arenas holds this micro-batch between its forward and its backward */
    int32_t chunk; /* which program of the stage; 0 where it has one */
} mega_schedule_step;

/* 1F1B (Narayanan et al. 2021): stages - stage - 1 forwards to warm up, then one forward and one backward in turn, then
 * the backwards left. One stage: forward and backward of each micro-batch. out: 2 * micro_batches entries. */
void mega_schedule_1f1b(int stage, int stages, int64_t micro_batches, mega_schedule_step *out);
/* Saved arenas that this stage needs: the most micro-batches in flight. */
int mega_schedule_slots(int stage, int stages, int64_t micro_batches);

/* Interleaved 1F1B (the same paper): every stage holds `chunks` parts of the model, chunk k behind chunk k - 1 of the
 * last stage, so that the pipeline fills in pieces of a chunk and waits 1/chunks as long. micro_batches is a multiple
 * of stages. 2 * (stages - stage - 1) + (chunks - 1) * stages forwards to warm up. (Megatron runs all forwards first
 * where there are as many micro-batches as stages; this order serves there as well, and holds fewer in flight.) out: 2
 * * micro_batches * chunks entries. */
enum { MEGA_SCHEDULE_CHUNKS = 256 }; /* the most a stage may have */
void mega_schedule_interleaved(int stage, int stages, int chunks, int64_t micro_batches, mega_schedule_step *out);

/* The one of the two that a pipeline runs. */
typedef struct mega_pipeline {
    int stages, chunks; /* chunks 0 counts as 1 */
    int64_t micro_batches;
} mega_pipeline;
int64_t mega_schedule_length(const mega_pipeline *p); /* steps of each stage */
int64_t mega_schedule_make(const mega_pipeline *p, int stage, mega_schedule_step *out);
int mega_schedule_slots_of(const mega_pipeline *p, int stage, int chunk);

/* Forwards alone (evaluation), every one in slot 0. out: micro_batches * chunks entries. Of several chunks a stage,
 * `stages` micro-batches go through one chunk before the next. */
void mega_schedule_forward(int stages, int chunks, int64_t micro_batches, mega_schedule_step *out);

#ifdef __cplusplus
}
#endif

#endif
