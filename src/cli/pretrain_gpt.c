/* megalith pretrain_gpt: parse, train, print. */
#include "cli.h"
#include "commands.h"
#include "megalith/log.h"
#include "megalith/threads.h"
#include "megalith/train.h"
#include "plan.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The signal that asked to save and leave. A handler can reach nothing but a global. */
static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

/* The first signal asks; SA_RESETHAND lets a second one end the program at once. */
static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

typedef struct screen {
    int columns;
    bool drawn;
    double last; /* seconds */
} screen;

static void clear_status(screen *s)
{
    if (s->drawn) fputs("\r\033[K", stdout);
    s->drawn = false;
}

static void print_line(void *user, const char *line)
{
    clear_status(user);
    fputs(line, stdout);
    fputc('\n', stdout);
    fflush(stdout);
}

static void draw_status(void *user, const char *line)
{
    screen *s = user;
    const double now = mega_time_now();
    if (line[0] != '\0' && now - s->last < 0.1) return;
    clear_status(s);
    if (line[0] != '\0') {
        printf("%.*s", s->columns > 1 ? s->columns - 1 : 79, line);
        s->drawn = true;
        s->last = now;
    }
    fflush(stdout);
}

static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static mega_status train(mega_config *cfg)
{
    const bool is_terminal = mega_cli_is_terminal(stdout);
    screen s = {.columns = is_terminal ? terminal_columns() : 0};
    const mega_train_io io = {.line = print_line,
                              .status = is_terminal ? draw_status : NULL,
                              .user = &s,
                              .columns = s.columns,
                              .utf8 = mega_cli_speaks_utf8(),
                              .stop = &stop_signal};
    mega_team *team = NULL;
    watch_signals();
    MEGA_TRY(mega_team_create(&team, (int)cfg->num_threads));
    const mega_status st = mega_train(cfg, team, &io);
    mega_team_destroy(team);
    return st;
}

int mega_command_pretrain_gpt(int argc, char **argv)
{
    mega_config cfg;
    int exit_status;
    if (!mega_cli_parse(&cfg, "pretrain_gpt", argc, argv, &exit_status)) return exit_status;
    const mega_status st = cfg.dry_run ? mega_cli_plan(&cfg) : train(&cfg);
    exit_status = st == MEGA_OK ? 0 : mega_cli_fail("pretrain_gpt", st);
    mega_config_fini(&cfg);
    return exit_status;
}
