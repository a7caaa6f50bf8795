/* 1F1B as a list of steps. */
#include "megalith/pipeline.h"

int mega_schedule_slots(int stage, int stages, int64_t micro_batches)
{
    const int64_t in_flight = stages - stage; /* the warm-up and the one in work */
    return (int)(in_flight < micro_batches ? in_flight : micro_batches);
}

void mega_schedule_1f1b(int stage, int stages, int64_t micro_batches, mega_schedule_step *out)
{
    const int slots = mega_schedule_slots(stage, stages, micro_batches);
    const int64_t warm_up = slots - 1;
    int64_t forward = 0, backward = 0;
    while (backward < micro_batches) {
        const bool is_forward = forward < micro_batches && forward - backward <= warm_up;
        const int64_t m = is_forward ? forward++ : backward++;
        *out++ = (mega_schedule_step){is_forward, (int32_t)m, (int32_t)(m % slots), 0};
    }
}

void mega_schedule_forward(int stages, int chunks, int64_t micro_batches, mega_schedule_step *out)
{
    for (int64_t first = 0; first < micro_batches; first += stages)
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int64_t m = first; m < first + stages && m < micro_batches; m++)
                *out++ = (mega_schedule_step){true, (int32_t)m, 0, chunk};
}
