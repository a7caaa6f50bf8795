#include "budget.h"
#include "megalith/comm.h"

static double budget_megabytes(size_t bytes)
{
    return (double)bytes * 1e-6;
}

mega_status budget_check(size_t limit, const mega_engine *e, const char *what, const char *remedy)
{
    mega_engine_memory m;
    mega_engine_memory_get(e, &m);
    const size_t weights = m.weights + m.masters, programs = m.total - m.libraries - weights;
    const size_t process = mega_world_process_bytes(mega_engine_layout(e)->world.size, 1);
    const size_t total = weights + programs + process;
    if (limit == 0 || total <= limit) return MEGA_OK;
    const bool is_hopeless = weights + process > limit;
    if (is_hopeless) what = "reading the model";
    if (is_hopeless)
        remedy = "more ranks (--tensor-model-parallel-size, --pipeline-model-parallel-size; for experts "
                 "--expert-model-parallel-size)";
    return MEGA_FAIL(
        MEGA_ERR_MEMORY,
        "%s needs %.1f MB of memory (weights %.1f MB, programs %.1f MB, code and libraries %.1f MB) and may "
        "use %.1f MB (--memory-limit); raise it, or take %s",
        what, budget_megabytes(total), budget_megabytes(weights), budget_megabytes(programs), budget_megabytes(process),
        budget_megabytes(limit), remedy);
}
