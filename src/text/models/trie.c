#include "trie.h"
#include <stdlib.h>
#include <string.h>

/* The children of a node are in one block of 256 units. Only the last blocks are searched for room, so that the time is
 * proportional to the number of nodes; nodes with one child fill the gaps. */
enum { BLOCK = 256, SEARCHED = 16, FREE_WORDS = BLOCK / 64 };

typedef struct open_node {
    uint32_t node, depth;
    int64_t first, end; /* its keys */
} open_node;

typedef struct trie_builder {
    mega_trie *t;
    const mega_trie_key *key;
    int64_t unit_capacity;
    uint64_t free[SEARCHED][FREE_WORDS]; /* by block % SEARCHED: a bit for each free unit */
    open_node *open;
    int64_t count, open_capacity;
} trie_builder;

static int compare_keys(const void *a, const void *b)
{
    const mega_trie_key *x = a, *y = b;
    const uint32_t n = x->size < y->size ? x->size : y->size;
    const int order = n > 0 ? memcmp(x->bytes, y->bytes, n) : 0;
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

static mega_status trie_no_memory(const trie_builder *b)
{
    return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a vocabulary of %u units", b->t->units);
}

static mega_status trie_add_block(trie_builder *b)
{
    mega_trie *t = b->t;
    if (t->units > UINT32_MAX - 2 * BLOCK ||
        !mega_array_reserve(&t->unit, &b->unit_capacity, (int64_t)t->units + BLOCK, sizeof *t->unit))
        return trie_no_memory(b);
    for (int i = 0; i < BLOCK; i++) t->unit[t->units + i] = (mega_trie_unit){.parent = UINT32_MAX, .id = -1};
    memset(b->free[t->units / BLOCK % SEARCHED], 0xFF, sizeof b->free[0]);
    t->units += BLOCK;
    return MEGA_OK;
}

static bool is_free(const uint64_t *free, unsigned unit)
{
    return (free[unit / 64] >> unit % 64 & 1) != 0;
}

/* Finds a base inside a block such that all children have free units. */
static bool fits_block(const uint64_t *free, const uint8_t *label, int labels, unsigned *base)
{
    for (int w = 0; w < FREE_WORDS; w++) {
        for (uint64_t left = free[w]; left != 0; left &= left - 1) {
            int i = 1;
            *base = (unsigned)(64 * w + __builtin_ctzll(left)) ^ label[0];
            while (i < labels && is_free(free, *base ^ label[i])) i++;
            if (i == labels) return true;
        }
    }
    return false;
}

static mega_status place_children(trie_builder *b, uint32_t node, const uint8_t *label, int labels)
{
    const uint32_t blocks = b->t->units / BLOCK;
    uint32_t block = blocks > SEARCHED ? blocks - SEARCHED : 0;
    unsigned base = 0;
    while (block < blocks && !fits_block(b->free[block % SEARCHED], label, labels, &base)) block++;
    if (block == blocks) {
        MEGA_TRY(trie_add_block(b));
        base = label[0]; /* any base fits an empty block */
    }
    mega_trie_unit *unit = b->t->unit;
    unit[node].base = block * BLOCK + base;
    for (int i = 0; i < labels; i++) {
        const unsigned at = base ^ label[i];
        b->free[block % SEARCHED][at / 64] &= ~((uint64_t)1 << at % 64);
        unit[block * BLOCK + at].parent = node;
    }
    return MEGA_OK;
}

static mega_status push(trie_builder *b, open_node n)
{
    if (!mega_array_reserve(&b->open, &b->open_capacity, b->count + 1, sizeof *b->open)) return trie_no_memory(b);
    b->open[b->count++] = n;
    return MEGA_OK;
}

/* Gives a node its id and children; its keys share their first `depth` bytes. */
static mega_status trie_expand_node(trie_builder *b, open_node n)
{
    uint8_t label[BLOCK];
    int labels = 0;
    while (n.first < n.end && b->key[n.first].size == n.depth) b->t->unit[n.node].id = b->key[n.first++].id;
    for (int64_t i = n.first; i < n.end; i++) {
        const uint8_t byte = (uint8_t)b->key[i].bytes[n.depth];
        if (labels == 0 || label[labels - 1] != byte) label[labels++] = byte;
    }
    if (labels == 0) return MEGA_OK;
    MEGA_TRY(place_children(b, n.node, label, labels));
    for (int64_t i = n.first, end; i < n.end; i = end) {
        const uint8_t byte = (uint8_t)b->key[i].bytes[n.depth];
        end = i + 1;
        while (end < n.end && (uint8_t)b->key[end].bytes[n.depth] == byte) end++;
        MEGA_TRY(push(b, (open_node){b->t->unit[n.node].base ^ byte, n.depth + 1, i, end}));
    }
    return MEGA_OK;
}

mega_status mega_trie_build(mega_trie *t, mega_trie_key *key, int64_t count)
{
    trie_builder b = {.t = t, .key = key};
    *t = (mega_trie){0};
    if (count > 0) qsort(key, (size_t)count, sizeof *key, compare_keys);
    mega_status st = trie_add_block(&b);
    if (st == MEGA_OK) {
        b.free[0][0] &= ~(uint64_t)1; /* the root; as base 0 it is nobody's child */
        st = push(&b, (open_node){MEGA_TRIE_ROOT, 0, 0, count});
    }
    while (st == MEGA_OK && b.count > 0) st = trie_expand_node(&b, b.open[--b.count]);
    mega_free(b.open);
    return st;
}

void mega_trie_fini(mega_trie *t)
{
    mega_free(t->unit);
    *t = (mega_trie){0};
}
