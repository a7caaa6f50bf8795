/* Exchanges of a device's memory against the same exchanges of host memory, bit for bit: every kind, small and large,
 * several in progress, and again without another allocation. With MEGA_CUDA_LIBRARY the device is a GPU, otherwise it
 * is the host, whose memory nobody can touch in a build with MEGA_FAR. */
#include "megalith/comm_log.h"
#include "megalith/compressed.h"
#include "megalith/cuda.h"
#include "megalith/memory.h"
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4, LARGE = 300007, MESSAGES = 3 };

static const int64_t sizes[] = {1, 7, 1000, LARGE};

static mega_device *device;
static mega_status (*device_host_alloc)(mega_device *d, void **out, size_t bytes, const char *what);
static int taken; /* blocks of pinned memory */

static mega_status counted_host_alloc(mega_device *d, void **out, size_t bytes, const char *what)
{
    taken++;
    return device_host_alloc(d, out, bytes, what);
}

/* The same numbers on the host and on the device. */
typedef struct numbers {
    char *host, *device;
    size_t bytes;
} numbers;

static numbers numbers_of(size_t bytes)
{
    void *at;
    numbers x = {.host = mega_calloc(1, bytes), .bytes = bytes};
    need(mega_device_alloc(device, &at, bytes, "a test"));
    if (x.host == NULL) exit(1);
    x.device = at;
    return x;
}

static void numbers_free(numbers *x)
{
    mega_device_free(x->device, x->bytes);
    mega_free(x->host);
}

/* Writes small numbers, of which sums are exact in bf16 too, in both places. */
static void draw(const numbers *x, mega_dtype dtype, int64_t count, int seed)
{
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)((i * 7 + seed * 31) % 13 - 6);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (dtype == MEGA_F32) memcpy(x->host + i * 4, &bits, 4);
        else
            ((uint16_t *)(void *)x->host)[i] = (uint16_t)(bits >> 16);
    }
    mega_device_write(x->device, x->host, x->bytes);
}

static void same(const numbers *x, const char *what, int64_t count, int rank)
{
    char *seen = mega_malloc(x->bytes);
    if (seen == NULL) exit(1);
    mega_device_read(seen, x->device, x->bytes);
    for (size_t i = 0; i < x->bytes; i++)
        if (seen[i] != x->host[i]) {
            fprintf(stderr, "rank %d, %s of %lld: byte %zu differs from the exchange of host memory\n", rank, what,
                    (long long)count, i);
            exit(1);
        }
    mega_free(seen);
}

static void collectives(mega_comm *c, int64_t n, mega_dtype dtype)
{
    const int rank = mega_comm_rank(c), ranks = mega_comm_size(c);
    const size_t size = mega_dtype_size(dtype), slice = (size_t)n * size;
    numbers all = numbers_of(slice * (size_t)ranks), other = numbers_of(all.bytes), one = numbers_of(slice);
    draw(&one, dtype, n, rank);
    need(mega_comm_all_reduce(c, "a", one.host, n, dtype, MEGA_REDUCE_SUM));
    need(mega_comm_all_reduce(c, "a", one.device, n, dtype, MEGA_REDUCE_SUM));
    same(&one, "all_reduce", n, rank);
    draw(&all, dtype, n * ranks, rank);
    need(mega_comm_reduce_scatter(c, "b", one.host, all.host, n, dtype));
    need(mega_comm_reduce_scatter(c, "b", one.device, all.device, n, dtype));
    same(&one, "reduce_scatter", n, rank);
    need(mega_comm_reduce_scatter(c, "c", all.host + slice * (size_t)rank, all.host, n, dtype));
    need(mega_comm_reduce_scatter(c, "c", all.device + slice * (size_t)rank, all.device, n, dtype));
    mega_device_read(all.host, all.device, all.bytes); /* what is left of the others' slices has no meaning */
    mega_device_read(other.host, all.device + slice * (size_t)rank, slice);
    if (memcmp(other.host, one.host, slice) != 0) exit(1);
    need(mega_comm_all_gather(c, "d", other.host, one.host, n, dtype));
    need(mega_comm_all_gather(c, "d", other.device, one.device, n, dtype));
    same(&other, "all_gather", n, rank);
    draw(&all, dtype, n * ranks, rank + 3);
    need(mega_comm_all_gather(c, "e", all.host, all.host + slice * (size_t)rank, n, dtype));
    need(mega_comm_all_gather(c, "e", all.device, all.device + slice * (size_t)rank, n, dtype));
    same(&all, "all_gather in place", n, rank);
    draw(&all, dtype, n * ranks, rank + 5);
    need(mega_comm_all_to_all(c, "f", other.host, all.host, n, dtype));
    need(mega_comm_all_to_all(c, "f", other.device, all.device, n, dtype));
    same(&other, "all_to_all", n, rank);
    draw(&one, dtype, n, rank + 7);
    need(mega_comm_broadcast(c, "g", one.host, (int64_t)slice, ranks - 1));
    need(mega_comm_broadcast(c, "g", one.device, (int64_t)slice, ranks - 1));
    same(&one, "broadcast", n, rank);
    numbers_free(&all);
    numbers_free(&other);
    numbers_free(&one);
}

/* Messages around the ring while a sum is in progress, waited for from the last to the first. */
static void messages(mega_comm *c, int64_t n)
{
    const int rank = mega_comm_rank(c), ranks = mega_comm_size(c), next = (rank + 1) % ranks;
    const int64_t bytes = n * (int64_t)sizeof(float);
    numbers sent[MESSAGES], received[MESSAGES], sum = numbers_of((size_t)bytes);
    mega_request out[MESSAGES], in[MESSAGES], sums;
    draw(&sum, MEGA_F32, n, rank);
    for (int k = 0; k < MESSAGES; k++) {
        sent[k] = numbers_of((size_t)bytes);
        received[k] = numbers_of((size_t)bytes);
        draw(&received[k], MEGA_F32, n, (rank + ranks - 1) % ranks + 10 * k); /* what will arrive */
        mega_device_fill(received[k].device, 0, (size_t)bytes);
        draw(&sent[k], MEGA_F32, n, rank + 10 * k);
        need(mega_comm_receive_start(c, "m", (rank + ranks - 1) % ranks, received[k].device, bytes, &in[k]));
    }
    need(mega_comm_all_reduce_start(c, "s", sum.device, n, MEGA_F32, MEGA_REDUCE_MAX, &sums));
    for (int k = 0; k < MESSAGES; k++) need(mega_comm_send_start(c, "m", next, sent[k].device, bytes, &out[k]));
    for (int k = MESSAGES - 1; k >= 0; k--) {
        need(mega_comm_wait(&in[k]));
        need(mega_comm_wait(&out[k]));
        same(&received[k], "message", n, rank);
    }
    need(mega_comm_wait(&sums));
    need(mega_comm_all_reduce(c, "s", sum.host, n, MEGA_F32, MEGA_REDUCE_MAX));
    same(&sum, "all_reduce beside messages", n, rank);
    for (int k = 0; k < MESSAGES; k++) {
        numbers_free(&sent[k]);
        numbers_free(&received[k]);
    }
    numbers_free(&sum);
}

static void made_of_several(mega_comm *c, int64_t n)
{
    const int rank = mega_comm_rank(c), ranks = mega_comm_size(c), member[MOST_RANKS] = {0, 1, 2, 3};
    const mega_members m = {.comm = c, .rank = member, .count = ranks, .own = rank};
    numbers x[3] = {numbers_of((size_t)n * 4), numbers_of((size_t)n * 4), numbers_of((size_t)n * 4)};
    void *lists = mega_malloc(mega_comm_members_lists(&m));
    void *scratch = mega_calloc(1, mega_comm_members_scratch(&m, n, MEGA_F32) + 1);
    draw(&x[0], MEGA_F32, n, rank);
    need(mega_comm_members_sum(&m, "t", x[0].host, n, MEGA_F32, lists, scratch));
    need(mega_comm_members_sum(&m, "t", x[0].device, n, MEGA_F32, lists, scratch));
    same(&x[0], "sum of members", n, rank);
    mega_free(lists);
    mega_free(scratch);
    mega_compressed host = {x[0].host, x[1].host, x[2].host, n}, far = {x[0].device, x[1].device, x[2].device, n};
    scratch = mega_calloc(1, mega_compressed_scratch(&host, 1, ranks));
    draw(&x[0], MEGA_F32, n, rank + 1);
    need(mega_comm_compressed_mean(c, "u", &host, 1, MEGA_F32, NULL, scratch));
    need(mega_comm_compressed_mean(c, "u", &far, 1, MEGA_F32, NULL, scratch));
    for (int k = 0; k < 3; k++) {
        same(&x[k], "compressed mean", n, rank);
        numbers_free(&x[k]);
    }
    mega_free(scratch);
}

static void each_kind(mega_comm *c)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        collectives(c, sizes[i], MEGA_F32);
        collectives(c, sizes[i], MEGA_BF16);
        messages(c, sizes[i]);
        made_of_several(c, sizes[i]);
    }
}

/* Two copies of a sum, one of a message's two ends. */
static void check_counts(mega_world *world)
{
    mega_comm *c = mega_world_comm(world);
    const mega_comm_staged before = mega_comm_staged_get(world);
    const bool is_staged = device != NULL || !mega_device_is_host(NULL);
    float word = 0;
    numbers x = numbers_of(400);
    need(mega_comm_all_reduce(c, "n", x.device, 100, MEGA_F32, MEGA_REDUCE_SUM));
    need(mega_comm_broadcast(c, "n", x.device, 400, 0));
    need(mega_comm_all_reduce(c, "n", &word, 1, MEGA_F32, MEGA_REDUCE_SUM)); /* of the host: no copy */
    const mega_comm_staged after = mega_comm_staged_get(world);
    const int64_t copies = after.copies - before.copies, bytes = after.bytes - before.bytes;
    numbers_free(&x);
    if (copies == (is_staged ? 3 : 0) && bytes == copies * 400) return;
    fprintf(stderr, "%lld copies of %lld bytes\n", (long long)copies, (long long)bytes);
    exit(1);
}

int main(void)
{
    mega_world *world;
    need(mega_world_create(NULL, &world));
    if (getenv("MEGA_CUDA_LIBRARY") != NULL) {
        need(mega_cuda_open(0, &device));
        device_host_alloc = device->host_alloc;
        device->host_alloc = counted_host_alloc;
    }
    each_kind(mega_world_comm(world));
    const int first = taken;
    each_kind(mega_world_comm(world));
    if (taken != first || (device != NULL && first == 0)) {
        fprintf(stderr, "%d blocks of pinned memory, then %d more\n", first, taken - first);
        return 1;
    }
    check_counts(world);
    need(mega_device_finish(device));
    mega_comm_forget_device(world, device);
    mega_device_close(device);
    mega_world_destroy(world);
    return 0;
}
