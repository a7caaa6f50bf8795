/* Regular expressions of tokenizer.json, in the dialect of Oniguruma as far as tokenizers use it, with PCRE2. Classes
 * of characters are expanded from our own table, so that they do not depend on the version of a library. What is not
 * built (look-behind and look-ahead are; properties other than general categories, && in classes, \b and back
 * references are not) is refused by name. */
#ifndef MEGALITH_TEXT_REGEX_H
#define MEGALITH_TEXT_REGEX_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_regex mega_regex;             /* shared by threads */
typedef struct mega_regex_match mega_regex_match; /* of one thread; serves any expression */

/* Messages name what is not understood, but not the file: callers add where the pattern is. */
mega_status mega_regex_compile(const char *pattern, size_t n, mega_regex **out);
void mega_regex_destroy(mega_regex *r);

mega_status mega_regex_match_create(mega_regex_match **out);
void mega_regex_match_destroy(mega_regex_match *m);
/* Finds the first match at or after `from` in a text that must be UTF-8. *found: whether there is one, at
 * text[*begin..*end). Returns MEGA_ERR_MEMORY, or MEGA_ERR_UNSUPPORTED if the search takes too many steps. */
mega_status mega_regex_find(const mega_regex *r, mega_regex_match *m, const uint8_t *text, size_t n, size_t from,
                            bool *found, size_t *begin, size_t *end);

/* Translates a pattern to one of PCRE2, for mega_regex_compile and its tests. */
mega_status mega_regex_translate(const char *pattern, size_t n, mega_buffer *out);

#endif
