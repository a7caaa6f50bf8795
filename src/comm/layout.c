/* The layout of ranks. Only this file knows the order of the axes (tp varies fastest, then cp, dp, pp; ep lies inside
 * dp, edp is what remains of it); all other code reads coordinates from mega_layout. */
#include "comm_impl.h"
#include "megalith/extent.h"
#include "megalith/memory.h"

#include <stdio.h>

typedef struct layout_block {
    mega_layout layout; /* first, so that a pointer to it is a pointer to the block */
    mega_comm group[MEGA_COMM_GROUPS];
    mega_world *of; /* which counts this layout; NULL: none */
    mega_users users;
} layout_block;

/* A size of 0 means the default, 1. */
static int at_least_one(int size)
{
    return size == 0 ? 1 : size;
}

static int ranks_of(const mega_layout_sizes *s, const mega_world *world)
{
    return s->planned_ranks > 0 ? s->planned_ranks : mega_world_size(world);
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
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++)
        if (axis[i].size < 1)
            return MEGA_MISTAKE("%s %d: a group has at least one rank; expected 1 or more", axis[i].option,
                                axis[i].size);
    if (s->planned_rank < 0 || s->planned_rank >= world)
        return MEGA_MISTAKE("rank %d of a world of %d ranks; expected 0 to %d", s->planned_rank, world, world - 1);
    if (world > MEGA_COMM_MOST_RANKS && s->planned_ranks == 0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "a world of %d ranks; at most %d are supported", world,
                         MEGA_COMM_MOST_RANKS);
    return MEGA_OK;
}

/* Lists the divisors of n: "1, 2, 4". */
static const char *divisors_text(char *out, size_t size, int n)
{
    size_t used = 0;
    for (int d = 1; d <= n && used + 16 < size; d++)
        if (n % d == 0) used += (size_t)snprintf(out + used, size - used, "%s%d", d > 1 ? ", " : "", d);
    return out;
}

/* Lists the sizes that divide the world, except those of 1: "--tensor-model-parallel-size 2 x ... 4". */
static const char *factors_text(char *out, size_t size, const mega_layout_sizes *s)
{
    const struct {
        const char *option;
        int size;
    } axis[] = {{"--tensor-model-parallel-size", s->tp},
                {"--context-parallel-size", s->cp},
                {"--pipeline-model-parallel-size", s->pp}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof axis / sizeof *axis && used < size; i++)
        if (axis[i].size > 1)
            used += (size_t)snprintf(out + used, size - used, "%s%s %d", used > 0 ? " x " : "", axis[i].option,
                                     axis[i].size);
    return out;
}

static mega_status check_division(const mega_layout_sizes *s, int world)
{
    const long long cut = mega_extent_mul(mega_extent_mul(s->tp, s->cp), s->pp);
    const bool is_product = s->tp != cut && s->cp != cut && s->pp != cut;
    char text[160], cuts[160], product[48] = "";
    if (is_product) snprintf(product, sizeof product, " = %lld", cut);
    if (cut > world || world % cut != 0)
        return MEGA_MISTAKE("%s%s does not divide the world of %d rank%s; expected %sone of: %s (megalith launch "
                            "--nproc_per_node N starts N)",
                            factors_text(cuts, sizeof cuts, s), product, world, world == 1 ? "" : "s",
                            is_product ? "a product that is " : "", divisors_text(text, sizeof text, world));
    const int dp = (int)(world / cut);
    if (dp % s->ep != 0)
        return MEGA_MISTAKE(
            "--expert-model-parallel-size %d does not divide the %d data-parallel rank%s; expected one of: "
            "%s (megalith launch --nproc_per_node N starts N ranks)",
            s->ep, dp, dp == 1 ? "" : "s", divisors_text(text, sizeof text, dp));
    return MEGA_OK;
}

typedef struct layout_axis {
    mega_axis *axis;
    const char *name;
    int stride;
} layout_axis;

/* Computes this rank's position on each axis: each axis divides what the faster ones left. */
static void layout_place(layout_block *b, mega_world *world, int rank)
{
    mega_layout *const l = &b->layout;
    layout_axis axis[MEGA_COMM_GROUPS] = {{&l->tp, "tp", 0},       {&l->cp, "cp", 0},          {&l->dp, "dp", 0},
                                          {&l->pp, "pp", 0},       {&l->ep, "ep", 0},          {&l->edp, "edp", 0},
                                          {&l->world, "world", 1}, {&l->pp_back, "pp back", 0}};
    int rest = rank, stride = 1;
    for (int i = 0; i < 4; i++) {
        axis[i].axis->rank = rest % axis[i].axis->size;
        axis[i].stride = stride;
        rest /= axis[i].axis->size;
        stride *= axis[i].axis->size;
    }
    l->ep.rank = l->dp.rank % l->ep.size;
    l->edp.rank = l->dp.rank / l->ep.size;
    axis[4].stride = axis[2].stride;
    axis[5].stride = axis[2].stride * l->ep.size;
    l->world.rank = rank;
    l->pp_back = l->pp;
    axis[7].stride = axis[3].stride;
    for (int i = 0; i < MEGA_COMM_GROUPS; i++) {
        mega_comm *c = &b->group[i];
        snprintf(c->name, sizeof c->name, "%s", axis[i].name);
        c->rank = axis[i].axis->rank;
        c->size = axis[i].axis->size;
        c->world = c->size > 1 ? world : NULL;
        c->stride = axis[i].stride;
        /* the layout's `world` has the same ranks as the world's own group, so they share one queue */
        c->tag = axis[i].axis == &l->world ? MEGA_COMM_WORLD_TAG : i;
        axis[i].axis->comm = c;
    }
}

static void layout_free(layout_block *b)
{
    mega_users_add(mega_world_users(b->of), -1);
    mega_free(b);
}

mega_status mega_layout_create(mega_world *world, const mega_layout_sizes *sizes, mega_layout **out)
{
    if (out == NULL) return MEGA_MISTAKE("mega_layout_create: out is NULL; expected the address of a layout pointer");
    mega_layout_sizes s = sizes == NULL ? (mega_layout_sizes){0} : *sizes;
    s.tp = at_least_one(s.tp);
    s.pp = at_least_one(s.pp);
    s.cp = at_least_one(s.cp);
    s.ep = at_least_one(s.ep);
    const int ranks = ranks_of(&s, world);
    const bool is_planned = s.planned_ranks > 0;
    MEGA_TRY(check_sizes(&s, ranks));
    MEGA_TRY(check_division(&s, ranks));
    layout_block *b = mega_calloc(1, sizeof *b);
    if (b == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "layout of ranks: no memory");
    b->layout.tp.size = s.tp;
    b->layout.cp.size = s.cp;
    b->layout.pp.size = s.pp;
    b->layout.ep.size = s.ep;
    b->layout.dp.size = ranks / (s.tp * s.cp * s.pp);
    b->layout.edp.size = b->layout.dp.size / s.ep;
    b->layout.world.size = ranks;
    layout_place(b, is_planned ? NULL : world, is_planned ? s.planned_rank : mega_world_rank(world));
    b->of = is_planned ? NULL : world;
    mega_users_add(mega_world_users(b->of), 1);
    mega_status st = MEGA_OK;
    for (int i = 0; i < MEGA_COMM_SUMMING && st == MEGA_OK; i++) st = comm_channel_open(&b->group[i]);
    if (st == MEGA_OK) *out = &b->layout;
    else
        layout_free(b);
    return st;
}

int mega_layout_level(const mega_layout *l, const mega_comm *comm)
{
    const mega_comm *const inner[] = {l->tp.comm, l->cp.comm, l->ep.comm, l->edp.comm, l->dp.comm, l->pp.comm};
    const int levels = (int)(sizeof inner / sizeof *inner);
    for (int i = 0; i < levels; i++)
        if (comm == inner[i]) return i;
    return comm == l->pp_back.comm ? levels - 1 : levels;
}

void mega_layout_destroy(mega_layout *layout)
{
    layout_block *b = (layout_block *)layout;
    if (b == NULL || mega_refuse_destroy(atomic_load(&b->users) > 0, "mega_layout_destroy", "the engine that made it"))
        return;
    comm_devices_close(b->group, MEGA_COMM_GROUPS);
    layout_free(b);
}

mega_users *mega_layout_users(mega_layout *layout)
{
    return layout != NULL ? &((layout_block *)layout)->users : NULL;
}
