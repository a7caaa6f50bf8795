/* Which layers of a model are recomputed, and in which groups. A region is a group of consecutive layers of one part:
 * only the values that enter it are saved. The model says how many layers a region has, or a caller chooses a level:
 * how much the stage of this rank recomputes, from nothing to everything in one region. */
#include "megalith/memory.h"
#include "model_impl.h"

#include <stdlib.h>
#include <string.h>

bool model_begins_region(const mega_model_parts *p, int layer, int first)
{
    return p->region[layer] != 0 && (layer == first || p->region[layer - 1] != p->region[layer]);
}

bool model_ends_region(const mega_model_parts *p, int layer, int end)
{
    return p->region[layer] != 0 && (layer + 1 == end || p->region[layer + 1] != p->region[layer]);
}

/* Groups of `interval` layers that may be recomputed, counted from the start of the part; most 0: any number of
 * groups. */
static void cut_into_regions(mega_model_parts *p, int part, int interval, int most)
{
    int opened = 0, left = 0; /* left: layers that the open region still takes */
    for (int l = p->first[part]; l < p->first[part + 1]; l++) {
        if (!p->recomputes[l]) left = 0;
        else if (left == 0 && (most == 0 || opened < most))
            opened++, left = interval;
        p->region[l] = p->recomputes[l] && left > 0 ? opened : 0;
        if (left > 0) left--;
    }
}

void model_find_regions(mega_model_parts *p)
{
    memset(p->region, 0, (size_t)p->num_layers * sizeof *p->region);
    if (p->model.recompute_interval == 0) return;
    for (int i = 0; i < p->num_parts; i++)
        cut_into_regions(p, i, p->model.recompute_interval, p->model.recompute_regions);
}

/* ---- levels of one stage ---- */

/* A layer of this stage that may be recomputed, and what that costs and saves. */
typedef struct candidate {
    int layer;
    double flops, bytes;
} candidate;

static int cheapest_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    const double left = x->flops * y->bytes, right = y->flops * x->bytes; /* x->flops / x->bytes < … without a 0 / 0 */
    if (left < right || left > right) return left < right ? -1 : 1;
    return x->layer - y->layer;
}

static bool is_own_part(const mega_model_parts *p, int part)
{
    return part % p->layout->pp.size == p->layout->pp.rank;
}

static int count_candidates(const mega_model_parts *p)
{
    int count = 0;
    for (int i = 0; i < p->num_parts; i++)
        for (int l = p->first[i]; is_own_part(p, i) && l < p->first[i + 1]; l++) count += p->recomputes[l];
    return count;
}

int mega_model_parts_levels(const mega_model_parts *p)
{
    const int layers = count_candidates(p);
    return layers == 0 ? 1 : 2 * layers;
}

mega_status mega_model_parts_set_level(mega_model_parts *p, int level)
{
    const int count = count_candidates(p);
    int found = 0;
    if (level < 0 || level >= mega_model_parts_levels(p))
        return MEGA_MISTAKE("mega_model_parts_set_level: level %d; expected 0 to %d", level,
                            mega_model_parts_levels(p) - 1);
    for (int i = 0; i < p->num_parts; i++)
        if (is_own_part(p, i)) cut_into_regions(p, i, level > count ? level - count + 1 : 1, 0);
    if (level >= count) return MEGA_OK;
    candidate *all = mega_malloc(((size_t)count + 1) * sizeof *all);
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for a list of %d layers", count);
    for (int i = 0; i < p->num_parts; i++)
        for (int l = p->first[i]; is_own_part(p, i) && l < p->first[i + 1]; l++)
            if (p->recomputes[l]) all[found++] = (candidate){l, p->flops[l], p->bytes[l] + 1};
    qsort(all, (size_t)found, sizeof *all, cheapest_first);
    for (int i = level; i < found; i++) p->region[all[i].layer] = 0;
    mega_free(all);
    return MEGA_OK;
}

void mega_model_parts_regions(const mega_model_parts *p, int *out_layers, int *out_regions)
{
    *out_layers = *out_regions = 0;
    for (int i = 0; i < p->num_parts; i++)
        for (int l = p->first[i]; is_own_part(p, i) && l < p->first[i + 1]; l++) {
            *out_layers += p->region[l] != 0;
            *out_regions += model_begins_region(p, l, p->first[i]);
        }
}
