/* Measures building and planning the programs of a GPT with many layers, on one rank and as one of four pipeline
 * stages: walking the list, describing layers, passes, the memory plan. No memory for tensors is allocated. Prints
 * lines "RESULT name value unit detail".
 *   bench_build [repeats] */
#include "bench_kit.h"
#include "megalith/threads.h"

#include <stdio.h>

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

int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 5;
    return measure(96, 1, repeats) + measure(96, 4, repeats) == 0 ? 0 : 1;
}
