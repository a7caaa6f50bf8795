/* An engine on the software device by several ranks, of which the last one's driver fails at a call: all ranks learn of
 * it in the same call of the engine, by the device's message, every later one answers so at once, and another engine
 * trains in the same world. The arguments: the layout, or "labels" for a model whose labels the program looks at; the
 * call that fails; a folder that does not exist. */
#include "api_model.h"
#include "engine_run.h"
#include "megalith/cuda.h"
#include "megalith/threads.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, NOT_BUILT = 77 };
#define AT_ONCE_S 10.0 /* of a busy machine; the time limit of exchanges is 600 s */

typedef struct scene {
    mega_world *world;
    mega_engine *e;
    const char *folder;
    bool has_labels;
} scene;

/* Weighs rows by a value that the program computes, so that it alone can tell whether a label may be of no class. */
static void describe_head(const mega_builder *b, const void *self, mega_flow *f)
{
    static const mega_vocab_loss_options vocab = {.vocab_size = API_IDS,
                                                  .table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, API_SEQ, 0);
    const mega_tensor mask = mega_scale(b, mega_input(b, "loss_mask", MEGA_F32, API_SEQ, 0), 1);
    (void)self;
    mega_loss_add(b, "loss", mega_vocab_loss(b, "head", f->x, labels, mask, &vocab).loss, 1);
}

static const mega_layer layers[] = {{"net", api_embed, NULL, 1, "embed"},
                                    {"net.h.%d", api_block, NULL, 2, "block"},
                                    {"net", describe_head, NULL, 1, "head"}};
static const mega_model labels_model = {
    .name = "labels", .layer = layers, .num_layers = 3, .positions = API_SEQ, .partition = MEGA_PARTITION_UNIFORM};

static void fill(mega_engine *e, mega_batch *b, bool has_labels)
{
    for (int64_t i = 0; b != NULL && i < mega_batch_num_samples(b); i++) {
        if (has_labels) need(api_read(NULL, mega_engine_sample(e, i), mega_batch_sample(b, i)));
        else
            engine_run_fill(b, i, mega_engine_sample(e, i));
    }
}

static mega_engine *create(mega_world *world, const char *how, mega_backend_kind backend)
{
    const mega_transformer gpt = engine_run_gpt();
    mega_engine *e = NULL;
    mega_engine_options o = engine_run_options(BATCH, 1, 1e-2);
    o.world = world;
    o.backend = backend;
    if (strcmp(how, "tp") == 0) o.layout.tp = 2;
    if (strcmp(how, "pp") == 0) o.layout.pp = 2;
    if (strcmp(how, "zero2") == 0) o.zero_stage = 2;
    if (strcmp(how, "zero3") == 0) o.zero_stage = 3;
    o.batch.micro_step = strcmp(how, "tp") == 0 || strcmp(how, "pp") == 0 ? 1 : 2;
    if (strcmp(how, "labels") == 0) {
        o.seq = API_SEQ;
        need(mega_engine_create(&(mega_setup){.model = &labels_model, .options = &o}, &e));
    } else {
        need(gpt_engine_create(&e, &gpt, &o));
    }
    return e;
}

static mega_status step(const scene *s)
{
    mega_step_result r;
    fill(s->e, mega_engine_batch(s->e), s->has_labels);
    MEGA_TRY(mega_engine_train_batch(s->e, &r));
    return isfinite(r.loss) ? MEGA_OK : MEGA_FAIL(MEGA_ERR_NUMERIC, "a step returns the loss %g", r.loss);
}

static mega_status evaluate(const scene *s)
{
    mega_loss_sums sums = {0};
    fill(s->e, mega_engine_evaluation_batch(s->e, 2, 0), s->has_labels);
    MEGA_TRY(mega_engine_evaluate_batch(s->e, &sums));
    return isfinite(sums.loss) ? MEGA_OK : MEGA_FAIL(MEGA_ERR_NUMERIC, "an evaluation returns %g", sums.loss);
}

static mega_status read_parameter(const scene *s)
{
    const mega_param *p = mega_params_get(mega_engine_whole(s->e), 0);
    const int64_t count = p->true_shape[0] * (p->num_dims > 1 ? p->true_shape[1] : 1);
    float *values = calloc((size_t)count, sizeof *values);
    const mega_status st = mega_engine_get_param(s->e, p->name, NULL, count, values);
    const bool is_finite = values != NULL && isfinite(values[count - 1]);
    free(values);
    MEGA_TRY(st);
    return is_finite ? MEGA_OK : MEGA_FAIL(MEGA_ERR_NUMERIC, "a parameter is read, and is not finite");
}

static mega_status norms(const scene *s)
{
    mega_norm_result norm;
    MEGA_TRY(mega_optimizer_params_norm(mega_engine_optimizer(s->e), &norm));
    return isfinite(norm.norm) ? MEGA_OK : MEGA_FAIL(MEGA_ERR_NUMERIC, "a norm is read, and is not finite");
}

static mega_status save(const scene *s)
{
    return mega_engine_save(s->e, &(mega_engine_save_options){.folder = s->folder, .save_dtype = MEGA_F32});
}

typedef mega_status call(const scene *s);
static call *const calls[] = {step, step, norms, evaluate, read_parameter, save, step, evaluate, read_parameter, save};
enum { CALLS = (int)(sizeof calls / sizeof *calls) };

/* Ends the process if not all ranks have these numbers. */
static void check_alike(mega_world *world, int first, mega_status st)
{
    int32_t most[4] = {first, -first, (int32_t)st, -(int32_t)st};
    need(mega_comm_all_reduce(mega_world_comm(world), "a test", most, 4, MEGA_I32, MEGA_REDUCE_MAX));
    if (most[0] == -most[1] && most[2] == -most[3]) return;
    fprintf(stderr, "rank %d: call %d returns %s\n", mega_world_rank(world), first, mega_status_name(st));
    exit(1);
}

/* Makes the calls; returns the first that fails, CALLS: none. */
static int make_calls(const scene *s)
{
    int first = CALLS;
    for (int i = 0; i < CALLS; i++) {
        const double began = mega_time_now();
        const mega_status st = calls[i](s);
        const char *text = st != MEGA_OK ? mega_error_message() : "";
        const bool is_late = first < CALLS && mega_time_now() - began > AT_ONCE_S;
        if (st != MEGA_OK && first == CALLS) first = i;
        const bool is_of_device = strstr(text, "cuda:0: ") != NULL && strstr(text, "error 7") != NULL;
        if ((i >= first) != (st != MEGA_OK) || (st != MEGA_OK && (!is_of_device || !mega_world_failed(s->world))) ||
            is_late) {
            fprintf(stderr, "rank %d: call %d (the first that failed: %d) after %.1f s: %s: %s\n",
                    mega_world_rank(s->world), i, first, mega_time_now() - began, mega_status_name(st), text);
            exit(1);
        }
        mega_world_forget_failure(s->world);
        check_alike(s->world, i, st);
    }
    return first;
}

int main(int argc, char **argv)
{
    mega_world *world;
    char text[MEGA_CUDA_TEXT];
    need(mega_world_create(NULL, &world));
    if (argc != 4) return 2;
    if (mega_world_rank(world) == mega_world_size(world) - 1) setenv("MEGA_SOFTWARE_CUDA_FAIL", argv[2], 1);
    if (mega_cuda_describe(0, text) != MEGA_OK) return NOT_BUILT;
    scene s = {.world = world,
               .e = create(world, argv[1], MEGA_BACKEND_CUDA),
               .folder = argv[3],
               .has_labels = strcmp(argv[1], "labels") == 0};
    need(mega_engine_allocate(s.e));
    need(mega_engine_initialize(s.e, 1));
    const int first = make_calls(&s);
    mega_engine_destroy(s.e);
    s.e = create(world, argv[1], MEGA_BACKEND_CPU);
    need(mega_engine_allocate(s.e));
    need(mega_engine_initialize(s.e, 1));
    for (int i = 0; i < 3; i++) need(step(&s));
    mega_engine_destroy(s.e);
    if (mega_world_rank(world) == 0) printf("call %d failed", first);
    mega_world_destroy(world);
    return 0;
}
