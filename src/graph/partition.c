/* Divides a list of weights into consecutive ranges with nearly equal sums, as a pipeline divides its layers. */
#include "megalith/memory.h"
#include "megalith/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* State of the search for `parts` nonempty ranges whose sums are between `least` and `most`. */
typedef struct cutting {
    int count, parts;
    double *before; /* [count + 1]: the sum of the weights before an item */
    double *sum;    /* the distinct sums of all possible ranges, ascending */
    int num_sums;
    int *ways;  /* [parts + 1][count + 2]: at [p][j], the number of i < j such that the items before i can form p
                   ranges */
    int *found; /* [parts + 1] */
} cutting;

static int *ways_at(const cutting *c, int part)
{
    return c->ways + (size_t)part * (size_t)(c->count + 2);
}

static bool partition_is_reached(const cutting *c, int part, int item)
{
    const int *ways = ways_at(c, part);
    return ways[item + 1] > ways[item];
}

/* Updates *first and *last for ranges that end before item `end`: those with a valid sum begin at items *first to
 * *last; there are none if *first > *last. Both only grow with `end`, so the caller keeps them from one item to the
 * next. */
static void move_window(const cutting *c, double least, double most, int end, int *first, int *last)
{
    while (*first < end && c->before[end] - c->before[*first] > most) ++*first;
    while (*last + 1 < end && c->before[end] - c->before[*last + 1] >= least) ++*last;
}

/* Returns whether the whole list can be divided into such ranges. */
static bool is_possible(const cutting *c, double least, double most)
{
    int *ways = ways_at(c, 0);
    ways[0] = 0;
    for (int j = 0; j <= c->count; j++) ways[j + 1] = 1; /* zero ranges end before item 0 and at no other item */
    for (int p = 1; p <= c->parts; p++) {
        const int *from = ways_at(c, p - 1);
        int first = 0, last = -1;
        ways = ways_at(c, p);
        ways[0] = ways[1] = 0;
        for (int j = 1; j <= c->count; j++) {
            move_window(c, least, most, j, &first, &last);
            ways[j + 1] = ways[j] + (first <= last && from[last + 1] > from[first]);
        }
    }
    return partition_is_reached(c, c->parts, c->count);
}

/* Reads the boundaries after is_possible returned true, each as late as the later ones allow. */
static void read_latest(const cutting *c, double least, double most)
{
    c->found[c->parts] = c->count;
    for (int p = c->parts - 1; p >= 0; p--) {
        const int end = c->found[p + 1];
        int first = 0, last = -1;
        for (int j = 1; j <= end; j++) move_window(c, least, most, j, &first, &last);
        while (last > first && !partition_is_reached(c, p, last)) last--;
        c->found[p] = last;
    }
}

static bool is_later(const cutting *c, const int *than)
{
    for (int p = c->parts - 1; p > 0; p--)
        if (c->found[p] != than[p]) return c->found[p] > than[p];
    return false;
}

/* Finds the best division. A larger minimum sum needs a larger maximum sum, so both bounds pass through the sums
 * once. */
static void partition_search(const cutting *c, int *out)
{
    double best = INFINITY;
    for (int low = 0, high = 0; low < c->num_sums; low++) {
        if (high < low) high = low;
        while (high < c->num_sums && c->sum[high] - c->sum[low] <= best && !is_possible(c, c->sum[low], c->sum[high]))
            high++;
        if (high == c->num_sums) return;
        const double difference = c->sum[high] - c->sum[low];
        if (difference > best) continue;
        read_latest(c, c->sum[low], c->sum[high]);
        if (difference < best || is_later(c, out)) memcpy(out, c->found, (size_t)(c->parts + 1) * sizeof *out);
        best = difference;
    }
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void list_sums(cutting *c)
{
    int kept = 0;
    for (int i = 0; i < c->count; i++)
        for (int j = i + 1; j <= c->count; j++) c->sum[c->num_sums++] = c->before[j] - c->before[i];
    qsort(c->sum, (size_t)c->num_sums, sizeof *c->sum, ascending);
    for (int i = 0; i < c->num_sums; i++)
        if (kept == 0 || c->sum[i] > c->sum[kept - 1]) c->sum[kept++] = c->sum[i];
    c->num_sums = kept;
}

static mega_status partition_balance(const double *weight, int count, int parts, int *out)
{
    const size_t n = (size_t)count, p = (size_t)parts;
    cutting c = {.count = count, .parts = parts};
    c.before = mega_malloc((n + 1) * sizeof *c.before);
    c.sum = mega_malloc(n * (n + 1) / 2 * sizeof *c.sum);
    c.ways = mega_malloc((p + 1) * (n + 2) * sizeof *c.ways);
    c.found = mega_malloc((p + 1) * sizeof *c.found);
    mega_status st = MEGA_OK;
    if (c.before == NULL || c.sum == NULL || c.ways == NULL || c.found == NULL)
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "partition of %d layers into %d stages: no memory", count, parts);
    if (st == MEGA_OK) {
        c.before[0] = 0;
        for (int i = 0; i < count; i++) c.before[i + 1] = c.before[i] + weight[i];
        list_sums(&c);
        partition_search(&c, out);
    }
    MEGA_FREE(c.before, c.sum, c.ways, c.found);
    return st;
}

mega_status mega_partition_balance(const double *weight, int count, int parts, int *out)
{
    if (parts < 1 || count < 0)
        return MEGA_MISTAKE("mega_partition_balance: %d weights into %d parts; expected 0 or more into 1 "
                            "or more",
                            count, parts);
    if (out == NULL || (weight == NULL && count > 0))
        return MEGA_MISTAKE("mega_partition_balance: %s is NULL; give it", out == NULL ? "out" : "the list of weights");
    for (int i = 0; i < count; i++)
        if (!(weight[i] >= 0) || isinf(weight[i]))
            return MEGA_MISTAKE("mega_partition_balance: weight %d is %g; expected a number of at least 0", i,
                                weight[i]);
    if (count > parts) return partition_balance(weight, count, parts, out);
    for (int p = 0; p <= parts; p++) out[p] = p < count ? p : count;
    return MEGA_OK;
}
