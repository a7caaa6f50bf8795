/* Curves as text for a terminal and as SVG. */
#ifndef MEGALITH_PLOT_H
#define MEGALITH_PLOT_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>

/* Points are joined in the given order; a point whose y is not finite is a gap. */
typedef struct mega_series {
    const char *label;
    const double *x, *y;
    const double *faint_y; /* SVG: a thin curve drawn behind, such as the values before smoothing; or NULL */
    size_t count;
} mega_series;

/* How an SVG draws a series. */
typedef struct mega_series_look {
    int color; /* number of its colour */
    bool is_dashed;
} mega_series_look;

typedef enum mega_plot_style {
    MEGA_PLOT_ASCII,  /* one letter per point; each series has its own letter */
    MEGA_PLOT_BRAILLE /* eight dots per character; each series has its own colour */
} mega_plot_style;

typedef struct mega_plot {
    const char *title, *x_label, *y_label; /* NULL: none */
    const mega_series *series;
    int num_series;
    const mega_series_look *look; /* SVG: one for each series; NULL: each has its own colour */
    const char *id;               /* SVG: distinguishes the pictures of one page; NULL: the only one */
    bool log_x, log_y;            /* points that are not above 0 are left out */
    int width,
        height; /* text: characters and lines of the whole picture, at least 24 x 6; SVG: pixels; 0: a default size */
    mega_plot_style style; /* for text only */
    bool color;            /* for text: use the escape sequences of terminals */
} mega_plot;

/* Both append to out. They return an error if there is no point to draw. */
mega_status mega_plot_text(const mega_plot *p, mega_buffer *out);
mega_status mega_plot_svg(const mega_plot *p, mega_buffer *out);

#endif
