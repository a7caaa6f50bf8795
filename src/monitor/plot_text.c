/* Plots for terminals: a canvas of dots, eight per braille character or one per letter. */
#include "plot_impl.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_COLORS 6

typedef struct canvas {
    int cols, rows;   /* in characters */
    int dot_x, dot_y; /* dots per character */
    uint8_t *dots;    /* [rows][cols]: braille bits */
    uint8_t *owner;   /* [rows][cols]: 1 + the series drawn last, 0: none */
} canvas;

static const char letters[] = "*o+x#@";
static const char *const colors[SERIES_COLORS] = {"\033[34m", "\033[31m", "\033[32m",
                                                  "\033[33m", "\033[35m", "\033[36m"};

static void set_dot(canvas *c, int x, int y, int series)
{
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x < 0 || y < 0 || x >= c->cols * c->dot_x || y >= c->rows * c->dot_y) return;
    const int at = y / c->dot_y * c->cols + x / c->dot_x;
    c->dots[at] |= bit[y % c->dot_y][x % c->dot_x];
    c->owner[at] = (uint8_t)(series + 1);
}

/* Bresenham's line. */
static void plot_draw_line(canvas *c, int x0, int y0, int x1, int y1, int series)
{
    const int dx = abs(x1 - x0), dy = -abs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1;
    for (int error = dx + dy;;) {
        set_dot(c, x0, y0, series);
        if (x0 == x1 && y0 == y1) return;
        const int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x0 += sx;
        }
        if (twice <= dx) {
            error += dx;
            y0 += sy;
        }
    }
}

static void draw_series(canvas *c, const mega_series *s, int number, const plot_axis *x, const plot_axis *y)
{
    bool joined = false;
    int last_x = 0, last_y = 0;
    for (size_t i = 0; i < s->count; i++) {
        const double u = mega_plot_place(x, s->x[i]), v = mega_plot_place(y, s->y[i]);
        if (!isfinite(u) || !isfinite(v)) {
            joined = false;
            continue;
        }
        const int dx = (int)lrint(u * (double)(c->cols * c->dot_x - 1));
        const int dy = (int)lrint((1.0 - v) * (double)(c->rows * c->dot_y - 1));
        plot_draw_line(c, joined ? last_x : dx, joined ? last_y : dy, dx, dy, number);
        joined = true;
        last_x = dx;
        last_y = dy;
    }
}

static void put_cell(mega_buffer *out, const mega_plot *p, const canvas *c, int at)
{
    if (c->owner[at] == 0) {
        mega_buffer_puts(out, " ");
        return;
    }
    const int series = c->owner[at] - 1;
    if (p->color) mega_buffer_puts(out, colors[series % SERIES_COLORS]);
    if (p->style == MEGA_PLOT_BRAILLE) { /* U+2800 and the bits of the dots */
        const unsigned code = 0x2800u + c->dots[at];
        const char utf8[3] = {(char)0xe2, (char)(0x80 | ((code >> 6) & 0x3f)), (char)(0x80 | (code & 0x3f))};
        mega_buffer_append(out, utf8, 3);
    } else {
        mega_buffer_append(out, &letters[series % (int)(sizeof letters - 1)], 1);
    }
    if (p->color) mega_buffer_puts(out, "\033[0m");
}

static void put_blanks(mega_buffer *out, int n)
{
    for (int i = 0; i < n; i++) mega_buffer_puts(out, " ");
}

/* The row of a tick: the one whose middle is nearest. */
static int plot_row(double at, int rows)
{
    const int row = (int)lrint((1.0 - at) * (double)(rows - 1));
    return row < 0 ? 0 : row >= rows ? rows - 1 : row;
}

static void put_rows(mega_buffer *out, const mega_plot *p, const canvas *c, const plot_tick *tick, int num_ticks,
                     int margin)
{
    const bool braille = p->style == MEGA_PLOT_BRAILLE;
    for (int row = 0; row < c->rows; row++) {
        const char *label = NULL;
        for (int i = 0; i < num_ticks && label == NULL; i++) {
            if (plot_row(tick[i].at, c->rows) == row) label = tick[i].label;
        }
        mega_buffer_printf(out, "%*s %s", margin, label != NULL ? label : "",
                           label != NULL ? (braille ? "┤" : "+") : (braille ? "│" : "|"));
        for (int col = 0; col < c->cols; col++) put_cell(out, p, c, row * c->cols + col);
        while (out->size > 0 && !out->failed && out->data[out->size - 1] == ' ') out->size--; /* drop trailing blanks */
        mega_buffer_puts(out, "\n");
    }
}

/* Draws the axis with its ticks, then the labels that do not overlap. */
static void put_x_axis(mega_buffer *out, const mega_plot *p, const plot_axis *x, int cols, int margin)
{
    const bool braille = p->style == MEGA_PLOT_BRAILLE;
    plot_tick tick[PLOT_MAX_TICKS];
    const int n = mega_plot_ticks(x, cols / 12, tick);
    put_blanks(out, margin + 1);
    mega_buffer_puts(out, braille ? "└" : "+");
    for (int col = 0, i = 0; col < cols; col++) {
        const bool here = i < n && (int)lrint(tick[i].at * (double)(cols - 1)) == col;
        mega_buffer_puts(out, here ? (braille ? "┬" : "+") : (braille ? "─" : "-"));
        while (i < n && (int)lrint(tick[i].at * (double)(cols - 1)) <= col) i++;
    }
    mega_buffer_puts(out, "\n");
    int at = 0;
    const int first = margin + 2;
    for (int i = 0; i < n; i++) {
        const int length = (int)strlen(tick[i].label);
        int from = first + (int)lrint(tick[i].at * (double)(cols - 1)) - length / 2;
        if (from + length > first + cols) from = first + cols - length;
        if (at > 0 && from <= at) continue;
        put_blanks(out, from - at);
        mega_buffer_puts(out, tick[i].label);
        at = from + length;
    }
    if (p->x_label != NULL && at + 2 + (int)strlen(p->x_label) <= first + cols)
        mega_buffer_printf(out, "  %s", p->x_label);
    mega_buffer_puts(out, "\n");
}

static void text_put_legend(mega_buffer *out, const mega_plot *p, int margin)
{
    put_blanks(out, margin + 2);
    for (int s = 0; s < p->num_series; s++) {
        const char *mark = p->style == MEGA_PLOT_BRAILLE ? "⣿" : NULL;
        if (s > 0) mega_buffer_puts(out, "   ");
        if (p->color) mega_buffer_puts(out, colors[s % SERIES_COLORS]);
        if (mark != NULL) mega_buffer_puts(out, mark);
        else
            mega_buffer_append(out, &letters[s % (int)(sizeof letters - 1)], 1);
        if (p->color) mega_buffer_puts(out, "\033[0m");
        mega_buffer_printf(out, " %s", p->series[s].label);
    }
    mega_buffer_puts(out, "\n");
}

mega_status mega_plot_text(const mega_plot *p, mega_buffer *out)
{
    plot_axis x, y;
    plot_tick tick[PLOT_MAX_TICKS];
    MEGA_TRY(mega_plot_axes(p, 0.02, &x, &y));
    const bool braille = p->style == MEGA_PLOT_BRAILLE, legend = p->num_series > 1;
    const int width = p->width == 0 ? 80 : p->width < 24 ? 24 : p->width;
    const int height = p->height == 0 ? 20 : p->height < 6 ? 6 : p->height;
    canvas c = {.rows = height - 2 - (p->title != NULL) - legend, .dot_x = braille ? 2 : 1, .dot_y = braille ? 4 : 1};
    if (c.rows < 2) c.rows = 2;
    const int n = mega_plot_ticks(&y, c.rows / 4 + 1, tick);
    int margin = 4;
    for (int i = 0; i < n; i++) margin = (int)strlen(tick[i].label) > margin ? (int)strlen(tick[i].label) : margin;
    c.cols = width - margin - 2;
    c.dots = mega_calloc((size_t)c.rows * (size_t)c.cols, 2);
    if (c.dots == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a plot of %d x %d characters", width, height);
    c.owner = c.dots + (size_t)c.rows * (size_t)c.cols;
    for (int s = 0; s < p->num_series; s++) draw_series(&c, &p->series[s], s, &x, &y);
    if (p->title != NULL) {
        put_blanks(out, margin + 2);
        mega_buffer_printf(out, "%s\n", p->title);
    }
    if (legend) text_put_legend(out, p, margin);
    put_rows(out, p, &c, tick, n, margin);
    put_x_axis(out, p, &x, c.cols, margin);
    mega_free(c.dots);
    return mega_buffer_check(out, "the plot");
}
