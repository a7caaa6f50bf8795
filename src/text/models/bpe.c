#include "bpe.h"
#include <string.h>

enum { SCAN_LIMIT = 64 }; /* longest word, in symbols, for which the scan is faster than the heap */

static bool bpe_regrow(void *block, size_t item, int64_t count)
{
    void *grown = mega_realloc(*(void **)block, item * (size_t)count);
    if (grown != NULL) *(void **)block = grown;
    return grown != NULL;
}

mega_status mega_bpe_reserve(mega_bpe *b, int64_t symbols)
{
    if (symbols <= b->capacity) return MEGA_OK;
    if (symbols > INT32_MAX / 2)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "found a word of %lld bytes without a blank; expected at most %d bytes",
                         (long long)symbols, INT32_MAX / 2);
    const int64_t capacity = symbols < 256 ? 256 : symbols + symbols / 2;
    if (!bpe_regrow(&b->symbol, sizeof *b->symbol, capacity) || !bpe_regrow(&b->pair, sizeof *b->pair, capacity))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to encode a word of %lld bytes", (long long)symbols);
    b->capacity = capacity;
    return MEGA_OK;
}

static mega_status reserve_long(mega_bpe *b)
{
    if (b->capacity <= b->long_capacity) return MEGA_OK;
    /* Each of n positions enters the heap once, and each of at most n merges adds two. */
    if (!bpe_regrow(&b->prev, sizeof *b->prev, b->capacity) || !bpe_regrow(&b->next, sizeof *b->next, b->capacity) ||
        !bpe_regrow(&b->heap, sizeof *b->heap, b->capacity * 3))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to encode a word of %lld bytes", (long long)b->capacity);
    b->long_capacity = b->capacity;
    return MEGA_OK;
}

void mega_bpe_fini(mega_bpe *b)
{
    MEGA_FREE(b->symbol, b->pair, b->prev, b->next, b->heap);
    *b = (mega_bpe){0};
}

int64_t mega_bpe_merge_scan(mega_bpe *b, const mega_merges *merges, int64_t n)
{
    int32_t *symbol = b->symbol;
    uint64_t *pair = b->pair;
    for (int64_t i = 0; i + 1 < n; i++) pair[i] = mega_merges_find(merges, symbol[i], symbol[i + 1]);
    while (n > 1) {
        int64_t at = 0;
        for (int64_t i = 1; i + 1 < n; i++)
            if (pair[i] < pair[at]) at = i;
        if (pair[at] == UINT64_MAX) break;
        symbol[at] = (int32_t)(pair[at] & 0xFFFFFFFFu);
        n--;
        memmove(symbol + at + 1, symbol + at + 2, (size_t)(n - at - 1) * sizeof *symbol);
        if (at + 1 < n) {
            memmove(pair + at + 1, pair + at + 2, (size_t)(n - at - 2) * sizeof *pair);
            pair[at] = mega_merges_find(merges, symbol[at], symbol[at + 1]);
        }
        if (at > 0) pair[at - 1] = mega_merges_find(merges, symbol[at - 1], symbol[at]);
    }
    return n;
}

static void heap_push(uint64_t *heap, int64_t *count, uint64_t entry)
{
    int64_t i = (*count)++;
    for (; i > 0 && heap[(i - 1) / 2] > entry; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = entry;
}

static uint64_t heap_pop(uint64_t *heap, int64_t *count)
{
    const uint64_t top = heap[0], last = heap[--(*count)];
    const int64_t n = *count;
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* Looks up the pair at position `at` again and queues it. */
static void bpe_refresh(mega_bpe *b, const mega_merges *merges, int64_t *count, int32_t at)
{
    const int32_t next = b->next[at];
    b->pair[at] = next < 0 ? UINT64_MAX : mega_merges_find(merges, b->symbol[at], b->symbol[next]);
    if (b->pair[at] != UINT64_MAX) heap_push(b->heap, count, (b->pair[at] & ~0xFFFFFFFFull) | (uint32_t)at);
}

int64_t mega_bpe_merge_heap(mega_bpe *b, const mega_merges *merges, int64_t n)
{
    if (reserve_long(b) != MEGA_OK) return -1;
    int64_t queued = 0;
    for (int64_t i = 0; i < n; i++) {
        b->prev[i] = (int32_t)i - 1;
        b->next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    for (int64_t i = 0; i < n; i++) bpe_refresh(b, merges, &queued, (int32_t)i);
    while (queued > 0) {
        const uint64_t entry = heap_pop(b->heap, &queued);
        const int32_t at = (int32_t)(entry & 0xFFFFFFFFu);
        /* a stale entry: a merge beside it has changed the pair */
        if (b->pair[at] == UINT64_MAX || b->pair[at] >> 32 != entry >> 32) continue;
        const int32_t gone = b->next[at], next = b->next[gone];
        b->symbol[at] = (int32_t)(b->pair[at] & 0xFFFFFFFFu);
        b->pair[gone] = UINT64_MAX;
        b->next[at] = next;
        if (next >= 0) b->prev[next] = at;
        bpe_refresh(b, merges, &queued, at);
        if (b->prev[at] >= 0) bpe_refresh(b, merges, &queued, b->prev[at]);
    }
    int64_t left = 0;
    for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = b->next[i]) b->symbol[left++] = b->symbol[i];
    return left;
}

int64_t mega_bpe_merge(mega_bpe *b, const mega_merges *merges, int64_t n)
{
    return n <= SCAN_LIMIT ? mega_bpe_merge_scan(b, merges, n) : mega_bpe_merge_heap(b, merges, n);
}
