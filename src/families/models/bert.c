/* BERT (Devlin et al. 2019): BertForPreTraining with the heads of masked tokens and of sentence pairs, BertForMaskedLM
 * with the first alone, or a classifier of samples in their place. */
#include "hf_impl.h"

#include <string.h>

static const mega_family_key sizes[] = {{HF_INT("vocab_size", vocab, "30522")},
                                        {HF_INT("hidden_size", hidden, "768")},
                                        {HF_INT("num_hidden_layers", num_layers, "12")},
                                        {HF_INT("num_attention_heads", heads, "12")},
                                        {HF_INT("intermediate_size", ffn_hidden, "3072")},
                                        {HF_INT("max_position_embeddings", positions, "512")},
                                        {.key = NULL}};
const mega_family_key hf_bert_rows[] = {
    {HF_INT("type_vocab_size", net.token_types, "2")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("layer_norm_eps", norm_epsilon, "1e-12"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_probs_dropout_prob", attention_dropout, "0.1"), .high = 1.0},
    {HF_FLOAT("hidden_dropout_prob", hidden_dropout, "0.1"), .high = 1.0},
    {HF_ACTIVATION("hidden_act", net.activation, "\"gelu\"")},
    {HF_FIXED("position_embedding_type", "\"absolute\"")},
    {HF_FIXED("is_decoder", "false")},
    {HF_FIXED("add_cross_attention", "false")},
    {HF_FIXED("tie_word_embeddings", "true"), .is_written = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {sizes, hf_bert_rows, NULL};
static const char *const architecture[] = {"BertForPreTraining",    "BertForMaskedLM", "BertForSequenceClassification",
                                           "BertForMultipleChoice", "BertModel",       NULL};
/* Published folders of a MaskedLM have the heads of the pre-training too. */
const char *const hf_bert_ignored[] = {"cls.predictions.decoder.weight",
                                       "cls.predictions.decoder.bias",
                                       "*.position_ids",
                                       "bert.pooler.*",
                                       "pooler.*",
                                       "cls.seq_relationship.*",
                                       NULL};

static const mega_family_names names = {HF_BERT_NAMES("bert"), HF_BERT_HEADS, HF_POST_NORMS};

int hf_bert_form(const mega_model_shape *s)
{
    if (s->net.choices > 0) return 3;
    if (s->net.classes > 0) return 2;
    return s->net.sentence_head ? 0 : 1;
}

enum { BERT_CHOICES = 4 };

static int form_of(const hf_reader *r)
{
    const char *is = hf_architecture(r);
    for (int i = 0; is != NULL && r->family->architecture[i] != NULL; i++)
        if (strcmp(is, r->family->architecture[i]) == 0) return i;
    return 0;
}

void hf_bert_finish(hf_reader *r, mega_model_shape *s)
{
    static const char *const unused[] = {
        "directionality",       "pooler_fc_size",       "pooler_type", "pooler_num_attention_heads",
        "pooler_num_fc_layers", "pooler_size_per_head", "cls_token_id"};
    const int form = form_of(r);
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) hf_take(r, unused[i]);
    s->net.sentence_head = form == 0;
    if (form == 2) hf_take_labels(r, s);
    s->net.choices = form == 3 ? BERT_CHOICES : 0; /* those of RACE and SWAG: no key says how many */
    s->net.transform_activation = s->net.activation;
    if (json_object_get(r->json, "pad_token_id") == NULL) s->net.pad = 0; /* the class default */
}

MEGA_FAMILY(180, bert) = {.model_type = "bert",
                          .architecture = architecture,
                          .keys = keys,
                          .net = {HF_ENCODER, HF_POST_NORM},
                          .names = &names,
                          .rope_keys = " ",
                          .ignored = hf_bert_ignored,
                          .other_heads = "cls.*",
                          .form = hf_bert_form,
                          .finish = hf_bert_finish,
                          .write = hf_put_labels};
