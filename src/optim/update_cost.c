/* What each instruction of the update program costs this rank: bytes read and written, and bytes sent to other ranks. */
#include "update_impl.h"

static double acc_bytes(const mega_update *u)
{
    return (double)mega_dtype_size(mega_params_acc_dtype(u->params));
}

static double weight_bytes(const mega_update *u)
{
    return (double)mega_dtype_size(mega_params_compute_dtype(u->params));
}

/* A rank sends its share of the numbers, and the sum of its share. */
static double sent_by_sum(double bytes, int ranks)
{
    return 2 * bytes * (ranks - 1) / ranks;
}

static double sent_by_scatter(double bytes, int ranks)
{
    return bytes * (ranks - 1) / ranks;
}

/* Masters, states and gradients are read; masters, states and rounded weights are written. */
static double update_traffic(const mega_update *u, int states)
{
    const bool is_rounded = mega_params_compute_dtype(u->params) != mega_params_acc_dtype(u->params);
    return (3 + 2 * states) * acc_bytes(u) + (is_rounded ? weight_bytes(u) : 0);
}

mega_update_cost update_cost(const mega_update *u, const update_instruction *x)
{
    const double count = (double)x->count, acc = count * acc_bytes(u);
    const int ranks = x->axis != NULL ? x->axis->size : 1;
    const mega_axis shards = mega_params_shards(u->params); /* each rank needs only the sum of its slices */
    switch (x->kind) {
    case UPDATE_SUM_TIED: return (mega_update_cost){.sent = sent_by_sum(acc, u->options.tie[x->number].stages.count)};
    case UPDATE_REDUCE:
        return (mega_update_cost){.sent = mega_axis_has_others(&shards) ? sent_by_scatter(acc, ranks)
                                                                        : sent_by_sum(acc, ranks)};
    case UPDATE_SUM_PARTIAL: return (mega_update_cost){x->is_packed ? 4 * acc : 0, sent_by_sum(acc, ranks)};
    case UPDATE_SUM_LOSSES:
    case UPDATE_SUM_NORM: return (mega_update_cost){.sent = sent_by_sum(count * sizeof(double), ranks)};
    case UPDATE_NORM: return (mega_update_cost){.bytes = acc};
    case UPDATE_RUN:
        return (mega_update_cost){.bytes = count * update_traffic(u, mega_optimizer_num_moments(u->optimizer))};
    case UPDATE_BUFFER: return (mega_update_cost){.bytes = count * update_traffic(u, 0)};
    case UPDATE_PUBLISH: return (mega_update_cost){.sent = sent_by_scatter(count * weight_bytes(u), ranks)};
    case UPDATE_CHECK:
    case UPDATE_KINDS: break;
    }
    return (mega_update_cost){0};
}

void mega_update_cost_get(const mega_update *u, mega_update_cost *out)
{
    *out = (mega_update_cost){0};
    for (int i = 0; i < u->count; i++) {
        const mega_update_cost c = update_cost(u, &u->list[i]);
        out->bytes += c.bytes;
        out->sent += c.sent;
    }
}
