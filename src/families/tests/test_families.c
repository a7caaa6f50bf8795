/* The tables of families: the class defaults of transformers, every key changed in turn, keys that are refused, and
 * which family holds a model that options describe. */
#include "hf_impl.h"
#include "kit.h"
#include "published.h"

#include "megalith/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mega_status parse(const char *text, mega_model_shape *out)
{
    return mega_hf_config_parse("config.json", text, strlen(text), out);
}

#define refused(st, expected, ...) refused_with(st, expected, (const char *const[]){__VA_ARGS__, NULL})
static void refused_with(mega_status st, mega_status expected, const char *const *part)
{
    assert_int_equal(st, expected);
    for (; *part != NULL; part++)
        if (strstr(mega_error_message(), *part) == NULL) fail_msg("\"%s\" is not in: %s", *part, mega_error_message());
}

static char *text_of(const mega_model_shape *s)
{
    mega_buffer b = {0};
    need(mega_hf_config_text(&b, s, MEGA_F32));
    return b.data;
}

/* A small model of the family: its defaults, with sizes that fit each other. */
static json_t *small(const mega_family *f)
{
    static const struct {
        const char *key;
        int value;
    } sizes[] = {{"vocab_size", 40},
                 {"hidden_size", 96},
                 {"n_embd", 96},
                 {"num_hidden_layers", 6},
                 {"n_layer", 6},
                 {"num_attention_heads", 6},
                 {"n_head", 6},
                 {"num_key_value_heads", 2},
                 {"max_position_embeddings", 64},
                 {"n_positions", 64},
                 {"head_dim", 8},
                 {"intermediate_size", 32},
                 {"ffn_dim", 32},
                 {"dim", 96},
                 {"hidden_dim", 32},
                 {"n_layers", 6},
                 {"n_heads", 6},
                 {"d_model", 96},
                 {"d_kv", 8},
                 {"d_ff", 32},
                 {"num_layers", 6},
                 {"num_heads", 6},
                 {"num_local_experts", 5},
                 {"num_experts", 5},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 16},
                 {"n_routed_experts", 24},
                 {"n_group", 3},
                 {"topk_group", 2},
                 {"q_lora_rank", 20},
                 {"kv_lora_rank", 14},
                 {"qk_nope_head_dim", 10},
                 {"qk_rope_head_dim", 6},
                 {"v_head_dim", 8},
                 {"shared_expert_intermediate_size", 24},
                 {"original_max_position_embeddings", 64}};
    json_t *json = json_object();
    json_object_set_new(json, "model_type", json_string(f->model_type));
    json_object_set_new(json, "eos_token_id", json_integer(3));
    for (int t = 0; f->keys[t] != NULL; t++)
        for (const mega_family_key *k = f->keys[t]; k->key != NULL; k++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                if (strcmp(k->key, sizes[i].key) == 0) json_object_set_new(json, k->key, json_integer(sizes[i].value));
    return json;
}

static mega_status parse_json(const json_t *json, mega_model_shape *out)
{
    char *text = json_dumps(json, 0);
    const mega_status st = parse(text, out);
    free(text);
    return st;
}

/* The names of classes, as transformers 4.57 writes them: sorted by number, and by name. */
static void classes_keep_their_names(void **state)
{
    (void)state;
    mega_model_shape s;
#define CLASSIFIER(rest) "{\"model_type\": \"bert\", \"architectures\": [\"BertForSequenceClassification\"], " rest "}"
    need(parse(CLASSIFIER("\"id2label\": {\"1\": \"b\", \"0\": \"z \\\"q\", \"2\": \"a\"}, \"num_labels\": 3"), &s));
    assert_int_equal(s.net.classes, 3);
    assert_string_equal(mega_shape_label(&s.net, 2), "a");
    assert_null(mega_shape_label(&s.net, 3));
    char *text = text_of(&s);
    assert_non_null(strstr(text, "\"id2label\": {\n    \"0\": \"z \\\"q\",\n    \"1\": \"b\",\n    \"2\": \"a\"\n  }"));
    assert_non_null(strstr(text, "\"label2id\": {\n    \"a\": 2,\n    \"b\": 1,\n    \"z \\\"q\": 0\n  }"));
    mega_free(text);
    need(parse(CLASSIFIER("\"id2label\": {\"0\": \"no\", \"1\": \"yes\"}"), &s));
    text = text_of(&s);
    assert_non_null(strstr(text, "\"label2id\": {\n    \"no\": 0,\n    \"yes\": 1\n  }"));
    mega_free(text);
    need(parse(CLASSIFIER("\"num_labels\": 3"), &s));
    text = text_of(&s);
    assert_non_null(strstr(text, "\"LABEL_2\": 2"));
    mega_free(text);
    need(parse(CLASSIFIER("\"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}"), &s));
    assert_null(mega_shape_label(&s.net, 0));
    text = text_of(&s);
    assert_null(strstr(text, "id2label"));
    mega_free(text);
    refused(parse(CLASSIFIER("\"id2label\": {\"0\": \"a\", \"1\": \"b\"}, \"num_labels\": 3"), &s),
            MEGA_ERR_UNSUPPORTED, "num_labels: found 3, expected 2, the number of names in id2label");
    refused(parse(CLASSIFIER("\"id2label\": {\"0\": \"a\", \"2\": \"b\"}"), &s), MEGA_ERR_UNSUPPORTED,
            "id2label: found");
    refused(parse(CLASSIFIER("\"num_labels\": 1"), &s), MEGA_ERR_UNSUPPORTED,
            "num_labels: found 1, expected 2 to 4096");
#undef CLASSIFIER
}

/* config.json of Phi-3.5-MoE-instruct with fewer factors of a rotation. */
static void phimoe_has_one_mscale(void **state)
{
    (void)state;
    mega_model_shape s;
#define SCALES "\"short_mscale\": 1.243163121016122, \"long_mscale\": 1.243163121016122, "
#define PHIMOE(scales, rest)                                                                                      \
    "{\"model_type\": \"phimoe\", \"architectures\": [\"PhiMoEForCausalLM\"], \"attention_bias\": true, "         \
    "\"bos_token_id\": 1, \"eos_token_id\": 32000, \"hidden_size\": 16, \"num_attention_heads\": 4, "             \
    "\"num_key_value_heads\": 2, \"input_jitter_noise\": 0.01, \"lm_head_bias\": true, \"hidden_dropout\": 0.0, " \
    "\"original_max_position_embeddings\": 4096, \"rope_theta\": 10000.0, \"sliding_window\": 131072, " rest      \
    "\"rope_scaling\": {" scales "\"short_factor\": [1.0, 1.25], \"long_factor\": [2.0, 3.0], "                   \
    "\"original_max_position_embeddings\": 4096, \"type\": \"longrope\"}}"
    need(parse(PHIMOE(SCALES, ""), &s));
    assert_true(s.net.rope.attention_factor == 1.243163121016122 && s.net.rope.original_positions == 4096);
    assert_true(s.net.experts.jitter == 0.01 && s.net.experts.margin == 0.01 && s.net.experts.choices == 2);
    assert_true(s.net.head_bias && s.net.untied && !s.net.no_out_bias && !s.net.rms && s.net.experts.hidden == 6400);
    char *text = text_of(&s);
    assert_non_null(strstr(text, "\"short_mscale\": 1.243163121016122, \"long_mscale\": 1.243163121016122"));
    assert_null(strstr(text, "attention_factor"));
    mega_free(text);
    refused(parse(PHIMOE("\"short_mscale\": 1.2, \"long_mscale\": 1.3, ", ""), &s), MEGA_ERR_UNSUPPORTED,
            "rope_scaling.long_mscale: found 1.3, expected the same number in short_mscale and long_mscale");
    refused(parse(PHIMOE("\"short_mscale\": 1.2, ", ""), &s), MEGA_ERR_UNSUPPORTED,
            "expected short_mscale and long_mscale");
    refused(parse(PHIMOE(SCALES "\"attention_factor\": 1.5, ", ""), &s), MEGA_ERR_UNSUPPORTED,
            "rope_scaling.attention_factor: found 1.5");
    refused(parse(PHIMOE(SCALES, "\"num_experts_per_tok\": 3, "), &s), MEGA_ERR_UNSUPPORTED,
            "num_experts_per_tok: found 3, expected 2");
#undef PHIMOE
#undef SCALES
}

/* What is read is written, and reading that again gives the same. */
static void every_family_is_written_as_it_was_read(void **state)
{
    (void)state;
    for (int i = 0; mega_families[i] != NULL; i++) {
        mega_model_shape s, again;
        json_t *json = small(mega_families[i]);
        need(parse_json(json, &s));
        assert_ptr_equal(mega_family_of(&s.net), mega_families[i]);
        char *text = text_of(&s);
        need(parse(text, &again));
        char *same = text_of(&again);
        assert_string_equal(text, same);
        mega_free(same);
        mega_free(text);
        json_decref(json);
    }
}

/* A value other than the one found: the model that is written follows, or the folder is refused naming the key. */
static json_t *another(const mega_family_key *k)
{
    switch (k->kind) {
    case MEGA_KEY_INT:
        return json_integer(strcmp(k->key, "hidden_size") == 0 ? 192 : strcmp(k->key, "head_dim") == 0 ? 16 : 12);
    case MEGA_KEY_FLOAT: return json_real(0.125);
    case MEGA_KEY_ACTIVATION: return json_string("sigmoid");
    case MEGA_KEY_CHOICE: return json_string(strrchr(k->choices, '|') + 1);
    case MEGA_KEY_BOOL: return NULL;
    case MEGA_KEY_FIXED: return json_integer(77);
    }
    return NULL;
}

static void every_key_counts(void **state)
{
    (void)state;
    for (int i = 0; mega_families[i] != NULL; i++) {
        const mega_family *f = mega_families[i];
        mega_model_shape before, after;
        json_t *json = small(f);
        need(parse_json(json, &before));
        char *text = text_of(&before);
        for (int t = 0; f->keys[t] != NULL; t++)
            for (const mega_family_key *k = f->keys[t]; k->key != NULL; k++) {
                json_t *changed = json_deep_copy(json), *value = another(k);
                if (value == NULL) {
                    const bool is_on = *(const bool *)(const void *)((const char *)&before + k->field) != k->negated;
                    value = json_boolean(!is_on);
                }
                json_object_set_new(changed, k->key, value);
                if (parse_json(changed, &after) == MEGA_OK) {
                    char *other = text_of(&after);
                    if (k->kind == MEGA_KEY_FIXED || strcmp(text, other) == 0)
                        fail_msg("%s: a change of %s is not seen", f->model_type, k->key);
                    mega_free(other);
                } else if (strstr(mega_error_message(), k->key) == NULL) {
                    fail_msg("%s: %s is not named in: %s", f->model_type, k->key, mega_error_message());
                }
                json_decref(changed);
            }
        mega_free(text);
        json_decref(json);
    }
}

/* Published folders of gpt_oss say how to make one that is read. */
static void four_bits_are_refused_with_the_way_out(void **state)
{
    (void)state;
    mega_model_shape s;
    refused(parse("{\"model_type\": \"gpt_oss\", \"quantization_config\": {\"quant_method\": \"mxfp4\"}}", &s),
            MEGA_ERR_UNSUPPORTED, "1 setting that", "quantization_config: found {\"quant_method\":\"mxfp4\"}",
            "Mxfp4Config(dequantize=True)).save_pretrained(NEW)");
    refused(parse("{\"model_type\": \"deepseek_v3\", \"quantization_config\": {\"quant_method\": \"fp8\"}}", &s),
            MEGA_ERR_UNSUPPORTED, "1 setting that", "quantization_config: found {\"quant_method\":\"fp8\"}",
            "fp8_cast_bf16.py");
    need(parse("{\"model_type\": \"gpt_oss\"}", &s));
    assert_true(s.net.rope.scaling == MEGA_ROPE_YARN && s.net.rope.factor == 32.0 && s.net.rope.no_truncate);
    assert_true(mega_shape_bit(s.net.windowed, 0) && !mega_shape_bit(s.net.windowed, 1) && s.net.window_left == 127);
    need(parse("{\"model_type\": \"gpt_oss\", \"rope_scaling\": {\"rope_type\": \"default\"}}", &s));
    assert_int_equal(s.net.rope.scaling, MEGA_ROPE_NONE);
    char *text = text_of(&s);
    assert_non_null(strstr(text, "\"rope_scaling\": {\"rope_type\": \"default\"}"));
    mega_free(text);
}

/* YaRN's second factor counts twice in the scores; keys of other programs say what the model is, or nothing. */
static void latent_attention_of_deepseek(void **state)
{
    (void)state;
    mega_model_shape s;
    need(parse(
        "{\"model_type\": \"deepseek_v3\", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"mscale\": 1.0, "
        "\"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 4096}}",
        &s));
    assert_int_equal(s.net.head_dim, 192);
    assert_true(fabs(s.net.attention_scale - 0.13523377) < 1e-8);
    need(parse("{\"model_type\": \"deepseek_v3\", \"q_lora_rank\": null, \"head_dim\": 64, \"qk_head_dim\": 192}", &s));
    assert_true(s.net.latent.q_rank == 0 && s.net.latent.kv_rank == 512 && s.net.attention_scale == 0.0);
    char *text = text_of(&s);
    assert_non_null(strstr(text, "\"q_lora_rank\": null"));
    mega_free(text);
    refused(parse("{\"model_type\": \"deepseek_v3\", \"num_key_value_heads\": 8, \"v_head_dim\": 256}", &s),
            MEGA_ERR_UNSUPPORTED, "2 settings that", "num_key_value_heads: found 8, expected 128, or no such key",
            "v_head_dim: found 256, expected at most 192, qk_nope_head_dim + qk_rope_head_dim");
    refused(parse("{\"model_type\": \"deepseek_v3\", \"qk_rope_head_dim\": 63}", &s), MEGA_ERR_UNSUPPORTED,
            "qk_rope_head_dim: found 63, expected heads of an even number of channels");
}

static void unknown_keys_are_refused_by_name(void **state)
{
    (void)state;
    for (int i = 0; mega_families[i] != NULL; i++) {
        mega_model_shape s;
        json_t *json = small(mega_families[i]);
        json_object_set_new(json, "task_specific_params", json_object());
        need(parse_json(json, &s));
        json_object_set_new(json, "mixture_of_depths", json_true());
        refused(parse_json(json, &s), MEGA_ERR_UNSUPPORTED, "1 setting that", "mixture_of_depths: found true");
        json_object_del(json, "mixture_of_depths");
        json_object_set_new(json, "quantization_config", json_pack("{s:i}", "bits", 4));
        refused(parse_json(json, &s), MEGA_ERR_UNSUPPORTED, "quantization_config: found {\"bits\":4}");
        json_decref(json);
    }
}

/* Published folders have more keys than their class reads. One that is null or an empty object says nothing, either. */
static void published_folders_are_read(void **state)
{
    (void)state;
    mega_model_shape s;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char *text = mega_strdup(published[i].json);
        for (char *c = text; *c != '\0'; c++)
            if (*c == '\'') *c = '"';
        if (parse(text, &s) != MEGA_OK) fail_msg("%s: %s", published[i].name, mega_error_message());
        assert_int_equal(s.heads, published[i].heads);
        assert_int_equal(s.net.kv_heads > 0 ? s.net.kv_heads : s.heads, published[i].kv_heads);
        assert_true(!s.net.norm_plus_one || s.net.activation == MEGA_ACT_GELU_TANH); /* Gemma's, whatever it says */
        mega_free(text);
    }
    need(parse("{\"model_type\": \"llama\", \"mixture_of_depths\": null, \"pruned_heads\": {}, "
               "\"add_cross_attention\": false}",
               &s));
    refused(parse("{\"model_type\": \"llama\", \"pruned_heads\": {\"0\": [1]}, \"add_cross_attention\": true}", &s),
            MEGA_ERR_UNSUPPORTED, "2 settings that", "pruned_heads: found", "add_cross_attention: found true");
}

/* Which of the two kinds of T5 a folder holds, and what transformers 5 writes of it. */
static void forms_of_t5(void **state)
{
    (void)state;
    mega_model_shape s;
#define T5 "{\"model_type\": \"t5\", \"d_model\": 64, "
    need(parse(T5 "\"num_layers\": 3}", &s));
    assert_true(s.net.t5 == MEGA_T5_ORIGINAL && !s.net.untied && s.net.logit_scale == 0.125 && !s.net.gated);
    assert_true(s.num_layers == 3 && s.net.decoder_layers == 3 && s.net.activation == MEGA_ACT_RELU);
    assert_true(s.net.pad == 0 && s.eos == 1 && s.net.decoder_start == 0 && s.attention_dropout == 0.1);
    need(parse(T5 "\"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false, \"num_decoder_layers\": 2}",
               &s));
    assert_true(s.net.untied && s.net.logit_scale == 0.0 && s.net.gated && s.net.activation == MEGA_ACT_GELU_TANH);
    assert_true(s.num_layers == 6 && s.net.decoder_layers == 2);
    need(parse(T5 "\"feed_forward_proj\": \"gated-silu\", \"is_gated_act\": true, \"dense_act_fn\": \"silu\", "
                  "\"tie_word_embeddings\": true, \"scale_decoder_outputs\": false}",
               &s));
    assert_true(s.net.untied && s.net.gated && s.net.activation == MEGA_ACT_SILU);
    refused(parse(T5 "\"feed_forward_proj\": \"twice-gelu\"}", &s), MEGA_ERR_UNSUPPORTED,
            "feed_forward_proj: found \"twice-gelu\", expected relu, gelu");
#undef T5
    need(parse("{\"model_type\": \"mt5\", \"tie_word_embeddings\": true}", &s));
    assert_true(s.net.untied && s.net.gated && s.heads == 6 && s.vocab == 250112);
    need(parse("{\"model_type\": \"umt5\", \"d_model\": 64}", &s));
    assert_true(!s.net.untied && s.net.gated && s.net.biases_by_layer && s.net.logit_scale == 0.125);
    assert_int_equal(s.net.activation, MEGA_ACT_GELU_TANH);
    need(parse("{\"model_type\": \"umt5\", \"tie_word_embeddings\": false}", &s));
    assert_true(s.net.untied && s.net.logit_scale == 0.0);
    need(parse("{\"model_type\": \"megatron-t5\", \"num_decoder_layers\": 4}", &s));
    assert_true(s.net.t5 == MEGA_T5_MEGATRON && s.net.head_bias && s.net.decoder_layers == 4 && s.num_layers == 12);
}

/* A 0 that would stand for another thing in the shape, or divide by it. */
static void zero_is_refused_where_it_is_no_value(void **state)
{
    (void)state;
    static const struct {
        const char *key, *expected;
    } row[] = {{"final_logit_softcapping", "found 0.0, expected a number above 0, from 0 to 1e+06"},
               {"attn_logit_softcapping", "found 0.0, expected a number above 0, from 0 to 1e+06"},
               {"query_pre_attn_scalar", "found 0.0, expected a number above 0"}};
    for (size_t i = 0; i < 2 * sizeof row / sizeof *row; i++) {
        mega_model_shape s;
        char text[120];
        if (i == 3) continue; /* attn_logit_softcapping, which is no key of gemma3_text */
        snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"%s\": 0.0}", i % 2 == 0 ? "gemma2" : "gemma3_text",
                 row[i / 2].key);
        assert_int_not_equal(parse(text, &s), MEGA_OK);
        if (strstr(mega_error_message(), row[i / 2].key) == NULL ||
            strstr(mega_error_message(), row[i / 2].expected) == NULL)
            fail_msg("%s: %s", text, mega_error_message());
    }
}

/* Both spellings of the rotation, and what is refused in it. */
static void rotations(void **state)
{
    (void)state;
    mega_model_shape s, t;
#define LLAMA "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
    need(parse(LLAMA "\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
                     "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                     "\"original_max_position_embeddings\": 8192}}",
               &s));
    assert_true(s.net.rope.theta == 500000.0 && s.net.rope.scaling == MEGA_ROPE_LLAMA3);
    assert_true(s.net.rope.factor == 8.0 && s.net.rope.original_positions == 8192 && s.net.head_dim == 16);
    need(parse(LLAMA "\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"llama3\", \"factor\": 8.0, "
                     "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                     "\"original_max_position_embeddings\": 8192}}",
               &t));
    char *a = text_of(&s), *b = text_of(&t);
    assert_string_equal(a, b);
    mega_free(a);
    mega_free(b);
    refused(parse(LLAMA "\"rope_scaling\": {\"type\": \"proportional\", \"factor\": 2.0}}", &s), MEGA_ERR_UNSUPPORTED,
            "rope_scaling.rope_type: found \"proportional\", expected default, linear");
    refused(parse(LLAMA "\"rope_scaling\": {\"type\": \"linear\"}}", &s), MEGA_ERR_UNSUPPORTED,
            "rope_scaling.factor: found nothing");
    refused(parse(LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0, \"beta_fast\": 3.0}}", &s),
            MEGA_ERR_UNSUPPORTED, "rope_scaling.beta_fast: found 3.0, expected no such member with rope_type linear");
#undef LLAMA
}

static void linear_is_no_activation(void **state)
{
    (void)state;
    mega_model_shape s;
    need(parse("{\"model_type\": \"llama\", \"hidden_act\": \"linear\"}", &s));
    refused(parse("{\"model_type\": \"gpt_neox\", \"hidden_act\": \"linear\"}", &s), MEGA_ERR_UNSUPPORTED,
            "hidden_act: found \"linear\", expected an activation that is not linear");
}

/* Options describe a kind of network; the family follows. */
static void the_family_that_can_hold_a_shape(void **state)
{
    (void)state;
    mega_model_shape s = {.num_layers = 2, .hidden = 48, .ffn_hidden = 32, .heads = 6, .positions = 64, .vocab = 40};
    s.norm_epsilon = 1e-5, s.init_std = 0.02, s.eos = -1;
    s.net = (mega_network_shape){.positions = MEGA_POSITIONS_ROPE, .rms = true, .gated = true, .kv_heads = 2};
    s.net.rope.theta = 10000.0;
    s.net.activation = MEGA_ACT_SILU;
    s.net.no_qkv_bias = s.net.no_out_bias = s.net.no_mlp_bias = true;
    assert_string_equal(mega_family_for(&s)->model_type, "llama");
    s.net.no_qkv_bias = false;
    assert_string_equal(mega_family_for(&s)->model_type, "qwen2");
    s.net.no_qkv_bias = true;
    s.net.query_norm = MEGA_QUERY_NORM_HEAD;
    assert_string_equal(mega_family_for(&s)->model_type, "qwen3");
    s.net.query_norm = MEGA_QUERY_NORM_NONE;
    s.net.has_window = true, s.net.window_left = 9;
    assert_string_equal(mega_family_for(&s)->model_type, "mistral");
    s.net.rope.interleaved = true;
    assert_string_equal(mega_family_for(&s)->model_type, "megalith_gpt");
    s.net = (mega_network_shape){.kv_heads = 1};
    s.ffn_hidden = 192;
    assert_string_equal(mega_family_for(&s)->model_type, "gpt_bigcode");
    s.net = (mega_network_shape){.positions = MEGA_POSITIONS_ALIBI, .embedding_norm = true};
    assert_string_equal(mega_family_for(&s)->model_type, "bloom");
    s.net = (mega_network_shape){.positions = MEGA_POSITIONS_ROPE, .rope = {.theta = 10000.0, .fraction = 0.25}};
    s.net.untied = true;
    assert_string_equal(mega_family_for(&s)->model_type, "gpt_neox");
    s.net = (mega_network_shape){.kv_heads = 0};
    assert_string_equal(mega_family_for(&s)->model_type, "gpt2");
}

static void patterns(void **state)
{
    (void)state;
    assert_true(mega_family_matches("*.attn.bias", "h.0.attn.bias"));
    assert_true(mega_family_matches("transformer.h.#.attn.bias", "transformer.h.10.attn.bias"));
    assert_false(mega_family_matches("h.#.attn.bias", "h.x.attn.bias"));
    assert_false(mega_family_matches("*.attn.bias", "h.0.attn.bias2"));
    assert_true(mega_family_matches("lm_head.weight", "lm_head.weight"));
    assert_false(mega_family_matches("lm_head.weight", "x.lm_head.weight"));
    assert_true(mega_family_matches("*", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_keep_their_names),
        cmocka_unit_test(every_family_is_written_as_it_was_read),
        cmocka_unit_test(phimoe_has_one_mscale),
        cmocka_unit_test(every_key_counts),
        cmocka_unit_test(latent_attention_of_deepseek),
        cmocka_unit_test(unknown_keys_are_refused_by_name),
        cmocka_unit_test(four_bits_are_refused_with_the_way_out),
        cmocka_unit_test(zero_is_refused_where_it_is_no_value),
        cmocka_unit_test(published_folders_are_read),
        cmocka_unit_test(linear_is_no_activation),
        cmocka_unit_test(forms_of_t5),
        cmocka_unit_test(rotations),
        cmocka_unit_test(the_family_that_can_hold_a_shape),
        cmocka_unit_test(patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
