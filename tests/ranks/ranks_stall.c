/* Ranks that do not reach a collective, for different reasons; a shell test checks what the other ranks print. Usage:
 * ranks_stall HOW [LIMIT_S]
 * loop: endless collectives (the test kills or stops one rank); busy: the same, but the last rank stops calling them
 * pass: the last rank comes once all others have been told that they wait for it
 * cycle: each rank waits for a message that no rank sends
 * program: rank 1 has a different program; buckets: different buckets; schedule: a different schedule
 * order: rank 1 starts collectives of two groups in the other order; group: one over the other group; meet: it makes
 * sums over a group in the other order; length: it has one more sum where samples are shorter
 * fail: rank 2 fails while the others wait elsewhere; count, kind, number: rank 1 makes different calls
 * leave: rank 1 fails and exits, and the launcher does not end the others
 * setup: rank 1 fails while the others are in a collective over the world */
#include "api_model.h"
#include "engine_run.h"
#include "megalith/exchange_order.h"
#include "megalith/program.h"
#include "megalith/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(MEGA_HAVE_MPI)
#include <mpi.h>

static bool abort_ends_this_rank_alone;

/* Replaces MPI's function, which would end all ranks before they can print anything. */
int MPI_Abort(MPI_Comm comm, int exit_status)
{
    if (abort_ends_this_rank_alone) _exit(exit_status);
    return PMPI_Abort(comm, exit_status);
}
#endif

enum { NUMBERS = 50000 };

static mega_status check_call(mega_layout *l, const char *how, float *x, float *out)
{
    const bool other = l->world.rank == 1;
    mega_comm *c = l->dp.comm;
    MEGA_TRY(mega_comm_all_reduce(c, "gradients", x, NUMBERS, MEGA_F32, MEGA_REDUCE_SUM));
    if (strcmp(how, "count") == 0)
        return mega_comm_all_reduce(c, "gradients", x, NUMBERS - 10 * other, MEGA_F32, MEGA_REDUCE_SUM);
    if (strcmp(how, "kind") == 0 && other) return mega_comm_all_gather(c, "weights", out, x, 100, MEGA_F32);
    if (strcmp(how, "kind") == 0) return mega_comm_all_reduce(c, "gradients", x, 100, MEGA_F32, MEGA_REDUCE_SUM);
    if (other) MEGA_TRY(mega_comm_all_reduce(c, "one more", x, 100, MEGA_F32, MEGA_REDUCE_SUM));
    return mega_comm_barrier(c, "end of the step");
}

/* Compares a program of three sums of which the second differs on rank 1, and then a program that is the same on all
 * ranks. */
static mega_status compare_programs(mega_layout *l, int64_t rows)
{
    const int64_t dim[2] = {4, 8}, odd[2] = {rows, 8};
    const mega_program_options o = {.name = "planted"};
    mega_graph *g;
    mega_program *p;
    MEGA_TRY(mega_graph_create(MEGA_F32, NULL, l, &g));
    const mega_tensor x = mega_graph_input(g, "x", MEGA_F32, 2, dim), y = mega_graph_input(g, "y", MEGA_F32, 2, odd);
    mega_graph_output(g, mega_op_reduce_from_group(g, x, &l->dp), "a");
    mega_graph_output(g, mega_op_reduce_from_group(g, y, &l->dp), "b");
    mega_graph_output(g, mega_op_reduce_from_group(g, x, &l->dp), "c");
    MEGA_TRY(mega_program_build(g, &o, &p));
    const mega_status st = mega_program_compare_collectives(p, l->dp.comm);
    mega_program_destroy(p);
    return st;
}

/* Two by two ranks. A sum over tp and one over dp are in no order by themselves; on rank 1 they come the other way
 * round, or (is_group) both are over dp. */
static mega_status compare_groups(mega_world *world, bool is_group)
{
    const int64_t dim[2] = {4, 8};
    const mega_program_options o = {.name = "planted"};
    const bool other = mega_world_rank(world) == 1;
    mega_layout *l;
    mega_graph *g;
    mega_program *p;
    MEGA_TRY(mega_layout_create(world, &(mega_layout_sizes){.tp = 2}, &l));
    MEGA_TRY(mega_graph_create(MEGA_F32, NULL, l, &g));
    const mega_axis *const axis[2] = {other ? &l->dp : &l->tp, other && !is_group ? &l->tp : &l->dp};
    const mega_tensor x = mega_graph_input(g, "x", MEGA_F32, 2, dim), y = mega_graph_input(g, "y", MEGA_F32, 2, dim);
    mega_graph_output(g, mega_op_reduce_from_group(g, x, axis[0]), "a");
    mega_graph_output(g, mega_op_reduce_from_group(g, y, axis[1]), "b");
    MEGA_TRY(mega_program_build(g, &o, &p));
    mega_status st = mega_program_compare_collectives(p, l->tp.comm);
    if (st == MEGA_OK) st = mega_program_compare_collectives(p, l->dp.comm);
    mega_program_destroy(p);
    st = mega_comm_agree(mega_world_comm(world), st);
    mega_layout_destroy(l);
    return st;
}

/* All ranks meet twice; rank 1 the other way round. */
static mega_status compare_meetings(const mega_layout *l)
{
    static const char *const name[] = {"sum of losses", "sum of norms"};
    mega_order order = {.item = NULL};
    for (int i = 0; i < 2; i++) {
        const int which = l->world.rank == 1 ? 1 - i : i;
        mega_order_meet(&order, name[which], l->world.size, (uint64_t)which + 1);
    }
    const mega_status st = mega_order_check(&order, l->world.comm);
    mega_order_fini(&order);
    return st;
}

/* Compares engines: on rank 1 the buckets differ (data parallel, ZeRO 2), or there are more micro-batches (a
 * pipeline). */
static mega_status compare_engines(mega_world *world, bool is_pipeline)
{
    const bool other = mega_world_rank(world) == 1;
    mega_transformer gpt = engine_run_gpt();
    gpt.num_layers = 4;
    mega_engine_options o = engine_run_options(is_pipeline && other ? 12 : 8, 1, 1e-3);
    mega_engine *e = NULL;
    o.compute = MEGA_F32;
    o.world = world;
    o.layout.pp = is_pipeline ? mega_world_size(world) : 1;
    o.batch.micro_step = is_pipeline ? 1 : mega_world_size(world);
    o.zero_stage = 2;
    o.bucket_elements = !is_pipeline && other ? 9000 : 5000;
    mega_status st = gpt_engine_create(&e, &gpt, &o);
    if (st == MEGA_OK) st = mega_engine_compare_ranks(e);
    mega_engine_destroy(e);
    return st;
}

/* Sums once more, on rank 1 alone, where samples are shorter than those of the model. */
static void describe_more(const mega_builder *b, const void *self, mega_flow *f)
{
    api_block(b, self, f);
    if (b->positions < API_SEQ && b->layout->world.rank == 1)
        f->x = mega_op_reduce_from_group(b->graph, f->x, &b->layout->tp);
}

/* Trains under a curriculum, whose first steps have samples of half the length. */
static mega_status train_shorter(mega_world *world)
{
    const mega_layer layer[] = {api_layers[0], {"net.h.%d", describe_more, NULL, 2, "block"}, api_layers[2]};
    mega_model model = api_model;
    char *argv[] = {API_ARGV,
                    "--curriculum-learning",
                    "--curriculum-schedule",
                    "fixed_discrete",
                    "--curriculum-difficulty",
                    "4",
                    "8",
                    "--curriculum-max-step",
                    "2"};
    mega_engine *e = NULL;
    mega_step_result r;
    model.layer = layer;
    const mega_setup setup = {.model = &model,
                              .training_data = &api_data,
                              .argc = (int)(sizeof argv / sizeof *argv),
                              .argv = argv,
                              .layout = {.tp = mega_world_size(world)},
                              .world = world};
    mega_status st = mega_initialize(&setup, &e);
    if (st == MEGA_OK) st = mega_engine_compare_ranks(e);
    if (st == MEGA_OK) st = mega_engine_train_batch(e, &r);
    mega_engine_destroy(e);
    return st;
}

static void told_path(char *path, size_t size, int rank)
{
    snprintf(path, size, "told.%d", rank);
}

/* Returns when ranks 0 … count-1 have been told of a stall. */
static void await_told(int count)
{
    char path[32];
    for (int rank = 0; rank < count;) {
        told_path(path, sizeof path, rank);
        if (access(path, F_OK) == 0) rank++;
        else
            usleep(10000);
    }
}

static mega_status run(mega_world *world, mega_layout *l, const char *how)
{
    static float x[NUMBERS], out[8 * NUMBERS];
    const int me = l->world.rank, size = l->world.size;
    mega_request r;
    if (strcmp(how, "cycle") == 0) {
        MEGA_TRY(mega_comm_receive_start(l->dp.comm, "activations", (me + 1) % size, x, 4, &r));
        return mega_comm_wait(&r);
    }
    if (strcmp(how, "program") == 0) {
        MEGA_TRY(compare_programs(l, 4));
        return compare_programs(l, me == 1 ? 6 : 4);
    }
    if (strcmp(how, "order") == 0 || strcmp(how, "group") == 0) return compare_groups(world, strcmp(how, "group") == 0);
    if (strcmp(how, "meet") == 0) return compare_meetings(l);
    if (strcmp(how, "length") == 0) return train_shorter(world);
    if (strcmp(how, "buckets") == 0 || strcmp(how, "schedule") == 0)
        return compare_engines(world, strcmp(how, "schedule") == 0);
    if (strcmp(how, "leave") == 0 && me == 1) {
        fprintf(stderr, "ended: planted\n");
        mega_world_abort(world, 1);
    }
    if (strcmp(how, "leave") == 0) return mega_comm_barrier(l->dp.comm, "start of training");
    if (strcmp(how, "setup") == 0) {
        if (me == 1) return mega_comm_agree(mega_world_comm(world), MEGA_FAIL(MEGA_ERR_FORMAT, "planted"));
        return mega_comm_barrier(mega_world_comm(world), "start of training");
    }
    if (strcmp(how, "fail") == 0) {
        if (me == 2) return mega_comm_agree(mega_world_comm(world), MEGA_FAIL(MEGA_ERR_FORMAT, "planted"));
        return mega_comm_all_reduce(l->dp.comm, "gradients", x, NUMBERS, MEGA_F32, MEGA_REDUCE_SUM);
    }
    const bool is_busy = strcmp(how, "busy") == 0;
    const bool passes = strcmp(how, "pass") == 0;
    if (strcmp(how, "loop") != 0 && !is_busy && !passes) return check_call(l, how, x, out);
    for (int64_t step = 1; !passes || step <= 40; step++) {
        mega_record_step(mega_world_record(world), step);
        mega_record_phase(mega_world_record(world), "backward", 3);
        mega_record_scope(mega_world_record(world), "h.7.attn");
        MEGA_TRY(mega_comm_all_reduce(l->dp.comm, "gradients", x, NUMBERS, MEGA_F32, MEGA_REDUCE_SUM));
        if (step == 20 && me == 0) {
            printf("running\n");
            fflush(stdout);
        }
        if (step == 20 && is_busy && me == size - 1) sleep(60);
        if (step == 20 && passes && me == size - 1) await_told(size - 1);
    }
    return MEGA_OK;
}

static void tell(void *user, bool is_over, const char *text)
{
    const int rank = mega_world_rank(user);
    char path[32];
    if (text != NULL) fprintf(stderr, "told: %s\n", text);
    if (is_over) fprintf(stderr, "over: rank %d\n", rank);
    told_path(path, sizeof path, rank);
    FILE *mark = is_over ? NULL : fopen(path, "w");
    if (mark != NULL) fclose(mark);
}

int main(int argc, char **argv)
{
    mega_world *world;
    mega_layout *l;
    if (argc < 2) return 2;
#if defined(MEGA_HAVE_MPI)
    abort_ends_this_rank_alone = strcmp(argv[1], "leave") == 0;
#endif
    mega_status st = mega_world_create(NULL, &world);
    if (st == MEGA_OK) st = mega_layout_create(world, NULL, &l);
    if (st != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        return 1;
    }
    mega_world_set_timeout(world, argc > 2 ? atof(argv[2]) : 4);
    mega_world_set_stall_report(world, tell, world);
    st = mega_comm_agree(mega_world_comm(world), run(world, l, argv[1]));
    if (st != MEGA_OK) {
        if (!mega_world_failed(world) || mega_world_rank(world) == 0)
            fprintf(stderr, "ended: %s\n", mega_error_message());
        if (!mega_world_failed(world)) mega_world_abort(world, 1);
    }
    mega_layout_destroy(l);
    mega_world_destroy(world);
    return st == MEGA_OK ? 0 : 1;
}
