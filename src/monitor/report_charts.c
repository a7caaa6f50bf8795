/* The curves of the page: one chart a quantity, all runs in it. */
#include "plot_impl.h"
#include "report_impl.h"
#include <math.h>
#include <string.h>

/* The running mean reaches over 1/50 of the points, so that its delay is small. */
#define MEAN_SHARE 0.02
enum { SMOOTHED_FROM = 200 /* points; fewer are drawn as they are */, MOST_KINDS = 3 };

typedef struct chart {
    const char *id, *title, *y_label;
    int curve[MOST_KINDS], kinds; /* of each run; the first is a solid line, the others are dashed */
    const char *kind[MOST_KINDS]; /* for the legend; NULL: none */
    bool is_smoothed;             /* the first kind is drawn as a mean over neighbours if it has SMOOTHED_FROM points */
    bool log_y;
} chart;

static const chart charts[] = {
    {.id = "loss",
     .title = "Loss",
     .y_label = "loss",
     .curve = {MEGA_REPORT_LOSS, MEGA_REPORT_VALIDATION, MEGA_REPORT_TEST},
     .kinds = 3,
     .kind = {"training", "validation", "test"},
     .is_smoothed = true},
    {.id = "learning-rate", .title = "Learning rate", .curve = {MEGA_REPORT_LEARNING_RATE}, .kinds = 1},
    {.id = "loss-scale", .title = "Loss scale", .curve = {MEGA_REPORT_LOSS_SCALE}, .kinds = 1, .log_y = true},
    {.id = "grad-norm", .title = "Gradient norm", .curve = {MEGA_REPORT_GRAD_NORM}, .kinds = 1, .is_smoothed = true},
    {.id = "tokens", .title = "Tokens per second", .curve = {MEGA_REPORT_TOKENS}, .kinds = 1, .is_smoothed = true},
};

/* The series of one chart. */
typedef struct drawn {
    mega_series *series;
    mega_series_look *look;
    char **label;
    double **smoothed;
    int count;
} drawn;

/* Returns the number of points of the curve that can be drawn. */
static size_t finite_points(const mega_curve *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) n += isfinite(c->y[i]) != 0;
    return n;
}

static mega_status smooth(drawn *d, const mega_curve *raw)
{
    mega_series *s = &d->series[d->count];
    mega_curve mean = *raw;
    mean.y = mega_malloc(raw->count * sizeof *mean.y);
    if (mean.y == NULL) return MEGA_NO_MEMORY("report", "a curve");
    memcpy(mean.y, raw->y, raw->count * sizeof *mean.y);
    mega_curve_smooth(&mean, 1 - 1 / (MEAN_SHARE * (double)raw->count));
    d->smoothed[d->count] = mean.y;
    s->faint_y = raw->y;
    s->y = mean.y;
    return MEGA_OK;
}

static mega_status add_series(drawn *d, const chart *c, const mega_report_run *run, int number, int count, int kind)
{
    const mega_curve *data = &run->curve[c->curve[kind]];
    if (finite_points(data) == 0) return MEGA_OK;
    char *label = count == 1 ? mega_strdup(c->kind[kind] != NULL ? c->kind[kind] : c->title)
                             : mega_format("%s%s%s", run->label, c->kind[kind] != NULL ? ": " : "",
                                           c->kind[kind] != NULL ? c->kind[kind] : "");
    if (label == NULL) return MEGA_NO_MEMORY("report", "a curve");
    d->label[d->count] = label;
    d->series[d->count] = (mega_series){.label = label, .x = data->x, .y = data->y, .count = data->count};
    d->look[d->count] = (mega_series_look){.color = number, .is_dashed = kind > 0};
    mega_status st = MEGA_OK;
    if (kind == 0 && c->is_smoothed && data->count >= SMOOTHED_FROM) st = smooth(d, data);
    d->count++;
    return st;
}

static mega_status draw(const drawn *d, const chart *c, mega_buffer *out)
{
    bool is_smoothed = false;
    for (int i = 0; i < d->count; i++) is_smoothed |= d->smoothed[i] != NULL;
    const mega_plot p = {.title = c->title,
                         .x_label = "iteration",
                         .series = d->series,
                         .look = d->look,
                         .id = c->id,
                         .num_series = d->count,
                         .log_y = c->log_y,
                         .width = 720,
                         .height = 400};
    mega_buffer_printf(out, "<figure id=\"%s\">\n", c->id);
    MEGA_TRY(mega_plot_svg(&p, out));
    if (is_smoothed)
        mega_buffer_puts(out, "<figcaption>Lines are running means; the values are drawn thin.</figcaption>\n");
    mega_buffer_puts(out, "</figure>\n");
    return MEGA_OK;
}

static mega_status put_chart(const chart *c, const mega_report_run *run, int count, mega_buffer *out)
{
    const size_t most = (size_t)(count * c->kinds);
    drawn d = {.series = mega_calloc(most, sizeof *d.series),
               .look = mega_calloc(most, sizeof *d.look),
               .label = mega_calloc(most, sizeof *d.label),
               .smoothed = mega_calloc(most, sizeof *d.smoothed)};
    mega_status st = MEGA_OK;
    if (d.series == NULL || d.look == NULL || d.label == NULL || d.smoothed == NULL)
        st = MEGA_NO_MEMORY("report", "a chart");
    for (int i = 0; i < count; i++)
        for (int k = 0; k < c->kinds && st == MEGA_OK; k++) st = add_series(&d, c, &run[i], i, count, k);
    if (st == MEGA_OK && d.count > 0) st = draw(&d, c, out);
    for (int i = 0; i < d.count; i++) {
        MEGA_FREE(d.label[i], d.smoothed[i]);
    }
    MEGA_FREE(d.series, d.look, d.label, d.smoothed);
    return st;
}

mega_status report_put_charts(const mega_report_run *run, int count, mega_buffer *out)
{
    mega_buffer_puts(out, "<section id=\"curves\">\n<h2>Curves</h2>\n");
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) MEGA_TRY(put_chart(&charts[i], run, count, out));
    mega_buffer_puts(out, "</section>\n");
    return MEGA_OK;
}
