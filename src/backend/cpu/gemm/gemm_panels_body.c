/* GEMM on packed panels (Goto, van de Geijn 2008). b is packed in panels of GEMM_NR columns, [k][GEMM_NR]. Blocks of a
 * are packed by the thread that uses them, in panels of GEMM_MR rows, [k][GEMM_MR], or read in place. A tile of c stays
 * in registers over one block of k. Packing widens 16-bit numbers to float, so all types run the same loops. Every
 * element is summed in the same order for any division of the work: over each block of k from zero, blocks in order. */

#if VECTOR_BYTES >= 64
#define GEMM_MR 12 /* 24 sums, 2 vectors of b, 1 of a: of 32 registers */
#else
#define GEMM_MR 6 /* 12 sums, 2 vectors of b, 1 of a: of 16 registers */
#endif
#define GEMM_NR (2 * VL)

typedef float v8 __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef uint32_t v8u __attribute__((vector_size(32)));

ALWAYS v8 load8(mega_dtype type, const void *x, int64_t i)
{
    v8 v;
    if (type == MEGA_BF16) {
        v8h h;
        memcpy(&h, (const uint16_t *)x + i, sizeof h);
        return (v8)(__builtin_convertvector(h, v8u) << 16);
    }
#if defined(__F16C__)
    if (type == MEGA_F16) return (v8)_mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)x + i)));
#else
    if (type == MEGA_F16) {
        float lane[8];
        for (int l = 0; l < 8; l += VL) vstore(lane + l, vget(type, x, i + l));
        memcpy(&v, lane, sizeof v);
        return v;
    }
#endif
    memcpy(&v, (const float *)x + i, sizeof v);
    return v;
}

/* Transposes 8 x 8. */
ALWAYS void transpose8(v8 r[8])
{
    v8 t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        r[4 * i] = __builtin_shufflevector(t[4 * i], t[4 * i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[4 * i + 1] = __builtin_shufflevector(t[4 * i], t[4 * i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        r[4 * i + 2] = __builtin_shufflevector(t[4 * i + 1], t[4 * i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        r[4 * i + 3] = __builtin_shufflevector(t[4 * i + 1], t[4 * i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    memcpy(r, t, sizeof t);
}

/* Transposes four rows of 8 into 8 rows of four, dst[k][width]: the remainder of panels of 12. */
ALWAYS void transpose4(float *restrict dst, const int width, const v8 r[4])
{
    v8 t[4], c[4];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        t[i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 2] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        c[2 * i] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13);
        c[2 * i + 1] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        memcpy(dst + k * width, &c[k], 4 * sizeof(float));
        memcpy(dst + (k + 4) * width, (const float *)&c[k] + 4, 4 * sizeof(float));
    }
}

/* Packs dst[k][width] from lines along k: line i is at x + i*ld. Only `lines` of width exist; the rest are zeros. */
ALWAYS void pack_lines(mega_dtype type, const int width, float *restrict dst, const void *x, int64_t at, int64_t ld,
                       int64_t lines, int64_t depth)
{
    int64_t k = 0;
    if (lines == width)
        for (; k + 8 <= depth; k += 8)
#pragma GCC unroll 4
            for (int i = 0; i < width; i += 8) {
                const int here = width - i < 8 ? width - i : 8;
                v8 r[8];
                if (here == 4) {
#pragma GCC unroll 4
                    for (int j = 0; j < 4; j++) r[j] = load8(type, x, at + (i + j) * ld + k);
                    transpose4(dst + k * width + i, width, r);
                    continue;
                }
#pragma GCC unroll 8
                for (int j = 0; j < 8; j++) r[j] = load8(type, x, at + (i + (j < here ? j : 0)) * ld + k);
                transpose8(r);
#pragma GCC unroll 8
                for (int j = 0; j < 8; j++) memcpy(dst + (k + j) * width + i, &r[j], (size_t)here * sizeof(float));
            }
    for (; k < depth; k++)
        for (int i = 0; i < width; i++) dst[k * width + i] = i < lines ? get1(type, x, at + i * ld + k) : 0.0f;
}

/* Like pack_lines from rows across k: row k is at x + k*ld, and only `columns` of width exist. If the width is no
 * multiple of 8, the vectors reach into the next row, on both sides; the last row is copied one by one. */
ALWAYS void pack_across(mega_dtype type, const int width, float *restrict dst, const void *x, int64_t at, int64_t ld,
                        int64_t columns, int64_t depth)
{
    const int wide = (width + 7) / 8 * 8;
    int64_t k = 0;
    if (columns == width && type == MEGA_F32)
        for (; k < depth; k++) memcpy(dst + k * width, (const float *)x + at + k * ld, (size_t)width * sizeof(float));
    else if (columns == width && ld >= wide)
        for (; k < depth - (width % 8 != 0); k++)
#pragma GCC unroll 4
            for (int i = 0; i < wide; i += 8) {
                const v8 v = load8(type, x, at + k * ld + i);
                memcpy(dst + k * width + i, &v, sizeof v);
            }
    for (; k < depth; k++)
        for (int i = 0; i < width; i++) dst[k * width + i] = i < columns ? get1(type, x, at + k * ld + i) : 0.0f;
}

ALWAYS void pack_panel(mega_dtype type, const int width, float *dst, const void *x, int64_t ld, bool along_k,
                       int64_t line, int64_t lines, int64_t k, int64_t depth)
{
    if (along_k) pack_lines(type, width, dst, x, line * ld + k, ld, lines, depth);
    else
        pack_across(type, width, dst, x, k * ld + line, ld, lines, depth);
}

/* Packs one panel: columns [n, n + GEMM_NR) of op(b), of which only `columns` exist, and rows [k, k + depth). */
static void gemm_pack_b_panel(const mega_gemm_args *a, float *dst, int64_t n, int64_t columns, int64_t k, int64_t depth)
{
    const int64_t width = columns < GEMM_NR ? columns : GEMM_NR;
    BY_TYPE(a->head.dtype, pack_panel(type, GEMM_NR, dst, a->b, a->ldb, a->trans_b, n, width, k, depth));
}

/* Packs panels [begin, end) of columns [n, n + columns) of op(b), rows [k, k + depth). */
static void gemm_pack_b(const mega_gemm_args *a, float *dst, int64_t n, int64_t columns, int64_t k, int64_t depth,
                        int64_t begin, int64_t end)
{
    for (int64_t p = begin; p < end; p++)
        gemm_pack_b_panel(a, dst + p * GEMM_NR * depth, n + p * GEMM_NR, columns - p * GEMM_NR, k, depth);
}

/* sum[i] += row i of a packed panel [depth][GEMM_MR], for the first `rows` rows. It adds whole vectors of several k. */
static void gemm_panel_sum(float *sum, const float *panel, int64_t rows, int64_t depth)
{
    enum { STEP = 8, VECTORS = STEP * GEMM_MR / VL };
    float lane[STEP * GEMM_MR];
    vf s[VECTORS];
    int64_t k = 0;
#pragma GCC unroll 12
    for (int j = 0; j < VECTORS; j++) s[j] = vset(0.0f);
    for (; k + STEP <= depth; k += STEP)
#pragma GCC unroll 12
        for (int j = 0; j < VECTORS; j++) s[j] += vload(panel + k * GEMM_MR + j * VL);
#pragma GCC unroll 12
    for (int j = 0; j < VECTORS; j++) vstore(lane + j * VL, s[j]);
    for (; k < depth; k++)
        for (int i = 0; i < GEMM_MR; i++) lane[i] += panel[k * GEMM_MR + i];
    for (int64_t i = 0; i < rows; i++) {
        float all = 0.0f;
        for (int j = 0; j < STEP; j++) all += lane[j * GEMM_MR + i];
        sum[i] += all;
    }
}

/* Packs rows [m, m + rows) of op(a), rows [k, k + depth) of k, in panels; with `sums` also adds them to row_sum. */
static void gemm_pack_a(const mega_gemm_args *a, float *dst, int64_t m, int64_t rows, int64_t k, int64_t depth,
                        bool sums)
{
    for (int64_t i = 0; i < rows; i += GEMM_MR) {
        const int64_t height = rows - i < GEMM_MR ? rows - i : GEMM_MR;
        BY_TYPE(a->head.dtype,
                pack_panel(type, GEMM_MR, dst + i * depth, a->a, a->lda, !a->trans_a, m + i, height, k, depth));
        if (sums) gemm_panel_sum((float *)a->row_sum + m + i, dst + i * depth, height, depth);
    }
}

typedef struct gemm_tile {
    vf sum[GEMM_MR][2];
} gemm_tile;

/* Data that a tile prefetches while it multiplies: its own part of c, `rows` lines of GEMM_NR, and `lines` cache
 * lines of the next b from `ahead` on. After `left` of these lines, and then after every `run` lines, it skips
 * `skip` bytes. */
typedef struct gemm_wish {
    const float *c;
    int64_t ldc, rows;
    const char *ahead;
    int64_t lines, left, run, skip;
} gemm_wish;

/* Steps of k that are unrolled between two prefetches (bench_kernels, "gemm …"). */
enum { GEMM_STEP = 4 };

/* sum += x * y in place. The sums fill the registers, and without this the compiler moves them around and spills
 * some. */
#if defined(__FMA__)
#define GEMM_FMA(sum, x, y) __asm__("vfmadd231ps %1, %2, %0" : "+v"(sum) : "v"(x), "v"(y))
#else
#define GEMM_FMA(sum, x, y) ((sum) += (x) * (y))
#endif

/* Location of a tile's rows of op(a): packed as [k][GEMM_MR] if ld is 0, else in place as [GEMM_MR][ld]. */
typedef struct gemm_rows {
    const float *a;
    int64_t ld;
} gemm_rows;

/* Adds `steps` rows of k; pb is [k][GEMM_NR]. Rows in place are addressed from every third row, which saves
 * registers. */
ALWAYS void gemm_tile_step(const bool in_place, vf sum[GEMM_MR][2], const float *const pa[GEMM_MR / 3], int64_t ld,
                           const float *restrict pb, int64_t at, const int steps)
{
#pragma GCC unroll 4
    for (int k = 0; k < steps; k++) {
        const vf b0 = vload(pb + (at + k) * GEMM_NR), b1 = vload(pb + (at + k) * GEMM_NR + VL);
#pragma GCC unroll 12
        for (int r = 0; r < GEMM_MR; r++) {
            const vf x = vset(in_place ? pa[r / 3][r % 3 * ld + at + k] : pa[0][(at + k) * GEMM_MR + r]);
            GEMM_FMA(sum[r][0], x, b0);
            GEMM_FMA(sum[r][1], x, b1);
        }
    }
}

/* Sums one tile over one block of k; pb is [depth][GEMM_NR]. */
ALWAYS void gemm_tile_sum(const bool in_place, gemm_tile *t, gemm_rows rows, const float *restrict pb, int64_t depth,
                          gemm_wish w)
{
    vf sum[GEMM_MR][2];
    const float *pa[GEMM_MR / 3];
#pragma GCC unroll 4
    for (int i = 0; i < GEMM_MR / 3; i++) pa[i] = rows.a + 3 * i * rows.ld;
#pragma GCC unroll 12
    for (int r = 0; r < GEMM_MR; r++) sum[r][0] = sum[r][1] = vset(0.0f);
    int64_t k = 0;
    for (; k + GEMM_STEP <= depth && w.rows > 0; k += GEMM_STEP, w.rows--, w.c += w.ldc) {
        __builtin_prefetch(w.c, 1);
        __builtin_prefetch(w.c + GEMM_NR - 1, 1);
        gemm_tile_step(in_place, sum, pa, rows.ld, pb, k, GEMM_STEP);
    }
    for (; k + GEMM_STEP <= depth && w.lines > 0; k += GEMM_STEP, w.lines--, w.ahead += 64) {
        __builtin_prefetch(w.ahead, 0, 2);
        if (--w.left == 0) {
            w.left = w.run;
            w.ahead += w.skip;
        }
        gemm_tile_step(in_place, sum, pa, rows.ld, pb, k, GEMM_STEP);
    }
    for (; k < depth; k++) gemm_tile_step(in_place, sum, pa, rows.ld, pb, k, 1);
#pragma GCC unroll 12
    for (int r = 0; r < GEMM_MR; r++) {
        t->sum[r][0] = sum[r][0];
        t->sum[r][1] = sum[r][1];
    }
}

/* Stores a whole tile if c is float: c = the sums, plus `from` and the bias if these are given. */
ALWAYS void gemm_tile_store(const gemm_tile *t, float *c, const float *from, int64_t ldc, mega_dtype bias_type,
                            const void *bias, int64_t n)
{
    vf b0 = vset(0.0f), b1 = b0;
    if (bias != NULL) {
        b0 = vget(bias_type, bias, n);
        b1 = vget(bias_type, bias, n + VL);
    }
#pragma GCC unroll 12
    for (int r = 0; r < GEMM_MR; r++) {
        float *at = c + r * ldc;
        vf x = t->sum[r][0], y = t->sum[r][1];
        if (from != NULL) {
            x = vload(from + r * ldc) + x;
            y = vload(from + r * ldc + VL) + y;
        }
        if (bias != NULL) {
            x += b0;
            y += b1;
        }
        vstore(at, x);
        vstore(at + VL, y);
    }
}

/* Returns the values to add to the sums of this block, [m, n] of c's type: c, the residual, or NULL. If c is not float,
 * only the last block adds them. */
ALWAYS const void *gemm_addend(const gemm_block *b, bool is_float)
{
    const mega_gemm_args *a = b->args;
    if (!is_float && !b->last) return NULL;
    if (a->residual != NULL && (b->first || !is_float)) return a->residual;
    return b->overwrite && (b->first || !is_float) ? NULL : a->c;
}

/* Stores any tile for any type of c. If c is not float, b->sums has the partial sums of earlier blocks of k, and the
 * last block writes c. */
static void gemm_tile_finish(const gemm_tile *t, const gemm_block *b, int64_t row, int64_t column, int64_t rows,
                             int64_t columns)
{
    const mega_gemm_args *a = b->args;
    const mega_dtype type = a->c_dtype;
    const bool is_float = type == MEGA_F32;
    const void *from = gemm_addend(b, is_float);
    for (int64_t r = 0; r < rows; r++)
        for (int h = 0; h < 2; h++) {
            const int64_t left = columns - h * VL, n = b->n + column + h * VL, at = (row + r) * a->ldc + n;
            if (left <= 0) continue;
            float *sums = is_float || b->sums == NULL ? NULL : b->sums + (row + r) * b->ld_sums + column + h * VL;
            vf v = t->sum[r][h];
            if (sums != NULL && !b->first) v = vget_n(MEGA_F32, sums, 0, left) + v;
            if (!is_float && !b->last) {
                vput_n(MEGA_F32, sums, 0, left, v);
                continue;
            }
            if (from != NULL) v = vget_n(type, from, at, left) + v;
            if (b->last && a->bias != NULL) v += vget_n(a->head.dtype, a->bias, n, left);
            vput_n(type, a->c, at, left, v);
        }
}

/* Stores a whole tile if c has 16-bit numbers, in the last block of k; `sums` has the partial sums of earlier blocks,
 * or is NULL. */
ALWAYS void gemm_tile_narrow(mega_dtype type, const gemm_tile *t, const gemm_block *b, const float *sums, int64_t at,
                             int64_t n)
{
    const mega_gemm_args *a = b->args;
    const void *from = gemm_addend(b, false), *bias = a->bias;
    for (int r = 0; r < GEMM_MR; r++, at += a->ldc)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            vf v = t->sum[r][h];
            if (sums != NULL) v = vload(sums + r * b->ld_sums + h * VL) + v;
            if (from != NULL) v = vget(type, from, at + h * VL) + v;
            if (bias != NULL) v += vget(type, bias, n + h * VL);
            vput(type, a->c, at + h * VL, v);
        }
}

/* Stores a whole tile if a and c have the same 16-bit type. */
static void gemm_tile_store_narrow(const gemm_tile *t, const gemm_block *b, float *sums, int64_t at, int64_t n)
{
    const float *before = b->first ? NULL : sums;
    if (!b->last) gemm_tile_store(t, sums, before, b->ld_sums, MEGA_F32, NULL, 0);
    else if (b->args->c_dtype == MEGA_BF16)
        gemm_tile_narrow(MEGA_BF16, t, b, before, at, n);
    else
        gemm_tile_narrow(MEGA_F16, t, b, before, at, n);
}

/* Prefetches lines of the residual before the sums are computed. */
ALWAYS void gemm_tile_ask(const gemm_block *b, int64_t row, int64_t height, int64_t column)
{
    const mega_gemm_args *a = b->args;
    const bool is_float = a->c_dtype == MEGA_F32;
    if (a->residual == NULL || !(is_float ? b->first : b->last)) return;
    const int64_t size = vsize(a->c_dtype);
    const char *at = (const char *)a->residual + (row * a->ldc + b->n + column) * size;
    for (int64_t r = 0; r < height; r++, at += a->ldc * size) {
        __builtin_prefetch(at);
        __builtin_prefetch(at + (GEMM_NR - 1) * size);
    }
}

/* Computes one tile: rows [row, row + height) times the panel at `column` of the block. */
ALWAYS void gemm_tile_run(const bool in_place, const gemm_block *b, gemm_rows rows, const float *pb, int64_t row,
                          int64_t height, int64_t column, gemm_wish wish)
{
    const mega_gemm_args *a = b->args;
    const void *bias = b->last ? a->bias : NULL;
    const int64_t left = b->columns - column, width = left < GEMM_NR ? left : GEMM_NR;
    const int64_t at = row * a->ldc + b->n + column;
    float *c = a->c_dtype == MEGA_F32 ? (float *)a->c + at : NULL;
    float *sums = c == NULL && b->sums != NULL ? b->sums + row * b->ld_sums + column : NULL;
    gemm_tile t;
    wish.c = c != NULL ? c : sums;
    wish.ldc = c != NULL ? a->ldc : b->ld_sums;
    wish.rows = wish.c != NULL ? height : 0;
    gemm_tile_ask(b, row, height, column);
    gemm_tile_sum(in_place, &t, rows, pb, b->depth, wish);
    if (height < GEMM_MR || width < GEMM_NR || (c == NULL && a->c_dtype != a->head.dtype)) {
        gemm_tile_finish(&t, b, row, column, height, width);
        return;
    }
    if (c == NULL) {
        gemm_tile_store_narrow(&t, b, sums, at, b->n + column);
        return;
    }
    const float *from = gemm_addend(b, true);
    if (from != NULL) from += at;
    BY_TYPE(a->head.dtype, gemm_tile_store(&t, c, from, a->ldc, type, bias, b->n + column));
}

/* Up to this number of columns, rows of a that are along k are read in place: with few panels, packing costs more than
 * it saves. Reading in place is 1.10 times as fast at 128 columns, 1.01 times at 512, and 0.99 times at 2304. */
#define GEMM_IN_PLACE_COLUMNS 512

/* Returns whether to read a in place; not if the distance of the rows maps a tile's rows to the same few lines of the
 * first level of cache. */
ALWAYS bool gemm_reads_in_place(const mega_gemm_args *a, int64_t columns)
{
    return a->head.dtype == MEGA_F32 && !a->trans_a && columns <= GEMM_IN_PLACE_COLUMNS && a->lda % 1024 != 0;
}

/* Returns the first tile below `row` that reaches the diagonal in this column or to its right: those above are not
 * wanted of a symmetric product. */
ALWAYS int64_t gemm_first_lower(int64_t row, int64_t column)
{
    return column <= row ? 0 : (column - row) / GEMM_MR * GEMM_MR;
}

/* Computes rows [row, row + rows) from panels [begin, end) of packed b; pa is this thread's buffer for a block of a. */
static void gemm_block_run(const gemm_block *b, int64_t row, int64_t rows, int64_t begin, int64_t end, float *pa)
{
    const mega_gemm_args *a = b->args;
    /* Prefetch the next panel of b in as many parts as there are tiles. */
    const int64_t tiles = (rows + GEMM_MR - 1) / GEMM_MR, lines = (b->depth * GEMM_NR / 16 + tiles - 1) / tiles;
    const int64_t in_place = gemm_reads_in_place(a, (end - begin) * GEMM_NR) ? rows - rows % GEMM_MR : 0;
    gemm_pack_a(a, pa, row + in_place, rows - in_place, b->k, b->depth, a->row_sum != NULL && b->n == 0 && begin == 0);
    for (int64_t p = begin; p < end; p++) {
        const float *pb = b->packed + (p * b->panel_depth + (b->k - b->panel_k)) * GEMM_NR;
        const char *next = (const char *)(pb + b->panel_depth * GEMM_NR);
        for (int64_t i = a->lower ? gemm_first_lower(row, b->n + p * GEMM_NR) : 0; i < rows; i += GEMM_MR) {
            const int64_t height = rows - i < GEMM_MR ? rows - i : GEMM_MR;
            const gemm_wish wish = {.ahead = next + i / GEMM_MR * lines * 64, .lines = p + 1 < end ? lines : 0};
            if (i < in_place) {
                const gemm_rows at = {(const float *)a->a + (row + i) * a->lda + b->k, a->lda};
                gemm_tile_run(true, b, at, pb, row + i, height, p * GEMM_NR, wish);
            } else {
                const gemm_rows at = {pa + (i - in_place) * b->depth, 0};
                gemm_tile_run(false, b, at, pb, row + i, height, p * GEMM_NR, wish);
            }
        }
    }
}

/* Returns the part of panel p of op(b), in its original layout, that tile number `tile` of `tiles` prefetches. */
ALWAYS gemm_wish gemm_wish_b(const gemm_block *b, int64_t p, int64_t tile, int64_t tiles)
{
    const mega_gemm_args *a = b->args;
    const int64_t size = vsize(a->head.dtype), column = p * GEMM_NR, left = b->columns - column;
    const int64_t columns = left < GEMM_NR ? left : GEMM_NR;
    const int64_t rows = a->trans_b ? columns : b->depth, wide = a->trans_b ? b->depth : columns;
    const int64_t run = (wide * size + 63) / 64, part = (rows * run + tiles - 1) / tiles, first = tile * part;
    const int64_t lines = rows * run - first < part ? rows * run - first : part;
    if (lines <= 0) return (gemm_wish){.lines = 0};
    const int64_t line = first / run,
                  start = a->trans_b ? (b->n + column) * a->ldb + b->k : b->k * a->ldb + b->n + column;
    return (gemm_wish){.ahead = (const char *)a->b + (start + line * a->ldb) * size + first % run * 64,
                       .lines = lines,
                       .left = run - first % run,
                       .run = run,
                       .skip = a->ldb * size - run * 64};
}

/* Computes all rows of a, packed by the team for this block of k, times panels [begin, end) of op(b). This thread packs
 * these one by one into pb, where they stay in its caches. */
static void gemm_columns_run(const gemm_block *b, int64_t begin, int64_t end, float *pb)
{
    const mega_gemm_args *a = b->args;
    const int64_t tiles = (a->m + GEMM_MR - 1) / GEMM_MR;
    const float *pa = b->packed + tiles * GEMM_MR * (b->k - b->panel_k);
    for (int64_t p = begin; p < end; p++) {
        gemm_pack_b_panel(a, pb, b->n + p * GEMM_NR, b->columns - p * GEMM_NR, b->k, b->depth);
        for (int64_t i = 0; i < a->m; i += GEMM_MR) {
            const int64_t height = a->m - i < GEMM_MR ? a->m - i : GEMM_MR;
            const gemm_wish none = {.lines = 0};
            gemm_tile_run(false, b, (gemm_rows){pa + i * b->depth, 0}, pb, i, height, p * GEMM_NR,
                          p + 1 < end ? gemm_wish_b(b, p + 1, i / GEMM_MR, tiles) : none);
        }
    }
}
