/* Shared by the files of `megalith data`. */
#ifndef MEGA_CLI_DATA_SHOW_H
#define MEGA_CLI_DATA_SHOW_H

#include "megalith/command_options.h"
#include "megalith/indexed.h"
#include "megalith/status.h"
#include "megalith/tokenizer.h"

/* megalith data show PREFIX */
mega_status mega_data_show(const mega_command_options *cfg, const char *prefix);
/* Samples of pretrain_bert or, with --decoder-seq-length, of pretrain_t5. */
mega_status mega_data_show_sentences(const mega_command_options *cfg, const char *prefix, const mega_tokenizer *t,
                                     int64_t count);
/* Warns of options that were given and are not read, a list that ends in NULL. */
void mega_data_note_unread(const mega_command_options *cfg, const char *const *dest, const char *why);
/* Prints a token in quotes, with escapes for unprintable bytes; NULL: its id alone. */
mega_status mega_data_print_piece(const mega_tokenizer *t, int32_t id);
enum { MEGA_DATA_PIECE_WIDTH = 18 };
/* Opens the tokenizer that the options name; *out is NULL if they name none. */
mega_status mega_data_tokenizer(const mega_command_options *cfg, mega_tokenizer **out);
/* Returns the number of tokens of a document, over all its sequences. */
int64_t mega_data_document_tokens(const mega_indexed *ix, int64_t document);

#endif
