/* What Punkt knows of types of words, and of pairs of them: two hash tables. */
#include "punkt_impl.h"
#include <string.h>

void punkt_table_fini(punkt_table *t)
{
    mega_buffer_fini(&t->names);
    MEGA_FREE(t->type, t->pair, t->type_slot, t->pair_slot);
    *t = (punkt_table){.types = 0};
}

static uint64_t punkt_hash(const char *name, size_t bytes)
{
    uint64_t h = bytes * 0x9e3779b97f4a7c15u, eight = 0;
    for (; bytes >= 8; name += 8, bytes -= 8) {
        memcpy(&eight, name, 8);
        h = (h ^ eight) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    for (eight = 0; bytes > 0; bytes--) eight = eight << 8 | (uint8_t)name[bytes - 1];
    h = (h ^ eight) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

static uint64_t hash_of_pair(uint64_t first, uint64_t second)
{
    const uint64_t h = (first << 32 | second) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 31;
}

void punkt_prefetch(const punkt_table *t, const char *name, size_t bytes)
{
    if (t->type_slots > 0) __builtin_prefetch(&t->type_slot[punkt_hash(name, bytes) & (uint64_t)(t->type_slots - 1)]);
}

int64_t punkt_find(const punkt_table *t, const char *name, size_t bytes)
{
    if (t->type_slots == 0) return -1;
    const uint64_t hash = punkt_hash(name, bytes);
    for (uint64_t at = hash;; at++) {
        const uint64_t slot = t->type_slot[at & (uint64_t)(t->type_slots - 1)];
        if (slot == 0) return -1;
        if ((slot ^ hash) >> 32 != 0) continue;
        const int64_t number = (int64_t)(uint32_t)slot - 1;
        const punkt_type *type = &t->type[number];
        if (type->name_bytes == bytes && memcmp(t->names.data + type->name, name, bytes) == 0) return number;
    }
}

int64_t punkt_find_pair(const punkt_table *t, int64_t first, int64_t second)
{
    if (t->pair_slots == 0 || first < 0 || second < 0) return -1;
    const uint64_t hash = hash_of_pair((uint64_t)first, (uint64_t)second);
    for (uint64_t at = hash;; at++) {
        const uint64_t slot = t->pair_slot[at & (uint64_t)(t->pair_slots - 1)];
        if (slot == 0) return -1;
        if ((slot ^ hash) >> 32 != 0) continue;
        const int64_t number = (int64_t)(uint32_t)slot - 1;
        if (t->pair[number].first == first && t->pair[number].second == second) return number;
    }
}

static void put_slot(uint64_t *slot, int64_t slots, uint64_t hash, int64_t number)
{
    uint64_t at = hash & (uint64_t)(slots - 1);
    while (slot[at] != 0) at = (at + 1) & (uint64_t)(slots - 1);
    slot[at] = (hash >> 32 << 32) | (uint64_t)(number + 1);
}

/* Keeps at least half of the slots empty. */
static bool widen(punkt_table *t, uint64_t **slot, int64_t *slots, int64_t items, bool pairs)
{
    if (items * 2 < *slots) return true;
    const int64_t wide = *slots == 0 ? 1024 : *slots * 2;
    uint64_t *fresh = mega_calloc((size_t)wide, sizeof *fresh);
    if (fresh == NULL) return false;
    for (int64_t i = 0; i < items; i++)
        put_slot(fresh, wide, pairs ? hash_of_pair(t->pair[i].first, t->pair[i].second) : t->type[i].hash, i);
    mega_free(*slot);
    *slot = fresh;
    *slots = wide;
    return true;
}

int64_t punkt_add(punkt_table *t, const char *name, size_t bytes)
{
    const int64_t there = punkt_find(t, name, bytes);
    if (there >= 0) return there;
    const size_t at = t->names.size;
    if (at + bytes > UINT32_MAX || t->types >= INT32_MAX || !widen(t, &t->type_slot, &t->type_slots, t->types, false) ||
        !mega_array_reserve(&t->type, &t->type_capacity, t->types + 1, sizeof *t->type) ||
        !mega_buffer_reserve(&t->names, bytes + 1) || !mega_buffer_append(&t->names, name, bytes))
        return -1;
    t->type[t->types] =
        (punkt_type){.hash = punkt_hash(name, bytes), .name = (uint32_t)at, .name_bytes = (uint32_t)bytes};
    put_slot(t->type_slot, t->type_slots, t->type[t->types].hash, t->types);
    return t->types++;
}

int64_t punkt_add_pair(punkt_table *t, int64_t first, int64_t second)
{
    const int64_t there = punkt_find_pair(t, first, second);
    if (there >= 0) return there;
    if (first < 0 || second < 0 || t->pairs >= INT32_MAX || !widen(t, &t->pair_slot, &t->pair_slots, t->pairs, true) ||
        !mega_array_reserve(&t->pair, &t->pair_capacity, t->pairs + 1, sizeof *t->pair))
        return -1;
    t->pair[t->pairs] = (punkt_pair){.first = (uint32_t)first, .second = (uint32_t)second};
    put_slot(t->pair_slot, t->pair_slots, hash_of_pair((uint64_t)first, (uint64_t)second), t->pairs);
    return t->pairs++;
}
