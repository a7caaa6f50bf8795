/* Axes: the range of the data, and round numbers for the ticks. */
#include "plot_impl.h"

#include <math.h>
#include <stdio.h>

/* The value, or its logarithm; NAN if it cannot be drawn. */
static double on_scale(bool log, double v)
{
    if (!isfinite(v) || (log && v <= 0.0)) return NAN;
    return log ? log10(v) : v;
}

static void axis_widen(plot_axis *a, double v)
{
    if (v < a->low) a->low = v;
    if (v > a->high) a->high = v;
}

/* Widens a range of zero width around its value. */
static void axis_settle(plot_axis *a, double margin)
{
    double extra = (a->high - a->low) * margin;
    if (a->high - a->low <= 1e-12 * fmax(fabs(a->low), fabs(a->high)))
        extra = a->log ? 0.5 : a->low != 0.0 ? 0.1 * fabs(a->low) : 1.0;
    a->low -= extra;
    a->high += extra;
}

mega_status mega_plot_axes(const mega_plot *p, double margin, plot_axis *x, plot_axis *y)
{
    *x = (plot_axis){INFINITY, -INFINITY, p->log_x};
    *y = (plot_axis){INFINITY, -INFINITY, p->log_y};
    for (int s = 0; s < p->num_series; s++) {
        const mega_series *c = &p->series[s];
        for (size_t i = 0; i < c->count; i++) {
            const double u = on_scale(p->log_x, c->x[i]), v = on_scale(p->log_y, c->y[i]);
            if (!isfinite(u) || !isfinite(v)) continue;
            axis_widen(x, u);
            axis_widen(y, v);
        }
    }
    if (x->low > x->high)
        return MEGA_MISTAKE("nothing to draw: no point has a finite value%s",
                            p->log_x || p->log_y ? " above 0, as a logarithmic axis needs" : "");
    axis_settle(x, 0.0);
    axis_settle(y, margin);
    return MEGA_OK;
}

double mega_plot_place(const plot_axis *a, double value)
{
    const double v = on_scale(a->log, value);
    return isfinite(v) ? (v - a->low) / (a->high - a->low) : NAN;
}

/* Returns 1, 2 or 5 times a power of ten, at least `least`. */
static double round_step(double least)
{
    const double power = pow(10.0, floor(log10(least)));
    const double part = least / power;
    return (part <= 1.0 ? 1.0 : part <= 2.0 ? 2.0 : part <= 5.0 ? 5.0 : 10.0) * power;
}

/* Uses as many decimals as the step between ticks needs; abbreviates thousands and millions. */
static void axis_label(char out[PLOT_LABEL], double v, double step)
{
    if (fabs(v) < step * 1e-6) v = 0.0;
    const double size = fmax(fabs(v), step);
    if (size >= 1e15 || size < 1e-4) {
        snprintf(out, PLOT_LABEL, "%.3g", v);
    } else if (fabs(v) >= 1e4 && fmod(fabs(v) / 100.0 + 1e-6, 1.0) < 1e-5) {
        const char *unit = fabs(v) >= 1e9 ? "G" : fabs(v) >= 1e6 ? "M" : "k";
        snprintf(out, PLOT_LABEL, "%.6g%s", v / (fabs(v) >= 1e9 ? 1e9 : fabs(v) >= 1e6 ? 1e6 : 1e3), unit);
    } else {
        const int decimals = step >= 1.0 ? 0 : (int)ceil(-log10(step) - 1e-9);
        snprintf(out, PLOT_LABEL, "%.*f", decimals > 8 ? 8 : decimals, v);
    }
}

static int linear_ticks(const plot_axis *a, double low, double high, int wanted, plot_tick out[PLOT_MAX_TICKS])
{
    int n = 0;
    const double step = round_step((high - low) / (double)wanted);
    for (double k = ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && n < PLOT_MAX_TICKS; k += 1.0) {
        out[n].at = mega_plot_place(a, k * step);
        axis_label(out[n].label, k * step, step);
        n += isfinite(out[n].at) ? 1 : 0;
    }
    return n;
}

/* Ticks at powers of ten, and at 2 and 5 times these if they fit. */
static int decade_ticks(const plot_axis *a, int wanted, plot_tick out[PLOT_MAX_TICKS])
{
    static const double times[] = {1.0, 2.0, 5.0};
    const double decades = a->high - a->low;
    const bool fine = 3.0 * decades <= (double)wanted * 1.5;
    const int stride = (int)fmax(1.0, ceil(decades / (double)wanted));
    int n = 0;
    for (int e = (int)floor(a->low); e <= (int)ceil(a->high); e++) {
        for (int k = 0; k < (fine ? 3 : 1) && n < PLOT_MAX_TICKS; k++) {
            const double v = times[k] * pow(10.0, (double)e), at = mega_plot_place(a, v);
            if (e % stride != 0 || at < -1e-9 || at > 1.0 + 1e-9) continue;
            out[n].at = at;
            axis_label(out[n++].label, v, v);
        }
    }
    return n;
}

int mega_plot_ticks(const plot_axis *a, int wanted, plot_tick out[PLOT_MAX_TICKS])
{
    if (wanted < 2) wanted = 2;
    if (wanted > PLOT_MAX_TICKS / 2) wanted = PLOT_MAX_TICKS / 2;
    if (!a->log) return linear_ticks(a, a->low, a->high, wanted, out);
    if (a->high - a->low >= 1.0) return decade_ticks(a, wanted, out);
    return linear_ticks(a, pow(10.0, a->low), pow(10.0, a->high), wanted, out);
}
