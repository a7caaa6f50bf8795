/* Checks text inputs before any work is done, for preprocess_data and train_tokenizer. */
#ifndef MEGA_CLI_INPUTS_H
#define MEGA_CLI_INPUTS_H

#include "megalith/command_options.h"
#include "megalith/documents.h"
#include "megalith/tokenizer.h"

typedef struct mega_cli_inputs {
    mega_documents_options files;
    const char *const *keys;
    int num_keys;
    bool skip_bad_lines;
    const mega_tokenizer *tokenizer; /* tokenizer for the texts; NULL: none is known */
} mega_cli_inputs;

/* Adds mistakes in the file names and in the first documents of the first files to cfg. Skips standard input and
 * pipes, because they can be read only once. */
void mega_cli_check_inputs(mega_command_options *cfg, const mega_cli_inputs *inputs);

#endif
