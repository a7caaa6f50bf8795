/* Recognises files that megalith wrote itself, by how they begin and end. A command may replace those; any other file
 * is somebody's work. */
#ifndef MEGALITH_OUTPUT_H
#define MEGALITH_OUTPUT_H

#include "megalith/status.h"
#include <stdbool.h>

typedef enum mega_output_kind {
    MEGA_OUTPUT_PLOT,      /* SVG of megalith plot */
    MEGA_OUTPUT_SCHEDULE,  /* SVG of --schedule-svg */
    MEGA_OUTPUT_TRACE,     /* --profile-trace */
    MEGA_OUTPUT_TEXTS,     /* --genfile */
    MEGA_OUTPUT_SAMPLES,   /* --sample-output-file */
    MEGA_OUTPUT_LOGITS,    /* --return-logits; a .npy file of them has no mark, so it is never recognised */
    MEGA_OUTPUT_INDEX,     /* .idx of preprocess_data, data merge, and of Megatron */
    MEGA_OUTPUT_ABOUT,     /* what a training writes about itself beside --metrics-file */
    MEGA_OUTPUT_REPORT,    /* HTML of megalith report */
    MEGA_OUTPUT_CONFIG,    /* YAML or JSON of megalith config and accelerate config, without comments */
    MEGA_OUTPUT_FLOPS,     /* text of the flops profiler */
    MEGA_OUTPUT_TOKENIZER, /* folder of train_tokenizer */
    MEGA_OUTPUT_EMBEDDINGS /* --output of embed */
} mega_output_kind;

/* Text that the writers put near the beginning of these files. */
#define MEGA_OUTPUT_PLOT_MARK     "<desc>megalith plot</desc>"
#define MEGA_OUTPUT_SCHEDULE_MARK "<desc>megalith plan</desc>"
#define MEGA_OUTPUT_ABOUT_MARK    "{\"megalith_run\": 1,"
#define MEGA_OUTPUT_REPORT_MARK   "<meta name=\"generator\" content=\"megalith report\">"
#define MEGA_OUTPUT_FLOPS_MARK \
    "-------------------------- DeepSpeed Flops Profiler --------------------------\nProfile Summary at step "
#define MEGA_OUTPUT_LOGITS_KEY "megalith_logits" /* in the metadata of a safetensors file */
#define MEGA_OUTPUT_TRACE_MARK "\"otherData\":{\"writer\":\"megalith\"}"

/* embed pads the header of its array with this many extra spaces. No other writer does, so embed knows its own
 * files. */
#define MEGA_OUTPUT_EMBEDDINGS_PADDING 64

/* Returns whether writing to this path destroys nothing but an earlier output of this kind: the path is missing, an
 * empty file, a pipe, a device or such an output. False for a file that cannot be read. */
bool mega_output_is_free(const char *path, mega_output_kind kind);
/* Returns a name for messages, such as "a plot of megalith". */
const char *mega_output_name(mega_output_kind kind);

#endif
