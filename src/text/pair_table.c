#include "pair_table.h"
#include <string.h>

/* Ids stay below 0xFFFF, so that no key is all ones. */
static bool fits(const mega_merges *m, const int32_t byte_id[256])
{
    if (m->count == 0 || m->count >= MEGA_NO_RANK) return false;
    for (int b = 0; b < 256; b++)
        if (byte_id[b] < 0 || byte_id[b] >= 0xFFFF) return false;
    for (int64_t i = 0; i < m->count; i++)
        if (m->list[i].left >= 0xFFFF || m->list[i].right >= 0xFFFF || m->list[i].id >= 0xFFFF) return false;
    return true;
}

static void insert(mega_pair_table *t, const mega_merge *m)
{
    const uint32_t key = (uint32_t)m->left << 16 | (uint32_t)m->right, mask = UINT32_MAX >> t->shift;
    uint32_t s = (key * 0x9E3779B1u) >> t->shift;
    /* Of a pair that is listed twice the later rank holds. */
    while (t->slot[s] != UINT64_MAX && (uint32_t)(t->slot[s] >> 32) != key) s = (s + 1) & mask;
    t->slot[s] = (uint64_t)key << 32 | (uint32_t)m->id << 16 | (uint32_t)m->rank;
}

mega_status mega_pair_table_init(mega_pair_table *t, const mega_merges *merges, const int32_t byte_id[256])
{
    *t = (mega_pair_table){0};
    if (!fits(merges, byte_id)) return MEGA_OK;
    int log2 = 8;
    while ((int64_t)1 << log2 < merges->count * 2) log2++;
    t->shift = 32 - log2;
    const size_t bytes = sizeof *t->slot << log2;
    t->slot = mega_malloc(bytes);
    t->byte = mega_malloc(65536 * sizeof *t->byte);
    if (t->slot == NULL || t->byte == NULL) {
        mega_pair_table_fini(t);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %lld merges", (long long)merges->count);
    }
    memset(t->slot, 0xFF, bytes);
    memset(t->byte, 0xFF, 65536 * sizeof *t->byte);
    for (int64_t i = 0; i < merges->count; i++) insert(t, &merges->list[i]);
    for (int b = 0; b < 256; b++) t->id[b] = (uint16_t)byte_id[b];
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) t->byte[a << 8 | b] = mega_pair_table_find(t, t->id[a], t->id[b]);
    return MEGA_OK;
}

void mega_pair_table_fini(mega_pair_table *t)
{
    mega_free(t->slot);
    mega_free(t->byte);
    *t = (mega_pair_table){0};
}
