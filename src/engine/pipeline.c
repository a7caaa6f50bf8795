/* Makes pipeline schedules as lists of passes. */
#include "megalith/pipeline.h"

int mega_schedule_slots(int stage, int stages, int64_t micro_batches)
{
    const int64_t in_flight = stages - stage; /* the warm-up forwards and one more */
    return (int)(in_flight < micro_batches ? in_flight : micro_batches);
}

void mega_schedule_1f1b(int stage, int stages, int64_t micro_batches, mega_schedule_pass *out)
{
    const int slots = mega_schedule_slots(stage, stages, micro_batches);
    const int64_t warm_up = slots - 1;
    int64_t forward = 0, backward = 0;
    while (backward < micro_batches) {
        const bool is_forward = forward < micro_batches && forward - backward <= warm_up;
        const int64_t m = is_forward ? forward++ : backward++;
        *out++ = (mega_schedule_pass){is_forward, (int32_t)m, (int32_t)(m % slots), 0};
    }
}

/* ---- interleaved ---- */

/* Returns forward (or backward) number k of a stage: its chunk and micro-batch. `stages` micro-batches go through one
 * chunk, then through the next; backwards visit the chunks in reverse order. */
static mega_schedule_pass turn(int stages, int chunks, int64_t k, bool is_forward)
{
    const int64_t round = (int64_t)stages * chunks;
    const int chunk = (int)(k % round / stages);
    return (mega_schedule_pass){.forward = is_forward,
                                .micro_batch = (int32_t)(k / round * stages + k % stages),
                                .chunk = is_forward ? chunk : chunks - 1 - chunk};
}

/* Returns the number of warm-up forwards: one less than the forwards before the first backward. */
static int64_t warm_up_of(int stage, int stages, int chunks, int64_t micro_batches)
{
    const int64_t most = 2 * (int64_t)(stages - stage - 1) + (int64_t)(chunks - 1) * stages;
    return most < micro_batches * chunks ? most : micro_batches * chunks;
}

/* An iterator over the schedule of a stage. */
typedef struct walk {
    int stages, chunks;
    int64_t total, warm_up, forward, backward;
} walk;

static walk pipeline_walk_begin(int stage, int stages, int chunks, int64_t micro_batches)
{
    return (walk){.stages = stages,
                  .chunks = chunks,
                  .total = micro_batches * chunks,
                  .warm_up = warm_up_of(stage, stages, chunks, micro_batches)};
}

static bool walk_next(walk *w, mega_schedule_pass *out)
{
    if (w->backward == w->total) return false;
    const bool is_forward = w->forward < w->total && w->forward - w->backward <= w->warm_up;
    *out = turn(w->stages, w->chunks, is_forward ? w->forward++ : w->backward++, is_forward);
    return true;
}

static int interleaved_slots(int stage, int stages, int chunks, int64_t micro_batches, int chunk)
{
    walk w = pipeline_walk_begin(stage, stages, chunks, micro_batches);
    mega_schedule_pass s;
    int in_flight = 0, most = 0;
    while (walk_next(&w, &s)) {
        if (s.chunk != chunk) continue;
        in_flight += s.forward ? 1 : -1;
        most = in_flight > most ? in_flight : most;
    }
    return most;
}

void mega_schedule_interleaved(int stage, int stages, int chunks, int64_t micro_batches, mega_schedule_pass *out)
{
    int slots[MEGA_SCHEDULE_CHUNKS];
    for (int c = 0; c < chunks; c++) slots[c] = interleaved_slots(stage, stages, chunks, micro_batches, c);
    walk w = pipeline_walk_begin(stage, stages, chunks, micro_batches);
    while (walk_next(&w, out)) {
        out->slot = out->micro_batch % slots[out->chunk];
        out++;
    }
}

/* ---- both schedules ---- */

int mega_schedule_slots_of(const mega_pipeline *p, int stage, int chunk)
{
    return p->chunks <= 1 ? mega_schedule_slots(stage, p->stages, p->micro_batches)
                          : interleaved_slots(stage, p->stages, p->chunks, p->micro_batches, chunk);
}

int64_t mega_schedule_make(const mega_pipeline *p, int stage, mega_schedule_pass *out)
{
    if (p->chunks <= 1) mega_schedule_1f1b(stage, p->stages, p->micro_batches, out);
    else
        mega_schedule_interleaved(stage, p->stages, p->chunks, p->micro_batches, out);
    return mega_schedule_length(p);
}

int64_t mega_schedule_length(const mega_pipeline *p)
{
    return 2 * p->micro_batches * (p->chunks > 1 ? p->chunks : 1);
}

void mega_schedule_forward(int stages, int chunks, int64_t micro_batches, mega_schedule_pass *out)
{
    for (int64_t first = 0; first < micro_batches; first += stages)
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int64_t m = first; m < first + stages && m < micro_batches; m++)
                *out++ = (mega_schedule_pass){true, (int32_t)m, 0, chunk};
}
