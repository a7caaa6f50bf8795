/* megalith pretrain_gpt, pretrain_bert, pretrain_t5 and run_clm: parse the options, train, print. */
#include "cli.h"
#include "commands.h"
#include "megalith/launch.h"
#include "megalith/log.h"
#include "megalith/signals.h"
#include "megalith/threads.h"
#include "megalith/train.h"
#include "plan.h"
#include "train_text.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NOTHING_YET "no step has begun, so the run leaves and saves nothing"

typedef struct screen {
    const mega_command_options *cfg;
    const mega_world *world;
    int columns;
    bool drawn;
    bool is_sent; /* to launch, whose terminal it is */
    double last;  /* seconds */
} screen;

static void clear_status(screen *s)
{
    if (s->drawn && !s->is_sent) fputs("\r\033[K", stdout);
    s->drawn = false;
}

static void pretrain_print_line(void *user, const char *line)
{
    clear_status(user);
    fputs(line, stdout);
    fputc('\n', stdout);
    fflush(stdout);
}

/* Returns how many bytes of a line of UTF-8 fill at most that many columns, one for each character. */
static int pretrain_bytes(const char *line, int columns)
{
    int n = 0;
    for (; line[n] != '\0'; n++)
        if (((unsigned char)line[n] & 0xC0) != 0x80 && columns-- == 0) break;
    return n;
}

static void pretrain_draw_status(void *user, const char *line)
{
    screen *s = user;
    const double now = mega_time_now();
    if (line[0] != '\0' && now - s->last < 0.1) return;
    char mark[3] = "";
    const bool was_drawn = s->drawn;
    clear_status(s);
    if (s->is_sent) mega_launch_rank_mark(mark, MEGA_MARK_STATUS);
    if (s->is_sent && (line[0] != '\0' || was_drawn))
        printf("%s%.*s\n", mark, pretrain_bytes(line, s->columns > 1 ? s->columns - 1 : 79), line);
    if (line[0] != '\0') {
        if (!s->is_sent) printf("%.*s", pretrain_bytes(line, s->columns > 1 ? s->columns - 1 : 79), line);
        s->drawn = true;
        s->last = now;
    }
    fflush(stdout);
}

static void say_began(void *user)
{
    const screen *s = user;
    mega_signals_promise(s->cfg->train.skip_train ? "the run leaves after the instruction under way"
                         : s->cfg->train.save != NULL
                             ? "the run saves and leaves after the step under way; an evaluation is left at once"
                             : "the run leaves after the step under way; without --save nothing is kept");
    if (mega_world_rank(s->world) == 0) mega_launch_rank_say(MEGA_MARK_TRAINING);
}

static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

mega_status mega_cli_train(mega_command_options *cfg, mega_world *world)
{
    /* A launcher gives each rank its own terminal, even if the launcher's output goes elsewhere. */
    const bool alone = mega_world_size(world) == 1 && mega_launch_rank_number() < 0;
    const bool is_silent = cfg->log_level == MEGA_LOG_ERROR;
    const int sent = mega_world_rank(world) == 0 && !is_silent ? mega_launch_columns() : 0;
    const bool is_terminal = sent > 0 || (alone && !is_silent && mega_cli_is_terminal(stdout));
    screen s = {.cfg = cfg,
                .world = world,
                .columns = sent > 0      ? sent
                           : is_terminal ? terminal_columns()
                                         : 0,
                .is_sent = sent > 0};
    const mega_train_io io = {.line = pretrain_print_line,
                              .status = is_terminal ? pretrain_draw_status : NULL,
                              .began = say_began,
                              .user = &s,
                              .columns = s.columns,
                              .utf8 = mega_cli_speaks_utf8(),
                              .stop = mega_signals_stop(),
                              .stop_line = mega_signals_line,
                              .world = world,
                              .is_silent = is_silent,
                              .is_brief = cfg->log_level == MEGA_LOG_WARN,
                              .is_detailed = cfg->train.print_options || cfg->log_level >= MEGA_LOG_DEBUG};
    mega_team *team = NULL;
    MEGA_TRY(mega_cli_team(cfg, &team));
    const mega_status st = mega_train(&cfg->train, team, &io);
    mega_team_destroy(team);
    return st;
}

static int pretrain_run(mega_world *world, const char *command, int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_read_on(world, &cfg, command, argc, argv, &exit_status)) return exit_status;
    mega_cli_watch(world, &cfg);
    mega_status st = cfg.train.dry_run ? MEGA_OK : cli_train_text_make(&cfg, world);
    if (!cfg.train.dry_run) mega_launch_rank_begin(world, cfg.train.engine.backend.num_threads);
    if (st == MEGA_OK) st = cfg.train.dry_run ? mega_cli_plan(&cfg, world) : mega_cli_train(&cfg, world);
    /* the train room names options as pretrain_gpt does */
    if (strcmp(command, "run_clm") == 0) st = mega_options_name_as_given(cfg.train.engine.options, st);
    exit_status = st == MEGA_OK ? 0 : mega_cli_fail_on(world, command, st);
    mega_command_options_fini(&cfg);
    return exit_status;
}

static int pretrain_command(const char *command, int argc, char **argv)
{
    mega_world *world = NULL;
    /* Watch signals from here on: if a signal killed a rank before it has joined the others, they and some launchers
     * would wait forever. */
    mega_signals_watch(command, mega_launch_rank_number(), NOTHING_YET);
    const mega_status st = mega_world_create(NULL, &world);
    if (st != MEGA_OK) return mega_cli_fail(command, st);
    /* again: the MPI library may have replaced the handlers */
    mega_signals_watch(command, mega_launch_rank_number(), NOTHING_YET);
    if (mega_world_rank(world) == 0) mega_launch_rank_say(MEGA_MARK_READY);
    const int exit_status = pretrain_run(world, command, argc, argv);
    mega_world_destroy(world);
    return exit_status;
}

int mega_command_pretrain_gpt(int argc, char **argv)
{
    return pretrain_command("pretrain_gpt", argc, argv);
}

int mega_command_run_clm(int argc, char **argv)
{
    return pretrain_command("run_clm", argc, argv);
}

int mega_command_pretrain_bert(int argc, char **argv)
{
    return pretrain_command("pretrain_bert", argc, argv);
}

int mega_command_pretrain_t5(int argc, char **argv)
{
    return pretrain_command("pretrain_t5", argc, argv);
}
