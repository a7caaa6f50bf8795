/* What each instruction of the update program costs this rank: bytes read and written, and bytes sent to other
 * ranks. */
#include "megalith/optimizer_state.h"
#include "muon.h"
#include "update_impl.h"

static double acc_bytes(const mega_update *u)
{
    return (double)mega_dtype_size(mega_params_acc_dtype(u->params));
}

static double grad_bytes(const mega_update *u, int bucket)
{
    return (double)mega_dtype_size(mega_params_grad_dtype(u->params, bucket));
}

static double weight_bytes(const mega_update *u, int bucket)
{
    return (double)mega_dtype_size(mega_params_weight_dtype(u->params, bucket));
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
static double update_traffic(const mega_update *u, int bucket, int states)
{
    const bool is_rounded = mega_params_compute_dtype(u->params) != mega_params_acc_dtype(u->params);
    return (2 + 2 * states) * acc_bytes(u) + grad_bytes(u, bucket) + (is_rounded ? weight_bytes(u, bucket) : 0);
}

/* The update of a span: all of it, or what is left after UPDATE_PREPARE. */
static double span_traffic(const mega_update *u, const update_instruction *x)
{
    const bool is_matrix = u->optimizer->update[x->number].tensor >= 0;
    switch (optimizer_scope_of(u->optimizer)) {
    case SCOPE_NORM: return update_traffic(u, x->bucket, 1); /* reads two states, and writes none */
    case SCOPE_MATRIX:                                       /* the result is where the gradient was */
        return update_traffic(u, x->bucket, is_matrix ? 0 : 2);
    case SCOPE_ELEMENT: break;
    }
    return update_traffic(u, x->bucket,
                          mega_optimizer_num_moments(u->optimizer) - mega_optimizer_num_errors(u->optimizer));
}

/* Lamb reads gradient, parameter and two states, and writes the states; Muon reads gradient and momentum and writes
 * both. */
static double prepare_traffic(const mega_update *u, int bucket)
{
    if (optimizer_scope_of(u->optimizer) == SCOPE_NORM) return 5 * acc_bytes(u) + grad_bytes(u, bucket);
    return 4 * acc_bytes(u);
}

static mega_update_cost orthogonalize_cost(const mega_update *u, const update_instruction *x)
{
    const newton_schulz_cost c = update_whole_cost(u, x);
    return (mega_update_cost){.bytes = c.elements * acc_bytes(u),
                              .sent = x->axis != NULL ? sent_by_sum(c.summed * acc_bytes(u), x->axis->size) : 0,
                              .flops = c.flops};
}

/* With ZeRO each rank needs only the sum of its slices. A sum in another type than the gradients rounds and widens
 * them. */
static mega_update_cost reduce_cost(const mega_update *u, const update_instruction *x)
{
    const mega_dtype dtype = mega_params_sum_dtype(u->params, x->bucket);
    const mega_dtype held = mega_params_grad_dtype(u->params, x->bucket);
    const double count = (double)x->count, bytes = count * (double)mega_dtype_size(dtype), acc = count * acc_bytes(u);
    const mega_axis shards = mega_params_bucket_shards(u->params, x->bucket);
    const bool is_sharded = mega_axis_has_others(&shards);
    const double widened = is_sharded ? 1.0 / shards.size : 1.0;
    return (mega_update_cost){.bytes = dtype != held ? (acc + bytes) * (1 + widened) : 0,
                              .sent = is_sharded ? sent_by_scatter(bytes, x->axis->size)
                                                 : sent_by_sum(bytes, x->axis->size)};
}

mega_update_cost update_cost(const mega_update *u, const update_instruction *x)
{
    const double count = (double)x->count, acc = count * acc_bytes(u);
    const int ranks = x->axis != NULL ? x->axis->size : 1;
    switch (x->kind) {
    case UPDATE_SUM_TIED:
        return (mega_update_cost){
            .sent = sent_by_sum(count * grad_bytes(u, x->bucket), u->options.tie[x->number].stages.count)};
    case UPDATE_REDUCE: return reduce_cost(u, x);
    case UPDATE_SUM_PARTIAL:
        return x->is_packed ? (mega_update_cost){.bytes = 4 * acc, .sent = sent_by_sum(acc, ranks)}
                            : (mega_update_cost){.sent = sent_by_sum(count * grad_bytes(u, x->bucket), ranks)};
    case UPDATE_SUM_LOSSES:
    case UPDATE_SUM_NORM: return (mega_update_cost){.sent = sent_by_sum(count * sizeof(double), ranks)};
    case UPDATE_NORM: return (mega_update_cost){.bytes = count * grad_bytes(u, x->bucket)};
    case UPDATE_SPAN: return (mega_update_cost){.bytes = count * span_traffic(u, x)};
    case UPDATE_PREPARE: return (mega_update_cost){.bytes = count * prepare_traffic(u, x->bucket)};
    case UPDATE_SUM_TENSORS: return (mega_update_cost){.sent = sent_by_sum(count * sizeof(double), ranks)};
    case UPDATE_COLLECT:
    case UPDATE_SPREAD: return (mega_update_cost){.sent = update_pieces_sent(u, x) * acc_bytes(u)};
    case UPDATE_ORTHOGONALIZE: return orthogonalize_cost(u, x);
    case UPDATE_MOMENTUM: return (mega_update_cost){.bytes = 2 * acc + count * grad_bytes(u, x->bucket)};
    case UPDATE_COMPRESS: /* four passes over momenta and residuals */
        return (mega_update_cost){.bytes = 8 * acc, .sent = update_compressed_sent(u, x->bucket)};
    case UPDATE_BUFFER: return (mega_update_cost){.bytes = count * update_traffic(u, x->bucket, 0)};
    case UPDATE_PUBLISH: return (mega_update_cost){.sent = sent_by_scatter(count * weight_bytes(u, x->bucket), ranks)};
    case UPDATE_CHECK:
    case UPDATE_KINDS: break;
    }
    return (mega_update_cost){0};
}

void mega_update_cost_get(const mega_update *u, mega_update_cost *out)
{
    *out = (mega_update_cost){0};
    for (int i = 0; i < u->count; i++) {
        if (!update_has_turn(&u->list[i], false)) continue; /* the dearer of the two updates of 1-bit Adam */
        const mega_update_cost c = update_cost(u, &u->list[i]);
        out->bytes += c.bytes;
        out->sent += c.sent;
        out->flops += c.flops;
    }
}
