/* The options of megalith launch: those of torch.distributed.launch, torchrun and deepspeed, in one table. */
#include "launch.h"
#include "megalith/config.h"
#include "megalith/threads.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum launch_option_kind {
    WORD,   /* a value */
    NUMBER, /* a whole number of `least` or more */
    FLAG,
    IGNORED,      /* a value, without effect here: help says why */
    IGNORED_FLAG, /* likewise, without a value */
    REFUSED       /* help says what to do */
} launch_option_kind;

typedef struct launch_option {
    const char *names; /* "name|other names", with underscores */
    launch_option_kind kind;
    size_t offset;
    int64_t least;
    const char *help;
} launch_option;

#define AT(field) offsetof(launch_plan, field)
#define BY_MPI    "ranks find each other through the engine that starts them"

static const launch_option options[] = {
    {"nproc_per_node|num_gpus|num_accelerators", NUMBER, AT(nproc), 1,
     "ranks on each host; without it the slots of the hostfile, else 1. cpu, auto: one for each core of this host"},
    {"nnodes|num_nodes", NUMBER, AT(nodes), 1, "hosts: the first N of the hostfile, or of the Slurm allocation"},
    {"node_rank", NUMBER, AT(node_rank), 0, "host 0 starts the ranks of all hosts; another has nothing to do"},
    {"hostfile|H", WORD, AT(hostfile), 0, "a line a host: NAME slots=N; # begins a comment"},
    {"include|i", WORD, AT(include), 0, "only these: HOST[:SLOT,SLOT…][@HOST…]"},
    {"exclude|e", WORD, AT(exclude), 0, "all but these, written like --include"},
    {"log_dir|enable_each_rank_log", WORD, AT(log_dir), 0,
     "a file for each rank, DIR/rank_N.log; the terminal shows rank 0, the last rank and errors"},
    {"max_restarts", NUMBER, AT(max_restarts), 0,
     "when a rank dies, start again from the last whole checkpoint of --save, this many times"},
    {"launcher", WORD, AT(launcher), 0, "openmpi, mpich or slurm; without it the one that is there"},
    {"dry_run", FLAG, AT(dry_run), 0, "print the engine's command and stop"},
    {"help|h", FLAG, AT(help), 0, "this page"},
    {"master_addr", WORD, AT(master_addr), 0, "the name of host 0, in what is printed"},
    {"master_port", IGNORED, 0, 0, "the engine finds free ports"},
    {"rdzv_backend", IGNORED, 0, 0, BY_MPI},
    {"rdzv_endpoint", IGNORED, 0, 0, BY_MPI},
    {"rdzv_id", IGNORED, 0, 0, BY_MPI},
    {"rdzv_conf", IGNORED, 0, 0, BY_MPI},
    {"standalone", IGNORED_FLAG, 0, 0, BY_MPI},
    {"local_addr", IGNORED, 0, 0, BY_MPI},
    {"monitor_interval", IGNORED, 0, 0, "a rank's end is seen at once"},
    {"start_method", IGNORED, 0, 0, "a rank is a program of its own"},
    {"role", IGNORED, 0, 0, "all ranks have the same role"},
    {"use_env", IGNORED_FLAG, 0, 0, "ranks get their number from the engine"},
    {"no_local_rank", IGNORED_FLAG, 0, 0, "ranks get their number from the engine"},
    {"no_python", IGNORED_FLAG, 0, 0, "no Python runs"},
    {"module|m", IGNORED_FLAG, 0, 0, "no Python runs"},
    {"no_ssh_check", IGNORED_FLAG, 0, 0, "the engine checks its hosts"},
    {"force_multi", IGNORED_FLAG, 0, 0, "one host and several are started alike"},
    {"log_level", IGNORED, 0, 0, "--log-level of the command sets what is told"},
    {"quiet|q", IGNORED_FLAG, 0, 0, "--log-level of the command sets what is told"},
    {"redirects|r", REFUSED, 0, 0, "--log_dir DIR writes a file for each rank"},
    {"tee|t", REFUSED, 0, 0, "--log_dir DIR writes a file for each rank and shows rank 0, the last rank and errors"},
    {"local_ranks_filter", REFUSED, 0, 0, "with --log_dir DIR the terminal shows rank 0, the last rank and errors"},
    {"run_path", REFUSED, 0, 0, "no Python runs; name the command"},
    {"logs_specs", REFUSED, 0, 0, "--log_dir DIR writes a file for each rank"},
    {"no_ssh", REFUSED, 0, 0, "name the hosts by --hostfile, or run inside a Slurm allocation"},
    {"ssh_port", REFUSED, 0, 0, "write it for the hosts in ~/.ssh/config (Port N)"},
    {"launcher_args", REFUSED, 0, 0, "set the engine's own variables (OMPI_MCA_…, HYDRA_…, SLURM_…, SRUN_…)"},
    {"elastic_training", REFUSED, 0, 0, "--max-restarts goes on with the hosts that are left"},
    {"min_elastic_nodes", REFUSED, 0, 0, "--max-restarts goes on with the hosts that are left"},
    {"max_elastic_nodes", REFUSED, 0, 0, "--max-restarts goes on with the hosts that are left"},
    {"autotuning", REFUSED, 0, 0, "megalith plan shows what a layout needs"},
    {"bind_cores_to_rank", IGNORED_FLAG, 0, 0, "each rank takes its share of the cores anyway"},
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
        if (strncmp(at, name, n) == 0 && (at[n] == '|' || at[n] == '\0')) return true;
    }
    return false;
}

/* "--nproc-per-node=2" → "nproc_per_node"; *out_value is behind the '=', or NULL. */
static const launch_option *find(launch_plan *p, const char *typed, const char **out_value)
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

static void unknown(launch_plan *p, const char *typed)
{
    const char *names[OPTIONS];
    for (size_t i = 0; i < OPTIONS; i++) {
        const size_t n = strcspn(options[i].names, "|");
        char *name = mega_arena_alloc(&p->arena, n + 1);
        names[i] = name != NULL ? memcpy(name, options[i].names, n) : "";
    }
    char *word = mega_arena_strdup(&p->arena, typed + strspn(typed, "-"));
    if (word == NULL) return;
    word[strcspn(word, "=")] = '\0';
    const char *near = mega_config_nearest(word, names, OPTIONS);
    launch_mistake(p,
                   "%.*s is not an option of launch%s%s%s; megalith launch --help lists them. Options of the command "
                   "stand behind its name",
                   (int)strcspn(typed, "="), typed, near != NULL ? "; did you mean --" : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

/* torchrun's "2:2" is 2; a range would be elastic. */
static void read_number(launch_plan *p, const launch_option *o, const char *typed, const char *value)
{
    int64_t *field = (int64_t *)(void *)((char *)p + o->offset);
    const bool is_ranks = o->offset == AT(nproc);
    if (is_ranks && (strcmp(value, "cpu") == 0 || strcmp(value, "auto") == 0)) {
        *field = mega_cpu_count();
        return;
    }
    char *end = NULL;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (o->offset == AT(nodes) && *end == ':' && end != value) {
        const long long most = strtoll(end + 1, &end, 10);
        if (*end == '\0' && most != n) {
            launch_mistake(p, "%s %s: a number of hosts that may change is not built; give one number", typed, value);
            return;
        }
    }
    if (end == value || *end != '\0' || errno != 0 || n < o->least || n > 1 << 20) {
        launch_mistake(p, "%s: found \"%s\", expected a whole number from %lld on%s", typed, value, (long long)o->least,
                       is_ranks && strcmp(value, "gpu") == 0 ? " (ranks run on cores: cpu takes one for each)" : "");
        return;
    }
    *field = n;
}

/* Returns how many words of argv were used. */
static int read_option(launch_plan *p, char **argv)
{
    const char *value = NULL, *typed = argv[0];
    const launch_option *o = find(p, typed, &value);
    if (o == NULL) {
        unknown(p, typed);
        return 1;
    }
    if (o->kind == REFUSED) {
        launch_mistake(p, "%.*s is not built: %s", (int)strcspn(typed, "="), typed, o->help);
        return 1;
    }
    if (o->kind == FLAG || o->kind == IGNORED_FLAG) {
        if (o->kind == FLAG) *(bool *)((char *)p + o->offset) = true;
        else
            fprintf(stderr, "megalith launch: %s has no effect here: %s\n", typed, o->help);
        return 1;
    }
    int used = 1;
    if (value == NULL) {
        if (argv[1] == NULL) {
            launch_mistake(p, "%s: its value is missing", typed);
            return 1;
        }
        value = argv[1];
        used = 2;
    }
    if (o->kind == IGNORED) fprintf(stderr, "megalith launch: %s has no effect here: %s\n", typed, o->help);
    else if (o->kind == NUMBER)
        read_number(p, o, typed, value);
    else
        memcpy((char *)p + o->offset, &value, sizeof value);
    return used;
}

/* "python -u", "megalith", "/opt/bin/python3": they may stand in front of the command. */
static bool is_first_word(const char *word)
{
    if (strcmp(word, "-u") == 0) return true;
    const char *slash = strrchr(word, '/'), *name = slash != NULL ? slash + 1 : word;
    return strncmp(name, "python", 6) == 0 || strcmp(name, "megalith") == 0;
}

void launch_options_read(launch_plan *p, int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-') i += read_option(p, &argv[i]);
    while (i < argc && is_first_word(argv[i])) i++;
    if (p->help) return;
    if (i >= argc) {
        launch_mistake(p, "the command is missing: megalith launch --nproc_per_node 2 pretrain_gpt …");
        return;
    }
    p->command = mega_config_command(argv[i]);
    const bool is_launch = p->command != NULL && strcmp(p->command, "launch") == 0;
    if ((p->command == NULL || is_launch) && p->mistakes.size > 0) return; /* it may be an option's value */
    if (p->command == NULL)
        launch_mistake(p,
                       "\"%s\" is not a command; expected pretrain_gpt (or pretrain_gpt.py). megalith help lists them",
                       argv[i]);
    else if (is_launch)
        launch_mistake(p, "launch starts a command, not itself");
    p->args = argv + i + 1;
    p->args_count = argc - i - 1;
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
        snprintf(usage, sizeof usage, "--%.*s%s", (int)n, o->names,
                 o->kind == NUMBER ? " N"
                 : o->kind == WORD ? " VALUE"
                                   : "");
        fprintf(stream, "  %-26s%s", usage, o->help);
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

void launch_help(FILE *stream)
{
    fputs("usage: megalith launch [OPTIONS] COMMAND ARGS…\n\nstarts several ranks of a command, by mpirun, mpiexec or, "
          "in a Slurm allocation, srun\n",
          stream);
    help_rows(stream, "options, in front of the command's name", WORD, FLAG);
    help_rows(stream, "accepted, without effect here", IGNORED, IGNORED_FLAG);
    help_rows(stream, "refused", REFUSED, REFUSED);
}
