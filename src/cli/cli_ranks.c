/* Runs commands on several ranks: prints each message once, and makes sure that no rank waits for one that failed. */
#include "cli.h"
#include "megalith/launch.h"
#include "megalith/pretrained.h"
#include "megalith/signals.h"
#include "megalith/streams.h"
#include <stdlib.h>
#include <string.h>

int mega_cli_fail_on(mega_world *world, const char *command, mega_status st)
{
    if (mega_world_size(world) == 1) return mega_cli_fail(command, st);
    const int exit_status = mega_cli_exit_status(st);
    if (mega_world_failed(world)) {
        if (mega_world_rank(world) == 0) mega_cli_fail(command, st);
        return exit_status;
    }
    if (strncmp(mega_error_message(), "rank ", 5) != 0) mega_error_prepend("rank %d", mega_world_rank(world));
    mega_cli_fail_marked(command, st, mega_world_lost_host(world) ? MEGA_MARK_LOST : MEGA_MARK_FAILED);
    mega_launch_rank_say(MEGA_MARK_ABORTS);
    mega_world_abort(world, exit_status);
    return exit_status;
}

/* Prints a warning from the first rank that notices a stall. Ranks other than 0 print nothing else, except the error
 * that ends them. What a signal is promised needs the rank that is waited for, until the wait is over. */
static void tell_stall(void *user, bool is_over, const char *text)
{
    (void)user;
    mega_signals_hold(is_over ? NULL
                              : "a rank is waited for, as reported: unless it goes on, the run cannot save or leave; "
                                "a second SIGTERM or Ctrl-C ends it");
    if (text == NULL) return;
    fflush(stdout);
    fprintf(stderr, "warning: no progress: %s\n", text);
}

void mega_cli_watch(mega_world *world, const mega_command_options *cfg)
{
    mega_world_set_timeout(world, 60.0 * cfg->train.engine.comm.distributed_timeout_minutes);
    mega_world_set_stall_report(world, tell_stall, NULL);
}

mega_status mega_cli_agree(mega_world *world, mega_status st)
{
    return world == NULL ? st : mega_comm_agree(mega_world_comm(world), st);
}

/* Discards the output of ranks other than the first, because every rank would print the same. */
static mega_status silence(const mega_world *world)
{
    if (mega_world_rank(world) == 0 || mega_streams_silence()) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_IO, "/dev/null: cannot be opened (%m); ranks but the first print there");
}

bool mega_cli_is_other_rank(void)
{
    int rank;
    mega_launched_ranks(&rank);
    return rank > 0;
}

/* Parses the options. If there are mistakes, also checks --load, so that its errors are reported with them: the
 * command itself will not open it. */
static bool parse(mega_world *world, mega_command_options *cfg, const char *command, int argc, char **argv,
                  int *exit_status)
{
    if (!mega_cli_read_on(world, cfg, command, argc, argv, exit_status)) return false;
    if (mega_train_classifies(&cfg->train)) return true; /* mega_train lists mistakes together with its own */
    const bool is_looked_for = cfg->train.engine.rank == 0 && cfg->train.load != NULL &&
                               !mega_options_is_faulty(cfg->train.engine.options, MEGA_TOPIC_READ);
    if (is_looked_for && mega_options_report(cfg->train.engine.options) != MEGA_OK)
        mega_options_add_mistake(cfg->train.engine.options, mega_pretrained_check(cfg->train.load));
    const mega_status st = mega_cli_agree(world, mega_options_report(cfg->train.engine.options));
    return st == MEGA_OK || mega_cli_give_up(cfg, command, st, exit_status);
}

int mega_cli_on_ranks(const char *command, const char *on_signal, int argc, char **argv, mega_cli_run *run)
{
    mega_world *world = NULL;
    mega_command_options cfg;
    int exit_status = 0;
    mega_signals_watch(command, mega_launch_rank_number(), on_signal);
    mega_status st = mega_world_create(NULL, &world);
    if (st != MEGA_OK) return mega_cli_fail(command, st);
    /* again: the MPI library may have replaced the handlers */
    mega_signals_watch(command, mega_launch_rank_number(), on_signal);
    if (mega_world_rank(world) == 0) mega_launch_rank_say(MEGA_MARK_READY);
    if (parse(world, &cfg, command, argc, argv, &exit_status)) {
        mega_cli_watch(world, &cfg);
        mega_launch_rank_begin(world, cfg.train.engine.backend.num_threads);
        st = silence(world);
        if (st == MEGA_OK) st = run(world, &cfg);
        exit_status = st == MEGA_OK ? 0 : mega_cli_fail_on(world, command, st);
        mega_command_options_fini(&cfg);
    }
    mega_world_destroy(world);
    return exit_status;
}
