/* What text and SVG plots share: the range of the data, positions within it, and ticks. */
#ifndef MEGALITH_PLOT_IMPL_H
#define MEGALITH_PLOT_IMPL_H

#include "megalith/plot.h"

#define PLOT_MAX_TICKS 24
#define PLOT_LABEL     16

typedef struct plot_axis {
    double low, high; /* of the data with a margin; logarithms to base 10 when log */
    bool log;
} plot_axis;

typedef struct plot_tick {
    double at; /* 0 … 1 along the axis */
    char label[PLOT_LABEL];
} plot_tick;

/* Ranges over all points that can be drawn; margin is a part of the range, added to both ends of y. */
mega_status mega_plot_axes(const mega_plot *p, double margin, plot_axis *x, plot_axis *y);
/* 0 … 1 along the axis, or NAN where the value cannot stand on it. */
double mega_plot_place(const plot_axis *a, double value);
/* About `wanted` round values; returns how many. */
int mega_plot_ticks(const plot_axis *a, int wanted, plot_tick out[PLOT_MAX_TICKS]);

#endif
