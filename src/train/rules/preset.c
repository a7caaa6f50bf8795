/* Named network shapes. A preset sets what the command line leaves open. */
#include "train_impl.h"
#include "train_rules.h"
#include <string.h>

typedef struct preset_row {
    const char *name;
    int64_t num_layers, hidden_size, num_attention_heads, seq_length, max_position_embeddings;
    int64_t vocabulary; /* of the model as it was published; 0: the preset is no published model */
    const char *more;   /* further options, "dest=value" with blanks between; NULL: none, a GPT-2 */
} preset_row;

#define LLAMA                                                                                                   \
    "position_embedding_type=rope normalization=RMSNorm swiglu=true add_bias_linear=false attention_dropout=0 " \
    "hidden_dropout=0 "
#define UNTIED "untie_embeddings_and_output_weights=true "

// clang-format off
static const preset_row presets[] = {
    {"gpt2", 12, 768, 12, 1024, 1024, 50257, NULL},         /* 124 M parameters */
    {"gpt2-medium", 24, 1024, 16, 1024, 1024, 50257, NULL}, /* 355 M */
    {"gpt2-large", 36, 1280, 20, 1024, 1024, 50257, NULL},  /* 774 M */
    {"gpt2-xl", 48, 1600, 25, 1024, 1024, 50257, NULL},     /* 1.56 G */
    {"tiny", 4, 128, 4, 128, 128, 0, NULL},             /* for a first run on a laptop */
    {"llama-2-7b", 32, 4096, 32, 4096, 4096, 32000, LLAMA UNTIED "ffn_hidden_size=11008"},
    {"tinyllama-1.1b", 22, 2048, 32, 2048, 2048, 32000, LLAMA UNTIED "ffn_hidden_size=5632 num_key_value_heads=4"},
    {"llama-3.1-8b", 32, 4096, 32, 4096, 131072, 128256, LLAMA UNTIED "ffn_hidden_size=14336 num_key_value_heads=8 rotary_base=500000 use_rope_scaling=true rope_scaling_factor=8"},
    {"llama-3.2-1b", 16, 2048, 32, 4096, 131072, 128256, LLAMA "ffn_hidden_size=8192 num_key_value_heads=8 rotary_base=500000 use_rope_scaling=true rope_scaling_factor=32"},
    {"llama-3.2-3b", 28, 3072, 24, 4096, 131072, 128256, LLAMA "ffn_hidden_size=8192 num_key_value_heads=8 rotary_base=500000 use_rope_scaling=true rope_scaling_factor=32"},
    {"smollm2-135m", 30, 576, 9, 2048, 8192, 49152, LLAMA "ffn_hidden_size=1536 num_key_value_heads=3 rotary_base=100000"},
    {"smollm2-360m", 32, 960, 15, 2048, 8192, 49152, LLAMA "ffn_hidden_size=2560 num_key_value_heads=5 rotary_base=100000"},
    {"mistral-7b", 32, 4096, 32, 4096, 32768, 32000, LLAMA UNTIED "ffn_hidden_size=14336 num_key_value_heads=8 window_size=4095,0"},
    {"qwen2.5-0.5b", 24, 896, 14, 4096, 32768, 151936, LLAMA "ffn_hidden_size=4864 num_key_value_heads=2 rotary_base=1000000 layernorm_epsilon=1e-6 add_qkv_bias=true"},
    {"qwen3-0.6b", 28, 1024, 16, 4096, 40960, 151936, LLAMA "ffn_hidden_size=3072 num_key_value_heads=8 kv_channels=128 rotary_base=1000000 layernorm_epsilon=1e-6 qk_layernorm=true"},
    {"qwen3-1.7b", 28, 2048, 16, 4096, 40960, 151936, LLAMA "ffn_hidden_size=6144 num_key_value_heads=8 kv_channels=128 rotary_base=1000000 layernorm_epsilon=1e-6 qk_layernorm=true"},
    {"bloom-560m", 24, 1024, 16, 2048, 2048, 250880, "position_embedding_type=alibi embed_layernorm=true attention_dropout=0 hidden_dropout=0"},
    {"starcoderbase-1b", 24, 2048, 16, 2048, 8192, 49152, "attention_head_type=multiquery"},
};
// clang-format on

static void fill_text(mega_train_options *cfg, const char *dest, const char *value)
{
    if (mega_options_is_given(cfg->engine.options, dest)) return;
    const mega_status st = mega_options_set(cfg->engine.options, dest, value, MEGA_SET_BY_PRESET);
    if (st != MEGA_OK) mega_options_problem(cfg->engine.options, st, "%s", mega_error_message());
}

static void preset_fill(mega_train_options *cfg, const char *dest, int64_t value)
{
    fill_text(cfg, dest, mega_options_text(cfg->engine.options, "%lld", (long long)value));
}

static void fill_more(mega_train_options *cfg, const char *more)
{
    while (more != NULL && *more != '\0') {
        const size_t length = strcspn(more, " "), name = strcspn(more, "=");
        const char *dest = mega_options_text(cfg->engine.options, "%.*s", (int)name, more);
        fill_text(cfg, dest, mega_options_text(cfg->engine.options, "%.*s", (int)(length - name - 1), more + name + 1));
        more += length + strspn(more + length, " ");
    }
}

/* The further options of a preset as a user would type them. */
static void put_options(mega_buffer *out, const char *more)
{
    static const char no_biases[] = "add_bias_linear=false";
    while (more != NULL && *more != '\0') {
        const size_t length = strcspn(more, " "), name = strcspn(more, "=");
        const bool is_off = strncmp(more, no_biases, sizeof no_biases - 1) == 0;
        mega_buffer_puts(out, is_off ? " --disable-bias-linear" : " --");
        for (size_t i = 0; i < name && !is_off; i++) mega_buffer_printf(out, "%c", more[i] == '_' ? '-' : more[i]);
        if (!is_off && strncmp(more + name, "=true", 5) != 0)
            mega_buffer_printf(out, " %.*s", (int)(length - name - 1), more + name + 1);
        more += length + strspn(more + length, " ");
    }
}

void mega_train_presets_text(mega_buffer *out)
{
    mega_buffer_puts(out, "--preset NAME: the shape of a known model, with random weights and the vocabulary of the "
                          "tokenizer (a plan\nwithout one takes the model's own). Options given with it win. The line "
                          "below a name shows its further options.\n\n");
    for (size_t i = 0; i < MEGA_COUNT(presets); i++) {
        const preset_row *p = &presets[i];
        mega_buffer_printf(out, "%-18s %3lld layers, hidden %4lld, %2lld heads, sequences of %lld, %lld positions\n",
                           p->name, (long long)p->num_layers, (long long)p->hidden_size,
                           (long long)p->num_attention_heads, (long long)p->seq_length,
                           (long long)p->max_position_embeddings);
        if (p->more == NULL) continue;
        mega_buffer_printf(out, "%17s", "");
        put_options(out, p->more);
        mega_buffer_puts(out, "\n");
    }
}

int64_t train_preset_vocabulary(const mega_train_options *cfg)
{
    for (size_t i = 0; cfg->model.preset != NULL && i < MEGA_COUNT(presets); i++)
        if (strcmp(presets[i].name, cfg->model.preset) == 0) return presets[i].vocabulary;
    return 0;
}

void mega_train_apply_preset(mega_train_options *cfg)
{
    for (size_t i = 0; cfg->model.preset != NULL && i < MEGA_COUNT(presets); i++) {
        const preset_row *p = &presets[i];
        if (strcmp(p->name, cfg->model.preset) != 0) continue;
        if (!train_is(cfg, "run_clm")) /* which has named its own */
            mega_options_name_preset(cfg->engine.options,
                                     mega_options_text(cfg->engine.options, "--preset %s", p->name));
        preset_fill(cfg, "num_layers", p->num_layers);
        preset_fill(cfg, "hidden_size", p->hidden_size);
        preset_fill(cfg, "num_attention_heads", p->num_attention_heads);
        preset_fill(cfg, "seq_length", p->seq_length);
        /* a --seq-length longer than the preset's needs that many position rows */
        const int64_t rows =
            cfg->seq_length > p->max_position_embeddings ? cfg->seq_length : p->max_position_embeddings;
        preset_fill(cfg, "max_position_embeddings", rows);
        fill_more(cfg, p->more);
    }
}
