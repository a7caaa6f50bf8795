/* What the files of `megalith data` share. */
#ifndef MEGA_CLI_DATA_SHOW_H
#define MEGA_CLI_DATA_SHOW_H

#include "megalith/command_options.h"
#include "megalith/indexed.h"
#include "megalith/status.h"
#include "megalith/tokenizer.h"

/* megalith data show PREFIX */
mega_status mega_data_show(const mega_command_options *cfg, const char *prefix);
/* The tokenizer that the options name; NULL when they name none. */
mega_status mega_data_tokenizer(mega_tokenizer **out, const mega_command_options *cfg);
/* Of all sequences of a document. */
int64_t mega_data_document_tokens(const mega_indexed *ix, int64_t document);

#endif
