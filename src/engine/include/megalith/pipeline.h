/* A pipeline schedule is data: the order in which one stage runs its forward and backward programs. Made by a pure
 * function, printed by `plan`, tested without ranks. */
#ifndef MEGALITH_PIPELINE_H
#define MEGALITH_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

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

/* Forwards alone (evaluation), every one in slot 0. out: micro_batches * chunks entries. Of several chunks a stage,
 * `stages` micro-batches go through one chunk before the next. */
void mega_schedule_forward(int stages, int chunks, int64_t micro_batches, mega_schedule_step *out);

#endif
