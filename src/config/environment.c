/* The environment: what launchers of Python leave in that of the processes that they start, and whether the variables
 * of this program have values that it knows. */
#include "config_impl.h"
#include "megalith/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN "MEGA_"

/* Every variable that the program reads; "" is as good as none. The room that reads one takes a value that is not
 * listed here for none, so it is refused before. */
static const struct {
    const char *name; /* after MEGA_ */
    const char *values;
    double least; /* of a number; 0: it is none */
    const char *expected;
} variables[] = {
    {"CHECK", "0|1|2", 0, "0, 1 (check every result for what is not finite) or 2 (and every collective)"},
    {"COMM", NULL, 0, NULL}, /* refused when ranks meet, before options are read */
    {"GEMM", "", 0, "nothing: oneDNN is no longer part of the program (bench/bench_onednn.c compares with it)"},
    {"HOST_TIMEOUT", NULL, 1, "seconds, at least 1"},
    {"ISA", "portable|avx2|avx512|avx512_bf16|amx", 0, "portable, avx2, avx512, avx512_bf16 or amx"},
    {"LAUNCH", NULL, 0, NULL}, /* set by megalith launch */
    {"TEST_HOSTS", NULL, 1, "a number of hosts, at least 1"},
};

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

void mega_rule_environment(mega_config *cfg)
{
    char text[512];
    for (size_t at = 0; mega_environment_mistake(&at, text, sizeof text);)
        mega_config_problem(cfg, MEGA_ERR_USAGE, "%s", text);
}

/* Other names that begin so belong to scripts around the program. */
void mega_environment_note_typos(void)
{
    const char *names[ROW_COUNT(variables)];
    for (size_t i = 0; i < ROW_COUNT(variables); i++) names[i] = variables[i].name;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        char name[64];
        if (strncmp(*e, OWN, sizeof OWN - 1) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        const char *typed = name + sizeof OWN - 1, *near = mega_config_nearest(typed, names, ROW_COUNT(variables));
        if (near != NULL && strcmp(near, typed) != 0)
            mega_warn("%s in the environment: nothing reads it; did you mean " OWN "%s?", name, near);
    }
}

/* RANK and WORLD_SIZE alone say nothing: shells, notebooks and job scripts export them. */

const char *mega_config_python_launcher(const char **out_mark, int64_t *out_processes)
{
    static const struct {
        const char *mark, *launcher;
    } of[] = {{"TORCHELASTIC_RUN_ID", "torchrun"}, {"CROSS_SIZE", "deepspeed"}};
    static const char *const mpi[] = {"MEGA_LAUNCH", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    const char *world = getenv("WORLD_SIZE");
    if (world == NULL || !mega_value_int(world, out_processes) || *out_processes <= 1) return NULL;
    for (size_t i = 0; i < ROW_COUNT(mpi); i++)
        if (getenv(mpi[i]) != NULL) return NULL; /* started since by an MPI launcher, which counts its ranks itself */
    for (size_t i = 0; i < ROW_COUNT(of); i++) {
        if (getenv(of[i].mark) == NULL) continue;
        *out_mark = of[i].mark;
        return of[i].launcher;
    }
    return NULL;
}
