/* Assigns offsets to the blocks of one arena so that blocks that are alive at the same time do not overlap. The
 * algorithm is greedy: it takes the blocks in some order and puts each into a gap that is free during its lifetime, so
 * only the order matters. It tries several orders and keeps the best. If none reaches the lower bound, the blocks that
 * end above the bound come earlier in the next try.
 *
 * Trying orders of all blocks of a deep program takes long. If long-lived blocks are placed first, only short-lived
 * blocks near the instruction with peak memory end above the bound. After the first order, therefore, only blocks that
 * live within a few instructions of a block that ends too high are moved; the others keep their offsets. */
#include "program_impl.h"

#include <stdlib.h>
#include <string.h>

enum { ORDER_SIZE, ORDER_LIFE, ORDER_AREA, ORDER_START, ORDER_END, NUM_ORDERS };

/* A placed block. The struct is small because the search spends most of its time scanning an array of these. */
typedef struct taken {
    int first, last;
    size_t at, end;
} taken;

/* A search for offsets of the blocks list[0 … count - 1]. The blocks list[count … count + fixed - 1] keep their offsets
 * and are sorted by them. */
typedef struct placement {
    plan_block **list;
    int count, fixed;
    int first, last;      /* range of instructions in which the moved blocks live */
    size_t *full, *stays; /* by instruction: offset below which every byte is taken; the same for fixed blocks alone */
    taken *placed;        /* by offset */
    size_t alive, best;   /* lower bound of the arena; highest end of the `count` blocks in the best try so far */
    size_t largest;       /* block */
    int64_t work;         /* budget of search steps that is left */
} placement;

static double key_in(const plan_block *b, int order)
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

static int offsets_by_key(const void *a, const void *b)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    if (x->key < y->key || x->key > y->key) return x->key < y->key ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y; /* in order of creation: the plan must not depend on the sort */
}

static int offsets_by_blame(const void *a, const void *b)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    return x->times_above != y->times_above ? y->times_above - x->times_above : x->rank - y->rank;
}

static int offsets_by_offset(const void *a, const void *b)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    if (x->best_at != y->best_at) return x->best_at < y->best_at ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Returns the index of the first placed block that may end above `at`. */
static int first_above(const placement *p, int count, size_t at)
{
    int begin = 0, end = count;
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (p->placed[middle].at + p->largest <= at) begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Returns the offset of the lowest gap that is free during the lifetime of b, or, if best_fit, of the smallest such
 * gap. */
static size_t find_gap(placement *p, const plan_block *b, int count, bool best_fit)
{
    const int first = b->first, last = b->last;
    size_t at = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (int i = first; i <= last; i++) at = p->full[i] > at ? p->full[i] : at;
    const int begin = first_above(p, count, at);
    p->work -= last - first + count - begin;
    for (const taken *o = p->placed + begin; o < p->placed + count; o++) {
        if (o->last < first || last < o->first || o->end <= at) continue;
        if (o->at >= at + b->bytes) {
            if (!best_fit) return at;
            if (o->at - at < best_gap) best_gap = o->at - at, best = at;
        }
        at = o->end;
    }
    return best != SIZE_MAX ? best : at;
}

static taken taken_by(const plan_block *b, size_t at)
{
    return (taken){b->first, b->last, at, at + b->bytes};
}

/* Raises `full` at every instruction where the block t starts exactly at it. */
static void offsets_fill(const placement *p, size_t *full, taken t)
{
    const int last = t.last < p->last ? t.last : p->last;
    for (int i = t.first > p->first ? t.first : p->first; i <= last; i++)
        if (full[i] == t.at) full[i] = t.end;
}

/* Places the blocks in the order of the list and returns the highest end. Keeps the offsets if that is the best so
 * far. */
static size_t offsets_assign(placement *p, bool best_fit)
{
    size_t total = 0;
    memcpy(p->full + p->first, p->stays + p->first, (size_t)(p->last - p->first + 1) * sizeof *p->full);
    for (int i = 0; i < p->fixed; i++) p->placed[i] = taken_by(p->list[p->count + i], p->list[p->count + i]->best_at);
    for (int i = 0; i < p->count; i++) {
        plan_block *b = p->list[i];
        int k = p->fixed + i;
        b->at = find_gap(p, b, k, best_fit);
        for (; k > 0 && p->placed[k - 1].at > b->at; k--) p->placed[k] = p->placed[k - 1];
        p->placed[k] = taken_by(b, b->at);
        offsets_fill(p, p->full, p->placed[k]);
        if (b->at + b->bytes > total) total = b->at + b->bytes;
    }
    if (total >= p->best) return total;
    p->best = total;
    for (int i = 0; i < p->count; i++) p->list[i]->best_at = p->list[i]->at;
    return total;
}

static void offsets_sort(placement *p, int order)
{
    for (int i = 0; i < p->count; i++) p->list[i]->key = key_in(p->list[i], order);
    qsort(p->list, (size_t)p->count, sizeof *p->list, offsets_by_key);
    for (int i = 0; i < p->count; i++) p->list[i]->rank = i, p->list[i]->times_above = 0;
}

/* Moves blocks that ended above the bound forward, by how often they did; the others keep their initial order. */
static void offsets_sort_again(placement *p)
{
    for (int i = 0; i < p->count; i++) p->list[i]->times_above += p->list[i]->at + p->list[i]->bytes > p->alive;
    qsort(p->list, (size_t)p->count, sizeof *p->list, offsets_by_blame);
}

static bool offsets_is_done(const placement *p)
{
    return p->best <= p->alive || p->work < 0;
}

/* patience: number of tries in a row without improvement before it gives up. */
static void offsets_try_order(placement *p, int order, bool best_fit, int patience)
{
    size_t least = SIZE_MAX;
    offsets_sort(p, order);
    for (int tries = patience; tries > 0 && !offsets_is_done(p); tries--) {
        const size_t total = offsets_assign(p, best_fit);
        if (total < least) {
            least = total;
            tries = patience + 1;
        }
        offsets_sort_again(p);
    }
}

static void offsets_improve(placement *p)
{
    static const int orders[] = {ORDER_LIFE, ORDER_START, ORDER_SIZE, ORDER_END, ORDER_AREA}; /* by success */
    static const int patience[] = {5, 24};
    for (int round = 0; round < 2; round++)
        for (int way = 0; way < 2 * NUM_ORDERS; way++)
            offsets_try_order(p, orders[way % NUM_ORDERS], way >= NUM_ORDERS, patience[round]);
}

/* ---- around a block that ends too high ---- */

/* Moves to the front of list[from …] the blocks whose lifetime is within first … last, or (`touches`) overlaps it.
 * Returns their number. */
static int offsets_gather(plan_block **list, int from, int count, int first, int last, bool touches)
{
    int found = from;
    for (int i = from; i < count; i++) {
        plan_block *b = list[i];
        if (touches ? b->last < first || b->first > last : b->first < first || b->last > last) continue;
        list[i] = list[found];
        list[found++] = b;
    }
    return found - from;
}

static size_t end_of(const plan_block *b)
{
    return b->best_at + b->bytes;
}

/* Returns a search over the blocks of `all` that live within first … last. Other blocks that overlap this range are
 * fixed. */
static placement offsets_part_of(const placement *all, int first, int last)
{
    placement p = *all;
    p.first = first > all->first ? first : all->first;
    p.last = last < all->last ? last : all->last;
    p.count = offsets_gather(p.list, 0, all->count, first, last, false);
    p.best = 0;
    for (int i = 0; i < p.count; i++)
        if (end_of(p.list[i]) > p.best) p.best = end_of(p.list[i]);
    const int others = offsets_gather(p.list, p.count, all->count, first, last, true);
    plan_block **other = p.list + p.count;
    qsort(other, (size_t)others, sizeof *other, offsets_by_offset);
    memset(p.stays + p.first, 0, (size_t)(p.last - p.first + 1) * sizeof *p.stays);
    for (int i = 0; i < others; i++) offsets_fill(&p, p.stays, taken_by(other[i], other[i]->best_at));
    size_t full = SIZE_MAX;
    for (int i = p.first; i <= p.last; i++) full = p.stays[i] < full ? p.stays[i] : full;
    for (int i = 0; i < others; i++) { /* a block that ends below `full` blocks no placement */
        plan_block *b = other[i];
        if (end_of(b) <= full) continue;
        other[i] = other[p.fixed];
        other[p.fixed++] = b;
    }
    return p;
}

#define MOST_AROUND 1000 /* the most blocks that are moved at one time */

/* Moves the blocks that live near the block with the highest end, and repeats this for the next highest, until no block
 * ends above the bound. */
static void offsets_improve_around(placement *all)
{
    int margin = 4;
    for (;;) {
        const plan_block *top = all->list[0];
        for (int i = 1; i < all->count; i++)
            if (end_of(all->list[i]) > end_of(top)) top = all->list[i];
        all->best = end_of(top);
        if (offsets_is_done(all)) return;
        placement p = offsets_part_of(all, top->first - margin, top->last + margin);
        if (p.count > MOST_AROUND) return;
        offsets_improve(&p);
        all->work = p.work;
        if (p.best < all->best) margin = 4;
        else if (p.count == all->count)
            return;
        else
            margin *= 4;
    }
}

/* ---- the whole search ---- */

/* Returns the largest sum of bytes alive at one instruction, a lower bound for every placement. */
static size_t most_alive(const placement *p)
{
    size_t sum = 0, most = 0; /* full[i]: bytes whose life starts at i less bytes whose life ended at i - 1, modulo
                                 2^64 */
    for (int i = 0; i < p->count; i++) {
        p->full[p->list[i]->first] += p->list[i]->bytes;
        if (p->list[i]->last < p->last) p->full[p->list[i]->last + 1] -= p->list[i]->bytes;
    }
    for (int i = 0; i <= p->last; i++) {
        sum += p->full[i];
        if (sum > most) most = sum;
    }
    return most;
}

/* Limits on search steps, so that planning a deep model takes a fraction of a second. */
#define WORK_AROUND ((int64_t)1 << 23)
#define WORK        ((int64_t)1 << 25)

size_t mega_plan_offsets_bytes(int count, int num_ops)
{
    return (size_t)count * sizeof(taken) + 2 * (size_t)num_ops * sizeof(size_t);
}

size_t mega_plan_offsets(plan_block **list, int count, int num_ops, void *room, size_t *alive)
{
    placement p = {.list = list, .count = count, .last = num_ops - 1, .full = room, .best = SIZE_MAX, .work = WORK};
    *alive = 0;
    if (count == 0) return 0;
    p.stays = p.full + num_ops;
    p.placed = (taken *)(p.stays + num_ops);
    memset(room, 0, 2 * (size_t)num_ops * sizeof *p.full);
    for (int i = 0; i < count; i++) p.largest = list[i]->bytes > p.largest ? list[i]->bytes : p.largest;
    *alive = p.alive = most_alive(&p);
    offsets_sort(&p, ORDER_LIFE);
    offsets_assign(&p, false);
    p.work = WORK_AROUND;
    offsets_improve_around(&p);
    memset(p.stays, 0, (size_t)num_ops * sizeof *p.stays);
    p.work = WORK;
    offsets_improve(&p);
    p.work = WORK_AROUND;
    offsets_improve_around(&p);
    for (int i = 0; i < count; i++) list[i]->at = list[i]->best_at;
    return p.best;
}
