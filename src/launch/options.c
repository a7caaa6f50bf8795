/* The options of megalith launch: those of torch.distributed.launch, torchrun, deepspeed and accelerate launch. Options
 * about how to train, and not where to start, are passed on to the command. */
#include "launch_impl.h"
#include "megalith/config.h"
#include "megalith/file.h"
#include "megalith/threads.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROW(name, field, kind) MEGA_OPTION(launch_plan, name, field, kind)

/* Names are "name|other names", with underscores; one that ends with * means all names that begin so. What is passed on
 * to the command, has no effect or is refused is in src/foreign/launchers.txt. */
// clang-format off
static const mega_option_row own_rows[] = {
    {ROW("nproc_per_node|num_gpus|num_accelerators", nproc, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "ranks on each host; without it the slots of the hostfile, else 1. cpu, auto: one for each core of this host"},
    {ROW("nnodes|num_nodes|num_machines", nodes, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "hosts: the first N of the hostfile, or of the Slurm allocation"},
    {ROW("num_processes", processes, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "ranks on all hosts together (accelerate)"},
    {ROW("node_rank|machine_rank", node_rank, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "host 0 starts the ranks of all hosts; the others have nothing to do"},
    {ROW("hostfile|H|mpirun_hostfile|deepspeed_hostfile", hostfile, MEGA_OPTION_STRING), .help = "a line for each host: NAME slots=N; # begins a comment"},
    {ROW("include|i|deepspeed_inclusion_filter", include, MEGA_OPTION_STRING), .help = "only these: HOST[:SLOT,SLOT…][@HOST…]"},
    {ROW("exclude|e|deepspeed_exclusion_filter", exclude, MEGA_OPTION_STRING), .help = "all except these, written like --include"},
    {ROW("log_dir|enable_each_rank_log", log_dir, MEGA_OPTION_STRING), .help = "a file for each rank, DIR/rank_N.log; the terminal shows rank 0, the last rank and errors"},
    {ROW("config_file", config_file, MEGA_OPTION_STRING), .help = "a YAML or JSON of accelerate config: ranks and hosts, and settings of the command, where no option gives them"},
    {ROW("max_restarts", max_restarts, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "when a rank dies, restart from the last complete checkpoint of --save, at most N times"},
    {ROW("launcher", launcher, MEGA_OPTION_STRING), .help = "openmpi, mpich or slurm; default: the one that is installed"},
    {ROW("master_port|main_process_port", master_port, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "MASTER_PORT of a program of your own (29500); the MPI launcher itself finds free ports"},
    {ROW("dry_run", dry_run, MEGA_OPTION_FLAG), .help = "print the MPI launcher's command line and stop"},
    {ROW("help|h", help, MEGA_OPTION_FLAG), .help = "this page"},
    {ROW("master_addr|main_process_ip", master_addr, MEGA_OPTION_STRING), .help = "the name of host 0, for messages"},
    {ROW("module|m", is_module, MEGA_OPTION_FLAG), .help = "the name of a module; for your own: python3 -m NAME"},
    {ROW("use_deepspeed", use_deepspeed, MEGA_OPTION_FLAG), .help = "ZeRO stage 2, where no --zero_stage, configuration or DeepSpeed JSON says another (accelerate)"},
};
// clang-format on

static bool is_launch_option(const char *names, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = names; at != NULL; at = strchr(at, '|')) {
        if (*at == '|') at++;
        const size_t length = strcspn(at, "|");
        const bool is_head = length > 0 && at[length - 1] == '*';
        if (is_head ? strncmp(at, name, length - 1) == 0 : n == length && strncmp(at, name, n) == 0) return true;
    }
    return false;
}

/* Returns row i of all, or NULL after the last one. */
static const mega_option_row *row_at(size_t i)
{
    if (i < MEGA_COUNT(own_rows)) return &own_rows[i];
    i -= MEGA_COUNT(own_rows);
    return i < launch_other_section.count ? &launch_other_section.rows[i] : NULL;
}

static const mega_option_row *options_find_row(const char *name)
{
    const mega_option_row *row;
    for (size_t i = 0; (row = row_at(i)) != NULL; i++)
        if (is_launch_option(row->name, name)) return row;
    return NULL;
}

bool mega_launch_knows(const char *name, size_t length)
{
    char plain[64];
    if (length < 2 || length >= sizeof plain) return false;
    for (size_t i = 0; i < length; i++) plain[i] = name[i] == '-' ? '_' : name[i];
    plain[length] = '\0';
    return options_find_row(plain) != NULL;
}

/* Finds the option of "--nproc-per-node=2" by its name nproc_per_node; *out_value is the text after the '=', or
 * NULL. */
static const mega_option_row *launch_option_find(launch_plan *p, const char *typed, const char **out_value)
{
    const size_t dashes = strspn(typed, "-");
    char *name = mega_arena_strdup(&p->arena, typed + dashes);
    *out_value = NULL;
    if (name == NULL) return NULL;
    char *equals = strchr(name, '=');
    if (equals != NULL) {
        *equals = '\0';
        *out_value = typed + dashes + (equals - name) + 1;
    }
    for (char *c = name; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    return options_find_row(name);
}

static void launch_option_unknown(launch_plan *p, const char *typed)
{
    enum { MOST = 256 };
    const char *names[MOST];
    size_t count = 0;
    const mega_option_row *row;
    for (size_t i = 0; (row = row_at(i)) != NULL; i++)
        for (const char *at = row->name; *at != '\0' && count < MOST;) {
            const size_t n = strcspn(at, "|");
            char *name = mega_arena_alloc(&p->arena, n + 1);
            names[count++] = name != NULL ? memcpy(name, at, n) : "";
            at += n + (at[n] == '|');
        }
    char *word = mega_arena_strdup(&p->arena, typed + strspn(typed, "-"));
    if (word == NULL) return;
    word[strcspn(word, "=")] = '\0';
    const char *near = mega_options_nearest(word, names, count);
    launch_mistake(p,
                   "%.*s is not an option of launch%s%s%s; megalith launch --help lists them. Options of the command "
                   "follow its name",
                   (int)strcspn(typed, "="), typed, near != NULL ? "; did you mean --" : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

/* torchrun's "2:2" means 2; a real range would be elastic. */
static void options_read_number(launch_plan *p, const mega_option_row *o, const char *typed, const char *value)
{
    int64_t *field = (int64_t *)(void *)((char *)p + o->field);
    const int least = o->range == MEGA_RANGE_POSITIVE;
    const bool is_ranks = o->field == offsetof(launch_plan, nproc);
    if (is_ranks && (strcmp(value, "cpu") == 0 || strcmp(value, "auto") == 0)) {
        *field = mega_cpu_count();
        return;
    }
    if (is_ranks && strcmp(value, "gpu") == 0) {
        launch_mistake(p, "%.*s gpu: ranks are not counted by GPUs; give a number, or cpu for one rank per core",
                       (int)strcspn(typed, "="), typed);
        return;
    }
    char *end = NULL;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (o->field == offsetof(launch_plan, nodes) && *end == ':' && end != value) {
        const long long most = strtoll(end + 1, &end, 10);
        if (*end == '\0' && most != n) {
            launch_mistake(p, "%s %s: a variable number of hosts is not supported; give one number", typed, value);
            return;
        }
    }
    if (end == value || *end != '\0' || errno != 0 || n < least || n > MEGA_LAUNCH_MOST_RANKS) {
        launch_mistake(p, "%s: found \"%s\", expected a whole number, at least %d", typed, value, least);
        return;
    }
    *field = n;
}

/* Passes `--option value` to the command; an option "name=value" contains both. */
static void pass_on(launch_plan *p, const char *option, const char *value)
{
    const size_t n = strcspn(option, "=");
    launch_word(&p->passed, &p->arena, "--%.*s", (int)n, option);
    if (option[n] == '=') value = option + n + 1;
    if (value != NULL) launch_word(&p->passed, &p->arena, "%s", value);
}

static bool passes_rest(const mega_option_row *o)
{
    return strcmp(o->successor, "*") == 0;
}

/* --megatron_lm_NAME: true passes the flag --NAME, false passes nothing, any other value is passed itself. */
static void pass_rest(launch_plan *p, const char *typed, const char *value)
{
    static const char head[] = "megatron_lm_";
    char *name = mega_arena_strdup(&p->arena, typed + strspn(typed, "-") + sizeof head - 1);
    if (name == NULL) return;
    name[strcspn(name, "=")] = '\0';
    if (strcasecmp(value, "false") == 0 || strcasecmp(value, "no") == 0) return;
    const bool is_flag = strcasecmp(value, "true") == 0 || strcasecmp(value, "yes") == 0;
    pass_on(p, name, is_flag ? NULL : value);
}

void launch_option_pass(launch_plan *p, const char *name, const char *value)
{
    const char *none, *typed = mega_arena_format(&p->arena, "--%s", name);
    const mega_option_row *o = typed != NULL ? launch_option_find(p, typed, &none) : NULL;
    if (o == NULL) return;
    if (o->answer != MEGA_ANSWER_RENAMED || o->kind == MEGA_OPTION_FLAG) return;
    const char *option = passes_rest(o) ? name + strlen("megatron_lm_") : o->successor;
    const char *word = mega_arena_format(&p->arena, "--%s", option);
    if (word == NULL) return;
    for (int i = 0; i < p->passed.count; i++)
        if (launch_is_same_option(p->passed.word[i], word)) return;
    if (passes_rest(o)) pass_rest(p, typed, value);
    else
        pass_on(p, option, value);
}

/* Says that an option was given before with another value, under this name or another one, as commands do. */
static void note_option_again(launch_plan *p, const mega_option_row *o, const char *typed, const char *value)
{
    launch_given *list = mega_arena_alloc(&p->arena, (size_t)(p->givens + 1) * sizeof *list);
    const launch_given *before = NULL;
    if (list == NULL) return;
    for (int i = 0; i < p->givens; i++) {
        list[i] = p->given[i];
        if (list[i].row == o) before = &list[i];
    }
    if (before != NULL && strcmp(before->value, value) != 0)
        fprintf(stderr, "megalith launch: warning: %.*s %s counts; %.*s %s, given before, does not\n",
                (int)strcspn(typed, "="), typed, value, (int)strcspn(before->typed, "="), before->typed, before->value);
    list[p->givens++] = (launch_given){o, typed, value};
    p->given = list;
}

static void read_value(launch_plan *p, const mega_option_row *o, const char *typed, const char *value)
{
    if (o->answer == MEGA_ANSWER_WORKS) note_option_again(p, o, typed, value);
    if (o->answer == MEGA_ANSWER_RENAMED && passes_rest(o)) pass_rest(p, typed, value);
    else if (o->answer == MEGA_ANSWER_RENAMED)
        pass_on(p, o->successor, value);
    else if (o->kind == MEGA_OPTION_INT)
        options_read_number(p, o, typed, value);
    else
        memcpy((char *)p + o->field, &value, sizeof value);
}

static void say_no_effect(const char *typed, const mega_option_row *o)
{
    fprintf(stderr, "megalith launch: %s has no effect here: %s\n", typed, o->remark);
}

/* Returns how many words of argv were used. */
static int read_option(launch_plan *p, char **argv)
{
    const char *value = NULL, *typed = argv[0];
    const mega_option_row *o = launch_option_find(p, typed, &value);
    if (o == NULL) {
        launch_option_unknown(p, typed);
        return 1;
    }
    if (o->answer == MEGA_ANSWER_REFUSED) {
        launch_mistake(p, "%.*s is not implemented: %s", (int)strcspn(typed, "="), typed, o->remark);
        return 1;
    }
    const bool has_effect = o->answer != MEGA_ANSWER_NO_EFFECT, is_flag = o->kind == MEGA_OPTION_FLAG;
    if (is_flag && value != NULL) {
        launch_mistake(p, "%s: this option takes no value; leave out =%s, or, to switch it off, all of it", typed,
                       value);
        return 1;
    }
    if (is_flag && o->answer == MEGA_ANSWER_WORKS) *(bool *)((char *)p + o->field) = true;
    if (is_flag && o->answer == MEGA_ANSWER_RENAMED) pass_on(p, o->successor, NULL);
    if (is_flag && !has_effect) say_no_effect(typed, o);
    if (is_flag) return 1;
    int used = 1;
    if (value == NULL) {
        if (argv[1] == NULL) {
            launch_mistake(p, "%s: its value is missing", typed);
            return 1;
        }
        value = argv[1];
        used = 2;
    }
    if (has_effect) read_value(p, o, typed, value);
    else
        say_no_effect(typed, o);
    return used;
}

/* Accelerate's --num_processes counts all ranks, by default on one machine. */
static void spread_processes(launch_plan *p)
{
    if (p->processes == 0) return;
    if (p->nodes == 0) p->nodes = 1;
    if (p->nproc > 0)
        launch_mistake(p, "--num_processes %lld and --nproc_per_node %lld both set the number of ranks; give one",
                       (long long)p->processes, (long long)p->nproc);
    if (p->processes % p->nodes != 0)
        launch_mistake(p, "--num_processes %lld cannot be spread evenly over %lld machines", (long long)p->processes,
                       (long long)p->nodes);
    p->nproc = p->processes / p->nodes;
}

/* Options passed on by launch precede those that the user gave the command, so the user's win. */
static void join_arguments(launch_plan *p, int argc, char **argv)
{
    p->args = argv;
    p->args_count = argc;
    if (p->passed.count == 0 && !p->passed.failed) return;
    char **all = mega_arena_alloc(&p->arena, ((size_t)p->passed.count + (size_t)argc + 1) * sizeof *all);
    if (all == NULL || p->passed.failed) {
        launch_mistake(p, "no memory for the %d words of the command", p->passed.count + argc);
        return;
    }
    p->args = all;
    if (p->own != NULL) { /* its first words are separate (own_words) */
        p->args_count = launch_program_arguments(p, argc, argv, all);
        return;
    }
    memcpy(all, p->passed.word, (size_t)p->passed.count * sizeof *all);
    memcpy(all + p->passed.count, argv, (size_t)argc * sizeof *all);
    p->args_count = p->passed.count + argc;
}

/* Of Accelerate's commands only `accelerate launch` and `accelerate config` (main.c) exist here. */
static bool is_other_accelerate(launch_plan *p, int argc, char **argv, int *at)
{
    const char *slash = strrchr(argv[0], '/');
    if (strcmp(slash != NULL ? slash + 1 : argv[0], "accelerate") != 0) return false;
    if (argc > 1 && strcmp(argv[1], "launch") == 0) *at = 2;
    if (*at == 2 || (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))) return false;
    launch_mistake(
        p,
        "accelerate %s: only accelerate launch and accelerate config exist here; give settings as options, and "
        "ask megalith plan for the memory",
        argc > 1 ? argv[1] : "");
    return true;
}

int mega_launch_python_words(int argc, char **argv)
{
    int n = 0;
    for (; n < argc; n++) {
        const char *slash = strrchr(argv[n], '/'), *name = slash != NULL ? slash + 1 : argv[n];
        const bool is_program = strncmp(name, "python", 6) == 0 || strcmp(name, "megalith") == 0;
        if (!is_program && strcmp(name, "-u") != 0 && strcmp(name, "-m") != 0) break;
    }
    return n;
}

/* The settings of a configuration become arguments of a program of the user's own; a script in Python has no such
 * options. */
static void pass_config(launch_plan *p, char **words, int python)
{
    const size_t n = strlen(words[0]);
    const bool is_python = (python > 0 && strncmp(mega_path_base(words[-python]), "python", 6) == 0) ||
                           (n > 3 && strcmp(words[0] + n - 3, ".py") == 0);
    if (!is_python) launch_config_pass(p);
    else
        fprintf(stderr,
                "megalith launch: %s gives ranks and hosts; its other settings do not reach %s, which runs in Python\n",
                p->config_file, words[0]);
}

/* Accelerate's --use_deepspeed alone means stage 2. A script in Python has no such option. */
static void pass_default_stage(launch_plan *p, int argc, char **argv)
{
    static const char *const others[] = {"--zero-stage", "--deepspeed_config", "--use-distributed-optimizer"};
    if (!p->use_deepspeed || p->says_zero_stage || p->is_python) return;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        for (int i = 0; i < argc; i++)
            if (strncmp(argv[i], "--", 2) == 0 && launch_is_same_option(argv[i], others[k])) return;
        for (int i = 0; i < p->passed.count; i++)
            if (strncmp(p->passed.word[i], "--", 2) == 0 && launch_is_same_option(p->passed.word[i], others[k])) return;
    }
    pass_on(p, "zero-stage", "2");
}

void launch_options_read(launch_plan *p, int argc, char **argv)
{
    int i = 1;
    p->node_rank = -1;
    p->is_accelerate = strcmp(mega_path_base(argv[0]), "accelerate") == 0;
    p->is_deepspeed = strcmp(mega_path_base(argv[0]), "deepspeed") == 0;
    if (is_other_accelerate(p, argc, argv, &i)) return;
    while (i < argc && argv[i][0] == '-') i += read_option(p, &argv[i]);
    if (!p->help) launch_config_read(p);
    const int python = mega_launch_python_words(argc - i, argv + i);
    i += python;
    if (p->help) return;
    spread_processes(p);
    if (i >= argc) {
        launch_mistake(p, "the command is missing: megalith launch --nproc_per_node 2 pretrain_gpt …");
        return;
    }
    p->command = launch_program_command(p, argv[i]);
    const bool is_launch = p->command != NULL && strcmp(p->command, "launch") == 0;
    if ((p->command == NULL || is_launch) && p->mistakes.size > 0) return; /* the word may be an option's value */
    if (p->command == NULL && p->config_file != NULL) pass_config(p, argv + i, python);
    if (p->command == NULL) launch_program_read(p, argv + i - python, python, argv[i]);
    else if (is_launch)
        launch_mistake(p, "launch starts a command or a program, not itself");
    if (p->own == NULL && p->config_file != NULL && mega_launch_config_of(argc - i, argv + i) == NULL)
        pass_on(p, "config_file", p->config_file);
    pass_default_stage(p, argc - i - 1, argv + i + 1);
    join_arguments(p, argc - i - 1, argv + i + 1);
}

static void help_rows(FILE *stream, const char *title, mega_option_answer answer)
{
    fprintf(stream, "\n%s\n", title);
    const mega_option_row *o;
    for (size_t i = 0; (o = row_at(i)) != NULL; i++) {
        if (o->answer != answer) continue;
        char usage[96];
        const size_t n = strcspn(o->name, "|");
        const char *other = o->name[n] == '|' ? o->name + n + 1 : NULL;
        const bool is_passed = answer == MEGA_ANSWER_RENAMED && !passes_rest(o);
        const bool has_value = answer == MEGA_ANSWER_WORKS || answer == MEGA_ANSWER_RENAMED;
        snprintf(usage, sizeof usage, "--%.*s%s", (int)n, o->name,
                 o->kind == MEGA_OPTION_INT                   ? " N"
                 : has_value && o->kind == MEGA_OPTION_STRING ? " VALUE"
                                                              : "");
        const char *text = answer == MEGA_ANSWER_WORKS ? o->help : is_passed ? o->successor : o->remark;
        fprintf(stream, "  %-33s %s%s", usage, is_passed ? "--" : "", text);
        while (other != NULL) {
            const size_t length = strcspn(other, "|");
            fprintf(stream, "%s%s%.*s", other == o->name + n + 1 ? " (also " : ", ", length == 1 ? "-" : "--",
                    (int)length, other);
            other = other[length] == '|' ? other + length + 1 : NULL;
            if (other == NULL) fputc(')', stream);
        }
        fputc('\n', stream);
    }
}

void mega_launch_help(FILE *stream)
{
    fputs("usage: megalith launch [OPTIONS] COMMAND|PROGRAM ARGS…\n\nstarts several ranks of a command, or of a "
          "program of "
          "your own, by mpirun, mpiexec or, in a Slurm allocation, srun\nalso: megalith torchrun, deepspeed, "
          "accelerate launch, -m "
          "torch.distributed.launch\n",
          stream);
    help_rows(stream, "options, before the command's name", MEGA_ANSWER_WORKS);
    help_rows(stream, "passed on to the command, as", MEGA_ANSWER_RENAMED);
    help_rows(stream, "accepted, without effect here", MEGA_ANSWER_NO_EFFECT);
    help_rows(stream, "refused", MEGA_ANSWER_REFUSED);
    fputs("\nexample\n  " MEGA_LAUNCH_EXAMPLE "\n", stream);
}
