/* Tests every collective over every axis of a layout against results that this rank computes alone. Values are small
 * integers computed from world rank and position, so every sum is exact in every type. Collectives run one after the
 * other, and also many at once. Usage: ranks_comm TP CP PP EP */
#include "megalith/comm.h"
#include "megalith/comm_log.h"
#include "megalith/memory.h"
#include "megalith/record.h"
#include "rank.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int failures;
static mega_comm *world_comm;

static void expect(int ok, const char *fmt, ...)
{
    if (ok) return;
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    failures++;
}

typedef struct group {
    const char *name;
    mega_axis axis;
    int first, stride; /* world ranks of its members */
} group;

static int member(const group *g, int r)
{
    return g->first + r * g->stride;
}

/* Returns the value of a rank at position i: 0 to 12. */
static int value(int world_rank, int64_t i)
{
    return (int)((world_rank * 7 + i * 3) % 13);
}

static int reduced(const group *g, int64_t i, mega_reduce op)
{
    int out = value(member(g, 0), i);
    for (int r = 1; r < g->axis.size; r++) {
        const int v = value(member(g, r), i);
        out = op == MEGA_REDUCE_SUM ? out + v : op == MEGA_REDUCE_MAX ? (v > out ? v : out) : (v < out ? v : out);
    }
    return out;
}

static void put(void *x, mega_dtype t, int64_t i, int v)
{
    switch (t) {
    case MEGA_F32: ((float *)x)[i] = (float)v; break;
    case MEGA_F64: ((double *)x)[i] = v; break;
    case MEGA_BF16: ((uint16_t *)x)[i] = mega_f32_to_bf16((float)v); break;
    case MEGA_F16: ((uint16_t *)x)[i] = mega_f32_to_f16((float)v); break;
    case MEGA_I32: ((int32_t *)x)[i] = v; break;
    default: ((int64_t *)x)[i] = v; break;
    }
}

static int get(const void *x, mega_dtype t, int64_t i)
{
    switch (t) {
    case MEGA_F32: return (int)((const float *)x)[i];
    case MEGA_F64: return (int)((const double *)x)[i];
    case MEGA_BF16: return (int)mega_bf16_to_f32(((const uint16_t *)x)[i]);
    case MEGA_F16: return (int)mega_f16_to_f32(((const uint16_t *)x)[i]);
    case MEGA_I32: return ((const int32_t *)x)[i];
    default: return (int)((const int64_t *)x)[i];
    }
}

static void *numbers(mega_dtype t, int64_t count, int world_rank, int64_t from)
{
    void *x = calloc((size_t)count + 1, 8);
    if (x == NULL) exit(1);
    for (int64_t i = 0; i < count; i++) put(x, t, i, value(world_rank, from + i));
    return x;
}

static void check_reductions(const group *g, mega_dtype t, int64_t count)
{
    const int me = member(g, g->axis.rank), size = g->axis.size;
    for (int op = MEGA_REDUCE_SUM; op <= MEGA_REDUCE_MIN; op++) {
        void *x = numbers(t, count, me, 0);
        need(mega_comm_all_reduce(g->axis.comm, "numbers", x, count, t, (mega_reduce)op));
        for (int64_t i = 0; i < count; i++)
            expect(get(x, t, i) == reduced(g, i, (mega_reduce)op), "all_reduce %d of %s %s: element %lld of %lld is %d",
                   op, g->name, mega_dtype_name(t), (long long)i, (long long)count, get(x, t, i));
        free(x);
    }
    void *in = numbers(t, count * size, me, 0), *out = numbers(t, count, me, 99);
    const int64_t first = count * g->axis.rank;
    need(mega_comm_reduce_scatter(g->axis.comm, "numbers", out, in, count, t));
    for (int64_t i = 0; i < count; i++)
        expect(get(out, t, i) == reduced(g, first + i, MEGA_REDUCE_SUM), "reduce_scatter of %s", g->name);
    char *own = (char *)in + (size_t)first * mega_dtype_size(t); /* in place */
    need(mega_comm_reduce_scatter(g->axis.comm, "numbers", own, in, count, t));
    for (int64_t i = 0; i < count; i++)
        expect(get(own, t, i) == reduced(g, first + i, MEGA_REDUCE_SUM), "reduce_scatter of %s in place", g->name);
    free(in);
    free(out);
}

static void check_moves(const group *g, mega_dtype t, int64_t count)
{
    const int me = member(g, g->axis.rank), size = g->axis.size;
    void *in = numbers(t, count, me, 0), *out = numbers(t, count * size, me, 50);
    need(mega_comm_all_gather(g->axis.comm, "numbers", out, in, count, t));
    for (int64_t i = 0; i < count * size; i++)
        expect(get(out, t, i) == value(member(g, (int)(i / count)), i % count), "all_gather of %s", g->name);
    free(in);
    in = numbers(t, count * size, me, 0);
    need(mega_comm_all_to_all(g->axis.comm, "numbers", out, in, count, t));
    for (int64_t i = 0; i < count * size; i++)
        expect(get(out, t, i) == value(member(g, (int)(i / count)), count * g->axis.rank + i % count),
               "all_to_all of %s", g->name);
    for (int root = 0; root < size; root++) {
        void *x = numbers(t, count, me, root);
        need(mega_comm_broadcast(g->axis.comm, "numbers", x, count * (int64_t)mega_dtype_size(t), root));
        for (int64_t i = 0; i < count; i++)
            expect(get(x, t, i) == value(member(g, root), root + i), "broadcast of %s from %d", g->name, root);
        free(x);
    }
    free(in);
    free(out);
}

/* All ranks must get the message of the lowest failing rank and can then continue. */
static void check_agreement(const group *g)
{
    const int size = g->axis.size;
    char message[32];
    need(mega_comm_agree(g->axis.comm, MEGA_OK));
    /* A failure over the whole world is final, so main tests it last. */
    for (int bad = 0; bad < size && size < mega_comm_size(world_comm); bad++) {
        mega_status st = MEGA_OK;
        if (g->axis.rank >= bad) st = MEGA_FAIL(MEGA_ERR_FORMAT, "planted in %d", member(g, g->axis.rank));
        st = mega_comm_agree(g->axis.comm, st);
        snprintf(message, sizeof message, "planted in %d", member(g, bad));
        expect(st == MEGA_ERR_FORMAT && strstr(mega_error_message(), message) != NULL, "agree of %s: %d, %s", g->name,
               (int)st, mega_error_message());
        mega_error_clear();
    }
    /* A failure without a message also counts, even if an older message has another status. */
    for (int has_old = 0; has_old < 2 && size > 1 && size < mega_comm_size(world_comm); has_old++) {
        mega_error_clear();
        if (has_old != 0) (void)MEGA_FAIL(MEGA_ERR_IO, "an old message");
        const mega_status st = mega_comm_agree(g->axis.comm, g->axis.rank == size - 1 ? MEGA_ERR_USAGE : MEGA_OK);
        expect(st == MEGA_ERR_USAGE && strstr(mega_error_message(), "\"usage\" (1) without a message") != NULL,
               "agree of %s without a message: %d, %s", g->name, (int)st, mega_error_message());
        mega_error_clear();
    }
    need(mega_comm_barrier(g->axis.comm, "end"));
}

static void check_group(const group *g)
{
    static const mega_dtype types[] = {MEGA_F32, MEGA_F64, MEGA_BF16, MEGA_F16, MEGA_I32, MEGA_I64};
    static const int64_t counts[] = {0, 1, 7, 1000, 20011};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            check_reductions(g, types[t], counts[c]);
            if (counts[c] > 0) check_moves(g, types[t], counts[c]);
        }
    check_agreement(g);
    expect(mega_comm_all_reduce(g->axis.comm, "bytes", (char[1]){0}, 1, MEGA_U8, MEGA_REDUCE_SUM) ==
               (g->axis.size == 1 ? MEGA_OK : MEGA_ERR_UNSUPPORTED),
           "a reduction of bytes was taken");
}

/* ---- many in progress at once ---- */

enum { GROUPS = 6, KINDS = 6, MANY = 3001 };

/* For one group: a request of each kind and its data. */
typedef struct under_way {
    mega_request request[KINDS];
    float sum[MANY], scattered[MANY], *all, *gathered, *exchanged;
    int32_t sent[MANY], come[MANY];
} under_way;

static void begin_all(under_way *u, const group *g)
{
    mega_comm *c = g->axis.comm;
    const int me = member(g, g->axis.rank), size = g->axis.size;
    for (int64_t i = 0; i < MANY; i++) put(u->sum, MEGA_F32, i, value(me, i));
    for (int64_t i = 0; i < (int64_t)MANY * size; i++) put(u->all, MEGA_F32, i, value(me, i));
    for (int64_t i = 0; i < MANY; i++) put(u->gathered, MEGA_F32, i + (int64_t)MANY * g->axis.rank, value(me, i));
    for (int64_t i = 0; i < MANY; i++) put(u->sent, MEGA_I32, i, value(me, i));
    if (size > 1) { /* around the ring */
        need(mega_comm_send_start(c, "ring", (g->axis.rank + 1) % size, u->sent, sizeof u->sent, &u->request[3]));
        need(mega_comm_receive_start(c, "ring", (g->axis.rank + size - 1) % size, u->come, sizeof u->come,
                                     &u->request[4]));
    }
    need(mega_comm_all_reduce_start(c, "sum", u->sum, MANY, MEGA_F32, MEGA_REDUCE_SUM, &u->request[0]));
    need(mega_comm_reduce_scatter_start(c, "scattered", u->scattered, u->all, MANY, MEGA_F32, &u->request[1]));
    need(mega_comm_all_gather_start(c, "gathered", u->gathered, u->gathered + (ptrdiff_t)MANY * g->axis.rank, MANY,
                                    MEGA_F32, &u->request[2]));
    need(mega_comm_all_to_all_start(c, "exchanged", u->exchanged, u->all, MANY, MEGA_F32, &u->request[5]));
}

static void check_all(const under_way *u, const group *g)
{
    const int size = g->axis.size, before = member(g, (g->axis.rank + size - 1) % size);
    int wrong[KINDS] = {0};
    for (int64_t i = 0; i < MANY; i++) {
        wrong[0] += get(u->sum, MEGA_F32, i) != reduced(g, i, MEGA_REDUCE_SUM);
        wrong[1] += get(u->scattered, MEGA_F32, i) != reduced(g, (int64_t)MANY * g->axis.rank + i, MEGA_REDUCE_SUM);
        for (int r = 0; r < size; r++) {
            const int64_t at = (int64_t)MANY * r + i;
            wrong[2] += get(u->gathered, MEGA_F32, at) != value(member(g, r), i);
            wrong[5] += get(u->exchanged, MEGA_F32, at) != value(member(g, r), (int64_t)MANY * g->axis.rank + i);
        }
        wrong[4] += size > 1 && u->come[i] != value(before, i);
    }
    for (int k = 0; k < KINDS; k++)
        expect(wrong[k] == 0, "request %d of group %s under way with others: %d wrong", k, g->name, wrong[k]);
}

/* Starts requests group by group, in an order that differs from rank to rank, polls now and then, and waits for them in
 * another order, with a blocking collective in between. */
static void check_under_way(mega_world *world, const group *group_of, under_way *u, int round)
{
    const int me = mega_world_rank(world);
    for (int i = 0; i < GROUPS; i++) {
        const int k = (i + me + round) % GROUPS;
        begin_all(&u[k], &group_of[k]);
        for (int polls = 0; polls < (me * 7 + round) % 5; polls++) need(mega_comm_poll(world));
    }
    for (int i = 0; i < GROUPS * KINDS; i++) {
        const int at = (i * 7 + me * 11 + round) % (GROUPS * KINDS); /* 7 and 36 are coprime: each request once */
        need(mega_comm_wait(&u[at / KINDS].request[at % KINDS]));
        if (i == 5) need(mega_comm_barrier(world_comm, "between"));
        expect(u[at / KINDS].request[at % KINDS].world == NULL, "a request outlived its wait");
    }
    for (int k = 0; k < GROUPS; k++) check_all(&u[k], &group_of[k]);
}

static void check_rounds(mega_world *world, const group *group_of)
{
    static under_way u[GROUPS];
    uint64_t allocations = 0;
    for (int k = 0; k < GROUPS; k++) {
        u[k].all = calloc((size_t)group_of[k].axis.size * MANY, sizeof *u[k].all);
        u[k].gathered = calloc((size_t)group_of[k].axis.size * MANY, sizeof *u[k].gathered);
        u[k].exchanged = calloc((size_t)group_of[k].axis.size * MANY, sizeof *u[k].exchanged);
        if (u[k].all == NULL || u[k].gathered == NULL || u[k].exchanged == NULL) exit(1);
    }
    for (int round = 0; round < 8; round++) {
        check_under_way(world, group_of, u, round % 4);
        if (round == 3) allocations = mega_alloc_count();
    }
    expect(mega_alloc_count() == allocations, "%d allocations behind the first rounds",
           (int)(mega_alloc_count() - allocations));
    for (int k = 0; k < GROUPS; k++) {
        free(u[k].all);
        free(u[k].gathered);
        free(u[k].exchanged);
    }
}

/* ---- MPI and shared memory give the same bits ---- */

/* Appends the results of each kind of collective on numbers whose sum depends on the order. */
static size_t collect(const group *g, mega_dtype t, int64_t count, char *out)
{
    const size_t bytes = (size_t)count * mega_dtype_size(t), size = (size_t)g->axis.size;
    char *all = out, *slice = all + bytes, *whole = slice + bytes, *in = whole + bytes * size;
    const int me = member(g, g->axis.rank);
    for (int64_t i = 0; i < count * (int64_t)size; i++) {
        const float x = 1.0f / (float)(1 + (me * 131 + i * 7919) % 1009) - 0.01f;
        if (t == MEGA_F32) ((float *)(void *)in)[i] = x;
        else
            ((uint16_t *)(void *)in)[i] = mega_f32_to_bf16(x);
    }
    memcpy(all, in, bytes);
    need(mega_comm_all_reduce(g->axis.comm, "numbers", all, count, t, MEGA_REDUCE_SUM));
    need(mega_comm_reduce_scatter(g->axis.comm, "numbers", slice, in, count, t));
    need(mega_comm_all_gather(g->axis.comm, "numbers", whole, slice, count, t));
    return bytes * (2 + size);
}

static void check_ways(mega_world *world, const group *group_of)
{
    static const int64_t counts[] = {1, 9, 1000, 1025, 50021};
    enum { MOST = 50021 * 4 * (2 + 2 * 8) };
    if (mega_world_size(world) > 8 || !mega_world_can_share(world)) return;
    char *ways[2] = {malloc(MOST), malloc(MOST)};
    if (ways[0] == NULL || ways[1] == NULL) exit(1);
    for (int k = 0; k < 2 * GROUPS; k++) /* alternates between groups, also with the same tag */
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const group *g = &group_of[k % GROUPS];
            const mega_dtype t = (k + (int)c) % 2 == 0 ? MEGA_F32 : MEGA_BF16;
            size_t bytes = 0;
            for (int way = 0; way < 2; way++) {
                mega_world_set_shared(world, way == 1);
                bytes = collect(g, t, counts[c], ways[way]);
            }
            expect(memcmp(ways[0], ways[1], bytes) == 0, "%lld %s of %s: other bits through shared memory",
                   (long long)counts[c], mega_dtype_name(t), g->name);
        }
    free(ways[0]);
    free(ways[1]);
}

/* Alternates between layouts whose groups of one axis differ. */
static void check_layouts(mega_world *world)
{
    const int size = mega_world_size(world);
    mega_layout *l[2];
    float x[1000];
    if (size % 2 != 0) return;
    need(mega_layout_create(world, &(mega_layout_sizes){.tp = 2}, &l[0]));
    need(mega_layout_create(world, &(mega_layout_sizes){.tp = size}, &l[1]));
    for (int round = 0; round < 12; round++) {
        const mega_axis *tp = &l[round % 3 != 0]->tp;
        for (int i = 0; i < 1000; i++) x[i] = (float)(round + i);
        need(mega_comm_all_reduce(tp->comm, "in turns", x, 1000, MEGA_F32, MEGA_REDUCE_SUM));
        for (int i = 0; i < 1000; i++)
            expect(x[i] == (float)((round + i) * tp->size), "round %d of two layouts, element %d", round, i);
    }
    mega_layout_destroy(l[0]);
    mega_layout_destroy(l[1]);
}

/* Sums over every second rank of the world, in rank order, of numbers whose sum depends on the order. */
static void check_members(mega_world *world)
{
    static const int64_t counts[] = {1, 5, 4099, 20000};
    const int size = mega_world_size(world), me = mega_world_rank(world);
    int rank[64];
    mega_members m = {.comm = mega_world_comm(world), .rank = rank};
    for (int r = size > 2 ? 1 : 0; r<size; r += size> 2 ? 2 : 1) {
        if (r == me) m.own = m.count;
        rank[m.count++] = r;
    }
    if (m.count < 2 || rank[m.own] != me) return;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        float *x = malloc((size_t)counts[c] * sizeof *x);
        void *scratch = aligned_alloc(64, (mega_comm_members_scratch(&m, counts[c], MEGA_F32) + 63) / 64 * 64);
        void *lists = malloc(mega_comm_members_lists(&m));
        for (int64_t i = 0; i < counts[c]; i++) x[i] = 1e7f / (float)(1 + value(me, i));
        need(mega_comm_members_sum(&m, "members", x, counts[c], MEGA_F32, lists, scratch));
        for (int64_t i = 0; i < counts[c]; i++) {
            float sum = 1e7f / (float)(1 + value(rank[0], i));
            for (int k = 1; k < m.count; k++) sum += 1e7f / (float)(1 + value(rank[k], i));
            if (sum != x[i]) expect(0, "sum %lld of %lld over members", (long long)i, (long long)counts[c]);
        }
        free(x);
        free(scratch);
        free(lists);
    }
}

/* Groups with the same tag share buffers. One rank posts its numbers to a group and reads those of the others late.
 * Meanwhile the others start collectives in groups of that tag without this rank, and must not overwrite what it has
 * not read yet. */
static void check_late_reader(mega_world *world)
{
    enum { COUNT = 8, ROUNDS = 4, OTHERS = 6 /* more than a rank has buffers */ };
    const int size = mega_world_size(world), me = mega_world_rank(world);
    mega_layout *all, *half;
    if (size != 4) return;
    need(mega_layout_create(world, NULL, &all));
    need(mega_layout_create(world, &(mega_layout_sizes){.tp = 2}, &half)); /* dp groups: ranks 0, 2 and ranks 1, 3 */
    for (int round = 0; round < ROUNDS; round++) {
        float x[COUNT], y[COUNT];
        mega_request r, copy;
        for (int i = 0; i < COUNT; i++) x[i] = (float)(me + i);
        need(mega_comm_all_reduce_start(all->dp.comm, "read late", x, COUNT, MEGA_F32, MEGA_REDUCE_SUM, &r));
        if (me == round) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        copy = r;
        need(mega_comm_wait(&r));
        expect(mega_comm_wait(&copy) == MEGA_ERR_USAGE, "round %d: a request was ended twice", round);
        for (int n = 0; n < OTHERS; n++) {
            for (int i = 0; i < COUNT; i++) y[i] = 100;
            need(mega_comm_all_reduce(half->dp.comm, "meanwhile", y, COUNT, MEGA_F32, MEGA_REDUCE_SUM));
            expect(y[0] == 200 && y[COUNT - 1] == 200, "round %d, group without the late reader: %g", round, y[0]);
        }
        for (int i = 0; i < COUNT; i++)
            expect(x[i] == (float)(6 + 4 * i), "round %d, a late reader: element %d is %g", round, i, x[i]);
    }
    mega_layout_destroy(half);
    mega_layout_destroy(all);
}

/* Tests all-gathers that other ranks read in place: a rank may change its input once its call has returned, even if
 * another rank is late; two all-gathers of the same tag follow each other. */
static void check_large_gathers(mega_world *world)
{
    enum { COUNT = 300007, ROUNDS = 3 };
    const int size = mega_world_size(world), me = mega_world_rank(world);
    const char *way = getenv("MEGA_COMM");
    if (!mega_world_can_share(world) || getenv("MEGA_TEST_HOSTS") != NULL || (way != NULL && strcmp(way, "mpi") == 0))
        return; /* these send messages of 1,000 bytes */
    float *mine = malloc(COUNT * sizeof *mine), *all = malloc((size_t)size * COUNT * sizeof *all);
    if (mine == NULL || all == NULL) exit(1);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) mine[i] = (float)(round + me * 1000 + i % 997);
        mega_request r;
        need(mega_comm_all_gather_start(mega_world_comm(world), "large", all, mine, COUNT, MEGA_F32, &r));
        if (me == round % size) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        need(mega_comm_wait(&r));
        memset(mine, 0, COUNT * sizeof *mine);
        int64_t wrong = 0;
        for (int64_t i = 0; i < (int64_t)size * COUNT; i++)
            wrong += all[i] != (float)(round + i / COUNT * 1000 + i % COUNT % 997);
        expect(wrong == 0, "round %d of a large gathering: %lld numbers are wrong", round, (long long)wrong);
    }
    free(mine);
    free(all);
}

/* The table of requests has a fixed size: one more request is refused, and those in progress continue. */
static void check_table(const group *g)
{
    static mega_request r[MEGA_COMM_REQUESTS + 1];
    static int32_t number[MEGA_COMM_REQUESTS + 1];
    if (g->axis.size == 1) return;
    for (int i = 0; i < MEGA_COMM_REQUESTS; i++) {
        number[i] = i;
        need(mega_comm_all_reduce_start(g->axis.comm, "many", &number[i], 1, MEGA_I32, MEGA_REDUCE_SUM, &r[i]));
    }
    const uint64_t begun = mega_comm_sequence(g->axis.comm);
    expect(mega_comm_all_reduce_start(g->axis.comm, "one more", &number[MEGA_COMM_REQUESTS], 1, MEGA_I32,
                                      MEGA_REDUCE_SUM, &r[MEGA_COMM_REQUESTS]) == MEGA_ERR_UNSUPPORTED &&
               strstr(mega_error_message(), "2048 requests are in progress") != NULL &&
               mega_comm_sequence(g->axis.comm) == begun,
           "a request too many: %s", mega_error_message());
    mega_error_clear();
    for (int i = MEGA_COMM_REQUESTS - 1; i >= 0; i--) need(mega_comm_wait(&r[i]));
    for (int i = 0; i < MEGA_COMM_REQUESTS; i++)
        expect(number[i] == i * g->axis.size, "request %d of many is %d", i, number[i]);
    expect(mega_comm_send_start(g->axis.comm, "to itself", g->axis.rank, number, 4, r) == MEGA_ERR_COMM,
           "a message to itself was taken");
    mega_error_clear();
}

/* The row of the exchanges "late" in a table; "": there is none. */
static const char *late_row(const mega_buffer *table)
{
    const char *at = table->data != NULL ? strstr(table->data, "| [late]\n") : NULL;
    return at != NULL ? at : "";
}

/* The time of an exchange is that of the rank that needed least; beyond it a rank waits for one that comes late. */
static void check_stragglers(mega_world *world, mega_comm *comm)
{
    enum { ROUNDS = 3, LATE_US = 20000, NUMBERS = 8 };
    const bool is_late = mega_comm_rank(comm) == mega_comm_size(comm) - 1;
    mega_comm *const compared_in[] = {comm};
    mega_buffer table = {0}, out = {0};
    double x[NUMBERS] = {0}, total = 0, exchange = 0, waited = 0;
    int counted = 0, compared = 0;
    if (mega_comm_size(comm) == 1) return;
    need(mega_comm_log_start(world, &(mega_comm_log_options){.named = true}));
    for (int i = 0; i < ROUNDS; i++) {
        if (is_late) usleep(LATE_US);
        need(mega_comm_all_reduce(comm, "late", x, NUMBERS, MEGA_F64, MEGA_REDUCE_SUM));
    }
    mega_comm_log_table(world, &table);
    need(mega_comm_log_stragglers(world, compared_in, 1, &out));
    mega_comm_log_stop(world);
    expect(sscanf(late_row(&table), "| [late]\n%*s 64 B %d %lf", &counted, &total) == 2, "the table of exchanges: %s",
           table.data);
    expect(sscanf(late_row(&out), "| [late]\n%*s 64 B %d %lf %lf", &compared, &exchange, &waited) == 3,
           "the table of stragglers: %s", out.data);
    expect(counted == ROUNDS && compared == ROUNDS, "%d and %d exchanges", counted, compared);
    expect(fabs(exchange + waited - total) < 0.03, "%.2f ms and %.2f ms are not %.2f ms", exchange, waited, total);
    /* the late rank alone knows that it came late: the others waited, at least once */
    if (!is_late) expect(waited > 0.2e-3 * LATE_US, "waited %.2f ms for a late rank", waited);
    mega_buffer_fini(&table);
    mega_buffer_fini(&out);
}

/* Signals the last rank: ranks of its host that share memory see it without a message. */
static void check_stops(mega_world *world)
{
    const int me = mega_world_rank(world), size = mega_world_size(world);
    const bool is_near = mega_world_host_first(world) + mega_world_local_size(world) == size;
    expect(!mega_world_stops(world, false), "a stop that nobody asked for");
    need(mega_comm_barrier(mega_world_comm(world), "before a stop"));
    if (me == size - 1) expect(mega_world_stops(world, true), "a stop of its own");
    need(mega_comm_barrier(mega_world_comm(world), "a stop"));
    const bool told = mega_world_stops(world, false);
    expect(is_near || !told, "a stop of a rank on another host");
    if (size > 1 && is_near && (me == size - 1 || mega_world_can_share(world)))
        expect(told, "a stop of a rank of this host");
}

/* A rank that shares the page of records knows the processes of its host. */
static void check_processes(mega_world *world)
{
    enum { MOST = 64 };
    int pids[MOST];
    const int count = mega_world_local_size(world), mine = mega_world_rank(world) - mega_world_host_first(world);
    if (count > MOST || !mega_world_host_processes(world, pids)) {
        expect(count > 1 && !mega_world_can_share(world), "the processes of %d ranks are not known", count);
        return;
    }
    expect(pids[mine] == (int)getpid(), "process %d, not %d", pids[mine], (int)getpid());
    for (int i = 0; i < count; i++) {
        expect(pids[i] > 0 && kill(pids[i], 0) == 0, "rank %d of the host: no process %d", i, pids[i]);
        for (int k = 0; k < i; k++) expect(pids[k] != pids[i], "two ranks are process %d", pids[i]);
    }
}

int main(int argc, char **argv)
{
    mega_world *world;
    mega_layout *l;
    if (argc != 5) return 2;
    const mega_layout_sizes s = {.tp = atoi(argv[1]), .cp = atoi(argv[2]), .pp = atoi(argv[3]), .ep = atoi(argv[4])};
    /* Small sizes, so that messages are split and reductions run in pieces. */
    need(mega_world_create(&(mega_world_options){.message_bytes = 1000, .scratch_bytes = 8192}, &world));
    need(mega_layout_create(world, &s, &l));
    world_comm = l->world.comm;
    const int me = mega_world_rank(world), size = mega_world_size(world), dp = size / (s.tp * s.cp * s.pp);
    const group group_of[GROUPS] = {{"world", l->world, 0, 1},
                                    {"tp", l->tp, me - me % s.tp, 1},
                                    {"cp", l->cp, me - l->cp.rank * s.tp, s.tp},
                                    {"dp", l->dp, me - l->dp.rank * s.tp * s.cp, s.tp * s.cp},
                                    {"pp", l->pp, me - l->pp.rank * s.tp * s.cp * dp, s.tp * s.cp * dp},
                                    {"ep", l->ep, me - l->ep.rank * s.tp * s.cp, s.tp * s.cp}};
    for (int i = 0; i < GROUPS; i++) {
        expect(mega_comm_size(group_of[i].axis.comm) == group_of[i].axis.size, "size of %s", group_of[i].name);
        check_group(&group_of[i]);
        check_table(&group_of[i]);
    }
    check_rounds(world, group_of);
    check_layouts(world);
    check_members(world);
    check_late_reader(world);
    check_large_gathers(world);
    check_ways(world, group_of);
    check_stragglers(world, l->world.comm);
    check_stops(world);
    check_processes(world);
    need(mega_comm_agree(l->world.comm, failures == 0 ? MEGA_OK : MEGA_FAIL(MEGA_ERR_COMM, "%d failures", failures)));
    const mega_status planted = size > 1 && me == size - 1 ? MEGA_FAIL(MEGA_ERR_FORMAT, "planted") : MEGA_OK;
    const mega_status st = mega_comm_agree(mega_world_comm(world), planted);
    expect(size == 1 || (st == MEGA_ERR_FORMAT && mega_world_failed(world)), "a failure of the world");
    expect(mega_comm_agree(l->world.comm, MEGA_OK) == MEGA_OK, "agreeing behind a failure");
    mega_layout_destroy(l);
    mega_world_destroy(world);
    return failures == 0 ? 0 : 1;
}
