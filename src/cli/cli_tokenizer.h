/* The tokenizer that the options of a command name. */
#ifndef MEGA_CLI_TOKENIZER_H
#define MEGA_CLI_TOKENIZER_H

#include "megalith/config.h"
#include "megalith/tokenizer.h"

/* From --tokenizer-type, --vocab-file, --merge-file and --vocab-size. */
mega_status mega_cli_tokenizer(mega_tokenizer **out, const mega_config *cfg);

#endif
