/* Matrix product through oneDNN, for comparison (MEGA_GEMM=onednn). c is cut into units by a rule that knows its shape
 * alone, each unit is one one-thread primitive, and the units are shared among the team: one team owns the whole step,
 * and the bits do not depend on its size (oneDNN sums in an order that depends on the shape it is given). Scratch is
 * ours (user-mode scratchpads); each execute makes a few small allocations of its own. */
#include "cpu/gemm/gemm_impl.h"
#include "megalith/memory.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* c cut into rows x columns units of m x n; the last of each may be smaller. */
typedef struct gemm_units {
    int64_t m, n, rows, columns;
} gemm_units;

/* What one thread points at a unit: memory objects, for each shape of unit, and the list that execute takes. */
enum { MAX_ARGS = 5, NUM_SHAPES = 4 };

typedef struct gemm_operands {
    dnnl_memory_t a, b, c, bias, scratch;
    dnnl_exec_arg_t args[MAX_ARGS];
    int num_args;
} gemm_operands;

typedef struct gemm_seat {
    dnnl_stream_t stream;
    gemm_operands shape[NUM_SHAPES];
} gemm_seat;

typedef struct onednn_plan {
    int threads;
    gemm_units units;
    dnnl_engine_t engine;
    size_t scratch_bytes;                   /* of one thread */
    dnnl_primitive_t primitive[NUM_SHAPES]; /* of the units in the middle, in the last row, last column, last corner */
    gemm_seat seat[];
} onednn_plan;

/* oneDNN takes its bound once, before its first use; without MEGA_ISA it may use what it finds. */
static void bound_isa(void)
{
    if (getenv("MEGA_ISA") == NULL) return;
    static const dnnl_cpu_isa_t bounds[] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core,
                                            dnnl_cpu_isa_avx512_core_bf16, dnnl_cpu_isa_avx512_core_amx};
    dnnl_set_max_cpu_isa(bounds[mega_cpu_isa()]);
}

/* The calling thread's OpenMP asks for one thread from here on, as the team's threads already do. */
static void one_openmp_thread(void)
{
    void (*set_num_threads)(int);
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (symbol == NULL) return;
    memcpy(&set_num_threads, &symbol, sizeof symbol);
    set_num_threads(1);
}

static void begin_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, bound_isa);
    one_openmp_thread();
}

static dnnl_data_type_t data_type(mega_dtype t)
{
    return t == MEGA_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* Units are at most MAX_M x MAX_N, and smaller where that gives too few to share: halved until there are ENOUGH or they
 * reach MIN_M x MIN_N, below which packing shows (an element packed costs about as much as 16 multiply-adds). */
enum { MAX_M = 256, MAX_N = 256, MIN_M = 64, MIN_N = 128, ENOUGH = 16 };

/* Pieces of n, as even as multiples of grain allow. */
static int64_t piece(int64_t n, int64_t pieces, int64_t grain)
{
    const int64_t even = (n + pieces - 1) / pieces;
    return (even + grain - 1) / grain * grain;
}

static gemm_units cut(int64_t m, int64_t n, int64_t max_m, int64_t max_n)
{
    int64_t rows = (m + max_m - 1) / max_m, columns = (n + max_n - 1) / max_n;
    for (;;) {
        const int64_t height = piece(m, rows, 8), width = piece(n, columns, 16);
        const bool can_m = height / 2 >= MIN_M, can_n = width / 2 >= MIN_N;
        if (rows * columns >= ENOUGH || (!can_m && !can_n))
            return (gemm_units){height, width, (m + height - 1) / height, (n + width - 1) / width};
        if (can_m && (height >= width || !can_n)) rows *= 2;
        else
            columns *= 2;
    }
}

/* Size of the units of one shape, or false where there are none of it. */
static bool shape_size(const mega_gemm_args *a, const gemm_units *u, int shape, int64_t *m, int64_t *n)
{
    const int64_t last_m = a->m - (u->rows - 1) * u->m, last_n = a->n - (u->columns - 1) * u->n;
    *m = shape & 1 ? last_m : u->m;
    *n = shape & 2 ? last_n : u->n;
    return (shape & 1 ? last_m < u->m : u->rows > 1 || last_m == u->m) &&
           (shape & 2 ? last_n < u->n : u->columns > 1 || last_n == u->n);
}

/* The primitive for units of one size; strides carry the transpositions. */
static dnnl_status_t describe(dnnl_primitive_desc_t *out, const mega_gemm_args *a, dnnl_dim_t m, dnnl_dim_t n,
                              dnnl_engine_t engine)
{
    const dnnl_dim_t k = a->k;
    const dnnl_dims_t a_dims = {m, k}, b_dims = {k, n}, c_dims = {m, n}, bias_dims = {1, n}, bias_strides = {n, 1};
    const dnnl_dims_t a_strides = {a->trans_a ? 1 : a->lda, a->trans_a ? a->lda : 1};
    const dnnl_dims_t b_strides = {a->trans_b ? 1 : a->ldb, a->trans_b ? a->ldb : 1}, c_strides = {a->ldc, 1};
    const dnnl_data_type_t type = data_type(a->head.dtype);
    dnnl_memory_desc_t ad, bd, cd, bias;
    dnnl_matmul_desc_t d;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_status_t st = dnnl_memory_desc_init_by_strides(&ad, 2, a_dims, type, a_strides);
    if (st == dnnl_success) st = dnnl_memory_desc_init_by_strides(&bd, 2, b_dims, type, b_strides);
    if (st == dnnl_success) st = dnnl_memory_desc_init_by_strides(&cd, 2, c_dims, data_type(a->c_dtype), c_strides);
    if (st == dnnl_success) st = dnnl_memory_desc_init_by_strides(&bias, 2, bias_dims, type, bias_strides);
    if (st == dnnl_success) st = dnnl_matmul_desc_init(&d, &ad, &bd, a->bias != NULL ? &bias : NULL, &cd);
    if (st == dnnl_success) st = dnnl_primitive_attr_create(&attr);
    if (st == dnnl_success) st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success && a->accumulate) {
        st = dnnl_post_ops_create(&post);
        if (st == dnnl_success) st = dnnl_post_ops_append_sum(post, 1.0f);
        if (st == dnnl_success) st = dnnl_primitive_attr_set_post_ops(attr, post);
    }
    if (st == dnnl_success) st = dnnl_primitive_desc_create(out, &d, attr, engine, NULL);
    dnnl_post_ops_destroy(post);
    dnnl_primitive_attr_destroy(attr);
    return st;
}

static size_t scratchpad_bytes(dnnl_primitive_desc_t pd)
{
    return round_up_64(dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)));
}

/* Whether oneDNN has primitives for every unit, and the scratch that one thread needs for them. */
static dnnl_status_t look(const mega_gemm_args *a, const gemm_units *units, size_t *out_bytes)
{
    dnnl_engine_t engine = NULL;
    dnnl_status_t st = dnnl_engine_create(&engine, dnnl_cpu, 0);
    *out_bytes = 0;
    for (int shape = 0; shape < NUM_SHAPES && st == dnnl_success; shape++) {
        int64_t m, n;
        dnnl_primitive_desc_t pd;
        if (!shape_size(a, units, shape, &m, &n)) continue;
        st = describe(&pd, a, m, n, engine);
        if (st != dnnl_success) break;
        const size_t bytes = scratchpad_bytes(pd);
        if (bytes > *out_bytes) *out_bytes = bytes;
        dnnl_primitive_desc_destroy(pd);
    }
    dnnl_engine_destroy(engine);
    return st;
}

bool mega_onednn_scratch(const mega_gemm_args *a, size_t *bytes)
{
    begin_library();
    const gemm_units units = cut(a->m, a->n, MAX_M, MAX_N);
    return look(a, &units, bytes) == dnnl_success;
}

static dnnl_status_t add_memory(gemm_operands *o, dnnl_memory_t *memory, int arg, dnnl_primitive_desc_t pd,
                                dnnl_query_t what, int index, dnnl_engine_t engine)
{
    const dnnl_memory_desc_t *desc = dnnl_primitive_desc_query_md(pd, what, index);
    if (dnnl_memory_desc_get_size(desc) == 0) return dnnl_success;
    const dnnl_status_t st = dnnl_memory_create(memory, desc, engine, DNNL_MEMORY_NONE);
    if (st == dnnl_success) o->args[o->num_args++] = (dnnl_exec_arg_t){arg, *memory};
    return st;
}

static dnnl_status_t build_operands(gemm_operands *o, dnnl_primitive_desc_t pd, dnnl_engine_t engine)
{
    dnnl_status_t st = add_memory(o, &o->a, DNNL_ARG_SRC, pd, dnnl_query_src_md, 0, engine);
    if (st == dnnl_success) st = add_memory(o, &o->b, DNNL_ARG_WEIGHTS, pd, dnnl_query_weights_md, 0, engine);
    if (st == dnnl_success) st = add_memory(o, &o->bias, DNNL_ARG_BIAS, pd, dnnl_query_weights_md, 1, engine);
    if (st == dnnl_success) st = add_memory(o, &o->c, DNNL_ARG_DST, pd, dnnl_query_dst_md, 0, engine);
    if (st == dnnl_success)
        st = add_memory(o, &o->scratch, DNNL_ARG_SCRATCHPAD, pd, dnnl_query_scratchpad_md, 0, engine);
    return st;
}

static dnnl_status_t build(onednn_plan *plan, const mega_gemm_args *a)
{
    dnnl_status_t st = dnnl_engine_create(&plan->engine, dnnl_cpu, 0);
    for (int t = 0; t < plan->threads && st == dnnl_success; t++)
        st = dnnl_stream_create(&plan->seat[t].stream, plan->engine, dnnl_stream_default_flags);
    for (int shape = 0; shape < NUM_SHAPES && st == dnnl_success; shape++) {
        int64_t m, n;
        dnnl_primitive_desc_t pd;
        if (!shape_size(a, &plan->units, shape, &m, &n)) continue;
        st = describe(&pd, a, m, n, plan->engine);
        if (st != dnnl_success) break;
        st = dnnl_primitive_create(&plan->primitive[shape], pd);
        for (int t = 0; t < plan->threads && st == dnnl_success; t++)
            st = build_operands(&plan->seat[t].shape[shape], pd, plan->engine);
        dnnl_primitive_desc_destroy(pd);
    }
    return st;
}

void mega_onednn_release(void *handle)
{
    onednn_plan *plan = handle;
    if (plan == NULL) return;
    for (int t = 0; t < plan->threads; t++) {
        for (int shape = 0; shape < NUM_SHAPES; shape++) {
            gemm_operands *o = &plan->seat[t].shape[shape];
            for (int i = 0; i < o->num_args; i++) dnnl_memory_destroy(o->args[i].memory);
        }
        dnnl_stream_destroy(plan->seat[t].stream);
    }
    for (int shape = 0; shape < NUM_SHAPES; shape++) dnnl_primitive_destroy(plan->primitive[shape]);
    dnnl_engine_destroy(plan->engine);
    mega_free(plan);
}

mega_status mega_onednn_prepare(void **handle, const mega_gemm_args *a, int threads)
{
    begin_library();
    onednn_plan *plan = mega_calloc(1, sizeof *plan + (size_t)threads * sizeof plan->seat[0]);
    if (plan == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "matrix product: no memory for the plan of %d threads", threads);
    plan->threads = threads;
    plan->units = cut(a->m, a->n, MAX_M, MAX_N);
    dnnl_status_t st = look(a, &plan->units, &plan->scratch_bytes);
    if (st == dnnl_success) st = build(plan, a);
    if (st == dnnl_success) {
        *handle = plan;
        return MEGA_OK;
    }
    mega_onednn_release(plan);
    return MEGA_FAIL(
        MEGA_ERR_MEMORY, "matrix product %lld x %lld x %lld, %s: oneDNN refused it (%s); is there memory left?",
        (long long)a->m, (long long)a->n, (long long)a->k, mega_dtype_name(a->head.dtype), dnnl_status2str(st));
}

/* Points a memory object at element `elements` of p. oneDNN has one type of pointer for what it reads and writes. */
static void point(dnnl_memory_t memory, const void *p, mega_dtype t, int64_t elements)
{
    const char *at = (const char *)p + elements * (int64_t)mega_dtype_size(t);
    void *handle;
    memcpy(&handle, &at, sizeof handle);
    dnnl_memory_set_data_handle(memory, handle);
}

static void execute(const mega_gemm_args *a, onednn_plan *plan, int shape, int64_t m, int64_t n, int thread)
{
    gemm_seat *seat = &plan->seat[thread];
    const gemm_operands *o = &seat->shape[shape];
    point(o->a, a->a, a->head.dtype, a->trans_a ? m : m * a->lda);
    point(o->b, a->b, a->head.dtype, a->trans_b ? n * a->ldb : n);
    point(o->c, a->c, a->c_dtype, m * a->ldc + n);
    if (o->bias != NULL) point(o->bias, a->bias, a->head.dtype, n);
    if (o->scratch != NULL) point(o->scratch, a->head.scratch, MEGA_U8, (int64_t)plan->scratch_bytes * thread);
    const dnnl_status_t st = dnnl_primitive_execute(plan->primitive[shape], seat->stream, o->num_args, o->args);
    MEGA_ASSERT(st == dnnl_success, "matrix product %lld x %lld x %lld: oneDNN says %s", (long long)a->m,
                (long long)a->n, (long long)a->k, dnnl_status2str(st));
    (void)st;
}

static void work(void *user, int thread, int64_t begin, int64_t end)
{
    const cpu_job *job = user;
    const mega_gemm_args *a = job->args;
    onednn_plan *plan = a->head.handle;
    const gemm_units *u = &plan->units;
    for (int64_t unit = begin; unit < end; unit++) { /* down the rows of one column of units first: b stays in cache */
        const int64_t m = unit % u->rows * u->m, n = unit / u->rows * u->n;
        const int64_t rows = a->m - m < u->m ? a->m - m : u->m, columns = a->n - n < u->n ? a->n - n : u->n;
        execute(a, plan, (rows < u->m) + 2 * (columns < u->n), m, n, thread);
    }
}

void mega_onednn_run(mega_team *team, const mega_gemm_args *a)
{
    const onednn_plan *plan = a->head.handle;
    MEGA_ASSERT(mega_team_size(team) <= plan->threads, "prepared for %d threads, run with %d", plan->threads,
                mega_team_size(team));
    cpu_job_run(team, work, a, plan->units.rows * plan->units.columns, 1, a->m * a->n * a->k / 8);
}

const char *mega_onednn_description(char *out, int size)
{
    begin_library();
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, (size_t)size, "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch,
             dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa()));
    return out;
}
