/* Usage: ranks_mistakes FILE ARGUMENT…. Runs, for each mistake in FILE (mistakes.txt), the training and its --dry-run
 * on the ranks that a launcher has started. Both must fail with the same message on every rank, and nothing may be
 * written. ARGUMENT…: options of a run without mistakes, which would write into the folder "made". */
#include "megalith/command_options.h"
#include "megalith/file.h"
#include "megalith/train.h"

#include <stdio.h>
#include <string.h>

enum { MOST_WORDS = 128 };

typedef struct mistake {
    char *name, *arguments, *parts;
} mistake;

static void no_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

static void no_log(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

/* Splits a row into its three parts, separated by " :: ". */
static bool split_row(char *line, mistake *out)
{
    out->name = line;
    out->arguments = strstr(line, " :: ");
    out->parts = out->arguments != NULL ? strstr(out->arguments + 4, " :: ") : NULL;
    if (out->parts == NULL) return false;
    *out->arguments = *out->parts = '\0';
    out->arguments += 4;
    out->parts += 4;
    return true;
}

static mega_status attempt(mega_world *world, int argc, char **argv, mega_error_record *error)
{
    const mega_train_io io = {.line = no_line, .world = world};
    mega_command_options cfg;
    mega_team *team = NULL;
    mega_buffer plan = {0};
    mega_status st = mega_command_options_init(&cfg);
    cfg.train.engine.rank = mega_world_rank(world);
    cfg.train.engine.world_size = mega_world_size(world);
    cfg.train.engine.local_world_size = mega_world_local_size(world);
    if (st == MEGA_OK) st = mega_options_read(cfg.train.engine.options, "pretrain_gpt", argc, argv);
    if (st == MEGA_OK) st = mega_team_create(1, &team);
    if (st == MEGA_OK)
        st = cfg.train.dry_run ? mega_train_plan(&cfg.train, team, world, &plan) : mega_train(&cfg.train, team, &io);
    mega_error_get(error);
    mega_world_forget_failure(world);
    mega_team_destroy(team);
    mega_buffer_fini(&plan);
    mega_command_options_fini(&cfg);
    return st;
}

static int look(const mistake *m, const char *which, mega_status st, const mega_error_record *error)
{
    int failures = 0;
    if (st == MEGA_OK) return printf("FAILED %s, %s: it was not refused\n", m->name, which) > 0;
    char parts[1024];
    snprintf(parts, sizeof parts, "%s", m->parts);
    for (char *rest = parts, *part; (part = strsep(&rest, "|")) != NULL;) {
        if (strstr(error->text, part) != NULL) continue;
        failures += printf("FAILED %s, %s: \"%s\" is not in: %s\n", m->name, which, part, error->text) > 0;
    }
    if (mega_folder_exists("made")) failures += printf("FAILED %s, %s: something was written\n", m->name, which) > 0;
    return failures;
}

/* Leaves out the amounts of memory, of which a part is measured: the code of a process that has run before is more. */
static void leave_out_amounts(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        const size_t digits = strspn(from, "0123456789.");
        const char *unit = from + digits;
        const bool is_amount = digits > 0 && unit[0] == ' ' && unit[1] != '\0' && unit[2] == 'B';
        if (is_amount) from = unit;
        else if (*from == ' ' && to > text && to[-1] == ' ') /* columns are as wide as their numbers */
            from++;
        else
            *to++ = *from++;
    }
    *to = '\0';
}

static int try_both(mega_world *world, const mistake *m, int argc, char **base)
{
    static char dry_run[] = "--dry-run";
    char *argv[MOST_WORDS];
    mega_error_record run, dry;
    int n = 0, failures;
    for (; n < argc; n++) argv[n] = base[n];
    for (char *rest = m->arguments, *word; n < MOST_WORDS - 1 && (word = strsep(&rest, " ")) != NULL;) argv[n++] = word;
    failures = look(m, "the run", attempt(world, n, argv, &run), &run);
    argv[n++] = dry_run;
    failures += look(m, "--dry-run", attempt(world, n, argv, &dry), &dry);
    leave_out_amounts(run.text);
    leave_out_amounts(dry.text);
    if (failures == 0 && strcmp(run.text, dry.text) != 0)
        failures += printf("FAILED %s: the run says: %s\nand --dry-run: %s\n", m->name, run.text, dry.text) > 0;
    return failures;
}

int main(int argc, char **argv)
{
    mega_world *world = NULL;
    char line[1024];
    int failures = 0, rows = 0;
    if (argc < 3 || mega_world_create(NULL, &world) != MEGA_OK) return 2;
    FILE *file = fopen(argv[1], "r");
    if (file == NULL) return 2;
    mega_log_set_sink(no_log, NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        mistake m;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#') continue;
        if (!split_row(line, &m)) return fprintf(stderr, "%s: no row: %s\n", argv[1], line), 2;
        failures += try_both(world, &m, argc - 1, argv + 1);
        rows++;
    }
    fclose(file);
    if (mega_world_rank(world) == 0) printf("%d mistakes on %d ranks\n", rows, mega_world_size(world));
    mega_world_destroy(world);
    return failures == 0 && rows > 0 ? 0 : 1;
}
