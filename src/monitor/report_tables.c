/* The tables of the page: a row a property, a column a run. */
#include "plot_impl.h"
#include "report_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 640, BAR_HEIGHT = 28 /* pixels */ };

static void begin_table(const char *id, const char *title, const mega_report_run *run, int count, mega_buffer *out)
{
    mega_buffer_printf(out, "<section id=\"%s\">\n<h2>%s</h2>\n<table>\n<tr><th></th>", id, title);
    for (int i = 0; i < count; i++) {
        mega_buffer_printf(out, "<th><span class=\"key\" style=\"background:%s\"></span>", mega_svg_color(i));
        mega_svg_put_text(out, run[i].label);
        mega_buffer_puts(out, "</th>");
    }
    mega_buffer_puts(out, "</tr>\n");
}

static void end_table(mega_buffer *out)
{
    mega_buffer_puts(out, "</table>\n</section>\n");
}

static void begin_row(const char *name, mega_buffer *out)
{
    mega_buffer_puts(out, "<tr><th>");
    mega_svg_put_text(out, name);
    mega_buffer_puts(out, "</th>");
}

static void report_put_cell(const char *text, mega_buffer *out)
{
    mega_buffer_puts(out, "<td>");
    mega_svg_put_text(out, text != NULL ? text : "–");
    mega_buffer_puts(out, "</td>");
}

static void put_number(double x, mega_buffer *out)
{
    if (!isfinite(x)) report_put_cell(NULL, out);
    else if (x == floor(x) && fabs(x) < 1e15)
        mega_buffer_printf(out, "<td>%.0f</td>", x);
    else
        mega_buffer_printf(out, "<td>%.6g</td>", x);
}

void report_put_bytes(mega_buffer *out, double bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int i = 0;
    for (; bytes >= 1000 && i < 5; i++) bytes /= 1000;
    mega_buffer_printf(out, "%.*f %s", bytes < 10 && i > 0 ? 2 : bytes < 100 && i > 0 ? 1 : 0, bytes, unit[i]);
}

/* A row of texts or numbers of the description. */
typedef struct property {
    const char *name, *block, *key;
    bool is_text;
} property;

static void put_properties(const property *p, size_t n, const mega_report_run *run, int count, mega_buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        begin_row(p[i].name, out);
        for (int k = 0; k < count; k++)
            if (p[i].is_text) report_put_cell(report_text(&run[k], p[i].block, p[i].key), out);
            else
                put_number(report_number(&run[k], p[i].block, p[i].key), out);
        mega_buffer_puts(out, "</tr>\n");
    }
}

/* ---- summary ---- */

/* A figure of a curve; NAN: it has none. Marks the page as failed if memory runs out. */
typedef double figure(const mega_curve *c, mega_buffer *page);

static double last_value(const mega_curve *c, mega_buffer *page)
{
    (void)page;
    for (size_t i = c->count; i > 0; i--)
        if (isfinite(c->y[i - 1])) return c->y[i - 1];
    return NAN;
}

static double last_iteration(const mega_curve *c, mega_buffer *page)
{
    (void)page;
    return c->count > 0 ? c->x[c->count - 1] : NAN;
}

static double lowest_value(const mega_curve *c, mega_buffer *page)
{
    (void)page;
    double low = NAN;
    for (size_t i = 0; i < c->count; i++) low = fmin(low, c->y[i]);
    return low;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median: the first iterations of a run are slow. */
static double middle_value(const mega_curve *c, mega_buffer *page)
{
    size_t n = 0;
    double *y = mega_malloc(c->count * sizeof *y), middle;
    if (y == NULL) page->failed = true;
    if (y == NULL) return NAN;
    for (size_t i = 0; i < c->count; i++)
        if (isfinite(c->y[i])) y[n++] = c->y[i];
    qsort(y, n, sizeof *y, by_value);
    middle = n > 0 ? y[n / 2] : NAN;
    mega_free(y);
    return middle;
}

void report_put_summary(const mega_report_run *run, int count, mega_buffer *out)
{
    static const property of_run[] = {
        {"command", NULL, "command", true},         {"parameters", NULL, "parameters", false},
        {"computes in", NULL, "computes_in", true}, {"iterations planned", NULL, "iterations", false},
        {"last start", NULL, "began", true},        {"build", NULL, "build", true}};
    static const struct {
        const char *name;
        int curve;
        figure *get;
    } row[] = {{"iterations done", MEGA_REPORT_LOSS, last_iteration},
               {"last training loss", MEGA_REPORT_LOSS, last_value},
               {"lowest validation loss", MEGA_REPORT_VALIDATION, lowest_value},
               {"last test loss", MEGA_REPORT_TEST, last_value},
               {"tokens per second (median)", MEGA_REPORT_TOKENS, middle_value}};
    begin_table("summary", "Summary", run, count, out);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        begin_row(row[i].name, out);
        for (int k = 0; k < count; k++) put_number(row[i].get(&run[k].curve[row[i].curve], out), out);
        mega_buffer_puts(out, "</tr>\n");
    }
    put_properties(of_run, sizeof of_run / sizeof *of_run, run, count, out);
    begin_row("metrics file", out);
    for (int k = 0; k < count; k++) report_put_cell(run[k].path, out);
    mega_buffer_puts(out, "</tr>\n");
    begin_row("run", out);
    for (int k = 0; k < count; k++) report_put_cell(*run[k].id != '\0' ? run[k].id : NULL, out);
    mega_buffer_puts(out, "</tr>\n");
    end_table(out);
    for (int k = 0; k < count; k++) {
        if (run[k].about != NULL) continue;
        mega_buffer_puts(out, "<p class=\"note\">");
        mega_svg_put_text(out, run[k].label);
        mega_buffer_puts(out, ": only its curves are shown: ");
        mega_svg_put_text(out, run[k].lacks != NULL ? run[k].lacks : "it has no description");
        mega_buffer_puts(out, "</p>\n");
    }
}

void report_put_layout(const mega_report_run *run, int count, mega_buffer *out)
{
    static const property row[] = {{"ranks", "machine", "ranks", false},
                                   {"tensor-parallel ranks", "layout", "tensor", false},
                                   {"pipeline stages", "layout", "pipeline", false},
                                   {"data-parallel ranks", "layout", "data", false},
                                   {"ZeRO stage", "layout", "zero_stage", false},
                                   {"samples of a micro-batch", "layout", "micro_batch_size", false},
                                   {"samples of an iteration", "layout", "global_batch_size", false},
                                   {"micro-batches of a rank in an iteration", "schedule", "micro_batches", false},
                                   {"tokens of a sample", "layout", "sequence_length", false}};
    begin_table("layout", "Layout", run, count, out);
    put_properties(row, sizeof row / sizeof *row, run, count, out);
    end_table(out);
}

void report_put_machine(const mega_report_run *run, int count, mega_buffer *out)
{
    static const property row[] = {{"host of rank 0", "machine", "host", true},
                                   {"processor", "machine", "processor", true},
                                   {"instruction set", "machine", "instruction_set", true},
                                   {"cores of the process", "machine", "cores", false},
                                   {"ranks of this host", "machine", "ranks_of_host", false},
                                   {"threads of a rank", "machine", "threads_of_rank", false}};
    begin_table("machine", "Machine", run, count, out);
    put_properties(row, sizeof row / sizeof *row, run, count, out);
    begin_row("measured peak of a rank", out);
    for (int k = 0; k < count; k++) {
        const double flops = report_number(&run[k], "machine", "peak_flops_of_rank");
        if (isfinite(flops)) mega_buffer_printf(out, "<td>%.1f GFLOP/s</td>", flops * 1e-9);
        else
            report_put_cell(NULL, out);
    }
    mega_buffer_puts(out, "</tr>\n");
    begin_row("memory", out);
    for (int k = 0; k < count; k++) {
        const double bytes = report_number(&run[k], "machine", "memory_bytes");
        mega_buffer_puts(out, "<td>");
        if (bytes > 0) report_put_bytes(out, bytes);
        mega_buffer_puts(out, "</td>");
    }
    mega_buffer_puts(out, "</tr>\n");
    end_table(out);
}

/* ---- memory ---- */

static const json_t *classes_of(const mega_report_run *run)
{
    return json_object_get(json_object_get(run->about, "memory"), "classes");
}

static double report_bytes(const json_t *class)
{
    return json_number_value(json_object_get(class, "bytes"));
}

static double total_of(const mega_report_run *run)
{
    double sum = 0;
    const json_t *classes = classes_of(run);
    for (size_t i = 0; i < json_array_size(classes); i++) sum += report_bytes(json_array_get(classes, i));
    return sum;
}

static const char *report_name(const json_t *class)
{
    const char *name = json_string_value(json_object_get(class, "class"));
    return name != NULL ? name : "";
}

/* One bar a run, to the scale of the largest; each part has its class and size as a tooltip. */
static void put_bars(const mega_report_run *run, int count, double most, mega_buffer *out)
{
    mega_buffer_printf(out, "<svg class=\"bars\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", BAR,
                       count * BAR_HEIGHT, BAR, count * BAR_HEIGHT);
    for (int k = 0; k < count; k++) {
        const json_t *classes = classes_of(&run[k]);
        double x = 0;
        for (size_t i = 0; i < json_array_size(classes); i++) {
            const json_t *class = json_array_get(classes, i);
            const double width = BAR * report_bytes(class) / most;
            mega_buffer_printf(out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>", x,
                               k * BAR_HEIGHT + 2, width, BAR_HEIGHT - 4, mega_svg_color((int)i));
            mega_svg_put_text(out, report_name(class));
            mega_buffer_puts(out, ": ");
            report_put_bytes(out, report_bytes(class));
            mega_buffer_puts(out, "</title></rect>\n");
            x += width;
        }
    }
    mega_buffer_puts(out, "</svg>\n");
}

static const json_t *find_class(const mega_report_run *run, const char *name)
{
    const json_t *classes = classes_of(run);
    for (size_t i = 0; i < json_array_size(classes); i++)
        if (strcmp(report_name(json_array_get(classes, i)), name) == 0) return json_array_get(classes, i);
    return NULL;
}

/* Writes the row of a class, unless a run further left has it too, whose row is there already. */
static void put_class(const mega_report_run *run, int count, int first, const json_t *class, mega_buffer *out)
{
    const char *meaning = json_string_value(json_object_get(class, "meaning"));
    for (int k = 0; k < first; k++)
        if (find_class(&run[k], report_name(class)) != NULL) return;
    begin_row(report_name(class), out);
    for (int k = 0; k < count; k++) {
        const json_t *of = find_class(&run[k], report_name(class));
        mega_buffer_puts(out, "<td>");
        if (of != NULL) report_put_bytes(out, report_bytes(of));
        mega_buffer_puts(out, "</td>");
    }
    report_put_cell(meaning, out);
    mega_buffer_puts(out, "</tr>\n");
}

void report_put_memory(const mega_report_run *run, int count, mega_buffer *out)
{
    double most = 0;
    for (int k = 0; k < count; k++) most = fmax(most, total_of(&run[k]));
    if (!(most > 0)) return;
    begin_table("memory", "Memory of rank 0, as planned", run, count, out);
    for (int k = 0; k < count; k++) {
        const json_t *classes = classes_of(&run[k]);
        for (size_t i = 0; i < json_array_size(classes); i++) put_class(run, count, k, json_array_get(classes, i), out);
    }
    begin_row("total", out);
    for (int k = 0; k < count; k++) {
        mega_buffer_puts(out, "<td>");
        report_put_bytes(out, total_of(&run[k]));
        mega_buffer_puts(out, "</td>");
    }
    mega_buffer_puts(out, "</tr>\n</table>\n");
    put_bars(run, count, most, out);
    mega_buffer_puts(out, "</section>\n");
}

/* ---- schedule ---- */

/* Embeds the picture as a data URL: a browser does not run scripts in it, even if somebody added one to the file. */
static void put_picture(const char *svg, mega_buffer *out)
{
    mega_buffer_puts(out, "<div class=\"wide\"><img alt=\"pipeline schedule\" src=\"data:image/svg+xml,");
    for (; *svg != '\0'; svg++) {
        const unsigned char c = (unsigned char)*svg;
        if (strchr("<>#%\"'&", c) != NULL || c <= ' ' || c > '~') mega_buffer_printf(out, "%%%02X", c);
        else
            mega_buffer_append(out, svg, 1);
    }
    mega_buffer_puts(out, "\"></div>\n");
}

void report_put_schedule(const mega_report_run *run, int count, mega_buffer *out)
{
    mega_buffer_puts(out, "<section id=\"schedule\">\n<h2>Pipeline schedule</h2>\n");
    for (int k = 0; k < count; k++) {
        const double stages = report_number(&run[k], "schedule", "stages");
        const char *svg = report_text(&run[k], "schedule", "svg");
        if (!isfinite(stages)) continue;
        mega_buffer_puts(out, "<p>");
        mega_svg_put_text(out, run[k].label);
        mega_buffer_printf(out, ": %.0f stage%s, %.0f micro-batches%s</p>\n", stages, stages == 1 ? "" : "s",
                           report_number(&run[k], "schedule", "micro_batches"),
                           stages == 1   ? ", one after the other"
                           : svg == NULL ? "; too many to draw"
                                         : "; blue: forward, green: backward");
        if (svg != NULL) put_picture(svg, out);
    }
    mega_buffer_puts(out, "</section>\n");
}
