/* Hosts and ranks of a Slurm allocation, from the variables that sbatch and salloc set. What they do not say is a
 * mistake: a guess would start a run with fewer ranks than were allocated. */
#include "launch_impl.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct allocation {
    int64_t nodes;    /* 0: not given, as below */
    int64_t tasks;    /* --ntasks */
    int64_t per_node; /* --ntasks-per-node */
    /* the list SLURM_TASKS_PER_NODE */
    int64_t listed_nodes, listed_tasks;
    int64_t alike; /* tasks of every node, if all have as many */
} allocation;

bool launch_slurm_is_here(void)
{
    return getenv("SLURM_JOB_ID") != NULL || getenv("SLURM_JOBID") != NULL;
}

/* Reads a whole number; returns where it ends, or NULL. */
static const char *read_count(const char *at, int64_t *out)
{
    char *end = NULL;
    if (!isdigit((unsigned char)*at)) return NULL;
    *out = strtoll(at, &end, 10);
    return *out >= 1 && *out <= MEGA_LAUNCH_MOST_RANKS ? end : NULL;
}

/* The first of two variables that is set; older versions of Slurm set the other. */
static int64_t read_variable(launch_plan *p, const char *name, const char *older)
{
    int64_t n = 0;
    const char *text = getenv(name);
    if (text == NULL && older != NULL) text = getenv(name = older);
    if (text == NULL || text[0] == '\0') return 0;
    const char *end = read_count(text, &n);
    if (end != NULL && *end == '\0') return n;
    launch_mistake(p, "environment %s: found \"%s\", expected a whole number from 1 to %d", name, text,
                   MEGA_LAUNCH_MOST_RANKS);
    return 0;
}

/* "4(x2),3": four tasks on each of two nodes, then three on one. */
static void read_list(launch_plan *p, allocation *a)
{
    const char *text = getenv("SLURM_TASKS_PER_NODE"), *at = text;
    if (text == NULL || text[0] == '\0') return;
    int64_t first = 0;
    bool is_alike = true;
    for (;;) {
        int64_t tasks = 0, times = 1;
        at = read_count(at, &tasks);
        if (at != NULL && strncmp(at, "(x", 2) == 0) {
            at = read_count(at + 2, &times);
            at = at != NULL && *at == ')' ? at + 1 : NULL;
        }
        if (at == NULL || (*at != ',' && *at != '\0') || times * tasks > MEGA_LAUNCH_MOST_RANKS) {
            launch_mistake(p, "environment SLURM_TASKS_PER_NODE: found \"%s\", expected counts such as 4(x2),3", text);
            *a = (allocation){.nodes = a->nodes, .tasks = a->tasks, .per_node = a->per_node};
            return;
        }
        is_alike = is_alike && (first == 0 || tasks == first);
        first = tasks;
        a->listed_nodes += times;
        a->listed_tasks += tasks * times;
        if (*at++ == '\0') break;
    }
    a->alike = is_alike ? first : 0;
}

/* ---- the request ---- */

/* Hosts that --include or --exclude names; 0: a range such as n[1-3], which is not counted here. */
static int64_t hosts_named(const char *filter)
{
    int64_t n = 1;
    if (strpbrk(filter, "[]") != NULL) return 0;
    for (const char *c = filter; *c != '\0'; c++) n += *c == '@' || *c == ',';
    return n;
}

static void check_filter(launch_plan *p)
{
    const char *filter = p->include != NULL ? p->include : p->exclude;
    const char *option = p->include != NULL ? "--include" : "--exclude";
    if (filter == NULL) return;
    if (strchr(filter, ':') != NULL)
        launch_mistake(p, "%s %s: under Slurm only whole hosts can be chosen; leave the slots out", option, filter);
    const int64_t named = hosts_named(filter), all = p->nodes;
    p->nodes = p->include != NULL ? named : all - named;
    if (named == 0)
        launch_mistake(p, "%s %s: write each host by itself, HOST@HOST, so that the ranks can be counted", option,
                       filter);
    else if (all > 0 && (p->nodes < 1 || p->nodes > all))
        launch_mistake(p, "%s %s names %lld host%s, but the allocation has %lld", option, filter, (long long)named,
                       named == 1 ? "" : "s", (long long)all);
}

static void contradiction(launch_plan *p, const allocation *a)
{
    if (a->tasks > 0 && a->per_node > 0 && a->tasks > a->nodes * a->per_node)
        launch_mistake(p,
                       "the Slurm allocation contradicts itself: SLURM_NTASKS=%lld, but %lld nodes with "
                       "SLURM_NTASKS_PER_NODE=%lld; give --nproc_per_node N",
                       (long long)a->tasks, (long long)a->nodes, (long long)a->per_node);
    else if (a->tasks > 0 && a->tasks < a->nodes)
        launch_mistake(
            p,
            "Slurm gives SLURM_NTASKS=%lld, and %lld nodes (as within srun): how many ranks are wanted is not "
            "known; give --nproc_per_node N",
            (long long)a->tasks, (long long)a->nodes);
    else if (a->tasks == 0 && a->per_node == 0 && a->listed_nodes > 0 && a->listed_nodes != a->nodes)
        launch_mistake(p,
                       "the Slurm allocation contradicts itself: SLURM_TASKS_PER_NODE=%s is about %lld nodes, but "
                       "there are %lld; give --nproc_per_node N",
                       getenv("SLURM_TASKS_PER_NODE"), (long long)a->listed_nodes, (long long)a->nodes);
}

/* More than launch allows stays more, also as an int. */
static int at_most_int(int64_t ranks)
{
    return ranks > MEGA_LAUNCH_MOST_RANKS ? MEGA_LAUNCH_MOST_RANKS + 1 : (int)ranks;
}

/* Sets p->world, and p->nproc where each host has as many; *from: the variables that said it. */
static void count_ranks(launch_plan *p, const allocation *a, const char **from)
{
    const bool is_whole = p->nodes == a->nodes;
    const int64_t even = a->nodes > 0 && a->tasks % a->nodes == 0 ? a->tasks / a->nodes : 0;
    *from = NULL;
    if (p->nproc > 0) {
        p->world = at_most_int(p->nodes * p->nproc);
        return;
    }
    if (a->tasks > 0) *from = a->per_node > 0 ? "SLURM_NTASKS and SLURM_NTASKS_PER_NODE" : "SLURM_NTASKS";
    else if (a->per_node > 0)
        *from = "SLURM_NTASKS_PER_NODE";
    else if (a->listed_tasks > 0)
        *from = "SLURM_TASKS_PER_NODE";
    contradiction(p, a);
    if (a->tasks > 0) {
        const bool is_listed = a->listed_tasks == a->tasks && a->listed_nodes == a->nodes;
        p->nproc = is_listed ? a->alike : even;
    } else {
        p->nproc = a->per_node > 0 ? a->per_node : a->alike;
    }
    if (is_whole && *from != NULL)
        p->world = at_most_int(a->tasks > 0 ? a->tasks : a->per_node > 0 ? a->nodes * a->per_node : a->listed_tasks);
    else
        p->world = at_most_int(p->nodes * p->nproc);
    if (*from == NULL)
        launch_mistake(p, "the Slurm allocation does not say how many ranks each host has (none of SLURM_NTASKS, "
                          "SLURM_NTASKS_PER_NODE and SLURM_TASKS_PER_NODE is set); give --nproc_per_node N");
    else if (p->world == 0)
        launch_mistake(p,
                       "%lld of the allocation's %lld hosts are used, which have different numbers of tasks (%s=%s): "
                       "how many ranks that makes is not known; give --nproc_per_node N",
                       (long long)p->nodes, (long long)a->nodes,
                       a->listed_tasks > 0 ? "SLURM_TASKS_PER_NODE" : "SLURM_NTASKS",
                       getenv(a->listed_tasks > 0 ? "SLURM_TASKS_PER_NODE" : "SLURM_NTASKS"));
}

/* srun starts one component of such a job unless it is told of all. */
static void refuse_components(launch_plan *p)
{
    static const char *const name[] = {"SLURM_HET_SIZE", "SLURM_PACK_SIZE"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (getenv(name[i]) != NULL && atoi(getenv(name[i])) > 1) {
            launch_mistake(p,
                           "%s=%s: a heterogeneous job has an allocation for each component, and launch starts ranks "
                           "in one only. Start it as srun --het-group=0-%d --mpi=pmix megalith %s …, or allocate one "
                           "component",
                           name[i], getenv(name[i]), atoi(getenv(name[i])) - 1,
                           p->command != NULL ? p->command : "pretrain_gpt");
            return;
        }
}

/* accelerate's --num_processes N alone means one host, so that the others of an allocation would be idle without a
 * word. */
static void say_what_starts(const launch_plan *p, const allocation *a, const char *from)
{
    const char *ranks = p->world == 1 ? "" : "s", *say = from == NULL || strchr(from, ' ') != NULL ? "" : "s";
    if (from != NULL)
        fprintf(stderr, "megalith launch: Slurm: %d rank%s on %lld host%s, as %s say%s\n", p->world, ranks,
                (long long)p->nodes, p->nodes == 1 ? "" : "s", from, say);
    else if (p->nodes < a->nodes)
        fprintf(stderr, "megalith launch: Slurm: %d rank%s on %lld of the allocation's %lld hosts\n", p->world, ranks,
                (long long)p->nodes, (long long)a->nodes);
}

void launch_slurm_use(launch_plan *p)
{
    allocation a = {0};
    const char *from;
    p->kind = LAUNCH_SLURM;
    p->mpirun = launch_find_program(p, "srun");
    if (!launch_slurm_is_here())
        launch_mistake(p, "there is no Slurm allocation here (SLURM_JOB_ID is not set); sbatch or salloc creates one");
    if (p->mpirun == NULL)
        launch_mistake(p,
                       "srun is not on PATH, so the ranks of the Slurm allocation cannot be started. Add the folder "
                       "of srun to PATH; for ranks on this host alone give --nnodes 1 --nproc_per_node N, for others "
                       "a --hostfile");
    if (p->hostfile != NULL)
        launch_mistake(
            p, "--hostfile: the Slurm allocation determines the hosts; leave it out, or use --launcher openmpi");
    if (!launch_slurm_is_here()) return;
    refuse_components(p);
    a.nodes = read_variable(p, "SLURM_JOB_NUM_NODES", "SLURM_NNODES");
    a.tasks = read_variable(p, "SLURM_NTASKS", "SLURM_NPROCS");
    a.per_node = read_variable(p, "SLURM_NTASKS_PER_NODE", NULL);
    read_list(p, &a);
    if (a.nodes == 0) a.nodes = a.listed_nodes;
    if (p->mistakes.size > 0) return;
    if (p->nodes == 0) p->nodes = a.nodes;
    if (a.nodes > 0 && p->nodes > a.nodes)
        launch_mistake(p, "--nnodes %lld: the Slurm allocation has %lld host%s", (long long)p->nodes,
                       (long long)a.nodes, a.nodes == 1 ? "" : "s");
    check_filter(p);
    if (p->nodes == 0)
        launch_mistake(p, "the Slurm allocation does not say how many hosts it has (SLURM_JOB_NUM_NODES is not set); "
                          "give --nnodes N and --nproc_per_node N");
    if (p->mistakes.size > 0) return;
    count_ranks(p, &a, &from);
    if (p->mistakes.size == 0) say_what_starts(p, &a, from);
}

/* ---- in a rank ---- */

int launch_slurm_local_size(void)
{
    const char *node = getenv("SLURM_NODEID"), *at = getenv("SLURM_STEP_TASKS_PER_NODE");
    if (at == NULL) at = getenv("SLURM_TASKS_PER_NODE");
    int64_t before = 0, tasks = 0, times = 1;
    while (node != NULL && at != NULL && (at = read_count(at, &tasks)) != NULL) {
        times = 1;
        if (strncmp(at, "(x", 2) == 0) at = read_count(at + 2, &times);
        if (at != NULL && *at == ')') at++;
        before += times;
        if (atoi(node) < before) return (int)tasks;
        if (at == NULL || *at++ != ',') break;
    }
    return 0;
}
