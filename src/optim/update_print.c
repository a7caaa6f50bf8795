/* Writes the update program as a table for people to read and to compare with diff. */
#include "update_impl.h"

#include <stdio.h>

const char *update_kind_name(update_kind kind)
{
    static const char *const name[UPDATE_KINDS] = {
        [UPDATE_SUM_TIED] = "tied_sum",
        [UPDATE_REDUCE] = "bucket_reduce",
        [UPDATE_SUM_PARTIAL] = "partial_sum",
        [UPDATE_SUM_LOSSES] = "loss_sum",
        [UPDATE_NORM] = "norm",
        [UPDATE_SUM_NORM] = "norm_sum",
        [UPDATE_CHECK] = "check",
        [UPDATE_PREPARE] = "states",
        [UPDATE_SUM_TENSORS] = "tensor_sum",
        [UPDATE_COLLECT] = "collect",
        [UPDATE_ORTHOGONALIZE] = "orthogonalize",
        [UPDATE_SPREAD] = "spread",
        [UPDATE_MOMENTUM] = "momentum",
        [UPDATE_COMPRESS] = "compressed",
        [UPDATE_SPAN] = "update",
        [UPDATE_BUFFER] = "statistics",
        [UPDATE_PUBLISH] = "bucket_gather",
    };
    return name[kind];
}

static const char *axis_name(const mega_update *u, const mega_axis *axis)
{
    const mega_layout *l = u->layout;
    return axis == NULL ? "-" : axis == &l->dp ? "dp" : axis == &l->tp ? "tp" : axis == &l->pp ? "pp" : "?";
}

/* Returns whether the instruction works on elements of parameter i. */
static bool is_of_param(const mega_update *u, const update_instruction *x, int i)
{
    const mega_param *p = mega_params_get(u->params, i);
    const mega_optimizer *o = u->optimizer;
    if (x->end_param > 0)
        return i >= x->first_param && i < x->end_param &&
               (!x->is_packed ||
                (update_partial_elements(u, i) > 0 && update_partial_elements(u, i) <= update_packed_elements(u)));
    const bool is_of_span =
        x->kind == UPDATE_NORM || x->kind == UPDATE_SPAN || x->kind == UPDATE_MOMENTUM || x->kind == UPDATE_PREPARE;
    if (!is_of_span) return p->bucket == x->bucket;
    const optimizer_span *r = x->kind == UPDATE_NORM ? &o->counted[x->number] : &o->update[x->number];
    return p->bucket == x->bucket && p->offset < r->end && p->offset + p->count > r->begin;
}

/* Writes the parameters that the instruction works on: the last declared, which comes first in a bucket, and how many
 * more there are. */
static void print_params(const mega_update *u, const update_instruction *x, mega_buffer *out)
{
    int first = -1, more = -1;
    for (int i = mega_params_count(u->params) - 1; i >= 0; i--) {
        if (!is_of_param(u, x, i)) continue;
        if (first < 0) first = i;
        more++;
    }
    if (first >= 0) mega_buffer_puts(out, mega_params_get(u->params, first)->name);
    if (more > 0) mega_buffer_printf(out, " and %d more", more);
}

static void print_span(const mega_update *u, const update_instruction *x, mega_buffer *out)
{
    const mega_update_group *g = &u->optimizer->group[u->optimizer->update[x->number].group];
    if (g->decay == 0) mega_buffer_puts(out, ", no weight decay");
    else if (g->has_own_decay != 0)
        mega_buffer_printf(out, ", weight decay %g", g->decay);
    if (g->lr_scale != 1) mega_buffer_printf(out, ", learning rate times %g", g->lr_scale);
}

static void print_round(const mega_update *u, const update_instruction *x, mega_buffer *out)
{
    if (x->end_param > 0) { /* one matrix, to all ranks */
        print_params(u, x, out);
        return;
    }
    int matrices = 0;
    for (int i = 0; i < u->optimizer->num_tensors; i++)
        matrices += u->optimizer->tensor[i].is_matrix && u->optimizer->tensor[i].round == x->number;
    mega_buffer_printf(out, "round %d: %s of %d matri%s", x->number, x->kind == UPDATE_COLLECT ? "pieces" : "results",
                       matrices, matrices == 1 ? "x" : "ces");
}

static void print_matrix(const mega_update *u, const update_instruction *x, mega_buffer *out)
{
    const whole_tensor *t = &u->optimizer->tensor[x->number];
    print_params(u, x, out);
    mega_buffer_printf(out, ", %lld x %lld, %.3f GFLOP", (long long)t->rows, (long long)t->cols,
                       update_whole_cost(u, x).flops * 1e-9);
}

static void print_details(const mega_update *u, const update_instruction *x, mega_buffer *out)
{
    switch (x->kind) {
    case UPDATE_SUM_LOSSES: mega_buffer_puts(out, "losses and their weights"); break;
    case UPDATE_SUM_NORM: mega_buffer_puts(out, "squares, zeros, values that are not finite"); break;
    case UPDATE_CHECK: mega_buffer_puts(out, "loss and norm are finite; clip factor"); break;
    case UPDATE_SUM_TENSORS: mega_buffer_puts(out, "squares of parameters and of their steps"); break;
    case UPDATE_COLLECT:
    case UPDATE_SPREAD: print_round(u, x, out); break;
    case UPDATE_ORTHOGONALIZE: print_matrix(u, x, out); break;
    default: print_params(u, x, out);
    }
    if (x->kind == UPDATE_SPAN) print_span(u, x, out);
    if (x->kind == UPDATE_REDUCE && mega_params_sum_dtype(u->params, x->bucket) != mega_params_acc_dtype(u->params))
        mega_buffer_printf(out, ", in %s", mega_dtype_name(mega_params_sum_dtype(u->params, x->bucket)));
    if (x->when == UPDATE_ALWAYS) return;
    mega_buffer_printf(out, x->when == UPDATE_WITH_GRADIENTS ? ", up to update %.0f" : ", after update %.0f",
                       ARGUMENT(u->optimizer, freeze_step));
}

static void update_print_instruction(const mega_update *u, int i, mega_buffer *out)
{
    const update_instruction *x = &u->list[i];
    const mega_update_cost c = update_cost(u, x);
    char bucket[16] = "-";
    if (x->bucket >= 0) snprintf(bucket, sizeof bucket, "%d", x->bucket);
    mega_buffer_printf(out, "%4d  %-13s %-4s  %6s  %11lld  %9.3f  %9.3f  ", i, update_kind_name(x->kind),
                       axis_name(u, x->axis), bucket, (long long)x->count, c.bytes * 1e-6, c.sent * 1e-6);
    print_details(u, x, out);
    mega_buffer_puts(out, "\n");
}

/* Writes the tensors of which Lamb takes norms, in the order of their parameters, with their shapes over all ranks. */
static void print_tensors(const mega_update *u, mega_buffer *out)
{
    const mega_optimizer *o = u->optimizer;
    int count = 0;
    for (int i = 0; i < o->num_tensors; i++) count += o->tensor[i].stored == i;
    mega_buffer_printf(out, "%d tensors of this rank, each with norms of its own:\n", count);
    for (int i = 0; i < o->num_tensors; i++) {
        const whole_tensor *t = &o->tensor[i];
        int64_t rows = 0;
        if (t->stored != i) continue;
        for (int k = i; k < o->num_tensors; k++) rows += o->tensor[k].stored == i ? o->tensor[k].whole[0] : 0;
        mega_buffer_printf(out, "      %s  %lld", whole_tensors_name(u->params, t), (long long)rows);
        if (t->whole[1] > 1) mega_buffer_printf(out, " x %lld", (long long)t->whole[1]);
        mega_buffer_puts(out, "\n");
    }
}

mega_status mega_update_print(const mega_update *u, mega_buffer *out)
{
    mega_update_cost c;
    if (u == NULL || out == NULL)
        return MEGA_MISTAKE("mega_update_print: %s is NULL; give it", u == NULL ? "the program" : "out");
    const mega_axis shards = mega_params_shards(u->params);
    mega_buffer_printf(out, "update · %s · %s", u->optimizer->row->name,
                       mega_dtype_name(mega_params_compute_dtype(u->params)));
    if (mega_axis_has_others(&shards)) mega_buffer_printf(out, " · sharded over %d ranks", shards.size);
    mega_buffer_printf(out, " · %d instructions\n", u->count);
    mega_buffer_printf(out, "%4s  %-13s %-4s  %6s  %11s  %9s  %9s  %s\n", "#", "op", "over", "bucket", "elements", "MB",
                       "sent MB", "of");
    for (int i = 0; i < u->count; i++) update_print_instruction(u, i, out);
    mega_update_cost_get(u, &c);
    mega_buffer_printf(out, "%.3f MB read and written, %.3f MB sent to other ranks", c.bytes * 1e-6, c.sent * 1e-6);
    if (c.flops > 0) mega_buffer_printf(out, ", %.3f GFLOP", c.flops * 1e-9);
    mega_buffer_puts(out, "\n");
    if (optimizer_scope_of(u->optimizer) == SCOPE_NORM) print_tensors(u, out);
    return mega_buffer_check(out, "the printed update program");
}
