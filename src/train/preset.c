/* Named network shapes. A preset sets what the command line leaves open. */
#include "train_rules.h"
#include <string.h>

typedef struct preset_row {
    const char *name;
    int64_t num_layers, hidden_size, num_attention_heads, seq_length, max_position_embeddings;
} preset_row;

static const preset_row presets[] = {
    {"gpt2", 12, 768, 12, 1024, 1024},         /* 124 M parameters */
    {"gpt2-medium", 24, 1024, 16, 1024, 1024}, /* 355 M */
    {"gpt2-large", 36, 1280, 20, 1024, 1024},  /* 774 M */
    {"gpt2-xl", 48, 1600, 25, 1024, 1024},     /* 1.56 G */
    {"tiny", 4, 128, 4, 128, 128},             /* for a first run on a laptop */
};

static void fill(mega_train_options *cfg, const char *dest, int64_t value)
{
    if (mega_options_is_given(cfg->engine.options, dest)) return;
    const mega_status st = mega_options_set_int(cfg->engine.options, dest, value, MEGA_SET_BY_PRESET);
    if (st != MEGA_OK) mega_options_problem(cfg->engine.options, st, "%s", mega_error_message());
}

void mega_train_apply_preset(mega_train_options *cfg)
{
    for (size_t i = 0; cfg->model.preset != NULL && i < MEGA_COUNT(presets); i++) {
        const preset_row *p = &presets[i];
        if (strcmp(p->name, cfg->model.preset) != 0) continue;
        if (!train_is(cfg, "run_clm")) /* which has named its own */
            mega_options_name_preset(cfg->engine.options,
                                     mega_options_text(cfg->engine.options, "--preset %s", p->name));
        fill(cfg, "num_layers", p->num_layers);
        fill(cfg, "hidden_size", p->hidden_size);
        fill(cfg, "num_attention_heads", p->num_attention_heads);
        fill(cfg, "seq_length", p->seq_length);
        /* a --seq-length longer than the preset's needs that many position rows */
        const int64_t rows =
            cfg->seq_length > p->max_position_embeddings ? cfg->seq_length : p->max_position_embeddings;
        fill(cfg, "max_position_embeddings", rows);
    }
}
