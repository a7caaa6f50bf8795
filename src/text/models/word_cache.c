#include "word_cache.h"

_Static_assert(sizeof(mega_cached_word) == 32, "two cached words are one cache line");

static size_t line_bytes(void)
{
    return sizeof(mega_cached_word[2]) << MEGA_CACHE_LOG2;
}

/* 16 bytes of a record may be read even if it is shorter. */
static size_t ring_bytes(void)
{
    return (MEGA_CACHE_RING + 4) * sizeof(int32_t);
}

mega_status mega_word_cache_init(mega_word_cache *c, const char *what)
{
    void *line = NULL, *ring = NULL;
    mega_status st = mega_pages_alloc(&line, line_bytes(), what);
    if (st == MEGA_OK) st = mega_pages_alloc(&ring, ring_bytes(), what);
    if (st != MEGA_OK) {
        if (line != NULL) mega_pages_free(line, line_bytes());
        return st;
    }
    *c = (mega_word_cache){.line = line, .ring = ring};
    return MEGA_OK;
}

void mega_word_cache_fini(mega_word_cache *c)
{
    if (c->line == NULL) return;
    mega_pages_free(c->line, line_bytes());
    mega_pages_free(c->ring, ring_bytes());
    *c = (mega_word_cache){0};
}

/* Returns the position of a record of `size` words that does not cross the end of the ring. Drops all entries before
 * positions wrap around, because an old position would then look recent. */
static uint32_t take_record(mega_word_cache *c, uint32_t size)
{
    const uint32_t left = MEGA_CACHE_RING - c->head % MEGA_CACHE_RING;
    if (left < size) c->head += left;
    if (c->head >= UINT32_MAX - 2 * (uint32_t)MEGA_CACHE_RING) {
        memset(c->line, 0, line_bytes());
        c->head = 0;
    }
    const uint32_t at = c->head;
    c->head += size;
    return at;
}

void mega_word_cache_put(mega_word_cache *c, const uint64_t key[2], const uint8_t *word, size_t n, const int32_t *id,
                         size_t count)
{
    if (n == 0 || n > MEGA_CACHE_LONG) return;
    mega_cached_word w = {.key = {key[0], key[1]}, .size = (uint16_t)n, .count = (uint16_t)count};
    if (n <= MEGA_CACHE_SHORT && count <= MEGA_CACHE_IDS) {
        memcpy(w.id, id, count * sizeof *id);
    } else {
        const uint32_t text = n <= MEGA_CACHE_SHORT ? 0 : (uint32_t)(n + 3) / 4;
        const uint32_t at = take_record(c, text + (uint32_t)count);
        int32_t *record = c->ring + at % MEGA_CACHE_RING;
        if (text > 0) memcpy(record, word, n);
        memcpy(record + text, id, count * sizeof *id);
        w.id[0] = (int32_t)at;
    }
    mega_cached_word *line = mega_word_cache_line(c, key);
    line[1] = line[0];
    line[0] = w;
}
