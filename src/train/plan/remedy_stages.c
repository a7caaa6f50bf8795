/* Plans a changed run as a whole: a rank of each of its pipeline stages. The one that needs most says whether the run
 * fits, and the slowest how long an iteration takes. */
#include "megalith/threads.h"
#include "train_impl.h"
#include <math.h>

/* Operations that take as long as one byte from memory, the same estimate for every machine: desktops and servers are
 * between 5 and 20. */
#define FLOPS_PER_BYTE 8.0

/* Returns how much faster bf16 GEMMs run than fp32 ones in practice, not at their peak. */
static double bf16_rate(void)
{
    const mega_isa isa = mega_cpu_isa();
    return isa >= MEGA_ISA_AMX ? 4 : isa == MEGA_ISA_AVX512_BF16 ? 2 : 1;
}

static double cost_of(const mega_engine *e, const mega_train_options *cfg, const mega_engine_memory *m)
{
    const mega_program *p = mega_engine_program(e, true);
    const double micro_batches = (double)(cfg->engine.optim.global_batch_size /
                                          (cfg->engine.optim.micro_batch_size * cfg->engine.data_parallel_size));
    const double rate = cfg->engine.backend.params_dtype == MEGA_BF16 ? bf16_rate() : 1;
    const double update = p == NULL ? 0 : (double)(2 * m->masters + m->gradients + 2 * m->moments + m->weights);
    /* GEMMs that use bf16 pairs read each weight and write it packed, for forward and for backward. */
    const double packing = rate > 1 ? 4.0 * (double)m->weights * (m->packed > 0 ? 1 : micro_batches) : 0;
    mega_program_cost c;
    if (p == NULL) p = mega_engine_program(e, false);
    if (p == NULL) return 0;
    mega_program_cost_get(p, &c);
    const double flops = c.forward_flops + c.backward_flops + c.recompute_flops;
    return micro_batches * (flops / rate + FLOPS_PER_BYTE * c.bytes) + FLOPS_PER_BYTE * (update + packing);
}

/* Adds a rank to the whole. Returns false if there is none. */
static bool add_rank(const trainer *t, const mega_train_options *cfg, const mega_task_model *network,
                     const mega_engine_options *o, train_whole_run *run)
{
    mega_engine *e = NULL;
    mega_engine_memory m = {0};
    if (train_create_engine(t, &e, network, o) != MEGA_OK) return false;
    mega_engine_memory_get(e, &m);
    const size_t bytes = train_memory_with_engine(t, &m);
    if (bytes > run->bytes) {
        run->bytes = bytes;
        run->stage = mega_engine_layout(e)->pp.rank;
    }
    run->cost = fmax(run->cost, cost_of(e, cfg, &m));
    mega_engine_destroy(e);
    return true;
}

bool train_plan_all_stages(const trainer *t, const mega_train_options *cfg, size_t enough, train_whole_run *run)
{
    mega_engine_options o;
    mega_task_model network = {.self = NULL};
    const int begin = run->stage;
    *run = (train_whole_run){.bytes = 0};
    if (mega_train_engine_options(cfg, &o) != MEGA_OK) return false;
    o.team = t->team;
    o.layout.planned_ranks = (int)cfg->engine.world_size;
    const int stages = (int)cfg->engine.comm.pipeline_model_parallel_size;
    bool is_valid = train_make_model(t, cfg, &network) == MEGA_OK;
    for (int i = 0; i < stages && is_valid && run->bytes <= enough; i++) {
        o.layout.planned_rank = (begin + i) % stages * (o.layout.planned_ranks / stages);
        is_valid = add_rank(t, cfg, &network, &o, run);
    }
    t->task->free_model(&network); /* was borrowed during the calls */
    return is_valid;
}
