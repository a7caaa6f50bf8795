/* Filling masks with an engine that a command made. */
#ifndef MEGALITH_FILLER_H
#define MEGALITH_FILLER_H

#include "megalith/engine_commands.h"
#include "megalith/fill_mask.h"
#include "megalith/pretrained.h"

/* Appends the ids of a text, special tokens recognised, between [CLS] and [SEP] (<s> and </s>), which are added unless
 * the tokenizer's template has added them. */
mega_status mega_filler_tokens(const mega_tokenizer *t, mega_encoder *e, const char *text, size_t bytes, mega_ids *out);
/* The id of [MASK] or <mask>; MEGA_ERR_USAGE if there is none. */
mega_status mega_filler_find_mask(const mega_tokenizer *t, int32_t *out);
/* m: loaded with sizes.masks > 0, and borrowed until destroy. tokenizer: that of its texts. Ranks of dp divide the
 * texts of a run, and get all its results. */
mega_status mega_filler_create(const mega_pretrained *m, const mega_tokenizer *tokenizer, mega_filler **out);

#endif
