#include "cli_tokenizer.h"

mega_status mega_cli_tokenizer(const mega_command_options *cfg, mega_tokenizer **out)
{
    const mega_tokenizer_options o = mega_text_tokenizer(&cfg->train.text);
    return mega_tokenizer_create(&o, out);
}
