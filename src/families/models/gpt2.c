/* GPT-2 (Radford et al. 2019): GPT2LMHeadModel. */
#include "hf_impl.h"
#include "megalith/log.h"

static const mega_family_key rows[] = {
    {HF_INT("n_layer", num_layers, "12"), .alias = "num_hidden_layers"},
    {HF_INT("n_embd", hidden, "768"), .alias = "hidden_size"},
    {HF_INT("n_head", heads, "12"), .alias = "num_attention_heads"},
    {HF_INT("n_positions", positions, "1024"), .alias = "max_position_embeddings"},
    {HF_INT("vocab_size", vocab, "50257")},
    {HF_INT("n_inner", ffn_hidden, "null"), .derive = hf_derive_ffn, .null_if_derived = true},
    {HF_FLOAT("layer_norm_epsilon", norm_epsilon, "1e-05"), .high = 1.0, .positive = true},
    {HF_FLOAT("initializer_range", init_std, "0.02"), .high = HF_ANY_STD},
    {HF_FLOAT("attn_pdrop", attention_dropout, "0.1"), .high = 1.0},
    {HF_FLOAT("resid_pdrop", hidden_dropout, "0.1"), .high = 1.0},
    {HF_ACTIVATION("activation_function", net.activation, "\"gelu_new\"")},
    {HF_FIXED("scale_attn_weights", "true"), .is_written = true},
    {HF_FIXED("scale_attn_by_inverse_layer_idx", "false"), .is_written = true},
    {HF_FIXED("add_cross_attention", "false"), .is_written = true},
    {HF_FIXED("tie_word_embeddings", "true"), .is_written = true},
    {.key = NULL}};
static const mega_family_key *const keys[] = {rows, NULL};
static const char *const architecture[] = {"GPT2LMHeadModel", "GPT2Model", "GPT2DoubleHeadsModel", NULL};
static const char *const ignored[] = {"h.#.attn.bias", "transformer.h.#.attn.bias", "h.#.attn.masked_bias",
                                      "transformer.h.#.attn.masked_bias", NULL};

static const mega_family_names names = {.root = "transformer",
                                        .block = "transformer.h.%d",
                                        .end = "transformer",
                                        .tokens = "wte",
                                        .positions = "wpe",
                                        .final_norm = "ln_f",
                                        .tied = "wte",
                                        .norm_1 = "ln_1",
                                        .norm_2 = "ln_2",
                                        .attention = "attn",
                                        .qkv = "c_attn",
                                        .out = "c_proj",
                                        .up = "mlp.c_fc",
                                        .down = "mlp.c_proj",
                                        .transposed = true};

static void gpt2_finish(hf_reader *r, mega_model_shape *s)
{
    static const char *const unused[] = {"n_ctx",
                                         "n_special",
                                         "predict_special_tokens",
                                         "summary_type",
                                         "summary_use_proj",
                                         "summary_activation",
                                         "summary_proj_to_labels",
                                         "summary_first_dropout",
                                         "reorder_and_upcast_attn"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) hf_take(r, unused[i]);
    const double embedding = hf_take_float(r, "embd_pdrop", 0.1);
    if (!(embedding >= 0.0 && embedding <= 1.0))
        hf_refuse(r, "embd_pdrop", json_object_get(r->json, "embd_pdrop"), "a number from 0 to 1");
    if (embedding != s->hidden_dropout)
        mega_warn("config.json: embd_pdrop %g differs from resid_pdrop %g; %g is used for both", embedding,
                  s->hidden_dropout, s->hidden_dropout);
    const json_t *pruned = hf_take(r, "pruned_heads");
    if (pruned != NULL && json_object_size(pruned) > 0) hf_refuse(r, "pruned_heads", pruned, "none");
    if (json_object_get(r->json, "eos_token_id") == NULL) { /* the class default */
        s->eos = s->net.eos[0] = 50256;
        s->net.num_eos = 1;
        if (s->eos >= s->vocab) {
            mega_warn("config.json: eos_token_id 50256 is outside of the vocabulary of %lld and is ignored",
                      (long long)s->vocab);
            s->eos = -1;
        }
    }
    s->net.has_ids = false; /* bos is written as eos */
}

static void gpt2_write_rest(const mega_model_shape *s, void *user, hf_put *put)
{
    mega_buffer b = {0};
    mega_buffer_json_double(&b, s->hidden_dropout);
    hf_put_text(user, put, "embd_pdrop", &b);
    put(user, "reorder_and_upcast_attn", "false");
}

MEGA_FAMILY(10, gpt2) = {HF_TABLES("gpt2"), .rope_keys = " ", .finish = gpt2_finish, .write = gpt2_write_rest};
