/* The page of megalith report: head, style, and its sections in order. */
#include "megalith/output.h"
#include "plot_impl.h"
#include "report_impl.h"

/* The charts have classes of one letter (plot_svg.c); those of the page are longer. */
static const char style[] =
    "body{font:15px/1.5 system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif;color:#0f172a;background:#f8fafc;"
    "margin:0 auto;max-width:1500px;padding:24px}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:0 0 12px}\n"
    "section{background:#fff;border:1px solid #e2e8f0;border-radius:8px;padding:20px;margin:20px 0;overflow-x:auto}\n"
    "#curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));gap:12px}\n"
    "#curves h2{grid-column:1/-1}figure{margin:0}figure svg{max-width:100%;height:auto}\n"
    "figcaption,small,.note{color:#64748b;font-size:13px}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:left;padding:3px 18px 3px 0;border-bottom:1px solid #e2e8f0;vertical-align:top;font-weight:400}\n"
    "tr:first-child th{font-weight:600}tr th:first-child{color:#475569}.differs{background:#fef9c3}\n"
    ".key{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}\n"
    ".bars{margin-top:14px;max-width:100%;height:auto}.wide{overflow-x:auto}summary{cursor:pointer}\n";

static void report_put_head(const mega_report_run *run, int count, mega_buffer *out)
{
    mega_buffer_puts(out,
                     "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" MEGA_OUTPUT_REPORT_MARK
                     "\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    for (int i = 0; i < count; i++) {
        mega_buffer_puts(out, i > 0 ? ", " : "");
        mega_svg_put_text(out, run[i].label);
    }
    mega_buffer_printf(out, " – megalith report</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    mega_buffer_puts(out, count == 1 ? "Training " : "Trainings ");
    for (int i = 0; i < count; i++) {
        mega_buffer_puts(out, i > 0 ? ", " : "");
        mega_svg_put_text(out, run[i].label);
    }
    mega_buffer_puts(out, "</h1>\n");
}

mega_status mega_report_write(const mega_report_run *run, int count, mega_buffer *out)
{
    bool is_described = false;
    for (int i = 0; i < count; i++) is_described |= run[i].about != NULL;
    report_put_head(run, count, out);
    report_put_summary(run, count, out);
    MEGA_TRY(report_put_charts(run, count, out));
    if (is_described) {
        report_put_layout(run, count, out);
        report_put_memory(run, count, out);
        report_put_schedule(run, count, out);
        report_put_machine(run, count, out);
        report_put_options(run, count, out);
    }
    mega_buffer_puts(out, "</body>\n</html>\n");
    return mega_buffer_check(out, "the report");
}
