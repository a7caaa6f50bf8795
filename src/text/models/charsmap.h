/* The table of replacements in a SentencePiece model: a double-array trie of character sequences, and their normal
 * forms. */
#ifndef MEGALITH_TEXT_CHARSMAP_H
#define MEGALITH_TEXT_CHARSMAP_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is valid and has no replacements. */
typedef struct mega_charsmap {
    uint32_t *unit;
    size_t units;
    char *text; /* NUL-terminated strings, with a NUL at the end */
    size_t text_size;
    bool begins[256]; /* bytes that a replaced sequence may begin with */
    bool plain[256];  /* bytes of ASCII that are not replaced, neither alone nor before other ASCII */
    uint8_t *kind;    /* of each character up to U+FFFF; NULL: no table was read */
} mega_charsmap;
enum {
    MEGA_CHARSMAP_KINDS = 0x10000,
    MEGA_CHAR_REPLACED = 1, /* alone */
    MEGA_CHAR_BEGINS = 2,   /* a longer sequence that is replaced begins with it */
    MEGA_CHAR_FOLLOWS = 4,  /* it is the second one of such a sequence */
};

mega_status mega_charsmap_read(mega_charsmap *m, const char *bytes, size_t n);
void mega_charsmap_fini(mega_charsmap *m);
/* Makes `kind`, also without replacements. Surrogates count as replaced. */
mega_status mega_charsmap_note_kinds(mega_charsmap *m);
/* Finds the longest sequence at the begin of a text that is replaced, or the shortest one. Returns its length, 0:
 * none. */
size_t mega_charsmap_find(const mega_charsmap *m, const uint8_t *text, size_t n, bool shortest,
                          const char **replacement);

#endif
