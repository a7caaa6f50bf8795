#include "vocabulary.h"
#include <string.h>

/* Processes eight bytes at a time; the hash is never stored, so it may change. */
static uint64_t token_hash(const char *bytes, size_t n)
{
    uint64_t h = n * 0xD6E8FEB86659FD93ull, part = 0;
    for (; n > 8; n -= 8, bytes += 8) {
        memcpy(&part, bytes, 8);
        h = (h ^ part) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 32;
    }
    part = 0;
    for (size_t i = 0; i < n; i++) part = part << 8 | (uint8_t)bytes[i];
    h = (h ^ part) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 29;
}

static bool is_token(const mega_vocabulary *v, const mega_token *token, const char *bytes, size_t n, bool raw)
{
    return token->size == n && ((token->flags & MEGA_TOKEN_RAW) != 0) == raw &&
           (n == 0 || memcmp(mega_token_bytes(v, token), bytes, n) == 0);
}

/* Returns the slot that holds the token, or the free slot for it. There is always a free slot. */
static uint64_t find_slot(const mega_vocabulary *v, const char *bytes, size_t n, bool raw)
{
    uint64_t s = token_hash(bytes, n) & (v->slots - 1);
    while (v->slot[s] >= 0 && !is_token(v, &v->token[v->slot[s]], bytes, n, raw)) s = (s + 1) & (v->slots - 1);
    return s;
}

/* Grows the table so that at least half of the slots stay free. */
static mega_status grow_slots(mega_vocabulary *v)
{
    if ((uint64_t)v->present * 2 < v->slots) return MEGA_OK;
    const uint64_t slots = v->slots == 0 ? 1024 : v->slots * 2;
    int32_t *slot = mega_malloc(slots * sizeof *slot);
    if (slot == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a vocabulary of %lld tokens", (long long)v->present);
    memset(slot, 0xFF, slots * sizeof *slot);
    mega_free(v->slot);
    v->slot = slot;
    v->slots = slots;
    for (int64_t id = 0; id < v->size; id++) {
        const mega_token *token = &v->token[id];
        if (token->flags == 0) continue;
        slot[find_slot(v, mega_token_bytes(v, token), token->size, (token->flags & MEGA_TOKEN_RAW) != 0)] = (int32_t)id;
    }
    return MEGA_OK;
}

static mega_status grow_tokens(mega_vocabulary *v, int64_t size)
{
    if (!mega_array_reserve(&v->token, &v->capacity, size, sizeof *v->token))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a vocabulary of %lld tokens", (long long)size);
    if (size > v->size) {
        memset(v->token + v->size, 0, (size_t)(size - v->size) * sizeof *v->token);
        v->size = size;
    }
    return MEGA_OK;
}

/* The shortest entry of a file, "a":1, has six bytes, so a vocabulary without gaps is far below this bound. */
void mega_vocabulary_bound(mega_vocabulary *v, size_t file_bytes)
{
    enum { GAPS = 1 << 18 };
    const size_t most = MEGA_MAX_VOCABULARY - GAPS;
    v->limit = (int64_t)(file_bytes < most ? file_bytes : most) + GAPS;
}

mega_status mega_vocabulary_add(mega_vocabulary *v, const char *bytes, size_t n, int64_t id, uint32_t flags)
{
    const int64_t limit = v->limit > 0 ? v->limit : MEGA_MAX_VOCABULARY;
    if (id < 0 || id >= limit)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "token '%.*s' has id %lld; ids are 0 to %lld%s", (int)n, bytes, (long long)id,
                         (long long)limit - 1, limit < MEGA_MAX_VOCABULARY ? " in a file of this size" : "");
    MEGA_TRY(grow_slots(v));
    MEGA_TRY(grow_tokens(v, id + 1));
    if (v->token[id].flags != 0)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "id %lld is given twice: to '%.*s' and to '%.*s'", (long long)id,
                         (int)v->token[id].size, mega_token_bytes(v, &v->token[id]), (int)n, bytes);
    const uint64_t s = find_slot(v, bytes, n, (flags & MEGA_TOKEN_RAW) != 0);
    if (v->slot[s] >= 0)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "token '%.*s' occurs twice, with ids %d and %lld", (int)n, bytes, v->slot[s],
                         (long long)id);
    const size_t begin = v->bytes.size;
    mega_buffer_append(&v->bytes, bytes, n);
    MEGA_TRY(mega_buffer_check(&v->bytes, "vocabulary"));
    v->token[id] = (mega_token){.begin = begin, .size = (uint32_t)n, .flags = flags | MEGA_TOKEN_PRESENT};
    v->slot[s] = (int32_t)id;
    v->present++;
    return MEGA_OK;
}

int32_t mega_vocabulary_find(const mega_vocabulary *v, const char *bytes, size_t n, bool raw)
{
    return v->slots == 0 ? -1 : v->slot[find_slot(v, bytes, n, raw)];
}

int32_t mega_vocabulary_find_near(const mega_vocabulary *v, const char *bytes, size_t n, int64_t guess)
{
    const mega_token *token = mega_vocabulary_get(v, guess);
    return token != NULL && is_token(v, token, bytes, n, false) ? (int32_t)guess
                                                                : mega_vocabulary_find(v, bytes, n, false);
}

const mega_token *mega_vocabulary_get(const mega_vocabulary *v, int64_t id)
{
    return id < 0 || id >= v->size || v->token[id].flags == 0 ? NULL : &v->token[id];
}

size_t mega_vocabulary_bytes(const mega_vocabulary *v)
{
    return v->bytes.capacity + (size_t)v->capacity * sizeof *v->token + v->slots * sizeof *v->slot;
}

void mega_vocabulary_fini(mega_vocabulary *v)
{
    mega_buffer_fini(&v->bytes);
    MEGA_FREE(v->token, v->slot);
    *v = (mega_vocabulary){0};
}

mega_status mega_merges_add(mega_merges *m, int32_t left, int32_t right, int32_t id)
{
    return mega_merges_add_ranked(m, left, right, id, (int32_t)m->count);
}

mega_status mega_merges_add_ranked(mega_merges *m, int32_t left, int32_t right, int32_t id, int32_t rank)
{
    if (m->count >= MEGA_MAX_VOCABULARY * 8LL ||
        !mega_array_reserve(&m->list, &m->capacity, m->count + 1, sizeof *m->list))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for more than %lld merges", (long long)m->count);
    m->list[m->count] = (mega_merge){left, right, rank, id};
    m->count++;
    return MEGA_OK;
}

mega_status mega_merges_seal(mega_merges *m)
{
    if (m->count == 0) return MEGA_OK;
    uint64_t slots = 16;
    while (slots < (uint64_t)m->count * 2) slots *= 2;
    m->slot = mega_malloc(slots * sizeof *m->slot);
    if (m->slot == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %lld merges", (long long)m->count);
    m->slots = slots;
    memset(m->slot, 0xFF, slots * sizeof *m->slot);
    for (int64_t i = 0; i < m->count; i++) {
        const mega_merge *merge = &m->list[i];
        uint64_t s = mega_pair_hash(merge->left, merge->right) & (slots - 1);
        while (m->slot[s].left >= 0 && (m->slot[s].left != merge->left || m->slot[s].right != merge->right))
            s = (s + 1) & (slots - 1);
        m->slot[s] = *merge;
    }
    return MEGA_OK;
}

size_t mega_merges_bytes(const mega_merges *m)
{
    return (size_t)m->capacity * sizeof *m->list + m->slots * sizeof *m->slot;
}

void mega_merges_fini(mega_merges *m)
{
    MEGA_FREE(m->list, m->slot);
    *m = (mega_merges){0};
}
