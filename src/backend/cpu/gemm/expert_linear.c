/* Linear layers of experts and their gradients, by the matrix product of each expert (gemm.c), so that an expert gets
 * the bits of a dense layer. Experts with a small part of the rows are claimed by the threads, each of which multiplies
 * alone, without waiting for another; then the whole team multiplies those with more rows one by one. */
#include "cpu/gemm/gemm_impl.h"
#include "cpu/share.h"
#include "expert_products.h"

/* Threads claim experts with at most the part 1/PARTS of what each has on average: the last ones that finish then wait
 * for at most that part. (bench_kernels, "experts …".) */
enum { PARTS = 4 };

/* Returns the most rows that an expert may have for one thread. */
static int64_t rows_of_one(int64_t rows, int threads)
{
    return threads == 1 ? rows : rows / ((int64_t)threads * PARTS);
}

typedef struct experts_job {
    const mega_expert_linear_args *linear; /* or NULL */
    const mega_expert_linear_grad_w_args *grad;
    const int32_t *first;
    int64_t most; /* rows of an expert that a thread multiplies alone */
    char *scratch;
    size_t scratch_of_thread;
} experts_job;

/* The product of expert e. An expert without rows leaves its gradients as they are, or zeros. */
static void multiply_expert(const experts_job *job, int64_t e, const mega_queue *queue, void *scratch)
{
    mega_gemm_args product = job->linear != NULL ? expert_product(job->linear, e) : expert_grad(job->grad, e);
    product.head.scratch = scratch;
    if (job->linear != NULL || product.k > 0) mega_cpu_gemm.run(queue, &product);
    else if (mega_gemm_overwrites(&product))
        memset(product.c, 0, (size_t)(product.m * product.n) * mega_dtype_size(product.c_dtype));
}

static bool is_of_one(const experts_job *job, int64_t e)
{
    return job->first[e + 1] - job->first[e] <= job->most;
}

static void experts_work(void *user, int thread, int64_t begin, int64_t end)
{
    const experts_job *job = user;
    for (int64_t e = begin; e < end; e++)
        if (is_of_one(job, e)) multiply_expert(job, e, NULL, job->scratch + job->scratch_of_thread * (size_t)thread);
}

static void run_experts(const mega_queue *queue, const experts_job *job, int64_t experts)
{
    mega_team_for(mega_queue_team(queue), experts, 1, experts_work, (void *)(uintptr_t)job);
    for (int64_t e = 0; e < experts; e++)
        if (!is_of_one(job, e)) multiply_expert(job, e, queue, job->scratch);
}

static size_t scratch_of_one(const mega_gemm_args *of_one)
{
    return round_up_64(mega_gemm_scratch_most(of_one, 1));
}

/* Scratch for the team, or for each thread alone, of a product whose rows or depth are at most these. */
static size_t experts_scratch(const mega_gemm_args *of_all, const mega_gemm_args *of_one, int threads)
{
    const size_t team = mega_gemm_scratch_most(of_all, threads);
    const size_t alone = scratch_of_one(of_one) * (size_t)threads;
    return team > alone ? team : alone;
}

static size_t expert_linear_scratch(const void *args, int threads)
{
    const mega_expert_linear_args *a = args;
    const mega_gemm_args of_all = expert_product_of(a, 0, 0, a->rows);
    const mega_gemm_args of_one = expert_product_of(a, 0, 0, rows_of_one(a->rows, threads));
    return experts_scratch(&of_all, &of_one, threads);
}

static void cpu_expert_linear_run(const mega_queue *queue, const void *args)
{
    const mega_expert_linear_args *a = args;
    const int64_t most = rows_of_one(a->rows, mega_team_size(mega_queue_team(queue)));
    const mega_gemm_args of_one = expert_product_of(a, 0, 0, most);
    const experts_job job = {.linear = a,
                             .first = a->first,
                             .most = most,
                             .scratch = a->head.scratch,
                             .scratch_of_thread = scratch_of_one(&of_one)};
    run_experts(queue, &job, a->experts);
    expert_clear_rest(a);
}

static size_t expert_linear_grad_w_scratch(const void *args, int threads)
{
    const mega_expert_linear_grad_w_args *a = args;
    const mega_gemm_args of_all = expert_grad_of(a, 0, 0, a->rows);
    const mega_gemm_args of_one = expert_grad_of(a, 0, 0, rows_of_one(a->rows, threads));
    return experts_scratch(&of_all, &of_one, threads);
}

static void cpu_expert_linear_grad_w_run(const mega_queue *queue, const void *args)
{
    const mega_expert_linear_grad_w_args *a = args;
    const int64_t most = rows_of_one(a->rows, mega_team_size(mega_queue_team(queue)));
    const mega_gemm_args of_one = expert_grad_of(a, 0, 0, most);
    const experts_job job = {.grad = a,
                             .first = a->first,
                             .most = most,
                             .scratch = a->head.scratch,
                             .scratch_of_thread = scratch_of_one(&of_one)};
    run_experts(queue, &job, a->experts);
}

const mega_kernel mega_cpu_expert_linear = {
    .name = "expert_linear", .run = cpu_expert_linear_run, .scratch = expert_linear_scratch};
const mega_kernel mega_cpu_expert_linear_grad_w = {
    .name = "expert_linear_grad_w", .run = cpu_expert_linear_grad_w_run, .scratch = expert_linear_grad_w_scratch};
