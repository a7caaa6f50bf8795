/* megalith launch: starts several ranks of a command or of a user's own program with the installed MPI launcher, and
 * restarts them after a failure if asked to. */
#include "launch_impl.h"
#include "megalith/file.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

void launch_mistake(launch_plan *p, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mega_buffer_printf(&p->mistakes, "megalith launch: error: %s\n", text);
}

/* ---- showing the command ---- */

static void print_word(const char *word)
{
    bool plain = word[0] != '\0', control = false;
    for (const char *c = word; *c != '\0'; c++) {
        plain = plain && (isalnum((unsigned char)*c) || strchr("_-+=./:,@%^", *c) != NULL);
        control = control || iscntrl((unsigned char)*c);
    }
    if (plain) {
        fputs(word, stdout);
        return;
    }
    fputs(control ? "$'" : "'", stdout);
    for (const char *c = word; *c != '\0'; c++) {
        if (iscntrl((unsigned char)*c)) printf("\\%03o", (unsigned char)*c);
        else if (*c == '\'')
            fputs(control ? "\\'" : "'\\''", stdout);
        else if (*c == '\\' && control)
            fputs("\\\\", stdout);
        else
            fputc(*c, stdout);
    }
    fputc('\'', stdout);
}

static void print_command(const launch_words *command, const launch_words *environment)
{
    int shown = 0;
    for (int i = 0; i < environment->count; i++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(environment->word[i], "="), environment->word[i]);
        if (getenv(name) != NULL) continue; /* the user's value wins */
        if (shown++ == 0) fputs("env ", stdout);
        print_word(environment->word[i]);
        fputc(' ', stdout);
    }
    for (int i = 0; i < command->count; i++) {
        if (i > 0) fputc(' ', stdout);
        print_word(command->word[i]);
    }
    fputc('\n', stdout);
}

/* ---- restarting ---- */

/* The options of the folder to save to, of what to load, and of a restart from nothing. */
static const char *const save_options[] = {"save", NULL};
static const char *const load_options[] = {"load", "ckpt-step", NULL};
static const char *const begin_options[] = {"finetune", "restart", NULL};

/* Returns whether the word is one of the options, under any name of the command; *out_value is its value, or NULL. */
static bool launch_is_option(const launch_plan *p, const char *word, const char *const *options, const char **out_value)
{
    *out_value = NULL;
    if (strncmp(word, "--", 2) != 0) return false;
    const size_t length = strcspn(word + 2, "=");
    const char *option = mega_command_option(p->commands, p->command, word + 2, length);
    while (option != NULL && *options != NULL && strcmp(*options, option) != 0) options++;
    if (option == NULL || *options == NULL) return false;
    if (word[2 + length] == '=') *out_value = word + 2 + length + 1;
    return true;
}

static const char *option_value(const launch_plan *p, const char *const *options)
{
    const char *found = NULL, *value;
    for (int i = 0; i < p->args_count; i++) {
        if (!launch_is_option(p, p->args[i], options, &value)) continue;
        found = value != NULL ? value : i + 1 < p->args_count ? p->args[i + 1] : found;
    }
    return found;
}
static char *tracker_of(launch_plan *p, const char *save)
{
    return save != NULL ? mega_arena_format(&p->arena, "%s/latest_checkpointed_iteration.txt", save) : NULL;
}

/* A tracker is replaced at every save, so that another file of its name is a newer save. */
static launch_tracker look_at_tracker(launch_plan *p)
{
    const char *save = p->own == NULL ? option_value(p, save_options) : NULL;
    const char *path = tracker_of(p, save);
    struct stat info;
    if (path == NULL || stat(path, &info) != 0) return (launch_tracker){0};
    return (launch_tracker){info.st_ino, info.st_mtim};
}

static bool has_saved(launch_plan *p)
{
    const launch_tracker now = look_at_tracker(p);
    return now.inode != 0 && (now.inode != p->tracker.inode || now.time.tv_sec != p->tracker.time.tv_sec ||
                              now.time.tv_nsec != p->tracker.time.tv_nsec);
}

static bool is_truth_value(const char *word)
{
    return word != NULL && (strcasecmp(word, "true") == 0 || strcasecmp(word, "false") == 0 || strcmp(word, "1") == 0 ||
                            strcmp(word, "0") == 0);
}

/* If this run has saved a checkpoint by now, it goes on from there, whatever it began with. Returns that folder, or
 * NULL. */
static const char *go_on_from(launch_plan *p)
{
    const char *save = p->own == NULL ? option_value(p, save_options) : NULL, *value;
    if (save == NULL || !has_saved(p)) return NULL;
    char **args = mega_arena_alloc(&p->arena, (size_t)(p->args_count + 3) * sizeof *args);
    if (args == NULL) return NULL;
    int n = 0;
    for (int i = 0; i < p->args_count; i++) {
        if (launch_is_option(p, p->args[i], begin_options, &value)) {
            i += value == NULL && i + 1 < p->args_count && is_truth_value(p->args[i + 1]);
            continue;
        }
        if (launch_is_option(p, p->args[i], load_options, &value)) {
            i += value == NULL;
            continue;
        }
        args[n++] = p->args[i];
    }
    args[n++] = mega_arena_strdup(&p->arena, "--load");
    args[n++] = mega_arena_strdup(&p->arena, save);
    args[n] = NULL;
    p->args = args;
    p->args_count = n;
    return save;
}

static mega_status prepare_again(launch_plan *p, int64_t attempt)
{
    const char *from = go_on_from(p);
    p->attempt = attempt;
    if (launch_hosts_reach(p) > 0) {
        p->world = 0;
        for (int i = 0; i < p->hosts; i++) p->world += p->host[i].ranks;
        if (p->hosts == 0) return MEGA_FAIL(MEGA_ERR_IO, "restart: no host of %s answers ssh", p->hostfile);
    }
    fprintf(stderr, "megalith launch: restart %lld of %lld, %d rank%s, %s%s\n", (long long)attempt,
            (long long)p->max_restarts, p->world, p->world == 1 ? "" : "s",
            from != NULL     ? "from the last checkpoint of "
            : p->own != NULL ? "of the same command; whether it resumes is up to "
                             : "as the first time: it has saved no checkpoint yet",
            from != NULL     ? from
            : p->own != NULL ? p->command
                             : "");
    return MEGA_OK;
}

/* ---- attempts ---- */

/* A run that fails before its first step would fail again: a missing file, too little memory. Once an attempt has
 * trained, a later failure may be temporary. Exit status 2 is a mistake in the command line, which is permanent. */
static bool may_pass(const launch_plan *p, bool has_trained)
{
    return has_trained || p->own != NULL || !mega_command_is_in(p->commands, p->command, p->commands->trains);
}

static bool is_tried_again(const launch_plan *p, const launch_result *result, int64_t attempt, bool has_trained)
{
    const int status = result->exit_status;
    const bool is_mistake = p->own != NULL ? status == LAUNCH_NOT_STARTED || status == LAUNCH_NOT_FOUND : status == 2;
    const bool is_asked = status != 0 && !is_mistake && !result->interrupted;
    return is_asked && attempt < p->max_restarts && may_pass(p, has_trained);
}

/* Replaces the many lines that an MPI launcher prints when it cannot reach a host. */
static bool tell_unreachable(const launch_plan *p, const launch_relay *relay, const launch_result *result)
{
    char said[256];
    if (launch_relay_is_ready(relay) || p->kind == LAUNCH_SLURM) return false;
    const launch_host *lost = launch_hosts_unreachable(p, said, sizeof said);
    if (lost == NULL) return false;
    fprintf(
        stderr,
        "megalith launch: error: host %s (%s:%d) cannot be reached over ssh%s%s; no rank was started. Check its name "
        "and that it is up, and that this works without a password: ssh -o BatchMode=yes %s true; exit status %d\n",
        lost->typed, p->hostfile, lost->line, said[0] != '\0' ? ": " : "", said, lost->typed, result->exit_status);
    return true;
}

/* Reports an MPI launcher that was ended by megalith launch or by a signal from outside; returns false in other
 * cases. */
static bool tell_engine(const launch_plan *p, const launch_relay *relay, const launch_result *result)
{
    const char *death = launch_relay_death(relay);
    if (result->given_up != NULL)
        fprintf(stderr,
                "megalith launch: error: %s, but %s kept waiting, so it was ended. Its own messages are above; check "
                "the limits (ulimit -a) and the free space in TMPDIR and /dev/shm; exit status %d\n",
                death[0] != '\0' ? death : result->given_up, p->mpirun, result->exit_status);
    else if (result->killed_by != 0)
        fprintf(stderr, "megalith launch: error: %s was ended by signal %d (%s), sent from outside%s; exit status %d\n",
                p->mpirun != NULL ? p->mpirun : "the rank", result->killed_by, strsignal(result->killed_by),
                result->killed_by == SIGKILL ? " or by the system when memory ran out (see dmesg)" : "",
                result->exit_status);
    return result->given_up != NULL || result->killed_by != 0;
}

/* Makes the cause the last line that the user sees. `told`: something has been printed since the ranks ended. */
static void tell_why(const launch_plan *p, const launch_relay *relay, const launch_result *result, bool told)
{
    int rank;
    const char *cause = launch_relay_cause(relay, &rank), *death = launch_relay_death(relay);
    if (result->exit_status == 0) return;
    fflush(stdout);
    if (result->asked_by != 0)
        fprintf(stderr, "megalith launch: ended by a signal: %s\n", mega_signal_name(result->asked_by));
    else if (cause == NULL && tell_engine(p, relay, result))
        return;
    else if (cause == NULL && death[0] == '\0' && tell_unreachable(p, relay, result))
        return;
    else if (cause == NULL)
        fprintf(stderr, "%smegalith launch: error: %s; exit status %d\n",
                death[0] != '\0' ? "" : launch_relay_internal(relay),
                death[0] != '\0' ? death
                : p->own != NULL ? "a rank ended with an error"
                                 : "the ranks ended without an error message",
                result->exit_status);
    else if (told || !launch_relay_cause_is_last(relay)) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "rank %d: ", rank);
        fprintf(stderr, "megalith launch: %s%s%s\n",
                result->interrupted ? "" : "error: ", strncmp(cause, prefix, strlen(prefix)) == 0 ? "" : prefix, cause);
    }
}

/* *has_trained: this attempt or an earlier one has trained. */
static mega_status run_once(launch_plan *p, launch_result *result, int64_t attempt, bool *has_trained)
{
    launch_words command, environment;
    launch_relay *relay = NULL;
    MEGA_TRY(launch_mpirun_command(p, &command, &environment));
    MEGA_TRY(launch_relay_create(&relay, p));
    const mega_status st = launch_run(p, &command, &environment, relay, result);
    *has_trained = *has_trained || launch_relay_has_trained(relay);
    const bool is_vain = !is_tried_again(p, result, attempt, *has_trained) && is_tried_again(p, result, attempt, true);
    if (st == MEGA_OK && is_vain)
        fprintf(stderr, "megalith launch: no restart: the ranks ended before training began, and would do so again\n");
    if (st == MEGA_OK) tell_why(p, relay, result, is_vain);
    launch_relay_destroy(relay);
    return st;
}

/* Logs of an earlier run would be mistaken for this run's. */
static mega_status clear_logs(const launch_plan *p)
{
    if (p->log_dir == NULL) return MEGA_OK;
    MEGA_TRY(mega_folder_create(p->log_dir));
    mega_names names;
    MEGA_TRY(mega_folder_list(p->log_dir, &names));
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        int rank, end = 0;
        if (sscanf(names.name[i], "rank_%d.log%n", &rank, &end) != 1 || end == 0 || names.name[i][end] != '\0')
            continue;
        char *path = mega_path_join(p->log_dir, names.name[i]);
        st = path != NULL ? mega_file_remove(path) : MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", p->log_dir);
        mega_free(path);
    }
    mega_names_fini(&names);
    return st;
}

static mega_status run_ranks(launch_plan *p, int *exit_status)
{
    launch_result result = {0};
    bool has_trained = false;
    mega_status st = clear_logs(p);
    p->tracker = look_at_tracker(p);
    for (int64_t attempt = 0; st == MEGA_OK; attempt++) {
        if (attempt > 0) st = prepare_again(p, attempt);
        if (st == MEGA_OK) st = run_once(p, &result, attempt, &has_trained);
        if (!is_tried_again(p, &result, attempt, has_trained)) break;
    }
    *exit_status = result.exit_status;
    return st;
}

bool launch_stays(const launch_plan *p)
{
    return p->kind != LAUNCH_NONE || p->log_dir != NULL || p->max_restarts > 0;
}

/* A single rank without restarts needs no process beside it. */
static mega_status become_rank(const launch_plan *p, const launch_words *command)
{
    static const char *const foreign[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_SIZE"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) unsetenv(foreign[i]);
    setenv("MEGA_LAUNCH_ALONE", "1", 1);
    fflush(NULL);
    execv(p->program, command->word);
    return MEGA_FAIL(MEGA_ERR_IO, "%s: %s", p->program, strerror(errno));
}

static mega_status launch_with_restarts(launch_plan *p, int *exit_status)
{
    launch_words command, environment;
    MEGA_TRY(launch_mpirun_command(p, &command, &environment));
    if (!p->dry_run) return launch_stays(p) ? run_ranks(p, exit_status) : become_rank(p, &command);
    print_command(&command, &environment);
    return MEGA_OK;
}

/* Returns false if nothing remains to be started; *exit_status is then set. */
static bool launch_read_plan(launch_plan *p, int argc, char **argv, int *exit_status)
{
    launch_options_read(p, argc, argv);
    *exit_status = 0;
    if (p->help) {
        mega_launch_help(stdout);
        return false;
    }
    if (p->node_rank > 0 && p->mistakes.size == 0) {
        printf(
            "megalith launch: --node_rank %lld: node 0%s%s%s starts the ranks of this host too; there is nothing to do "
            "here\n",
            (long long)p->node_rank, p->master_addr != NULL ? " (" : "", p->master_addr != NULL ? p->master_addr : "",
            p->master_addr != NULL ? ")" : "");
        return false;
    }
    launch_mpirun_find(p);
    if (p->world > 1 << 20) launch_mistake(p, "%d ranks are more than possible", p->world);
    if (p->mistakes.size == 0) return true;
    fputs(p->mistakes.data, stderr);
    *exit_status = 2;
    return false;
}

mega_status mega_launch(const mega_composition *commands, int argc, char **argv, int *exit_status)
{
    launch_plan p = {0};
    char program[PATH_MAX];
    mega_status st = MEGA_OK;
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    p.program = program;
    p.commands = commands;
    if (n <= 0) st = MEGA_FAIL(MEGA_ERR_IO, "/proc/self/exe: %s", strerror(errno));
    else if (argc > 1 && strcmp(argv[1], LAUNCH_START_RANK) == 0)
        *exit_status = launch_start_rank(argv + 2);
    else if (launch_read_plan(&p, argc, argv, exit_status))
        st = launch_with_restarts(&p, exit_status);
    mega_buffer_fini(&p.mistakes);
    mega_arena_fini(&p.arena);
    return st;
}
