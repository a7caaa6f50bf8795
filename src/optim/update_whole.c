/* Instructions of the update program for optimizers that need whole tensors: Lamb's sums, Muon's matrices. */
#include "megalith/device_memory.h"
#include "muon.h"
#include "update_impl.h"

static size_t element_size(const mega_update *u)
{
    return mega_dtype_size(mega_params_acc_dtype(u->params));
}

static const whole_tensor *tensor_at(const mega_update *u, int number)
{
    return &u->optimizer->tensor[number];
}

bool update_exchanges_pieces(const mega_update *u, const tensor_group *group)
{
    if (group->first == group->end) return false;
    const mega_param *p = mega_params_get(u->params, tensor_at(u, group->first)->param);
    const mega_axis shards = mega_params_bucket_shards(u->params, p->bucket);
    return mega_axis_has_others(&shards);
}

/* The group of a tensor. */
static const tensor_group *group_at(const mega_update *u, int number)
{
    const tensor_group *groups = u->optimizer->tensors_of;
    return &groups[number >= groups[1].first];
}

static newton_schulz schulz_of(const mega_update *u, const whole_tensor *t)
{
    const mega_optimizer *o = u->optimizer;
    newton_schulz n = newton_schulz_of(t, u->layout, mega_params_acc_dtype(u->params));
    n.queue = o->options.queue;
    n.backend = o->options.backend;
    n.steps = o->options.muon_steps;
    n.coefficients = o->options.muon_coefficients;
    n.scratch = u->scratch;
    return n;
}

/* Collecting and spreading use the scratch of the matrix that this rank orthogonalizes in between. */
size_t update_whole_scratch(const mega_update *u, const update_instruction *x)
{
    if (x->kind != UPDATE_ORTHOGONALIZE) return 0;
    const newton_schulz n = schulz_of(u, tensor_at(u, x->number));
    return newton_schulz_scratch(&n);
}

newton_schulz_cost update_whole_cost(const mega_update *u, const update_instruction *x)
{
    const newton_schulz n = schulz_of(u, tensor_at(u, x->number));
    return newton_schulz_cost_of(&n);
}

static void *gradient_at(const mega_update *u, const whole_tensor *t, int64_t element)
{
    return mega_params_grad_at(u->params, mega_params_get(u->params, t->param)->bucket, element);
}

/* ---- elements ---- */

static mega_optimizer_call call_of(const mega_update *u)
{
    const mega_update_step *s = &u->step;
    return (mega_optimizer_call){
        .lr = s->lr, .weight_decay = s->weight_decay, .grad_factor = s->grad_factor, .update = s->update};
}

mega_status update_run_prepare(mega_update *u, const update_instruction *x)
{
    const mega_optimizer_call call = call_of(u);
    optimizer_span_prepare(u->optimizer, x->number, &call);
    return MEGA_OK;
}

mega_status update_run_sum_tensors(mega_update *u, const update_instruction *x)
{
    double *sums = (double *)u->optimizer->tensor_sum + 2 * x->number;
    return mega_comm_all_reduce(x->axis->comm, "norms of tensors", sums, x->count, MEGA_F64, MEGA_REDUCE_SUM);
}

/* ---- matrices ---- */

mega_status update_run_orthogonalize(mega_update *u, const update_instruction *x)
{
    const whole_tensor *t = tensor_at(u, x->number);
    const newton_schulz n = schulz_of(u, t);
    if (update_exchanges_pieces(u, group_at(u, x->number))) {
        void *result = NULL;
        MEGA_TRY(newton_schulz_run(&n, newton_schulz_matrix(&n), &result));
        /* the round's spread sends it from there */
        if (result != newton_schulz_matrix(&n))
            mega_device_copy(newton_schulz_matrix(&n), result, (size_t)(t->rows * t->cols) * element_size(u));
        return MEGA_OK;
    }
    void *gradient = gradient_at(u, t, whole_tensors_range(u->params, t).first);
    return newton_schulz_run(&n, gradient, &gradient);
}

/* Lists the messages of one matrix of a round: its pieces go to the rank that it was dealt to, or back. That rank has
 * the matrix in its scratch, the others have the pieces in place of their gradients. */
static void list_matrix(mega_update *u, const mega_axis *ranks, const whole_tensor *t, bool collects, int *messages)
{
    const int own = ranks->rank;
    const int64_t size = (int64_t)element_size(u), begin = whole_tensors_range(u->params, t).first;
    for (int r = 0; r < ranks->size; r++) {
        const mega_range piece = whole_tensors_piece(u->params, t, r);
        if (piece.count == 0 || (r != own && t->owner != own)) continue;
        const newton_schulz n = schulz_of(u, t);
        void *whole = t->owner == own ? (char *)newton_schulz_matrix(&n) + (piece.first - begin) * size : NULL;
        void *part = r == own ? gradient_at(u, t, piece.first) : NULL;
        if (r == t->owner) { /* this rank's own piece */
            mega_device_copy(collects ? whole : part, collects ? part : whole, (size_t)(piece.count * size));
            continue;
        }
        u->piece[(*messages)++] = (mega_message){.peer = r == own ? t->owner : r,
                                                 .is_received = (r == own) != collects,
                                                 .data = r == own ? part : whole,
                                                 .bytes = piece.count * size};
    }
}

static mega_status exchange_round(mega_update *u, const update_instruction *x, bool collects)
{
    const mega_optimizer *o = u->optimizer;
    int messages = 0;
    for (int i = 0; i < o->num_tensors; i++)
        if (o->tensor[i].is_matrix && o->tensor[i].round == x->number)
            list_matrix(u, x->axis, &o->tensor[i], collects, &messages);
    mega_status st = mega_comm_messages_start(x->axis->comm, "pieces of matrices", u->piece, messages, u->moving);
    for (int i = 0; i < messages; i++) { /* also after a failure, so that none is left */
        const mega_status now = mega_comm_wait(&u->moving[i]);
        if (st == MEGA_OK) st = now;
    }
    return st;
}

mega_status update_run_collect(mega_update *u, const update_instruction *x)
{
    return exchange_round(u, x, true);
}

mega_status update_run_spread(mega_update *u, const update_instruction *x)
{
    if (x->end_param == 0) return exchange_round(u, x, false); /* of a round, not of one matrix */
    const whole_tensor *t = tensor_at(u, x->number);
    void *gradient = gradient_at(u, t, whole_tensors_range(u->params, t).first);
    return mega_comm_broadcast(x->axis->comm, "orthogonalized matrices", gradient, x->count * (int64_t)element_size(u),
                               t->owner);
}

/* ---- costs ---- */

double update_pieces_sent(const mega_update *u, const update_instruction *x)
{
    const int own = x->axis->rank;
    double sent = 0;
    if (x->end_param > 0) /* one matrix, to all ranks */
        return tensor_at(u, x->number)->owner == own ? (double)x->count * (x->axis->size - 1) : 0;
    for (int i = 0; i < u->optimizer->num_tensors; i++) {
        const whole_tensor *t = tensor_at(u, i);
        if (!t->is_matrix || t->round != x->number) continue;
        const int64_t held = whole_tensors_piece(u->params, t, own).count;
        if (t->owner != own && x->kind == UPDATE_COLLECT) sent += (double)held;
        if (t->owner == own && x->kind == UPDATE_SPREAD) sent += (double)(t->rows * t->cols - held);
    }
    return sent;
}
