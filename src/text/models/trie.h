/* A set of strings with ids as a double-array trie: one unit for each node; the child of a node by a byte is the unit
 * at base ^ byte, if that unit has the node as its parent. */
#ifndef MEGALITH_TEXT_TRIE_H
#define MEGALITH_TEXT_TRIE_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct mega_trie_unit {
    uint32_t base;
    uint32_t parent; /* UINT32_MAX: a free unit, or the root */
    int32_t id;      /* of the string that ends here; -1: none does */
} mega_trie_unit;

/* Zero-initialised is valid, but has no root: do not step in it. */
typedef struct mega_trie {
    mega_trie_unit *unit;
    uint32_t units; /* a multiple of 256 */
} mega_trie;

typedef struct mega_trie_key {
    const char *bytes; /* borrowed */
    uint32_t size;
    int32_t id;
} mega_trie_key;

#define MEGA_TRIE_ROOT 0u
#define MEGA_TRIE_NONE UINT32_MAX /* no node */

/* Builds the trie of some keys, and sorts them. Of equal keys one counts. Also for no keys. Returns MEGA_ERR_MEMORY. */
mega_status mega_trie_build(mega_trie *t, mega_trie_key *key, int64_t count);
void mega_trie_fini(mega_trie *t);
static inline size_t mega_trie_bytes(const mega_trie *t)
{
    return (size_t)t->units * sizeof *t->unit;
}

/* Goes to the child of a node; returns false, and stays, if there is none. */
static inline bool mega_trie_step(const mega_trie *t, uint32_t *node, uint8_t byte)
{
    const uint32_t next = t->unit[*node].base ^ byte;
    if (t->unit[next].parent != *node) return false;
    *node = next;
    return true;
}

#endif
