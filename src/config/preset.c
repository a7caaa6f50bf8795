/* Shapes with a name. A preset fills what the command line leaves open. */
#include "program_impl.h"
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

static void fill(mega_config *cfg, const char *dest, int64_t value)
{
    if (is_given(cfg, dest)) return;
    const mega_status st = mega_config_set_int(cfg, dest, value, MEGA_SET_BY_PRESET);
    if (st != MEGA_OK) mega_config_problem(cfg, st, "%s", mega_error_message());
}

void mega_config_apply_preset(mega_config *cfg)
{
    for (size_t i = 0; cfg->preset != NULL && i < ROW_COUNT(presets); i++) {
        const preset_row *p = &presets[i];
        if (strcmp(p->name, cfg->preset) != 0) continue;
        fill(cfg, "num_layers", p->num_layers);
        fill(cfg, "hidden_size", p->hidden_size);
        fill(cfg, "num_attention_heads", p->num_attention_heads);
        fill(cfg, "seq_length", p->seq_length);
        /* a longer --seq-length than the preset's asks for as many rows */
        const int64_t rows =
            cfg->seq_length > p->max_position_embeddings ? cfg->seq_length : p->max_position_embeddings;
        fill(cfg, "max_position_embeddings", rows);
    }
}
