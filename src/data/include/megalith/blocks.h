/* Blocks of text, as transformers' script run_clm.py makes them: texts are tokenized one by one, 1,000 texts are
 * joined, and what they hold is cut into blocks of equal length; a last block that is not full is dropped. A text is a
 * line of a plain text file, a record of JSON lines, or a record of a CSV file. */
#ifndef MEGALITH_BLOCKS_H
#define MEGALITH_BLOCKS_H

#include "megalith/gpt_data.h"
#include "megalith/option.h"
#include "megalith/threads.h"
#include "megalith/tokenizer.h"

enum { MEGA_BLOCKS_TEXTS = 1000 }; /* texts that are joined */

typedef struct mega_blocks mega_blocks; /* of training and validation; any thread may read it */

typedef struct mega_blocks_options {
    const mega_list *train, *validation; /* files; a list may be empty */
    /* without files for validation: the first texts of the training, in percent; 0: there is no validation */
    int64_t validation_percent;
    const char *key;                     /* of the text in JSON lines; its column in CSV */
    bool any_column;                     /* CSV: without such a column the first is read */
    int64_t most_train, most_validation; /* blocks that are kept, the first ones; 0: all */
    bool drops_line_ends;                /* plain text: without the newline that ends a line */
    int64_t length;                      /* tokens of a block, 2 or more */
    const mega_tokenizer *tokenizer;
    mega_team *team; /* threads that tokenize; NULL: only the caller */
    /* borrowed; the rank that created it stores the blocks in it, and one that opened it from an offer finds them there
     * and reads no file. NULL: the blocks are private */
    mega_gpt_share *share;
    const volatile sig_atomic_t *stop; /* if not NULL: ends with MEGA_ERR_INTERRUPTED once *stop is not 0 */
} mega_blocks_options;

/* Reads and tokenizes all files. Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT, MEGA_ERR_IO, MEGA_ERR_MEMORY,
 * MEGA_ERR_INTERRUPTED, or MEGA_ERR_USAGE if a part that is wanted has no whole block. */
MEGA_CHECK_RESULT mega_status mega_blocks_build(const mega_blocks_options *o, mega_blocks **out);
void mega_blocks_destroy(mega_blocks *b); /* NULL is valid */

/* split: MEGA_SPLIT_TRAIN or MEGA_SPLIT_VALID. */
int64_t mega_blocks_count(const mega_blocks *b, int split);
int64_t mega_blocks_texts(const mega_blocks *b, int split);
size_t mega_blocks_bytes(const mega_blocks *b);             /* memory, of which the ranks of a host hold one copy */
uint64_t mega_blocks_hash(const mega_blocks *b, int split); /* of the tokens in its blocks */
const int32_t *mega_blocks_tokens(const mega_blocks *b, int split, int64_t index); /* of one block; borrowed */

/* Fills the inputs of a GPT with a block. Its last token predicts nothing: its loss mask is 0. */
mega_status mega_blocks_read(const mega_blocks *b, int split, int64_t index, mega_sample *sample);

#endif
