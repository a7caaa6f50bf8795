/* Runs a step in which numbers of one rank are not finite: the error must name the op that computed them, in any
 * layout.
 *   ranks_nonfinite forward: a weight of the last layer is NaN, on the rank that owns it (interleaved, ZeRO 3)
 *   ranks_nonfinite backward: a gradient overflows after a finite loss (a pipeline)
 *   ranks_nonfinite evaluation: like forward, while a validation set is evaluated
 *   ranks_nonfinite save FOLDER: like forward, but only a save checks the weights */
#include "device.h"
#include "engine_run.h"
#include "megalith/transformer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Multiplies the part of a parameter that this rank owns, if any. */
static void scale(mega_params *p, const char *name, float factor)
{
    const int i = mega_params_find(p, name);
    if (i < 0) return;
    void *x = mega_params_master(p, i);
    for (int64_t k = 0; k < mega_params_owned(p, i).count; k++)
        device_set(x, MEGA_F32, k, device_number(x, MEGA_F32, k) * (double)factor);
}

static void plant(mega_engine *e, bool in_forward)
{
    mega_params *p = mega_engine_params(e);
    if (in_forward) {
        scale(p, "transformer.h.3.mlp.c_fc.weight", NAN);
        return;
    }
    /* The input of the last norm is almost 0, so the norm multiplies its gradient by the square root of 1 / epsilon. */
    for (int n = 0; n < 4; n++) {
        char name[64];
        snprintf(name, sizeof name, "transformer.h.%d.ln_1.weight", n);
        scale(p, name, 0);
        snprintf(name, sizeof name, "transformer.h.%d.ln_2.weight", n);
        scale(p, name, 0);
    }
    if (mega_engine_layout(e)->pp.rank == 0) {
        scale(p, "transformer.wte.weight", 1e-9f);
        scale(p, "transformer.wpe.weight", 1e-9f);
    }
    scale(p, "transformer.ln_f.weight", 1e38f);
}

static void fill(mega_engine *e, mega_batch *b)
{
    for (int64_t i = 0; i < mega_batch_num_samples(b); i++) engine_run_fill(b, i, mega_engine_sample(e, i));
}

static mega_status save(mega_engine *e, const mega_transformer *gpt, const char *folder)
{
    mega_model_shape shape;
    mega_transformer_to_shape(gpt, 3, &shape);
    const mega_engine_save_options o = {.folder = folder, .shape = &shape, .save_dtype = MEGA_F32};
    return mega_engine_save(e, &o);
}

/* Runs what the test does with the non-finite weights: an evaluation, a save or a step. */
static mega_status use(mega_engine *e, const mega_transformer *gpt, char **argv)
{
    mega_step_result r;
    mega_loss_sums sums = {0};
    if (strcmp(argv[1], "save") == 0) return save(e, gpt, argv[2]);
    if (strcmp(argv[1], "evaluation") == 0) {
        fill(e, mega_engine_evaluation_batch(e, 4, 0));
        return mega_engine_evaluate_batch(e, &sums);
    }
    fill(e, mega_engine_batch(e));
    return mega_engine_train_batch(e, &r);
}

static mega_status run(mega_world *world, char **argv, mega_engine **e)
{
    const bool in_forward = strcmp(argv[1], "backward") != 0;
    mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = engine_run_options(8, 1, 1e-3);
    gpt.num_layers = 4;
    gpt.norm_epsilon = 1e-12;
    gpt.stage_chunks = in_forward ? 2 : 1;
    o.compute = MEGA_F32;
    o.world = world;
    o.layout.pp = 2;
    o.batch.micro_step = mega_world_size(world) / 2;
    o.zero_stage = in_forward ? 3 : 0;
    MEGA_TRY(gpt_engine_create(e, &gpt, &o));
    MEGA_TRY(mega_engine_allocate(*e));
    MEGA_TRY(mega_engine_compare_ranks(*e));
    MEGA_TRY(mega_engine_initialize(*e, 1234));
    plant(*e, in_forward);
    return use(*e, &gpt, argv);
}

int main(int argc, char **argv)
{
    mega_world *world;
    mega_engine *e = NULL;
    if (argc < 2 || mega_world_create(NULL, &world) != MEGA_OK) return 2;
    const mega_status st = run(world, argv, &e);
    if (mega_world_rank(world) == 0) printf("ended: %s\n", st == MEGA_OK ? "well" : mega_error_message());
    fflush(stdout);
    mega_engine_destroy(e);
    mega_world_destroy(world);
    return st == MEGA_ERR_NUMERIC ? 0 : 1;
}
