/* Offsets of the blocks of one arena, such that no two that live at one time share a byte. Greedy: block by block in
 * some order, each in a gap that is free during its life, so that the order is all there is to choose. Several are
 * tried, the best is kept; where none reaches the bound, the blocks that end above it come earlier in the next try. */
#include "program_impl.h"

#include <stdlib.h>

enum { ORDER_SIZE, ORDER_LIFE, ORDER_AREA, ORDER_START, ORDER_END, NUM_ORDERS };

typedef struct placement {
    plan_block **list, **placed; /* the order; the same by offset */
    int count;
    size_t alive, best;
} placement;

static double rank_in(const plan_block *b, int order)
{
    const double life = (double)(b->last - b->first + 1), bytes = (double)b->bytes;
    switch (order) {
    case ORDER_SIZE: return -bytes;
    case ORDER_LIFE: return -life;
    case ORDER_AREA: return -life * bytes;
    case ORDER_START: return (double)b->first;
    default: return -(double)b->last;
    }
}

static int by_order(const void *a, const void *b, void *order)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    const double p = rank_in(x, *(const int *)order), q = rank_in(y, *(const int *)order);
    if (p < q || p > q) return p < q ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y; /* in order of making: the plan must not depend on the sort */
}

static int by_blame(const void *a, const void *b)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    return x->blame != y->blame ? y->blame - x->blame : x->rank - y->rank;
}

/* The lowest gap that is free during the life of b, or (best_fit) the tightest. `placed` is in order of offset. */
static size_t find_gap(const plan_block *b, plan_block *const *placed, int count, bool best_fit)
{
    size_t at = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (int k = 0; k < count; k++) {
        const plan_block *o = placed[k];
        if (o->last < b->first || b->last < o->first || o->at + o->bytes <= at) continue;
        if (o->at >= at + b->bytes) {
            if (!best_fit) return at;
            if (o->at - at < best_gap) best_gap = o->at - at, best = at;
        }
        at = o->at + o->bytes;
    }
    return best != SIZE_MAX ? best : at;
}

/* Puts the blocks in the order of the list; remembers the places if they take less than the best so far. */
static void assign(placement *p, bool best_fit)
{
    size_t total = 0;
    for (int i = 0; i < p->count; i++) {
        plan_block *b = p->list[i];
        int k = i;
        b->at = find_gap(b, p->placed, i, best_fit);
        for (; k > 0 && p->placed[k - 1]->at > b->at; k--) p->placed[k] = p->placed[k - 1];
        p->placed[k] = b;
        if (b->at + b->bytes > total) total = b->at + b->bytes;
    }
    if (total >= p->best) return;
    p->best = total;
    for (int i = 0; i < p->count; i++) p->list[i]->best_at = p->list[i]->at;
}

static void sort(placement *p, int order)
{
    qsort_r(p->list, (size_t)p->count, sizeof *p->list, by_order, &order);
}

/* Blocks that ended above the bound get on; the others keep the order that they began with. */
static void sort_anew(placement *p)
{
    for (int i = 0; i < p->count; i++) p->list[i]->blame += p->list[i]->at + p->list[i]->bytes > p->alive;
    qsort(p->list, (size_t)p->count, sizeof *p->list, by_blame);
}

#define TRIES 24 /* with one order to begin with: those that get there do so soon */
#define WORK \
    ((int64_t)1 << 27) /* comparisons of two blocks, so that deep models are planned in a fraction of a second */

static void improve(placement *p)
{
    static const int orders[] = {ORDER_LIFE, ORDER_START, ORDER_SIZE, ORDER_END, ORDER_AREA}; /* by success */
    int64_t work = WORK;
    for (int way = 0; way < 2 * NUM_ORDERS; way++) {
        sort(p, orders[way % NUM_ORDERS]);
        for (int i = 0; i < p->count; i++) p->list[i]->rank = i, p->list[i]->blame = 0;
        for (int i = 0; i < TRIES; i++) {
            work -= (int64_t)p->count * p->count;
            if (p->best == p->alive || work < 0) return;
            assign(p, way >= NUM_ORDERS);
            sort_anew(p);
        }
    }
}

/* The largest sum of bytes alive at one instruction: no placement does with less. */
static size_t most_alive(plan_block *const *list, int count, int num_ops)
{
    size_t most = 0;
    for (int i = 0; i < num_ops; i++) {
        size_t sum = 0;
        for (int k = 0; k < count; k++)
            if (list[k]->first <= i && i <= list[k]->last) sum += list[k]->bytes;
        if (sum > most) most = sum;
    }
    return most;
}

size_t mega_plan_place(plan_block **list, int count, int num_ops, plan_block **room, size_t *alive)
{
    placement p = {list, room, count, most_alive(list, count, num_ops), SIZE_MAX};
    for (int way = 0; way < 2 * NUM_ORDERS && p.best != p.alive; way++) {
        sort(&p, way / 2);
        assign(&p, way % 2 == 1);
    }
    improve(&p);
    for (int i = 0; i < count; i++) list[i]->at = list[i]->best_at;
    *alive = p.alive;
    return p.best;
}
