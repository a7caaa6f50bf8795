/* Sets of code points: the classes of regular expressions, made from our own table of general categories. */
#ifndef MEGALITH_TEXT_CHAR_SET_H
#define MEGALITH_TEXT_CHAR_SET_H

#include "megalith/memory.h"
#include <stdbool.h>
#include <stdint.h>

enum { MEGA_CODE_POINTS = 0x110000 };

typedef struct mega_char_range {
    uint32_t first, last;
} mega_char_range;

/* Zero-initialised is valid and empty. A failed addition leaves `failed` set. */
typedef struct mega_char_set {
    mega_char_range *range;
    int64_t count, capacity;
    bool failed;
} mega_char_set;

void mega_char_set_fini(mega_char_set *s);
void mega_char_set_add(mega_char_set *s, uint32_t first, uint32_t last);
/* Adds a general category, "Lu", or all that begin with one letter, "L". Returns false if there is no such category. */
bool mega_char_set_add_category(mega_char_set *s, const char *name, size_t n);
void mega_char_set_add_space(mega_char_set *s); /* White_Space */
void mega_char_set_add_word(mega_char_set *s);  /* \w: alphabetic, marks, decimal numbers, connector punctuation */
void mega_char_set_join(mega_char_set *s, const mega_char_set *other);
/* Sorts the ranges and joins those that touch. The functions below need it. */
void mega_char_set_order(mega_char_set *s);
/* Replaces the set by all other code points. */
void mega_char_set_negate(mega_char_set *s);
bool mega_char_set_has(const mega_char_set *s, uint32_t cp);

#endif
