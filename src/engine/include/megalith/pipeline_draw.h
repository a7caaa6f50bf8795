/* A pipeline schedule as a picture: all stages over time, as they would run if a forward took 1 and a backward 2 (a
 * chunk: its share of that) and messages nothing. */
#ifndef MEGALITH_PIPELINE_DRAW_H
#define MEGALITH_PIPELINE_DRAW_H

#include "megalith/memory.h"
#include "megalith/pipeline.h"
#include "megalith/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A line a stage, at most `columns` wide (0: whole): F3 is the forward of micro-batch 3, B3 its backward; of several
 * chunks a stage, capitals A, B, C, … are forwards of the first, second, third chunk and small letters backwards. A dot
 * is a wait. Above it the share of time that stages wait. */
mega_status mega_pipeline_draw_text(const mega_pipeline *p, int columns, mega_buffer *out);
/* The same as an SVG file; colours tell forwards and backwards apart, and shades the chunks. */
mega_status mega_pipeline_draw_svg(const mega_pipeline *p, mega_buffer *out);

#ifdef __cplusplus
}
#endif

#endif
