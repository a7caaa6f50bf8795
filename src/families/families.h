/* All families, in the order of messages and pages; of several families that can hold a model the first is chosen. One
 * file of families/ each. The last holds what no model of transformers can. */
#ifndef MEGALITH_FAMILIES_H
#define MEGALITH_FAMILIES_H

#include "megalith/family.h"

/* clang-format off: a line each, so that two new ones do not touch the same line */
#define MEGA_FAMILY_LIST(X) \
    X(gpt2)                 \
    X(llama)                \
    X(mistral)              \
    X(qwen2)                \
    X(qwen3)                \
    X(smollm3)              \
    X(gemma)                \
    X(gemma2)               \
    X(gemma3_text)          \
    X(olmo2)                \
    X(phi3)                 \
    X(gpt_neox)             \
    X(phi)                  \
    X(starcoder2)           \
    X(bloom)                \
    X(opt)                  \
    X(gpt_bigcode)          \
    X(bert)                 \
    X(megatron_bert)        \
    X(roberta)              \
    X(xlm_roberta)          \
    X(distilbert)           \
    X(modernbert)           \
    X(t5)                   \
    X(mt5)                  \
    X(umt5)                 \
    X(megatron_t5)          \
    X(megalith_gpt)
/* clang-format on */

#define MEGA_FAMILY_DECLARE(name) extern const mega_family mega_family_##name;
MEGA_FAMILY_LIST(MEGA_FAMILY_DECLARE)
#undef MEGA_FAMILY_DECLARE

#endif
