/* Tests the compressed mean (compressed.h) on its ranks against its formula, computed here for all ranks at once in the
 * plainest way: values, and what each rank keeps as errors, over several exchanges.
 *
 *   ranks_compressed [threads] */
#include "megalith/compressed.h"
#include "megalith/memory.h"
#include "rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 9001, TENSORS = 6, ROUNDS = 4, MOST_RANKS = 8 };

static const int64_t counts[TENSORS] = {1, 7, 64, 9, 9000, 131};

/* The number of element i in a round on a rank; some are 0. */
static double value_of(int rank, int tensor, int64_t i, int round)
{
    const int64_t x = (i * 37 + tensor * 11 + round * 101 + rank * 53) % 97;
    return i % 13 == 5 ? 0 : (double)(x - 40) * 0.01 + 0.003 * rank;
}

static double sign_of(double x)
{
    return x >= 0 ? 1 : -1;
}

typedef struct reference {
    double worker[MOST_RANKS][MOST], server[MOST], mean[MOST];
} reference;

static double scale_of(const double *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
    return count > 0 ? sqrt(sum / (double)count) : 0;
}

static void compute(reference *r, int tensor, int round, int ranks)
{
    const int64_t count = counts[tensor], chunk = ((count + ranks - 1) / ranks + 7) / 8 * 8;
    double scale[MOST_RANKS];
    for (int k = 0; k < ranks; k++) {
        for (int64_t i = 0; i < count; i++) r->worker[k][i] += value_of(k, tensor, i, round);
        scale[k] = scale_of(r->worker[k], count);
    }
    for (int64_t first = 0; first < count; first += chunk) {
        const int64_t end = first + chunk < count ? first + chunk : count;
        for (int64_t i = first; i < end; i++)
            for (int k = 0; k < ranks; k++) r->server[i] += scale[k] * sign_of(r->worker[k][i]) / ranks;
        const double own = scale_of(r->server + first, end - first);
        for (int64_t i = first; i < end; i++) {
            r->mean[i] = own * sign_of(r->server[i]);
            r->server[i] -= r->mean[i];
        }
    }
    for (int k = 0; k < ranks; k++)
        for (int64_t i = 0; i < count; i++) r->worker[k][i] -= scale[k] * sign_of(r->worker[k][i]);
}

static int failures;

static void compare(const char *what, int tensor, int round, int64_t i, double found, double expected, double tolerance)
{
    if (fabs(found - expected) <= tolerance || failures++ > 3) return;
    fprintf(stderr, "%s of tensor %d, element %lld, round %d: %.15g, expected %.15g\n", what, tensor, (long long)i,
            round, found, expected);
}

static double read_at(const void *x, mega_dtype dtype, int64_t i)
{
    return dtype == MEGA_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void write_at(void *x, mega_dtype dtype, int64_t i, double value)
{
    if (dtype == MEGA_F64) ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

static void check_round(const reference *r, const mega_compressed *x, int tensor, int round, mega_dtype dtype, int rank,
                        int ranks)
{
    const double tolerance = dtype == MEGA_F64 ? 1e-12 : 2e-5;
    const int64_t first = rank * mega_compressed_chunk(x->count, ranks);
    for (int64_t i = 0; i < x->count; i++) {
        compare("mean", tensor, round, i, read_at(x->data, dtype, i), r->mean[i], tolerance);
        compare("worker error", tensor, round, i, read_at(x->worker_error, dtype, i), r->worker[rank][i], tolerance);
    }
    for (int64_t i = 0; i < mega_compressed_own(x->count, ranks, rank); i++)
        compare("server error", tensor, round, i, read_at(x->server_error, dtype, i), r->server[first + i], tolerance);
}

static void *zeros(size_t bytes)
{
    void *x = mega_calloc(1, bytes);
    if (x == NULL) exit(1);
    return x;
}

/* F32 rounds, so signs of values near 0 could differ from those of the formula; the values are far enough from it. */
static void test(mega_comm *comm, mega_dtype dtype, mega_team *team)
{
    const int rank = mega_comm_rank(comm), ranks = mega_comm_size(comm);
    const size_t size = mega_dtype_size(dtype);
    mega_compressed x[TENSORS];
    reference *r = zeros(TENSORS * sizeof *r);
    for (int t = 0; t < TENSORS; t++)
        x[t] = (mega_compressed){zeros(MOST * size), zeros(MOST * size), zeros(MOST * size), counts[t]};
    void *scratch = zeros(mega_compressed_scratch(x, TENSORS, ranks) + 1);
    for (int round = 0; round < ROUNDS; round++) {
        for (int t = 0; t < TENSORS; t++) {
            for (int64_t i = 0; i < counts[t]; i++) write_at(x[t].data, dtype, i, value_of(rank, t, i, round));
            compute(&r[t], t, round, ranks);
        }
        need(mega_comm_compressed_mean(comm, "test", x, TENSORS, dtype, team, scratch));
        for (int t = 0; t < TENSORS && ranks > 1; t++) check_round(&r[t], &x[t], t, round, dtype, rank, ranks);
        if (ranks == 1 && read_at(x[4].data, dtype, 3) !=
                              (dtype == MEGA_F64 ? value_of(0, 4, 3, round) : (double)(float)value_of(0, 4, 3, round)))
            failures++;
    }
    for (int t = 0; t < TENSORS; t++) {
        mega_free(x[t].data);
        mega_free(x[t].worker_error);
        mega_free(x[t].server_error);
    }
    mega_free(scratch);
    mega_free(r);
}

int main(int argc, char **argv)
{
    mega_world *world;
    mega_team *team = NULL;
    need(mega_world_create(NULL, &world));
    if (argc > 1) need(mega_team_create(atoi(argv[1]), &team));
    test(mega_world_comm(world), MEGA_F64, team);
    test(mega_world_comm(world), MEGA_F32, team);
    mega_team_destroy(team);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
