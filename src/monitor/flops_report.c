/* Writes the report of the flops profiler. A module is a part of a path between dots: a tree is made of the paths, and
 * each node has the sums of all that is below it. */
#include "megalith/flops_report.h"
#include "megalith/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 64, DEEPEST = 16 };

typedef struct module {
    char name[LONGEST_NAME];
    int parent, depth;
    double params, flops, seconds;
} module;

/* The first module is the whole model. */
typedef struct module_tree {
    module *module;
    int count, capacity, deepest;
} module_tree;

static const char *scaled(char out[32], double x, const char *unit)
{
    static const char *const prefix[] = {"", "K", "M", "G", "T", "P"};
    int k = 0;
    for (; x >= 1000 && k < 5; k++) x /= 1000;
    snprintf(out, 32, "%.*f%s%s%s", k > 0 ? 2 : 0, x, k > 0 || unit[0] != '\0' ? " " : "", prefix[k], unit);
    return out;
}

static const char *duration(char out[32], double seconds)
{
    if (seconds >= 1) snprintf(out, 32, "%.2f s", seconds);
    else if (seconds >= 1e-3)
        snprintf(out, 32, "%.2f ms", seconds * 1e3);
    else
        snprintf(out, 32, "%.2f us", seconds * 1e6);
    return out;
}

static double percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

/* ---- the tree ---- */

/* Each row makes at most one module for each part of its path. */
static mega_status make_tree(const mega_flops_report *r, module_tree *t)
{
    t->capacity = 1;
    for (int i = 0; i < r->rows; i++) {
        t->capacity++;
        for (const char *c = r->row[i].path; *c != '\0'; c++) t->capacity += *c == '.';
    }
    t->module = mega_calloc((size_t)t->capacity, sizeof *t->module);
    if (t->module == NULL) return MEGA_NO_MEMORY("flops profiler", "its report");
    snprintf(t->module[0].name, sizeof t->module[0].name, "model");
    t->module[0].parent = -1;
    t->count = 1;
    return MEGA_OK;
}

static int child_of(module_tree *t, int parent, const char *name, size_t n)
{
    for (int i = parent + 1; i < t->count; i++)
        if (t->module[i].parent == parent && strncmp(t->module[i].name, name, n) == 0 && t->module[i].name[n] == '\0')
            return i;
    module *m = &t->module[t->count];
    *m = (module){.parent = parent, .depth = t->module[parent].depth + 1};
    snprintf(m->name, sizeof m->name, "%.*s", (int)n, name);
    if (m->depth > t->deepest) t->deepest = m->depth;
    return t->count++;
}

static void add_to(module *m, const mega_flops_row *row)
{
    m->params += row->params;
    m->flops += row->flops;
    m->seconds += row->seconds;
}

static void tree_add(module_tree *t, const mega_flops_row *row)
{
    int at = 0;
    add_to(&t->module[0], row);
    for (const char *part = row->path; *part != '\0' && t->module[at].depth < DEEPEST;) {
        const size_t n = strcspn(part, ".");
        at = child_of(t, at, part, n < LONGEST_NAME ? n : LONGEST_NAME - 1);
        add_to(&t->module[at], row);
        part += n + (part[n] == '.');
    }
}

/* ---- the summary ---- */

static void line(mega_buffer *out, const char *what, const char *value)
{
    mega_buffer_printf(out, "%-70s  %s\n", what, value);
}

static void line_int(mega_buffer *out, const char *what, int64_t value)
{
    mega_buffer_printf(out, "%-70s  %lld\n", what, (long long)value);
}

static void put_speeds(const mega_flops_report *r, double flops, double recompute, mega_buffer *out)
{
    const double bwd = 2 + recompute, micro = r->forward_s + r->backward_s;
    char text[96], value[32];
    line(out, "fwd latency:", duration(value, r->forward_s));
    line(out,
         "fwd FLOPS per rank = fwd flops per rank / fwd latency:", scaled(value, rate(flops, r->forward_s), "FLOPS"));
    line(out, "bwd latency:", duration(value, r->backward_s));
    snprintf(text, sizeof text, "bwd FLOPS per rank = %g * fwd flops per rank / bwd latency:", bwd);
    line(out, text, scaled(value, rate(bwd * flops, r->backward_s), "FLOPS"));
    snprintf(text, sizeof text, "fwd+bwd FLOPS per rank = %g * fwd flops per rank / (fwd+bwd latency):", bwd + 1);
    line(out, text, scaled(value, rate((bwd + 1) * flops, micro), "FLOPS"));
    line(out, "step latency (norm and update):", duration(value, r->update_s));
    line(out, "iter latency (all micro-batches and the step):", duration(value, r->step_s));
    snprintf(text, sizeof text, "FLOPS per rank = %g * fwd flops per rank * micro-batches / iter latency:", bwd + 1);
    line(out, text, scaled(value, rate((bwd + 1) * flops * r->micro_batches, r->step_s), "FLOPS"));
    mega_buffer_printf(out, "%-70s  %.2f\n", "samples/second:", rate((double)r->samples, r->step_s));
}

static void flops_put_summary(const mega_flops_report *r, const module *model, double recompute, mega_buffer *out)
{
    char value[32];
    mega_buffer_printf(
        out,
        "\n" MEGA_OUTPUT_FLOPS_MARK "%lld:\n"
        "params: parameters; MACs: multiply-accumulate operations of matrix products and attention; flops: "
        "2 a MAC;\nfwd, bwd: forward and backward of one micro-batch on this rank\n\n",
        (long long)r->step);
    line_int(out, "world size:", r->ranks);
    line_int(out, "data parallel size:", r->data_parallel);
    line_int(out, "model parallel size:", r->model_parallel);
    line_int(out, "batch size per rank:", r->micro_batch);
    line(out, "params per rank:", scaled(value, model->params, ""));
    line(out, "params of model:", scaled(value, r->params_of_model, ""));
    line(out, "fwd MACs per rank:", scaled(value, model->flops / 2, "MACs"));
    line(out, "fwd flops per rank:", scaled(value, model->flops, ""));
    line(out, "fwd flops of model = fwd flops per rank * model parallel size:",
         scaled(value, model->flops * (double)r->model_parallel, ""));
    put_speeds(r, model->flops, recompute, out);
}

/* ---- the largest modules of each level ---- */

typedef enum order_by { BY_PARAMS, BY_MACS, BY_SECONDS, ORDERS } order_by;

static double amount(const module *m, order_by by)
{
    return by == BY_PARAMS ? m->params : by == BY_MACS ? m->flops / 2 : m->seconds;
}

/* Modules of one level with one name are one kind, for example all `mlp`; the layers of a list are numbers. */
static void same_kind(char out[LONGEST_NAME], const char *name)
{
    const bool is_number = strspn(name, "0123456789") == strlen(name);
    snprintf(out, LONGEST_NAME, "%s", is_number ? "layer" : name);
}

/* Collects the kinds of a level; returns their number. */
static int level_kinds(const module_tree *t, int depth, module *kind)
{
    int kinds = 0;
    for (int i = 0; i < t->count; i++) {
        const module *m = &t->module[i];
        char name[LONGEST_NAME];
        int k = 0;
        if (m->depth != depth) continue;
        same_kind(name, m->name);
        while (k < kinds && strcmp(kind[k].name, name) != 0) k++;
        if (k == kinds) {
            kind[kinds] = (module){.depth = depth};
            memcpy(kind[kinds++].name, name, sizeof name);
        }
        kind[k].params += m->params;
        kind[k].flops += m->flops;
        kind[k].seconds += m->seconds;
    }
    return kinds;
}

/* Writes the `top` largest kinds and removes them from the order: a selection sort that ends after `top`. */
static void put_largest(module *kind, int kinds, order_by by, int64_t top, mega_buffer *out)
{
    static const char *const title[ORDERS] = {"params     ", "MACs       ", "fwd latency"};
    char value[32];
    mega_buffer_printf(out, "    %s - {", title[by]);
    for (int n = 0; n < kinds && n < top; n++) {
        int best = n;
        for (int k = n + 1; k < kinds; k++)
            if (amount(&kind[k], by) > amount(&kind[best], by)) best = k;
        const module found = kind[best];
        kind[best] = kind[n];
        kind[n] = found;
        mega_buffer_printf(out, "%s'%s': '%s'", n > 0 ? ", " : "", found.name,
                           by == BY_SECONDS ? duration(value, found.seconds)
                                            : scaled(value, amount(&found, by), by == BY_MACS ? "MACs" : ""));
    }
    mega_buffer_puts(out, "}\n");
}

static mega_status put_levels(const module_tree *t, const mega_monitor_options *o, mega_buffer *out)
{
    module *kind = mega_calloc((size_t)t->count, sizeof *kind);
    if (kind == NULL) return MEGA_NO_MEMORY("flops profiler", "its report");
    const bool is_all = o->flops_profiler_depth < 0 || o->flops_profiler_depth > t->deepest;
    mega_buffer_printf(out,
                       "\n----------------------------- Aggregated Profile per rank ---------------------------\n"
                       "Top %lld modules in terms of params, MACs or fwd latency at different model depths:\n",
                       (long long)o->flops_profiler_top);
    for (int depth = 0; depth <= (is_all ? t->deepest : (int)o->flops_profiler_depth); depth++) {
        const int kinds = level_kinds(t, depth, kind);
        mega_buffer_printf(out, "depth %d:\n", depth);
        for (order_by by = BY_PARAMS; by < ORDERS; by++) put_largest(kind, kinds, by, o->flops_profiler_top, out);
    }
    mega_free(kind);
    return MEGA_OK;
}

/* ---- all modules ---- */

static void put_module(const module_tree *t, int at, mega_buffer *out)
{
    const module *m = &t->module[at], *model = &t->module[0];
    char params[32], macs[32], seconds[32], flops[32];
    mega_buffer_printf(out, "%*s(%s): %s = %.2f%% Params, %s = %.2f%% MACs, %s = %.2f%% latency, %s\n", 2 * m->depth,
                       "", m->name, scaled(params, m->params, ""), percent_of(m->params, model->params),
                       scaled(macs, m->flops / 2, "MACs"), percent_of(m->flops, model->flops),
                       duration(seconds, m->seconds), percent_of(m->seconds, model->seconds),
                       scaled(flops, rate(m->flops, m->seconds), "FLOPS"));
}

/* Writes the modules below `at`, each before those below it. */
static void put_below(const module_tree *t, int at, mega_buffer *out)
{
    put_module(t, at, out);
    for (int i = at + 1; i < t->count; i++)
        if (t->module[i].parent == at) put_below(t, i, out);
}

static void put_detail(const module_tree *t, mega_buffer *out)
{
    mega_buffer_puts(out, "\n------------------------------ Detailed Profile per rank ----------------------------\n"
                          "Of each module: params, MACs, fwd latency, each with its share of the model; fwd FLOPS. A "
                          "module also has what\nno module below it has.\n\n");
    put_below(t, 0, out);
}

mega_status mega_flops_report_write(const mega_flops_report *r, const mega_monitor_options *o, mega_buffer *out)
{
    module_tree t = {0};
    MEGA_TRY(make_tree(r, &t));
    for (int i = 0; i < r->rows; i++) tree_add(&t, &r->row[i]);
    flops_put_summary(r, &t.module[0], o->flops_profiler_recompute, out);
    const mega_status st = put_levels(&t, o, out);
    if (o->flops_profiler_detail) put_detail(&t, out);
    mega_buffer_puts(out, "------------------------------------------------------------------------------\n");
    mega_free(t.module);
    MEGA_TRY(st);
    return mega_buffer_check(out, "the report of the flops profiler");
}
