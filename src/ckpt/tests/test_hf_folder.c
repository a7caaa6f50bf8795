/* Hugging Face folders: config.json, weights in one file or several, names with and without prefix, and each program
 * reading the other's folders. */
#include "ckpt_impl.h"
#include "tiny.h"

#include <stdlib.h>
#include <unistd.h>

static mega_status read_config(const char *text, mega_model_shape *out)
{
    const char *path = mega_kit_path(mega_kit_temp_folder(), "config.json");
    mega_kit_write(path, text);
    return mega_hf_config_read(path, out);
}

static void config_defaults_and_aliases(void **state)
{
    (void)state;
    mega_model_shape s;
    tiny_ok(read_config("{\"model_type\": \"gpt2\"}", &s));
    assert_true(s.num_layers == 12 && s.hidden == 768 && s.heads == 12 && s.positions == 1024 && s.vocab == 50257);
    assert_true(s.ffn_hidden == 3072 && s.eos == 50256 && s.net.activation == MEGA_ACT_GELU_TANH);
    assert_true(s.norm_epsilon == 1e-5 && s.init_std == 0.02 && s.attention_dropout == 0.1 && s.hidden_dropout == 0.1);
    tiny_ok(read_config("{\"architectures\": [\"GPT2LMHeadModel\"], \"hidden_size\": 8, \"num_hidden_layers\": 3,"
                        "\"num_attention_heads\": 2, \"max_position_embeddings\": 16, \"n_ctx\": 99, \"n_inner\": null,"
                        "\"vocab_size\": 20, \"eos_token_id\": [7, 8], \"attn_pdrop\": 0, \"resid_pdrop\": 0.25,"
                        "\"embd_pdrop\": 0.25, \"activation_function\": \"gelu\", \"dtype\": \"bfloat16\"}",
                        &s));
    assert_true(s.num_layers == 3 && s.hidden == 8 && s.heads == 2 && s.positions == 16 && s.vocab == 20);
    assert_true(s.ffn_hidden == 32 && s.eos == 7 && s.net.activation == MEGA_ACT_GELU && s.attention_dropout == 0.0 &&
                s.hidden_dropout == 0.25);
    tiny_ok(
        read_config("{\"n_embd\": 8, \"n_head\": 2, \"n_inner\": 5, \"eos_token_id\": null, \"vocab_size\": 9}", &s));
    assert_true(s.ffn_hidden == 5 && s.eos == -1);
    tiny_warned[0] = '\0';
    tiny_ok(read_config("{\"model_type\": \"gpt2\", \"vocab_size\": 9, \"embd_pdrop\": 0.5}", &s));
    assert_true(s.eos == -1);
    assert_non_null(strstr(tiny_warned, "eos_token_id 50256"));
    assert_non_null(strstr(tiny_warned, "embd_pdrop 0.5"));
}

/* One message lists all settings that cannot be run, each with the value found and the values accepted. */
static void config_refusals(void **state)
{
    (void)state;
    mega_model_shape s;
    TINY_SAID(read_config("{\"model_type\": \"falcon\"}", &s), MEGA_ERR_UNSUPPORTED, "config.json: 1 setting that",
              "model_type: found \"falcon\", expected \"gpt2\", \"llama\"", "Falcon");
    TINY_SAID(read_config("{\"model_type\": \"bert\", \"architectures\": [\"BertLMHeadModel\"]}", &s),
              MEGA_ERR_UNSUPPORTED,
              "architectures: found \"BertLMHeadModel\", expected BertForPreTraining, BertForMaskedLM, "
              "BertForSequenceClassification, BertForMultipleChoice or BertModel");
    tiny_ok(read_config("{\"model_type\": \"bert\", \"architectures\": [\"BertModel\"]}", &s));
    assert_true(s.net.no_head && !s.net.sentence_head);
    TINY_SAID(read_config("{\"model_type\": \"gpt2\", \"rope_theta\": 10000.0}", &s), MEGA_ERR_UNSUPPORTED,
              "rope_theta: found 10000.0, expected no such key in a folder of model_type gpt2");
    TINY_SAID(read_config("{\"model_type\": \"gpt2\", \"n_layer\": 2, \"num_hidden_layers\": 1, \"n_head\": 12,"
                          "\"num_attention_heads\": 12}",
                          &s),
              MEGA_ERR_UNSUPPORTED, "config.json: 1 setting that",
              "num_hidden_layers: found 1, expected the value of n_layer, which names the same setting");
    TINY_SAID(read_config("{\"model_type\": \"gpt2\", \"activation_function\": \"mish\", \"scale_attn_weights\": false,"
                          "\"scale_attn_by_inverse_layer_idx\": true, \"add_cross_attention\": true,"
                          "\"tie_word_embeddings\": false, \"n_layer\": -1, \"n_head\": 7, \"n_inner\": 1.5,"
                          "\"resid_pdrop\": 2, \"quantization_config\": {\"bits\": 4}}",
                          &s),
              MEGA_ERR_UNSUPPORTED, "config.json: 10 settings",
              "activation_function: found \"mish\", expected gelu_new",
              "scale_attn_weights: found false, expected true",
              "scale_attn_by_inverse_layer_idx: found true, expected false", "add_cross_attention: found true",
              "tie_word_embeddings: found false, expected true", "n_layer: found -1, expected a whole number",
              "n_inner: found 1.5", "resid_pdrop: found 2, expected a number from 0 to 1",
              "n_head: found 7, expected a divisor", "quantization_config: found {\"bits\":4}");
    TINY_SAID(read_config("{\"model_type\": \"gpt2\",\n \"n_layer\": }", &s), MEGA_ERR_FORMAT, "config.json: line 2");
    TINY_SAID(read_config("{\"model_type\": \"gpt2\",\n \"n_layer\": 2, \"n_layer\": 3}", &s), MEGA_ERR_FORMAT,
              "config.json: line 2: duplicate object key");
    TINY_SAID(read_config("\xef\xbb\xbf{\"model_type\": \"gpt2\"}", &s), MEGA_ERR_FORMAT,
              "config.json: it begins with a byte order mark");
    TINY_SAID(read_config("{\"model_type\": \"gpt2\", \"bos_token_id\": -1, \"eos_token_id\": [null]}", &s),
              MEGA_ERR_UNSUPPORTED, "2 settings", "bos_token_id: found -1, expected a token id, or null",
              "eos_token_id: found [null], expected ids alone");
    TINY_SAID(
        read_config("{\"model_type\": \"bert\", \"vocab_size\": 9, \"pad_token_id\": -1, \"layer_norm_eps\": 0}", &s),
        MEGA_ERR_UNSUPPORTED, "2 settings", "pad_token_id: found -1, expected an id of the vocabulary",
        "layer_norm_eps: found 0, expected a number above 0");
    TINY_SAID(
        read_config("{\"model_type\": \"t5\", \"vocab_size\": 9, \"pad_token_id\": 9, \"decoder_start_token_id\": 10,"
                    "\"relative_attention_num_buckets\": 31}",
                    &s),
        MEGA_ERR_UNSUPPORTED, "3 settings", "pad_token_id: found 9, expected an id of the vocabulary",
        "decoder_start_token_id: found 10, expected an id of the vocabulary",
        "relative_attention_num_buckets: found 31, expected an even number from 4 to 256");
    TINY_SAID(read_config("{\"model_type\": \"t5\", \"relative_attention_max_distance\": 16}", &s),
              MEGA_ERR_UNSUPPORTED, "relative_attention_max_distance: found 16, expected more than half");
    TINY_SAID(read_config("{\"model_type\": \"gpt2\", \"eos_token_id\": []}", &s), MEGA_ERR_UNSUPPORTED,
              "eos_token_id: found [], expected one or more ids");
    TINY_SAID(read_config("{\"model_type\": \"gpt2\", \"eos_token_id\": -1}", &s), MEGA_ERR_UNSUPPORTED,
              "eos_token_id: found -1");
    TINY_SAID(read_config(
                  "{\"model_type\": \"llama\", \"hidden_size\": 28, \"num_attention_heads\": 4, \"head_dim\": 7}", &s),
              MEGA_ERR_UNSUPPORTED, "1 setting", "head_dim: found 7, expected heads of an even number");
    TINY_SAID(read_config("{\"model_type\": \"llama\", \"hidden_size\": 36, \"num_attention_heads\": 4}", &s),
              MEGA_ERR_UNSUPPORTED, "1 setting", "num_attention_heads: found 4, expected heads of an even number");
    tiny_ok(read_config("{\"model_type\": \"gpt2\", \"pad_token_id\": -1}", &s));
    TINY_SAID(read_config("[]", &s), MEGA_ERR_UNSUPPORTED, "one JSON object");
    TINY_SAID(read_config("{}", &s), MEGA_ERR_UNSUPPORTED, "model_type: found nothing");
}

static void config_text(void **state)
{
    (void)state;
    mega_buffer b = {0};
    mega_model_shape s = tiny_shape, got;
    tiny_ok(mega_hf_config_text(&b, &s, MEGA_BF16));
    assert_non_null(strstr(b.data, "\"layer_norm_epsilon\": 1e-05,\n"));
    assert_non_null(strstr(b.data, "\"resid_pdrop\": 0.0,\n"));
    assert_non_null(strstr(b.data, "\"torch_dtype\": \"bfloat16\",\n"));
    tiny_ok(read_config(b.data, &got));
    mega_buffer again = {0};
    tiny_ok(mega_hf_config_text(&again, &got, MEGA_BF16));
    assert_string_equal(b.data, again.data);
    mega_buffer_fini(&again);
    b.size = 0;
    s.eos = -1;
    s.net.activation = MEGA_ACT_GELU;
    s.ffn_hidden = 4 * s.hidden;
    tiny_ok(mega_hf_config_text(&b, &s, MEGA_F32));
    tiny_ok(read_config(b.data, &got));
    assert_true(got.eos == -1 && got.net.activation == MEGA_ACT_GELU && got.ffn_hidden == 4 * s.hidden);
    mega_buffer_fini(&b);
}

static mega_status append(void *writer, const mega_state_runs *runs, const void *bytes)
{
    return mega_st_writer_write(writer, bytes, (size_t)(runs->rows * runs->run));
}

/* Differences of a hand-made folder from one that we write. */
typedef struct variant {
    bool prefix, head_only, buffers;
    mega_dtype dtype;
} variant;

/* Writes tensors [first, last) of the model to one file. */
static void write_file(const char *path, const tiny *m, int first, int last, variant v)
{
    mega_st_entry e[TINY_TENSORS + 2];
    int count = 0, buffers = 0;
    for (int i = first; i < last; i++, count++) {
        mega_state_tensor_entry(&m->weight[i], v.dtype, &e[count]);
        if (!v.prefix) e[count].name += strlen("transformer.");
        if (v.head_only && i == 0) e[count].name = "lm_head.weight";
    }
    if (v.buffers) {
        e[count + buffers++] = (mega_st_entry){"h.0.attn.bias", MEGA_ST_U8, 4, {1, 1, 3, 3}};
        e[count + buffers++] = (mega_st_entry){"h.0.attn.masked_bias", MEGA_ST_F32, 0, {0}};
    }
    mega_st_writer *w = NULL;
    tiny_ok(mega_st_writer_create(path, e, count + buffers, &(mega_st_pair){"format", "pt"}, 1, &w));
    for (int i; (i = mega_st_writer_next(w)) >= 0;) {
        if (i < count) tiny_ok(mega_state_tensor_write(&m->weight[first + i], m->acc, v.dtype, append, w));
        else
            tiny_ok(mega_st_writer_write(w, "123456789", e[i].num_dims == 4 ? 9 : 4));
    }
    tiny_ok(mega_st_writer_close(w, false, NULL, NULL));
}

static void write_config(const char *folder)
{
    mega_buffer b = {0};
    tiny_ok(mega_hf_config_text(&b, &tiny_shape, MEGA_F32));
    mega_kit_write(mega_kit_path(folder, "config.json"), b.data);
    mega_buffer_fini(&b);
}

static mega_status read_folder(const char *folder, tiny *got)
{
    mega_checkpoint *c = NULL;
    mega_status st = mega_checkpoint_open(folder, false, &c);
    if (st != MEGA_OK) return st;
    assert_int_equal(mega_checkpoint_iteration(c), 0);
    assert_false(mega_checkpoint_has_state(c));
    assert_null(mega_checkpoint_run_json(c));
    tiny_spoil(got);
    st = mega_checkpoint_read_weights(c, got->weight, TINY_TENSORS, got->acc);
    mega_checkpoint_close(c);
    return st;
}

static void reads_variants(void **state)
{
    (void)state;
    tiny m, got;
    tiny_init(&m, MEGA_F32, 11);
    tiny_init(&got, MEGA_F32, 12);
    for (int i = 0; i < 8; i++) {
        const char *folder = mega_kit_temp_folder();
        const variant v = {(i & 1) != 0, (i & 2) != 0, (i & 4) != 0, MEGA_F32};
        write_config(folder);
        write_file(mega_kit_path(folder, "model.safetensors"), &m, 0, TINY_TENSORS, v);
        tiny_ok(read_folder(folder, &got));
        assert_true(tiny_equal(m.weight, got.weight, TINY_TENSORS, MEGA_F32));
    }
    static const mega_dtype types[] = {MEGA_BF16, MEGA_F16, MEGA_F64};
    for (int i = 0; i < 3; i++) {
        const char *folder = mega_kit_temp_folder();
        write_config(folder);
        write_file(mega_kit_path(folder, "model.safetensors"), &m, 0, TINY_TENSORS, (variant){.dtype = types[i]});
        tiny_ok(read_folder(folder, &got));
        for (int t = 0; t < TINY_TENSORS; t++) {
            for (int64_t k = 0; k < tiny_elements(&m.param[t]); k++) {
                const float x = ((const float *)m.weight[t].data)[k], y = ((const float *)got.weight[t].data)[k];
                const float expected = types[i] == MEGA_F64    ? x
                                       : types[i] == MEGA_BF16 ? mega_bf16_to_f32(mega_f32_to_bf16(x))
                                                               : mega_f16_to_f32(mega_f32_to_f16(x));
                assert_true(y == expected);
            }
        }
    }
    tiny_fini(&m);
    tiny_fini(&got);
}

/* A T5 that version 5 of transformers saves has no head of its own; another family must have it. */
static void head_of_a_t5(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    const mega_st_entry e = {"shared.weight", MEGA_ST_U8, 1, {4}};
    mega_st_writer *w = NULL;
    tiny_ok(mega_st_writer_create(mega_kit_path(folder, "model.safetensors"), &e, 1, &(mega_st_pair){"format", "pt"}, 1,
                                  &w));
    assert_int_equal(mega_st_writer_next(w), 0);
    tiny_ok(mega_st_writer_write(w, "1234", 4));
    assert_int_equal(mega_st_writer_next(w), -1);
    tiny_ok(mega_st_writer_close(w, false, NULL, NULL));
    mega_hf_weights weights;
    tiny_ok(mega_hf_weights_open(folder, &weights));
    const char *const family[] = {"t5", "mt5", "umt5"};
    for (int i = 0; i < 3; i++) {
        const mega_model_shape shape = {
            .net = {.family = mega_family_find(family[i]), .t5 = MEGA_T5_ORIGINAL, .untied = true}};
        const mega_safetensor *t = mega_hf_weights_find(&weights, &shape, "lm_head.weight");
        assert_non_null(t);
        assert_string_equal(t->name, "shared.weight");
    }
    const mega_model_shape llama = {.net = {.family = mega_family_find("llama"), .untied = true}};
    assert_null(mega_hf_weights_find(&weights, &llama, "lm_head.weight"));
    mega_hf_weights_close(&weights);
}

/* The orientation in the file, spelled out: Conv1D stores [in, out]. */
static void orientation(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "model.safetensors");
    tiny m;
    tiny_init(&m, MEGA_F32, 13);
    write_file(path, &m, 0, TINY_TENSORS, (variant){.prefix = true});
    mega_safetensors *s = NULL;
    tiny_ok(mega_safetensors_open(path, &s));
    const mega_safetensor *t = mega_safetensors_find(s, "transformer.h.0.mlp.c_fc.weight");
    assert_true(t->num_dims == 2 && t->shape[0] == TINY_HIDDEN && t->shape[1] == TINY_FFN);
    const float *memory = m.weight[10].data;
    for (size_t in = 0; in < TINY_HIDDEN; in++) {
        for (size_t out = 0; out < TINY_FFN; out++) {
            float x;
            memcpy(&x, t->data + 4 * (in * TINY_FFN + out), 4);
            assert_true(x == memory[out * TINY_HIDDEN + in]);
        }
    }
    t = mega_safetensors_find(s, "transformer.wte.weight");
    assert_true(t->shape[0] == TINY_VOCAB && t->shape[1] == TINY_HIDDEN);
    assert_memory_equal(t->data, m.weight[0].data, 4 * TINY_VOCAB * TINY_HIDDEN);
    mega_safetensors_close(s);
    tiny_fini(&m);
}

/* Tensors large enough for several tiles, with odd edges, and padding in both directions. */
static void large_tensors(void **state)
{
    (void)state;
    const char *path = mega_kit_path(mega_kit_temp_folder(), "a.safetensors");
    const int64_t rows = 133, cols = 197;
    float *a = mega_malloc(4 * (size_t)(rows * cols)), *b = mega_malloc(4 * (size_t)(rows * cols));
    mega_kit_normal(a, rows * cols, 5);
    for (int turned = 0; turned < 2; turned++) {
        const mega_param p = {
            .name = "a", .num_dims = 2, .shape = {rows, cols}, .true_shape = {131, 195}, .transposed_in_file = turned};
        const mega_state_tensor from = {.name = "a", .param = &p, .data = a},
                                to = {.name = "a", .param = &p, .data = b};
        mega_st_entry e;
        mega_state_tensor_entry(&from, MEGA_F32, &e);
        mega_st_writer *w = NULL;
        tiny_ok(mega_st_writer_create(path, &e, 1, NULL, 0, &w));
        assert_int_equal(mega_st_writer_next(w), 0);
        tiny_ok(mega_state_tensor_write(&from, MEGA_F32, MEGA_F32, append, w));
        tiny_ok(mega_st_writer_close(w, false, NULL, NULL));
        mega_safetensors *s = NULL;
        tiny_ok(mega_safetensors_open(path, &s));
        memset(b, 0x7b, 4 * (size_t)(rows * cols));
        const int64_t shares = mega_state_tensor_shares(&to, MEGA_F32);
        assert_true(shares >= 1);
        const size_t bytes = mega_state_tensor_window(&to, MEGA_F32);
        void *window = bytes > 0 ? mega_malloc(bytes) : NULL;
        for (int64_t i = 0; i < shares; i++)
            mega_state_tensor_read(&to, MEGA_F32, mega_safetensors_get(s, 0), i, window);
        mega_free(window);
        for (int64_t i = 0; i < rows * cols; i++) assert_true(b[i] == (i / cols < 131 && i % cols < 195 ? a[i] : 0.0f));
        mega_safetensors_close(s);
    }
    mega_free(a);
    mega_free(b);
}

static void write_index(const char *folder, const char *text)
{
    mega_kit_write(mega_kit_path(folder, "model.safetensors.index.json"), text);
}

static void sharded(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m, got;
    tiny_init(&m, MEGA_F32, 14);
    tiny_init(&got, MEGA_F32, 15);
    const variant v = {.prefix = true, .dtype = MEGA_F32};
    const char *one = mega_kit_path(folder, "model-00001-of-00002.safetensors");
    const char *two = mega_kit_path(folder, "model-00002-of-00002.safetensors");
    write_config(folder);
    write_file(one, &m, 0, 5, v);
    write_file(two, &m, 5, TINY_TENSORS, v);
    mega_buffer b = {0};
    mega_buffer_puts(&b, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (int i = TINY_TENSORS - 1; i >= 0; i--)
        mega_buffer_printf(&b, "\"%s\": \"model-0000%d-of-00002.safetensors\"%s", m.param[i].name, i < 5 ? 1 : 2,
                           i > 0 ? "," : "}}");
    write_index(folder, b.data);
    mega_buffer_fini(&b);
    tiny_ok(read_folder(folder, &got));
    assert_true(tiny_equal(m.weight, got.weight, TINY_TENSORS, MEGA_F32));

    write_file(two, &m, 6, TINY_TENSORS, v);
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_FORMAT, "model.safetensors.index.json", m.param[5].name, "is not in");
    write_file(two, &m, 4, TINY_TENSORS, v);
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_FORMAT, m.param[4].name, "expected in one");
    assert_int_equal(unlink(two), 0);
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_NOT_FOUND, "index.json", "model-00002-of-00002.safetensors");
    write_index(folder, "{\"weight_map\": {\"a\": \"../x.safetensors\"}}");
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_FORMAT, "tensor a has no file");
    write_index(folder, "{\"weight_map\": {}}");
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_FORMAT, "weight_map");
    write_index(folder, "{\n\"weight_map\"");
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_FORMAT, "line 2");
    tiny_fini(&m);
    tiny_fini(&got);
}

static void refuses_folders(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    tiny m, got;
    tiny_init(&m, MEGA_F32, 16);
    tiny_init(&got, MEGA_F32, 17);
    mega_kit_write(mega_kit_path(folder, "pytorch_model.bin"), "x");
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_NOT_FOUND, "pytorch_model.bin", "without config.json");
    write_config(folder);
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_UNSUPPORTED, "pytorch_model.bin", "save_pretrained");
    assert_int_equal(unlink(mega_kit_path(folder, "pytorch_model.bin")), 0);
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_NOT_FOUND, "neither model.safetensors nor");

    mega_st_entry e[] = {{"transformer.wte.weight", MEGA_ST_F32, 2, {3, 4}},
                         {"transformer.ln_f.bias", MEGA_ST_I32, 1, {4}},
                         {"score.weight", MEGA_ST_F32, 1, {1}},
                         {"h.x.attn.bias", MEGA_ST_F32, 1, {1}}};
    mega_st_writer *w = NULL;
    static const uint8_t zeros[64];
    tiny_ok(mega_st_writer_create(mega_kit_path(folder, "model.safetensors"), e, 4, NULL, 0, &w));
    for (int i; (i = mega_st_writer_next(w)) >= 0;)
        tiny_ok(mega_st_writer_write(w, zeros, (size_t)(4 * e[i].shape[0] * (i == 0 ? 4 : 1))));
    tiny_ok(mega_st_writer_close(w, false, NULL, NULL));
    TINY_SAID(read_folder(folder, &got), MEGA_ERR_FORMAT, "14 missing, 2 with another shape or type, 2 unexpected",
              "wte.weight: found [3, 4] F32, expected [257, 4]", "ln_f.bias: found [4] I32, expected [4] F32",
              "missing: transformer.wpe.weight", "missing: … and more", "not part of this model: score.weight",
              "h.x.attn.bias");
    tiny_fini(&m);
    tiny_fini(&got);
}

static void run_python(const char *script, const char *a, const char *b)
{
    const char *path = mega_kit_path(mega_kit_temp_folder(), "script.py");
    mega_kit_write(path, script);
    char *command =
        mega_format("%s %s %s %s > %s.log 2>&1 || { cat %s.log; exit 1; }", mega_kit_peers(), path, a, b, path, path);
    assert_non_null(command);
    const int rc = system(command);
    mega_free(command);
    if (rc != 0) fail_msg("the script failed with %d", rc);
}

/* transformers loads what we write: the same numbers under the same names, nothing missing and nothing unexpected. */
static void peers_load_ours(void **state)
{
    (void)state;
    mega_kit_need_peers();
    const char *folder = mega_kit_temp_folder(), *raw = mega_kit_path(folder, "raw.bin");
    tiny m;
    tiny_init(&m, MEGA_F32, 18);
    mega_checkpoint_save save = tiny_save(&m, folder, 5, "{}");
    const mega_tokenizer_options options = {.type = "ByteTokenizer"};
    mega_tokenizer *t = NULL;
    tiny_ok(mega_tokenizer_create(&options, &t));
    save.tokenizer = t;
    tiny_ok(mega_checkpoint_write(&save));
    mega_tokenizer_destroy(t);
    mega_writer *w = NULL;
    tiny_ok(mega_writer_create(raw, &w));
    for (int i = 0; i < TINY_TENSORS; i++) {
        const mega_param *p = &m.param[i];
        tiny_ok(mega_writer_write(w, m.weight[i].data,
                                  4 * (size_t)(p->true_shape[0] * (p->num_dims == 2 ? p->shape[1] : 1))));
    }
    tiny_ok(mega_writer_close(w, false));
    run_python(
        "import sys, numpy as np, torch\n"
        "from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer\n"
        "folder, raw = sys.argv[1:]\n"
        "model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)\n"
        "assert not info['missing_keys'] and not info['unexpected_keys'] and not info['mismatched_keys'], info\n"
        "assert type(model).__name__ == 'GPT2LMHeadModel' and model.dtype == torch.float32\n"
        "c = model.config\n"
        "assert (c.n_layer, c.n_embd, c.n_head, c.n_inner, c.n_positions, c.vocab_size) == (1, 4, 2, 6, 3, 257)\n"
        "assert (c.layer_norm_epsilon, c.attn_pdrop, c.resid_pdrop, c.activation_function) == (1e-5, 0.1, 0.0, "
        "'gelu_new')\n"
        "assert model.generation_config.eos_token_id == 256\n"
        "x = np.fromfile(raw, '<f4')\n"
        "names = ['wte.weight', 'wpe.weight'] + ['h.0.' + n for n in ('ln_1.weight', 'ln_1.bias', "
        "'attn.c_attn.weight',\n"
        "  'attn.c_attn.bias', 'attn.c_proj.weight', 'attn.c_proj.bias', 'ln_2.weight', 'ln_2.bias', "
        "'mlp.c_fc.weight',\n"
        "  'mlp.c_fc.bias', 'mlp.c_proj.weight', 'mlp.c_proj.bias')] + ['ln_f.weight', 'ln_f.bias']\n"
        "state, at = model.state_dict(), 0\n"
        "for n in names:\n"
        "  t = state['transformer.' + n].numpy()\n"
        "  if '.c_' in n and t.ndim == 2: t = t.T\n"
        "  assert np.array_equal(t.ravel(), x[at:at + t.size]), n\n"
        "  at += t.size\n"
        "assert at == x.size\n"
        "text = AutoTokenizer.from_pretrained(folder)\n"
        "assert text.encode('hi') == [104, 105], text.encode('hi')\n",
        mega_kit_path(folder, "iter_0000005"), raw);
    tiny_fini(&m);
}

/* We load what transformers writes, in one file and in shards, in float32 and bfloat16. */
static void loads_peers(void **state)
{
    (void)state;
    mega_kit_need_peers();
    const char *folder = mega_kit_temp_folder();
    run_python("import sys, numpy as np, torch\n"
               "from transformers import GPT2Config, GPT2LMHeadModel\n"
               "torch.manual_seed(1)\n"
               "c = GPT2Config(vocab_size=257, n_positions=3, n_embd=4, n_layer=1, n_head=2, n_inner=6, "
               "bos_token_id=256, eos_token_id=256)\n"
               "m = GPT2LMHeadModel(c)\n"
               "for p in m.parameters(): torch.nn.init.normal_(p)\n"
               "np.concatenate([(p.T if '.c_' in n and p.dim() == 2 else p).detach().numpy().ravel()\n"
               "  for n, p in m.named_parameters()]).astype('<f4').tofile(sys.argv[1] + '/raw.bin')\n"
               "m.save_pretrained(sys.argv[1] + '/one')\n"
               "m.save_pretrained(sys.argv[1] + '/shards', max_shard_size='2KB')\n"
               "m.to(torch.bfloat16).save_pretrained(sys.argv[1] + '/bf16')\n",
               folder, "");
    tiny got;
    tiny_init(&got, MEGA_F32, 19);
    char *bytes = NULL;
    size_t size = 0;
    tiny_ok(mega_file_read(mega_kit_path(folder, "raw.bin"), &bytes, &size));
    assert_true(mega_file_exists(mega_kit_path(folder, "shards/model.safetensors.index.json")));
    static const char *const names[] = {"one", "shards", "bf16"};
    for (int k = 0; k < 3; k++) {
        tiny_ok(read_folder(mega_kit_path(folder, names[k]), &got));
        size_t at = 0;
        for (int i = 0; i < TINY_TENSORS; i++) {
            const mega_param *p = &got.param[i];
            const int64_t n = p->true_shape[0] * (p->num_dims == 2 ? p->shape[1] : 1);
            for (int64_t j = 0; j < n; j++, at += 4) {
                float x;
                memcpy(&x, bytes + at, 4);
                if (k == 2) x = mega_bf16_to_f32(mega_f32_to_bf16(x));
                assert_true(x == ((float *)got.weight[i].data)[j]);
            }
        }
        assert_int_equal(at, size);
    }
    mega_free(bytes);
    tiny_fini(&got);
}

/* eos_token_id of another type is no id that is missing. */
static void generation_config_refusals(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"[]", "expected one JSON object"},
        {"{\"eos_token_id\": \"x\"}", "eos_token_id: found \"x\", expected a token id, a list"},
        {"{\"eos_token_id\": [3, null]}", "found [3,null]"},
        {"{\"eos_token_id\": []}", "found []"},
        {"{\"eos_token_id\": 1.5}", "found 1.5"},
        {"{\"eos_token_id\": -1}", "found -1"},
        {"{\"eos_token_id\": 1, \"eos_token_id\": 2}", "duplicate object key"},
        {"\xef\xbb\xbf{}", "byte order mark"},
    };
    const char *folder = mega_kit_temp_folder(), *path = mega_kit_path(folder, "generation_config.json");
    int32_t ends[MEGA_SHAPE_EOS];
    int count = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        mega_kit_write(path, wrong[i][0]);
        TINY_SAID(mega_hf_ends_read(folder, &tiny_shape, ends, &count), MEGA_ERR_FORMAT,
                  "generation_config.json: ", wrong[i][1]);
    }
    mega_kit_write(path, "{\"eos_token_id\": [7, 3]}");
    tiny_ok(mega_hf_ends_read(folder, &tiny_shape, ends, &count));
    assert_true(count == 2 && ends[0] == 7 && ends[1] == 3);
    mega_kit_write(path, "{\"eos_token_id\": null}");
    tiny_ok(mega_hf_ends_read(folder, &tiny_shape, ends, &count));
    assert_true(count == 1 && ends[0] == 256);
}

/* What users wrote of how text is generated is in every later folder, byte by byte. */
static void generation_config_is_kept(void **state)
{
    (void)state;
    static const char said[] = "{ \"temperature\":0.7,\n\"top_p\": 0.8 }";
    const char *folder = mega_kit_temp_folder();
    tiny m;
    char *text = NULL;
    mega_checkpoint *c = NULL;
    tiny_init(&m, MEGA_F32, 1);
    mega_checkpoint_save save = tiny_save(&m, folder, 5, "{}");
    save.generation_config = said;
    tiny_ok(mega_checkpoint_write(&save));
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    tiny_ok(mega_checkpoint_generation_config(c, &text));
    assert_string_equal(text, said);
    mega_free(text);
    mega_checkpoint_close(c);
    tiny_fini(&m);
}

int main(void)
{
    mega_log_set_sink(tiny_keep_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generation_config_is_kept),
        cmocka_unit_test(generation_config_refusals),
        cmocka_unit_test(config_defaults_and_aliases),
        cmocka_unit_test(config_refusals),
        cmocka_unit_test(config_text),
        cmocka_unit_test(reads_variants),
        cmocka_unit_test(head_of_a_t5),
        cmocka_unit_test(orientation),
        cmocka_unit_test(large_tensors),
        cmocka_unit_test(sharded),
        cmocka_unit_test(refuses_folders),
        cmocka_unit_test(peers_load_ours),
        cmocka_unit_test(loads_peers),
    };
    return cmocka_run_group_tests_name("hf_folder", tests, NULL, NULL);
}
