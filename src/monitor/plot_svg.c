/* Plots as SVG. */
#include "megalith/output.h"
#include "plot_impl.h"

#include <math.h>

#define FONT         "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"
#define NUM_COLORS   8
#define FEW_POINTS   60  /* with at most this many points, each gets a marker */
#define LETTER_WIDTH 6.8 /* average width of a letter of 12 px text */

/* Chosen to be distinguishable with colour blindness too. */
static const char *const colors[NUM_COLORS] = {"#2563eb", "#e4572e", "#059669", "#a855f7",
                                               "#d49b00", "#0891b2", "#be185d", "#64748b"};

static const char *svg_color(const mega_plot *p, int series)
{
    return colors[(p->look != NULL ? p->look[series].color : series) % NUM_COLORS];
}

static const char *svg_dash(const mega_plot *p, int series)
{
    return p->look != NULL && p->look[series].is_dashed ? "c d" : "c";
}

const char *mega_svg_color(int number)
{
    return colors[number % NUM_COLORS];
}

typedef struct frame {
    double left, top, width, height; /* the plot area, in pixels */
    plot_axis x, y;
} frame;

void mega_svg_put_text(mega_buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&') mega_buffer_puts(out, "&amp;");
        else if (*text == '<')
            mega_buffer_puts(out, "&lt;");
        else if (*text == '>')
            mega_buffer_puts(out, "&gt;");
        else if (*text == '"')
            mega_buffer_puts(out, "&quot;");
        else if ((unsigned char)*text >= 0x20)
            mega_buffer_append(out, text, 1);
    }
}

static void put_label(mega_buffer *out, double x, double y, const char *attributes, const char *text)
{
    mega_buffer_printf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    mega_svg_put_text(out, text);
    mega_buffer_puts(out, "</text>\n");
}

static void put_grid(mega_buffer *out, const frame *f)
{
    plot_tick tick[PLOT_MAX_TICKS];
    int n = mega_plot_ticks(&f->y, (int)(f->height / 60.0), tick);
    for (int i = 0; i < n; i++) {
        const double y = f->top + (1.0 - tick[i].at) * f->height;
        mega_buffer_printf(out, "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>\n", f->left, y, f->left + f->width);
        put_label(out, f->left - 10.0, y + 4.0, "class=\"t\" text-anchor=\"end\"", tick[i].label);
    }
    n = mega_plot_ticks(&f->x, (int)(f->width / 90.0), tick);
    for (int i = 0; i < n; i++) {
        const double x = f->left + tick[i].at * f->width;
        mega_buffer_printf(out, "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>\n", x, f->top, f->top + f->height);
        put_label(out, x, f->top + f->height + 20.0, "class=\"t\" text-anchor=\"middle\"", tick[i].label);
    }
    mega_buffer_printf(out, "<path class=\"a\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", f->left, f->top, f->top + f->height,
                       f->left + f->width);
}

/* The values that a line through thousands of points visits within one pixel column: first, lowest, highest, last. */
typedef struct column {
    double x, first, low, high, last;
    bool open;
} column;

static void put_point(mega_buffer *out, double x, double y, bool *pen_down)
{
    mega_buffer_printf(out, "%c%.1f %.1f", *pen_down ? 'L' : 'M', x, y);
    *pen_down = true;
}

static void put_column(mega_buffer *out, column *c, bool *pen_down)
{
    if (!c->open) return;
    put_point(out, c->x, c->first, pen_down);
    if (c->low != c->first || c->high != c->first) {
        put_point(out, c->x, c->low, pen_down);
        put_point(out, c->x, c->high, pen_down);
        put_point(out, c->x, c->last, pen_down);
    }
    c->open = false;
}

/* Draws one path; a gap interrupts it. Points within half a pixel become one stroke, so that the file stays small. */
static void put_curve(mega_buffer *out, const frame *f, const mega_series *s, const double *values, const char *class,
                      const char *color)
{
    column c = {.open = false};
    bool pen_down = false;
    mega_buffer_printf(out, "<path class=\"%s\" stroke=\"%s\" d=\"", class, color);
    for (size_t i = 0; i < s->count; i++) {
        const double u = mega_plot_place(&f->x, s->x[i]), v = mega_plot_place(&f->y, values[i]);
        if (!isfinite(u) || !isfinite(v)) {
            put_column(out, &c, &pen_down);
            pen_down = false;
            continue;
        }
        const double x = f->left + u * f->width, y = f->top + (1.0 - v) * f->height;
        if (c.open && fabs(x - c.x) < 0.5) {
            c.low = fmin(c.low, y);
            c.high = fmax(c.high, y);
            c.last = y;
            continue;
        }
        put_column(out, &c, &pen_down);
        c = (column){x, y, y, y, y, true};
    }
    put_column(out, &c, &pen_down);
    mega_buffer_puts(out, "\"/>\n");
}

static void put_marks(mega_buffer *out, const frame *f, const mega_series *s, const char *color)
{
    for (size_t i = 0; i < s->count; i++) {
        const double u = mega_plot_place(&f->x, s->x[i]), v = mega_plot_place(&f->y, s->y[i]);
        if (!isfinite(u) || !isfinite(v)) continue;
        mega_buffer_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", f->left + u * f->width,
                           f->top + (1.0 - v) * f->height, color);
    }
}

static double legend_width(const mega_series *s)
{
    double letters = 0.0;
    for (const char *c = s->label; *c != '\0'; c++) letters += ((unsigned char)*c & 0xc0) != 0x80;
    return 22.0 + letters * LETTER_WIDTH + 22.0;
}

/* Puts the legend in rows under the title, where no curve can cross it. Returns the number of rows; with out NULL it
 * only counts them. */
static int svg_put_legend(mega_buffer *out, const mega_plot *p, double left, double right, double top)
{
    double x = left;
    int rows = 1;
    for (int i = 0; i < p->num_series; i++) {
        const double width = legend_width(&p->series[i]);
        if (x > left && x + width > right) {
            x = left;
            rows++;
        }
        const double y = top + 20.0 * (double)(rows - 1);
        if (out != NULL) {
            mega_buffer_printf(out, "<path class=\"%s\" stroke=\"%s\" d=\"M%.1f %.1fh16\"/>\n", svg_dash(p, i),
                               svg_color(p, i), x, y - 4.0);
            put_label(out, x + 22.0, y, "class=\"l\"", p->series[i].label);
        }
        x += width;
    }
    return rows;
}

static void put_head(mega_buffer *out, double width, double height)
{
    mega_buffer_printf(out,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
                       "%.0f\">" MEGA_OUTPUT_PLOT_MARK "\n",
                       width, height, width, height);
    mega_buffer_puts(
        out,
        "<style>text{font-family:" FONT ";font-size:12px;fill:#334155}.h{font-size:17px;font-weight:600;fill:#0f172a}"
        ".d{stroke-dasharray:6 "
        "5}.t{fill:#64748b}.l{fill:#334155}.g{stroke:#e2e8f0;stroke-width:1;fill:none}.a{stroke:#94a3b8;stroke-width:1;"
        "fill:none}.c{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.f{fill:none;stroke-width:1;"
        "stroke-opacity:.28;stroke-linejoin:round}</style>\n");
    mega_buffer_printf(out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
}

static void put_series(mega_buffer *out, const mega_plot *p, const frame *f)
{
    const char *id = p->id != NULL ? p->id : "";
    mega_buffer_printf(
        out,
        "<clipPath id=\"p%s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n<g "
        "clip-path=\"url(#p%s)\">\n",
        id, f->left, f->top - 2.0, f->width + 4.0, f->height + 4.0, id);
    for (int i = 0; i < p->num_series; i++) {
        const mega_series *s = &p->series[i];
        if (s->faint_y != NULL) put_curve(out, f, s, s->faint_y, "f", svg_color(p, i));
    }
    for (int i = 0; i < p->num_series; i++) {
        const mega_series *s = &p->series[i];
        put_curve(out, f, s, s->y, svg_dash(p, i), svg_color(p, i));
        if (s->count <= FEW_POINTS) put_marks(out, f, s, svg_color(p, i));
    }
    mega_buffer_puts(out, "</g>\n");
}

mega_status mega_plot_svg(const mega_plot *p, mega_buffer *out)
{
    const double width = p->width == 0 ? 960.0 : fmax(240.0, (double)p->width);
    const double height = p->height == 0 ? 540.0 : fmax(160.0, (double)p->height);
    frame f = {.left = 72.0, .width = width - 72.0 - 28.0};
    MEGA_TRY(mega_plot_axes(p, 0.04, &f.x, &f.y));
    const bool legend = p->num_series > 0 && p->series[0].label != NULL;
    const int rows = legend ? svg_put_legend(NULL, p, f.left, f.left + f.width, 0.0) : 0;
    const double title = p->title != NULL ? 44.0 : 16.0;
    f.top = title + 22.0 * (double)rows + 8.0;
    f.height = fmax(40.0, height - f.top - (p->x_label != NULL ? 58.0 : 38.0));
    put_head(out, width, height);
    if (p->title != NULL) put_label(out, f.left, 34.0, "class=\"h\"", p->title);
    if (legend) svg_put_legend(out, p, f.left, f.left + f.width, title + 16.0);
    put_grid(out, &f);
    put_series(out, p, &f);
    if (p->x_label != NULL) put_label(out, f.left + f.width / 2.0, height - 16.0, "text-anchor=\"middle\"", p->x_label);
    if (p->y_label != NULL) {
        mega_buffer_printf(out, "<g transform=\"translate(20 %.1f) rotate(-90)\">", f.top + f.height / 2.0);
        put_label(out, 0.0, 0.0, "text-anchor=\"middle\"", p->y_label);
        mega_buffer_puts(out, "</g>\n");
    }
    mega_buffer_puts(out, "</svg>\n");
    return mega_buffer_check(out, "the plot");
}
