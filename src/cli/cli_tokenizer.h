/* The tokenizer that the options of a command name. */
#ifndef MEGA_CLI_TOKENIZER_H
#define MEGA_CLI_TOKENIZER_H

#include "megalith/command_options.h"
#include "megalith/tokenizer.h"

/* From --tokenizer-type, --vocab-file, --merge-file and --vocab-size. */
mega_status mega_cli_tokenizer(mega_tokenizer **out, const mega_command_options *cfg);

#endif
