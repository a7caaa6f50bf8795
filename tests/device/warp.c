/* Operations of warps, and asynchronous copies. The lane of a warp that arrives last computes for all of them. */
#include "runner_impl.h"
#include <stdlib.h>

const char *runner_op_name(warp_op op)
{
    static const char *const names[] = {[WARP_XOR] = "waits at warp_xor",
                                        [WARP_FROM] = "waits at warp_from",
                                        [WARP_MMA_BF16] = "waits at warp_mma_bf16",
                                        [WARP_MMA_F16] = "waits at warp_mma_f16",
                                        [WARP_MMA_TF32] = "waits at warp_mma_tf32",
                                        [WARP_LOAD] = "waits at warp_load_matrices",
                                        [WARP_LOAD_T] = "waits at warp_load_matrices_transposed",
                                        [WARP_SYNC] = "waits at the warp_barrier"};
    return names[op];
}

/* ---- what the operations compute ---- */

static void exchange(device_thread *lane, bool is_xor)
{
    uint32_t got[WARP];
    for (int l = 0; l < WARP; l++) {
        const int from = (is_xor ? l ^ lane[l].data.lane : lane[l].data.lane) & (WARP - 1);
        got[l] = lane[from].data.word;
    }
    for (int l = 0; l < WARP; l++) lane[l].data.word = got[l];
}

static float number_of(uint32_t half, warp_op op)
{
    return op == WARP_MMA_BF16 ? bits_float(half << 16) : f16_low(half & 0xffffu);
}

/* Fragments as in the manual of PTX: lane l has rows l / 4 and l / 4 + 8, columns 2 (l % 4) and 2 (l % 4) + 1. The sums
 * are made in double and rounded once; a GPU rounds in an order of its own. */
static void multiply_16(device_thread *lane, warp_op op)
{
    float x[16][16], y[16][8];
    double sum[16][8];
    for (int l = 0; l < WARP; l++) {
        const lane_data *f = &lane[l].data;
        const int g = l / 4, t = l % 4;
        for (int i = 0; i < 4; i++) {
            const int row = g + i % 2 * 8, col = t * 2 + i / 2 * 8;
            x[row][col] = number_of(f->a[i] & 0xffffu, op);
            x[row][col + 1] = number_of(f->a[i] >> 16, op);
        }
        for (int i = 0; i < 2; i++) {
            y[t * 2 + i * 8][g] = number_of(f->b[i] & 0xffffu, op);
            y[t * 2 + i * 8 + 1][g] = number_of(f->b[i] >> 16, op);
        }
        for (int i = 0; i < 4; i++) sum[g + i / 2 * 8][t * 2 + i % 2] = f->d[i];
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++) sum[i][j] += (double)x[i][k] * (double)y[k][j];
    for (int l = 0; l < WARP; l++)
        for (int i = 0; i < 4; i++) lane[l].data.d[i] = (float)sum[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
}

/* A GPU ignores the 13 lowest bits of each number. */
static float tf32_number(uint32_t bits)
{
    return bits_float(bits & 0xffffe000u);
}

static void multiply_8(device_thread *lane)
{
    float x[16][8], y[8][8];
    double sum[16][8];
    for (int l = 0; l < WARP; l++) {
        const lane_data *f = &lane[l].data;
        const int g = l / 4, t = l % 4;
        for (int i = 0; i < 4; i++) x[g + i % 2 * 8][t + i / 2 * 4] = tf32_number(f->a[i]);
        for (int i = 0; i < 2; i++) y[t + i * 4][g] = tf32_number(f->b[i]);
        for (int i = 0; i < 4; i++) sum[g + i / 2 * 8][t * 2 + i % 2] = f->d[i];
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 8; j++) sum[i][j] += (double)x[i][k] * (double)y[k][j];
    for (int l = 0; l < WARP; l++)
        for (int i = 0; i < 4; i++) lane[l].data.d[i] = (float)sum[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
}

static void load(device_thread *lane, bool is_transposed)
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

static void compute(device_thread *lane, warp_op op)
{
    switch (op) {
    case WARP_XOR:
    case WARP_FROM: exchange(lane, op == WARP_XOR); break;
    case WARP_MMA_BF16:
    case WARP_MMA_F16: multiply_16(lane, op); break;
    case WARP_MMA_TF32: multiply_8(lane); break;
    case WARP_LOAD:
    case WARP_LOAD_T: load(lane, op == WARP_LOAD_T); break;
    case WARP_SYNC: runner->warp[lane->x / WARP].barriers++; break;
    }
}

/* ---- how lanes meet ---- */

static void meet(warp_op op, int line)
{
    device_thread *t = runner->now, *lane = &runner->thread[t->x / WARP * WARP];
    device_warp *w = &runner->warp[t->x / WARP];
    t->op = op;
    t->line = line;
    t->state = THREAD_AT_WARP;
    if (++w->arrived < w->lanes) {
        runner_go_on();
        return;
    }
    w->arrived = 0;
    for (unsigned l = 0; l < w->lanes; l++)
        if (lane[l].op != op || lane[l].line != line)
            runner_fail("thread %u %s of line %d, and thread %u of its warp %s of line %d", lane[l].x,
                        runner_op_name(lane[l].op), lane[l].line, t->x, runner_op_name(op), line);
    compute(lane, op);
    for (unsigned l = 0; l < w->lanes; l++)
        if (&lane[l] != t) runner_wake(&lane[l]);
    t->state = THREAD_READY;
    runner->place.warp_barriers = w->barriers;
}

void device_warp_barrier(int line)
{
    if (!runner_omits("warp_barrier", line)) meet(WARP_SYNC, line);
}

uint32_t device_warp_xor(uint32_t v, int mask, int line)
{
    lane_data *d = &runner->now->data;
    d->word = v;
    d->lane = mask;
    meet(WARP_XOR, line);
    return d->word;
}

uint32_t device_warp_from(uint32_t v, int from, int line)
{
    lane_data *d = &runner->now->data;
    d->word = v;
    d->lane = from;
    meet(WARP_FROM, line);
    return d->word;
}

static void multiply(float *d, const uint32_t *a, const uint32_t *b, warp_op op, int line)
{
    lane_data *f = &runner->now->data;
    f->d = d;
    f->a = a;
    f->b = b;
    meet(op, line);
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
    lane_data *f = &runner->now->data;
    check_aligned(row, 16, "a row of a matrix", line);
    runner_note(row, 16, false, __builtin_return_address(0));
    f->r = r;
    f->row = row;
    meet(is_transposed ? WARP_LOAD_T : WARP_LOAD, line);
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
