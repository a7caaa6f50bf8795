/* Measures kernels: GEMM and attention relative to the arithmetic peak, the others relative to a memory copy. Run by
 * `make bench only=kernels`; an argument "bf16" measures only that type, and a second argument "rows" only kernels that
 * are not GEMMs, "experts" only the linear layers of experts. */
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include "megalith/peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    mega_team *team;
    mega_dtype type;
    double peak, copy; /* in FLOP/s and bytes/s */
    char *memory;      /* tensors are allocated from it */
    size_t used;
    uint64_t random;
} bench;

#define MEMORY_BYTES ((size_t)768 << 20)
#define LEAST_TRIES  3
#define MOST_SECONDS 0.3 /* per figure */

static const mega_step_block step_block = {.seed = 1, .loss_factor = 1.0};

/* Returns n random numbers in [-0.5, 0.5). A regular pattern would need less power and so run faster. */
static void *tensor(bench *b, mega_dtype t, int64_t n)
{
    void *x = b->memory + b->used;
    b->used += ((size_t)n * mega_dtype_size(t) + 4095) / 4096 * 4096;
    if (b->used > MEMORY_BYTES) {
        fprintf(stderr, "bench_kernels: %zu bytes of tensors, %zu are there\n", b->used, MEMORY_BYTES);
        exit(1);
    }
    for (int64_t i = 0; i < n; i++) {
        b->random = b->random * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        const float v = (float)(b->random >> 40) * 0x1p-24f - 0.5f;
        if (t == MEGA_BF16) ((uint16_t *)x)[i] = mega_f32_to_bf16(v);
        else
            ((float *)x)[i] = v;
    }
    return x;
}

/* Returns the seconds of one run: the smallest of several. */
static double measure(bench *b, const mega_kernel *kernel, void *args, mega_kernel_head *head)
{
    const int threads = mega_team_size(b->team);
    head->dtype = b->type;
    head->step = &step_block;
    head->scratch =
        kernel->scratch != NULL ? tensor(b, MEGA_F32, (int64_t)kernel->scratch(args, threads) / 4 + 16) : NULL;
    if (kernel->prepare != NULL && kernel->prepare(args, threads) != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        exit(1);
    }
    double least = INFINITY;
    const double start = mega_time_now();
    for (int i = 0; i < LEAST_TRIES || mega_time_now() - start < MOST_SECONDS; i++) {
        const double begin = mega_time_now();
        kernel->run(&(mega_queue){.team = b->team}, args);
        const double seconds = mega_time_now() - begin;
        least = seconds < least ? seconds : least;
    }
    if (kernel->release != NULL) kernel->release(args);
    b->used = 0;
    return least;
}

static void print_flops(const bench *b, const char *name, double seconds, double flop)
{
    printf("%-44s %9.1f us %8.1f GFLOP/s %5.1f %% of peak\n", name, seconds * 1e6, flop / seconds * 1e-9,
           flop / seconds / b->peak * 100);
}

static void print_bytes(const bench *b, const char *name, double seconds, double bytes)
{
    printf("%-44s %9.1f us %8.1f GB/s    %5.1f %% of a copy\n", name, seconds * 1e6, bytes / seconds * 1e-9,
           bytes / seconds / b->copy * 100);
}

/* c is float if it accumulates, or if it is `wide` like logits. */
static void bench_gemm(bench *b, const char *what, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,
                       bool accumulate, bool wide)
{
    char name[96];
    mega_gemm_args a = {.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate};
    a.lda = trans_a ? m : k, a.ldb = trans_b ? k : n, a.ldc = n;
    a.a = tensor(b, b->type, m * k), a.b = tensor(b, b->type, k * n);
    a.c_dtype = accumulate || wide ? MEGA_F32 : b->type;
    a.c = tensor(b, a.c_dtype, m * n);
    snprintf(name, sizeof name, "gemm %s %lld x %lld x %lld", what, (long long)m, (long long)n, (long long)k);
    print_flops(b, name, measure(b, &mega_cpu_gemm, &a, &a.head), 2.0 * (double)m * (double)n * (double)k);
}

/* The three GEMMs (forward and two gradients) of a linear layer with T rows, K inputs and N outputs. */
static void bench_linear(bench *b, int64_t T, int64_t N, int64_t K, bool wide)
{
    bench_gemm(b, "forward ", T, N, K, false, true, false, wide);
    bench_gemm(b, "to input", T, K, N, false, false, false, false);
    bench_gemm(b, "to weight", N, K, T, true, false, true, false);
}

/* The linear layers of GPT-2 124M with T rows, and its head, which is computed in chunks of at most 1,024 rows. */
static void bench_gpt2(bench *b, int64_t T)
{
    bench_linear(b, T, 2304, 768, false);
    bench_linear(b, T, 768, 768, false);
    bench_linear(b, T, 3072, 768, false);
    bench_linear(b, T, 768, 3072, false);
    bench_linear(b, T < 1024 ? T : 1024, 50304, 768, true);
}

static double linear_seconds(bench *b, int64_t T, int64_t N, int64_t K)
{
    const mega_gemm_args forward = {.m = T, .n = N, .k = K, .lda = K, .ldb = K, .ldc = N, .trans_b = true};
    const mega_gemm_args to_input = {.m = T, .n = K, .k = N, .lda = N, .ldb = K, .ldc = K};
    mega_gemm_args to_weight = {.m = N, .n = K, .k = T, .lda = N, .ldb = K, .ldc = K, .trans_a = true};
    double seconds = 0.0;
    for (int i = 0; i < 3; i++) {
        mega_gemm_args a = i == 0 ? forward : i == 1 ? to_input : to_weight;
        a.a = tensor(b, b->type, a.m * a.k), a.b = tensor(b, b->type, a.n * a.k);
        a.c_dtype = i == 2 ? MEGA_F32 : b->type;
        a.c = tensor(b, a.c_dtype, a.m * a.n);
        seconds += measure(b, &mega_cpu_gemm, &a, &a.head);
    }
    return seconds;
}

/* The linear layers of E experts with `rows` rows each, K inputs and N outputs, forward and both gradients, which the
 * first micro-batch of a step overwrites; beside a dense layer of as many FLOPs, with T rows and E * rows / T times as
 * many outputs. */
static void bench_experts(bench *b, int64_t experts, int64_t rows, int64_t N, int64_t K, int64_t T)
{
    char name[96];
    const int64_t R = experts * rows;
    double seconds[3];
    for (int i = 0; i < 3; i++) {
        int32_t *first = tensor(b, MEGA_F32, experts + 1);
        mega_expert_linear_args a = {.rows = R, .in = i == 0 ? K : N, .out = i == 0 ? N : K, .experts = experts};
        mega_expert_linear_grad_w_args g = {.rows = R, .in = K, .out = N, .experts = experts};
        for (int64_t e = 0; e <= experts; e++) first[e] = (int32_t)(e * rows);
        a.first = g.first = first, a.turned = i == 1;
        a.x = g.x = tensor(b, b->type, R * a.in), a.y = tensor(b, b->type, R * a.out);
        a.weight = tensor(b, b->type, experts * N * K);
        if (i == 2) g.x = tensor(b, b->type, R * K), g.dy = tensor(b, b->type, R * N);
        if (i == 2) g.dweight = tensor(b, MEGA_F32, experts * N * K);
        seconds[i] = i < 2 ? measure(b, &mega_cpu_expert_linear, &a, &a.head)
                           : measure(b, &mega_cpu_expert_linear_grad_w, &g, &g.head);
        snprintf(name, sizeof name, "experts %s %lld x %lld x %lld x %lld",
                 i == 0   ? "forward "
                 : i == 1 ? "to input"
                          : "to weight",
                 (long long)experts, (long long)rows, (long long)N, (long long)K);
        print_flops(b, name, seconds[i], 2.0 * (double)R * (double)N * (double)K);
    }
    const double dense = linear_seconds(b, T, N * R / T, K);
    printf("%-44s %9.2f of the speed of a dense layer of as many FLOPs\n", "experts, all three",
           dense / (seconds[0] + seconds[1] + seconds[2]));
}

static void bench_attention(bench *b, int64_t batch, int64_t seq, int64_t heads, int64_t D, double dropout)
{
    char name[96];
    const int64_t T = batch * seq, C = heads * D;
    for (int backward = 0; backward < 2; backward++) {
        const size_t element = mega_dtype_size(b->type);
        char *qkv = tensor(b, b->type, T * 3 * C), *dqkv = tensor(b, b->type, T * 3 * C);
        uint32_t *sample = tensor(b, MEGA_F32, T);
        mega_attention_args a = {.batch = batch, .seq = seq, .heads = heads, .kv_heads = heads, .head_dim = D};
        memset(sample, 0, (size_t)T * sizeof *sample);
        a.keys = seq;
        a.q = qkv, a.k = qkv + (size_t)C * element, a.v = qkv + 2 * (size_t)C * element;
        a.out = tensor(b, b->type, T * C), a.lse = tensor(b, MEGA_F32, T * heads), a.sample_id = sample;
        a.ld_q = a.ld_kv = 3 * C, a.ld_out = C, a.scale = 1.0 / sqrt((double)D), a.dropout = dropout, a.causal = true;
        a.head.dtype = b->type, a.head.step = &step_block;
        mega_attention_grad_args g = {.dq = dqkv, .dk = dqkv + (size_t)C * element, .forward = a};
        g.dv = dqkv + 2 * (size_t)C * element, g.dout = tensor(b, b->type, T * C);
        g.ld_dq = g.ld_dkv = 3 * C, g.ld_dout = C;
        const double flop = (double)batch * (double)heads * (double)seq * (double)seq * (double)D * 2.0;
        snprintf(name, sizeof name, "attention %s %lld x %lld, %lld x %lld%s", backward ? "backward" : "forward ",
                 (long long)batch, (long long)seq, (long long)heads, (long long)D, dropout > 0 ? ", dropout" : "");
        if (backward) /* causal: half of the scores */
            print_flops(b, name, measure(b, &mega_cpu_attention_grad, &g, &g.head), flop * 2.5);
        else
            print_flops(b, name, measure(b, &mega_cpu_attention, &a, &a.head), flop);
    }
}

static void bench_rows(bench *b, int64_t T, int64_t C)
{
    const double n = (double)T * (double)C, size = (double)mega_dtype_size(b->type);
    mega_layer_norm_args l = {.rows = T, .cols = C, .eps = 1e-5};
    l.x = tensor(b, b->type, T * C), l.y = tensor(b, b->type, T * C), l.gain = tensor(b, b->type, C);
    l.bias = tensor(b, b->type, C), l.mean = tensor(b, MEGA_F32, T), l.rstd = tensor(b, MEGA_F32, T);
    print_bytes(b, "layer norm forward", measure(b, &mega_cpu_layer_norm, &l, &l.head), n * size * 2);

    mega_layer_norm_grad_args lg = {.rows = T, .cols = C};
    lg.x = tensor(b, b->type, T * C), lg.dx = tensor(b, b->type, T * C), lg.dy = tensor(b, b->type, T * C);
    lg.gain = tensor(b, b->type, C), lg.mean = tensor(b, MEGA_F32, T), lg.rstd = tensor(b, MEGA_F32, T);
    lg.dgain = tensor(b, MEGA_F32, C), lg.dbias = tensor(b, MEGA_F32, C);
    print_bytes(b, "layer norm backward", measure(b, &mega_cpu_layer_norm_grad, &lg, &lg.head), n * size * 3);

    mega_gelu_args e = {.rows = T, .cols = C, .tanh_form = true};
    e.x = tensor(b, b->type, T * C), e.y = tensor(b, b->type, T * C), e.bias = tensor(b, b->type, C);
    print_bytes(b, "bias + gelu forward", measure(b, &mega_cpu_gelu, &e, &e.head), n * size * 2);

    mega_gelu_grad_args eg = {.rows = T, .cols = C, .tanh_form = true};
    eg.x = tensor(b, b->type, T * C), eg.dx = tensor(b, b->type, T * C), eg.dy = tensor(b, b->type, T * C);
    eg.bias = tensor(b, b->type, C), eg.dbias = tensor(b, MEGA_F32, C);
    print_bytes(b, "bias + gelu backward", measure(b, &mega_cpu_gelu_grad, &eg, &eg.head), n * size * 3);

    mega_dropout_add_args d = {.rows = T, .cols = C, .dropout = 0.1};
    uint32_t *sample = tensor(b, MEGA_F32, T);
    int32_t *position = tensor(b, MEGA_F32, T);
    for (int64_t t = 0; t < T; t++) sample[t] = 1, position[t] = (int32_t)t;
    d.sample_id = sample, d.seq_position = position;
    d.x = tensor(b, b->type, T * C), d.y = tensor(b, b->type, T * C), d.residual = tensor(b, b->type, T * C);
    d.bias = tensor(b, b->type, C);
    print_bytes(b, "bias + dropout + add", measure(b, &mega_cpu_dropout_add, &d, &d.head), n * size * 3);
}

static void bench_head(bench *b, int64_t rows, int64_t V)
{
    const double n = (double)rows * (double)V;
    void *logits = tensor(b, MEGA_F32, rows * V), *max = tensor(b, MEGA_F32, rows),
         *sums = tensor(b, MEGA_F32, 2 * rows);
    int32_t *labels = tensor(b, MEGA_F32, rows);
    memset(labels, 0, (size_t)rows * sizeof *labels);
    const size_t used = b->used;
    mega_xent_sum_args s = {.sums = sums, .logits = logits, .row_max = max, .labels = labels, .rows = rows, .valid = V};
    s.ld = V;
    print_bytes(b, "cross-entropy sum", measure(b, &mega_cpu_xent_sum, &s, &s.head), n * 4);
    b->used = used;
    mega_xent_grad_args g = {.logits = logits, .row_max = max, .sums = sums, .labels = labels, .rows = rows, .cols = V};
    g.valid = g.ld = V, g.coefficient = 1, g.loss = tensor(b, MEGA_F32, rows), g.loss_mask = tensor(b, MEGA_F32, rows);
    g.dlogits = b->type == MEGA_F32 ? logits : tensor(b, b->type, rows * V);
    print_bytes(b, "cross-entropy gradient", measure(b, &mega_cpu_xent_grad, &g, &g.head),
                n * (4 + (double)mega_dtype_size(b->type)));
}

/* The three kernels in one, as a step on one rank runs them. */
static void bench_head_sweep(bench *b, int64_t rows, int64_t V)
{
    mega_xent_args a = {.rows = rows, .cols = V, .valid = V, .ld = V, .coefficient = 1};
    int32_t *labels = tensor(b, MEGA_F32, rows);
    memset(labels, 0, (size_t)rows * sizeof *labels);
    a.labels = labels, a.loss = tensor(b, MEGA_F32, rows), a.loss_mask = tensor(b, MEGA_F32, rows);
    a.logits = tensor(b, MEGA_F32, rows * V), a.dlogits = tensor(b, b->type, rows * V);
    print_bytes(b, "cross-entropy in one sweep", measure(b, &mega_cpu_xent, &a, &a.head),
                (double)rows * (double)V * (4 + (double)mega_dtype_size(b->type)));
}

static void bench_optimizer(bench *b, int64_t count)
{
    const double fifth[] = {1 - pow(0.9, 5), 1 - pow(0.999, 5), 1e-4, 0, 0.9, 0.999};
    mega_adamw_args a = {.count = count, .eps = 1e-8, .grad_factor = 1.0, .number = fifth};
    a.p = tensor(b, MEGA_F32, count), a.m = tensor(b, MEGA_F32, count), a.v = tensor(b, MEGA_F32, count);
    a.g = tensor(b, MEGA_F32, count);
    memset(a.v, 0, (size_t)count * sizeof(float));
    if (b->type == MEGA_BF16) a.weight = tensor(b, MEGA_BF16, count);
    print_bytes(b, "adamw", measure(b, &mega_cpu_adamw, &a, &a.head),
                (double)count * (28 + (b->type == MEGA_BF16 ? 2 : 0)));
    double out[3];
    mega_norm_args n = {.out = out, .x = tensor(b, MEGA_F32, count), .count = count};
    print_bytes(b, "norm", measure(b, &mega_cpu_norm, &n, &n.head), (double)count * 4);
}

typedef struct copy_job {
    char *memory;
    size_t bytes;
} copy_job;

static void copy_share(void *user, int thread, int size)
{
    const copy_job *job = user;
    int64_t begin, end;
    mega_team_share((int64_t)job->bytes, 4096, thread, size, &begin, &end);
    memcpy(job->memory + job->bytes + begin, job->memory + begin, (size_t)(end - begin));
}

/* Returns the bytes read and written per second by a large copy. */
static double copy_rate(bench *b)
{
    copy_job job = {b->memory, MEMORY_BYTES / 4};
    double least = INFINITY;
    memset(b->memory, 1, 2 * job.bytes);
    for (int i = 0; i < 5; i++) {
        const double begin = mega_time_now();
        mega_team_run(b->team, copy_share, &job);
        const double seconds = mega_time_now() - begin;
        least = seconds < least ? seconds : least;
    }
    return 2.0 * (double)job.bytes / least;
}

static void bench_products(bench *b)
{
    bench_gpt2(b, 256);                    /* a step of 4 x 64 tokens */
    bench_gpt2(b, 4096);                   /* a step of 4 x 1024 */
    bench_linear(b, 768, 384, 128, false); /* the small model of make demo */
    bench_linear(b, 768, 512, 128, false);
    bench_gemm(b, "decode  ", 1, 3072, 768, false, true, false, false);
    bench_gemm(b, "decode  ", 1, 50304, 768, false, true, false, false);
    bench_attention(b, 1, 1024, 12, 64, 0.0);
    bench_attention(b, 1, 1024, 12, 64, 0.1);
    bench_attention(b, 12, 64, 4, 32, 0.0);
}

static void bench_others(bench *b)
{
    bench_rows(b, 4096, 3072);
    bench_head(b, 256, 50304);
    bench_head_sweep(b, 256, 50304);
    bench_optimizer(b, 16 << 20);
}

int main(int argc, char **argv)
{
    bench b = {.type = argc > 1 && strcmp(argv[1], "bf16") == 0 ? MEGA_BF16 : MEGA_F32};
    const int threads = mega_default_threads();
    char description[128];
    void *memory;
    if (mega_team_create(threads, &b.team) != MEGA_OK ||
        mega_pages_alloc(&memory, MEMORY_BYTES, "tensors of the bench") != MEGA_OK) {
        fprintf(stderr, "%s\n", mega_error_message());
        return 1;
    }
    b.memory = memory;
    b.peak = mega_cpu_peak_flops(b.team, b.type);
    b.copy = copy_rate(&b);
    printf("%s, %d threads, %s, products by %s\n", mega_dtype_name(b.type), threads, mega_isa_name(mega_cpu_isa()),
           mega_gemm_description(description, sizeof description));
    printf("peak in registers %.1f GFLOP/s, memory copy %.1f GB/s read and written\n", b.peak * 1e-9, b.copy * 1e-9);
    const char *const only = argc > 2 ? argv[2] : "";
    const bool is_experts = strcmp(only, "experts") == 0;
    if (strcmp(only, "rows") != 0) bench_experts(&b, 64, 256, 512, 512, 2048);
    if (strcmp(only, "rows") != 0) bench_experts(&b, 64, 256, 512, 1024, 2048);
    if (only[0] == '\0') bench_products(&b);
    if (!is_experts) bench_others(&b);
    mega_pages_free(memory, MEMORY_BYTES);
    mega_team_destroy(b.team);
    return 0;
}
