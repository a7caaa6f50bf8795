/* Measures building and planning the programs of a GPT with many layers, on one rank and as one of four pipeline
 * stages: walking the list, describing layers, passes, the memory plan. No memory for tensors is allocated. Then trains
 * GPT-2 124M (2.5 GB) on samples of a few lengths, and measures what a step with a new length takes more. Prints lines
 * "RESULT name value unit detail".
 *   bench_build [repeats] */
#include "bench_kit.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>

static int measure(int layers, int stages, int repeats)
{
    const mega_gpt gpt = bench_gpt(layers, 1024, 16, 1024, 50257);
    const mega_engine_options o = {.micro_batch = 1,
                                   .seq = 1024,
                                   .batch = {.global_batch = 8, .micro_step = 1},
                                   .layout = {.pp = stages, .planned_ranks = stages, .planned_rank = stages / 2}};
    for (int i = 0; i < repeats; i++) {
        mega_engine *e = NULL;
        const double began = mega_time_now();
        if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK) {
            fprintf(stderr, "%s\n", mega_error_message());
            return 1;
        }
        const double seconds = mega_time_now() - began;
        mega_engine_destroy(e);
        printf("RESULT build_%d_layers_%d_stages %.4f s building and planning the programs of one rank\n", layers,
               stages, seconds);
    }
    return 0;
}

/* Runs a step; returns its seconds, or a negative number if it failed. */
static double step(mega_engine *e, int64_t seq, int64_t vocab)
{
    mega_step_result r;
    bench_fill(e, mega_engine_batch(e), seq, vocab);
    const double began = mega_time_now();
    return mega_engine_train_batch(e, &r) == MEGA_OK ? mega_time_now() - began : -1;
}

/* The programs of further lengths under a curriculum, as a training builds them between two steps: what a step with a new
 * length takes more than the quicker of the next two, which have the same. GPT-2 of 124M parameters, samples of 16, 32, … of 1024
 * positions: the building takes as long for any length, and the steps are short. */
static int measure_further(int repeats)
{
    enum { SEQ = 1024, VOCAB = 50257, MOST = 16 };
    static const char *const lengths[MOST] = {"16",  "32",  "48",  "64",  "80",  "96",  "112", "128",
                                              "144", "160", "176", "192", "208", "224", "240", "256"};
    static const char *const last[MOST] = {"2",  "5",  "8",  "11", "14", "17", "20", "23",
                                           "26", "29", "32", "35", "38", "41", "44", "47"};
    const char *difficulty[MOST], *max_step[MOST];
    const mega_gpt gpt = bench_gpt(12, 768, 12, SEQ, VOCAB);
    mega_engine *e = NULL;
    memcpy(difficulty, lengths, sizeof difficulty);
    memcpy(max_step, last, sizeof max_step);
    const mega_engine_options o = {.micro_batch = 1,
                                   .seq = SEQ,
                                   .batch = {.global_batch = 1, .micro_step = 1},
                                   .curriculum = {.is_on = true,
                                                  .kind = MEGA_CURRICULUM_DISCRETE,
                                                  .difficulty = difficulty,
                                                  .max_step = max_step,
                                                  .stairs = MOST},
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = 1e-5, .decay = 100},
                                   .no_evaluate = true};
    if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK || mega_engine_allocate(e) != MEGA_OK ||
        mega_engine_initialize(e, 1) != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        mega_engine_destroy(e);
        return 1;
    }
    double seconds = step(e, SEQ, VOCAB); /* the first step touches memory, too */
    if (seconds >= 0) seconds = step(e, SEQ, VOCAB);
    for (int i = 1; i < MOST && i <= repeats && seconds >= 0; i++) {
        const double built = step(e, SEQ, VOCAB);
        const double second = built >= 0 ? step(e, SEQ, VOCAB) : built, third = second >= 0 ? step(e, SEQ, VOCAB) : -1;
        seconds = second < third ? second : third;
        if (seconds >= 0)
            printf("RESULT build_further_length %.4f s the programs of samples of another length, GPT-2 124M\n",
                   built - seconds);
    }
    if (seconds < 0) fprintf(stderr, "%s\n", mega_error_message());
    mega_engine_destroy(e);
    return seconds < 0;
}

int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 5;
    return measure(96, 1, repeats) + measure(96, 4, repeats) + measure_further(repeats) == 0 ? 0 : 1;
}
