/* Measures how busy the cores of the first rank's host were in a log interval: other processes slow a run down, and
 * the log says so. All ranks of the host count as part of the run. */
#include "megalith/record.h"
#include "train_impl.h"

#define LEAST_S 1.0 /* shortest measurement in seconds: the error is then at most 2 % */

mega_status train_load_open(trainer *t)
{
    if (!train_is_first(t) || t->cfg->skip_train) return MEGA_OK;
    const int count = mega_world_local_size(t->world);
    int *pids = mega_calloc((size_t)count, sizeof *pids);
    if (pids == NULL) return MEGA_NO_MEMORY("training", "the ranks of a host");
    mega_status st = MEGA_OK;
    if (mega_world_host_processes(t->world, pids)) st = mega_cpu_meter_create(pids, count, &t->cpu.meter);
    mega_free(pids);
    return st;
}

/* Called at each log line. A line inside an interval shows the load since the interval's start, like all its other
 * sums. */
void train_load_read(trainer *t, bool is_last_of_interval)
{
    mega_cpu_load load;
    if (!mega_cpu_meter_read(t->cpu.meter, LEAST_S, &load)) return;
    t->cpu.load = load;
    t->cpu.is_new = true;
    if (is_last_of_interval) mega_cpu_meter_begin(t->cpu.meter);
}

int train_load_threads(const trainer *t)
{
    return mega_team_size(t->team) * mega_world_local_size(t->world);
}
