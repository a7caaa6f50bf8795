/* The configuration on the page: every option with its value in each run and who set it. */
#include "plot_impl.h"
#include "report_impl.h"
#include <string.h>

static const json_t *report_options(const mega_report_run *run)
{
    return json_object_get(run->about, "options");
}

static const char *report_option_text(const json_t *option, const char *key)
{
    const char *text = json_string_value(json_object_get(option, key));
    return text != NULL ? text : "";
}

static const json_t *find_option(const mega_report_run *run, const char *name)
{
    const json_t *all = report_options(run);
    for (size_t i = 0; i < json_array_size(all); i++)
        if (strcmp(report_option_text(json_array_get(all, i), "option"), name) == 0) return json_array_get(all, i);
    return NULL;
}

static bool report_is_default(const mega_report_run *run, int count, const char *name)
{
    for (int k = 0; k < count; k++) {
        const json_t *option = find_option(&run[k], name);
        if (option != NULL && strcmp(report_option_text(option, "set_by"), "default") != 0) return false;
    }
    return true;
}

static bool differs(const mega_report_run *run, int count, const char *name)
{
    const char *first = NULL;
    for (int k = 0; k < count; k++) {
        if (run[k].about == NULL) continue;
        const json_t *option = find_option(&run[k], name);
        const char *value = option != NULL ? report_option_text(option, "value") : "";
        if (first != NULL && strcmp(first, value) != 0) return true;
        first = value;
    }
    return false;
}

static void report_put_option(const mega_report_run *run, int count, const char *name, mega_buffer *out)
{
    mega_buffer_printf(out, "<tr%s><th>", differs(run, count, name) ? " class=\"differs\"" : "");
    mega_svg_put_text(out, name);
    mega_buffer_puts(out, "</th>");
    for (int k = 0; k < count; k++) {
        const json_t *option = find_option(&run[k], name);
        mega_buffer_puts(out, "<td title=\"");
        mega_svg_put_text(out, report_option_text(option, "origin"));
        mega_buffer_puts(out, "\">");
        mega_svg_put_text(out, report_option_text(option, "value"));
        mega_buffer_puts(out, " <small>");
        mega_svg_put_text(out, report_option_text(option, "set_by"));
        mega_buffer_puts(out, "</small></td>");
    }
    mega_buffer_puts(out, "</tr>\n");
}

/* Returns whether a run further left has this option too. */
static bool is_shown(const mega_report_run *run, int before, const char *name)
{
    for (int k = 0; k < before; k++)
        if (find_option(&run[k], name) != NULL) return true;
    return false;
}

static void report_put_rows(const mega_report_run *run, int count, bool defaults, mega_buffer *out)
{
    mega_buffer_puts(out, "<table>\n<tr><th></th>");
    for (int k = 0; k < count; k++) {
        mega_buffer_puts(out, "<th>");
        mega_svg_put_text(out, run[k].label);
        mega_buffer_puts(out, "</th>");
    }
    mega_buffer_puts(out, "</tr>\n");
    for (int k = 0; k < count; k++) {
        const json_t *all = report_options(&run[k]);
        for (size_t i = 0; i < json_array_size(all); i++) {
            const char *name = report_option_text(json_array_get(all, i), "option");
            if (report_is_default(run, count, name) == defaults && !is_shown(run, k, name))
                report_put_option(run, count, name, out);
        }
    }
    mega_buffer_puts(out, "</table>\n");
}

void report_put_options(const mega_report_run *run, int count, mega_buffer *out)
{
    mega_buffer_puts(out,
                     "<section id=\"configuration\">\n<h2>Configuration</h2>\n<p>Each value is followed by who set "
                     "it; rows that differ between runs are marked.</p>\n");
    report_put_rows(run, count, false, out);
    mega_buffer_puts(out, "<details>\n<summary>Options at their defaults</summary>\n");
    report_put_rows(run, count, true, out);
    mega_buffer_puts(out, "</details>\n</section>\n");
}
