/* What the search of a Unigram model reads: nodes with scores, and what its tokens have of each character. */
#include "megalith/utf8.h"
#include "tokenizer/pipeline.h"
#include <math.h>

static mega_status make_nodes(mega_pipeline *p)
{
    const uint32_t n = p->trie.units;
    mega_unigram_node *node = mega_malloc(n * sizeof *node);
    int32_t *id = mega_malloc(n * sizeof *id);
    p->node = node;
    p->node_id = id;
    p->nodes = n;
    if (node == NULL || id == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a vocabulary of %u nodes", n);
    for (uint32_t i = 0; i < n; i++) {
        const mega_trie_unit *u = &p->trie.unit[i];
        node[i] = (mega_unigram_node){u->base, u->parent, u->id >= 0 ? p->score[u->id] : -INFINITY};
        id[i] = u->id;
    }
    node[MEGA_TRIE_ROOT].score = -INFINITY;
    id[MEGA_TRIE_ROOT] = MEGA_UNIGRAM_UNKNOWN;
    mega_trie_fini(&p->trie);
    return MEGA_OK;
}

/* Returns whether the token is UTF-8. */
static bool nodes_note_characters(mega_pipeline *p, const mega_trie_key *k)
{
    uint32_t cp;
    for (size_t at = 0, next; at < k->size; at = next) {
        const int length = mega_utf8_decode((const uint8_t *)k->bytes + at, k->size - at, &cp);
        next = at + (size_t)length;
        if (length == 0) return false;
        uint8_t *of = cp < MEGA_CHARACTERS ? &p->characters[cp] : &p->wide_characters;
        *of |= (uint8_t)((at > 0 ? MEGA_JOINS_BEFORE : 0) | (next < k->size ? MEGA_JOINS_AFTER : 0) |
                         (at == 0 && next == k->size ? MEGA_IS_TOKEN : 0));
    }
    return true;
}

mega_status mega_unigram_prepare(mega_pipeline *p, const mega_trie_key *key, int64_t count)
{
    bool known = p->unknown >= 0; /* else the search must see each unknown character, to refuse it */
    MEGA_TRY(make_nodes(p));
    p->characters = mega_calloc(MEGA_CHARACTERS, 1);
    if (p->characters == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the characters of a vocabulary");
    for (int64_t i = 0; i < count; i++) {
        p->longest = key[i].size > p->longest ? key[i].size : p->longest;
        known = known && nodes_note_characters(p, &key[i]);
    }
    for (uint32_t cp = 0xD800; cp < 0xE000; cp++)
        p->characters[cp] = MEGA_IS_TOKEN; /* in UTF-8 these are no characters */
    if (known) return MEGA_OK;
    mega_free(p->characters);
    p->characters = NULL;
    return MEGA_OK;
}
