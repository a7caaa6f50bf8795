#include "cli_tokenizer.h"

mega_status mega_cli_tokenizer(mega_tokenizer **out, const mega_config *cfg)
{
    const mega_tokenizer_options o = {.type = cfg->tokenizer_type,
                                      .vocab_file = cfg->vocab_file,
                                      .merge_file = cfg->merge_file,
                                      .vocab_size = cfg->vocab_size};
    return mega_tokenizer_create(out, &o);
}
