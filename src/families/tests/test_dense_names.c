/* Which parameter of a dense model one of a mixture of experts begins with. */
#include "kit.h"
#include "megalith/family.h"

#include <string.h>

static const struct {
    const char *mixture, *dense, *name, *expected; /* expected NULL: unknown; "": none */
} cases[] = {
    {"mixtral", "llama", "model.embed_tokens.weight", "model.embed_tokens.weight"},
    {"mixtral", "llama", "lm_head.weight", "lm_head.weight"},
    {"mixtral", "llama", "model.norm.weight", "model.norm.weight"},
    {"mixtral", "llama", "model.layers.11.input_layernorm.weight", "model.layers.11.input_layernorm.weight"},
    {"mixtral", "llama", "model.layers.0.self_attn.qkv_proj.weight", "model.layers.0.self_attn.qkv_proj.weight"},
    {"mixtral", "llama", "model.layers.0.self_attn.qkv_proj_k.bias", "model.layers.0.self_attn.qkv_proj_k.bias"},
    {"mixtral", "llama", "model.layers.3.block_sparse_moe.gate.weight", ""},
    {"mixtral", "llama", "model.layers.3.block_sparse_moe.experts.12.w13.weight",
     "model.layers.3.mlp.gate_up_proj.weight"},
    {"mixtral", "llama", "model.layers.3.block_sparse_moe.experts.0.w2.weight", "model.layers.3.mlp.down_proj.weight"},
    {"mixtral", "llama", "model.layers.3.block_sparse_moe.experts.x.w2.weight", NULL},
    {"mixtral", "llama", "model.layers.3.block_sparse_moe.experts.0.w2_scale", NULL},
    {"mixtral", "llama", "model.layers.self_attn.o_proj.weight", NULL},
    {"mixtral", "llama", "model.nothing.weight", NULL},
    {"qwen3_moe", "qwen3", "model.layers.1.mlp.gate_up_proj.weight", "model.layers.1.mlp.gate_up_proj.weight"},
    {"qwen3_moe", "qwen3", "model.layers.1.mlp.gate.weight", ""},
    {"qwen3_moe", "qwen3", "model.layers.1.self_attn.k_norm.weight", "model.layers.1.self_attn.k_norm.weight"},
    {"megalith_gpt", "gpt2", "embed", NULL},
    {"megalith_gpt", "gpt2", "model.embed_positions.weight", "transformer.wpe.weight"},
    {"megalith_gpt", "gpt2", "model.embed_tokens.weight", "transformer.wte.weight"},
    {"megalith_gpt", "gpt2", "model.norm.bias", "transformer.ln_f.bias"},
    {"megalith_gpt", "gpt2", "model.layers.7.self_attn.o_proj.weight", "transformer.h.7.attn.c_proj.weight"},
    {"megalith_gpt", "gpt2", "model.layers.7.mlp.experts.5.down_proj.weight", "transformer.h.7.mlp.c_proj.weight"},
    {"megalith_gpt", "gpt2", "model.layers.7.mlp.shared_expert.down_proj.bias", "transformer.h.7.mlp.c_proj.bias"},
    {"megalith_gpt", "gpt2", "model.layers.7.mlp.coefficient.first.bias", ""}};

static void names_of_dense_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[MEGA_PARAM_NAME] = "untouched";
        const bool is_known = mega_family_dense_name(mega_family_find(cases[i].mixture),
                                                     mega_family_find(cases[i].dense), cases[i].name, name);
        if (is_known != (cases[i].expected != NULL)) fail_msg("%s is %sknown", cases[i].name, is_known ? "" : "un");
        if (is_known) assert_string_equal(name, cases[i].expected);
    }
}

/* A name that does not fit is no name. */
static void too_long_a_name(void **state)
{
    char name[3 * MEGA_PARAM_NAME] = "model.layers.0.mlp.down_proj.", out[MEGA_PARAM_NAME];
    (void)state;
    memset(name + strlen(name), 'x', MEGA_PARAM_NAME);
    assert_false(mega_family_dense_name(mega_family_find("qwen3_moe"), mega_family_find("qwen3"), name, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_dense_models),
        cmocka_unit_test(too_long_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
