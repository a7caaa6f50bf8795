/* Weighted sums of the rows of each token's experts, and their gradient. The threads share the tokens, and what belongs
 * to a token's choices with them; sums over slots are taken in float in their order, dot products in CPU_BLOCK lanes,
 * which are then added in double. Bound by memory. */
#include "cpu/share.h"
#include <string.h>

static int64_t expert_block(int64_t from, int64_t end)
{
    return end - from < CPU_BLOCK ? end - from : CPU_BLOCK;
}

static void expert_combine_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_expert_combine_args *a = ((const cpu_job *)user)->args;
    const mega_dtype t = a->head.dtype;
    const float *weights = a->weight;
    float sum[CPU_BLOCK], y[CPU_BLOCK];
    (void)thread;
    for (int64_t r = begin; r < end; r++)
        for (int64_t at = 0; at < a->cols; at += CPU_BLOCK) {
            const int64_t n = expert_block(at, a->cols);
            memset(sum, 0, sizeof sum);
            for (int64_t choice = r * a->slots; choice < (r + 1) * a->slots; choice++) {
                const float weight = weights != NULL ? weights[choice] : 1.0f;
                if (a->place[choice] < 0) continue;
                block_get(y, a->y, t, a->place[choice] * a->cols + at, n);
                for (int64_t i = 0; i < n; i++) sum[i] += weight * y[i];
            }
            block_put(a->out, t, r * a->cols + at, n, sum);
        }
}

static void cpu_expert_combine_run(const mega_queue *queue, const void *args)
{
    const mega_expert_combine_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_expert_combine.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), expert_combine_work, args, a->rows, 1, a->rows * a->slots * a->cols);
}

/* ---- gradient ---- */

/* Writes the row of dy of a choice and returns the gradient of its weight. */
static float choice_grad(const mega_expert_combine_grad_args *a, int64_t choice, int64_t place)
{
    const mega_dtype t = a->head.dtype;
    const int64_t token = choice / a->slots;
    const float weight = ((const float *)a->weight)[choice];
    float dout[CPU_BLOCK], y[CPU_BLOCK], lane[CPU_BLOCK] = {0};
    for (int64_t at = 0; at < a->cols; at += CPU_BLOCK) {
        const int64_t n = expert_block(at, a->cols);
        block_get(dout, a->dout, t, token * a->cols + at, n);
        block_get(y, a->y, t, place * a->cols + at, n);
        for (int64_t i = 0; i < n; i++) {
            lane[i] += dout[i] * y[i];
            dout[i] *= weight;
        }
        block_put(a->dy, t, place * a->cols + at, n, dout);
    }
    double sum = 0.0;
    for (int i = 0; i < CPU_BLOCK; i++) sum += lane[i];
    return (float)sum;
}

static void expert_combine_grad_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_expert_combine_grad_args *a = ((const cpu_job *)user)->args;
    float *dweight = a->dweight;
    (void)thread;
    for (int64_t i = begin; i < end; i++) { /* choice i, and row i if no choice has it */
        const int64_t place = i < a->choices ? a->place[i] : -1;
        if (i < a->choices) dweight[i] = place < 0 ? 0.0f : choice_grad(a, i, place);
        if (i < a->rows && a->source[i] < 0)
            memset(element_at(a->dy, a->head.dtype, i * a->cols), 0, (size_t)a->cols * mega_dtype_size(a->head.dtype));
    }
}

static void cpu_expert_combine_grad_run(const mega_queue *queue, const void *args)
{
    const mega_expert_combine_grad_args *a = args;
    if (a->head.dtype == MEGA_F64) mega_plain_expert_combine_grad.run(queue, args);
    else
        cpu_job_run(mega_queue_team(queue), expert_combine_grad_work, args, a->choices > a->rows ? a->choices : a->rows,
                    a->slots, a->choices * a->cols);
}

const mega_kernel mega_cpu_expert_combine = {.name = "expert_combine", .run = cpu_expert_combine_run};
const mega_kernel mega_cpu_expert_combine_grad = {.name = "expert_combine_grad", .run = cpu_expert_combine_grad_run};
