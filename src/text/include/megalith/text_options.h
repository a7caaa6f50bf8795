/* Options of the tokenizer.
 * Its rows are in text/options.c. */
#ifndef MEGALITH_TEXT_OPTIONS_H
#define MEGALITH_TEXT_OPTIONS_H

#include "megalith/option.h"
#include "megalith/tokenizer.h"

typedef struct mega_text_options {
    const char *tokenizer_type, *vocab_file, *merge_file, *tokenizer_model, *tiktoken_pattern;
    int64_t vocab_size; /* NullTokenizer, TikTokenizer */
    int64_t vocab_extra_ids, tiktoken_special;
} mega_text_options;

/* What mega_tokenizer_create takes. */
mega_tokenizer_options mega_text_tokenizer(const mega_text_options *o);
/* Whether they name files of a tokenizer. */
bool mega_text_names_files(const mega_text_options *o);

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_text_type_section, mega_text_files_section;
#endif
