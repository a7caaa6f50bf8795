/* What launchers of Python leave in the environment of the processes that they start. RANK and WORLD_SIZE alone say
 * nothing: shells, notebooks and job scripts export them. */
#include "config_impl.h"
#include <stdlib.h>

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
