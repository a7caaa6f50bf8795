/* Sums over the states of an optimizer. The threads share pieces of elements, whose sums are kept in scratch and added
 * in order; F64 is computed the same way. */
#include "cpu/share.h"
#include <math.h>

/* 64 kB of floats: one claim of a thread reads long enough that claiming costs nothing. The bits depend on it.
 * No benchmark chose it. */
#define STATE_PIECE 16384

static void cpu_state_sums_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_state_sums_args *a = ((const cpu_job *)user)->args;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t stop = (piece + 1) * STATE_PIECE < a->count ? (piece + 1) * STATE_PIECE : a->count;
        double squares = 0, sizes = 0, roots = 0, most = 0;
        for (int64_t i = piece * STATE_PIECE; i < stop; i++) {
            const double x = fabs(get(a->x, acc_of(a->head.dtype), i));
            squares += x * x;
            sizes += x;
            roots += sqrt(x);
            if (x > most || isnan(x)) most = x;
        }
        double *const sum = (double *)a->head.scratch + 4 * piece;
        sum[0] = squares, sum[1] = sizes, sum[2] = roots, sum[3] = most;
    }
}

static int64_t state_pieces(const mega_state_sums_args *a)
{
    return (a->count + STATE_PIECE - 1) / STATE_PIECE;
}

static void cpu_state_sums_run(const mega_queue *queue, const void *args)
{
    const mega_state_sums_args *a = args;
    cpu_job_run(mega_queue_team(queue), cpu_state_sums_work, args, state_pieces(a), 1, a->count);
    for (int64_t k = 0; k < state_pieces(a); k++) {
        const double *const sum = (const double *)a->head.scratch + 4 * k;
        for (int j = 0; j < 3; j++) a->sums[j] += sum[j];
        if (sum[3] > a->sums[3] || isnan(sum[3])) a->sums[3] = sum[3];
    }
}

static size_t cpu_state_sums_scratch(const void *args, int threads)
{
    return (size_t)state_pieces(args) * 4 * sizeof(double);
}

const mega_kernel mega_cpu_state_sums = {
    .name = "state_sums", .run = cpu_state_sums_run, .scratch = cpu_state_sums_scratch};
