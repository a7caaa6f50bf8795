/* Draws a pipeline schedule: all stages over time, simulated with a forward of 1 time unit and a backward of 2 (divided
 * by the number of chunks for a chunk), and messages that take no time. */
#ifndef MEGALITH_PLAN_PIPELINE_DRAW_H
#define MEGALITH_PLAN_PIPELINE_DRAW_H

#include "megalith/memory.h"
#include "megalith/pipeline.h"
#include "megalith/status.h"

/* Appends a text picture: one line per stage, at most `columns` wide (0: no limit). F3 is the forward of micro-batch 3,
 * B3 its backward. With several chunks per stage, capitals A, B, C, … are forwards of the first, second, third chunk,
 * and small letters their backwards. A dot is idle time. The line above gives the idle time in percent of the working
 * time. */
mega_status mega_pipeline_draw_text(const mega_pipeline *p, int columns, mega_buffer *out);
/* Appends the same picture as SVG. Colours distinguish forwards from backwards; shades distinguish chunks. */
mega_status mega_pipeline_draw_svg(const mega_pipeline *p, mega_buffer *out);

#endif
