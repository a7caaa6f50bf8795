/* Which tokenizer made the ids of a data set: PREFIX.tokenizer, a file beside PREFIX.bin and .idx that nothing needs.
 * It has a line for the first 256, 1024, 4096 … ids of the tokenizer and one for all of them: their number, and a hash
 * of what they stand for. So a tokenizer with more tokens behind these is recognised as the same. */
#ifndef MEGALITH_INDEXED_TOKENIZER_H
#define MEGALITH_INDEXED_TOKENIZER_H

#include "megalith/tokenizer.h"

/* Writes the file, or removes it where t has no texts for ids (NullTokenizer) or is NULL. */
MEGA_CHECK_RESULT mega_status mega_indexed_put_tokenizer(const char *prefix, const mega_tokenizer *t);
/* Gives the data set `to`, which was joined from others, their file if all have one and all are the same. */
MEGA_CHECK_RESULT mega_status mega_indexed_join_tokenizers(const char *const *prefix, int64_t count, const char *to);
/* Returns false if the file says that ids of this data set stand for other texts than those of t. */
bool mega_indexed_may_be_of(const char *prefix, const mega_tokenizer *t);
/* Warns then. t may be NULL. */
void mega_indexed_compare_tokenizer(const char *prefix, const mega_tokenizer *t);

#endif
