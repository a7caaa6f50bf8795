/* Undoes the tokenisation of benchmark texts, so that a model trained on plain text can be evaluated on them. The rules
 * are those of Megatron-LM's zero-shot evaluation. */
#ifndef MEGALITH_DETOKENIZE_H
#define MEGALITH_DETOKENIZE_H

#include "megalith/memory.h"
#include "megalith/status.h"

/* WikiText: " @-@ " → "-", removes spaces before punctuation and inside brackets and quotes, joins "= = heading = =",
 * replaces " N " by " 1 ", and so on. Appends to out. Returns MEGA_ERR_MEMORY. */
mega_status mega_detokenize_wikitext(const char *text, size_t bytes, mega_buffer *out);

#endif
