/* Shared by the files of Punkt. */
#ifndef MEGALITH_TEXT_PUNKT_IMPL_H
#define MEGALITH_TEXT_PUNKT_IMPL_H

#include "megalith/memory.h"
#include "megalith/punkt.h"
#include "megalith/utf8.h"

/* ---- punkt_rules.c: kinds of characters ---- */

enum {
    PUNKT_SPACE = 1,
    PUNKT_LETTER = 2, /* of a word, but no decimal digit */
    PUNKT_DIGIT = 4,
    PUNKT_UPPER = 8,
    PUNKT_LOWER = 16,
    PUNKT_END = 32,       /* may end a sentence */
    PUNKT_NON_WORD = 64,  /* is not part of a word */
    PUNKT_NO_START = 128, /* does not begin a word */
    PUNKT_CLOSES = 256,   /* belongs to the sentence before it */
    PUNKT_INTERNAL = 512, /* stands inside of sentences */
    PUNKT_QUOTE = 1024,   /* closes only in front of white space: ' and " in CJK texts */
    PUNKT_SPECIALS = 80,
    PUNKT_NEAR = 0x3400 /* code points below it have their kinds in a table */
};

typedef struct punkt_rules {
    uint16_t near[PUNKT_NEAR];
    struct {
        uint32_t cp;
        uint16_t kind;
    } special[PUNKT_SPECIALS]; /* characters beyond the table that have a part in the rules, sorted */
    int specials;
    bool may_end[256]; /* bytes that begin a character that may end a sentence */
    bool spaced;       /* white space lies between sentences */
    bool closes_one;   /* one closing mark belongs to the sentence before it, and needs no white space after it */
} punkt_rules;
void punkt_rules_init(punkt_rules *r, const char *language);
/* The kind of the character at text; *length receives its bytes, 1 where it is not UTF-8. */
uint16_t punkt_kind_beyond(const punkt_rules *r, const char *text, size_t n, int *length);
static inline uint16_t punkt_kind(const punkt_rules *r, const char *text, size_t n, int *length)
{
    const uint8_t first = (uint8_t)*text;
    if (first >= 0x80) return punkt_kind_beyond(r, text, n, length);
    *length = 1;
    return r->near[first];
}
/* Returns whether it may end a sentence, at a byte of may_end. */
bool punkt_is_end(const punkt_rules *r, const char *text, size_t n, int *length);
/* Appends the text in lower case, as Python's str.lower makes it. */
void punkt_lower(const char *text, size_t n, mega_buffer *out);

/* ---- punkt_table.c: what is known about a type of words ---- */

enum { /* orthographic context: the numbers of ortho_context.tab */
       ORTHO_BEG_UC = 2,
       ORTHO_MID_UC = 4,
       ORTHO_UNK_UC = 8,
       ORTHO_BEG_LC = 16,
       ORTHO_MID_LC = 32,
       ORTHO_UNK_LC = 64,
       ORTHO_UC = ORTHO_BEG_UC | ORTHO_MID_UC | ORTHO_UNK_UC,
       ORTHO_LC = ORTHO_BEG_LC | ORTHO_MID_LC | ORTHO_UNK_LC
};
enum { TYPE_ABBREVIATION = 1, TYPE_STARTER = 2, TYPE_NUMERIC = 4, TYPE_IN_TEXT = 8 };

typedef struct punkt_type {
    uint64_t hash;
    uint32_t name, name_bytes;
    uint8_t ortho, flags;
    /* while learning: how often it occurs, in front of a token, in front of a number, and after an end of a sentence */
    int64_t count, follows, numeric, starts;
} punkt_type;

typedef struct punkt_pair {
    uint32_t first, second; /* numbers of types */
    int64_t count;
} punkt_pair;

typedef struct punkt_table {
    mega_buffer names;
    punkt_type *type;
    punkt_pair *pair;
    int64_t types, pairs, type_capacity, pair_capacity;
    uint64_t *type_slot, *pair_slot; /* high half of the hash, number + 1; 0: empty */
    int64_t type_slots, pair_slots;  /* powers of two */
} punkt_table;
void punkt_table_fini(punkt_table *t);
/* Return a number, -1 if it is not there. */
int64_t punkt_find(const punkt_table *t, const char *name, size_t bytes);
void punkt_prefetch(const punkt_table *t, const char *name, size_t bytes); /* for a punkt_find that follows soon */
int64_t punkt_find_pair(const punkt_table *t, int64_t first, int64_t second);
/* Return its number, -1 when memory is short. */
int64_t punkt_add(punkt_table *t, const char *name, size_t bytes);
int64_t punkt_add_pair(punkt_table *t, int64_t first, int64_t second);

struct mega_punkt {
    punkt_rules rules;
    punkt_table table;
};

/* ---- punkt_words.c: the words of a text ---- */

#define PUNKT_NUMBER "##number##" /* the type of every number */

enum { STEM_UNKNOWN = -2 };
typedef struct punkt_word {
    const char *text;
    size_t bytes;
    mega_buffer type; /* in lower case; reused */
    int64_t stem;     /* number of the type without its period, once it was looked up; STEM_UNKNOWN before */
    uint16_t kind;    /* of the first character */
    bool period;      /* ends with one */
    bool is_number, is_initial, is_ellipsis;
    bool starts_line, starts_paragraph; /* while learning */
    bool abbreviation, ellipsis, ends;  /* what the two passes decide; `ends`: a sentence */
} punkt_word;

/* Finds the next word of [*at, end) and its type; false if there is none. No word goes over the end of a line. */
bool punkt_next_word(const punkt_rules *r, const char *text, size_t end, size_t *at, punkt_word *out);
/* Returns the end of a run of hyphens or periods that is one token, at itself if there is none. lines: periods may be
 * separated by ends of lines. */
size_t punkt_run_end(const punkt_rules *r, const char *text, size_t at, size_t end, bool lines);
/* bytes of the type without its last period; with it if nothing else is left */
static inline size_t punkt_no_period(const punkt_word *w)
{
    return w->type.size > 1 && w->type.data[w->type.size - 1] == '.' ? w->type.size - 1 : w->type.size;
}
static inline size_t punkt_no_final_period(const punkt_word *w)
{
    return w->ends ? punkt_no_period(w) : w->type.size;
}
/* The first pass: decides by the type of the word alone. */
void punkt_first_pass(const mega_punkt *p, punkt_word *w);
/* The second pass: decides by the word after it. */
void punkt_second_pass(const mega_punkt *p, punkt_word *w, const punkt_word *next);

#endif
