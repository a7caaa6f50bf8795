/* Undoes the tokenisation that benchmark texts come in, so that a model trained on plain text can be measured on them.
 * The rules are those of Megatron-LM's zero-shot evaluation. */
#ifndef MEGALITH_DETOKENIZE_H
#define MEGALITH_DETOKENIZE_H

#include "megalith/memory.h"
#include "megalith/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* WikiText: " @-@ " → "-", spaces before punctuation and inside brackets and quotes, "= = heading = =", " N " → " 1 ",
 * … Appends to out. */
mega_status mega_detokenize_wikitext(const char *text, size_t bytes, mega_buffer *out);

#ifdef __cplusplus
}
#endif

#endif
