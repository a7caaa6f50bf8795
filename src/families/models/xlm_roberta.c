/* XLM-RoBERTa (Conneau et al. 2020): RoBERTa for many languages. */
#include "hf_impl.h"

static const mega_family_key sizes[] = {{HF_INT("vocab_size", vocab, "30522")}, {.key = NULL}};
static const mega_family_key *const keys[] = {sizes, hf_roberta_rows, hf_bert_rows, NULL};
static const char *const architecture[] = {"XLMRobertaForMaskedLM", "XLMRobertaModel", NULL};

MEGA_FAMILY(210, xlm_roberta) = {.model_type = "xlm-roberta",
                                 .architecture = architecture,
                                 .keys = keys,
                                 .net = {HF_ENCODER, HF_POST_NORM},
                                 .names = &hf_roberta_names,
                                 .rope_keys = " ",
                                 .ignored = hf_roberta_ignored,
                                 .finish = hf_roberta_finish,
                                 .write = hf_roberta_write};
