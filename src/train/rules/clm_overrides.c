/* A new model of run_clm by its type: --model_type gpt2 is transformers' GPT2Config, whose keys --config_overrides
 * changes, as in "n_embd=1024,n_layer=4". */
#include "tasks/train_clm.h"
#include <string.h>

/* Keys that an option here says. */
static const struct {
    const char *key, *dest;
} settings[] = {
    {"n_embd", "hidden_size"},
    {"n_layer", "num_layers"},
    {"n_head", "num_attention_heads"},
    {"n_inner", "ffn_hidden_size"},
    {"n_positions", "max_position_embeddings"},
    {"attn_pdrop", "attention_dropout"},
    {"layer_norm_epsilon", "layernorm_epsilon"},
    {"initializer_range", "init_method_std"},
};

/* Keys of which one value works; NULL: any, since a language model does not read the key, or the result is the same. */
static const struct {
    const char *key, *values;
} fixed[] = {
    {"activation_function", "gelu_new|gelu_pytorch_tanh"},
    {"scale_attn_weights", "true|True|1"},
    {"scale_attn_by_inverse_layer_idx", "false|False|0"},
    {"tie_word_embeddings", "true|True|1"},
    {"reorder_and_upcast_attn", NULL},
    {"use_cache", NULL},
    {"bos_token_id", NULL},
    {"eos_token_id", NULL},
    {"summary_type", NULL},
    {"summary_use_proj", NULL},
    {"summary_activation", NULL},
    {"summary_first_dropout", NULL},
    {"summary_proj_to_labels", NULL},
};

typedef struct dropouts {
    const char *residual, *embedding; /* as written; NULL: not given */
} dropouts;

static void override_refuse(mega_train_options *cfg, mega_status why, const char *pair, const char *expected)
{
    mega_options_problem(cfg->engine.options, why, "--config_overrides: %s: %s", pair, expected);
}

static bool override_is_one_of(const char *value, const char *values)
{
    const size_t n = strlen(value);
    for (const char *at = values; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == n && strncmp(at, value, n) == 0) return true;
    }
    return false;
}

/* Returns false if the key is not one of these. */
static bool take_fixed(mega_train_options *cfg, const char *pair, const char *key, const char *value)
{
    for (size_t i = 0; i < MEGA_COUNT(fixed); i++) {
        if (strcmp(key, fixed[i].key) != 0) continue;
        if (fixed[i].values != NULL && !override_is_one_of(value, fixed[i].values))
            override_refuse(cfg, MEGA_ERR_UNSUPPORTED, pair,
                            mega_options_text(cfg->engine.options, "not implemented yet; only %.*s is",
                                              (int)strcspn(fixed[i].values, "|"), fixed[i].values));
        return true;
    }
    return false;
}

static void take_pair(mega_train_options *cfg, const char *pair, dropouts *d)
{
    mega_options *o = cfg->engine.options;
    const char *equals = strchr(pair, '=');
    if (equals == NULL || equals == pair || equals[1] == '\0') {
        override_refuse(cfg, MEGA_ERR_USAGE, pair, "expected KEY=VALUE,KEY=VALUE…, such as n_embd=1024,n_layer=4");
        return;
    }
    const char *key = mega_options_text(o, "%.*s", (int)(equals - pair), pair), *value = equals + 1;
    for (size_t i = 0; i < MEGA_COUNT(settings); i++) {
        if (strcmp(key, settings[i].key) != 0) continue;
        if (mega_options_is_given(o, settings[i].dest)) return;
        const mega_status st = mega_options_set(o, settings[i].dest, value, MEGA_SET_BY_PRESET);
        if (st != MEGA_OK) override_refuse(cfg, st, pair, mega_error_message());
        return;
    }
    if (strcmp(key, "resid_pdrop") == 0) d->residual = value;
    else if (strcmp(key, "embd_pdrop") == 0)
        d->embedding = value;
    else if (strcmp(key, "vocab_size") == 0)
        override_refuse(cfg, MEGA_ERR_UNSUPPORTED, pair,
                        "not implemented yet: the vocabulary is that of --tokenizer_name");
    else if (!take_fixed(cfg, pair, key, value))
        override_refuse(
            cfg, MEGA_ERR_USAGE, pair,
            "GPT2Config has no such key; those that work are n_embd, n_layer, n_head, n_inner, n_positions, "
            "resid_pdrop with embd_pdrop, attn_pdrop, layer_norm_epsilon, initializer_range");
}

/* One option says both. */
static void take_dropouts(mega_train_options *cfg, const dropouts *d)
{
    static const char standard[] = "0.1";
    const char *residual = d->residual != NULL ? d->residual : standard;
    const char *embedding = d->embedding != NULL ? d->embedding : standard;
    mega_options *o = cfg->engine.options;
    double a, b;
    if ((d->residual == NULL && d->embedding == NULL) || mega_options_is_given(o, "hidden_dropout")) return;
    if (mega_value_float(residual, &a) && mega_value_float(embedding, &b) && a != b) {
        mega_options_problem(
            o, MEGA_ERR_UNSUPPORTED,
            "--config_overrides: resid_pdrop is %s and embd_pdrop %s; different values are not implemented "
            "yet: give both, alike",
            residual, embedding);
        return;
    }
    const mega_status st = mega_options_set(o, "hidden_dropout", residual, MEGA_SET_BY_PRESET);
    if (st != MEGA_OK) override_refuse(cfg, st, "resid_pdrop, embd_pdrop", mega_error_message());
}

static void override_take_number(mega_train_options *cfg, const char *dest, int64_t value)
{
    mega_options *o = cfg->engine.options;
    if (mega_options_is_given(o, dest)) return;
    const mega_status st = mega_options_set_int(o, dest, value, MEGA_SET_BY_PRESET);
    if (st != MEGA_OK) mega_options_problem(o, st, "%s", mega_error_message());
}

void train_clm_take_type(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    const mega_clm_options *c = &cfg->clm;
    const char *from = c->config_name != NULL          ? "config_name"
                       : c->model_name_or_path != NULL ? "model_name_or_path"
                                                       : NULL;
    dropouts d = {NULL, NULL};
    if (c->model_type != NULL && strcmp(c->model_type, "gpt2") != 0)
        mega_options_problem(
            o, MEGA_ERR_UNSUPPORTED,
            "--model_type %s: makes a new gpt2 alone; --config_name FOLDER makes a model of the family of its "
            "config.json, --model_name_or_path FOLDER trains one (docs/families.md)",
            c->model_type);
    if (c->config_overrides != NULL && (from != NULL || c->model_type == NULL)) {
        mega_options_mistake(o, "--config_overrides changes the configuration of --model_type gpt2; %s",
                             from != NULL ? mega_options_text(o, "leave it or %s out", mega_options_origin(o, from))
                                          : "give that too");
        return;
    }
    if (from != NULL || c->model_type == NULL || cfg->model.preset != NULL) return;
    override_take_number(cfg, "num_layers", 12);
    override_take_number(cfg, "hidden_size", 768);
    override_take_number(cfg, "num_attention_heads", 12);
    override_take_number(cfg, "max_position_embeddings", 1024);
    for (const char *at = c->config_overrides; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, ",");
        take_pair(cfg, mega_options_text(o, "%.*s", (int)n, at), &d);
        at += n + (at[n] == ',');
    }
    take_dropouts(cfg, &d);
    /* the length of a block is that of the positions, as in the original */
    const int64_t positions = cfg->model.max_position_embeddings;
    override_take_number(cfg, "seq_length", positions < 1024 ? positions : 1024);
}
