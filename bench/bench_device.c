/* The host's work of a training step on a GPU: a GPT of 12 layers, with a driver that does nothing (null_cuda.c), so
 * that no GPU is needed and the driver's own work is left out. Milliseconds of a step, median of many; with graphs and
 * without, with one micro-batch a step and with eight. */
#include "bench_kit.h"
#include "megalith/command_options.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 12, HIDDEN = 768, HEADS = 12, SEQ = 1024, BATCH = 4, VOCAB = 50257, WARM = 4, STEPS = 101 };

typedef struct measured {
    double seconds[STEPS];
    uint64_t calls, allocations;
} measured;

static uint64_t calls_so_far(void)
{
    uint64_t (*calls)(void);
    void *symbol = dlsym(dlopen(MEGA_NULL_CUDA, RTLD_NOW), "mega_null_cuda_calls");
    if (symbol == NULL) abort();
    memcpy(&calls, &symbol, sizeof calls);
    return calls();
}

static mega_status step(mega_engine *e, double *seconds)
{
    mega_step_result result;
    bench_fill(e, mega_engine_batch(e), SEQ, VOCAB);
    const double began = mega_time_now();
    MEGA_TRY(mega_engine_train_batch(e, &result));
    *seconds = mega_time_now() - began;
    return MEGA_OK;
}

static mega_status measure(mega_engine *e, measured *out)
{
    for (int i = 0; i < WARM; i++) MEGA_TRY(step(e, &out->seconds[0]));
    out->calls = calls_so_far();
    out->allocations = mega_alloc_count();
    for (int i = 0; i < STEPS; i++) MEGA_TRY(step(e, &out->seconds[i]));
    out->calls = (calls_so_far() - out->calls) / STEPS;
    out->allocations = mega_alloc_count() - out->allocations;
    bench_sort(out->seconds, STEPS);
    return MEGA_OK;
}

static mega_status run(bool has_graphs, int64_t accumulate)
{
    const mega_transformer gpt = bench_gpt(LAYERS, HIDDEN, HEADS, SEQ, VOCAB);
    mega_command_options cfg;
    mega_engine_options o;
    MEGA_TRY(mega_command_options_init(&cfg));
    cfg.train.seq_length = SEQ;
    cfg.train.engine.optim.micro_batch_size = BATCH;
    cfg.train.engine.optim.global_batch_size = BATCH * accumulate;
    cfg.train.engine.optim.train_iters = 1000000;
    cfg.train.engine.optim.lr = 1e-4;
    cfg.train.engine.optim.lr_decay_style = MEGA_LR_CONSTANT;
    cfg.train.engine.optim.weight_decay = cfg.train.engine.optim.start_weight_decay =
        cfg.train.engine.optim.end_weight_decay = 0.1;
    cfg.train.engine.backend.params_dtype = MEGA_BF16;
    cfg.train.engine.backend.backend = MEGA_BACKEND_CUDA;
    MEGA_TRY(mega_train_engine_options(&cfg.train, &o));
    o.no_graphs = !has_graphs;
    o.no_evaluate = true;
    mega_engine *e = NULL;
    measured m;
    MEGA_TRY(gpt_engine_create(&e, &gpt, &o));
    mega_status st = mega_engine_allocate(e);
    if (st == MEGA_OK) st = mega_engine_initialize(e, 1);
    if (st == MEGA_OK) st = measure(e, &m);
    const mega_recorded r = mega_engine_recorded(e);
    if (st == MEGA_OK)
        printf("RESULT device_host_%s_%lld %.4f ms least %.4f; in a step: %llu calls of the driver, %llu allocations; "
               "%lld graphs with %lld launches\n",
               has_graphs ? "graphs" : "launches", (long long)accumulate, m.seconds[STEPS / 2] * 1e3,
               m.seconds[0] * 1e3, (unsigned long long)m.calls, (unsigned long long)m.allocations,
               (long long)r.recordings, (long long)r.launches);
    mega_engine_destroy(e);
    mega_command_options_fini(&cfg);
    return st;
}

int main(void)
{
    static const int64_t micro_batches[] = {1, 8};
    mega_status st = MEGA_OK;
    setenv("MEGA_CUDA_LIBRARY", MEGA_NULL_CUDA, 1);
    for (int i = 0; i < 4 && st == MEGA_OK; i++) st = run(i % 2 == 0, micro_batches[i / 2]);
    if (st != MEGA_OK) (void)fprintf(stderr, "error: %s\n", mega_error_message());
    return st == MEGA_OK ? 0 : 1;
}
