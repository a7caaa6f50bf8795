/* Measures the memory of a rank with ZeRO from the creation of an engine of 60 million parameters through a step, and
 * compares it with the plan. Usage: ranks_memory STAGE [PIPELINE_STAGES CHUNKS [bf16]]. Prints a line, and fails if the
 * two differ by more than 3 %. bf16: gradients are held in it; also fails unless the plan has half of their memory, and
 * less in all, than with fp32. */
#include "engine_run.h"
#include "held.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct setting {
    int zero, pp, chunks;
    bool half;
} setting;

static mega_transformer model(int chunks)
{
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = 4;
    gpt.stage_chunks = chunks;
    gpt.hidden = 1024;
    gpt.ffn_hidden = 4096;
    gpt.heads = 16;
    gpt.head_dim = 64;
    gpt.padded_vocab = 10240;
    gpt.vocab = 10200;
    return gpt;
}

static void step(mega_engine *e)
{
    mega_batch *b = mega_engine_batch(e);
    mega_step_result r;
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) engine_run_fill(b, i, i);
    need(mega_engine_train_batch(e, &r));
}

static mega_engine *create(mega_world *world, mega_team *team, const setting *s, mega_dtype gradients)
{
    const mega_transformer gpt = model(s->chunks);
    const int ranks = mega_world_size(world);
    mega_engine *e = NULL;
    mega_engine_options o = engine_run_options(2 * ranks, 1, 1e-4);
    o.batch.micro_step = ranks / s->pp;
    o.layout.pp = s->pp;
    o.compute = MEGA_BF16;
    o.team = team;
    o.world = world;
    o.no_evaluate = true;
    o.zero_stage = s->zero;
    o.bucket_elements = 10000000;
    o.place = (mega_place_options){s->zero > 0, 50000000, 1000000000, 1000000000};
    o.grad_accum_dtype = gradients;
    need(gpt_engine_create(&e, &gpt, &o));
    return e;
}

/* A plan of less: `half` and the same engine with gradients in fp32, which is only planned. What is computed at one
 * time needs fp32 in both, so the total shrinks by less than the gradients do. */
static bool is_less(mega_world *world, mega_team *team, const setting *s, const mega_engine_memory *half)
{
    mega_engine *e = create(world, team, s, MEGA_F32);
    mega_engine_memory wide;
    mega_engine_memory_get(e, &wide);
    mega_engine_destroy(e);
    if (mega_world_rank(world) == 0)
        printf("gradients in bf16: %.1f MB of %.1f MB, planned in all %.1f MB of %.1f MB\n",
               (double)half->gradients * 1e-6, (double)wide.gradients * 1e-6, (double)half->total * 1e-6,
               (double)wide.total * 1e-6);
    return 2 * half->gradients == wide.gradients &&
           (double)half->total < (double)wide.total - 0.25 * (double)half->gradients;
}

/* Returns by how many percent the memory exceeds the plan; 100 if the plan is not what it should be. */
static double measure(mega_world *world, const setting *s)
{
    const int ranks = mega_world_size(world);
    mega_team *team = NULL;
    mega_engine_memory m;
    const double before = held_bytes();
    need(mega_team_create(1, &team));
    mega_engine *e = create(world, team, s, s->half ? MEGA_BF16 : MEGA_F32);
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1234));
    step(e);
    mega_engine_memory_get(e, &m);
    const double held = held_bytes() - before, apart = 100 * (held / (double)m.total - 1);
    if (mega_world_rank(world) == 0)
        printf("stage %d, %d ranks, %d pipeline stages of %d, %.1f million parameters: planned %.1f MB, held %.1f MB, "
               "%+.2f %%\n",
               s->zero, ranks, s->pp, s->chunks, (double)mega_params_local_count(mega_engine_params(e)) * 1e-6,
               (double)m.total * 1e-6, held * 1e-6, apart);
    mega_engine_destroy(e);
    const bool is_planned = !s->half || is_less(world, team, s, &m);
    mega_team_destroy(team);
    return is_planned ? apart : 100;
}

int main(int argc, char **argv)
{
    mega_world *world = NULL;
    const setting s = {argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1, argc > 3 ? atoi(argv[3]) : 1,
                       argc > 4};
    need(mega_world_create(NULL, &world));
    const bool is_near = fabs(measure(world, &s)) <= 3;
    fflush(stdout);
    mega_world_destroy(world);
    return is_near ? 0 : 1;
}
