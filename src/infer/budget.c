#include "budget.h"
#include "megalith/comm.h"

static double megabytes(size_t bytes)
{
    return (double)bytes * 1e-6;
}

mega_status budget_check(size_t limit, const mega_params *params, const mega_program *const *program, int count,
                         const char *what, const char *remedy)
{
    const size_t weights = mega_params_bytes(params, MEGA_PARAMS_WEIGHTS);
    const size_t process = mega_world_process_bytes(mega_params_layout(params)->world.size);
    size_t programs = 0;
    for (int i = 0; i < count; i++) {
        mega_program_memory m;
        mega_program_memory_get(program[i], &m);
        programs += m.total_bytes + m.record_bytes;
    }
    const size_t total = weights + programs + process;
    if (limit == 0 || total <= limit) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_MEMORY,
        "%s needs %.1f MB of memory (weights %.1f MB, programs %.1f MB, code and libraries %.1f MB) and may "
        "use %.1f MB (--memory-limit); raise it, or take %s",
        what, megabytes(total), megabytes(weights), megabytes(programs), megabytes(process), megabytes(limit), remedy);
}
