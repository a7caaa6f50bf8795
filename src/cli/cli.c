/* Helper functions of the commands: options, errors, the log sink. */
#include "cli.h"
#include "megalith/assert.h"
#include "megalith/cuda.h"
#include "megalith/launch.h"
#include "megalith/log.h"
#include "megalith/signals.h"
#include "megalith/threads.h"
#include "options_impl.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Settings of the log sink. This is the only global state that outlives a call; the main thread sets it before any
 * other thread starts. */
static struct {
    bool info_to_output;
    mega_log_level most;
    bool holds;       /* the options are being read, and --log-level may follow */
    mega_buffer held; /* lines, each after the digit of its level, until it is known */
} sink = {.most = MEGA_LOG_INFO};

static void cli_print_line(void *user, mega_log_level level, const char *line)
{
    (void)user;
    if (level > sink.most && !sink.holds) return;
    if (sink.holds && mega_buffer_printf(&sink.held, "%c%s%c", '0' + (int)level, line, '\0')) return;
    FILE *stream = level >= MEGA_LOG_INFO && sink.info_to_output ? stdout : stderr;
    const char *prefix = level == MEGA_LOG_ERROR ? "error: " : level == MEGA_LOG_WARN ? "warning: " : "";
    if (stream == stderr) fflush(stdout); /* keep the order if both streams go to one file */
    fprintf(stream, "%s%s\n", prefix, line);
    fflush(stream);
}

/* Prints what was held back, as far as --log-level asks for it. */
static void stop_holding(void)
{
    sink.holds = false;
    for (size_t at = 0; at < sink.held.size; at += strlen(sink.held.data + at) + 1)
        cli_print_line(NULL, (mega_log_level)(sink.held.data[at] - '0'), sink.held.data + at + 1);
    mega_buffer_fini(&sink.held);
}

void mega_cli_log_to(bool standard_output)
{
    sink.info_to_output = standard_output;
    mega_log_set_sink(cli_print_line, NULL);
}

bool mega_cli_speaks_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"}; /* the first one that is set decides */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL || value[0] == '\0') continue;
        return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
    }
    return false;
}

bool mega_cli_is_terminal(FILE *stream)
{
    return isatty(stream == stderr ? STDERR_FILENO : STDOUT_FILENO) == 1; /* a guarded stream has no descriptor */
}

int mega_cli_fail(const char *command, mega_status st)
{
    return mega_cli_fail_marked(command, st, MEGA_MARK_FAILED);
}

int mega_cli_fail_marked(const char *command, mega_status st, int mark)
{
    char text[3];
    fflush(stdout);
    const bool is_stopped = st == MEGA_ERR_INTERRUPTED;
    /* a launcher may now send a signal to end all ranks: this error has already explained the end */
    if (!is_stopped) mega_signals_promise(NULL);
    mega_launch_rank_mark(text, is_stopped ? MEGA_MARK_STOPPED : mark);
    fprintf(stderr, "megalith %s: %s%s%s\n", command, is_stopped ? "" : "error: ", text, mega_error_message());
    if (mega_check_level() > 0) fprintf(stderr, "(at %s)\n", mega_error_where());
    return mega_cli_exit_status(st);
}

int mega_cli_exit_status(mega_status st)
{
    switch (st) {
    case MEGA_OK: return 0;
    case MEGA_ERR_USAGE: return 2;
    case MEGA_ERR_INTERRUPTED: return mega_signals_exit_status();
    default: return 1;
    }
}

void mega_cli_dry_run(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("dry run: the options are in order; ", stdout);
    vprintf(fmt, args);
    fputc('\n', stdout);
    va_end(args);
}

/* Says how the ranks of this host take its GPUs. */
static const char *gpus_of_ranks(const mega_command_options *cfg, char out[96])
{
    const long long ranks = cfg->train.engine.local_world_size;
    const int gpus = cfg->train.engine.gpus.gpus;
    out[0] = '\0';
    if (ranks == 1 || gpus == 0) return out;
    if (ranks == gpus) snprintf(out, 96, "; the %lld ranks of a host have a GPU each", ranks);
    else if (gpus == 1)
        snprintf(out, 96, "; the %lld ranks of a host share it", ranks);
    else
        snprintf(out, 96, "; the %lld ranks of a host share its %d GPUs", ranks, gpus);
    return out;
}

/* Shows which GPU computes, or why none does where one may. */
static void show_device(const mega_command_options *cfg)
{
    const mega_backend_options *b = &cfg->train.engine.backend;
    const char *missing = cfg->train.engine.gpus.missing;
    char text[MEGA_CUDA_TEXT], ranks[96];
    const bool may = b->device != NULL && strcmp(b->device, "auto") == 0 && missing[0] != '\0';
    if ((b->backend != MEGA_BACKEND_CUDA && !may) || mega_gpu_model_named(b->device) != NULL) return;
    if (b->backend == MEGA_BACKEND_CUDA && mega_cuda_describe(b->gpu, text) != MEGA_OK)
        snprintf(text, sizeof text, "%.150s", mega_error_message());
    if (b->backend == MEGA_BACKEND_CUDA)
        mega_info("computing on cuda:%lld: %s%s", (long long)b->gpu, text, gpus_of_ranks(cfg, ranks));
    else
        mega_info("computing on the CPU: %s", missing);
}

/* Shows the number of threads, and where it comes from. */
static void show_threads(const mega_command_options *cfg)
{
    if ((mega_options_command_bit(cfg->train.engine.options) & FOR_COMPUTING) == 0) return;
    show_device(cfg);
    const int cores = mega_cpu_count();
    const bool given = mega_options_was_set(cfg->train.engine.options, "num_threads");
    const bool environment = !given && mega_threads_from_environment() > 0;
    mega_info("using %lld thread%s%s (%s; %d core%s may be used)", (long long)cfg->train.engine.backend.num_threads,
              cfg->train.engine.backend.num_threads == 1 ? "" : "s", cfg->train.engine.world_size > 1 ? " a rank" : "",
              given                              ? "--num-threads"
              : environment                      ? "OMP_NUM_THREADS"
              : cfg->train.engine.world_size > 1 ? "ranks of this host share its cores"
                                                 : "one for each core",
              cores, cores == 1 ? "" : "s");
}

bool mega_cli_give_up(mega_command_options *cfg, const char *command, mega_status st, int *exit_status)
{
    *exit_status = cfg->train.engine.rank == 0 ? mega_cli_fail(command, st) : mega_cli_exit_status(st);
    mega_command_options_fini(cfg);
    return false;
}

bool mega_cli_read_on(mega_world *world, mega_command_options *cfg, const char *command, int argc, char **argv,
                      int *exit_status)
{
    const bool is_first = mega_world_rank(world) == 0;
    mega_status st = mega_command_options_init(cfg);
    cfg->train.engine.rank = mega_world_rank(world);
    cfg->train.engine.world_size = mega_world_size(world);
    cfg->train.engine.local_world_size = mega_world_local_size(world);
    cfg->train.engine.local_rank = mega_world_local_rank(world);
    if (!is_first) sink.most = MEGA_LOG_ERROR; /* every rank reads the same options and would print the same */
    sink.holds = is_first;
    if (st == MEGA_OK) st = mega_options_read(cfg->train.engine.options, command, argc, argv);
    if (is_first && st == MEGA_OK) sink.most = cfg->log_level;
    stop_holding();
    st = mega_cli_agree(world, st);
    if (st == MEGA_OK) st = mega_engine_agree_device(&cfg->train.engine, world);
    if (st != MEGA_OK) return mega_cli_give_up(cfg, command, st, exit_status);
    if (!mega_options_is_faulty(cfg->train.engine.options, MEGA_TOPIC_OPTIONS)) show_threads(cfg);
    return true;
}

bool mega_cli_is_in_order(const char *command, int ranks, int argc, char **argv, int *exit_status)
{
    mega_command_options cfg;
    const mega_log_level most = sink.most;
    mega_status st = mega_command_options_init(&cfg);
    cfg.train.engine.world_size = cfg.train.engine.local_world_size = ranks;
    sink.most = MEGA_LOG_ERROR; /* the ranks will say the rest */
    if (st == MEGA_OK) st = mega_options_read(cfg.train.engine.options, command, argc, argv);
    if (st == MEGA_OK) st = mega_options_report(cfg.train.engine.options);
    sink.most = most;
    if (st != MEGA_OK) return mega_cli_give_up(&cfg, command, st, exit_status);
    mega_command_options_fini(&cfg);
    return true;
}

mega_status mega_cli_team(const mega_command_options *cfg, mega_team **out)
{
    return mega_team_create(mega_options_is_faulty(cfg->train.engine.options, MEGA_TOPIC_OPTIONS)
                                ? 1
                                : (int)cfg->train.engine.backend.num_threads,
                            out);
}

bool mega_cli_parse_checked(mega_command_options *cfg, const char *command, int argc, char **argv,
                            mega_cli_check *check, int *exit_status)
{
    if (!mega_cli_read_on(NULL, cfg, command, argc, argv, exit_status)) return false;
    if (check != NULL) check(cfg);
    const mega_status st = mega_options_report(cfg->train.engine.options);
    return st == MEGA_OK || mega_cli_give_up(cfg, command, st, exit_status);
}

bool mega_cli_parse(mega_command_options *cfg, const char *command, int argc, char **argv, int *exit_status)
{
    return mega_cli_parse_checked(cfg, command, argc, argv, NULL, exit_status);
}
