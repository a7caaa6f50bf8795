/* Files that a command replaces because it wrote them itself; any other is somebody's work. They are recognised by how
 * they begin and end. */
#ifndef MEGALITH_OUTPUT_H
#define MEGALITH_OUTPUT_H

#include "megalith/status.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mega_output_kind {
    MEGA_OUTPUT_PLOT,     /* SVG of megalith plot */
    MEGA_OUTPUT_SCHEDULE, /* SVG of --schedule-svg */
    MEGA_OUTPUT_TRACE,    /* --profile-trace */
    MEGA_OUTPUT_TEXTS,    /* --genfile */
    MEGA_OUTPUT_SAMPLES,  /* --sample-output-file */
    MEGA_OUTPUT_INDEX,    /* .idx of preprocess_data, data merge, and of Megatron */
    MEGA_OUTPUT_TOKENIZER /* folder of train_tokenizer */
} mega_output_kind;

/* What their writers put near the beginning. */
#define MEGA_OUTPUT_PLOT_MARK     "<desc>megalith plot</desc>"
#define MEGA_OUTPUT_SCHEDULE_MARK "<desc>megalith plan</desc>"
#define MEGA_OUTPUT_TRACE_MARK    "\"otherData\":{\"writer\":\"megalith\"}"

/* Whether writing there costs nothing but an earlier output of this kind: there is nothing, or an empty file, a pipe, a
 * device, or such an output. What cannot be read is not. */
bool mega_output_is_free(const char *path, mega_output_kind kind);
/* "a plot of megalith", for messages. */
const char *mega_output_name(mega_output_kind kind);

#ifdef __cplusplus
}
#endif

#endif
