/* Operations of warps, and asynchronous copies. The lane of a warp that arrives last computes for all of them. */
#include "runner_impl.h"
#include <stdlib.h>

const char *runner_op_name(warp_op op)
{
    static const char *const names[] = {[WARP_XOR] = "waits at warp_xor",
                                        [WARP_FROM] = "waits at warp_from",
                                        [WARP_SUM] = "waits at warp_sum",
                                        [WARP_MAX] = "waits at warp_max",
                                        [WARP_SUM_DOUBLE] = "waits at warp_sum_double",
                                        [WARP_MMA_BF16] = "waits at warp_mma_bf16",
                                        [WARP_MMA_F16] = "waits at warp_mma_f16",
                                        [WARP_MMA_TF32] = "waits at warp_mma_tf32",
                                        [WARP_LOAD] = "waits at warp_load_matrices",
                                        [WARP_LOAD_T] = "waits at warp_load_matrices_transposed",
                                        [WARP_SYNC] = "waits at the warp_barrier"};
    return names[op];
}

/* ---- what the operations compute ---- */

static void exchange(device_warp *w, bool is_xor)
{
    uint32_t got[WARP];
    for (int l = 0; l < WARP; l++) got[l] = w->word[(is_xor ? l ^ w->lane[l] : w->lane[l]) & (WARP - 1)];
    memcpy(w->word, got, sizeof got);
}

/* Butterflies, as warp_sum and its like in device.h are written: the same bits. */
static void fold(device_warp *w, warp_op op)
{
    for (int m = WARP / 2; m > 0; m /= 2) {
        float x[WARP], y[WARP];
        memcpy(x, w->word, sizeof x);
        for (int l = 0; l < WARP; l++) y[l] = op == WARP_SUM ? x[l] + x[l ^ m] : x[l] > x[l ^ m] ? x[l] : x[l ^ m];
        memcpy(w->word, y, sizeof y);
    }
}

static void fold_double(device_warp *w)
{
    for (int m = WARP / 2; m > 0; m /= 2) {
        double x[WARP];
        for (int l = 0; l < WARP; l++) x[l] = w->number[l] + w->number[l ^ m];
        memcpy(w->number, x, sizeof x);
    }
}

static inline float number_of(uint32_t half, warp_op op)
{
    return op == WARP_MMA_BF16 ? bits_float(half << 16) : f16_low(half & 0xffffu);
}

/* sum[16][8] += x[16][depth] y[depth][8], each number in the order of k. Four rows at a time fit into registers. */
typedef double four __attribute__((vector_size(32)));
enum { MOST_DEPTH = 16 };
static void multiply_tile(four sum[16][2], const double (*x)[MOST_DEPTH], const four (*y)[2], int depth)
{
    for (int i = 0; i < 16; i += 4) {
        four s[4][2];
        memcpy(s, sum[i], sizeof s);
        for (int k = 0; k < depth; k++)
            for (int r = 0; r < 4; r++) {
                s[r][0] += x[i + r][k] * y[k][0];
                s[r][1] += x[i + r][k] * y[k][1];
            }
        memcpy(sum[i], s, sizeof s);
    }
}

/* Fragments as in the manual of PTX: lane l has rows l / 4 and l / 4 + 8, columns 2 (l % 4) and 2 (l % 4) + 1. The sums
 * are made in double and rounded once; a GPU rounds in an order of its own. */
static void sums_get(const device_thread *lane, double (*sum)[8])
{
    for (int l = 0; l < WARP; l++)
        for (int i = 0; i < 4; i++) sum[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2] = lane[l].data.d[i];
}

static void sums_put(const device_thread *lane, const double (*sum)[8])
{
    for (int l = 0; l < WARP; l++)
        for (int i = 0; i < 4; i++) lane[l].data.d[i] = (float)sum[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
}

typedef struct tile {
    double x[16][MOST_DEPTH];
    union {
        double y[MOST_DEPTH][8];
        four y4[MOST_DEPTH][2];
    };
    union {
        double sum[16][8];
        four sum4[16][2];
    };
} tile;

static inline __attribute__((always_inline)) void tile_get(tile *m, const device_thread *lane, warp_op op)
{
    for (int l = 0; l < WARP; l++) {
        const lane_data *f = &lane[l].data;
        const int g = l / 4, t = l % 4;
        for (int i = 0; i < 4; i++) {
            const int row = g + i % 2 * 8, col = t * 2 + i / 2 * 8;
            m->x[row][col] = number_of(f->a[i] & 0xffffu, op);
            m->x[row][col + 1] = number_of(f->a[i] >> 16, op);
        }
        for (int i = 0; i < 2; i++) {
            m->y[t * 2 + i * 8][g] = number_of(f->b[i] & 0xffffu, op);
            m->y[t * 2 + i * 8 + 1][g] = number_of(f->b[i] >> 16, op);
        }
    }
}

static void multiply_16(const device_thread *lane, warp_op op)
{
    tile m;
    if (op == WARP_MMA_BF16) tile_get(&m, lane, WARP_MMA_BF16);
    else
        tile_get(&m, lane, WARP_MMA_F16);
    sums_get(lane, m.sum);
    multiply_tile(m.sum4, m.x, m.y4, 16);
    sums_put(lane, m.sum);
}

/* A GPU ignores the 13 lowest bits of each number. */
static float tf32_number(uint32_t bits)
{
    return bits_float(bits & 0xffffe000u);
}

static void multiply_8(const device_thread *lane)
{
    tile m;
    for (int l = 0; l < WARP; l++) {
        const lane_data *f = &lane[l].data;
        const int g = l / 4, t = l % 4;
        for (int i = 0; i < 4; i++) m.x[g + i % 2 * 8][t + i / 2 * 4] = tf32_number(f->a[i]);
        for (int i = 0; i < 2; i++) m.y[t + i * 4][g] = tf32_number(f->b[i]);
    }
    sums_get(lane, m.sum);
    multiply_tile(m.sum4, m.x, m.y4, 8);
    sums_put(lane, m.sum);
}

static void load(const device_thread *lane, bool is_transposed)
{
    for (int l = 0; l < WARP; l++)
        for (int m = 0; m < 4; m++) {
            const device_thread *rows = lane + m * 8;
            const int first = l % 4 * 2;
            const uint32_t low = is_transposed ? rows[first].data.row[l / 4] : rows[l / 4].data.row[first];
            const uint32_t high = is_transposed ? rows[first + 1].data.row[l / 4] : rows[l / 4].data.row[first + 1];
            lane[l].data.r[m] = low | high << 16;
        }
}

static void compute(device_warp *w, const device_thread *lane)
{
    switch (w->op) {
    case WARP_XOR:
    case WARP_FROM: exchange(w, w->op == WARP_XOR); break;
    case WARP_SUM:
    case WARP_MAX: fold(w, w->op); break;
    case WARP_SUM_DOUBLE: fold_double(w); break;
    case WARP_MMA_BF16:
    case WARP_MMA_F16: multiply_16(lane, w->op); break;
    case WARP_MMA_TF32: multiply_8(lane); break;
    case WARP_LOAD:
    case WARP_LOAD_T: load(lane, w->op == WARP_LOAD_T); break;
    case WARP_SYNC: w->barriers++; break;
    }
}

/* ---- how lanes meet ---- */

static device_warp *warp_of(const device_thread *t)
{
    return &runner->warp[t->x / WARP];
}

static void meet(device_thread *t, warp_op op, int line)
{
    device_runner *const r = runner;
    device_warp *w = warp_of(t);
    t->line = line;
    t->state = THREAD_AT_WARP;
    if (w->arrived == 0) {
        w->op = op;
        w->line = line;
        w->first = t->x;
    } else if (w->op != op || w->line != line) {
        runner_fail("thread %u %s of line %d, and thread %u of its warp %s of line %d", w->first, runner_op_name(w->op),
                    w->line, t->x, runner_op_name(op), line);
    }
    if (++w->arrived < WARP) {
        runner_go_on();
        return;
    }
    device_thread *lane = &r->thread[t->x / WARP * WARP];
    w->arrived = 0;
    compute(w, lane);
    for (unsigned l = 0; l < WARP; l++)
        if (&lane[l] != t) runner_wake(&lane[l]);
    t->state = THREAD_READY;
    r->place.warp_barriers = w->barriers;
}

void device_warp_barrier(int line)
{
    if (!runner_omits("warp_barrier", line)) meet(runner->now, WARP_SYNC, line);
}

static uint32_t exchanged(uint32_t v, int lane, warp_op op, int line)
{
    device_thread *t = runner->now;
    device_warp *w = warp_of(t);
    w->word[t->x % WARP] = v;
    w->lane[t->x % WARP] = lane;
    meet(t, op, line);
    return w->word[t->x % WARP];
}

uint32_t device_warp_xor(uint32_t v, int mask, int line)
{
    return exchanged(v, mask, WARP_XOR, line);
}

uint32_t device_warp_from(uint32_t v, int from, int line)
{
    return exchanged(v, from, WARP_FROM, line);
}

float device_warp_sum(float v, int line)
{
    return bits_float(exchanged(float_bits(v), 0, WARP_SUM, line));
}

float device_warp_max(float v, int line)
{
    return bits_float(exchanged(float_bits(v), 0, WARP_MAX, line));
}

double device_warp_sum_double(double v, int line)
{
    device_thread *t = runner->now;
    device_warp *w = warp_of(t);
    w->number[t->x % WARP] = v;
    meet(t, WARP_SUM_DOUBLE, line);
    return w->number[t->x % WARP];
}

static void multiply(float *d, const uint32_t *a, const uint32_t *b, warp_op op, int line)
{
    device_thread *t = runner->now;
    t->data.d = d;
    t->data.a = a;
    t->data.b = b;
    meet(t, op, line);
}
void device_mma_bf16(float *d, const uint32_t *a, const uint32_t *b, int line)
{
    multiply(d, a, b, WARP_MMA_BF16, line);
}
void device_mma_f16(float *d, const uint32_t *a, const uint32_t *b, int line)
{
    multiply(d, a, b, WARP_MMA_F16, line);
}
void device_mma_tf32(float *d, const uint32_t *a, const uint32_t *b, int line)
{
    multiply(d, a, b, WARP_MMA_TF32, line);
}

static void check_aligned(const void *at, int size, const char *what, int line)
{
    if ((uintptr_t)at % (unsigned)size != 0)
        runner_fail("thread %u, line %d: the address of %s is no multiple of %d", runner->now->x, line, what, size);
}

void device_load_matrices(uint32_t *r, const uint16_t *row, int is_transposed, int line)
{
    device_thread *t = runner->now;
    check_aligned(row, 16, "a row of a matrix", line);
    runner_note(row, 16, false, __builtin_return_address(0));
    t->data.r = r;
    t->data.row = row;
    meet(t, is_transposed ? WARP_LOAD_T : WARP_LOAD, line);
}

/* ---- asynchronous copies ---- */

static void copy_arrive(const async_copy *c)
{
    if (c->bytes > 0) memcpy(c->to, c->from, (size_t)c->size);
    else
        memset(c->to, 0, (size_t)c->size);
}

static void copy_note(const async_copy *c, const void *code)
{
    if (c->bytes > 0) runner_note(c->from, (size_t)c->size, false, code);
    runner_note(c->to, (size_t)c->size, true, code);
}

/* Some copies arrive at once and others not before their wait: a GPU may do either. */
void device_copy_async(void *to, const void *from, int size, int bytes, int line)
{
    device_thread *t = runner->now;
    const async_copy c = {to, from, size, bytes, t->groups};
    check_aligned(to, size, "the target of an asynchronous copy", line);
    check_aligned(from, size, "the source of an asynchronous copy", line);
    if (bytes != 0 && bytes != size) runner_fail("line %d: a copy of %d of %d bytes", line, bytes, size);
    copy_note(&c, __builtin_return_address(0));
    if (runner_draw() % 4 == 0) {
        copy_arrive(&c);
        return;
    }
    if (t->copies == NULL && (t->copies = malloc(MOST_COPIES * sizeof *t->copies)) == NULL) abort();
    if (t->num_copies == MOST_COPIES) runner_fail("line %d: more than %d copies are under way", line, MOST_COPIES);
    t->copies[t->num_copies++] = c;
}

void device_copy_commit(int line)
{
    if (!runner_omits("copy_async_commit", line)) runner->now->groups++;
}

void device_copy_wait(int groups, int line)
{
    if (!runner_omits("copy_async_wait", line)) runner_copies_arrive(groups);
}

void runner_copies_arrive(int groups)
{
    device_thread *t = runner->now;
    int kept = 0;
    for (int i = 0; i < t->num_copies; i++) {
        const async_copy *c = &t->copies[i];
        if (c->group >= t->groups - groups) {
            t->copies[kept++] = *c;
            continue;
        }
        copy_note(c, __builtin_return_address(0));
        copy_arrive(c);
    }
    t->num_copies = kept;
}

bytes_16 device_load_16(const void *from, int line)
{
    bytes_16 v;
    check_aligned(from, 16, "16 bytes", line);
    runner_note(from, 16, false, __builtin_return_address(0));
    memcpy(&v, from, sizeof v);
    return v;
}

void device_store_16(void *to, bytes_16 v, int line)
{
    check_aligned(to, 16, "16 bytes", line);
    runner_note(to, 16, true, __builtin_return_address(0));
    memcpy(to, &v, sizeof v);
}
