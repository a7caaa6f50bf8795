/* What a program found among the labels that it checks itself, as a mistake in a sample. */
#include "megalith/batch.h"
#include "megalith/status.h"
#include <stdint.h>
#include <stdio.h>

mega_status mega_batch_check_labels(const mega_batch *b, int64_t first, int64_t samples, const mega_program *p,
                                    int slot)
{
    mega_batch *read_only = (mega_batch *)(uintptr_t)b; /* mega_batch_sample is for callers that fill samples */
    mega_program_mistake m;
    char sample[64] = "";
    if (!mega_program_wrong_labels(p, slot, &m)) return MEGA_OK;
    if (m.all_rows % samples == 0)
        snprintf(sample, sizeof sample, "sample %lld, ",
                 (long long)mega_sample_index(mega_batch_sample(read_only, first + m.row / (m.all_rows / samples))));
    return MEGA_FAIL(
        MEGA_ERR_USAGE,
        "%s \"%s\": %lld of %lld rows have labels that are no classes, the first of them label %d (%srow "
        "%lld of the micro-batch); expected 0 to %lld, one of %lld classes, or %d, which is ignored; number "
        "labels from 0, or give the row weight 0",
        m.is_input ? "input" : "tensor", m.labels, (long long)m.wrong, (long long)m.rows, m.label, sample,
        (long long)m.row, (long long)m.classes - 1, (long long)m.classes, m.ignored);
}
