/* Finds the MPI launcher that will start the ranks, the hosts, and the number of ranks. */
#include "launch_impl.h"
#include "megalith/comm.h"
#include "megalith/config.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_HOSTFILE "/job/hostfile" /* DeepSpeed's default path */

static const char *const kind_name[] = {"none", "openmpi", "mpich", "slurm"};
static const char *const kind_title[] = {"no MPI", "Open MPI", "MPICH", "Slurm"};

const char *launch_find_program(launch_plan *p, const char *name)
{
    const char *path = getenv("PATH");
    if (name[0] == '\0') return NULL;
    while (path != NULL && *path != '\0') {
        const size_t n = strcspn(path, ":");
        const char *full = mega_arena_format(&p->arena, "%.*s/%s", (int)n, path, name);
        struct stat it;
        if (full != NULL && access(full, X_OK) == 0 && stat(full, &it) == 0 && !S_ISDIR(it.st_mode)) return full;
        path += n + (path[n] == ':');
    }
    return NULL;
}

/* Returns the first words that `PROGRAM OPTION` prints. */
static void first_words(const char *program, const char *option, char *out, size_t size)
{
    char *command = mega_format("'%s' %s 2>&1 </dev/null", program, option);
    FILE *pipe = command != NULL ? popen(command, "r") : NULL;
    size_t used = pipe != NULL ? fread(out, 1, size - 1, pipe) : 0;
    out[used] = '\0';
    /* read to the end, so that the program does not write into a closed pipe */
    char rest[256];
    while (pipe != NULL && fread(rest, 1, sizeof rest, pipe) > 0) {
    }
    if (pipe != NULL) pclose(pipe);
    mega_free(command);
}

static int major_in(const char *text)
{
    const char *digit = strpbrk(text, "0123456789");
    return digit != NULL ? atoi(digit) : 0;
}

/* The kind of an mpirun or mpiexec, from its version text. */
static launch_kind mpirun_kind_of(const char *program, int *out_major)
{
    char text[1024];
    first_words(program, "--version", text, sizeof text);
    const char *at;
    *out_major = 0;
    if ((at = strstr(text, "Open MPI")) != NULL || (at = strstr(text, "OpenRTE")) != NULL) {
        *out_major = major_in(at);
        return LAUNCH_OPENMPI;
    }
    if (strstr(text, "prterun") != NULL || strstr(text, "PRRTE") != NULL) {
        *out_major = 5;
        return LAUNCH_OPENMPI;
    }
    if (strstr(text, "HYDRA") != NULL || strstr(text, "Intel(R) MPI") != NULL) return LAUNCH_MPICH;
    return LAUNCH_NONE;
}

/* The kind of the MPI library in this program. */
static launch_kind kind_built(void)
{
    char text[160];
    mega_world_transport(text, sizeof text);
    return strncmp(text, "none", 4) == 0      ? LAUNCH_NONE
           : strstr(text, "Open MPI") != NULL ? LAUNCH_OPENMPI
                                              : LAUNCH_MPICH;
}

/* Finds the launcher of this kind, whatever its name; several MPI libraries may be installed side by side. */
static void find_mpi(launch_plan *p, launch_kind wanted)
{
    static const char *const names[] = {"mpirun",        "mpiexec",      "mpirun.openmpi", "mpiexec.openmpi",
                                        "mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"};
    const char *other = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int major;
        const char *program = launch_find_program(p, names[i]);
        if (program == NULL) continue;
        if (mpirun_kind_of(program, &major) != wanted) {
            if (other == NULL) other = program;
            continue;
        }
        p->kind = wanted;
        p->mpirun = program;
        p->major = major;
        return;
    }
    const char *package = wanted == LAUNCH_OPENMPI ? "openmpi-bin" : "mpich";
    if (other != NULL)
        launch_mistake(
            p, "this megalith needs the mpirun of %s, but %s belongs to another MPI. Install %s (apt-get install %s)",
            kind_title[wanted], other, package, package);
    else
        launch_mistake(p, "found no mpirun or mpiexec on PATH; install one (apt-get install %s)", package);
}

static launch_kind kind_asked(launch_plan *p)
{
    static const struct {
        const char *name;
        launch_kind kind;
    } names[] = {{"openmpi", LAUNCH_OPENMPI}, {"mpich", LAUNCH_MPICH}, {"impi", LAUNCH_MPICH}, {"slurm", LAUNCH_SLURM}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(p->launcher, names[i].name) == 0) return names[i].kind;
    launch_mistake(p, "--launcher %s is not supported; expected openmpi, mpich or slurm", p->launcher);
    return LAUNCH_NONE;
}

static int64_t environment_number(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    const long long n = text != NULL ? atoll(text) : 0;
    return n > 0 ? n : otherwise;
}

static void hosts_are_missing(launch_plan *p)
{
    const long long ranks = p->nproc > 0 ? p->nproc : 1;
    mega_buffer lines = {0};
    for (int64_t i = 0; i < p->nodes && i < 8; i++) {
        if (i == 0 && p->master_addr != NULL) mega_buffer_printf(&lines, " '%s slots=%lld'", p->master_addr, ranks);
        else
            mega_buffer_printf(&lines, " 'HOST%lld slots=%lld'", (long long)i, ranks);
    }
    launch_mistake(
        p,
        "--nnodes %lld: the hosts are not known. Write their names to a file and start on the first of them only:\n"
        "    printf '%%s\\n'%s%s > hostfile\n"
        "    megalith launch --hostfile hostfile --nproc_per_node %lld %s …\n"
        "or run inside a Slurm allocation (sbatch, salloc)",
        (long long)p->nodes, lines.data != NULL ? lines.data : "", p->nodes > 8 ? " …" : "", ranks,
        p->command != NULL ? p->command : "pretrain_gpt");
    mega_buffer_fini(&lines);
}

static void read_hosts(launch_plan *p)
{
    const bool filtered = p->include != NULL || p->exclude != NULL;
    if (p->hostfile == NULL && (filtered || p->nodes > 1 || p->is_deepspeed) && mega_file_exists(DEFAULT_HOSTFILE))
        p->hostfile = DEFAULT_HOSTFILE;
    if (p->hostfile == NULL) {
        if (filtered)
            launch_mistake(
                p,
                "%s chooses hosts and slots of a --hostfile, but none is given; to use only this machine give "
                "the number of ranks: --nproc_per_node N (or --num_gpus N)",
                p->include != NULL ? "--include" : "--exclude");
        if (p->nodes > 1) hosts_are_missing(p);
        p->world = p->nproc > 0 ? (int)p->nproc : 1;
        return;
    }
    char *text = NULL;
    if (mega_file_read_kind(p->hostfile, "lines \"HOST slots=N\"", 0, &text, NULL) != MEGA_OK) {
        launch_mistake(p, "--hostfile: %s", mega_error_message());
        return;
    }
    launch_hosts_read(p, p->hostfile, text);
    mega_free(text);
    if (p->mistakes.size == 0) launch_hosts_filter(p);
    for (int i = 0; i < p->hosts; i++) p->world += p->host[i].ranks;
}

/* If one of several ranks called launch again, it would start the whole run, and so would each of the others. */
static void refuse_nesting(launch_plan *p)
{
    static const char *const sign[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sign / sizeof sign[0]; i++) {
        if (environment_number(sign[i], 1) == 1) continue;
        launch_mistake(
            p,
            "%s=%s is set: a launcher has already started this process as one of several. Use only one launcher: "
            "either mpirun -n N %s%s …, or megalith launch",
            sign[i], getenv(sign[i]), p->own != NULL ? "" : "megalith ",
            p->command != NULL ? p->command : "pretrain_gpt");
        return;
    }
    const char *mark;
    int64_t processes;
    const char *launcher = mega_options_python_launcher(&mark, &processes);
    if (launcher != NULL)
        launch_mistake(p,
                       "environment %s: %s started this process as one of %lld, and each would start the whole run. "
                       "Leave %s out, or unset %s",
                       mark, launcher, (long long)processes, launcher, mark);
}

/* Also for one rank, which no launcher starts: the same words for more ranks would start none. */
static void refuse_other_launcher(launch_plan *p, launch_kind asked, launch_kind built)
{
    if (asked != LAUNCH_NONE && asked != built && !p->dry_run)
        launch_mistake(p, "--launcher %s: this megalith was built with %s", kind_name[asked], kind_title[built]);
}

void launch_mpirun_find(launch_plan *p)
{
    const launch_kind asked = p->launcher != NULL ? kind_asked(p) : LAUNCH_NONE, built = kind_built();
    refuse_nesting(p);
    if (p->include != NULL && p->exclude != NULL)
        launch_mistake(p, "--include and --exclude cannot be combined; give one");
    if ((p->include != NULL || p->exclude != NULL) && (p->nproc > 0 || p->nodes > 0))
        launch_mistake(p, "--include and --exclude already determine the ranks; leave out --num_nodes (--nnodes) and "
                          "--num_gpus (--nproc_per_node)");
    const bool in_slurm = launch_slurm_is_here() && p->hostfile == NULL;
    /* What the user says of this host alone needs no srun. */
    const int64_t nodes = p->nodes > 0 ? p->nodes : environment_number("SLURM_JOB_NUM_NODES", 0);
    const bool says_here = nodes == 1 && p->nproc > 0 && launch_find_program(p, "srun") == NULL;
    if (asked == LAUNCH_SLURM || (in_slurm && p->launcher == NULL && !says_here)) {
        launch_slurm_use(p);
        return;
    }
    if (in_slurm && p->nproc == 0)
        launch_mistake(p,
                       "--launcher %s: in a Slurm allocation the number of ranks comes from --nproc_per_node N, or "
                       "hosts and ranks from a --hostfile; give one, or leave --launcher out for srun",
                       p->launcher);
    read_hosts(p);
    launch_hosts_check(p, asked != LAUNCH_NONE ? asked : built);
    refuse_other_launcher(p, asked, built);
    if (p->mistakes.size > 0 || (p->world == 1 && launch_hosts_are_here(p)))
        return; /* one rank here needs no MPI launcher */
    const launch_kind wanted = asked != LAUNCH_NONE ? asked : built;
    if (wanted == LAUNCH_NONE)
        launch_mistake(p, "this megalith was built without MPI, so there is one rank, on this machine; install "
                          "libopenmpi-dev or libmpich-dev and build again");
    else
        find_mpi(p, wanted);
}
