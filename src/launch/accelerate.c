/* Accelerate's configuration file, where a launch finds it. */
#include "megalith/accelerate.h"
#include "megalith/memory.h"
#include <stdlib.h>

char *mega_accelerate_default_file(void)
{
    const char *hub = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (home == NULL) home = "";
    if (hub != NULL && hub[0] == '~') return mega_format("%s%s/accelerate/default_config.yaml", home, hub + 1);
    if (hub != NULL && hub[0] != '\0') return mega_format("%s/accelerate/default_config.yaml", hub);
    if (cache != NULL && cache[0] != '\0') return mega_format("%s/huggingface/accelerate/default_config.yaml", cache);
    return mega_format("%s/.cache/huggingface/accelerate/default_config.yaml", home);
}
