#include "pair_table.h"
#include <string.h>

enum { HUGE_PAGE = 1 << 21, MOST_MERGES = 1 << 18 };

/* Ids must stay below 0xFFFF, so that no key has all bits set. */
static bool table_fits(const mega_merges *m, const int32_t byte_id[256])
{
    if (m->count == 0 || m->count >= MOST_MERGES) return false;
    for (int b = 0; b < 256; b++)
        if (byte_id[b] < 0 || byte_id[b] >= 0xFFFF) return false;
    for (int64_t i = 0; i < m->count; i++)
        if (m->list[i].left >= 0xFFFF || m->list[i].right >= 0xFFFF || m->list[i].id >= 0xFFFF ||
            m->list[i].rank >= MEGA_NO_RANK)
            return false;
    return true;
}

/* If a pair is listed twice, the later rank counts. */
static void table_insert(mega_pair_table *t, const mega_merge *m)
{
    const uint32_t key = (uint32_t)m->left << 16 | (uint32_t)m->right, mask = UINT32_MAX >> t->shift;
    const uint32_t bit = (key * 0x9E3779B1u) >> (t->shift - MEGA_PAIR_FILTER);
    t->filter[bit / 32] |= 1u << bit % 32;
    uint32_t s = mega_pair_table_bucket(t, key);
    while (t->slot[s] != UINT64_MAX && (uint32_t)(t->slot[s] >> 32) != key) s = (s + 1) & mask;
    t->slot[s] = (uint64_t)key << 32 | (uint32_t)m->id << 16 | (uint32_t)m->rank;
}

static size_t filter_bytes(const mega_pair_table *t)
{
    return (size_t)1 << (32 - t->shift + MEGA_PAIR_FILTER) >> 3;
}

static size_t block_bytes(const mega_pair_table *t)
{
    const size_t bytes = filter_bytes(t) + (sizeof *t->slot << (32 - t->shift)) + 65536 * sizeof *t->byte;
    return bytes < HUGE_PAGE ? HUGE_PAGE : bytes;
}

size_t mega_pair_table_bytes(const mega_pair_table *t)
{
    return t->block == NULL ? 0 : block_bytes(t);
}

mega_status mega_pair_table_init(mega_pair_table *t, const mega_merges *merges, const int32_t byte_id[256])
{
    *t = (mega_pair_table){0};
    if (!table_fits(merges, byte_id)) return MEGA_OK;
    int log2 = 8;
    while ((int64_t)1 << log2 < merges->count * 2) log2++;
    t->shift = 32 - log2;
    MEGA_TRY(mega_pages_alloc(&t->block, block_bytes(t), "table of merges"));
    t->slot = t->block;
    t->byte = (uint32_t *)(t->slot + ((size_t)1 << log2));
    t->filter = t->byte + 65536;
    memset(t->slot, 0xFF, sizeof *t->slot << log2);
    for (int64_t i = 0; i < merges->count; i++) table_insert(t, &merges->list[i]);
    for (int b = 0; b < 256; b++) t->id[b] = (uint16_t)byte_id[b];
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) t->byte[a << 8 | b] = mega_pair_table_find(t, t->id[a], t->id[b]);
    return MEGA_OK;
}

void mega_pair_table_fini(mega_pair_table *t)
{
    if (t->block != NULL) mega_pages_free(t->block, block_bytes(t));
    *t = (mega_pair_table){0};
}
