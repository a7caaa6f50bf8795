/* Megatron's BERT (Shoeybi et al. 2019): norms before the branches and a last one, none of the embedding. */
#include "hf_impl.h"

static const mega_family_key sizes[] = {{HF_INT("vocab_size", vocab, "29056")},
                                        {HF_INT("hidden_size", hidden, "1024")},
                                        {HF_INT("num_hidden_layers", num_layers, "24")},
                                        {HF_INT("num_attention_heads", heads, "16")},
                                        {HF_INT("intermediate_size", ffn_hidden, "4096")},
                                        {HF_INT("max_position_embeddings", positions, "512")},
                                        {.key = NULL}};
static const mega_family_key *const keys[] = {sizes, hf_bert_rows, NULL};
static const char *const architecture[] = {
    "MegatronBertForPreTraining",    "MegatronBertForMaskedLM", "MegatronBertForSequenceClassification",
    "MegatronBertForMultipleChoice", "MegatronBertModel",       NULL};

static const mega_family_names names = {HF_BERT_NAMES("bert"), HF_BERT_HEADS, .norm_1 = "attention.ln", .norm_2 = "ln",
                                        .final_norm = "bert.encoder.ln"};

MEGA_FAMILY(190, megatron_bert) = {.model_type = "megatron-bert",
                                   .architecture = architecture,
                                   .keys = keys,
                                   .net = {HF_ENCODER},
                                   .names = &names,
                                   .rope_keys = " ",
                                   .ignored = hf_bert_ignored,
                                   .other_heads = "cls.*",
                                   .form = hf_bert_form,
                                   .finish = hf_bert_finish,
                                   .write = hf_put_labels};
