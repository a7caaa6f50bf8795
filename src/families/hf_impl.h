/* Reading and writing config.json, for the files of families. */
#ifndef MEGALITH_HF_IMPL_H
#define MEGALITH_HF_IMPL_H

#include "megalith/family.h"
#include "megalith/hf_config.h"
#include "megalith/memory.h"

#include <jansson.h>

/* Begins the definition of a family, one in each file of models/, of which the build makes the list of families
 * (cmake/families.awk). Messages and pages have them in the order of their places; of several families that can hold a
 * model the first is chosen. The last holds what no model of transformers can. */
#define MEGA_FAMILY(place, name) const mega_family mega_family_##name
/* Its model_type, and the tables of its file, by the names that they have in each. */
#define HF_TABLES(type) \
    .model_type = (type), .architecture = architecture, .keys = keys, .names = &names, .ignored = ignored
extern const mega_family mega_family_gpt2;

enum { HF_TAKEN = 96 };

struct hf_reader {
    const json_t *json;
    const mega_family *family;
    const char *taken[HF_TAKEN]; /* the keys that were looked at */
    int num_taken;
    bool no_memory;
    mega_buffer wrong; /* one line for each setting that cannot be used */
    int count;
};

/* Passes a key and its JSON to the writer; NULL: there is no memory for it. */
typedef void hf_put(void *user, const char *key, const char *json);

/* hf_keys.c */
/* The beginnings of rows: the key, the member of mega_model_shape, and the class default of transformers as JSON. */
#define HF_ROW(name, type, member, value) \
    .key = (name), .kind = (type), .field = offsetof(mega_model_shape, member), .fallback = (value)
#define HF_INT(name, member, value)        HF_ROW(name, MEGA_KEY_INT, member, value)
#define HF_FLOAT(name, member, value)      HF_ROW(name, MEGA_KEY_FLOAT, member, value)
#define HF_BOOL(name, member, value)       HF_ROW(name, MEGA_KEY_BOOL, member, value)
#define HF_ACTIVATION(name, member, value) HF_ROW(name, MEGA_KEY_ACTIVATION, member, value)
#define HF_CHOICE(name, member, value)     HF_ROW(name, MEGA_KEY_CHOICE, member, value)
#define HF_FIXED(name, value)              .key = (name), .kind = MEGA_KEY_FIXED, .fallback = (value)
#define HF_ANY_STD                         1e300 /* initial weights may be as large as their option says */
/* Returns the value of a key, or NULL if it is missing; from now on the key counts as known. */
const json_t *hf_take(hf_reader *r, const char *key);
int64_t hf_take_int(hf_reader *r, const char *key, int64_t fallback);   /* missing or null: fallback */
int64_t hf_take_whole(hf_reader *r, const char *key, int64_t fallback); /* also 0 */
bool hf_take_bool(hf_reader *r, const char *key, bool fallback);
double hf_take_float(hf_reader *r, const char *key, double fallback);
double hf_take_positive(hf_reader *r, const char *key, double fallback); /* above 0 */
/* Reports that the value of a key cannot be used. */
void hf_put_found(mega_buffer *b, const json_t *value); /* as a message quotes it */
void hf_refuse(hf_reader *r, const char *key, const json_t *found, const char *expected);
bool hf_find_activation(const char *name, mega_activation_kind *out); /* by any of its names */
/* The first name in `architectures`; NULL: none. */
const char *hf_architecture(const hf_reader *r);
void hf_take_keys(hf_reader *r, mega_model_shape *shape);
void hf_take_ids(hf_reader *r, mega_model_shape *shape); /* bos, eos, pad */
void hf_refuse_unknown(hf_reader *r);
void hf_put_keys(const mega_model_shape *shape, void *user, hf_put *put);

/* hf_rope.c */
void hf_take_rope(hf_reader *r, mega_model_shape *shape);
void hf_put_rope(const mega_model_shape *shape, void *user, hf_put *put);

/* hf_windows.c: windows and rotation by layer. */
/* sliding_window, for all layers. */
void hf_take_window(hf_reader *r, mega_model_shape *shape, int64_t fallback);
void hf_put_window(const mega_model_shape *shape, void *user, hf_put *put);
/* layer_types: which layers have the window; where the key is missing those i for which has_window(shape, i). */
void hf_take_layer_types(hf_reader *r, mega_model_shape *shape, bool (*has_window)(const mega_model_shape *, int64_t));
void hf_put_layer_types(const mega_model_shape *shape, void *user, hf_put *put);
/* Clears the windows of a model that has none; reports a list that says otherwise. */
void hf_clear_windows(hf_reader *r, mega_model_shape *shape);
/* no_rope_layers and no_rope_layer_interval. */
void hf_take_no_rope(hf_reader *r, mega_model_shape *shape, int64_t interval);
void hf_put_no_rope(const mega_model_shape *shape, void *user, hf_put *put);
/* Puts and releases the text of a buffer. */
void hf_put_text(void *user, hf_put *put, const char *key, mega_buffer *text);
void hf_put_int(void *user, hf_put *put, const char *key, int64_t value);
/* A number that is an integer in files where it is whole. */
void hf_put_whole_or_float(void *user, hf_put *put, const char *key, double value);

/* hf_experts.c */
void hf_take_dense_layers(hf_reader *r, mega_model_shape *shape);
void hf_put_dense_layers(const mega_model_shape *shape, void *user, hf_put *put);
/* first_k_dense_replace: how many layers before the others are dense. */
void hf_take_first_dense(hf_reader *r, mega_model_shape *s, int64_t fallback);
void hf_put_first_dense(const mega_model_shape *s, void *user, hf_put *put);
/* Groups of experts, of which a token chooses some by their best two experts. */
void hf_check_groups(hf_reader *r, const mega_model_shape *s, const char *groups, const char *chosen);
void hf_check_choices(hf_reader *r, const mega_model_shape *shape, const char *key);
void hf_take_experts(hf_reader *r, mega_model_shape *shape); /* of folders of our own: any router, or no experts */
void hf_put_experts(const mega_model_shape *shape, void *user, hf_put *put);

/* hf_labels.c: the number of classes and their names, id2label and label2id. */
void hf_take_labels(hf_reader *r, mega_model_shape *shape);
void hf_put_labels(const mega_model_shape *shape, void *user, hf_put *put);

/* models/keys.c */
int64_t hf_derive_kv_heads(const mega_model_shape *shape);
int64_t hf_derive_head_dim(const mega_model_shape *shape);
int64_t hf_derive_ffn(const mega_model_shape *shape); /* 4 * hidden */

/* models/bert.c: what BERT and its kin have in common. */
extern const mega_family_key hf_bert_rows[];
extern const char *const hf_bert_ignored[];
void hf_bert_finish(hf_reader *r, mega_model_shape *s);
/* 0: both heads; 1: that of masked tokens alone; 2: a classifier of samples; 3: of choices */
int hf_bert_form(const mega_model_shape *s);
/* Names of the tensors before the heads; a family adds to them. */
#define HF_BERT_NAMES(root_)                                                                                 \
    .root = root_ ".embeddings", .block = root_ ".encoder.layer.%d", .end = "", .tokens = "word_embeddings", \
    .positions = "position_embeddings", .token_types = "token_type_embeddings",                              \
    .tied = root_ ".embeddings.word_embeddings", .pooler = root_ ".pooler.dense", .attention = "attention",  \
    .qkv = "self.qkv", .out = "output.dense", .qkv_order = MEGA_QKV_THREE, .q = "attention.self.query",      \
    .k = "attention.self.key", .v = "attention.self.value", .up = "intermediate.dense", .down = "output.dense"
#define HF_BERT_HEADS                                                                                        \
    .head = "cls.predictions.decoder", .head_bias = "cls.predictions.bias",                                  \
    .transform = "cls.predictions.transform.dense", .transform_norm = "cls.predictions.transform.LayerNorm", \
    .sentence_head = "cls.seq_relationship", .classifier = "classifier"
#define HF_POST_NORMS \
    .embedding_norm = "LayerNorm", .norm_1 = "attention.output.LayerNorm", .norm_2 = "output.LayerNorm"
/* Networks with the parts of BERT; HF_POST_NORM: with its norms too. */
#define HF_ENCODER   .is_encoder = true, .transform = true, .head_bias = true, .positions = MEGA_POSITIONS_TABLE
#define HF_POST_NORM .embedding_norm = true, .norm_place = MEGA_NORM_AFTER_SUM, .no_final_norm = true
/* RoBERTa, and its form for many languages: models/roberta.c. */
extern const mega_family_key hf_roberta_rows[];
extern const char *const hf_roberta_ignored[];
extern const mega_family_names hf_roberta_names;
void hf_roberta_finish(hf_reader *r, mega_model_shape *s);
void hf_roberta_write(const mega_model_shape *s, void *user, hf_put *put);

/* models/granitemoe.c: what the two families of Granite with experts have in common. */
extern const mega_family_key hf_granitemoe_rows[];
void hf_granitemoe_finish(hf_reader *r, mega_model_shape *s);
void hf_granitemoe_write(const mega_model_shape *s, void *user, hf_put *put);
#define HF_GRANITEMOE_NAMES                                                                                            \
    HF_LLAMA_PATHS, HF_LLAMA_NORMS, HF_LLAMA_ATTENTION,                                                                \
        .router = "block_sparse_moe.router.layer", .expert_up = "block_sparse_moe.experts.#.input",                    \
        .expert_down = "block_sparse_moe.experts.#.output", .expert_up_stack = "block_sparse_moe.input_linear.weight", \
        .expert_down_stack = "block_sparse_moe.output_linear.weight"
#define HF_GRANITEMOE_NET HF_LLAMA_NET, .no_mlp_bias = true, .experts = {.score = MEGA_ROUTE_SOFTMAX_OF_CHOSEN}

/* models/t5.c: what the two families of T5 in transformers have in common. */
extern const mega_family_key hf_t5_rows[];
extern const mega_family_key *const hf_mt5_keys[]; /* umT5 has the defaults of mT5 */
extern const mega_family_names hf_t5_names;
extern const char *const hf_t5_ignored[];
void hf_t5_finish(hf_reader *r, mega_model_shape *s); /* all but whether the head has a table of its own */
void hf_t5_write(const mega_model_shape *s, void *user, hf_put *put);
void hf_put_decoder_start(const mega_model_shape *s, void *user, hf_put *put);
int64_t hf_derive_decoder_layers(const mega_model_shape *shape); /* as many as the encoder has */

/* Names of tensors that Llama and the families after it have, in parts; a family adds to them, or writes its own in
 * place of a part. */
#define HF_LLAMA_PATHS                                                                                            \
    .root = "model", .block = "model.layers.%d", .end = "", .tokens = "embed_tokens", .final_norm = "model.norm", \
    .head = "lm_head", .tied = "model.embed_tokens"
#define HF_LLAMA_QKV                                                                                   \
    .attention = "self_attn", .qkv = "qkv_proj", .qkv_order = MEGA_QKV_THREE, .q = "self_attn.q_proj", \
    .k = "self_attn.k_proj", .v = "self_attn.v_proj"
#define HF_LLAMA_ATTENTION  HF_LLAMA_QKV, .out = "o_proj"
#define HF_LLAMA_MLP        HF_LLAMA_MLP_AS_ONE, .gate_file = "mlp.gate_proj", .up_file = "mlp.up_proj"
#define HF_LLAMA_MLP_AS_ONE .up = "mlp.gate_up_proj", .down = "mlp.down_proj"
#define HF_LLAMA_NORMS      .norm_1 = "input_layernorm", .norm_2 = "post_attention_layernorm"
#define HF_LLAMA_NAMES      HF_LLAMA_PATHS, HF_LLAMA_NORMS, HF_LLAMA_ATTENTION, HF_LLAMA_MLP
#define HF_LLAMA_NET        .positions = MEGA_POSITIONS_ROPE, .rms = true, .gated = true
/* A router and experts in the place of the MLP. */
#define HF_LLAMA_EXPERTS                                                                                       \
    .router = "mlp.gate", .expert_up = "mlp.experts.#.gate_up_proj", .expert_down = "mlp.experts.#.down_proj", \
    .expert_gate_file = "mlp.experts.#.gate_proj", .expert_up_file = "mlp.experts.#.up_proj"
#define HF_CHOICE_BIAS .choice_bias = "mlp.gate.e_score_correction_bias"
/* An MLP beside them, at `path`. */
#define HF_LLAMA_SHARED(path)                                                                                   \
    .shared_up = path ".gate_up_proj", .shared_down = path ".down_proj", .shared_gate_file = path ".gate_proj", \
    .shared_up_file = path ".up_proj"
/* Norms of the outputs of attention and MLP, and of the heads of queries and keys. */
#define HF_AFTER_NORMS .after_1 = "post_attention_layernorm", .after_2 = "post_feedforward_layernorm"
#define HF_HEAD_NORMS  .q_norm = "q_norm", .k_norm = "k_norm"

#endif
