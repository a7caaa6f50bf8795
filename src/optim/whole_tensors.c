/* Lists the tensors of optimizers that need whole ones, and deals matrices to ranks. */
#include "whole_tensors.h"
#include "megalith/memory.h"

#include <string.h>

bool whole_tensors_is_matrix(const mega_param *p)
{
    return mega_param_is_trained(p) && p->num_dims == 2 && !p->is_table;
}

/* Whether part k of the parameter begins a tensor of its own. */
static bool begins_tensor(const mega_param *p, int k, bool splits)
{
    if (k == 0) return true;
    return p->cut_dim == 0 && (p->file_of[k] != p->file_of[k - 1] || (splits && whole_tensors_is_matrix(p)));
}

/* A matrix X is orthogonalized with a Gram matrix over its shorter dimension; over the dimension that is not cut if it
 * is cut over tp, since the Gram matrices of all ranks can then be added. */
static double whole_tensor_flops(const whole_tensor *t)
{
    const bool by_columns = t->is_cut ? t->cut_dim == 0 : t->rows > t->cols;
    const double n = (double)(by_columns ? t->cols : t->rows), k = (double)(by_columns ? t->rows : t->cols);
    return n * n * k + n * n * n + 2 * n * n * k; /* of one step: the first two are symmetric */
}

static whole_tensor tensor_of(const mega_param *p, int param, int first_part, int end_part, int64_t first_row)
{
    const int64_t cols = p->num_dims == 1 ? 1 : p->local_shape[1];
    const int64_t all_rows = p->cut_dim == 0 ? 0 : p->shape[0];
    whole_tensor t = {.param = param,
                      .file = p->num_parts > 0 ? p->file_of[first_part] : 0,
                      .first = first_row * cols,
                      .cols = cols,
                      .whole = {all_rows, p->num_dims == 1 ? 1 : p->shape[1]},
                      .is_matrix = whole_tensors_is_matrix(p),
                      .is_cut = p->axis == MEGA_AXIS_TP,
                      .cut_dim = p->cut_dim};
    for (int k = first_part; k < end_part && p->cut_dim == 0; k++) t.whole[0] += p->part[k].rows;
    t.rows = p->cut_dim == 0 ? t.whole[0] / (p->shape[0] / p->local_shape[0]) : p->local_shape[0];
    if (p->num_parts <= 1) t.whole[0] = p->true_shape[0]; /* padding depends on the layout */
    t.flops = t.is_matrix ? whole_tensor_flops(&t) : 0;
    return t;
}

const char *whole_tensors_name(const mega_params *params, const whole_tensor *t)
{
    const mega_param *p = mega_params_get(params, t->param);
    return p->stack_of > 0 ? p->name : mega_param_file_name(p, t->file); /* a stack holds several */
}

/* The first tensor of the list that is in the same tensor of the file, as Q and K with V where they are apart. */
static int first_of_stored(const mega_params *params, const whole_tensor *list, int own)
{
    if (mega_param_file_rows(mega_params_get(params, list[own].param), list[own].file) == 0) return own;
    const char *name = whole_tensors_name(params, &list[own]);
    for (int i = 0; i < own; i++)
        if (strcmp(whole_tensors_name(params, &list[i]), name) == 0) return i;
    return own;
}

/* Adds the tensors of the parameters that every rank of dp holds, or of the others, to `count` tensors. */
static int whole_tensors_add(const mega_params *params, bool splits, bool of_experts, whole_tensor *list, int count)
{
    for (int i = 0; i < mega_params_count(params); i++) {
        const mega_param *p = mega_params_get(params, i);
        if (!mega_param_is_trained(p) || p->count == 0 || (p->held_by > 0) != of_experts) continue;
        int64_t row = 0;
        for (int k = 0, end; k < p->num_parts; k = end) {
            for (end = k + 1; end < p->num_parts && !begins_tensor(p, end, splits); end++) {
            }
            const whole_tensor t = tensor_of(p, i, k, end, row);
            row += t.rows;
            if (list != NULL) {
                list[count] = t;
                list[count].stored = first_of_stored(params, list, count);
            }
            count++;
        }
    }
    return count;
}

int whole_tensors_list(const mega_params *params, bool splits, whole_tensor *list, int *out_first_expert)
{
    const int first = whole_tensors_add(params, splits, false, list, 0);
    if (out_first_expert != NULL) *out_first_expert = first;
    return whole_tensors_add(params, splits, true, list, first);
}

/* Returns the most expensive matrix of the group that has no owner yet, the first of several; -1: none. */
static int next_matrix(const whole_tensor *list, const tensor_group *group)
{
    int best = -1;
    for (int i = group->first; i < group->end; i++)
        if (list[i].is_matrix && list[i].owner < 0 && (best < 0 || list[i].flops > list[best].flops)) best = i;
    return best;
}

typedef struct rank_load {
    double work;
    int matrices;
} rank_load;

mega_status whole_tensors_deal(whole_tensor *list, tensor_group *group)
{
    const int ranks = group->axis->size;
    rank_load *load = mega_calloc((size_t)ranks, sizeof *load);
    if (load == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "optimizer: no memory to deal matrices to %d ranks", ranks);
    group->end_round = group->first_round;
    for (int i = group->first; i < group->end; i++) list[i].owner = -1;
    for (int next; (next = next_matrix(list, group)) >= 0;) {
        int owner = 0;
        for (int r = 1; r < ranks; r++)
            if (load[r].work < load[owner].work) owner = r;
        list[next].owner = owner;
        list[next].round = group->first_round + load[owner].matrices++;
        load[owner].work += list[next].flops;
        if (list[next].round >= group->end_round) group->end_round = list[next].round + 1;
    }
    mega_free(load);
    return MEGA_OK;
}

mega_range whole_tensors_range(const mega_params *params, const whole_tensor *t)
{
    return (mega_range){mega_params_get(params, t->param)->offset + t->first, t->rows * t->cols};
}

mega_range whole_tensors_piece(const mega_params *params, const whole_tensor *t, int rank)
{
    const int bucket = mega_params_get(params, t->param)->bucket;
    const mega_bucket *b = mega_params_bucket(params, bucket);
    const mega_range all = whole_tensors_range(params, t);
    const int64_t count = b->count / mega_params_bucket_shards(params, bucket).size, begin = b->offset + rank * count;
    const int64_t first = all.first > begin ? all.first : begin, end = all.first + all.count;
    const int64_t stop = end < begin + count ? end : begin + count;
    return (mega_range){first, stop > first ? stop - first : 0};
}
