/* megalith plot: draws or compares metrics files, in the terminal and as SVG. */
#include "megalith/plot.h"
#include "cli.h"
#include "commands.h"
#include "megalith/file.h"
#include "megalith/metrics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* One curve: one key of one file. */
typedef struct curve {
    mega_curve data;
    double *raw; /* values before smoothing; NULL if not smoothed */
    char *label;
    const char *file, *key;
} curve;

typedef struct drawing {
    curve *curve;
    mega_series *series;
    int count;
    char *title;
} drawing;

static bool same_base(const mega_list *files)
{
    for (size_t i = 0; i < files->count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(mega_path_base(files->item[i]), mega_path_base(files->item[k])) == 0) return true;
        }
    }
    return false;
}

/* Returns the label that distinguishes this curve from the others. */
static char *plot_label(const mega_command_options *cfg, const char *file, const char *key)
{
    const char *name = same_base(mega_options_positional(cfg->train.engine.options)) ? file : mega_path_base(file);
    if (mega_options_positional(cfg->train.engine.options)->count > 1 && cfg->plot.key.count > 1)
        return mega_format("%s %s", name, key);
    return mega_strdup(mega_options_positional(cfg->train.engine.options)->count > 1 ? name : key);
}

static mega_status read_curve(curve *c, const mega_command_options *cfg)
{
    MEGA_TRY(mega_curve_read(c->file, cfg->plot.run, cfg->plot.x, c->key, &c->data));
    c->label = plot_label(cfg, c->file, c->key);
    if (c->label == NULL) return MEGA_NO_MEMORY("plot", "the curves");
    /* Do not smooth a curve with fewer points than the mean covers, such as evaluations next to training losses. */
    if (cfg->plot.smooth <= 0.0 || (double)c->data.count * (1.0 - cfg->plot.smooth) < 1.0) return MEGA_OK;
    c->raw = mega_malloc(c->data.count * sizeof *c->raw);
    if (c->raw == NULL) return MEGA_NO_MEMORY("plot", "the curves");
    memcpy(c->raw, c->data.y, c->data.count * sizeof *c->raw);
    mega_curve_smooth(&c->data, cfg->plot.smooth);
    return MEGA_OK;
}

static mega_status title_of(drawing *d, const mega_command_options *cfg)
{
    mega_buffer b = {0};
    for (size_t i = 0; i < cfg->plot.key.count; i++)
        mega_buffer_printf(&b, "%s%s", i > 0 ? ", " : "", cfg->plot.key.item[i]);
    if (mega_options_positional(cfg->train.engine.options)->count == 1)
        mega_buffer_printf(&b, " of %s", mega_path_base(mega_options_positional(cfg->train.engine.options)->item[0]));
    if (cfg->plot.smooth > 0.0) mega_buffer_printf(&b, " (smoothed, %g)", cfg->plot.smooth);
    d->title = b.data;
    return mega_buffer_check(&b, "the title");
}

/* Reads every file and key. Errors are reported for all files together. */
static mega_status read_all(drawing *d, const mega_command_options *cfg)
{
    const mega_list *files = mega_options_positional(cfg->train.engine.options), *keys = &cfg->plot.key;
    mega_buffer wrong = {0};
    mega_status first = MEGA_OK;
    d->curve = mega_calloc(files->count * keys->count, sizeof *d->curve);
    d->series = mega_calloc(files->count * keys->count, sizeof *d->series);
    if (d->curve == NULL || d->series == NULL) return MEGA_NO_MEMORY("plot", "the curves");
    for (size_t f = 0; f < files->count; f++) {
        for (size_t k = 0; k < keys->count; k++) {
            curve *c = &d->curve[d->count++];
            c->file = files->item[f];
            c->key = keys->item[k];
            const mega_status st = read_curve(c, cfg);
            if (st == MEGA_OK) continue;
            mega_buffer_printf(&wrong, "%s%s", wrong.size > 0 ? "\n  " : "", mega_error_message());
            first = first == MEGA_OK ? st : first;
            if (st == MEGA_ERR_NOT_FOUND || st == MEGA_ERR_FORMAT)
                break; /* the file's other keys would give the same error */
        }
    }
    if (first != MEGA_OK && !wrong.failed) first = MEGA_FAIL(first, "%s", wrong.data);
    mega_buffer_fini(&wrong);
    MEGA_TRY(first);
    for (int i = 0; i < d->count; i++) {
        const curve *c = &d->curve[i];
        d->series[i] = (mega_series){c->label, c->data.x, c->data.y, c->raw, c->data.count};
    }
    return title_of(d, cfg);
}

static void terminal_size(int *width, int *height)
{
    struct winsize size = {0};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    const char *columns = getenv("COLUMNS");
    const long said = columns != NULL ? strtol(columns, NULL, 10) : 0;
    *width = known ? size.ws_col : said > 0 && said < 1000 ? (int)said : 80;
    *height = known && size.ws_row < 26 ? size.ws_row - 2 : 24;
}

static void put_summary(const curve *c, const char *x_key, bool smooth)
{
    size_t last = c->data.count, lowest = c->data.count;
    for (size_t i = 0; i < c->data.count; i++) {
        if (!isfinite(c->data.y[i])) continue;
        last = i;
        if (lowest == c->data.count || c->data.y[i] < c->data.y[lowest]) lowest = i;
    }
    if (last == c->data.count) printf("%s: %zu points, none of them finite\n", c->label, c->data.count);
    else
        printf("%s: %zu points, last %.6g at %s %.10g, lowest %.6g at %.10g%s\n", c->label, c->data.count,
               c->data.y[last], x_key, c->data.x[last], c->data.y[lowest], c->data.x[lowest],
               smooth && c->raw == NULL ? " (too few points to smooth)" : "");
}

/* Prints which files contain rows of several runs, of which only the last is drawn. */
static mega_status put_runs(const mega_command_options *cfg)
{
    const mega_list *files = mega_options_positional(cfg->train.engine.options);
    for (size_t i = 0; cfg->plot.run == NULL && i < files->count; i++) {
        mega_buffer runs = {0};
        int64_t count = 0;
        const mega_status st = mega_metrics_runs(files->item[i], &runs, &count);
        if (st == MEGA_OK && count > 1)
            printf("%s holds rows of %lld runs (%s); the last is drawn, --run ID draws another\n", files->item[i],
                   (long long)count, runs.data);
        mega_buffer_fini(&runs);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}

static mega_status draw_text(const drawing *d, mega_plot *p, const mega_command_options *cfg)
{
    mega_buffer out = {0};
    int width, height;
    terminal_size(&width, &height);
    p->color = mega_cli_is_terminal(stdout) && getenv("NO_COLOR") == NULL;
    p->style = mega_cli_speaks_utf8() && (p->color || d->count == 1) ? MEGA_PLOT_BRAILLE : MEGA_PLOT_ASCII;
    p->width = cfg->plot.width > 0 ? (int)(cfg->plot.width < 2000 ? cfg->plot.width : 2000) : width;
    p->height = cfg->plot.height > 0 ? (int)(cfg->plot.height < 1000 ? cfg->plot.height : 1000) : height;
    const mega_status st = mega_plot_text(p, &out);
    if (st == MEGA_OK) {
        fwrite(out.data, 1, out.size, stdout);
        for (int i = 0; i < d->count; i++) put_summary(&d->curve[i], cfg->plot.x, cfg->plot.smooth > 0.0);
    }
    mega_buffer_fini(&out);
    return st == MEGA_OK ? put_runs(cfg) : st;
}

static mega_status draw_svg(mega_plot *p, const char *path)
{
    mega_buffer out = {0};
    p->width = p->height = 0;
    mega_status st = mega_plot_svg(p, &out);
    if (st == MEGA_OK) st = mega_file_write_atomic(path, out.data, out.size);
    if (st == MEGA_OK) printf("wrote %s\n", path);
    mega_buffer_fini(&out);
    return st;
}

static void drawing_fini(drawing *d)
{
    for (int i = 0; i < d->count; i++) {
        mega_curve_fini(&d->curve[i].data);
        MEGA_FREE(d->curve[i].raw, d->curve[i].label);
    }
    MEGA_FREE(d->curve, d->series, d->title);
}

static mega_status plot_run(const mega_command_options *cfg)
{
    drawing d = {0};
    mega_status st = read_all(&d, cfg);
    if (st == MEGA_OK && cfg->train.dry_run) {
        mega_cli_dry_run("%d curves would be drawn", d.count);
    } else if (st == MEGA_OK) {
        mega_plot p = {.title = d.title,
                       .x_label = cfg->plot.x,
                       .series = d.series,
                       .num_series = d.count,
                       .log_x = cfg->plot.log_x,
                       .log_y = cfg->plot.log_y};
        st = draw_text(&d, &p, cfg);
        if (st == MEGA_OK && cfg->plot.svg != NULL) st = draw_svg(&p, cfg->plot.svg);
    }
    drawing_fini(&d);
    return st;
}

/* If there are other mistakes, also reads the files to report errors in them. Otherwise the run, or --dry-run, reads
 * them. */
static void plot_check(mega_command_options *cfg)
{
    drawing d = {0};
    if (mega_options_report(cfg->train.engine.options) != MEGA_OK)
        mega_options_add_mistake(cfg->train.engine.options, read_all(&d, cfg));
    drawing_fini(&d);
}

int mega_command_plot(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse_checked(&cfg, "plot", argc, argv, plot_check, &exit_status)) return exit_status;
    const mega_status st = plot_run(&cfg);
    mega_command_options_fini(&cfg);
    return st == MEGA_OK ? 0 : mega_cli_fail("plot", st);
}
