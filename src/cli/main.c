/* The main program: `megalith COMMAND ARGS`. It knows the commands only through their rows (command_rows.h); the
 * options of each are in the composition (program.c). */
#include "cli.h"
#include "commands.h"
#include "megalith/file.h"
#include "megalith/launch.h"
#include "megalith/memory.h"
#include "megalith/streams.h"
#include "plan.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct cli_row {
    const char *name;
    int (*run)(int argc, char **argv);
    bool is_planned;      /* megalith plan COMMAND shows what it would do */
    bool outlives_reader; /* continues if the reader of a pipe exits; other commands then end quietly */
    bool log_to_output;   /* the log is the command's output; for other commands it goes to standard error */
    const char *example;  /* shown if the command is given without arguments; NULL: it runs without options */
    const char *instead;  /* not implemented yet: what to do instead */
} cli_row;

#define SHOWN(...)
#define RUN(...)                    __VA_ARGS__
#define COMMAND(name_, shown, run_) {.name = #name_, run_},
static const cli_row commands[] = {
#include "command_rows.h"
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static const cli_row *find_row(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    }
    return NULL;
}

/* Returns whether the command parses its own options, including --help: its options are beside those of another
 * command. */
static bool has_own_help(const cli_row *row)
{
    return row->run == mega_command_launch || row->run == mega_command_compare_configurations ||
           row->run == mega_command_measure_device;
}

static bool is_of_ranks(const cli_row *row)
{
    return mega_command_is_in(&mega_commands, row->name, mega_commands.of_ranks);
}

/* Returns whether every rank under a launcher would print the same: then only the first prints, and its exit status is
 * used. Commands that run on several ranks print through the first rank anyway, except for --help and the like, which
 * are printed before they run. */
static bool is_said_alike(const cli_row *row, int argc, char **argv)
{
    if (row->run == mega_command_launch) return false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    const bool plans_another = row->run == mega_command_plan && argc > 1 && argv[1][0] != '-';
    return argc == 1 || !(is_of_ranks(row) || plans_another);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || (i == 1 && strcmp(argv[i], "-h") == 0)) return true;
    return false;
}

static bool is_built(const cli_row *row)
{
    return row->run != NULL;
}

int mega_command_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("megalith " MEGA_VERSION);
    return 0;
}

/* Runs tools/merge_datasets.py ARGS as data merge ARGS. */
int mega_command_merge_datasets(int argc, char **argv)
{
    char data[] = "data", merge[] = "merge";
    char **words = mega_calloc((size_t)argc + 2, sizeof *words);
    if (words == NULL)
        return mega_cli_fail("merge_datasets", MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %d words", argc));
    words[0] = data;
    words[1] = merge;
    for (int i = 1; i < argc; i++) words[i + 1] = argv[i];
    const int exit_status = mega_command_data(argc + 1, words);
    mega_free(words);
    return exit_status;
}

/* Runs plan COMMAND ARGS as COMMAND ARGS --dry-run; without a word, or for pretrain_gpt, plans a GPT (plan.c). */
int mega_command_plan(int argc, char **argv)
{
    const bool has_word = argc > 1 && argv[1][0] != '-';
    const char *name = has_word ? mega_command_name(&mega_commands, argv[1]) : "pretrain_gpt";
    const cli_row *row = name != NULL ? find_row(name) : NULL;
    if (row == NULL || !row->is_planned) {
        fprintf(stderr,
                "megalith plan: error: \"%s\" is no command that can be planned; expected pretrain_gpt or another "
                "command that takes --dry-run, or options alone\n",
                argv[1]);
        return 2;
    }
    if (row->run == mega_command_pretrain_gpt) return mega_cli_plan_gpt(argc, argv);
    char option[] = "--dry-run";
    char **words = mega_calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL) return mega_cli_fail("plan", MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %d words", argc));
    for (int i = 1; i < argc; i++) words[i - 1] = argv[i];
    words[argc - 1] = option;
    const int exit_status = row->run(argc, words);
    mega_free(words);
    return exit_status;
}

static void list_commands(FILE *stream, bool built, const char *title)
{
    fprintf(stream, "\n%s\n", title);
    for (size_t i = 0; i < mega_commands.commands; i++) {
        const mega_command *command = &mega_commands.command[i];
        const cli_row *row = find_row(command->name);
        if (row != NULL && is_built(row) == built) fprintf(stream, "  %-28s%s\n", command->name, command->summary);
    }
}

static void show_overview(FILE *stream)
{
    fputs("usage: megalith COMMAND [OPTIONS]\n\ntrains transformer language models: from text to tokenizer, data set, "
          "model, and "
          "text again\n",
          stream);
    list_commands(stream, true, "commands");
    list_commands(stream, false, "not implemented yet");
    fputs(
        "\nmegalith COMMAND --help lists the options and other names of a command; a command without options shows an "
        "example.\n"
        "Old scripts need a new first word: `megalith` for `python`, or before `torchrun`, `deepspeed` and `accelerate "
        "launch`; the rest of the line stays.\n",
        stream);
}

static int show_help(const cli_row *row)
{
    if (row->run == mega_command_launch) {
        mega_launch_help(stdout);
        return 0;
    }
    if (has_own_help(row)) {
        char name[] = "compare_configurations", option[] = "--help";
        return row->run(2, (char *[]){name, option, NULL});
    }
    if (!is_built(row)) {
        printf("megalith %s is not implemented yet: %s\n", row->name, row->instead);
        return 0;
    }
    mega_buffer text = {0};
    const mega_status st = mega_options_help(&mega_commands, row->name, &text);
    if (st != MEGA_OK) return mega_cli_fail("help", st);
    fputs(text.data, stdout);
    if (row->example != NULL) printf("\nexample\n  %s\n", row->example);
    mega_buffer_fini(&text);
    return 0;
}

enum { MOST_NAMES = 128, NAMES_BYTES = 4096 };

/* Writes the names of all commands, and after them their other names, to names; returns their number. text receives
 * those of a list. */
static size_t all_names(char text[NAMES_BYTES], const char *names[MOST_NAMES])
{
    size_t n = 0, used = 0;
    for (size_t i = 0; i < mega_commands.commands && n < MOST_NAMES; i++) names[n++] = mega_commands.command[i].name;
    for (size_t i = 0; i < mega_commands.commands; i++)
        for (const char *at = mega_commands.command[i].aliases; *at != '\0';) {
            const size_t length = strcspn(at, "|");
            if (n < MOST_NAMES && used + length < NAMES_BYTES) {
                names[n++] = text + used;
                memcpy(text + used, at, length);
                used += length;
                text[used++] = '\0';
            }
            at += length + (at[length] == '|');
        }
    return n;
}

static int unknown_command(const char *typed)
{
    const char *names[MOST_NAMES], *longer[MEGA_OPTIONS_LISTED] = {NULL};
    char text[NAMES_BYTES];
    const size_t n = all_names(text, names);
    const char *ours = mega_command_of_script(&mega_commands, typed), *near = mega_options_nearest(typed, names, n);
    if (ours != NULL) {
        fprintf(stderr, "megalith: error: \"%s\" is not a command; megalith %s does its work here\n", typed, ours);
        return 2;
    }
    const size_t matches =
        near != NULL ? 0 : mega_options_longer(typed, names, mega_commands.commands, longer, MEGA_OPTIONS_LISTED);
    mega_buffer hint = {0};
    mega_options_list_names(&hint, near != NULL ? &near : longer, near != NULL ? 1 : matches, "");
    fprintf(stderr, "megalith: error: \"%s\" is not a command%s%s%s; megalith help lists them\n", typed,
            hint.size > 0 ? "; did you mean " : "", hint.size > 0 ? hint.data : "", hint.size > 0 ? "?" : "");
    mega_buffer_fini(&hint);
    return 2;
}

int mega_command_help(int argc, char **argv)
{
    if (argc < 2) {
        show_overview(stdout);
        return 0;
    }
    const bool is_environment = strcmp(argv[1], "--environment-page") == 0,
               is_json = strcmp(argv[1], "--json-page") == 0, is_yaml = strcmp(argv[1], "--yaml-page") == 0,
               is_foreign = strcmp(argv[1], "--foreign-page") == 0;
    if (is_environment || is_json || is_yaml || is_foreign || strcmp(argv[1], "--options-page") == 0) {
        mega_buffer page = {0};
        const mega_status st = is_environment ? mega_environment_page(&page)
                               : is_json      ? mega_options_json_page(&mega_engine_composition, &mega_commands, &page)
                               : is_yaml      ? mega_options_yaml_page(&mega_commands, &page)
                                              : mega_options_options_page(&mega_commands, !is_foreign, &page);
        if (st != MEGA_OK) return mega_cli_fail("help", st);
        fputs(page.data, stdout);
        mega_buffer_fini(&page);
        return 0;
    }
    if (strcmp(argv[1], "presets") == 0) {
        mega_buffer list = {0};
        mega_train_presets_text(&list);
        const mega_status st = mega_buffer_check(&list, "the list of presets");
        if (st == MEGA_OK) fputs(list.data, stdout);
        mega_buffer_fini(&list);
        return st == MEGA_OK ? 0 : mega_cli_fail("help", st);
    }
    const char *name = mega_command_name(&mega_commands, argv[1]);
    if (name == NULL) return unknown_command(argv[1]);
    return show_help(find_row(name));
}

static int show_example(const cli_row *row)
{
    printf("megalith %s needs options; an example:\n\n  %s\n\nmegalith %s --help lists them.\n", row->name,
           row->example, row->name);
    return 2;
}

/* A larger number is probably a mistake. `megalith launch` starts more ranks, also on several hosts. */
enum { MOST_OWN_RANKS = 1024 };

/* A command of several ranks that is started alone, with a configuration that asks for several: starts them. Its
 * options and the whole file are read first, so that mistakes are reported before any rank runs. Returns false if there
 * is nothing to start. */
static bool starts_ranks(const cli_row *row, int argc, char **argv, int *exit_status)
{
    const char *file = is_of_ranks(row) ? mega_launch_config_of(argc, argv) : NULL;
    if (file == NULL || mega_launch_was_used()) return false;
    const int64_t ranks = mega_launch_config_ranks(file);
    if (ranks <= 1) return false;
    if (ranks > MOST_OWN_RANKS) {
        const mega_status st = MEGA_MISTAKE("\"num_processes\" %lld (%s): a command itself starts at most %d ranks; "
                                            "megalith launch --config_file %s %s … starts more",
                                            (long long)ranks, file, MOST_OWN_RANKS, file, row->name);
        *exit_status = mega_cli_fail(row->name, st);
        return true;
    }
    if (!mega_cli_is_in_order(row->name, (int)ranks, argc, argv, exit_status)) return true;
    char **words = mega_calloc((size_t)argc + 4, sizeof *words);
    if (words == NULL) return false;
    char launch[] = "launch", option[] = "--config_file";
    words[0] = launch;
    words[1] = option;
    words[2] = (char *)file;
    for (int i = 0; i < argc; i++) words[i + 3] = argv[i];
    fprintf(stderr, "megalith %s: %lld ranks are started, as %s says\n", row->name, (long long)ranks, file);
    *exit_status = mega_command_launch(argc + 3, words);
    mega_free(words);
    return true;
}

static int run_command(const cli_row *row, int argc, char **argv)
{
    int exit_status;
    for (int i = 1; i < argc && !has_own_help(row); i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return show_help(row);
    }
    if (!is_built(row)) {
        fprintf(stderr, "megalith %s: error: this command is not implemented yet: %s\n", row->name, row->instead);
        return 1;
    }
    if (argc == 1 && row->example != NULL) return show_example(row);
    /* A training must not die because the reader of its log exits; the reader of a help may. */
    signal(SIGPIPE, row->outlives_reader && !asks_for_help(argc, argv) ? SIG_IGN : SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); /* beyond `ulimit -f`, a write then fails as on a full disk and is reported */
    mega_map_guard();
    mega_cli_log_to(row->log_to_output);
    if (starts_ranks(row, argc, argv, &exit_status)) return exit_status;
    return row->run(argc, argv);
}

enum { STACK_LEAST = 256 << 10, STACK_WANTED = 8 << 20 }; /* bytes */

/* Returns whether the stack is large enough. A limit such as `ulimit -s 64` is too small for some functions and for
 * every thread. Raises the limit if that is allowed: the main thread's stack can then grow further, and new threads
 * get the wanted size. */
static bool has_stack(void)
{
    struct rlimit now;
    pthread_attr_t threads;
    if (getrlimit(RLIMIT_STACK, &now) != 0 || now.rlim_cur >= STACK_WANTED / 2) return true;
    const struct rlimit wanted = {STACK_WANTED, now.rlim_max < STACK_WANTED ? STACK_WANTED : now.rlim_max};
    const struct rlimit most = {now.rlim_max < STACK_WANTED ? now.rlim_max : STACK_WANTED, now.rlim_max};
    if (setrlimit(RLIMIT_STACK, &wanted) != 0) setrlimit(RLIMIT_STACK, &most);
    pthread_attr_init(&threads);
    pthread_attr_setstacksize(&threads, STACK_WANTED);
    pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
    getrlimit(RLIMIT_STACK, &now);
    if (now.rlim_cur >= STACK_LEAST) return true;
    fprintf(stderr,
            "megalith: error: the stack is limited to %llu KiB and %d are needed; raise the limit (ulimit -s 8192) "
            "where it was lowered\n",
            (unsigned long long)now.rlim_cur >> 10, STACK_LEAST >> 10);
    return false;
}

/* If a standard stream is closed, the next opened file would get its descriptor and receive its messages. Opens
 * /dev/null instead, for reading only, so that writing to the stream still fails. */
static void hold_closed_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) return;
}

int main(int argc, char **argv)
{
    hold_closed_streams();
    const int python = argc > 1 ? mega_launch_python_words(argc - 1, argv + 1) : 0;
    argc -= python;
    argv += python;
    if (!has_stack()) return 1;
    if (argc < 2) {
        if (mega_cli_is_other_rank()) return 0;
        show_overview(stderr);
        return 2;
    }
    if (argc > 2 && strcmp(mega_path_base(argv[1]), "accelerate") == 0 && strcmp(argv[2], "config") == 0) {
        argc--;
        argv++;
    }
    const char *typed = argv[1];
    if (strcmp(typed, "--help") == 0 || strcmp(typed, "-h") == 0) typed = "help";
    if (strcmp(typed, "--version") == 0 || strcmp(typed, "-V") == 0) typed = "version";
    const char *name = mega_command_name(&mega_commands, typed);
    const cli_row *row = name != NULL ? find_row(name) : NULL;
    if ((row == NULL || is_said_alike(row, argc - 1, argv + 1)) && mega_cli_is_other_rank()) return 0;
    if (row == NULL) return unknown_command(typed);
    int exit_status = run_command(row, argc - 1, argv + 1);
    if (exit_status == 0 && mega_map_check() != MEGA_OK) exit_status = mega_cli_fail(row->name, MEGA_ERR_IO);
    mega_streams_end();
    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_status == 0) {
        fprintf(stderr, "megalith %s: %s: standard output cannot be written%s\n", row->name,
                row->outlives_reader ? "warning" : "error",
                row->outlives_reader ? ", so lines of the log are missing; the work was done all the same" : "");
        exit_status = row->outlives_reader ? 0 : 1;
    }
    return exit_status;
}
