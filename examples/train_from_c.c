/* A program that fills its batches itself, in place of a data set:
 *
 *     cc -std=c11 train_from_c.c -o train_from_c $(pkg-config --cflags --libs megalith)
 *     ./train_from_c                                 or mpirun -n 2 ./train_from_c
 *
 * A network of two layers learns to count: after n comes n + 1, modulo 16. Prints the first loss and the last. */
#include <megalith/megalith.h>
#include <stdio.h>

enum { IDS = 16, WIDTH = 32, STEPS = 100 };

static void embed(const mega_builder *b, const void *self, mega_flow *flow)
{
    (void)self;
    flow->x = mega_embedding(b, "table", mega_input(b, "number", MEGA_I32, 1, 0), IDS, WIDTH, NULL);
}

static void readout(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_tensor next = mega_input(b, "next", MEGA_I32, 1, 0);
    (void)self;
    flow->x = mega_linear(b, "fc", flow->x, IDS, NULL);
    mega_loss_add(b, "loss", mega_cross_entropy(b, flow->x, next, mega_none()), 1.0);
}

/* Every sample is a number and the one that follows it. Ranks fill the samples that are theirs. */
static mega_status fill(mega_batch *batch)
{
    for (int64_t i = 0; i < mega_batch_num_samples(batch); i++) {
        mega_sample *sample = mega_batch_sample(batch, i);
        const int32_t number = (int32_t)(mega_sample_index(sample) % IDS), next = (number + 1) % IDS;
        MEGA_TRY(mega_sample_set_i32(sample, "number", &number, 1));
        MEGA_TRY(mega_sample_set_i32(sample, "next", &next, 1));
    }
    return MEGA_OK;
}

static mega_status train(mega_engine *engine)
{
    mega_step_result result;
    for (int i = 1; i <= STEPS; i++) {
        MEGA_TRY(fill(mega_engine_batch(engine)));
        MEGA_TRY(mega_engine_train_batch(engine, &result));
        if ((i == 1 || i == STEPS) && mega_engine_is_main_process(engine))
            printf("step %3d: loss %.4f\n", i, result.loss);
    }
    return MEGA_OK;
}

int main(void)
{
    static const mega_layer layers[] = {{.path = "embed", .describe = embed}, {.path = "readout", .describe = readout}};
    static const mega_model model = {.name = "count", .layer = layers, .num_layers = 2};
    static char words[][24] = {"train_from_c", "--micro-batch-size", "4", "--global-batch-size", "16", "--lr", "0.05"};
    enum { WORDS = sizeof words / sizeof *words };
    char *options[WORDS];
    for (int i = 0; i < WORDS; i++) options[i] = words[i];
    const mega_setup setup = {.model = &model, .argc = WORDS, .argv = options};
    mega_engine *engine = NULL;
    mega_status st = mega_initialize(&setup, &engine);
    if (st == MEGA_OK) st = train(engine);
    if (st != MEGA_OK) fprintf(stderr, "%s\n", mega_error_message());
    mega_engine_destroy(engine);
    return st == MEGA_OK ? 0 : 1;
}
