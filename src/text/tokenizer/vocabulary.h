/* Tokens by id and ids by token, and the merges of byte-pair encoding. Both are filled once and then only read. */
#ifndef MEGALITH_TEXT_VOCABULARY_H
#define MEGALITH_TEXT_VOCABULARY_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { MEGA_MAX_VOCABULARY = 1 << 24 }; /* larger ids in a file count as damage */

enum {
    MEGA_TOKEN_PRESENT = 1, /* not set for gaps between the ids of a file */
    MEGA_TOKEN_RAW = 2,     /* its text is not in GPT-2's byte alphabet, and merges never create it */
    MEGA_TOKEN_SPECIAL = 4,
    MEGA_TOKEN_CONTROL = 8 /* SentencePiece: not shown, and not found in text */
};

typedef struct mega_token {
    size_t begin;
    uint32_t size, flags;
} mega_token;

typedef struct mega_vocabulary {
    mega_buffer bytes;             /* the bytes of all tokens */
    mega_token *token;             /* by id */
    int64_t size, capacity, limit; /* limit: all ids must be below it; 0 means MEGA_MAX_VOCABULARY */
    int32_t *slot;                 /* open addressing: id, or -1 */
    uint64_t slots;
    int64_t present;
} mega_vocabulary;

/* Call it before adding ids of a file with this number of bytes: ids may have gaps, but a short file must not create a
 * table of hundreds of megabytes. */
void mega_vocabulary_bound(mega_vocabulary *v, size_t file_bytes);
/* Returns MEGA_ERR_FORMAT, without the file's name (callers prepend it), if the id or the token is already used. */
mega_status mega_vocabulary_add(mega_vocabulary *v, const char *bytes, size_t n, int64_t id, uint32_t flags);
/* Returns -1 if the token is missing. Raw and other tokens are separate name spaces. */
int32_t mega_vocabulary_find(const mega_vocabulary *v, const char *bytes, size_t n, bool raw);
/* The same for tokens that are not raw; checks first whether it is `guess`, which may be any number. */
int32_t mega_vocabulary_find_near(const mega_vocabulary *v, const char *bytes, size_t n, int64_t guess);
/* Returns NULL for a gap or an id out of range. */
const mega_token *mega_vocabulary_get(const mega_vocabulary *v, int64_t id);
static inline const char *mega_token_bytes(const mega_vocabulary *v, const mega_token *token)
{
    return v->bytes.data + token->begin;
}
size_t mega_vocabulary_bytes(const mega_vocabulary *v);
void mega_vocabulary_fini(mega_vocabulary *v);

typedef struct mega_merge {
    int32_t left, right, rank, id; /* left -1: a free slot */
} mega_merge;

typedef struct mega_merges {
    mega_merge *list; /* by rank, except where ranks are given */
    int64_t count, capacity;
    mega_merge *slot; /* by (left, right); built by mega_merges_seal */
    uint64_t slots;
} mega_merges;

mega_status mega_merges_add(mega_merges *m, int32_t left, int32_t right, int32_t id);
/* The same with a rank, which several pairs may share if they become the same token. */
mega_status mega_merges_add_ranked(mega_merges *m, int32_t left, int32_t right, int32_t id, int32_t rank);
/* Call it after the last add. If a pair is listed twice, the later rank counts, as in the original. */
mega_status mega_merges_seal(mega_merges *m);
size_t mega_merges_bytes(const mega_merges *m);
void mega_merges_fini(mega_merges *m);

static inline uint64_t mega_pair_hash(int32_t left, int32_t right)
{
    const uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 32;
}

/* Returns rank << 32 | id of the merged pair; UINT64_MAX if the pair is not merged. */
static inline uint64_t mega_merges_find(const mega_merges *m, int32_t left, int32_t right)
{
    if (m->slots == 0) return UINT64_MAX;
    for (uint64_t s = mega_pair_hash(left, right) & (m->slots - 1);; s = (s + 1) & (m->slots - 1)) {
        const mega_merge *merge = &m->slot[s];
        if (merge->left == left && merge->right == right) return (uint64_t)merge->rank << 32 | (uint32_t)merge->id;
        if (merge->left < 0) return UINT64_MAX;
    }
}

#endif
