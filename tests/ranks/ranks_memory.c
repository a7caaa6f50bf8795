/* Measures the memory of a rank with ZeRO from the creation of an engine of 60 million parameters through a step, and
 * compares it with the plan. Usage: ranks_memory STAGE [PIPELINE_STAGES CHUNKS]. Prints a line, and fails if the two
 * differ by more than 3 %. */
#include "engine_run.h"
#include "held.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "%s\n", mega_error_message());
    exit(1);
}

typedef struct setting {
    int zero, pp, chunks;
} setting;

static mega_gpt model(int chunks)
{
    mega_gpt gpt = engine_run_gpt();
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

/* Returns by how many percent the memory exceeds the plan. */
static double measure(mega_world *world, const setting *s)
{
    const mega_gpt gpt = model(s->chunks);
    const int ranks = mega_world_size(world);
    mega_team *team = NULL;
    mega_engine *e = NULL;
    mega_engine_memory m;
    mega_engine_options o = engine_run_options(2 * ranks, 1, 1e-4);
    const double before = held_bytes();
    need(mega_team_create(1, &team));
    o.batch.micro_step = ranks / s->pp;
    o.layout.pp = s->pp;
    o.compute = MEGA_BF16;
    o.team = team;
    o.world = world;
    o.no_evaluate = true;
    o.zero_stage = s->zero;
    o.bucket_elements = 10000000;
    o.place = (mega_place_options){s->zero > 0, 50000000, 1000000000, 1000000000};
    need(gpt_engine_create(&e, &gpt, &o));
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
    mega_team_destroy(team);
    return apart;
}

int main(int argc, char **argv)
{
    mega_world *world = NULL;
    const setting s = {argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1, argc > 3 ? atoi(argv[3]) : 1};
    need(mega_world_create(NULL, &world));
    const bool is_near = fabs(measure(world, &s)) <= 3;
    fflush(stdout);
    mega_world_destroy(world);
    return is_near ? 0 : 1;
}
