/* Networks that options describe and no model of transformers has: every setting of theirs is a key. megalith reads and
 * writes such folders; transformers does not know them. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "50257")},
    {HF_INT("hidden_size", hidden, "768")},
    {HF_INT("intermediate_size", ffn_hidden, "3072")},
    {HF_INT("num_hidden_layers", num_layers, "12")},
    {HF_INT("num_attention_heads", heads, "12")},
    {HF_INT("num_key_value_heads", net.kv_heads, "null"), .derive = hf_derive_kv_heads},
    {HF_INT("head_dim", net.head_dim, "null"), .derive = hf_derive_head_dim},
    {HF_INT("max_position_embeddings", positions, "1024")},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("norm_epsilon", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FLOAT("hidden_dropout", hidden_dropout, "0.0"), .high = 1.0},
    {HF_CHOICE("position_embedding_type", net.positions, "\"learned_absolute\""),
     .choices = "learned_absolute|rope|alibi|none"},
    {HF_BOOL("rotary_interleaved", net.rope.interleaved, "false")},
    {HF_BOOL("rms_norm", net.rms, "false")},
    {HF_BOOL("norm_one_plus_weight", net.norm_plus_one, "false")},
    {HF_BOOL("embedding_norm", net.embedding_norm, "false")},
    {HF_CHOICE("query_key_norm", net.query_norm, "\"none\""), .choices = "none|head|all"},
    {HF_ACTIVATION("hidden_act", net.activation, "\"gelu_new\"")},
    {HF_BOOL("gated_mlp", net.gated, "false")},
    {HF_BOOL("gate_second", net.gate_second, "false")},
    {HF_BOOL("attention_bias", net.no_qkv_bias, "true"), .negated = true},
    {HF_BOOL("attention_output_bias", net.no_out_bias, "true"), .negated = true},
    {HF_BOOL("mlp_bias", net.no_mlp_bias, "true"), .negated = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"MegalithGPTForCausalLM", NULL};
static const char *const ignored[] = {NULL};

static const mega_family_names names = {HF_LLAMA_NAMES,
                                        HF_LLAMA_EXPERTS,
                                        HF_CHOICE_BIAS,
                                        HF_LLAMA_SHARED("mlp.shared_expert"),
                                        .blend = "mlp.coefficient",
                                        .positions = "embed_positions",
                                        .embedding_norm = "embed_layernorm"};

static void megalith_gpt_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take(r, "_comment");
    hf_take_window(r, s, 0);
    hf_take_no_rope(r, s, INT32_MAX);
    hf_take_experts(r, s);
}

static void megalith_gpt_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    put(user, "_comment",
        "\"No model of transformers has this combination of options: transformers cannot load this folder, megalith "
        "can.\"");
    hf_put_window(s, user, put);
    hf_put_experts(s, user, put);
    if (s->net.positions == MEGA_POSITIONS_ROPE && s->num_layers <= MEGA_SHAPE_LAYERS) hf_put_no_rope(s, user, put);
}

MEGA_FAMILY(1000, megalith_gpt) = {
    HF_TABLES("megalith_gpt"),     .rope_keys = " partial_rotary_factor ", .theta = 10000.0, .is_own = true,
    .finish = megalith_gpt_finish, .write = megalith_gpt_write_rest};
