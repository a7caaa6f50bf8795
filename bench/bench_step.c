/* A whole training step (forward, loss, backward, clip, AdamW) on random tokens, beside the machine's arithmetic peak.
 * bench/peers/torch_step.py times the same shapes in PyTorch.   bench_step [steps [shape [dtype [threads]]]]
 * shape: char, t64, t256, t1024 or all (which leaves out t1024, half a minute on two cores); dtype: fp32, bf16 or all.
 */
#include "megalith/engine.h"
#include "megalith/peak.h"
#include "megalith/philox.h"
#include "megalith/threads.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    const char *key, *name;
    int64_t layers, hidden, heads, vocab, batch, seq;
} shape;

static const shape shapes[] = {
    {"char", "char 4x128", 4, 128, 4, 128, 12, 64},
    {"t64", "gpt2 124M", 12, 768, 12, 50304, 4, 64},
    {"t256", "gpt2 124M", 12, 768, 12, 50304, 2, 256},
    {"t1024", "gpt2 124M", 12, 768, 12, 50304, 4, 1024},
};

static void fill(mega_batch *b, const shape *s)
{
    for (int64_t t = 0; t < b->rows * b->seq; t++) {
        const mega_philox r = mega_philox4x32((mega_philox){{(uint32_t)t, 0, 0, 0}}, 1, 2);
        b->tokens[t] = (int32_t)(r.v[0] % (uint32_t)s->vocab);
        b->labels[t] = (int32_t)(r.v[1] % (uint32_t)s->vocab);
        b->position_ids[t] = (int32_t)(t % b->seq);
        b->segment_start[t] = 0;
        b->loss_mask[t] = 1.0f;
    }
    for (int64_t row = 0; row < b->rows; row++) b->sample_id[row] = (uint32_t)row;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static mega_status time_steps(mega_engine *e, const shape *s, int steps, double *median, double *last_loss)
{
    double seconds[64];
    mega_step_result r = {0};
    for (int i = -2; i < steps; i++) { /* two to warm up */
        fill(mega_engine_batch(e), s);
        const double start = mega_time_now();
        MEGA_TRY(mega_engine_step(e, &r));
        if (i >= 0) seconds[i] = mega_time_now() - start;
    }
    qsort(seconds, (size_t)steps, sizeof *seconds, ascending);
    *median = seconds[steps / 2];
    *last_loss = r.loss;
    return MEGA_OK;
}

static mega_status run(const shape *s, mega_dtype dtype, mega_team *team, double peak, int steps)
{
    const mega_gpt gpt = {.num_layers = s->layers,
                          .hidden = s->hidden,
                          .ffn_hidden = 4 * s->hidden,
                          .heads = s->heads,
                          .head_dim = s->hidden / s->heads,
                          .positions = s->seq,
                          .vocab = s->vocab,
                          .padded_vocab = s->vocab,
                          .norm_epsilon = 1e-5,
                          .init_std = 0.02};
    mega_config cfg = {0};
    mega_engine *e = NULL;
    double median = 0.0, loss = 0.0;
    MEGA_TRY(mega_config_init(&cfg));
    cfg.micro_batch_size = cfg.global_batch_size = s->batch;
    cfg.seq_length = s->seq;
    cfg.train_iters = 1000;
    cfg.lr = 1e-4;
    cfg.start_weight_decay = cfg.end_weight_decay = cfg.weight_decay;
    cfg.params_dtype = dtype;
    mega_engine_options o;
    mega_status st = mega_engine_options_from_config(&o, &cfg);
    o.team = team;
    o.no_evaluate = true;
    if (st == MEGA_OK) st = mega_engine_create(&e, mega_engine_gpt(&gpt), &o);
    if (st == MEGA_OK) st = mega_engine_allocate(e);
    if (st == MEGA_OK) st = mega_engine_initialize(e, 1234);
    if (st == MEGA_OK) st = time_steps(e, s, steps, &median, &loss);
    if (st == MEGA_OK) {
        const double tokens = (double)(s->batch * s->seq),
                     rate = tokens / median * mega_gpt_flops_per_token(&gpt, s->seq);
        printf("%-12s B%-3lld T%-5lld %-5s %10.1f ms/step %10.0f tokens/s %8.1f GFLOP/s %6.1f %% of peak   loss %.4f\n",
               s->name, (long long)s->batch, (long long)s->seq, mega_dtype_name(dtype), median * 1e3, tokens / median,
               rate / 1e9, 100.0 * rate / peak, loss);
    }
    mega_engine_destroy(e);
    mega_config_fini(&cfg);
    return st;
}

static bool is_asked(const char *asked, const char *key)
{
    return strcmp(asked, key) == 0 || (strcmp(asked, "all") == 0 && strcmp(key, "t1024") != 0);
}

int main(int argc, char **argv)
{
    static const mega_dtype dtypes[] = {MEGA_F32, MEGA_BF16};
    static const char *const dtype_keys[] = {"fp32", "bf16"};
    const char *shape_key = argc > 2 ? argv[2] : "all", *dtype_key = argc > 3 ? argv[3] : "all";
    int steps = argc > 1 ? atoi(argv[1]) : 5, ran = 0;
    if (steps < 1 || steps > 64) steps = 5;
    mega_team *team = NULL;
    mega_status st = mega_team_create(&team, argc > 4 ? atoi(argv[4]) : mega_default_threads());
    for (size_t i = 0; st == MEGA_OK && i < sizeof shapes / sizeof *shapes; i++)
        for (int d = 0; st == MEGA_OK && d < 2; d++) {
            if (!is_asked(shape_key, shapes[i].key) || !is_asked(dtype_key, dtype_keys[d])) continue;
            st = run(&shapes[i], dtypes[d], team, mega_cpu_peak_flops(team, dtypes[d]), steps);
            fflush(stdout);
            ran++;
        }
    mega_team_destroy(team);
    if (st != MEGA_OK) fprintf(stderr, "bench_step: %s\n", mega_error_message());
    else if (ran == 0)
        fprintf(stderr, "bench_step: no shape %s with dtype %s\n", shape_key, dtype_key);
    return st == MEGA_OK && ran > 0 ? 0 : 1;
}
