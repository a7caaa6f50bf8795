/* The layout of ranks. The order of the axes (tp varies fastest, then cp, dp, pp; ep lies inside dp) is written here
 * and nowhere else; whoever needs a coordinate reads mega_layout. */
#include "comm_impl.h"
#include "megalith/memory.h"

#include <stdio.h>

typedef struct layout_block {
    mega_layout layout; /* first: a mega_layout is a layout_block */
    mega_comm group[6];
} layout_block;

/* 0 stands for "not said". */
static int at_least_one(int size)
{
    return size == 0 ? 1 : size;
}

static mega_status check_sizes(const mega_layout_sizes *s, int world)
{
    const struct {
        const char *option;
        int size;
    } axis[] = {{"--tensor-model-parallel-size", s->tp},
                {"--context-parallel-size", s->cp},
                {"--pipeline-model-parallel-size", s->pp},
                {"--expert-model-parallel-size", s->ep}};
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) {
        if (axis[i].size < 1)
            return MEGA_FAIL(MEGA_ERR_USAGE, "%s %d: a group has at least one rank; expected 1", axis[i].option,
                             axis[i].size);
        if (axis[i].size > world)
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                             "%s %d does not divide the world of %d rank: training over several ranks is not built "
                             "yet; the layout that fits is --tensor-model-parallel-size 1 "
                             "--pipeline-model-parallel-size 1 --context-parallel-size 1 "
                             "--expert-model-parallel-size 1",
                             axis[i].option, axis[i].size, world);
    }
    return MEGA_OK;
}

/* Places the axes of `rank`: each takes its size out of what the faster ones left. */
static void place(mega_layout *l, int world, int rank)
{
    mega_axis *const order[] = {&l->tp, &l->cp, &l->dp, &l->pp};
    int rest = rank;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        order[i]->rank = rest % order[i]->size;
        rest /= order[i]->size;
    }
    l->world.rank = rank;
    l->world.size = world;
    l->ep.rank = l->dp.rank % l->ep.size;
}

mega_status mega_layout_create(mega_layout **out, const mega_layout_sizes *sizes)
{
    const int world = 1;
    const mega_layout_sizes s = sizes == NULL ? (mega_layout_sizes){1, 1, 1, 1}
                                              : (mega_layout_sizes){at_least_one(sizes->tp), at_least_one(sizes->pp),
                                                                    at_least_one(sizes->cp), at_least_one(sizes->ep)};
    MEGA_TRY(check_sizes(&s, world));
    layout_block *b = mega_calloc(1, sizeof *b);
    if (b == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "layout of ranks: no memory");
    mega_layout *const l = &b->layout;
    l->tp.size = s.tp;
    l->cp.size = s.cp;
    l->pp.size = s.pp;
    l->ep.size = s.ep;
    l->dp.size = world / (s.tp * s.cp * s.pp);
    place(l, world, 0);

    mega_axis *const axis[] = {&l->world, &l->tp, &l->pp, &l->dp, &l->cp, &l->ep};
    static const char *const name[] = {"world", "tp", "pp", "dp", "cp", "ep"};
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) {
        snprintf(b->group[i].name, sizeof b->group[i].name, "%s", name[i]);
        b->group[i].rank = axis[i]->rank;
        b->group[i].size = axis[i]->size;
        axis[i]->comm = &b->group[i];
    }
    *out = l;
    return MEGA_OK;
}

void mega_layout_destroy(mega_layout *layout)
{
    mega_free(layout);
}
