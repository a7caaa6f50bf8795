#include "cli_tokenizer.h"

mega_status mega_cli_tokenizer(const mega_command_options *cfg, mega_tokenizer **out)
{
    const mega_tokenizer_options o = {.type = cfg->train.text.tokenizer_type,
                                      .vocab_file = cfg->train.text.vocab_file,
                                      .merge_file = cfg->train.text.merge_file,
                                      .vocab_size = cfg->train.text.vocab_size};
    return mega_tokenizer_create(&o, out);
}
