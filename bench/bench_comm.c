/* Measures collectives between ranks of one host: over MPI and over shared memory, alternating in one process.
 *   bench_comm [repeats=N] [KIND:TYPE:BYTES …]
 * is started as several ranks. KIND is all_reduce, reduce_scatter or all_gather, TYPE is f32 or bf16, BYTES is the size
 * of the whole buffer. For each, the first rank prints a line
 *   KIND TYPE BYTES: microseconds of both, MPI's time ÷ that of shared memory, each repeat, the smallest first */
#include "bench_kit.h"
#include "megalith/comm.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>

enum { MOST_REPEATS = 101 };

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "%s\n", mega_error_message());
    exit(1);
}

typedef struct subject {
    char kind[32];
    mega_dtype dtype;
    int64_t bytes;
    void *whole, *share; /* the whole buffer; this rank's share */
} subject;

static void call(const subject *s, mega_comm *c)
{
    const int64_t all = s->bytes / (int64_t)mega_dtype_size(s->dtype), one = all / mega_comm_size(c);
    if (strcmp(s->kind, "all_reduce") == 0)
        need(mega_comm_all_reduce(c, "bench", s->whole, all, s->dtype, MEGA_REDUCE_SUM));
    else if (strcmp(s->kind, "reduce_scatter") == 0)
        need(mega_comm_reduce_scatter(c, "bench", s->share, s->whole, one, s->dtype));
    else
        need(mega_comm_all_gather(c, "bench", s->whole, s->share, one, s->dtype));
}

/* Returns the seconds per call. */
static double measure(const subject *s, mega_world *w, bool shared, int calls)
{
    mega_world_set_shared(w, shared);
    need(mega_comm_barrier(mega_world_comm(w), "before"));
    call(s, mega_world_comm(w)); /* touches pages and warms caches */
    need(mega_comm_barrier(mega_world_comm(w), "before"));
    const double began = mega_time_now();
    for (int i = 0; i < calls; i++) call(s, mega_world_comm(w));
    need(mega_comm_barrier(mega_world_comm(w), "behind"));
    return (mega_time_now() - began) / calls;
}

static void print(const subject *s, const double *ratio, double mpi, double shared, int repeats)
{
    printf("%s %s %lld: %.1f %.1f us,", s->kind, mega_dtype_name(s->dtype), (long long)s->bytes, mpi * 1e6,
           shared * 1e6);
    for (int i = 0; i < repeats; i++) printf(" %.3f", ratio[i]);
    printf("\n");
    fflush(stdout);
}

static void compare(const subject *s, mega_world *w, int repeats)
{
    double ratio[MOST_REPEATS], mpi[MOST_REPEATS], shared[MOST_REPEATS];
    int32_t calls = (int32_t)(0.01 / measure(s, w, false, 2));
    calls = calls < 1 ? 1 : calls > 1000 ? 1000 : calls;
    need(mega_comm_all_reduce(mega_world_comm(w), "calls", &calls, 1, MEGA_I32, MEGA_REDUCE_MAX));
    for (int i = 0; i < repeats; i++) {
        const bool first = i % 2 == 0;
        const double a = measure(s, w, first, calls), b = measure(s, w, !first, calls);
        shared[i] = first ? a : b;
        mpi[i] = first ? b : a;
        ratio[i] = mpi[i] / shared[i];
    }
    bench_sort(ratio, repeats);
    bench_sort(mpi, repeats);
    bench_sort(shared, repeats);
    if (mega_world_rank(w) == 0) print(s, ratio, mpi[repeats / 2], shared[repeats / 2], repeats);
}

static void fill(subject *s)
{
    for (int64_t i = 0; i < s->bytes / (int64_t)mega_dtype_size(s->dtype); i++) {
        const float x = (float)(i % 1000) * 0.01f - 5.0f;
        if (s->dtype == MEGA_F32) ((float *)s->whole)[i] = ((float *)s->share)[i] = x;
        else
            ((uint16_t *)s->whole)[i] = ((uint16_t *)s->share)[i] = mega_f32_to_bf16(x);
    }
}

static void take(mega_world *w, const char *text, int repeats)
{
    subject s = {.dtype = MEGA_F32};
    char type[8];
    long long bytes;
    if (sscanf(text, "%31[a-z_]:%7[a-z0-9]:%lld", s.kind, type, &bytes) != 3) {
        fprintf(stderr, "%s: expected KIND:TYPE:BYTES\n", text);
        exit(2);
    }
    if (strcmp(type, "bf16") == 0) s.dtype = MEGA_BF16;
    s.bytes = bytes;
    s.whole = malloc((size_t)bytes);
    s.share = malloc((size_t)bytes);
    if (s.whole == NULL || s.share == NULL) exit(1);
    fill(&s);
    compare(&s, w, repeats);
    free(s.whole);
    free(s.share);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"all_reduce", "reduce_scatter", "all_gather"};
    static const char *const types[] = {"f32", "bf16"};
    static const int64_t sizes[] = {1 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20};
    mega_world *w;
    int repeats = 7, taken = 0;
    need(mega_world_create(NULL, &w));
    if (!mega_world_can_share(w)) {
        fprintf(stderr, "these ranks share no memory\n");
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "repeats=", 8) == 0) repeats = atoi(argv[i] + 8);
        else
            take(w, argv[i], repeats), taken++;
        if (repeats < 1 || repeats > MOST_REPEATS) return 2;
    }
    for (int k = 0; k < 3 && taken == 0; k++)
        for (int t = 0; t < 2; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                char text[64];
                snprintf(text, sizeof text, "%s:%s:%lld", kinds[k], types[t], (long long)sizes[i]);
                take(w, text, repeats);
            }
    mega_world_destroy(w);
    return 0;
}
