/* Measures products and attention by shape, and an elementwise kernel, which is bound by memory. */
#include "measure.h"
#include "megalith/memory.h"

#include <stdio.h>

enum { BLOCKS = 8 };

/* A call of a kernel, with the memory that it was given. */
typedef struct call {
    const mega_kernel *kernel;
    void *args;
    struct {
        void *at;
        size_t bytes;
    } block[BLOCKS];
    int count;
    mega_status failed;
} call;

static void *call_take(const measured_device *d, call *c, size_t bytes, mega_dtype type)
{
    void *at = NULL;
    if (c->failed != MEGA_OK) return NULL;
    c->failed = measure_alloc(d, &at, bytes, type);
    if (c->failed != MEGA_OK) return NULL;
    c->block[c->count].at = at;
    c->block[c->count++].bytes = bytes;
    return at;
}

static mega_status call_run(const measured_device *d, void *user)
{
    const call *c = user;
    c->kernel->run(&d->queue, c->args);
    return MEGA_OK;
}

/* The step block of zeros, the scratch, and then the rate. */
static mega_status call_measure(const measured_device *d, call *c, mega_kernel_id id, mega_kernel_head *head,
                                mega_measured *m, double amount, double peak)
{
    const int threads = mega_team_size(d->o->team);
    c->kernel = mega_kernel_of(d->backend, id);
    c->args = head;
    const mega_step_block zero = {.seed = 0};
    void *const step = call_take(d, c, sizeof zero, MEGA_F32);
    if (step != NULL) mega_device_write(step, &zero, sizeof zero);
    head->step = step;
    const size_t bytes = c->kernel->scratch != NULL ? c->kernel->scratch(head, threads) : 0;
    if (bytes > 0) head->scratch = call_take(d, c, bytes, MEGA_F32);
    mega_status st = c->failed;
    if (st == MEGA_OK && c->kernel->prepare != NULL) st = c->kernel->prepare(head, threads);
    if (st == MEGA_OK) st = measure_rate(d, m, amount, peak, call_run, c);
    if (st == MEGA_OK && c->kernel->release != NULL) c->kernel->release(head);
    for (int i = 0; i < c->count; i++) mega_device_free(c->block[i].at, c->block[i].bytes);
    return st;
}

/* ---- products ---- */

typedef struct product {
    const char *name; /* of the layer whose product it is */
    int64_t m, n, k;
} product;

typedef enum product_kind { FORWARD, GRAD_X, GRAD_W } product_kind;

static mega_status measure_product(const measured_device *d, const product *p, mega_dtype type, product_kind kind)
{
    static const char *const kinds[] = {"", "_grad_x", "_grad_w"};
    /* y [m, n] = x [m, k] w [n, k]^T; dx = dy w; dw += dy^T x */
    const int64_t m = kind == GRAD_W ? p->n : p->m, n = kind == FORWARD ? p->n : p->k,
                  k = kind == FORWARD  ? p->k
                      : kind == GRAD_X ? p->n
                                       : p->m;
    call c = {.failed = MEGA_OK};
    const size_t size = mega_dtype_size(type);
    mega_gemm_args a = {.head = {.dtype = type},
                        .m = m,
                        .n = n,
                        .k = k,
                        .lda = kind == GRAD_W ? m : k,
                        .ldb = kind == FORWARD ? k : n,
                        .ldc = n,
                        .trans_a = kind == GRAD_W,
                        .trans_b = kind == FORWARD,
                        .accumulate = kind == GRAD_W,
                        .c_dtype = kind == GRAD_W ? MEGA_F32 : type};
    mega_measured r = {.unit = "TFLOP/s"};
    a.a = call_take(d, &c, (size_t)(m * k) * size, type);
    a.b = call_take(d, &c, (size_t)(k * n) * size, type);
    a.c = call_take(d, &c, (size_t)(m * n) * mega_dtype_size(a.c_dtype), a.c_dtype);
    snprintf(r.name, sizeof r.name, "gemm_%s%s_%s", p->name, kinds[kind], mega_dtype_name(type));
    snprintf(r.text, sizeof r.text, "[%lld, %lld] x [%lld, %lld]", (long long)m, (long long)k, (long long)k,
             (long long)n);
    return call_measure(d, &c, MEGA_KERNEL_gemm, &a.head, &r, 2.0 * (double)m * (double)n * (double)k,
                        measure_peak(d, type));
}

static mega_status measure_products(const measured_device *d, mega_dtype type)
{
    static const product quick = {"small", 64, 96, 32};
    static const product shapes[] = {{"124m_mlp", 16384, 3072, 768},
                                     {"124m_head", 8192, 50304, 768},
                                     {"1.5b_mlp", 8192, 6400, 1600},
                                     {"7b_mlp", 8192, 11008, 4096}};
    const bool is_cpu = d->backend != MEGA_BACKEND_CUDA;
    for (size_t i = 0; i < (d->o->is_quick ? 1 : sizeof shapes / sizeof *shapes); i++) {
        product p = d->o->is_quick ? quick : shapes[i];
        if (is_cpu && !d->o->is_quick) p.m /= 16; /* as many rows as a processor does in the same time */
        for (product_kind kind = FORWARD; kind <= GRAD_W; kind++) MEGA_TRY(measure_product(d, &p, type, kind));
        if (type == MEGA_F32 && !is_cpu) break; /* few train in fp32 on a GPU */
    }
    return MEGA_OK;
}

/* ---- attention ---- */

typedef struct attention {
    int64_t batch, seq, heads, dim;
} attention;

static mega_attention_args attention_args(const measured_device *d, call *c, const attention *s, mega_dtype type)
{
    const int64_t width = s->heads * s->dim, rows = s->batch * s->seq;
    const size_t bytes = (size_t)(rows * width) * mega_dtype_size(type);
    return (mega_attention_args){.head = {.dtype = type},
                                 .q = call_take(d, c, bytes, type),
                                 .k = call_take(d, c, bytes, type),
                                 .v = call_take(d, c, bytes, type),
                                 .out = call_take(d, c, bytes, type),
                                 .lse = call_take(d, c, (size_t)(rows * s->heads) * sizeof(float), MEGA_F32),
                                 .batch = s->batch,
                                 .seq = s->seq,
                                 .keys = s->seq,
                                 .heads = s->heads,
                                 .kv_heads = s->heads,
                                 .head_dim = s->dim,
                                 .ld_q = width,
                                 .ld_kv = width,
                                 .ld_out = width,
                                 .scale = 0.125,
                                 .causal = true};
}

/* Half of the products of scores are masked, and not counted. */
static mega_status measure_attention(const measured_device *d, const attention *s, mega_dtype type, bool is_gradient)
{
    const double forward = 2.0 * (double)(s->batch * s->heads * s->seq * s->seq * s->dim);
    call c = {.failed = MEGA_OK};
    mega_measured r = {.unit = "TFLOP/s"};
    mega_attention_args a = attention_args(d, &c, s, type);
    snprintf(r.name, sizeof r.name, "attention%s_%lld_%lld_%s", is_gradient ? "_grad" : "", (long long)s->dim,
             (long long)s->seq, mega_dtype_name(type));
    snprintf(r.text, sizeof r.text, "causal; %lld sequences of %lld, %lld heads of %lld", (long long)s->batch,
             (long long)s->seq, (long long)s->heads, (long long)s->dim);
    if (!is_gradient) return call_measure(d, &c, MEGA_KERNEL_attention, &a.head, &r, forward, measure_peak(d, type));
    const int64_t width = s->heads * s->dim;
    const size_t bytes = (size_t)(s->batch * s->seq * width) * mega_dtype_size(type);
    mega_attention_grad_args g = {
        .head = {.dtype = type}, .ld_dq = width, .ld_dkv = width, .ld_dout = width, .forward = a};
    void *const sums = call_take(d, &c, 3 * bytes, type); /* one block, of which there are few */
    g.dq = sums;
    g.dk = (char *)sums + (sums != NULL ? bytes : 0);
    g.dv = (char *)sums + (sums != NULL ? 2 * bytes : 0);
    g.dout = a.v;
    return call_measure(d, &c, MEGA_KERNEL_attention_grad, &g.head, &r, 2.5 * forward, measure_peak(d, type));
}

static mega_status measure_attentions(const measured_device *d, mega_dtype type)
{
    static const attention quick = {1, 64, 2, 32};
    static const attention shapes[] = {{16, 1024, 12, 64}, {4, 2048, 32, 128}, {1, 8192, 32, 128}};
    const bool is_cpu = d->backend != MEGA_BACKEND_CUDA;
    for (size_t i = 0; i < (d->o->is_quick ? 1 : sizeof shapes / sizeof *shapes); i++) {
        attention s = d->o->is_quick ? quick : shapes[i];
        if (is_cpu && s.batch > 1) s.batch = 1;
        if (is_cpu && s.seq > 2048) break;
        MEGA_TRY(measure_attention(d, &s, type, false));
        MEGA_TRY(measure_attention(d, &s, type, true));
        if (type == MEGA_F32 && !is_cpu) break;
    }
    return MEGA_OK;
}

/* ---- elementwise ---- */

static mega_status measure_add(const measured_device *d, mega_dtype type)
{
    const int64_t count = d->o->is_quick ? 1 << 16 : 1 << 26;
    const size_t bytes = (size_t)count * mega_dtype_size(type);
    call c = {.failed = MEGA_OK};
    mega_measured r = {.unit = "GB/s", .text = "y = a + b, read and written"};
    mega_add_args a = {.head = {.dtype = type},
                       .a = call_take(d, &c, bytes, type),
                       .b = call_take(d, &c, bytes, type),
                       .y = call_take(d, &c, bytes, type),
                       .count = count};
    snprintf(r.name, sizeof r.name, "add_%s", mega_dtype_name(type));
    return call_measure(d, &c, MEGA_KERNEL_add, &a.head, &r, 3.0 * (double)bytes, d->peak_bytes);
}

mega_status measure_kernels(const measured_device *d)
{
    static const mega_dtype type[] = {MEGA_F32, MEGA_BF16};
    for (int i = 0; i < 2; i++) {
        MEGA_TRY(measure_add(d, type[i]));
        MEGA_TRY(measure_products(d, type[i]));
        MEGA_TRY(measure_attentions(d, type[i]));
    }
    return MEGA_OK;
}
