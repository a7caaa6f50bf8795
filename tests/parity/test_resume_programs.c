/* A C program that a user starts again by its own command, which loads its last checkpoint, is the program that was
 * never cut: for each setting of the engine, from options and from a DeepSpeed JSON, and each own part that a program
 * gives. Losses, rates, weights, moments and masters agree bit for bit, and the resumed run warns of nothing that the
 * whole one does not. tests/parity/resume_programs.py does the same from Python. */
#include "api_engine.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CUT = 7, END = 12 /* in the second epoch of 40 samples, 4 a step */ };

/* ---- the program ---- */

static void dropping_block(const mega_builder *b, const void *self, mega_flow *f)
{
    api_block(b, self, f);
    f->x = mega_dropout(b, "drop", f->x, 0.2);
}

static const mega_layer layers[] = {{"net", api_embed, NULL, 1, "embed"},
                                    {"net.h.%d", dropping_block, NULL, 2, "block"},
                                    {"net", api_head, NULL, 1, "head"}};
static const mega_model model = {
    .name = "resumed", .layer = layers, .num_layers = 3, .positions = API_SEQ, .partition = MEGA_PARTITION_UNIFORM};

/* Draws with the numbers of the sample's position, as an augmentation does. */
static mega_status read_augmented(void *user, int64_t index, mega_sample *sample)
{
    float mask[API_SEQ];
    MEGA_TRY(api_read(user, index, sample));
    for (int64_t i = 0; i < API_SEQ; i++)
        mask[i] = (mega_sample_index(sample) * 5 + mega_sample_seed(sample) + i * 3) % 7 == 0 ? 0.0F : 1.0F;
    return mega_sample_set_f32(sample, "loss_mask", mask, API_SEQ);
}

static double falling(const void *user, int64_t step, int64_t samples)
{
    return *(const double *)user / (double)(1 + step) + 1e-6 * (double)samples;
}

static void heavy_ball(const mega_optimizer_call *c, int64_t begin, int64_t end)
{
    float *p = c->param, *v = c->state[0];
    const float *g = c->grad;
    for (int64_t i = begin; i < end; i++) {
        v[i] = (float)c->option[0] * v[i] + (float)(g[i] * c->grad_factor);
        p[i] -= (float)c->lr * v[i];
    }
}

static const char *const ball_states[] = {"velocity", NULL}, *const ball_options[] = {"momentum", NULL};
static const double momentum = 0.75, first_rate = 0.02;
static const mega_optimizer_row ball = {"heavy_ball", ball_states, ball_options, &momentum, heavy_ball};
static const mega_lr_scheduler schedule = {"falling", falling, &first_rate};
static const mega_dataset plain = {.count = API_SAMPLES, .read = api_read},
                          augmented = {.count = API_SAMPLES, .read = read_augmented, .is_thread_safe = true},
                          ordered = {.first = 3, .count = 33, .read = api_read, .in_order = true};

/* A step as train_batch, or as the program's own three calls. */
static mega_status one_step(mega_engine *e, bool by_parts, mega_step_result *out)
{
    double loss = 0, part;
    if (!by_parts) return mega_engine_train_batch(e, out);
    for (int64_t i = mega_engine_gradient_accumulation_steps(e); i > 0; i--) {
        MEGA_TRY(mega_engine_forward(e, &part));
        MEGA_TRY(mega_engine_backward(e));
        loss += part;
        MEGA_TRY(mega_engine_step(e, out));
    }
    out->loss = loss;
    return MEGA_OK;
}

/* ---- the rows ---- */

typedef struct row {
    const char *options, *json;
    const mega_dataset *data; /* NULL: plain */
    const mega_optimizer_row *optimizer;
    const mega_lr_scheduler *lr;
    bool by_parts;
} row;

#define JSON(text)            .json = "{" text "}"
#define OPTIMIZER(type, more) JSON("\"optimizer\": {\"type\": \"" type "\", \"params\": {\"lr\": 0.01" more "}}")
#define SCHEDULER(type, text) JSON("\"scheduler\": {\"type\": \"" type "\", \"params\": {" text "}}")
#define FP16(text)            JSON("\"fp16\": {\"enabled\": true" text "}")
#define ZERO(text)            JSON("\"zero_optimization\": {" text "}")
#define PARTS                 .by_parts = true
static const row rows[] = {
    {.options = ""},
    {.options = "", PARTS},
    {.options = "", .data = &augmented},
    {.options = "", .data = &ordered},
    {.options = "", .lr = &schedule},
    {.options = "", .optimizer = &ball},
    {.options = "--bf16", .optimizer = &ball, .lr = &schedule, .data = &augmented},
    {.options = "--seed 77"},
    {.options = "--dataloader-drop-last"},
    {.options = "--micro-batch-size 2"},
    {.options = "--bf16"},
    {.options = "--fp64"},
    {.options = "--fp16"},
    {.options = "--fp16", PARTS},
    {.options = "--bf16 --grad-accum-dtype bf16"},
    {.options = "--bf16 --save-dtype bf16"},
    {.options = "--fp16 --save-dtype fp16 --initial-loss-scale 512"},
    {.options = "--fp16 --initial-loss-scale 65536 --loss-scale-window 3 --hysteresis 1"},
    {.options = "--clip-grad 0.1"},
    {.options = "--weight-decay 0.2"},
    {.options = "--weight-decay 0.2 --no-decoupled-weight-decay"},
    {.options = "--parameter-group *.bias:weight_decay=0.3,lr=5e-3"},
    {.options = "--max-shard-size 4K"},
    {.options = "--optimizer sgd --sgd-momentum 0.8 --sgd-dampening 0.1"},
    {.options = "--optimizer sgd --sgd-nesterov --sgd-momentum 0.7"},
    {.options = "--optimizer adagrad --adagrad-lr-decay 0.1 --adagrad-initial-accumulator-value 0.2"},
    {.options = "--optimizer lion"},
    {.options = "--optimizer lamb --lamb-max-coeff 5 --lamb-min-coeff 0.1"},
    {.options = "--optimizer ademamix --ademamix-beta3 0.99 --ademamix-alpha 3 --ademamix-steps 9"},
    {.options = "--optimizer schedule_free_adamw --schedule-free-warmup-steps 9 --schedule-free-r 0.2"},
    {.options = "--optimizer muon --muon-momentum 0.8 --muon-nesterov --adam-lr 1e-3"},
    {.options = "--optimizer one_bit_adam --one-bit-adam-freeze-step 5"},
    {.options = "--optimizer one_bit_adam --one-bit-adam-freeze-step 9"},
    {.options = "--adam-amsgrad"},
    {.options = "--no-adam-bias-correction"},
    {.options = "--maximize --lr 1e-4"},
    {.options = "--lr-decay-style cosine --lr-decay-iters 20 --min-lr 1e-4 --lr-warmup-iters 9"},
    {.options = "--lr-decay-style WSD --lr-wsd-decay-iters 4 --lr-decay-iters 11"},
    {.options = "--lr-decay-style inverse-square-root --lr-warmup-iters 3 --lr-decay-iters 20"},
    {.options = "--zero-stage 1"},
    {.options = "--zero-stage 2 --bf16"},
    {.options = "--zero-stage 3"},
    {.options = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"},
    {.options = "--curriculum-learning --curriculum-min-difficulty 2 --curriculum-max-difficulty 8 "
                "--curriculum-total-steps 10 --curriculum-difficulty-step 2"},
    {.options = "", OPTIMIZER("Adam", ", \"betas\": [0.8, 0.95], \"eps\": 1e-6, \"weight_decay\": 0.1")},
    {.options = "", OPTIMIZER("Adam", ", \"adam_w_mode\": false, \"bias_correction\": false, \"amsgrad\": true")},
    {.options = "", OPTIMIZER("AdamW", ""), PARTS},
    {.options = "", OPTIMIZER("SGD", ", \"momentum\": 0.9, \"nesterov\": true")},
    {.options = "", OPTIMIZER("Adagrad", ", \"lr_decay\": 0.2")},
    {.options = "", OPTIMIZER("Lion", ", \"weight_decay\": 0.2")},
    {.options = "", OPTIMIZER("Lamb", ", \"max_coeff\": 0.5, \"min_coeff\": 0.1")},
    {.options = "", OPTIMIZER("Muon", ", \"momentum\": 0.9")},
    {.options = "", OPTIMIZER("AdEMAMix", ", \"beta3\": 0.99, \"alpha\": 4, \"t_alpha_beta3\": 9")},
    {.options = "", OPTIMIZER("AdamWScheduleFree", ", \"warmup_steps\": 9")},
    {.options = "", OPTIMIZER("OneBitAdam", ", \"freeze_step\": 5")},
    {.options = "",
     SCHEDULER(
         "WarmupLR",
         "\"warmup_min_lr\": 0.001, \"warmup_max_lr\": 0.02, \"warmup_num_steps\": 9, \"warmup_type\": \"linear\"")},
    {.options = "",
     SCHEDULER("WarmupDecayLR", "\"warmup_num_steps\": 3, \"warmup_max_lr\": 0.02, \"total_num_steps\": 11")},
    {.options = "",
     SCHEDULER("WarmupCosineLR", "\"warmup_num_steps\": 4, \"total_num_steps\": 20, \"cos_min_ratio\": 0.1")},
    {.options = "",
     SCHEDULER("OneCycle", "\"cycle_min_lr\": 0.01, \"cycle_max_lr\": 0.05, \"cycle_first_step_size\": 4, "
                           "\"decay_lr_rate\": 0.1, \"decay_step_size\": 1")},
    {.options = "",
     SCHEDULER("LRRangeTest",
               "\"lr_range_test_min_lr\": 0.001, \"lr_range_test_step_size\": 3, \"lr_range_test_step_rate\": 2")},
    {.options = "", FP16("")},
    {.options = "", FP16(", \"loss_scale\": 32")},
    {.options = "",
     FP16(", \"initial_scale_power\": 40, \"loss_scale_window\": 2, \"hysteresis\": 2, \"consecutive_hysteresis\": "
          "true")},
    {.options = "", FP16(", \"initial_scale_power\": 17, \"loss_scale_window\": 5, \"min_loss_scale\": 2"), PARTS},
    {.options = "", JSON("\"bf16\": {\"enabled\": true}, \"gradient_clipping\": 0.1")},
    {.options = "",
     JSON("\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}, "
          "\"communication_data_type\": \"fp32\"")},
    {.options = "",
     JSON("\"gradient_accumulation_steps\": 4, \"prescale_gradients\": true, \"gradient_predivide_factor\": 2"),
     PARTS},
    {.options = "", ZERO("\"stage\": 1")},
    {.options = "", ZERO("\"stage\": 2, \"reduce_bucket_size\": 500"), .data = &augmented},
    {.options = "--bf16", ZERO("\"stage\": 3, \"stage3_param_persistence_threshold\": 10")},
    {.options = "",
     JSON("\"curriculum_learning\": {\"enabled\": true, \"curriculum_type\": \"seqlen\", \"min_difficulty\": 2, "
          "\"max_difficulty\": 8, "
          "\"schedule_type\": \"fixed_root\", \"schedule_config\": {\"total_curriculum_step\": 10, "
          "\"difficulty_step\": 2, \"root_degree\": 2}}")},
};

/* ---- a run ---- */

static const char *folder;
static int failures;

typedef struct record {
    mega_step_result step[END];
    mega_buffer warnings;
} record;

static void keep_warning(void *user, mega_log_level level, const char *line)
{
    if (level == MEGA_LOG_WARN) mega_buffer_printf(user, "%s\n", line);
}

/* Continues with the checkpoint after CUT steps of `from`, if given; saves after CUT and END steps. */
static mega_status run(const row *r, const char *from, const char *save, record *out)
{
    char line[512];
    mega_engine *e = NULL;
    bool found = true;
    const bool has_rate = r->json != NULL && strstr(r->json, "\"lr\"") != NULL;
    snprintf(line, sizeof line, "--micro-batch-size 1 --global-batch-size 4 --num-threads 1 %s %s",
             has_rate || r->lr != NULL ? "" : "--lr 0.01", r->options);
    mega_log_set_sink(keep_warning, &out->warnings);
    mega_setup setup = {.training_data = r->data != NULL ? r->data : &plain,
                        .config = r->json,
                        .optimizer = r->optimizer,
                        .lr_scheduler = r->lr};
    mega_status st = api_try_open_model(&e, &model, setup, line);
    if (st == MEGA_OK && from != NULL) st = mega_engine_load_checkpoint(e, from, "iter_0000007", NULL, &found, NULL);
    for (int i = from != NULL ? CUT : 0; st == MEGA_OK && found && i < END; i++) {
        st = one_step(e, r->by_parts, &out->step[i]);
        if (st == MEGA_OK && (i + 1 == CUT || i + 1 == END)) st = mega_engine_save_checkpoint(e, save, NULL, NULL);
    }
    mega_engine_destroy(e);
    mega_log_set_sink(NULL, NULL);
    return found ? st : MEGA_FAIL(MEGA_ERR_NOT_FOUND, "%s: no checkpoint", from);
}

static void complain(const row *r, const char *what)
{
    failures++;
    printf("FAILED %s %s: %s\n", r->options, r->json != NULL ? r->json : "", what);
}

static void compare_file(const row *r, const char *a, const char *b, const char *name)
{
    char *x = NULL, *y = NULL, what[600];
    size_t n = 0, m = 0;
    const char *left = mega_kit_path(a, name), *right = mega_kit_path(b, name);
    if (!mega_file_exists(left) && !mega_file_exists(right)) return;
    snprintf(what, sizeof what, "%s of the resumed run differs", name);
    if (mega_file_read(left, &x, &n) != MEGA_OK || mega_file_read(right, &y, &m) != MEGA_OK || n != m ||
        memcmp(x, y, n) != 0)
        complain(r, what);
    mega_free(x);
    mega_free(y);
}

static void compare(const row *r, const record *a, record *b, const char *whole, const char *rest)
{
    static const char *const files[] = {"iter_0000012/model.safetensors", "iter_0000012/state/optimizer.safetensors",
                                        "iter_0000012/state/masters.safetensors"};
    char what[200];
    for (int i = CUT; i < END; i++) {
        const mega_step_result *x = &a->step[i], *y = &b->step[i];
        if (x->loss == y->loss && x->lr == y->lr) continue;
        snprintf(what, sizeof what, "step %d: loss %.9g at %.9g, resumed %.9g at %.9g", i + 1, x->loss, x->lr, y->loss,
                 y->lr);
        complain(r, what);
        break;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) compare_file(r, whole, rest, files[i]);
    for (char *left = b->warnings.data, *line; left != NULL && (line = strsep(&left, "\n")) != NULL;)
        if (strstr(a->warnings.data != NULL ? a->warnings.data : "", line) == NULL) complain(r, line);
}

static void programs_are_resumed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        record a = {0}, b = {0};
        char name[40];
        snprintf(name, sizeof name, "whole%zu", i);
        const char *whole = mega_kit_path(folder, name);
        snprintf(name, sizeof name, "rest%zu", i);
        const char *rest = mega_kit_path(folder, name);
        if (run(&rows[i], NULL, whole, &a) != MEGA_OK || run(&rows[i], whole, rest, &b) != MEGA_OK)
            complain(&rows[i], mega_error_message());
        else
            compare(&rows[i], &a, &b, whole, rest);
        mega_buffer_fini(&a.warnings);
        mega_buffer_fini(&b.warnings);
    }
    printf("%zu programs\n", sizeof rows / sizeof *rows);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_are_resumed)};
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* many saves, each of which waits for its disk */
    folder = mega_kit_temp_folder();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
