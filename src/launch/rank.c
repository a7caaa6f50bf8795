/* Binds a rank to cores. Open MPI and srun are told not to bind ranks, because they do not know how many threads a rank
 * starts. */
#include "launch_impl.h"
#include "megalith/record.h"
#include <sched.h>
#include <stdlib.h>

int launch_rank_local(void)
{
    static const char *const name[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        if (getenv(name[i]) != NULL) return atoi(getenv(name[i]));
    return -1;
}

static bool is_started_by_launcher(void)
{
    static const char *const sign[] = {"MEGA_LAUNCH", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sign / sizeof sign[0]; i++)
        if (getenv(sign[i]) != NULL) return true;
    return false;
}

bool mega_launch_was_used(void)
{
    return is_started_by_launcher() || getenv("MEGA_LAUNCH_ALONE") != NULL;
}

int mega_launched_ranks(int *rank)
{
    static const struct {
        const char *rank, *size;
    } of[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
              {"PMI_RANK", "PMI_SIZE"},
              {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
    *rank = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *number = getenv(of[i].rank), *size = getenv(of[i].size);
        if (number == NULL || size == NULL || atoi(size) < 2) continue;
        *rank = atoi(number);
        return atoi(size);
    }
    return 1;
}

int mega_launch_rank_number(void)
{
    int rank;
    mega_launched_ranks(&rank);
    return is_started_by_launcher() ? rank : -1;
}

void mega_launch_rank_mark(char out[3], int mark)
{
    const bool is_heard = getenv("MEGA_LAUNCH") != NULL;
    out[0] = is_heard ? LAUNCH_MARK : '\0';
    out[1] = (char)mark;
    out[2] = '\0';
}

int mega_launch_columns(void)
{
    const char *columns = getenv("MEGA_LAUNCH") != NULL ? getenv(LAUNCH_COLUMNS) : NULL;
    return columns != NULL && mega_launch_rank_number() <= 0 ? atoi(columns) : 0;
}

void mega_launch_rank_say(int mark)
{
    char text[3];
    FILE *to = mark == MEGA_MARK_ABORTS ? stderr : stdout;
    mega_launch_rank_mark(text, mark);
    if (text[0] == '\0') return;
    fprintf(to, "%s\n", text);
    fflush(to);
}

/* Only under megalith launch: rank n of k on a host takes the n-th of k equal shares of the cores. With more threads
 * than cores the operating system shares them out. */
void mega_launch_rank_begin(mega_world *world, int64_t num_threads)
{
    cpu_set_t all, mine;
    const int rank = launch_rank_local(), local_size = mega_world_local_size(world);
    if (getenv("MEGA_LAUNCH") == NULL || local_size <= 1 || rank < 0 || rank >= local_size) return;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return;
    const int cores = CPU_COUNT(&all), share = cores / local_size;
    if (share < 1 || num_threads > share) return;
    CPU_ZERO(&mine);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        if (seen >= rank * share && seen < (rank + 1) * share) CPU_SET(cpu, &mine);
        seen++;
    }
    if (sched_setaffinity(0, sizeof mine, &mine) == 0 && num_threads == 1) mega_world_narrowed(world);
}
