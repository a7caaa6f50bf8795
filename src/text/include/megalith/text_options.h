/* Options of the tokenizer.
 * Its rows are in text/options.c. */
#ifndef MEGALITH_TEXT_OPTIONS_H
#define MEGALITH_TEXT_OPTIONS_H

#include "megalith/option.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_text_options {
    const char *tokenizer_type, *vocab_file, *merge_file;
    int64_t vocab_size; /* NullTokenizer */
} mega_text_options;

/* Their rows, by the titles of --help. */
extern const mega_option_section mega_text_type_section, mega_text_files_section;
#ifdef __cplusplus
}
#endif

#endif
