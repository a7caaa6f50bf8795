/* A user's own training program, for the tests of launching. It trains, reports each step, and resumes from its newest
 * checkpoint. Usage: ranks_own STEPS FOLDER [OPTIONS…]. FOLDER "-": no checkpoints; FOLDER "keep": before its first
 * restart it waits at step 45 to be killed. */
#include "api_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAVE_EVERY = 20, STAYS_AT = 45, MOST_OPTIONS = 40 };

static bool stays(const char *folder, int step)
{
    const char *restarts = getenv("TORCHELASTIC_RESTART_COUNT");
    return strcmp(folder, "keep") == 0 && restarts != NULL && strcmp(restarts, "0") == 0 && step == STAYS_AT;
}

static mega_status train(mega_engine *e, int64_t steps, const char *folder)
{
    const bool saves = strcmp(folder, "-") != 0;
    mega_step_result r;
    bool found = false;
    if (saves) MEGA_TRY(mega_engine_load_checkpoint(e, folder, NULL, NULL, &found, NULL));
    if (mega_engine_is_main_process(e)) printf("begins at %d\n", (int)mega_engine_global_steps(e));
    while (mega_engine_global_steps(e) < steps) {
        MEGA_TRY(mega_engine_train_batch(e, &r));
        const int step = (int)mega_engine_global_steps(e);
        if (mega_engine_is_main_process(e)) printf("step %d: loss %.9g\n", step, r.loss);
        fflush(stdout);
        while (stays(folder, step)) pause();
        if (saves && step % SAVE_EVERY == 0) MEGA_TRY(mega_engine_save_checkpoint(e, folder, NULL, NULL));
    }
    return MEGA_OK;
}

int main(int argc, char **argv)
{
    static const mega_dataset data = {.count = API_SAMPLES, .read = api_read};
    char *option[MOST_OPTIONS] = {"own", "--micro-batch-size", "1", "--global-batch-size", "4", "--lr", "1e-3"};
    int n = 7;
    if (argc < 3) return 2;
    for (int i = 3; i < argc && n < MOST_OPTIONS; i++) option[n++] = argv[i];
    mega_engine *e = NULL;
    mega_status st =
        mega_initialize(&(mega_setup){.model = &api_model, .training_data = &data, .argc = n, .argv = option}, &e);
    if (st == MEGA_OK) st = train(e, atoll(argv[1]), argv[2]);
    if (st != MEGA_OK) fprintf(stderr, "own: %s\n", mega_error_message());
    mega_engine_destroy(e);
    return st == MEGA_OK ? 0 : 1;
}
