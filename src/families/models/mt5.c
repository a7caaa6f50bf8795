/* mT5 (Xue et al. 2021): T5 of version 1.1, with other class defaults. */
#include "hf_impl.h"

static const mega_family_key sizes[] = {{HF_INT("vocab_size", vocab, "250112")},
                                        {HF_INT("num_layers", num_layers, "8")},
                                        {HF_INT("num_heads", heads, "6")},
                                        {HF_INT("d_ff", ffn_hidden, "1024")},
                                        {.key = NULL}};
const mega_family_key *const hf_mt5_keys[] = {sizes, hf_t5_rows, NULL};
static const char *const architecture[] = {"MT5ForConditionalGeneration", NULL};

MEGA_FAMILY(250, mt5) = {.model_type = "mt5",
                         .architecture = architecture,
                         .keys = hf_mt5_keys,
                         .net = {.t5 = MEGA_T5_ORIGINAL,
                                 .positions = MEGA_POSITIONS_NONE,
                                 .activation = MEGA_ACT_GELU_TANH,
                                 .gated = true,
                                 .untied = true},
                         .names = &hf_t5_names,
                         .rope_keys = " ",
                         .ignored = hf_t5_ignored,
                         .finish = hf_t5_finish,
                         .write = hf_t5_write};
