/* Comparing lists over ranks: by a hash; where it differs, by halves until the first item that does. */
#include "megalith/compare.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <string.h>

static uint64_t hash_of(const mega_compared *l, int64_t first)
{
    return l->hash(l->of, first < l->count ? first : l->count);
}

/* Whether all members have the same number. */
static mega_status same(mega_comm *comm, uint64_t number, bool *out)
{
    const int64_t half = (int64_t)(number >> 1); /* so that its negative is a number, too */
    int64_t ends[2] = {half, -half};
    MEGA_TRY(mega_comm_all_reduce(comm, "comparison of programs", ends, 2, MEGA_I64, MEGA_REDUCE_MAX));
    *out = ends[0] == -ends[1];
    return MEGA_OK;
}

/* Everyone's i-th, and who differs from the first. */
static mega_status tell(mega_comm *comm, const mega_compared *l, int64_t i)
{
    const int size = mega_comm_size(comm);
    char mine[MEGA_COMPARED_TEXT] = "", *all = mega_calloc((size_t)size, MEGA_COMPARED_TEXT);
    mega_buffer text = {0};
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "comparison of programs: no memory for %d ranks", size);
    if (i < l->count) l->describe(l->of, i, mine);
    else
        snprintf(mine, sizeof mine, "no more %ss", l->item);
    mega_status st = mega_comm_all_gather(comm, "programs that differ", all, mine, MEGA_COMPARED_TEXT, MEGA_U8);
    mega_buffer_printf(&text, "group %s: its ranks have different %s, from %s %lld on:", mega_comm_name(comm), l->what,
                       l->item, (long long)i + 1);
    for (int r = 0; r < size; r++)
        if (r == 0 || strncmp(all, all + (size_t)r * MEGA_COMPARED_TEXT, MEGA_COMPARED_TEXT) != 0)
            mega_buffer_printf(&text, "\n  rank %d of the group: %s", r, all + (size_t)r * MEGA_COMPARED_TEXT);
    if (st == MEGA_OK)
        st = MEGA_FAIL(MEGA_ERR_COMM, "%s\n  start all ranks with one program and the same options",
                       text.failed ? "ranks have different programs" : text.data);
    mega_buffer_fini(&text);
    mega_free(all);
    return st;
}

mega_status mega_comm_compare(mega_comm *comm, const mega_compared *mine)
{
    int64_t least = 0, most = mine->count;
    bool equal;
    MEGA_TRY(same(comm, hash_of(mine, INT64_MAX), &equal));
    if (equal) return MEGA_OK;
    MEGA_TRY(mega_comm_all_reduce(comm, "comparison of programs", &most, 1, MEGA_I64, MEGA_REDUCE_MAX));
    while (least < most) { /* the first `least` are the same everywhere, the first `most` + 1 are not */
        const int64_t half = least + (most - least) / 2;
        MEGA_TRY(same(comm, hash_of(mine, half + 1), &equal));
        if (equal) least = half + 1;
        else
            most = half;
    }
    return tell(comm, mine, least);
}
