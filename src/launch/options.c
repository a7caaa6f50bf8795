/* The options of megalith launch: those of torch.distributed.launch, torchrun, deepspeed and accelerate launch, in one
 * table. Options about how to train, and not where to start, are passed on to the command. */
#include "launch_impl.h"
#include "megalith/config.h"
#include "megalith/file.h"
#include "megalith/threads.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum launch_option_kind {
    WORD,   /* takes a value */
    NUMBER, /* takes a whole number of at least `least` */
    FLAG,
    PASSED,       /* its value becomes that of an option of the command; `help` is that option's name */
    PASSED_FLAG,  /* becomes an option of the command; its value follows the '=' in `help` */
    PASSED_REST,  /* the rest of the name is an option of the command */
    IGNORED,      /* takes a value but has no effect here; `help` says why */
    IGNORED_FLAG, /* the same, without a value */
    REFUSED       /* `help` says what to do instead */
} launch_option_kind;

typedef struct launch_option {
    /* "name|other names", with underscores; a name that ends with * matches all names with that beginning */
    const char *names;
    launch_option_kind kind;
    size_t offset;
    int64_t least;
    const char *help;
} launch_option;

#define AT(field) offsetof(launch_plan, field)
#define BY_MPI    "ranks find each other through the MPI launcher"
#define OWN_CORES "each rank uses its share of the cores in any case"
#define COMPILED  "the program of a step is always compiled before the first step"

static const launch_option options[] = {
    {"nproc_per_node|num_gpus|num_accelerators", NUMBER, AT(nproc), 1,
     "ranks on each host; without it the slots of the hostfile, else 1. cpu, auto: one for each core of this host"},
    {"nnodes|num_nodes|num_machines", NUMBER, AT(nodes), 1,
     "hosts: the first N of the hostfile, or of the Slurm allocation"},
    {"num_processes", NUMBER, AT(processes), 1, "ranks on all hosts together (accelerate)"},
    {"node_rank|machine_rank", NUMBER, AT(node_rank), 0,
     "host 0 starts the ranks of all hosts; the others have nothing to do"},
    {"hostfile|H|mpirun_hostfile|deepspeed_hostfile", WORD, AT(hostfile), 0,
     "a line for each host: NAME slots=N; # begins a comment"},
    {"include|i|deepspeed_inclusion_filter", WORD, AT(include), 0, "only these: HOST[:SLOT,SLOT…][@HOST…]"},
    {"exclude|e|deepspeed_exclusion_filter", WORD, AT(exclude), 0, "all except these, written like --include"},
    {"log_dir|enable_each_rank_log", WORD, AT(log_dir), 0,
     "a file for each rank, DIR/rank_N.log; the terminal shows rank 0, the last rank and errors"},
    {"config_file", WORD, AT(config_file), 0,
     "a YAML or JSON of accelerate config: ranks and hosts, and settings of the command, where no option gives them"},
    {"max_restarts", NUMBER, AT(max_restarts), 0,
     "when a rank dies, restart from the last complete checkpoint of --save, at most N times"},
    {"launcher", WORD, AT(launcher), 0, "openmpi, mpich or slurm; default: the one that is installed"},
    {"master_port|main_process_port", NUMBER, AT(master_port), 0,
     "MASTER_PORT of a program of your own (29500); the MPI launcher itself finds free ports"},
    {"dry_run", FLAG, AT(dry_run), 0, "print the MPI launcher's command line and stop"},
    {"help|h", FLAG, AT(help), 0, "this page"},
    {"master_addr|main_process_ip", WORD, AT(master_addr), 0, "the name of host 0, for messages"},
    {"num_cpu_threads_per_process", PASSED, 0, 0, "num-threads"},
    {"mixed_precision", PASSED, 0, 0, "mixed-precision"},
    {"zero_stage", PASSED, 0, 0, "zero-stage"},
    {"gradient_accumulation_steps", PASSED, 0, 0, "gradient-accumulation-steps"},
    {"gradient_clipping", PASSED, 0, 0, "clip-grad"},
    {"offload_optimizer_device", PASSED, 0, 0, "offload-optimizer-device"},
    {"offload_param_device", PASSED, 0, 0, "offload-param-device"},
    {"deepspeed_config_file", PASSED, 0, 0, "deepspeed_config"},
    {"use_fsdp", PASSED_FLAG, 0, 0, "DDP-impl=FSDP"},
    {"megatron_lm_*", PASSED_REST, 0, 0,
     "becomes the command's option without megatron_lm_; true and false set a flag"},
    {"rdzv_backend", IGNORED, 0, 0, BY_MPI},
    {"rdzv_endpoint", IGNORED, 0, 0, BY_MPI},
    {"rdzv_id", IGNORED, 0, 0, BY_MPI},
    {"rdzv_conf", IGNORED, 0, 0, BY_MPI},
    {"standalone", IGNORED_FLAG, 0, 0, BY_MPI},
    {"local_addr", IGNORED, 0, 0, BY_MPI},
    {"same_network", IGNORED_FLAG, 0, 0, BY_MPI},
    {"monitor_interval", IGNORED, 0, 0, "the end of a rank is noticed at once"},
    {"start_method", IGNORED, 0, 0, "a rank is a program of its own"},
    {"role", IGNORED, 0, 0, "all ranks have the same role"},
    {"use_env", IGNORED_FLAG, 0, 0, "ranks get their number from the MPI launcher"},
    {"no_local_rank", IGNORED_FLAG, 0, 0, "ranks get their number from the MPI launcher"},
    {"no_python", IGNORED_FLAG, 0, 0, "a program is started as it is, a file NAME.py by python3"},
    {"module|m", FLAG, AT(is_module), 0, "the name of a module; for your own: python3 -m NAME"},
    {"no_ssh_check", IGNORED_FLAG, 0, 0, "the MPI launcher checks its hosts"},
    {"force_multi", IGNORED_FLAG, 0, 0, "one host and several are started the same way"},
    {"log_level", IGNORED, 0, 0, "--log-level of the command sets what is logged"},
    {"quiet|q", IGNORED_FLAG, 0, 0, "--log-level of the command sets what is logged"},
    {"redirects|r", REFUSED, 0, 0, "--log_dir DIR writes a file for each rank"},
    {"tee|t", REFUSED, 0, 0, "--log_dir DIR writes a file for each rank and shows rank 0, the last rank and errors"},
    {"local_ranks_filter", REFUSED, 0, 0, "with --log_dir DIR the terminal shows rank 0, the last rank and errors"},
    {"run_path", REFUSED, 0, 0, "name the script or the program itself"},
    {"duplicate_stdout_filters|duplicate_stderr_filters", REFUSED, 0, 0, "--log_dir DIR writes a file for each rank"},
    {"deepspeed_multinode_launcher", REFUSED, 0, 0,
     "--launcher openmpi, mpich or slurm; default: the one that is installed"},
    {"deepspeed_moe_layer_cls_names", REFUSED, 0, 0, "a mixture of experts is not implemented"},
    {"fsdp_*", REFUSED, 0, 0, "--use_fsdp shards weights, gradients and optimizer; leave its details out"},
    {"tpu|tpu_*", REFUSED, 0, 0, "ranks run on CPU cores"},
    {"logs_specs", REFUSED, 0, 0, "--log_dir DIR writes a file for each rank"},
    {"no_ssh", REFUSED, 0, 0, "name the hosts by --hostfile, or run inside a Slurm allocation"},
    {"ssh_port", REFUSED, 0, 0, "set it for the hosts in ~/.ssh/config (Port N)"},
    {"launcher_args", REFUSED, 0, 0, "set the MPI launcher's own variables (OMPI_MCA_…, HYDRA_…, SLURM_…, SRUN_…)"},
    {"elastic_training", REFUSED, 0, 0, "--max-restarts continues with the remaining hosts"},
    {"min_elastic_nodes", REFUSED, 0, 0, "--max-restarts continues with the remaining hosts"},
    {"max_elastic_nodes", REFUSED, 0, 0, "--max-restarts continues with the remaining hosts"},
    {"autotuning", REFUSED, 0, 0, "megalith plan shows what a layout needs"},
    {"bind_cores_to_rank|enable_cpu_affinity", IGNORED_FLAG, 0, 0, OWN_CORES},
    {"numa_binding", IGNORED, 0, 0, OWN_CORES},
    {"gpu|cuda|gpus", REFUSED, 0, 0, "ranks run on CPU cores; --nproc_per_node N says how many on each host"},
    {"cpu|use_cpu|multi_gpu", IGNORED_FLAG, 0, 0, "ranks run on CPU cores"},
    {"gpu_ids", IGNORED, 0, 0, "ranks run on CPU cores"},
    {"use_deepspeed", FLAG, AT(use_deepspeed), 0,
     "ZeRO stage 2, where no --zero_stage, configuration or DeepSpeed JSON says another (accelerate)"},
    {"use_megatron_lm|use_parallelism_config", IGNORED_FLAG, 0, 0, "one program does all of it"},
    {"zero3_init_flag|zero3_save_16bit_model", IGNORED, 0, 0,
     "each rank creates only its shard of the weights, and a "
     "checkpoint is always whole"},
    {"dynamo_use_fullgraph|dynamo_use_dynamic|dynamo_use_regional_compilation", IGNORED_FLAG, 0, 0, COMPILED},
    {"dynamo_*", IGNORED, 0, 0, COMPILED},
    {"debug", IGNORED_FLAG, 0, 0, "ranks compare their calls in any case"},
    {"event_log_handler", IGNORED, 0, 0, "--log_dir DIR writes a file for each rank"},
    {"signals_to_handle", IGNORED, 0, 0, "signals are passed on to the ranks in any case"},
    {"shutdown_timeout", IGNORED, 0, 0, "a rank that does not end is ended after 8 seconds"},
    {"virtual_local_rank", IGNORED_FLAG, 0, 0, "ranks get their number from the MPI launcher"},
    {"bind_core_list", REFUSED, 0, 0, "start megalith launch under taskset -c LIST"},
    {"venv_script", REFUSED, 0, 0, "ranks need no environment of Python"},
    {"save_pid", REFUSED, 0, 0, "the shell's $! holds the process id of megalith launch"},
};
#define OPTIONS (sizeof options / sizeof options[0])

static bool is_named(const char *names, const char *name)
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

bool mega_launch_knows(const char *name, size_t length)
{
    char plain[64];
    if (length < 2 || length >= sizeof plain) return false;
    for (size_t i = 0; i < length; i++) plain[i] = name[i] == '-' ? '_' : name[i];
    plain[length] = '\0';
    for (size_t i = 0; i < OPTIONS; i++)
        if (is_named(options[i].names, plain)) return true;
    return false;
}

/* Finds the option of "--nproc-per-node=2" by its name nproc_per_node; *out_value is the text after the '=', or
 * NULL. */
static const launch_option *launch_option_find(launch_plan *p, const char *typed, const char **out_value)
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
    for (size_t i = 0; i < OPTIONS; i++)
        if (is_named(options[i].names, name)) return &options[i];
    return NULL;
}

static void launch_option_unknown(launch_plan *p, const char *typed)
{
    const char *names[8 * OPTIONS];
    size_t count = 0;
    for (size_t i = 0; i < OPTIONS; i++)
        for (const char *at = options[i].names; *at != '\0' && count < 8 * OPTIONS;) {
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
static void read_number(launch_plan *p, const launch_option *o, const char *typed, const char *value)
{
    int64_t *field = (int64_t *)(void *)((char *)p + o->offset);
    const bool is_ranks = o->offset == AT(nproc);
    if (is_ranks && (strcmp(value, "cpu") == 0 || strcmp(value, "auto") == 0)) {
        *field = mega_cpu_count();
        return;
    }
    if (is_ranks && strcmp(value, "gpu") == 0) {
        launch_mistake(p, "%.*s gpu: there are no GPU ranks; give a number, or cpu for one rank per core",
                       (int)strcspn(typed, "="), typed);
        return;
    }
    char *end = NULL;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (o->offset == AT(nodes) && *end == ':' && end != value) {
        const long long most = strtoll(end + 1, &end, 10);
        if (*end == '\0' && most != n) {
            launch_mistake(p, "%s %s: a variable number of hosts is not supported; give one number", typed, value);
            return;
        }
    }
    if (end == value || *end != '\0' || errno != 0 || n < o->least || n > MEGA_LAUNCH_MOST_RANKS) {
        launch_mistake(p, "%s: found \"%s\", expected a whole number, at least %lld", typed, value,
                       (long long)o->least);
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
    const launch_option *o = typed != NULL ? launch_option_find(p, typed, &none) : NULL;
    if (o == NULL) return;
    const char *option = o->kind == PASSED ? o->help : o->kind == PASSED_REST ? name + strlen("megatron_lm_") : NULL;
    const char *word = option != NULL ? mega_arena_format(&p->arena, "--%s", option) : NULL;
    if (word == NULL) return;
    for (int i = 0; i < p->passed.count; i++)
        if (launch_is_same_option(p->passed.word[i], word)) return;
    if (o->kind == PASSED) pass_on(p, option, value);
    else
        pass_rest(p, typed, value);
}

static void read_value(launch_plan *p, const launch_option *o, const char *typed, const char *value)
{
    switch (o->kind) {
    case WORD: memcpy((char *)p + o->offset, &value, sizeof value); break;
    case NUMBER: read_number(p, o, typed, value); break;
    case PASSED: pass_on(p, o->help, value); break;
    case PASSED_REST: pass_rest(p, typed, value); break;
    case IGNORED: fprintf(stderr, "megalith launch: %s has no effect here: %s\n", typed, o->help); break;
    case FLAG:
    case PASSED_FLAG:
    case IGNORED_FLAG:
    case REFUSED: break; /* take no value */
    }
}

/* Returns how many words of argv were used. */
static int read_option(launch_plan *p, char **argv)
{
    const char *value = NULL, *typed = argv[0];
    const launch_option *o = launch_option_find(p, typed, &value);
    if (o == NULL) {
        launch_option_unknown(p, typed);
        return 1;
    }
    if (o->kind == REFUSED) {
        launch_mistake(p, "%.*s is not implemented: %s", (int)strcspn(typed, "="), typed, o->help);
        return 1;
    }
    if (o->kind == FLAG) *(bool *)((char *)p + o->offset) = true;
    if (o->kind == PASSED_FLAG) pass_on(p, o->help, NULL);
    if (o->kind == IGNORED_FLAG) fprintf(stderr, "megalith launch: %s has no effect here: %s\n", typed, o->help);
    if (o->kind == FLAG || o->kind == PASSED_FLAG || o->kind == IGNORED_FLAG) return 1;
    int used = 1;
    if (value == NULL) {
        if (argv[1] == NULL) {
            launch_mistake(p, "%s: its value is missing", typed);
            return 1;
        }
        value = argv[1];
        used = 2;
    }
    read_value(p, o, typed, value);
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

static void help_rows(FILE *stream, const char *title, launch_option_kind from, launch_option_kind to)
{
    fprintf(stream, "\n%s\n", title);
    for (size_t i = 0; i < OPTIONS; i++) {
        const launch_option *o = &options[i];
        if (o->kind < from || o->kind > to) continue;
        char usage[96];
        const size_t n = strcspn(o->names, "|");
        const char *other = o->names[n] == '|' ? o->names + n + 1 : NULL;
        const bool is_passed = o->kind == PASSED || o->kind == PASSED_FLAG;
        snprintf(usage, sizeof usage, "--%.*s%s", (int)n, o->names,
                 o->kind == NUMBER                                                ? " N"
                 : o->kind == WORD || o->kind == PASSED || o->kind == PASSED_REST ? " VALUE"
                                                                                  : "");
        fprintf(stream, "  %-33s %s%s", usage, is_passed ? "--" : "", o->help);
        while (other != NULL) {
            const size_t length = strcspn(other, "|");
            fprintf(stream, "%s%s%.*s", other == o->names + n + 1 ? " (also " : ", ", length == 1 ? "-" : "--",
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
    help_rows(stream, "options, before the command's name", WORD, FLAG);
    help_rows(stream, "passed on to the command, as", PASSED, PASSED_REST);
    help_rows(stream, "accepted, without effect here", IGNORED, IGNORED_FLAG);
    help_rows(stream, "refused", REFUSED, REFUSED);
    fputs("\nexample\n  " MEGA_LAUNCH_EXAMPLE "\n", stream);
}
