/* Compares lists over ranks: by a hash; if it differs, by bisection for the first item that differs. */
#include "megalith/compare.h"
#include "megalith/hash.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <string.h>

static uint64_t compared_hash(const mega_compared *l, int64_t begin, int64_t end)
{
    if (end > l->count) end = l->count;
    return l->hash(l->list, begin < end ? begin : end, end);
}

/* Returns in *out whether all members have the same number. */
static mega_status compared_is_same(mega_comm *comm, uint64_t number, bool *out)
{
    const int64_t n = (int64_t)number;
    int64_t ends[2] = {n, ~n}; /* the maximum of the complement gives the minimum */
    MEGA_TRY(mega_comm_all_reduce(comm, "comparison of ranks", ends, 2, MEGA_I64, MEGA_REDUCE_MAX));
    *out = ends[0] == ~ends[1];
    return MEGA_OK;
}

/* Finds the first item at or after `begin` that differs; -1: none. `most` is the length of the longest list. */
static mega_status find_difference(mega_comm *comm, const mega_compared *l, int64_t begin, int64_t most, int64_t *out)
{
    int64_t least = begin;
    bool equal;
    *out = -1;
    MEGA_TRY(compared_is_same(comm, compared_hash(l, begin, INT64_MAX), &equal));
    if (equal) return MEGA_OK;
    while (least < most) { /* items begin … least - 1 are equal everywhere, begin … most are not */
        const int64_t half = least + (most - least) / 2;
        MEGA_TRY(compared_is_same(comm, compared_hash(l, begin, half + 1), &equal));
        if (equal) least = half + 1;
        else
            most = half;
    }
    *out = least;
    return MEGA_OK;
}

/* Appends item i as the first rank has it, and as each rank that differs from the first has it. */
static mega_status describe_item(mega_comm *comm, const mega_compared *l, int64_t i, char *all, mega_buffer *text)
{
    char mine[MEGA_COMPARED_TEXT] = "";
    if (i < l->count) l->describe(l->list, i, mine);
    else
        snprintf(mine, sizeof mine, "no more %ss", l->item);
    MEGA_TRY(mega_comm_all_gather(comm, "the differences between ranks", all, mine, MEGA_COMPARED_TEXT, MEGA_U8));
    for (int r = 0; r < mega_comm_size(comm); r++)
        if (r == 0 || strncmp(all, all + (size_t)r * MEGA_COMPARED_TEXT, MEGA_COMPARED_TEXT) != 0)
            mega_buffer_printf(text, "\n  rank %d of the group: %s", r, all + (size_t)r * MEGA_COMPARED_TEXT);
    return MEGA_OK;
}

static mega_status describe_items(mega_comm *comm, const mega_compared *l, int64_t i, int64_t most, char *all)
{
    mega_buffer text = {0};
    mega_status st = MEGA_OK;
    mega_buffer_printf(&text, "group %s: its ranks have different %s", mega_comm_name(comm), l->what);
    if (!l->is_independent) mega_buffer_printf(&text, ", from %s %lld on", l->item, (long long)i + 1);
    mega_buffer_puts(&text, ":");
    for (int named = 0; st == MEGA_OK && i >= 0 && named < MEGA_COMPARED_MOST; named++) {
        st = describe_item(comm, l, i, all, &text);
        if (!l->is_independent) break;
        if (st == MEGA_OK) st = find_difference(comm, l, i + 1, most, &i);
    }
    if (st == MEGA_OK)
        st = MEGA_FAIL(MEGA_ERR_COMM, "%s\n  %s", text.failed ? "ranks differ" : text.data,
                       l->remedy != NULL ? l->remedy : "start all ranks with one program and the same options");
    mega_buffer_fini(&text);
    return st;
}

mega_status mega_comm_compare(mega_comm *comm, const mega_compared *mine)
{
    int64_t most = mine->count, first;
    bool equal;
    MEGA_TRY(compared_is_same(comm, compared_hash(mine, 0, INT64_MAX), &equal));
    if (equal) return MEGA_OK;
    MEGA_TRY(mega_comm_all_reduce(comm, "comparison of ranks", &most, 1, MEGA_I64, MEGA_REDUCE_MAX));
    MEGA_TRY(find_difference(comm, mine, 0, most, &first));
    char *all = mega_calloc((size_t)mega_comm_size(comm), MEGA_COMPARED_TEXT);
    if (all == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "comparison of ranks: no memory for %d descriptions", mega_comm_size(comm));
    const mega_status st = describe_items(comm, mine, first, most, all);
    mega_free(all);
    return st;
}

static uint64_t hash_lines(const void *list, int64_t begin, int64_t end)
{
    const mega_list *l = list;
    uint64_t hash = MEGA_HASH_START;
    for (int64_t i = begin; i < end; i++) hash = mega_hash64(hash, l->item[i], strlen(l->item[i]) + 1);
    return hash;
}

/* A long value, such as a blend of many data sets, is cut in the middle; its hash then shows that it is another. */
static void describe_line(const void *list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    enum { HEAD = 300, TAIL = 100 };
    const mega_list *l = list;
    const char *text = l->item[i];
    const size_t bytes = strlen(text);
    if (bytes < MEGA_COMPARED_TEXT) memcpy(out, text, bytes + 1);
    else
        snprintf(out, MEGA_COMPARED_TEXT, "%.*s … %s (%zu characters, hash %016llx)", HEAD, text, text + bytes - TAIL,
                 bytes, (unsigned long long)mega_hash64(MEGA_HASH_START, text, bytes));
}

mega_status mega_comm_compare_lines(mega_comm *ranks, const char *what, const char *remedy, const mega_list *l)
{
    const mega_compared c = {.what = what,
                             .item = "line",
                             .remedy = remedy,
                             .is_independent = true,
                             .list = l,
                             .count = (int64_t)l->count,
                             .hash = hash_lines,
                             .describe = describe_line};
    return mega_comm_compare(ranks, &c);
}
