/* Embeddings of texts: the mean over the tokens of a text of what an encoder computes before its heads. */
#ifndef MEGALITH_EMBED_H
#define MEGALITH_EMBED_H

#include "megalith/engine_commands.h"

/* Texts one after the other: text i has the tokens begin[i] … begin[i + 1] - 1, [CLS] and [SEP] included, at least one
 * and at most as many as the engine has positions. */
typedef struct mega_embed_texts {
    const int32_t *tokens;
    const int64_t *begin; /* [count + 1] */
    int64_t count;
    int32_t pad;
} mega_embed_texts;

/* Collective over the world: ranks of tp and of pp share the model, ranks of dp divide the texts; all get the result,
 * out [count, channels]. The engine is in MEGA_EVAL with an encoder whose output is "hidden" (transformer.h). */
mega_status mega_embed(mega_engine *engine, const mega_embed_texts *texts, int64_t channels, float *out);

#endif
