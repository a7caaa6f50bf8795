/* Stores the losses of a run in little memory and draws them on the terminal at its end. */
#include "megalith/plot.h"
#include "train_impl.h"

enum { POINTS = 2048, LEAST_POINTS = 10 };

struct train_curve {
    double x[POINTS], y[POINTS];
    int count;
    int64_t stride;   /* iterations per point */
    double sum;       /* sum of the losses in the unfinished point */
    int64_t gathered; /* number of iterations in the unfinished point */
};

mega_status train_curve_open(trainer *t)
{
    if (t->io->status == NULL) return MEGA_OK;
    t->curve = mega_calloc(1, sizeof *t->curve);
    if (t->curve == NULL) return MEGA_NO_MEMORY("training", "the loss curve");
    t->curve->stride = 1;
    return MEGA_OK;
}

/* Halves the number of points: each new point is the mean of two. */
static void halve(train_curve *c)
{
    for (int i = 0; i < POINTS / 2; i++) {
        c->x[i] = c->x[2 * i + 1];
        c->y[i] = (c->y[2 * i] + c->y[2 * i + 1]) / 2;
    }
    c->count = POINTS / 2;
    c->stride *= 2;
}

void train_curve_add(trainer *t, double loss)
{
    train_curve *c = t->curve;
    if (c == NULL) return;
    c->sum += loss;
    if (++c->gathered < c->stride) return;
    if (c->count == POINTS) {
        halve(c);
        return; /* this point is the first half of a longer one */
    }
    c->x[c->count] = (double)mega_engine_progress_told(t->engine)->iteration;
    c->y[c->count++] = c->sum / (double)c->gathered;
    c->sum = 0;
    c->gathered = 0;
}

void train_curve_draw(const trainer *t)
{
    const train_curve *c = t->curve;
    if (c == NULL || c->count < LEAST_POINTS) return;
    const mega_series series = {.label = train_loss_name(t), .x = c->x, .y = c->y, .count = (size_t)c->count};
    const mega_plot plot = {.title = train_loss_name(t),
                            .x_label = "iteration",
                            .series = &series,
                            .num_series = 1,
                            .width = t->io->columns > 100 ? 100 : t->io->columns,
                            .height = 14,
                            .style = t->io->utf8 ? MEGA_PLOT_BRAILLE : MEGA_PLOT_ASCII};
    mega_buffer text = {0};
    /* Ignore a failure to draw: the training itself has succeeded. */
    if (mega_plot_text(&plot, &text) == MEGA_OK) train_lines(t, text.data);
    mega_buffer_fini(&text);
}

void train_curve_close(trainer *t)
{
    mega_free(t->curve);
    t->curve = NULL;
}
