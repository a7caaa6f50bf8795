/* Usage: ranks_one_bit test|other FOLDER [OPTIONS of the engine…]. Tests 1-bit Adam on its ranks: the update program
 * against a plain computation of all ranks at once, over updates before and after the freeze; and an engine that is
 * saved after the freeze and resumed, with the bits of one that is not. */
#include "api_model.h"
#include "megalith/compressed.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/update.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 7, COLUMNS = 5, W = ROWS * COLUMNS, B = 11, PARAMS = 2, UPDATES = 7, FREEZE = 3, MOST_RANKS = 8 };
#define BETA1 0.8
#define BETA2 0.95
#define EPS   1e-6
#define DECAY 0.1
#define CLIP  0.7

static const int64_t counts[PARAMS] = {W, B};

static void fail(const char *what, int update, int64_t i, double found, double expected)
{
    fprintf(stderr, "%s, update %d, element %lld: %.15g, expected %.15g\n", what, update, (long long)i, found,
            expected);
    exit(1);
}

/* A rank's part of the gradient, with the mean over ranks in it; element 4 never has any. */
static double gradient_of(int rank, int param, int64_t i, int update, int ranks)
{
    const int64_t x = (i * 29 + param * 17 + update * 13 + rank * 41) % 31;
    return i == 4 ? 0 : ((double)(x - 15) * 0.02 + 0.01 * rank) / ranks;
}

/* ---- the plain computation ---- */

typedef struct reference {
    double p[PARAMS][W], m[PARAMS][W], v[PARAMS][W];
    double worker[MOST_RANKS][PARAMS][W], server[PARAMS][W];
} reference;

static double scale_of(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return count > 0 ? sqrt(sum / (double)count) : 0;
}

static double sign_of(double x)
{
    return x >= 0 ? 1 : -1;
}

/* worker[] holds errors and receives momenta: m becomes their compressed mean. */
static void compress(reference *r, int q, int ranks)
{
    const int64_t count = counts[q], chunk = ((count + ranks - 1) / ranks + 7) / 8 * 8;
    double *f = r->server[q];
    for (int k = 0; k < ranks; k++) {
        const double scale = scale_of(r->worker[k][q], count);
        for (int64_t i = 0; i < count; i++) {
            const double sent = scale * sign_of(r->worker[k][q][i]);
            f[i] += sent / ranks;
            r->worker[k][q][i] -= sent;
        }
    }
    for (int64_t first = 0; first < count; first += chunk) {
        const int64_t end = first + chunk < count ? first + chunk : count;
        const double scale = scale_of(f + first, end - first);
        for (int64_t i = first; i < end; i++) {
            r->m[q][i] = scale * sign_of(f[i]);
            f[i] -= r->m[q][i];
        }
    }
}

static double norm_of(int update, int ranks)
{
    double whole = 0, apart = 0;
    for (int q = 0; q < PARAMS; q++)
        for (int64_t i = 0; i < counts[q]; i++) {
            double sum = 0;
            for (int k = 0; k < ranks; k++) {
                const double g = gradient_of(k, q, i, update, ranks);
                sum += g;
                apart += g * g;
            }
            whole += sum * sum;
        }
    return sqrt(update <= FREEZE ? whole : ranks * apart);
}

static void momenta(reference *r, int q, int update, int ranks, double factor)
{
    for (int64_t i = 0; i < counts[q]; i++) {
        double sum = 0, *m = &r->m[q][i], *v = &r->v[q][i];
        for (int k = 0; k < ranks; k++) {
            const double g = factor * gradient_of(k, q, i, update, ranks);
            sum += g;
            if (update > FREEZE) r->worker[k][q][i] += BETA1 * *m + (1 - BETA1) * ranks * g;
        }
        if (update > FREEZE && ranks > 1) continue;
        *m = BETA1 * *m + (1 - BETA1) * sum;
        if (update <= FREEZE) *v = BETA2 * *v + (1 - BETA2) * sum * sum;
    }
    if (update > FREEZE && ranks > 1) compress(r, q, ranks);
}

static void compute(reference *r, int update, int ranks, double lr)
{
    const double factor = mega_clip_factor(norm_of(update, ranks), CLIP);
    for (int q = 0; q < PARAMS; q++) {
        momenta(r, q, update, ranks, factor);
        for (int64_t i = 0; i < counts[q]; i++) {
            double *p = &r->p[q][i], *m = &r->m[q][i];
            if (r->v[q][i] == 0) *m = 0;
            const double way = r->v[q][i] == 0 ? 0 : *m / (sqrt(r->v[q][i]) + EPS);
            *p -= lr * (way + (q == 0 ? DECAY : 0) * *p);
        }
    }
}

/* ---- the update program ---- */

typedef struct fixture {
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update;
    void *scratch;
    int index[PARAMS];
} fixture;

static void open_fixture(fixture *f, mega_world *world)
{
    const mega_param w = {
        .name = "w", .num_dims = 2, .shape = {ROWS, COLUMNS}, .true_shape = {ROWS, COLUMNS}, .weight_decay = true};
    const mega_param b = {.name = "b", .num_dims = 1, .shape = {B, 1}, .true_shape = {B, 1}};
    const mega_optimizer_options o = {
        .kind = MEGA_OPTIMIZER_ONE_BIT_ADAM, .beta1 = BETA1, .beta2 = BETA2, .eps = EPS, .freeze_step = FREEZE};
    need(mega_layout_create(world, &(mega_layout_sizes){0}, &f->layout));
    need(mega_params_create(f->layout, &f->params));
    need(mega_params_add(f->params, &w, &f->index[0]));
    need(mega_params_add(f->params, &b, &f->index[1]));
    need(mega_params_place(f->params, MEGA_F64, 1000));
    need(mega_params_allocate(f->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    need(mega_optimizer_create(f->params, f->layout, &o, &f->optimizer));
    need(mega_optimizer_allocate(f->optimizer));
    need(mega_update_create(f->optimizer, &(mega_update_options){.world = world}, &f->update));
    f->scratch = mega_calloc(1, mega_update_scratch_bytes(f->update) + 64);
    if (f->scratch == NULL) exit(1);
    mega_update_allocate(f->update, f->scratch);
}

static void close_fixture(fixture *f)
{
    mega_update_destroy(f->update);
    mega_free(f->scratch);
    mega_optimizer_destroy(f->optimizer);
    mega_params_destroy(f->params);
    mega_layout_destroy(f->layout);
}

static void check(const fixture *f, const reference *r, int update, double norm, int ranks)
{
    if (!(fabs(norm - norm_of(update, ranks)) < 1e-12)) fail("norm", update, 0, norm, norm_of(update, ranks));
    for (int q = 0; q < PARAMS; q++) {
        const double *p = mega_params_master(f->params, f->index[q]);
        const double *m = mega_optimizer_moment(f->optimizer, 0, f->index[q]);
        for (int64_t i = 0; i < counts[q]; i++) {
            if (!(fabs(p[i] - r->p[q][i]) < 1e-12)) fail("weight", update, i, p[i], r->p[q][i]);
            if (!(fabs(m[i] - r->m[q][i]) < 1e-12)) fail("momentum", update, i, m[i], r->m[q][i]);
        }
    }
}

static void test_formula(mega_world *world)
{
    static reference r;
    fixture f;
    open_fixture(&f, world);
    const int ranks = f.layout->dp.size, rank = f.layout->dp.rank;
    for (int q = 0; q < PARAMS; q++)
        for (int64_t i = 0; i < counts[q]; i++)
            r.p[q][i] = ((double *)mega_params_master(f.params, f.index[q]))[i] = 0.1 * (double)(i % 7) - 0.3;
    for (int update = 1; update <= UPDATES; update++) {
        for (int q = 0; q < PARAMS; q++)
            for (int64_t i = 0; i < counts[q]; i++)
                ((double *)mega_params_grad(f.params, f.index[q]))[i] = gradient_of(rank, q, i, update, ranks);
        mega_update_step *s = mega_update_step_block(f.update);
        *s = (mega_update_step){.correction = 1, .clip = CLIP, .lr = 0.01 * update, .weight_decay = DECAY};
        need(mega_update_run(f.update, MEGA_UPDATE_SUMS));
        need(mega_update_run(f.update, MEGA_UPDATE_APPLY));
        compute(&r, update, ranks, 0.01 * update);
        check(&f, &r, update, s->norm.norm, ranks);
    }
    close_fixture(&f);
}

/* ---- an engine ---- */

enum { MOST_WORDS = 32 };
static char *argument[MOST_WORDS] = {API_ARGV, "--optimizer", "one_bit_adam", "--one-bit-adam-freeze-step", "2"};

static mega_engine *open_engine(mega_world *world)
{
    int words = 0;
    mega_engine *e;
    while (argument[words] != NULL) words++;
    need(mega_initialize(
        &(mega_setup){.model = &api_model, .training_data = &api_data, .world = world, .argc = words, .argv = argument},
        &e));
    return e;
}

static void steps(mega_engine *e, int count)
{
    mega_step_result r;
    for (int i = 0; i < count; i++) need(mega_engine_train_batch(e, &r));
}

static void test_resume(mega_world *world, const char *folder)
{
    static float a[API_IDS * API_WIDTH], b[API_IDS * API_WIDTH], c[API_IDS * API_WIDTH];
    bool found;
    mega_engine *whole = open_engine(world);
    steps(whole, 4);
    need(mega_engine_save_checkpoint(whole, folder, NULL, NULL));
    need(mega_engine_get_param(whole, "net.wte.weight", NULL, API_IDS * API_WIDTH, c));
    steps(whole, 3);
    need(mega_engine_get_param(whole, "net.wte.weight", NULL, API_IDS * API_WIDTH, a));
    mega_engine_destroy(whole);
    mega_engine *resumed = open_engine(world);
    need(mega_engine_load_checkpoint(resumed, folder, NULL, NULL, &found, NULL));
    steps(resumed, 3);
    need(mega_engine_get_param(resumed, "net.wte.weight", NULL, API_IDS * API_WIDTH, b));
    mega_engine_destroy(resumed);
    if (!found || memcmp(a, c, sizeof a) == 0 || memcmp(a, b, sizeof a) != 0) {
        fprintf(stderr, "the resumed run has other weights\n");
        exit(1);
    }
}

static void write_line(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "%s\n", line);
}

/* Continues a checkpoint of another number of ranks, which has no errors for these. */
static void test_other_ranks(mega_world *world, const char *folder)
{
    bool found;
    mega_log_set_sink(write_line, NULL);
    mega_engine *e = open_engine(world);
    need(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
    if (!found) exit(1);
    steps(e, 2);
    mega_engine_destroy(e);
}

int main(int argc, char **argv)
{
    mega_world *world;
    int words = 0;
    if (argc < 3) return 2;
    while (argument[words] != NULL) words++;
    for (int i = 3; i < argc && words < MOST_WORDS - 1; i++) argument[words++] = argv[i];
    need(mega_world_create(NULL, &world));
    if (strcmp(argv[1], "other") == 0) test_other_ranks(world, argv[2]);
    else {
        if (argc == 3) test_formula(world);
        test_resume(world, argv[2]);
    }
    mega_world_destroy(world);
    return 0;
}
