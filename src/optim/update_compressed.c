/* The instructions of 1-bit Adam: momenta that data-parallel ranks exchange compressed instead of gradients. Each
 * parameter is compressed by itself, so that the copies of one on the ranks of tp, and on the stages that share it, get
 * the same numbers. The padding rows of a vocabulary stay out: a checkpoint does not hold what they would lose. */
#include "megalith/device_memory.h"
#include "update_impl.h"

bool update_has_turn(const update_instruction *x, bool with_momenta)
{
    return x->when == UPDATE_ALWAYS || (x->when == UPDATE_WITH_MOMENTA) == with_momenta;
}

int update_list_compressed(const mega_update *u, int bucket)
{
    const mega_optimizer *o = u->optimizer;
    const mega_bucket *b = mega_params_bucket(u->params, bucket);
    const int worker = o->builtin->first_residual, server = worker + 1;
    int n = 0;
    for (int i = b->first_param; i < b->first_param + b->num_params; i++) {
        const mega_param *p = mega_params_get(u->params, i);
        if (mega_param_is_trained(p))
            u->compressed[n++] = (mega_compressed){.data = mega_optimizer_moment(o, 0, i),
                                                   .worker_error = mega_optimizer_moment(o, worker, i),
                                                   .server_error = mega_optimizer_moment(o, server, i),
                                                   .count = mega_optimizer_real_elements(o, i)};
    }
    return n;
}

size_t update_compressed_scratch(const mega_update *u, int bucket)
{
    return mega_compressed_scratch(u->compressed, update_list_compressed(u, bucket), u->layout->dp.size);
}

double update_compressed_sent(const mega_update *u, int bucket)
{
    return mega_compressed_sent(u->compressed, update_list_compressed(u, bucket), u->layout->dp.size);
}

/* The gradients of the ranks add up to that of the step, so that the mean of the ranks times their number is it. */
mega_status update_run_momentum(mega_update *u, const update_instruction *x)
{
    const mega_update_step *s = &u->step;
    const mega_optimizer_call call = {
        .lr = s->lr, .grad_factor = s->grad_factor * u->layout->dp.size, .update = s->update};
    optimizer_span_momentum(u->optimizer, x->number, &call);
    return MEGA_OK;
}

mega_status update_run_compressed(mega_update *u, const update_instruction *x)
{
    const int n = update_list_compressed(u, x->bucket);
    return mega_comm_compressed_mean(x->axis->comm, "compressed momenta", u->compressed, n,
                                     mega_params_acc_dtype(u->params), u->optimizer->options.queue.team, u->scratch);
}

void update_norm_of_ranks(const mega_update *u)
{
    double sum[2];
    mega_device_read(sum, u->optimizer->block, sizeof sum);
    sum[0] *= u->layout->dp.size; /* the mean over the ranks of (ranks x a gradient)^2 */
    sum[1] /= u->layout->dp.size;
    mega_device_write(u->optimizer->block, sum, sizeof sum);
}
