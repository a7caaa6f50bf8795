/* Compares, before the first step, the exchanges of the update program over ranks, and lists those between stages. */
#include "megalith/compare.h"
#include "megalith/exchange_order.h"
#include "megalith/hash.h"
#include "update_impl.h"

#include <stdio.h>
#include <string.h>

typedef struct update_calls {
    const mega_update *u;
    const mega_comm *comm;
} update_calls;

/* Over `comm`, or over a group of a higher level. Sums of tied parameters, of which a rank with a slice may have fewer
 * than others, come before all else: in each pipeline by itself, which mega_update_list looks at. */
static bool update_is_compared(const update_calls *c, const update_instruction *x)
{
    const mega_layout *l = c->u->layout;
    return x->kind != UPDATE_SUM_TIED && x->axis != NULL && mega_axis_has_others(x->axis) &&
           mega_layout_level(l, x->axis->comm) >= mega_layout_level(l, c->comm);
}

/* `number` counts what this rank has of ties and matrices: of its own groups only it is the same on all ranks. So is
 * `count`. */
static uint64_t update_call_hash(uint64_t hash, const update_calls *c, const update_instruction *x)
{
    const bool is_own = x->axis->comm == c->comm;
    const int64_t row[] = {x->kind,
                           x->when,
                           x->bucket,
                           x->is_packed,
                           mega_layout_level(c->u->layout, x->axis->comm),
                           is_own ? x->number : 0,
                           is_own ? x->count : 0};
    return mega_hash64(hash, row, sizeof row);
}

static uint64_t update_calls_hash(const void *list, int64_t begin, int64_t end)
{
    const update_calls *c = list;
    uint64_t hash = MEGA_HASH_START;
    int64_t at = 0;
    for (int i = 0; i < c->u->count && at < end; i++)
        if (update_is_compared(c, &c->u->list[i]) && at++ >= begin) hash = update_call_hash(hash, c, &c->u->list[i]);
    return hash;
}

static void update_call_describe(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    const update_calls *c = list;
    const update_instruction *x = c->u->list;
    for (; !update_is_compared(c, x) || i-- > 0;) x++;
    snprintf(out, MEGA_COMPARED_TEXT, "%s over %s of %lld elements, bucket %d, number %d", update_kind_name(x->kind),
             mega_comm_name(x->axis->comm), (long long)x->count, x->bucket, x->number);
}

mega_status mega_update_compare(const mega_update *u, mega_comm *comm)
{
    const update_calls c = {u, comm};
    mega_compared l = {
        .what = "updates", .item = "exchange", .list = &c, .hash = update_calls_hash, .describe = update_call_describe};
    for (int i = 0; i < u->count; i++) l.count += update_is_compared(&c, &u->list[i]);
    return mega_comm_compare(comm, &l);
}

void mega_update_list(const mega_update *u, mega_order *order)
{
    for (int i = 0; i < u->count; i++) {
        const update_instruction *x = &u->list[i];
        if (x->axis != &u->layout->pp || !mega_axis_has_others(x->axis)) continue;
        const bool is_tied = x->kind == UPDATE_SUM_TIED;
        const char *param = is_tied ? mega_params_get(u->params, x->first_param)->name : "";
        const int64_t row[] = {x->kind, x->when, x->count};
        mega_order_meet(order, update_kind_name(x->kind),
                        is_tied ? u->options.tie[x->number].stages.count : x->axis->size,
                        mega_hash64(mega_hash64(MEGA_HASH_START, row, sizeof row), param, strlen(param)));
    }
}
