/* Shared by the files of `megalith data`. */
#ifndef MEGA_CLI_DATA_SHOW_H
#define MEGA_CLI_DATA_SHOW_H

#include "megalith/command_options.h"
#include "megalith/indexed.h"
#include "megalith/status.h"
#include "megalith/tokenizer.h"

/* megalith data show PREFIX */
mega_status mega_data_show(const mega_command_options *cfg, const char *prefix);
/* Opens the tokenizer that the options name; *out is NULL if they name none. */
mega_status mega_data_tokenizer(const mega_command_options *cfg, mega_tokenizer **out);
/* Returns the number of tokens of a document, over all its sequences. */
int64_t mega_data_document_tokens(const mega_indexed *ix, int64_t document);

#endif
