/* Measures updates of the parameters of GPT-2 124M by several optimizers, in fp32 on one rank, without forward and
 * backward. Run by `make bench only=optimizer`, which also measures whole steps with Muon (bench_step … muon).
 *
 *   update_NAME_124m_of_copy     bytes that the update reads and writes (the update program's own count) per second,
 *                                over those of a memory copy of as many bytes
 *   muon_products_of_best_gemm   FLOP/s of orthogonalizing the 48 matrices, all of it counted as the time of the
 *                                products, over the fastest product of the step's shapes, which runs for some seconds
 *                                before and after: on a machine that is not quiet, the best of a few short runs is not
 *                                what a longer one reaches
 *
 * Both sides of a ratio are measured in turns; a line for each turn. */
#include "bench_kit.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "megalith/update.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 12, WIDTH = 768, TURNS = 7, COPIED = 512 << 20 };

typedef struct setup {
    mega_team *team;
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update;
    void *scratch;
    size_t scratch_bytes;
} setup;

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "bench_optimizer: %s\n", mega_error_message());
    exit(1);
}

static void add(setup *s, const char *name, int layer, int64_t rows, int64_t cols, int blocks)
{
    int index;
    mega_param p = {.num_dims = cols > 0 ? 2 : 1,
                    .shape = {rows, cols > 0 ? cols : 1},
                    .true_shape = {rows, cols > 0 ? cols : 1},
                    .weight_decay = cols > 0};
    snprintf(p.name, sizeof p.name, "h.%d.%s", layer, name);
    mega_param_set_blocks(&p, blocks);
    need(mega_params_add(s->params, &p, &index));
    if (layer < 0) mega_params_note_table(s->params, index);
}

static void add_all(setup *s)
{
    add(s, "wte", -1, 50304, WIDTH, 1);
    add(s, "wpe", -1, 1024, WIDTH, 1);
    for (int i = 0; i < LAYERS; i++) {
        add(s, "attn", i, 3 * (int64_t)WIDTH, WIDTH, 3);
        add(s, "attn.bias", i, 3 * (int64_t)WIDTH, 0, 3);
        add(s, "proj", i, WIDTH, WIDTH, 1);
        add(s, "up", i, 4 * (int64_t)WIDTH, WIDTH, 1);
        add(s, "up.bias", i, 4 * (int64_t)WIDTH, 0, 1);
        add(s, "down", i, WIDTH, 4 * (int64_t)WIDTH, 1);
    }
}

/* Weights and gradients are random: a regular pattern would need less power, and so run faster. */
static void open_setup(setup *s, mega_team *team, mega_optimizer_kind kind)
{
    const mega_optimizer_options o = {.kind = kind,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .eps = 1e-8,
                                      .max_coeff = 10,
                                      .min_coeff = 0.01,
                                      .muon_momentum = 0.95,
                                      .muon_nesterov = true,
                                      .muon_split = true,
                                      .muon_steps = 5,
                                      .muon_coefficients = MEGA_MUON_QUINTIC,
                                      .muon_scale = MEGA_MUON_SPECTRAL,
                                      .muon_extra_scale = 0.2,
                                      .queue = {.team = team}};
    *s = (setup){.team = team};
    need(mega_layout_create(NULL, NULL, &s->layout));
    need(mega_params_create(s->layout, &s->params));
    add_all(s);
    need(mega_params_place(s->params, MEGA_F32, 0));
    need(mega_params_allocate(s->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_optimizer_create(s->params, s->layout, &o, &s->optimizer));
    need(mega_optimizer_allocate(s->optimizer));
    need(mega_update_create(s->optimizer, &(mega_update_options){0}, &s->update));
    s->scratch_bytes = mega_update_scratch_bytes(s->update);
    if (s->scratch_bytes > 0) need(mega_pages_alloc(&s->scratch, s->scratch_bytes, "scratch"));
    mega_update_allocate(s->update, s->scratch);
    uint64_t random = 1;
    float *weight = mega_params_flat_weight(s->params), *gradient = mega_params_flat_grad(s->params);
    for (int64_t i = 0; i < mega_params_elements(s->params); i++) {
        random = random * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        weight[i] = (float)(random >> 40) * 0x1p-24f - 0.5f;
        gradient[i] = (float)(random >> 16 & 0xffffff) * 0x1p-30f;
    }
}

static void close_setup(setup *s)
{
    mega_update_destroy(s->update);
    mega_optimizer_destroy(s->optimizer);
    mega_params_destroy(s->params);
    mega_layout_destroy(s->layout);
    if (s->scratch != NULL) mega_pages_free(s->scratch, s->scratch_bytes);
}

static double update_seconds(setup *s)
{
    *mega_update_step_block(s->update) = (mega_update_step){.correction = 1, .lr = 1e-4, .weight_decay = 0.1};
    const double start = mega_time_now();
    need(mega_update_run(s->update, MEGA_UPDATE_APPLY));
    return mega_time_now() - start;
}

/* ---- the machine ---- */

typedef struct copy_job {
    char *to, *from;
} copy_job;

static void copy_part(void *user, int thread, int64_t begin, int64_t end)
{
    const copy_job *c = user;
    (void)thread;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* Bytes read and written per second. */
static double copy_rate(mega_team *team, copy_job *c)
{
    const double start = mega_time_now();
    mega_team_for(team, COPIED, 1 << 20, copy_part, c);
    return 2.0 * COPIED / (mega_time_now() - start);
}

enum { SHAPES = 5, PRODUCTS = 10 };

/* FLOP/s of `count` products of a step of B=4, T=1024, one after another. */
static double product_rate(mega_team *team, float *memory, int which, int count)
{
    static const int64_t shape[SHAPES][3] = {
        {4096, 2304, 768}, {4096, 768, 768}, {4096, 3072, 768}, {4096, 768, 3072}, {3072, 768, 4096}};
    const int64_t m = shape[which][0], n = shape[which][1], k = shape[which][2];
    mega_gemm_args a = {.head = {.dtype = MEGA_F32}, .m = m, .n = n, .k = k, .trans_b = true, .c_dtype = MEGA_F32};
    a.lda = a.ldb = k, a.ldc = n;
    a.a = memory;
    a.b = memory + m * k;
    a.c = memory + m * k + n * k;
    a.head.scratch = memory + m * k + n * k + m * n;
    const double start = mega_time_now();
    for (int i = 0; i < count; i++) mega_cpu_gemm.run(&(mega_queue){.team = team}, &a);
    return 2.0 * count * (double)(m * n * k) / (mega_time_now() - start);
}

static int fastest_product(mega_team *team, float *memory)
{
    int best = 0;
    double rate[SHAPES] = {0};
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < SHAPES; i++) rate[i] = fmax(rate[i], product_rate(team, memory, i, 1));
    for (int i = 1; i < SHAPES; i++) best = rate[i] > rate[best] ? i : best;
    return best;
}

/* ---- figures ---- */

static void measure_traffic(mega_team *team, mega_optimizer_kind kind, copy_job *copy)
{
    setup s;
    mega_update_cost cost;
    open_setup(&s, team, kind);
    mega_update_cost_get(s.update, &cost);
    update_seconds(&s); /* touches the states */
    for (int i = 0; i < TURNS; i++) {
        const double before = copy_rate(team, copy), seconds = update_seconds(&s);
        const double machine = fmax(before, copy_rate(team, copy));
        printf("RESULT update_%s_124m_of_copy %.4f ratio %.1f GB/s of %.1f, fp32 states\n",
               mega_optimizer_kind_name(kind), cost.bytes / seconds / machine, cost.bytes / seconds * 1e-9,
               machine * 1e-9);
        fflush(stdout);
    }
    close_setup(&s);
}

static void measure_products(mega_team *team, float *memory)
{
    setup s;
    mega_update_cost cost;
    open_setup(&s, team, MEGA_OPTIMIZER_MUON);
    mega_update_cost_get(s.update, &cost);
    update_seconds(&s);
    const int best = fastest_product(team, memory);
    for (int i = 0; i < TURNS; i++) {
        const double before = product_rate(team, memory, best, PRODUCTS), seconds = update_seconds(&s);
        const double machine = (before + product_rate(team, memory, best, PRODUCTS)) / 2;
        printf("RESULT muon_products_of_best_gemm %.4f ratio %.1f GFLOP/s of %.1f, the whole update of %.2f s\n",
               cost.flops / seconds / machine, cost.flops / seconds * 1e-9, machine * 1e-9, seconds);
        fflush(stdout);
    }
    close_setup(&s);
}

int main(void)
{
    mega_team *team;
    void *memory = NULL;
    const size_t bytes = 2 * (size_t)COPIED;
    need(mega_team_create(mega_default_threads(), &team));
    need(mega_pages_alloc(&memory, bytes, "copies"));
    float *numbers = memory;
    uint64_t random = 7;
    for (size_t i = 0; i < bytes / sizeof *numbers; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = (float)(random >> 40) * 0x1p-24f - 0.5f;
    }
    measure_products(team, numbers);
    copy_job copy = {(char *)memory + COPIED, memory};
    measure_traffic(team, MEGA_OPTIMIZER_ADAM, &copy);
    measure_traffic(team, MEGA_OPTIMIZER_LAMB, &copy);
    mega_pages_free(memory, bytes);
    mega_team_destroy(team);
    return 0;
}
