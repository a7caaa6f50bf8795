/* OPT (Zhang et al. 2022): GPT with a table of positions that begins with two unused rows. */
#include "hf_impl.h"

static const mega_family_key rows[] = {
    {HF_INT("vocab_size", vocab, "50272")},
    {HF_INT("hidden_size", hidden, "768")},
    {HF_INT("ffn_dim", ffn_hidden, "3072")},
    {HF_INT("num_hidden_layers", num_layers, "12")},
    {HF_INT("num_attention_heads", heads, "12")},
    {HF_INT("max_position_embeddings", positions, "2048")},
    {HF_FLOAT("init_std", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("attention_dropout", attention_dropout, "0.0"), .high = 1.0},
    {HF_FLOAT("dropout", hidden_dropout, "0.1"), .high = 1.0},
    {HF_ACTIVATION("activation_function", net.activation, "\"relu\"")},
    {HF_BOOL("enable_bias", net.no_qkv_bias, "true"), .negated = true},
    {HF_BOOL("layer_norm_elementwise_affine", net.norm_no_weight, "true"), .negated = true},
    {HF_FIXED("layerdrop", "0.0"), .is_written = true},
    {HF_BOOL("tie_word_embeddings", net.untied, "true"), .negated = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"OPTForCausalLM", "OPTModel", NULL};
static const char *const ignored[] = {NULL};

static const mega_family_names names = {.root = "model.decoder",
                                        .block = "model.decoder.layers.%d",
                                        .end = "",
                                        .tokens = "embed_tokens",
                                        .positions = "embed_positions",
                                        .final_norm = "model.decoder.final_layer_norm",
                                        .head = "lm_head",
                                        .tied = "model.decoder.embed_tokens",
                                        .norm_1 = "self_attn_layer_norm",
                                        .norm_2 = "final_layer_norm",
                                        .attention = "self_attn",
                                        .qkv = "qkv_proj",
                                        .out = "out_proj",
                                        .qkv_order = MEGA_QKV_THREE,
                                        .q = "self_attn.q_proj",
                                        .k = "self_attn.k_proj",
                                        .v = "self_attn.v_proj",
                                        .up = "fc1",
                                        .down = "fc2"};

static void opt_finish(hf_reader *r, mega_model_shape *s)
{
    mega_network_shape *n = &s->net;
    hf_take(r, "activation_dropout"); /* never read */
    const int64_t width = hf_take_int(r, "word_embed_proj_dim", s->hidden);
    if (width != s->hidden)
        hf_refuse(r, "word_embed_proj_dim", json_object_get(r->json, "word_embed_proj_dim"),
                  "the value of hidden_size: projections of the embedding are not implemented yet");
    n->norm_place = hf_take_bool(r, "do_layer_norm_before", true) ? MEGA_NORM_BEFORE : MEGA_NORM_AFTER_SUM;
    n->no_final_norm = hf_take_bool(r, "_remove_final_layer_norm", false) || n->norm_place == MEGA_NORM_AFTER_SUM;
    n->no_out_bias = n->no_mlp_bias = n->no_qkv_bias;
    n->norm_no_bias = n->norm_no_weight;
    s->norm_epsilon = 1e-5; /* PyTorch's; there is no key for it */
}

static void opt_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    const bool before = s->net.norm_place == MEGA_NORM_BEFORE;
    hf_put_int(user, put, "word_embed_proj_dim", s->hidden);
    put(user, "do_layer_norm_before", before ? "true" : "false");
    put(user, "_remove_final_layer_norm", before && s->net.no_final_norm ? "true" : "false");
}

MEGA_FAMILY(160, opt) = {HF_TABLES("opt"), .net = {.positions = MEGA_POSITIONS_TABLE, .skipped_positions = 2},
                         .rope_keys = " ", .finish = opt_finish, .write = opt_write_rest};
