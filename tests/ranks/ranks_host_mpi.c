/* Tests who initializes and finalizes MPI. Usage: ranks_host_mpi alone|own|host. alone: without a launcher; own: the
 * library initializes MPI, and creates several worlds one after the other; host: the program initializes MPI, and
 * worlds use its communicators. own and host run on four ranks. */
#include "api_model.h"
#include "megalith/comm.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(bool is_true, const char *what)
{
    if (is_true) return;
    fprintf(stderr, "not so: %s; %s\n", what, mega_error_message());
    exit(1);
}

static bool is_initialized(void)
{
    int is = 0;
    MPI_Initialized(&is);
    return is != 0;
}

static bool is_finalized(void)
{
    int is = 0;
    MPI_Finalized(&is);
    return is != 0;
}

static void say_finalized(void)
{
    puts(is_finalized() ? "finalized at exit" : "left open");
}

/* Trains two steps and returns the loss of the second. world NULL: the engine creates its own. */
static mega_status train(mega_world *world, const char *option, double *out_loss)
{
    static const mega_dataset data = {.count = API_SAMPLES, .read = api_read};
    const int ranks = world != NULL ? mega_world_size(world) : 0;
    char *argv[] = {"train", "--micro-batch-size",     "1", "--global-batch-size", ranks == 2 ? "2" : "4", "--lr",
                    "1e-2",  (char *)(uintptr_t)option};
    const mega_setup setup = {
        .model = &api_model, .training_data = &data, .argc = option != NULL ? 8 : 7, .argv = argv, .world = world};
    mega_engine *e = NULL;
    mega_step_result r = {0};
    mega_status st = mega_initialize(&setup, &e);
    for (int i = 0; i < 2 && st == MEGA_OK; i++) st = mega_engine_train_batch(e, &r);
    *out_loss = r.loss;
    mega_engine_destroy(e);
    return st;
}

static void run_alone(void)
{
    mega_world *world = NULL;
    double loss;
    need(mega_world_create(NULL, &world) == MEGA_OK && mega_world_size(world) == 1, "one rank");
    mega_world_destroy(world);
    need(train(NULL, NULL, &loss) == MEGA_OK && loss > 0, "it trains");
    need(!is_initialized(), "MPI is not touched");
    const int no_group = 0;
    const mega_world_options of_group = {.communicator = &no_group};
    need(mega_world_create(&of_group, &world) == MEGA_ERR_USAGE && strstr(mega_error_message(), "not initialized"),
         "a communicator without MPI");
}

static void run_own(void)
{
    mega_world *world = NULL;
    double first, again;
    atexit(say_finalized); /* runs after the handlers that the library registers */
    need(train(NULL, "--no-such-option", &first) == MEGA_ERR_USAGE, "a mistake fails");
    need(train(NULL, NULL, &first) == MEGA_OK, "an engine after one that failed");
    need(train(NULL, NULL, &again) == MEGA_OK && again == first, "a second engine has the same loss");
    need(mega_world_create(NULL, &world) == MEGA_OK && mega_world_size(world) == 4, "a world after engines");
    need(train(world, NULL, &again) == MEGA_OK && again == first, "the same loss in a given world");
    mega_world_destroy(world);
    need(is_initialized() && !is_finalized(), "MPI stays");
}

static void run_host(void)
{
    int provided, rank, sum = 1, found = 0;
    double whole, half, other;
    MPI_Comm pair;
    MPI_Errhandler before, after;
    mega_world *world = NULL;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    need(train(NULL, NULL, &whole) == MEGA_OK, "all ranks of the program's MPI");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &pair);
    const int handle = (int)MPI_Comm_c2f(pair), none = (int)MPI_Comm_c2f(MPI_COMM_NULL);
    const mega_world_options of_pair = {.communicator = &handle}, of_none = {.communicator = &none};
    need(mega_world_create(&of_pair, &world) == MEGA_OK && mega_world_size(world) == 2, "a world of a communicator");
    need(mega_world_rank(world) == rank / 2, "its rank in the group");
    need(train(world, NULL, &half) == MEGA_OK, "it trains");
    mega_world_destroy(world);
    MPI_Allreduce(&half, &other, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    need(half == other && half > 0 && half != whole, "both groups train alike");
    need(mega_world_create(&of_none, &world) == MEGA_ERR_USAGE && strstr(mega_error_message(), "MPI_COMM_NULL"),
         "no group");
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
    need(before == after, "the program's error handler");
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    need(!found && sum == 4 && !is_finalized(), "the program's MPI is as it was");
    MPI_Comm_free(&pair);
    MPI_Finalize();
    need(mega_world_create(NULL, &world) == MEGA_ERR_COMM && strstr(mega_error_message(), "MPI_Finalize was called"),
         "no world after MPI_Finalize");
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "alone") == 0) run_alone();
    else if (strcmp(how, "own") == 0)
        run_own();
    else if (strcmp(how, "host") == 0)
        run_host();
    else
        return 2;
    puts("done");
    return 0;
}
