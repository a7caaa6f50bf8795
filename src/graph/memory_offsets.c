/* Offsets of the blocks of one arena, such that no two that live at one time share a byte. Greedy: block by block in
 * some order, each in a gap that is free during its life, so that the order is all there is to choose. Several are
 * tried, the best is kept; where none reaches the bound, the blocks that end above it come earlier in the next try.
 *
 * Trying orders of all blocks of a deep program takes long, and what lives for a short time near the fullest
 * instruction is all that ends above the bound when long lives come first. After the first order, only blocks that live
 * within a few instructions of a block that ends too high are therefore moved; the others keep their places. */
#include "program_impl.h"

#include <stdlib.h>
#include <string.h>

enum { ORDER_SIZE, ORDER_LIFE, ORDER_AREA, ORDER_START, ORDER_END, NUM_ORDERS };

/* A block that has its place. Close together, as most of the time goes into looking through them. */
typedef struct taken {
    int first, last;
    size_t at, end;
} taken;

/* The blocks list[0 … count - 1] are placed among list[count … count + fixed - 1], which stay and are in order of
 * offset.
 */
typedef struct placement {
    plan_block **list;
    int count, fixed;
    int first, last;      /* instructions in which those that are placed live */
    size_t *full, *stays; /* by instruction: below it every byte is taken; the same by those that stay */
    taken *placed;        /* by offset */
    size_t alive, best;   /* the least that can be; where the last of `count` ends in the best try so far */
    size_t largest;       /* block */
    int64_t work;         /* steps that are left */
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
    return x < y ? -1 : x > y; /* in order of making: the plan must not depend on the sort */
}

static int offsets_by_blame(const void *a, const void *b)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    return x->blame != y->blame ? y->blame - x->blame : x->rank - y->rank;
}

static int offsets_by_offset(const void *a, const void *b)
{
    const plan_block *x = *(plan_block *const *)a, *y = *(plan_block *const *)b;
    if (x->best_at != y->best_at) return x->best_at < y->best_at ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The first that may end above `at`. */
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

/* The lowest gap that is free during the life of b, or (best_fit) the tightest. */
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

/* What is taken at the end of `full` lengthens it. */
static void offsets_fill(const placement *p, size_t *full, taken t)
{
    const int last = t.last < p->last ? t.last : p->last;
    for (int i = t.first > p->first ? t.first : p->first; i <= last; i++)
        if (full[i] == t.at) full[i] = t.end;
}

/* Puts the blocks in the order of the list; remembers the places if they take less than the best so far. */
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
    for (int i = 0; i < p->count; i++) p->list[i]->rank = i, p->list[i]->blame = 0;
}

/* Blocks that ended above the bound get on; the others keep the order that they began with. */
static void offsets_sort_again(placement *p)
{
    for (int i = 0; i < p->count; i++) p->list[i]->blame += p->list[i]->at + p->list[i]->bytes > p->alive;
    qsort(p->list, (size_t)p->count, sizeof *p->list, offsets_by_blame);
}

static bool offsets_is_done(const placement *p)
{
    return p->best <= p->alive || p->work < 0;
}

/* patience: how many tries in a row may be no better than one before. */
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

/* Moves to the front of list[from …] what lives within first … last, or (`touches`) at any time of it. */
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

/* Of `all`, what lives within first … last, among the others that then live. */
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
    for (int i = 0; i < others; i++) { /* what ends below that is in nobody's way */
        plan_block *b = other[i];
        if (end_of(b) <= full) continue;
        other[i] = other[p.fixed];
        other[p.fixed++] = b;
    }
    return p;
}

#define MOST_AROUND 1000 /* blocks that are moved at a time */

/* Moves the blocks that live near the one that ends highest, then those near the next highest, until no block ends
 * above the bound. */
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

/* ---- all ---- */

/* The largest sum of bytes alive at one instruction: no placement does with less. */
static size_t most_alive(const placement *p)
{
    size_t sum = 0, most = 0; /* `full` holds what begins to live less what ended before, modulo 2^64 */
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

/* So that deep models are planned in a fraction of a second. */
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
