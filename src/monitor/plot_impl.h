/* Shared by text and SVG plots: the range of the data, positions within it, and ticks. */
#ifndef MEGALITH_PLOT_IMPL_H
#define MEGALITH_PLOT_IMPL_H

#include "megalith/plot.h"

/* Appends text with the characters that XML and HTML reserve escaped; control characters are left out. */
void mega_svg_put_text(mega_buffer *out, const char *text);
const char *mega_svg_color(int number); /* "#2563eb": the colour of a series in every picture */

#define PLOT_MAX_TICKS 24
#define PLOT_LABEL     16

typedef struct plot_axis {
    double low, high; /* range of the data with a margin; base-10 logarithms if log */
    bool log;
} plot_axis;

typedef struct plot_tick {
    double at; /* 0 … 1 along the axis */
    char label[PLOT_LABEL];
} plot_tick;

/* Computes the ranges over all points that can be drawn; `margin` is a fraction of the range that is added at both ends
 * of y. */
mega_status mega_plot_axes(const mega_plot *p, double margin, plot_axis *x, plot_axis *y);
/* Returns the position 0 … 1 along the axis, or NAN if the value cannot be drawn. */
double mega_plot_place(const plot_axis *a, double value);
/* Writes about `wanted` round values; returns their number. */
int mega_plot_ticks(const plot_axis *a, int wanted, plot_tick out[PLOT_MAX_TICKS]);

#endif
