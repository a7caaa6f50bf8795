/* The choices that experts with a capacity compute: one thread sorts the choices of each group by expert, as the order
 * of rows does, and the threads share the experts. One that has too many keeps its best in a heap, whose root is the
 * worst of them, and a later choice that is better takes the place of the root. */
#include "cpu/share.h"
#include <math.h>

typedef struct ranked {
    float key;
    int32_t choice;
} ranked;

/* Scratch: the choices of all groups by expert, and where those of each expert of a group begin, to one more. */
static ranked *capacity_ranked(const mega_route_capacity_args *a)
{
    return a->head.scratch;
}

static int64_t *capacity_first(const mega_route_capacity_args *a)
{
    return (int64_t *)(capacity_ranked(a) + a->groups * a->rows * a->choices);
}

static float cpu_capacity_key(const mega_route_capacity_args *a, int64_t c)
{
    const float weight = ((const float *)a->weight)[c];
    return a->by_position ? 0.0f : isnan(weight) ? -INFINITY : weight;
}

/* As plain/expert_order.c: first[e + 1] counts, then is where the next choice of expert e comes, and at last the end
 * of its choices. */
static void sort_by_expert(const mega_route_capacity_args *a, int64_t g)
{
    const int64_t count = a->rows * a->choices, begin = g * count;
    int64_t *const first = capacity_first(a) + g * (a->experts + 1), at = begin;
    for (int64_t e = 0; e <= a->experts; e++) first[e] = 0;
    for (int64_t c = begin; c < begin + count; c++) first[a->choice[c] + 1]++;
    first[0] = begin;
    for (int64_t e = 1; e <= a->experts; e++) {
        const int64_t own = first[e];
        first[e] = at;
        at += own;
    }
    for (int64_t c = begin; c < begin + count; c++)
        capacity_ranked(a)[first[a->choice[c] + 1]++] = (ranked){cpu_capacity_key(a, c), (int32_t)c};
}

static bool is_worse(ranked x, ranked y)
{
    return x.key < y.key || (x.key == y.key && x.choice > y.choice);
}

/* Moves the item at `i` of a heap of n items down, below items that are worse. */
static void sift_down(ranked *heap, int64_t n, int64_t i)
{
    const ranked item = heap[i];
    for (int64_t below = 2 * i + 1; below < n; below = 2 * i + 1) {
        if (below + 1 < n && is_worse(heap[below + 1], heap[below])) below++;
        if (!is_worse(heap[below], item)) break;
        heap[i] = heap[below];
        i = below;
    }
    heap[i] = item;
}

/* Leaves the `kept` best of n items, of which there are more, in front of the others. */
static void best_in_front(ranked *item, int64_t n, int64_t kept)
{
    for (int64_t i = kept / 2 - 1; i >= 0; i--) sift_down(item, kept, i);
    for (int64_t i = kept; i < n; i++) {
        if (!is_worse(item[0], item[i])) continue;
        const ranked out = item[0];
        item[0] = item[i];
        item[i] = out;
        sift_down(item, kept, 0);
    }
}

static void cpu_route_capacity_work(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_route_capacity_args *a = ((const cpu_job *)user)->args;
    (void)thread;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t *const first = capacity_first(a) + unit / a->experts * (a->experts + 1) + unit % a->experts;
        const int64_t count = first[1] - first[0];
        ranked *const item = capacity_ranked(a) + first[0];
        if (count > a->capacity && !a->by_position) best_in_front(item, count, a->capacity);
        for (int64_t i = 0; i < count; i++) a->kept[item[i].choice] = i < a->capacity ? a->choice[item[i].choice] : -1;
    }
}

static void cpu_route_capacity_run(const mega_queue *queue, const void *args)
{
    const mega_route_capacity_args *a = args;
    const int64_t count = a->rows * a->choices;
    if (a->head.dtype == MEGA_F64) {
        mega_plain_route_capacity.run(queue, args);
        return;
    }
    for (int64_t g = 0; g < a->groups; g++) {
        const int64_t *const first = capacity_first(a) + g * (a->experts + 1);
        int64_t dropped = 0;
        sort_by_expert(a, g);
        for (int64_t e = 0; e < a->experts; e++) {
            const int64_t more = first[e + 1] - first[e] - a->capacity;
            dropped += more > 0 ? more : 0;
        }
        ((float *)a->dropped)[g] = (float)((double)dropped / (double)count);
    }
    cpu_job_run(mega_queue_team(queue), cpu_route_capacity_work, args, a->groups * a->experts, 1, a->groups * count);
}

static size_t cpu_route_capacity_scratch(const void *args, int threads)
{
    const mega_route_capacity_args *a = args;
    (void)threads;
    return (size_t)(a->groups * a->rows * a->choices) * sizeof(ranked) +
           (size_t)(a->groups * (a->experts + 1)) * sizeof(int64_t);
}

const mega_kernel mega_cpu_route_capacity = {
    .name = "route_capacity", .run = cpu_route_capacity_run, .scratch = cpu_route_capacity_scratch};
