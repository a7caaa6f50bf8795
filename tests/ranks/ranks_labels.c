/* Tests, on two ranks in several layouts, labels whose rows a model weighs by a value that it computes: those in rows
 * of weight 0 change nothing, and one in another row ends the step of all ranks with the same message, which names its
 * sample. A class that one layer ignores is ignored by the losses of all layers, in whatever stages they are. */
#include "api_model.h"
#include "rank_calls.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLE = 3, ROW = 5 }; /* where the label is; with two ranks of dp, one of them reads it */

typedef struct layout {
    char *micro_batches;
    char *option, *value;
    bool has_slabs; /* sequence parallelism */
} layout;

static int32_t label, ignored = -1; /* a class that the head ignores, where there is an early loss; -1: none */
static float weight;

static const mega_vocab_loss_options vocab = {.vocab_size = API_IDS,
                                              .table = {.init = MEGA_INIT_NORMAL, .init_std = 0.4}};

static void describe_early(const mega_builder *b, const void *self, mega_flow *f)
{
    api_embed(b, self, f);
    if (ignored < 0) return;
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, API_SEQ, 0);
    const mega_tensor mask = mega_input(b, "loss_mask", MEGA_F32, API_SEQ, 0);
    mega_loss_add(b, "early", mega_vocab_loss(b, "early", f->x, labels, mask, &vocab).loss, 0.5);
}

static void describe_head(const mega_builder *b, const void *self, mega_flow *f)
{
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, API_SEQ, 0);
    const mega_tensor mask = mega_scale(b, mega_input(b, "loss_mask", MEGA_F32, API_SEQ, 0), 1);
    (void)self;
    if (ignored >= 0) mega_ignore_label(b, labels, ignored);
    mega_loss_add(b, "loss", mega_vocab_loss(b, "head", f->x, labels, mask, &vocab).loss, 1);
}

static mega_status read_sample(void *user, int64_t index, mega_sample *s)
{
    int32_t labels[API_SEQ];
    float mask[API_SEQ];
    MEGA_TRY(api_read(user, index, s));
    for (int i = 0; i < API_SEQ; i++) {
        const bool is_there = index == SAMPLE && i == ROW;
        labels[i] = is_there ? label : (int32_t)(index + i) % API_IDS;
        mask[i] = is_there ? weight : 1;
    }
    MEGA_TRY(mega_sample_set_f32(s, "loss_mask", mask, API_SEQ));
    return mega_sample_set_i32(s, "labels", labels, API_SEQ);
}

static const mega_layer layers[] = {{"net", describe_early, NULL, 1, "embed"},
                                    {"net.h.%d", api_block, NULL, 2, "block"},
                                    {"net", describe_head, NULL, 1, "head"}};
#define MODEL \
    .name = "labels", .layer = layers, .num_layers = 3, .positions = API_SEQ, .partition = MEGA_PARTITION_UNIFORM
static const mega_model model = {MODEL}, model_in_slabs = {MODEL, .sequence_parallel = true};
static const mega_dataset data = {.count = API_SAMPLES, .read = read_sample, .in_order = true};

static mega_engine *open_engine(mega_world *world, const layout *l)
{
    char *argv[] = {"program",
                    "--micro-batch-size",
                    "1",
                    "--seed",
                    "3",
                    "--num-threads",
                    "1",
                    "--lr",
                    "0.01",
                    "--gradient-accumulation-steps",
                    l->micro_batches,
                    l->option,
                    l->value};
    int argc = (int)(sizeof argv / sizeof *argv);
    while (argv[argc - 1] == NULL) argc--;
    mega_engine *e = NULL;
    need(mega_initialize(&(mega_setup){.model = l->has_slabs ? &model_in_slabs : &model,
                                       .training_data = &data,
                                       .argc = argc,
                                       .argv = argv,
                                       .world = world},
                         &e));
    return e;
}

/* The losses of two steps, the first of which reads the sample. */
static mega_status train(mega_engine *e, double loss[2])
{
    mega_status st = MEGA_OK;
    mega_step_result r = {.loss = 0};
    for (int i = 0; i < 2 && st == MEGA_OK; i++) {
        st = mega_engine_train_batch(e, &r);
        loss[i] = r.loss;
    }
    if (st != MEGA_OK && mega_engine_global_steps(e) != 0) st = MEGA_ERR_FORMAT;
    mega_engine_destroy(e);
    return st;
}

static mega_status train_together(mega_world *world, const layout *l, int32_t given, float mask, double loss[2])
{
    label = given;
    weight = mask;
    return train(open_engine(world, l), loss);
}

static void train_alone(int32_t given, float mask, double loss[2])
{
    const mega_engine_options o = {.compute = MEGA_F32,
                                   .backend = MEGA_BACKEND_CPU,
                                   .micro_batch = 1,
                                   .seq = API_SEQ,
                                   .batch = {.global_batch = 4, .micro_step = 1},
                                   .clip_grad = 1.0,
                                   .dropout_seed = 3,
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT,
                                                .max_lr = 0.01,
                                                .decay = 100,
                                                .start_weight_decay = 0.01,
                                                .end_weight_decay = 0.01}};
    mega_engine *e = NULL;
    label = given;
    weight = mask;
    need(mega_engine_create(&(mega_setup){.model = &model, .training_data = &data, .options = &o}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 3));
    need(train(e, loss));
}

static int differs(const char *name, const double found[2], const double expected[2])
{
    if (fabs(found[0] - expected[0]) < 1e-5 && fabs(found[1] - expected[1]) < 1e-5 && expected[0] > 0) return 0;
    fprintf(stderr, "%s: losses %.9g, %.9g; expected %.9g, %.9g\n", name, found[0], found[1], expected[0], expected[1]);
    return 1;
}

/* Returns how many results of a layout are wrong; `masked` and `ignoring` are the losses of one rank. */
static int check_layout(mega_world *world, const layout *l, const double masked[2], const double ignoring[2])
{
    static const char said[] = "label 16 (sample 3, row 5 of the micro-batch); expected 0 to 15, one of 16 classes";
    const char *name = l->option != NULL ? l->option : "dp";
    double loss[2];
    int wrong = 0;
    ignored = 4;
    need(train_together(world, l, 4, 1, loss));
    wrong += differs(name, loss, ignoring);
    ignored = -1;
    need(train_together(world, l, 4, 0, loss));
    wrong += differs(name, loss, masked);
    need(train_together(world, l, API_IDS, 0, loss));
    wrong += differs(name, loss, masked);
    need(train_together(world, l, -100, 1, loss));
    wrong += differs(name, loss, masked);
    const mega_status st = train_together(world, l, API_IDS, 1, loss);
    if (st == MEGA_ERR_USAGE && strstr(mega_error_message(), said) != NULL) return wrong;
    fprintf(stderr, "%s, rank %d: %s \"%s\"\n", name, mega_world_rank(world), mega_status_name(st),
            mega_error_message());
    return wrong + 1;
}

int main(void)
{
    static const layout all[] = {{"2", NULL, NULL, false},
                                 {"2", "--zero-stage", "2", false},
                                 {"4", "--tensor-model-parallel-size", "2", false},
                                 {"4", "--tensor-model-parallel-size", "2", true},
                                 {"4", "--pipeline-model-parallel-size", "2", false}};
    mega_world *world = NULL;
    double masked[2], counted[2], early[2], ignoring[2];
    int failures = 0;
    need(mega_world_create(NULL, &world));
    train_alone(4, 0, masked);
    train_alone(4, 1, counted);
    ignored = API_IDS - 1; /* (a label that few rows have) */
    train_alone(4, 1, early);
    ignored = 4;
    train_alone(4, 1, ignoring);
    ignored = -1;
    failures += masked[0] == counted[0] || early[0] == ignoring[0];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) failures += check_layout(world, &all[i], masked, ignoring);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
