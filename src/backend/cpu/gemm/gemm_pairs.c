/* GEMM of bf16 by dot products of pairs: how the work is divided. For each block of columns and slice of k, the team
 * packs op(b) once. Then each thread packs blocks of its rows of op(a) and multiplies them with all panels (or with its
 * share of the panels, if there are too few rows to share). The order of the sums depends only on the shape and the
 * instruction set. */
#include "cpu/gemm/gemm_pairs.h"
#include "cpu/share.h"

/* Bytes of packed b; they stay in the last level of cache. `bench_kernels bf16` measures it. */
enum { PACKED_BYTES = 6 << 20 };

const cpu_pairs *mega_cpu_pairs_of(mega_isa isa)
{
#if defined(__x86_64__)
    if (isa == MEGA_ISA_AMX) return &mega_cpu_pairs_amx;
    if (isa == MEGA_ISA_AVX512_BF16) return &mega_cpu_pairs_avx512_bf16;
#endif
    (void)isa;
    return NULL;
}

bool mega_pairs_can(const mega_gemm_args *a)
{
    return a->head.dtype == MEGA_BF16 && mega_cpu_pairs_of(mega_cpu_isa()) != NULL;
}

static int64_t pairs_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t pieces(int64_t n, int64_t most)
{
    return (n + most - 1) / most;
}

static int64_t pairs_round_to(int64_t n, int64_t grain)
{
    return pieces(n, grain) * grain;
}

/* Returns the size of the parts if n is divided into as few parts as `most` (their largest size) allows, as evenly as
 * multiples of grain permit. */
static int64_t pairs_part_of(int64_t n, int64_t most, int64_t grain)
{
    return pairs_round_to(pieces(n, pieces(n, most)), grain);
}

/* Sizes of the blocks that are packed at a time, and their bytes: packed b and the sums once, the others per thread. */
typedef struct pairs_walk {
    const cpu_pairs *pairs;
    int64_t columns, depth, padded, rows;
    size_t packed, sums, block, tiles;
} pairs_walk;

static pairs_walk pairs_walk_of(const mega_gemm_args *a)
{
    pairs_walk w = {.pairs = mega_cpu_pairs_of(mega_cpu_isa())};
    const int64_t height = w.pairs->rows_of_panel;
    w.depth = pairs_least(a->k, pairs_part_of(a->k, w.pairs->depth, 32));
    w.padded = pairs_round_to(w.depth, w.pairs->grain);
    const int64_t most_columns = PACKED_BYTES / (w.padded * 2) / PAIRS_COLUMNS * PAIRS_COLUMNS;
    w.columns = pairs_part_of(a->n, most_columns, PAIRS_COLUMNS);
    const int64_t most_rows = w.pairs->block_bytes / (w.padded * 2) / height * height;
    w.rows = pairs_part_of(a->m, most_rows < height ? height : most_rows, height);
    w.packed = round_up_64((size_t)(w.columns * w.padded) * 2);
    w.sums = a->c_dtype == MEGA_F32 || w.depth == a->k ? 0 : (size_t)(a->m * w.columns) * sizeof(float);
    w.block = round_up_64((size_t)(w.rows * w.padded) * 2);
    w.tiles = (size_t)(w.rows * PAIRS_COLUMNS) * sizeof(float);
    return w;
}

size_t mega_pairs_scratch(const mega_gemm_args *a, int threads)
{
    const pairs_walk w = pairs_walk_of(a);
    return w.packed + w.sums + (w.block + w.tiles) * (size_t)threads;
}

/* A smaller depth may be in longer slices, and lets more columns and rows be packed at a time, up to the same number of
 * bytes. */
size_t mega_pairs_scratch_most(const mega_gemm_args *a, int threads)
{
    const pairs_walk w = pairs_walk_of(a);
    const int64_t height = w.pairs->rows_of_panel, rows = pairs_round_to(a->m, height);
    const int64_t line = 2 * pairs_round_to(pairs_least(a->k, w.pairs->depth), w.pairs->grain);
    const int64_t block = w.pairs->block_bytes > height * line ? w.pairs->block_bytes : height * line;
    const int64_t packed = pairs_least(pairs_round_to(a->n, PAIRS_COLUMNS) * line, PACKED_BYTES);
    const size_t of_thread =
        round_up_64((size_t)pairs_least(rows * line, block)) + (size_t)(rows * PAIRS_COLUMNS) * sizeof(float);
    return round_up_64((size_t)packed) + w.sums + of_thread * (size_t)threads;
}

typedef struct pairs_job {
    const pairs_walk *walk;
    pairs_block block;
    char *thread_scratch;
    bool by_columns;
} pairs_job;

static void pairs_pack_work(void *user, int thread, int64_t begin, int64_t end)
{
    const pairs_job *job = user;
    job->walk->pairs->pack_b(&job->block, begin, end);
}

static void multiply_work(void *user, int thread, int64_t first, int64_t last)
{
    const pairs_job *job = user;
    const pairs_walk *w = job->walk;
    int64_t row = 0, row_end = job->block.args->m, begin = first, end = last;
    if (!job->by_columns) {
        row = first;
        row_end = last;
        begin = 0;
        end = pieces(job->block.columns, PAIRS_COLUMNS);
    }
    char *scratch = job->thread_scratch + (w->block + w->tiles) * (size_t)thread;
    uint16_t *pa = (uint16_t *)(void *)scratch;
    float *tiles = (float *)(void *)(scratch + w->block);
    const int64_t part = pairs_part_of(row_end - row, w->rows, w->pairs->rows_of_panel);
    w->pairs->enter();
    for (; row < row_end; row += part)
        w->pairs->block(&job->block, row, pairs_least(row_end - row, part), begin, end, pa, tiles);
    w->pairs->leave();
}

/* Returns whether dividing the columns among the threads is more even than dividing the rows, which is the default. */
static bool pairs_columns_are_evener(const pairs_job *job, int threads)
{
    const int64_t rows = pieces(job->block.args->m, job->walk->pairs->rows_of_panel);
    const int64_t columns = pieces(job->block.columns, PAIRS_COLUMNS);
    const double by_rows = (double)(pieces(rows, threads) * threads) / (double)rows;
    const double by_columns = (double)(pieces(columns, threads) * threads) / (double)columns;
    return by_columns + 0.03 < by_rows;
}

/* Packed b has one slice and block after another, in the order in which they are used. */
size_t mega_pairs_packed(const mega_gemm_args *a)
{
    const pairs_walk w = pairs_walk_of(a);
    const int64_t whole = a->k / w.depth, rest = a->k - whole * w.depth;
    const int64_t padded = whole * w.padded + pairs_round_to(rest, w.pairs->grain);
    return (size_t)(pairs_round_to(a->n, PAIRS_COLUMNS) * padded) * 2;
}

/* Computes one slice of one block of columns; with `packs` it packs b first, otherwise b was packed earlier in the
 * step. */
static void run_slice(mega_team *team, pairs_job *job, bool packs)
{
    pairs_block *b = &job->block;
    const pairs_walk *w = job->walk;
    b->depth = pairs_least(b->args->k - b->k, w->depth);
    b->padded = pairs_round_to(b->depth, w->pairs->grain);
    b->first = b->k == 0;
    b->last = b->k + b->depth == b->args->k;
    const int64_t panels = pieces(b->columns, PAIRS_COLUMNS);
    if (packs) mega_team_for(team, panels, 1, pairs_pack_work, job);
    if (job->by_columns) mega_team_for(team, panels, 1, multiply_work, job);
    else
        mega_team_for(team, b->args->m, w->pairs->rows_of_panel, multiply_work, job);
}

void mega_pairs_run(mega_team *team, const mega_gemm_args *a, bool overwrite)
{
    const pairs_walk w = pairs_walk_of(a);
    char *scratch = a->head.scratch;
    pairs_job job = {.walk = &w, .thread_scratch = scratch + w.packed + w.sums};
    mega_team *const all = a->m * a->n * a->k / 32 < CPU_SMALL_JOB ? NULL : team;
    const bool keeps = a->head.packed != NULL && a->head.step != NULL && a->head.step->keeps_packed;
    const bool packs = !keeps || (a->head.packs && a->head.step->first_micro_batch);
    pairs_block *b = &job.block;
    b->args = a;
    b->packed = keeps ? a->head.packed : (uint16_t *)(void *)scratch;
    b->sums = w.sums > 0 ? (float *)(void *)(scratch + w.packed) : NULL;
    b->ld_sums = w.columns;
    b->overwrite = overwrite;
    for (b->n = 0; b->n < a->n; b->n += w.columns) {
        b->columns = pairs_least(a->n - b->n, w.columns);
        job.by_columns = pairs_columns_are_evener(&job, mega_team_size(all));
        for (b->k = 0; b->k < a->k; b->k += w.depth) {
            run_slice(all, &job, packs);
            if (keeps) b->packed += pairs_round_to(b->columns, PAIRS_COLUMNS) * b->padded;
        }
    }
}
