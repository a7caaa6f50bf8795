/* The layers of a decoder-only language model of any shape (mega_gpt), which gpt.c puts into a list. */
#ifndef MEGALITH_DECODER_H
#define MEGALITH_DECODER_H

#include "megalith/gpt.h"

/* Functions of layers (model.h); self is the mega_gpt. */
void decoder_embedding(const mega_builder *b, const void *self, mega_flow *flow);
void decoder_block(const mega_builder *b, const void *self, mega_flow *flow);
void decoder_head(const mega_builder *b, const void *self, mega_flow *flow);

#endif
