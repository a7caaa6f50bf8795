#include "charsmap.h"
#include "megalith/memory.h"
#include <string.h>

/* A unit: bit 31 marks a value; bit 8 that a value follows; bits 0 to 7 its label; the others where its children
 * are. */
static size_t children(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 512) >> 6);
}

/* Finds the child of the root by a byte, or of that unit by a second one. */
static bool has_child(const mega_charsmap *m, uint8_t a, int b)
{
    const uint8_t bytes[] = {a, (uint8_t)b};
    size_t at = children(m->unit[0]);
    for (int i = 0; i < (b < 0 ? 1 : 2); i++) {
        at ^= bytes[i];
        if (at >= m->units || (m->unit[at] & 0x800000FF) != bytes[i]) return false;
        if (i == 0 && b < 0) return (m->unit[at] & 256) != 0; /* it is replaced alone */
        at ^= children(m->unit[at]);
    }
    return true;
}

static void find_plain(mega_charsmap *m)
{
    for (int a = 1; a < 256; a++) {
        const size_t at = children(m->unit[0]) ^ (size_t)a;
        m->begins[a] = at < m->units && (m->unit[at] & 0x800000FF) == (uint32_t)a;
    }
    for (int a = 1; a < 128; a++) {
        m->plain[a] = !has_child(m, (uint8_t)a, -1);
        for (int b = 1; b < 128 && m->plain[a]; b++) m->plain[a] = !has_child(m, (uint8_t)a, b);
    }
}

/* Steps from a place to the child by a byte, and says whether a sequence that is replaced ends there. Returns SIZE_MAX
 * for none. */
static size_t step(const mega_charsmap *m, size_t at, uint8_t byte, bool *ends)
{
    at ^= byte;
    if (at >= m->units || (m->unit[at] & 0x800000FF) != byte) return SIZE_MAX;
    *ends = (m->unit[at] & 256) != 0;
    return at ^ children(m->unit[at]);
}

static bool has_children(const mega_charsmap *m, size_t at)
{
    bool ends;
    for (int b = 1; b < 256; b++)
        if (step(m, at, (uint8_t)b, &ends) != SIZE_MAX) return true;
    return false;
}

static void note_characters(mega_charsmap *m, size_t at, bool first);

/* Notes the characters of which `bits` have been read at a place and `left` bytes are missing. A sequence that ends
 * within a character counts for all that begin like it. */
static void note_from(mega_charsmap *m, size_t at, uint32_t bits, int left, bool ends, bool first)
{
    for (uint8_t b = 0x80; b < 0xC0 && left > 0 && !ends; b++) {
        bool stops = false;
        const size_t to = step(m, at, b, &stops);
        if (to != SIZE_MAX) note_from(m, to, bits << 6 | (b & 0x3F), left - 1, stops, first);
    }
    if (left > 0 && !ends) return;
    uint8_t kind = MEGA_CHAR_FOLLOWS;
    if (first) kind = ends ? MEGA_CHAR_REPLACED : has_children(m, at) ? MEGA_CHAR_BEGINS : 0;
    for (uint32_t i = 0; i < UINT32_C(1) << 6 * left; i++) m->kind[(bits << 6 * left) + i] |= kind;
    if (kind == MEGA_CHAR_BEGINS) note_characters(m, at, false);
}

/* Notes the characters up to U+FFFF that follow a place. first: it is the root. */
static void note_characters(mega_charsmap *m, size_t at, bool first)
{
    for (int b = 1; b < 0xF0; b++) {
        bool ends = false;
        const size_t to = b >= 0x80 && b < 0xC2 ? SIZE_MAX : step(m, at, (uint8_t)b, &ends);
        if (to == SIZE_MAX) continue;
        if (b < 0x80) note_from(m, to, (uint32_t)b, 0, ends, first);
        else if (b < 0xE0)
            note_from(m, to, b & 0x1F, 1, ends, first);
        else
            note_from(m, to, b & 0x0F, 2, ends, first);
    }
}

mega_status mega_charsmap_note_kinds(mega_charsmap *m)
{
    m->kind = mega_calloc(MEGA_CHARSMAP_KINDS, 1);
    if (m->kind == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the kinds of characters");
    if (m->units > 0) note_characters(m, children(m->unit[0]), true);
    memset(m->kind + 0xD800, MEGA_CHAR_REPLACED, 0x800);
    return MEGA_OK;
}

/* Little-endian: the number of bytes of the trie, the trie, the strings. */
mega_status mega_charsmap_read(mega_charsmap *m, const char *bytes, size_t n)
{
    const uint8_t *b = (const uint8_t *)bytes;
    if (n == 0) return MEGA_OK;
    const size_t trie = n < 4 ? 0 : (size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
    if (n < 4 || trie % 4 != 0 || trie == 0 || trie > n - 4)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "the table of replacements of its normalizer is damaged (%zu bytes)", n);
    m->units = trie / 4;
    m->text_size = n - 4 - trie;
    m->unit = mega_malloc(trie);
    m->text = mega_malloc(m->text_size + 1);
    if (m->unit == NULL || m->text == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a table of replacements of %zu bytes", n);
    for (size_t i = 0; i < m->units; i++) {
        const uint8_t *u = b + 4 + 4 * i;
        m->unit[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    memcpy(m->text, b + 4 + trie, m->text_size);
    m->text[m->text_size] = '\0';
    find_plain(m);
    return MEGA_OK;
}

void mega_charsmap_fini(mega_charsmap *m)
{
    MEGA_FREE(m->unit, m->text, m->kind);
    *m = (mega_charsmap){0};
}

size_t mega_charsmap_find(const mega_charsmap *m, const uint8_t *text, size_t n, bool shortest,
                          const char **replacement)
{
    size_t found = 0;
    if (n == 0 || !m->begins[text[0]]) return 0;
    size_t at = children(m->unit[0]);
    for (size_t i = 0; i < n && text[i] != 0; i++) {
        at ^= text[i];
        if (at >= m->units || (m->unit[at] & 0x800000FF) != text[i]) break;
        const uint32_t unit = m->unit[at];
        at ^= children(unit);
        if (at >= m->units) break;
        if ((unit & 256) != 0) {
            const uint32_t value = m->unit[at] & 0x7FFFFFFF;
            if (value > m->text_size) break;
            *replacement = m->text + value;
            found = i + 1;
            if (shortest) break;
        }
    }
    return found;
}
