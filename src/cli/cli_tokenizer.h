/* Opens the tokenizer that a command's options name. */
#ifndef MEGA_CLI_TOKENIZER_H
#define MEGA_CLI_TOKENIZER_H

#include "megalith/command_options.h"
#include "megalith/tokenizer.h"

/* Opens it according to --tokenizer-type, --vocab-file, --merge-file and --vocab-size. */
mega_status mega_cli_tokenizer(const mega_command_options *cfg, mega_tokenizer **out);

#endif
