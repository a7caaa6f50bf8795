/* RoBERTa (Liu et al. 2019): BERT without pairs of sentences, whose positions begin after the id of padding. */
#include "hf_impl.h"

static const mega_family_key sizes[] = {{HF_INT("vocab_size", vocab, "50265")}, {.key = NULL}};
const mega_family_key hf_roberta_rows[] = {{HF_INT("hidden_size", hidden, "768")},
                                           {HF_INT("num_hidden_layers", num_layers, "12")},
                                           {HF_INT("num_attention_heads", heads, "12")},
                                           {HF_INT("intermediate_size", ffn_hidden, "3072")},
                                           {.key = NULL}};
static const mega_family_key *const keys[] = {sizes, hf_roberta_rows, hf_bert_rows, NULL};
static const char *const architecture[] = {"RobertaForMaskedLM", "RobertaModel", NULL};
const char *const hf_roberta_ignored[] = {"*.position_ids", "*.token_type_ids", "roberta.pooler.*", "pooler.*", NULL};

const mega_family_names hf_roberta_names = {HF_BERT_NAMES("roberta"),     HF_POST_NORMS,
                                            .head = "lm_head.decoder",    .head_bias = "lm_head.bias",
                                            .transform = "lm_head.dense", .transform_norm = "lm_head.layer_norm"};

void hf_roberta_finish(hf_reader *r, mega_model_shape *s)
{
    const int64_t rows = hf_take_int(r, "max_position_embeddings", 512);
    const json_t *pad = json_object_get(r->json, "pad_token_id");
    hf_take(r, "cls_token_id");
    if (pad == NULL) s->net.pad = 1; /* the class default */
    s->net.skipped_positions = s->net.pad + 1;
    s->positions = rows - s->net.skipped_positions;
    s->net.transform_activation = MEGA_ACT_GELU; /* whatever hidden_act is */
    if (s->net.pad < 0) hf_refuse(r, "pad_token_id", pad, "an id, after which positions begin");
    else if (s->positions < 1)
        hf_refuse(r, "max_position_embeddings", json_object_get(r->json, "max_position_embeddings"),
                  "more than pad_token_id + 1");
}

void hf_roberta_write(const mega_model_shape *s, void *user, hf_put *put)
{
    hf_put_int(user, put, "max_position_embeddings", s->positions + s->net.skipped_positions);
}

MEGA_FAMILY(200, roberta) = {.model_type = "roberta",
                             .architecture = architecture,
                             .keys = keys,
                             .net = {HF_ENCODER, HF_POST_NORM},
                             .names = &hf_roberta_names,
                             .rope_keys = " ",
                             .ignored = hf_roberta_ignored,
                             .finish = hf_roberta_finish,
                             .write = hf_roberta_write};
