/* Weighted sums of the rows of each token's experts, and their gradient: plain kernels (ops_experts.h). */
#include "backend_impl.h"

static void plain_expert_combine_run(const mega_queue *queue, const void *args)
{
    const mega_expert_combine_args *a = args;
    const mega_dtype t = a->head.dtype;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++) {
            double sum = 0.0;
            for (int64_t choice = r * a->slots; choice < (r + 1) * a->slots; choice++) {
                const int64_t place = a->place[choice];
                const double weight = a->weight != NULL ? get(a->weight, acc_of(t), choice) : 1.0;
                if (place >= 0) sum += weight * get(a->y, t, place * a->cols + c);
            }
            put(a->out, t, r * a->cols + c, sum);
        }
}

static void plain_expert_combine_grad_run(const mega_queue *queue, const void *args)
{
    const mega_expert_combine_grad_args *a = args;
    const mega_dtype t = a->head.dtype, acc = acc_of(t);
    const int64_t cols = a->cols;
    for (int64_t choice = 0; choice < a->choices; choice++) {
        const int64_t place = a->place[choice], token = choice / a->slots;
        double dot = 0.0;
        for (int64_t c = 0; c < cols && place >= 0; c++)
            dot += get(a->dout, t, token * cols + c) * get(a->y, t, place * cols + c);
        put(a->dweight, acc, choice, dot);
    }
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t choice = a->source[r];
        for (int64_t c = 0; c < cols; c++)
            put(a->dy, t, r * cols + c,
                choice < 0 ? 0.0 : get(a->weight, acc, choice) * get(a->dout, t, choice / a->slots * cols + c));
    }
}

const mega_kernel mega_plain_expert_combine = {.name = "expert_combine", .run = plain_expert_combine_run};
const mega_kernel mega_plain_expert_combine_grad = {.name = "expert_combine_grad",
                                                    .run = plain_expert_combine_grad_run};
