/* Environment variables: the ones that the program reads (docs/environment.md is generated from the tables below), the
 * check that its own variables have valid values, and the variables that Python launchers set in the processes they
 * start. */
#include "config_impl.h"
#include "megalith/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN "MEGA_"

/* All of the program's own variables. An empty value means "not set". The module that reads a variable ignores a value
 * that is not listed here, so such values are rejected beforehand. */
static const struct {
    const char *name; /* the part after MEGA_ */
    const char *values;
    double least; /* smallest valid number; 0: the value is not a number */
    const char *expected;
    const char *fallback, *meaning; /* default and meaning, for docs/environment.md */
} variables[] = {
    {"CHECK", "0|1|2", 0, "0, 1 (check every result for what is not finite) or 2 (and every collective)", "0",
     "how much a run checks itself, which makes it slower. 1 looks for values that are not finite after every "
     "instruction (not among those that are infinite on purpose, nor in fp16 among gradients, which the loss scale "
     "multiplies); 2 also compares every collective between hosts, and the length of every message. An error then "
     "also says in which line of the source it was found"},
    /* an invalid value is rejected when ranks connect, before options are read */
    {"COMM", "mpi|shm", 0, NULL, "the faster way",
     "how the ranks of one host exchange data: over MPI, or through memory that they share. The bits are the same"},
    {"CUDA_LIBRARY", NULL, 0, NULL, "libcuda.so.1",
     "the library that `--device cuda` loads as NVIDIA's driver; tests name a software device"},
    {"GEMM", "", 0, "nothing: oneDNN is no longer part of the program (bench/bench_onednn.c compares with it)", "",
     "refused: it selected oneDNN for comparisons, which `bench/bench_onednn.c` now makes"},
    {"HOST_TIMEOUT", NULL, 1, "seconds, at least 1", "6",
     "after how many seconds without an answer another host is considered lost, which ends the run"},
    {"ISA", "portable|avx2|avx512|avx512_bf16|amx", 0, "portable, avx2, avx512, avx512_bf16 or amx",
     "all that the processor has", "the largest instruction set to compute with"},
    {"LAUNCH", NULL, 0, NULL, "", /* set by megalith launch */
     "set by `megalith launch` for the ranks that it starts; not for users"},
    {"LAUNCH_ALONE", NULL, 0, NULL, "", /* the same, where launch becomes the only rank */
     "set by `megalith launch` for a rank that has no others; not for users"},
    {"NCCL_LIBRARY", NULL, 0, NULL, "libnccl.so.2",
     "the library that ranks with GPUs load as NCCL; without it also that of NVIDIA's wheel is taken, where pip leaves "
     "it"},
    {"START_TIMEOUT", NULL, 1, "seconds, at least 1", "30",
     "after how many seconds `megalith launch` reports that not all ranks have joined. After a third of that time it "
     "ends a start that has failed"},
    {"TEST_HOSTS", NULL, 1, "a number of hosts, at least 1", "1",
     "for tests: the ranks of this host behave as if they were on this number of hosts"},
};

/* Variables of other programs that this program reads. */
static const struct {
    const char *names, *meaning;
} others[] = {
    {"OMP_NUM_THREADS", "threads of a process, where `--num-threads` is not given"},
    {"CUDA_VISIBLE_DEVICES", "which GPUs the driver shows to a program; `cuda:0` is the first of these"},
    {"PATH", "folders in which `mpirun`, `mpiexec`, `srun` and `ssh` are searched"},
    {"HF_HOME`, `XDG_CACHE_HOME`, `HOME",
     "where `megalith config` writes without `--config_file`: the first that is set, with the folders `accelerate`, "
     "`huggingface/accelerate`, `.cache/huggingface/accelerate`"},
    {"COLUMNS", "width of a plot that is not printed to a terminal"},
    {"TMPDIR", "folder for what compare_configurations writes and removes again; `/tmp` if it is not set"},
    {"NO_COLOR", "when set, a plot has no colours"},
    {"LC_ALL`, `LC_CTYPE`, `LANG",
     "the first that is set decides whether a plot may use characters that are not ASCII"},
    {"OMPI_COMM_WORLD_SIZE`, `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_LOCAL_RANK`, `OMPI_COMM_WORLD_LOCAL_SIZE",
     "set by Open MPI's `mpirun`: this process is a rank"},
    {"PMI_SIZE`, `PMI_RANK`, `PMI_FD`, `PMIX_RANK`, `MPI_LOCALRANKID`, `MPI_LOCALNRANKS",
     "the same, set by MPICH's `mpiexec` and by `srun`"},
    {"SLURM_JOB_ID`, `SLURM_JOBID`, `SLURM_JOB_NUM_NODES`, `SLURM_NNODES`, `SLURM_NTASKS`, `SLURM_NPROCS`, "
     "`SLURM_NTASKS_PER_NODE`, `SLURM_TASKS_PER_NODE`, `SLURM_HET_SIZE`, `SLURM_PACK_SIZE",
     "set by Slurm in an allocation: `megalith launch` then starts the ranks with `srun` and takes their number from "
     "these"},
    {"SLURM_STEP_NUM_TASKS`, `SLURM_PROCID`, `SLURM_LOCALID`, `SLURM_NODEID`, `SLURM_STEP_TASKS_PER_NODE",
     "set by `srun`: this process is a rank"},
    {"WORLD_SIZE`, `TORCHELASTIC_RUN_ID`, `CROSS_SIZE",
     "set by `torchrun` and `deepspeed`: a process that these started as one of several is refused, because each would "
     "do the whole run"},
};

mega_status mega_environment_page(mega_buffer *out)
{
    mega_buffer_puts(
        out,
        "# Environment variables\n\n"
        "Written by `megalith help --environment-page` from the tables in `src/config/environment.c`; do not edit by "
        "hand.\n\n"
        "## Variables of megalith\n\n"
        "An empty value means that the variable is not set. Every command refuses unknown values, together with the "
        "other mistakes, and warns about a name that is similar to one of these. `megalith launch` passes all of them "
        "on to the ranks of every host.\n\n"
        "| variable | values | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < ROW_COUNT(variables); i++) {
        mega_buffer_printf(out, "| `" OWN "%s` | ", variables[i].name);
        if (variables[i].values == NULL) mega_buffer_puts(out, variables[i].least > 0 ? variables[i].expected : "");
        for (const char *v = variables[i].values; v != NULL && *v != '\0'; v += *v == '|') {
            const size_t n = strcspn(v, "|");
            mega_buffer_printf(out, "%s`%.*s`", v > variables[i].values ? ", " : "", (int)n, v);
            v += n;
        }
        mega_buffer_printf(out, " | %s | %s |\n", variables[i].fallback, variables[i].meaning);
    }
    mega_buffer_puts(out,
                     "\n## Variables of other programs that megalith reads\n\n| variable | meaning |\n|---|---|\n");
    for (size_t i = 0; i < ROW_COUNT(others); i++)
        mega_buffer_printf(out, "| `%s` | %s |\n", others[i].names, others[i].meaning);
    mega_buffer_puts(out, "\nThe MPI library reads further variables; see its manual.\n");
    return mega_buffer_check(out, "the page of environment variables");
}

static bool is_known_value(size_t i, const char *value)
{
    double x;
    if (value[0] == '\0' || variables[i].expected == NULL) return true;
    if (variables[i].values != NULL) return mega_option_word_in(variables[i].values, value, NULL);
    return mega_value_float(value, &x) && x >= variables[i].least;
}

bool mega_environment_mistake(size_t *at, char *out, size_t size)
{
    while (*at < ROW_COUNT(variables)) {
        const size_t i = (*at)++;
        char name[32];
        snprintf(name, sizeof name, OWN "%s", variables[i].name);
        const char *value = getenv(name);
        if (value == NULL || is_known_value(i, value)) continue;
        snprintf(out, size, "%s=%s in the environment; expected %s", name, value, variables[i].expected);
        return true;
    }
    return false;
}

void mega_options_rule_environment(mega_options *o)
{
    char text[512];
    for (size_t at = 0; mega_environment_mistake(&at, text, sizeof text);) mega_options_mistake(o, "%s", text);
}

/* Warns only about names close to a known one: other names with the prefix MEGA_ belong to scripts
 * around the program. */
void options_note_environment_typos(void)
{
    const char *names[ROW_COUNT(variables)];
    for (size_t i = 0; i < ROW_COUNT(variables); i++) names[i] = variables[i].name;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        char name[64];
        if (strncmp(*e, OWN, sizeof OWN - 1) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        const char *typed = name + sizeof OWN - 1, *near = mega_options_nearest(typed, names, ROW_COUNT(variables));
        if (near != NULL && strcmp(near, typed) != 0)
            mega_warn("%s in the environment: nothing reads it; did you mean " OWN "%s?", name, near);
    }
}

/* RANK and WORLD_SIZE alone prove nothing, because shells, notebooks and job scripts export them too. */

const char *mega_options_python_launcher(const char **out_mark, int64_t *out_processes)
{
    static const struct {
        const char *mark, *launcher;
    } of[] = {{"TORCHELASTIC_RUN_ID", "torchrun"}, {"CROSS_SIZE", "deepspeed"}};
    static const char *const mpi[] = {"MEGA_LAUNCH", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    const char *world = getenv("WORLD_SIZE");
    if (world == NULL || !mega_value_int(world, out_processes) || *out_processes <= 1) return NULL;
    for (size_t i = 0; i < ROW_COUNT(mpi); i++)
        /* an MPI launcher started this process later, and it counts its ranks itself */
        if (getenv(mpi[i]) != NULL) return NULL;
    for (size_t i = 0; i < ROW_COUNT(of); i++) {
        if (getenv(of[i].mark) == NULL) continue;
        *out_mark = of[i].mark;
        return of[i].launcher;
    }
    return NULL;
}
