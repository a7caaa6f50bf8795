/* Folders that say more than their model, or less: tensors that stand for another one, older names, and keys of the
 * rotation that the family does not have. golden_test_families compares the same with transformers. */
#include "ckpt_impl.h"
#include "megalith/hf_config.h"
#include "tiny.h"

typedef struct stray {
    const char *name;
    uint64_t rows;
    float first; /* the others follow in steps of 1 */
} stray;

/* Writes tensors of rows of two numbers each. */
static mega_hf_weights folder_of(const stray *t, int count)
{
    const char *folder = mega_kit_temp_folder();
    mega_st_entry e[8];
    float value[2 * TINY_VOCAB];
    mega_st_writer *w = NULL;
    mega_hf_weights weights;
    assert_true(count <= 8);
    for (int i = 0; i < count; i++) e[i] = (mega_st_entry){t[i].name, MEGA_ST_F32, 2, {t[i].rows, 2}};
    tiny_ok(mega_st_writer_create(mega_kit_path(folder, "model.safetensors"), e, count, NULL, 0, &w));
    for (int i; (i = mega_st_writer_next(w)) >= 0;) {
        for (uint64_t k = 0; k < 2 * t[i].rows; k++) value[k] = t[i].first + (float)k;
        tiny_ok(mega_st_writer_write(w, value, 8 * t[i].rows));
    }
    tiny_ok(mega_st_writer_close(w, false, NULL, NULL));
    tiny_ok(mega_hf_weights_open(folder, &weights));
    return weights;
}

static mega_model_shape shape_of(const char *family, bool untied)
{
    const mega_family *f = mega_family_find(family);
    mega_model_shape s = {.net = f->net};
    s.net.family = f;
    s.net.untied = untied;
    return s;
}

/* Which tensor is read for a name, in a folder of these tensors; NULL: none. */
static void names_that_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        bool untied;
        const char *there[2], *asked, *read;
    } row[] = {
        {"bert",
         false,
         {"bert.embeddings.LayerNorm.gamma"},
         "bert.embeddings.LayerNorm.weight",
         "bert.embeddings.LayerNorm.gamma"},
        {"bert", false, {"embeddings.LayerNorm.beta"}, "bert.embeddings.LayerNorm.bias", "embeddings.LayerNorm.beta"},
        {"bert",
         false,
         {"bert.embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"},
         "bert.embeddings.LayerNorm.bias",
         "bert.embeddings.LayerNorm.bias"},
        {"bert", false, {"cls.predictions.decoder.bias"}, "cls.predictions.bias", "cls.predictions.decoder.bias"},
        {"bert",
         false,
         {"cls.predictions.decoder.weight"},
         "bert.embeddings.word_embeddings.weight",
         "cls.predictions.decoder.weight"},
        {"llama", false, {"lm_head.weight"}, "model.embed_tokens.weight", "lm_head.weight"},
        {"llama", true, {"lm_head.weight"}, "model.embed_tokens.weight", NULL},
        {"llama", true, {"model.embed_tokens.weight"}, "lm_head.weight", NULL},
        {"gpt_neox", false, {"embed_out.weight"}, "gpt_neox.embed_in.weight", "embed_out.weight"},
        {"t5", false, {"encoder.embed_tokens.weight"}, "shared.weight", "encoder.embed_tokens.weight"},
        {"t5", false, {"decoder.embed_tokens.weight"}, "shared.weight", "decoder.embed_tokens.weight"},
        {"t5", true, {"lm_head.weight", "decoder.embed_tokens.weight"}, "shared.weight", "decoder.embed_tokens.weight"},
        {"t5", true, {"lm_head.weight"}, "shared.weight", NULL},
        {"mt5", true, {"encoder.embed_tokens.weight"}, "lm_head.weight", "encoder.embed_tokens.weight"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const stray t[] = {{row[i].there[0], 3, 1.0f}, {row[i].there[1], 3, 1.0f}};
        mega_hf_weights w = folder_of(t, row[i].there[1] != NULL ? 2 : 1);
        const mega_model_shape s = shape_of(row[i].family, row[i].untied);
        const mega_safetensor *found = mega_hf_weights_find(&w, &s, row[i].asked);
        if ((found == NULL) != (row[i].read == NULL) || (found != NULL && strcmp(found->name, row[i].read) != 0))
            fail_msg("%s: %s is read from %s", row[i].family, row[i].asked, found != NULL ? found->name : "nothing");
        mega_hf_weights_close(&w);
    }
}

/* Reads a GPT-2 whose table of tokens counts up from `table`, and that has one more tensor. */
static mega_status read_with(float table, const stray *more)
{
    const char *folder = mega_kit_temp_folder();
    mega_st_entry e[TINY_TENSORS + 1];
    static float value[4 * TINY_PADDED];
    mega_buffer b = {0};
    mega_checkpoint *c = NULL;
    mega_st_writer *w = NULL;
    tiny m;
    tiny_init(&m, MEGA_F32, 12);
    tiny_ok(mega_hf_config_text(&b, &tiny_shape, MEGA_F32));
    mega_kit_write(mega_kit_path(folder, "config.json"), b.data);
    mega_buffer_fini(&b);
    for (int i = 0; i < TINY_TENSORS; i++) mega_state_tensor_entry(&m.weight[i], MEGA_F32, &e[i]);
    e[TINY_TENSORS] = (mega_st_entry){more->name, MEGA_ST_F32, 2, {more->rows, TINY_HIDDEN}};
    tiny_ok(mega_st_writer_create(mega_kit_path(folder, "model.safetensors"), e, TINY_TENSORS + 1, NULL, 0, &w));
    for (int i; (i = mega_st_writer_next(w)) >= 0;) {
        const size_t n = (size_t)(e[i].shape[0] * (e[i].num_dims == 2 ? e[i].shape[1] : 1));
        assert_true(n <= sizeof value / sizeof *value);
        for (size_t k = 0; k < n; k++) value[k] = (i == TINY_TENSORS ? more->first : table) + (float)k;
        tiny_ok(mega_st_writer_write(w, value, 4 * n));
    }
    tiny_ok(mega_st_writer_close(w, false, NULL, NULL));
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    mega_status st = mega_checkpoint_match_weights(c, m.weight, TINY_TENSORS);
    if (st == MEGA_OK) st = mega_checkpoint_read_weights(c, m.weight, TINY_TENSORS, m.acc);
    mega_checkpoint_close(c);
    tiny_fini(&m);
    return st;
}

/* A head that the folder has is the table of tokens, or an error: transformers would keep both. */
static void a_head_is_the_table(void **state)
{
    (void)state;
    tiny_ok(read_with(1.0f, &(stray){"lm_head.weight", TINY_VOCAB, 1.0f}));
    TINY_SAID(read_with(1.0f, &(stray){"lm_head.weight", TINY_VOCAB, 2.0f}), MEGA_ERR_UNSUPPORTED,
              "tie_word_embeddings in config.json",
              "lm_head.weight: found other values than transformer.wte.weight has");
    TINY_SAID(read_with(1.0f, &(stray){"lm_head.weight", TINY_VOCAB - 1, 1.0f}), MEGA_ERR_UNSUPPORTED,
              "lm_head.weight: found another shape than transformer.wte.weight has");
    TINY_SAID(read_with(1.0f, &(stray){"transformer.h.1.ln_1.weight", 1, 1.0f}), MEGA_ERR_FORMAT,
              "not part of this model: transformer.h.1.ln_1.weight");
    TINY_SAID(read_with(1.0f, &(stray){"wte.weight", TINY_VOCAB, 1.0f}), MEGA_ERR_FORMAT,
              "not part of this model: wte.weight");
}

static char said[512]; /* lines of the log */

static void keep_info(void *user, mega_log_level level, const char *line)
{
    (void)user;
    const size_t n = strlen(said);
    if (level == MEGA_LOG_INFO) snprintf(said + n, sizeof said - n, "%s\n", line);
}

/* A buffer of an old folder is dropped. One line of the log says so, though the folder is looked at twice. */
static void a_buffer_is_not_read(void **state)
{
    (void)state;
    mega_log_set_sink(keep_info, NULL);
    tiny_ok(read_with(1.0f, &(stray){"lm_head.weight", TINY_VOCAB, 1.0f}));
    assert_string_equal(said, "");
    tiny_ok(read_with(1.0f, &(stray){"h.0.attn.masked_bias", 1, 1.0f}));
    mega_log_set_sink(NULL, NULL);
    const char *line =
        strstr(said, ": 1 tensor is not read, because this model does not use it: h.0.attn.masked_bias\n");
    assert_non_null(line);
    assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said));
}

/* What transformers does not read of the rotation, or of the windows, is refused by name. */
static void keys_that_do_not_count(void **state)
{
    (void)state;
#define HALF  "\"partial_rotary_factor\": 0.5"
#define TYPED "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500.0"
    static const struct {
        const char *family, *keys, *said; /* NULL: read */
    } row[] = {
        {"llama", HALF, "partial_rotary_factor: found 0.5, expected 1.0, or no such key: model_type llama rotates"},
        {"llama", "\"partial_rotary_factor\": 1.0", NULL},
        {"llama", TYPED ", " HALF "}", "rope_parameters.partial_rotary_factor: found 0.5, expected 1.0"},
        {"qwen2", TYPED ", " HALF "}", "rope_parameters.partial_rotary_factor: found 0.5"},
        {"mistral", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0, " HALF "}",
         "rope_scaling.partial_rotary_factor: found 0.5"},
        {"gemma3_text", "\"rope_parameters\": {\"full_attention\": {" HALF "}}",
         "rope_parameters.full_attention.partial_rotary_factor: found 0.5"},
        {"phi", TYPED ", " HALF "}", NULL},
        {"phi3", HALF, NULL},
        {"gpt_neox", TYPED ", " HALF "}", NULL},
        {"gpt_neox", HALF, "partial_rotary_factor: found 0.5, expected 0.25, or no such key: rotary_pct counts"},
        {"gpt_neox", "\"rotary_pct\": 0.5, " HALF, NULL},
        {"gpt_neox", "\"rope_theta\": 500.0",
         "rope_theta: found 500.0, expected 10000, or no such key: rotary_emb_base"},
        {"gpt_neox", "\"rope_theta\": 500.0, \"rotary_emb_base\": 500", NULL},
        {"modernbert", "\"rope_theta\": 500.0", "rope_theta: found 500.0"},
        {"modernbert", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}", "rope_scaling: found"},
        {"modernbert", TYPED "}", "rope_parameters: found"},
        {"gemma3_text", TYPED "}", "rope_parameters: found"},
        {"gemma3_text", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}", "expected a rope_type"},
        {"gemma3_text", "\"attn_logit_softcapping\": 50.0", "attn_logit_softcapping: found 50.0, expected null"},
        {"phi3", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}", "rope_type default or longrope"},
        {"qwen3", "\"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "layer_types: found \"sliding_attention\""},
        {"gemma2", "\"num_hidden_layers\": 1, \"sliding_window\": null, \"layer_types\": [\"sliding_attention\"]",
         "layer_types: found \"sliding_attention\""},
        {"t5", "\"feed_forward_proj\": \"relu\", \"dense_act_fn\": \"silu\"", "dense_act_fn: found \"silu\""},
        {"t5", "\"feed_forward_proj\": \"relu\", \"is_gated_act\": true", "is_gated_act: found true"},
        {"t5", "\"feed_forward_proj\": \"gated-gelu\", \"dense_act_fn\": \"gelu_new\", \"is_gated_act\": true", NULL}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        mega_model_shape s;
        char text[512];
        const int n = snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s}", row[i].family, row[i].keys);
        const mega_status st = mega_hf_config_parse("config.json", text, (size_t)n, &s);
        const bool is_right =
            row[i].said == NULL ? st == MEGA_OK : st != MEGA_OK && strstr(mega_error_message(), row[i].said) != NULL;
        if (!is_right) fail_msg("%s: %s", text, st == MEGA_OK ? "read" : mega_error_message());
        mega_error_clear();
    }
#undef HALF
#undef TYPED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_read),
        cmocka_unit_test(a_head_is_the_table),
        cmocka_unit_test(a_buffer_is_not_read),
        cmocka_unit_test(keys_that_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
