/* megalith report: writes one HTML page about one training or several, side by side. */
#include "megalith/report.h"
#include "cli.h"
#include "commands.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include <string.h>

typedef struct report {
    mega_report_run *run;
    int count;
} report;

static bool has_same_base(const mega_list *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(mega_path_base(sources->item[i]), mega_path_base(sources->item[k])) == 0) return true;
    return false;
}

/* Reads every run. Errors are reported for all of them together. */
static mega_status read_runs(report *r, const mega_command_options *cfg)
{
    const mega_list *sources = mega_options_positional(cfg->train.engine.options);
    const bool by_path = has_same_base(sources);
    mega_buffer wrong = {0};
    mega_status first = MEGA_OK;
    r->run = mega_calloc(sources->count, sizeof *r->run);
    if (r->run == NULL) return MEGA_NO_MEMORY("report", "the runs");
    for (size_t i = 0; i < sources->count; i++) {
        const char *source = sources->item[i], *label = by_path ? source : mega_path_base(source);
        const mega_status st = mega_report_read(&r->run[r->count], source, label, cfg->report.run);
        if (st == MEGA_OK) {
            r->count++;
            continue;
        }
        mega_buffer_printf(&wrong, "%s%s", wrong.size > 0 ? "\n  " : "", mega_error_message());
        first = first == MEGA_OK ? st : first;
    }
    if (first != MEGA_OK && !wrong.failed) first = MEGA_FAIL(first, "%s", wrong.data);
    mega_buffer_fini(&wrong);
    return first;
}

static void report_fini(report *r)
{
    for (int i = 0; i < r->count; i++) mega_report_run_fini(&r->run[i]);
    mega_free(r->run);
}

static mega_status run(const mega_command_options *cfg)
{
    report r = {0};
    mega_buffer page = {0};
    mega_status st = read_runs(&r, cfg);
    if (st == MEGA_OK) st = mega_report_write(r.run, r.count, &page);
    if (st == MEGA_OK && cfg->train.dry_run)
        mega_cli_dry_run("a page about %d run%s would be written to %s", r.count, r.count == 1 ? "" : "s",
                         cfg->report.output);
    else if (st == MEGA_OK)
        st = mega_file_write_atomic(cfg->report.output, page.data, page.size);
    if (st == MEGA_OK && !cfg->train.dry_run) printf("wrote %s; open it in a browser\n", cfg->report.output);
    mega_buffer_fini(&page);
    report_fini(&r);
    return st;
}

/* If there are other mistakes, also reads the runs to report errors in them. */
static void read_runs_for_mistakes(mega_command_options *cfg)
{
    report r = {0};
    if (mega_options_report(cfg->train.engine.options) != MEGA_OK &&
        mega_options_positional(cfg->train.engine.options)->count > 0)
        mega_options_add_mistake(cfg->train.engine.options, read_runs(&r, cfg));
    report_fini(&r);
}

/* -o is the only short option: the parser knows words that begin with two dashes. */
static int parse_and_run(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse_checked(&cfg, "report", argc, argv, read_runs_for_mistakes, &exit_status)) return exit_status;
    const mega_status st = run(&cfg);
    mega_command_options_fini(&cfg);
    return st == MEGA_OK ? 0 : mega_cli_fail("report", st);
}

int mega_command_report(int argc, char **argv)
{
    char output[] = "--output";
    char **words = mega_calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL) return mega_cli_fail("report", MEGA_NO_MEMORY("report", "its options"));
    for (int i = 0; i < argc; i++) words[i] = strcmp(argv[i], "-o") == 0 ? output : argv[i];
    const int exit_status = parse_and_run(argc, words);
    mega_free(words);
    return exit_status;
}
