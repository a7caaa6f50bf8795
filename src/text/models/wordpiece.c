/* WordPiece: the longest token at the begin of a word, then again for what is left of it. */
#include "encoder.h"
#include "megalith/utf8.h"

int64_t mega_encoder_wordpiece(const mega_pipeline *p, const uint8_t *word, size_t n, int32_t *out)
{
    const mega_trie *t = &p->trie;
    int64_t count = 0;
    uint32_t root = MEGA_TRIE_ROOT;
    /* a word has no more characters than bytes */
    const bool too_long = (int64_t)n > p->longest_word && mega_utf8_count((const char *)word, n) > p->longest_word;
    for (size_t at = 0, end = 0; at < n && !too_long; at = end) {
        int32_t best = -1;
        uint32_t node = root;
        for (size_t i = at; i < n && mega_trie_step(t, &node, word[i]); i++) {
            if (t->unit[node].id < 0) continue;
            best = t->unit[node].id;
            end = i + 1;
        }
        if (best < 0) break;
        out[count++] = best;
        if (end == n) return count;
        root = p->continued;
        if (root == MEGA_TRIE_NONE) break;
    }
    out[0] = p->unknown;
    return 1;
}
