/* GEMM. The algorithm depends only on the shape and the type:
 *   few rows (a decode step)   gemm_body.c: each weight is read once, in its own type
 *   F32, BF16                  gemm_panels_body.c: the team packs op(b) block by block, and the threads share the rows
 *                              of c (its columns, if there are few rows); if a is smaller, the team packs a
 *   BF16 with dot products     gemm_pairs.c
 *   k = 0, F64                 the plain kernel
 * bench_kernels measures GEMM speed; bench_onednn measures oneDNN's for comparison. */
#include "cpu/gemm/gemm_impl.h"
#include "cpu/gemm/gemm_pairs.h"
#include "cpu/share.h"
#include <stdio.h>
#include <stdlib.h>

/* Rows of k that are packed at a time, and bytes of packed b: they stay in the last level of cache. A block of all rows
 * of a, of at most STAYING_BYTES, stays in the second level. The lines "gemm …" of bench_kernels measure these
 * four. */
enum { DEPTH = 1024, PACKED_BYTES = 6 << 20, BLOCK_PANELS = 24, STAYING_BYTES = 544 << 10 };

typedef enum gemm_way { GEMM_NOTHING, GEMM_PLAIN, GEMM_FEW_ROWS, GEMM_PANELS, GEMM_PAIRS } gemm_way;

static bool few_rows(const mega_gemm_args *a)
{
    return a->m <= MEGA_GEMV_ROWS && !a->trans_a && a->trans_b;
}

static gemm_way way_of(const mega_gemm_args *a)
{
    if (a->m == 0 || (a->n == 0 && a->row_sum == NULL)) return GEMM_NOTHING;
    if (a->n == 0 || a->k == 0 || a->head.dtype == MEGA_F64) return GEMM_PLAIN;
    if (few_rows(a)) return GEMM_FEW_ROWS;
    return mega_pairs_can(a) ? GEMM_PAIRS : GEMM_PANELS;
}

static int64_t gemm_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t gemm_round_to(int64_t x, int64_t grain)
{
    return (x + grain - 1) / grain * grain;
}

static int64_t panels_of(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain;
}

/* Returns the time of the busiest thread, relative to an exactly even division of these panels. */
static double unevenness(int64_t panels, int threads)
{
    return (double)((panels + threads - 1) / threads) * threads / (double)panels;
}

/* How a GEMM is divided: into blocks of `columns` columns and `depth` rows of k. Scratch has packed b, the partial sums
 * of a block if c cannot hold them, and a packed block of a for each thread. If a is the smaller operand (few rows),
 * the roles of a and b are exchanged: the team packs all rows of a, and each thread packs the panels of b that it needs
 * one by one. A large weight is then read once and never written to memory in packed form. */
typedef struct gemm_walk {
    bool a_stays;
    int64_t columns, depth, block_rows;
    size_t packed, sums, block; /* in bytes */
} gemm_walk;

static bool a_stays(const mega_gemm_args *a, const cpu_bodies *bodies, int threads)
{
    const int64_t height = bodies->gemm_rows_of_panel, width = bodies->gemm_columns_of_panel;
    if (a->m >= a->n || gemm_round_to(a->m, height) * gemm_least(a->k, MEGA_GEMM_BLOCK_K) * 4 > STAYING_BYTES)
        return false;
    return unevenness(panels_of(a->n, width), threads) <= unevenness(panels_of(a->m, height), threads) + 0.1;
}

static gemm_walk gemm_walk_of(const mega_gemm_args *a, const cpu_bodies *bodies, int threads)
{
    const int64_t height = bodies->gemm_rows_of_panel, width = bodies->gemm_columns_of_panel;
    gemm_walk w = {.a_stays = a_stays(a, bodies, threads)};
    w.depth = gemm_least(a->k, DEPTH);
    w.block_rows = height * BLOCK_PANELS;
    const int64_t wide = PACKED_BYTES / (w.depth * (int64_t)sizeof(float)) / width;
    const bool sums = a->c_dtype != MEGA_F32 && a->k > MEGA_GEMM_BLOCK_K;
    w.columns = w.a_stays && !sums ? a->n : gemm_least(gemm_round_to(a->n, width), wide * width);
    w.packed = round_up_64((size_t)((w.a_stays ? gemm_round_to(a->m, height) : w.columns) * w.depth) * sizeof(float));
    w.sums = sums ? round_up_64((size_t)(a->m * w.columns) * sizeof(float)) : 0;
    const int64_t rows = w.a_stays ? width : gemm_least(w.block_rows, gemm_round_to(a->m, height));
    w.block = round_up_64((size_t)(rows * gemm_least(a->k, MEGA_GEMM_BLOCK_K)) * sizeof(float));
    return w;
}

typedef struct panels_job {
    const cpu_bodies *bodies;
    const gemm_walk *walk;
    gemm_block block;
    char *thread_scratch;
    bool by_columns;
} panels_job;

static void gemm_pack_work(void *user, int thread, int64_t begin, int64_t end)
{
    const panels_job *job = user;
    const gemm_block *b = &job->block;
    job->bodies->gemm_pack_b(b->args, b->packed, b->n, b->columns, b->panel_k, b->panel_depth, begin, end);
}

static bool next_block(gemm_block *b)
{
    const int64_t end = b->panel_k + b->panel_depth;
    b->depth = gemm_least(end - b->k, MEGA_GEMM_BLOCK_K);
    b->first = b->k == 0;
    b->last = b->k + b->depth == b->args->k;
    return b->depth > 0;
}

/* Packs some rows of a, one block of k after another. */
static void pack_a_work(void *user, int thread, int64_t row, int64_t row_end)
{
    const panels_job *job = user;
    const int64_t height = job->bodies->gemm_rows_of_panel;
    gemm_block b = job->block;
    for (b.k = b.panel_k; next_block(&b); b.k += b.depth)
        job->bodies->gemm_pack_a(b.args,
                                 b.packed + gemm_round_to(b.args->m, height) * (b.k - b.panel_k) + row * b.depth, row,
                                 row_end - row, b.k, b.depth, b.args->row_sum != NULL && b.n == 0);
}

static void columns_work(void *user, int thread, int64_t begin, int64_t end)
{
    const panels_job *job = user;
    gemm_block b = job->block;
    float *pb = (float *)(void *)(job->thread_scratch + job->walk->block * (size_t)thread);
    for (b.k = b.panel_k; next_block(&b); b.k += b.depth) job->bodies->gemm_columns(&b, begin, end, pb);
}

/* Computes some rows, or some panels of columns, over all blocks of k of the packed rows. */
static void panels_work(void *user, int thread, int64_t first, int64_t last)
{
    const panels_job *job = user;
    int64_t row = 0, row_end = job->block.args->m, begin = first, end = last;
    if (!job->by_columns) {
        row = first;
        row_end = last;
        begin = 0;
        end = panels_of(job->block.columns, job->bodies->gemm_columns_of_panel);
    }
    float *pa = (float *)(void *)(job->thread_scratch + job->walk->block * (size_t)thread);
    const bool lower = job->block.args->lower;
    for (; row < row_end; row += job->walk->block_rows) {
        const int64_t rows = gemm_least(row_end - row, job->walk->block_rows);
        gemm_block b = job->block;
        const int64_t wanted = panels_of(row + rows - b.n, job->bodies->gemm_columns_of_panel);
        const int64_t stop = lower && wanted < end ? wanted : end;
        if (stop <= begin) continue;
        for (b.k = b.panel_k; next_block(&b); b.k += b.depth) job->bodies->gemm_block(&b, row, rows, begin, stop, pa);
    }
}

/* Returns whether dividing the columns among the threads is more even than dividing the rows, which is the default. */
static bool gemm_columns_are_evener(const mega_gemm_args *a, const panels_job *job, int threads)
{
    const double by_rows = unevenness(panels_of(a->m, job->bodies->gemm_rows_of_panel), threads);
    const double by_columns = unevenness(panels_of(job->block.columns, job->bodies->gemm_columns_of_panel), threads);
    return by_columns + 0.03 < by_rows;
}

static void run_panels(mega_team *team, const mega_gemm_args *a)
{
    const cpu_bodies *bodies = mega_cpu_bodies_get();
    const gemm_walk w = gemm_walk_of(a, bodies, mega_team_size(team));
    char *scratch = a->head.scratch;
    panels_job job = {.bodies = bodies, .walk = &w, .thread_scratch = scratch + w.packed + w.sums};
    mega_team *const all = a->m * a->n * a->k / 8 < CPU_SMALL_JOB ? NULL : team;
    gemm_block *b = &job.block;
    const int64_t height = bodies->gemm_rows_of_panel, width = bodies->gemm_columns_of_panel;
    b->args = a;
    b->packed = (float *)(void *)scratch;
    b->sums = w.sums > 0 ? (float *)(void *)(scratch + w.packed) : NULL;
    b->ld_sums = w.columns;
    b->overwrite = mega_gemm_overwrites(a);
    for (b->n = 0; b->n < a->n; b->n += w.columns) {
        b->columns = gemm_least(a->n - b->n, w.columns);
        job.by_columns = !w.a_stays && !a->lower && gemm_columns_are_evener(a, &job, mega_team_size(all));
        for (b->panel_k = 0; b->panel_k < a->k; b->panel_k += w.depth) {
            b->panel_depth = gemm_least(a->k - b->panel_k, w.depth);
            const bool packed = w.a_stays && b->n > 0 && w.depth == a->k;
            const int64_t panels = panels_of(b->columns, width);
            if (!packed && w.a_stays) mega_team_for(all, a->m, height, pack_a_work, &job);
            else if (!packed)
                mega_team_for(all, panels, 1, gemm_pack_work, &job);
            if (w.a_stays) mega_team_for(all, panels, 1, columns_work, &job);
            else if (job.by_columns)
                mega_team_for(all, panels, 1, panels_work, &job);
            else
                mega_team_for(all, a->m, a->lower ? 4 * height : height, panels_work, &job);
        }
    }
}

static void few_rows_work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    job->bodies->gemm_rows(job->args, begin, end);
}

/* Zeroes c, for an algorithm that always accumulates. */
static void zero_rows(const mega_gemm_args *a)
{
    const size_t size = mega_dtype_size(a->c_dtype);
    for (int64_t m = 0; m < a->m; m++) memset((char *)a->c + (size_t)(m * a->ldc) * size, 0, (size_t)a->n * size);
}

static void cpu_gemm_run(const mega_queue *queue, const void *args)
{
    const mega_gemm_args *a = args;
    switch (way_of(a)) {
    case GEMM_PLAIN: mega_plain_gemm.run(queue, a); return;
    case GEMM_FEW_ROWS:
        if (a->accumulate && mega_gemm_overwrites(a)) zero_rows(a);
        cpu_job_run(mega_queue_team(queue), few_rows_work, a, a->n, 16, a->n * a->k);
        return;
    case GEMM_PAIRS: mega_pairs_run(mega_queue_team(queue), a, mega_gemm_overwrites(a)); return;
    case GEMM_PANELS: run_panels(mega_queue_team(queue), a); return;
    default: return;
    }
}

static size_t cpu_gemm_scratch(const void *args, int threads)
{
    const mega_gemm_args *a = args;
    const gemm_way way = way_of(a);
    if (way == GEMM_PAIRS) return mega_pairs_scratch(a, threads);
    if (way != GEMM_PANELS) return 0;
    const gemm_walk w = gemm_walk_of(a, mega_cpu_bodies_get(), threads);
    return w.packed + w.sums + w.block * (size_t)threads;
}

/* Whether a stays, and how many columns of b are packed at a time, depends on m and k. (Sums follow m: there are none
 * where k may be smaller.) */
static size_t panels_scratch_most(const mega_gemm_args *a, int threads)
{
    const cpu_bodies *bodies = mega_cpu_bodies_get();
    const int64_t height = bodies->gemm_rows_of_panel, width = bodies->gemm_columns_of_panel;
    const int64_t depth = gemm_least(a->k, DEPTH) * (int64_t)sizeof(float), rows = gemm_round_to(a->m, height);
    const int64_t b = gemm_least(gemm_round_to(a->n, width) * depth, PACKED_BYTES);
    const int64_t staying = gemm_least(rows * depth, (int64_t)STAYING_BYTES * DEPTH / MEGA_GEMM_BLOCK_K);
    const int64_t block = gemm_least(height * BLOCK_PANELS, rows);
    const gemm_walk w = gemm_walk_of(a, bodies, threads);
    const size_t of_thread =
        round_up_64((size_t)((block > width ? block : width) * gemm_least(a->k, MEGA_GEMM_BLOCK_K)) * sizeof(float));
    return round_up_64((size_t)(b > staying ? b : staying)) + w.sums + of_thread * (size_t)threads;
}

size_t mega_gemm_scratch_most(const mega_gemm_args *a, int threads)
{
    if (a->m == 0 || a->n == 0 || a->k == 0 || a->head.dtype == MEGA_F64) return 0;
    return mega_pairs_can(a) ? mega_pairs_scratch_most(a, threads) : panels_scratch_most(a, threads);
}

/* Packed panels of floats are not kept for a whole step: packing takes only 3 % of a step of 256 rows, and less of
 * larger steps, but the panels would take twice the memory of the weights. */
static size_t gemm_packed(const void *args)
{
    return way_of(args) == GEMM_PAIRS ? mega_pairs_packed(args) : 0;
}

const mega_kernel mega_cpu_gemm = {
    .name = "gemm", .run = cpu_gemm_run, .scratch = cpu_gemm_scratch, .packed = gemm_packed};

const char *mega_gemm_description(char *out, int size)
{
    snprintf(out, (size_t)size, "%s, %s", mega_cpu_pairs_of(mega_cpu_isa()) != NULL ? "pairs" : "panels",
             mega_isa_name(mega_cpu_isa()));
    return out;
}
