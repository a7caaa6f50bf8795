/* Derives options of a training from other options. Runs again after a checkpoint has set the shape, so that each
 * value follows from the current ones; never changes a value that was given. */
#include "train_rules.h"

static void derive_shape(mega_train_options *cfg)
{
    const int64_t h = cfg->model.hidden_size, heads = cfg->model.num_attention_heads;
    if (h > 0 && mega_options_derives(cfg->engine.options, "ffn_hidden_size")) cfg->model.ffn_hidden_size = 4 * h;
    if (h > 0 && heads > 0 && h % heads == 0 && mega_options_derives(cfg->engine.options, "kv_channels"))
        cfg->model.kv_channels = h / heads;
    if (cfg->seq_length > 0 && mega_options_derives(cfg->engine.options, "max_position_embeddings"))
        cfg->model.max_position_embeddings = cfg->seq_length;
}

/* Derives how many virtual stages each rank has when the number of layers per virtual stage is given; stages with an
 * explicit number of layers have as many virtual stages as the others. */
static void derive_stage_parts(mega_train_options *cfg)
{
    const int64_t each = cfg->model.num_layers_per_virtual_pipeline_stage, stages = train_even_stages(cfg);
    const int64_t left = cfg->model.num_layers - cfg->model.decoder_first_pipeline_num_layers -
                         cfg->model.decoder_last_pipeline_num_layers;
    if (each > 0 && stages > 0 && left > 0 &&
        mega_options_derives(cfg->engine.options, "num_virtual_stages_per_pipeline_rank"))
        cfg->model.num_virtual_stages_per_pipeline_rank = left / stages / each;
}

static void derive_profile(mega_train_options *cfg)
{
    const char *folder = cfg->tensorboard_dir != NULL ? cfg->tensorboard_dir : cfg->save;
    if (!cfg->profile) return;
    if (mega_options_derives(cfg->engine.options, "profile_table")) cfg->profile_table = true;
    if (mega_options_derives(cfg->engine.options, "profile_trace"))
        cfg->profile_trace =
            folder == NULL ? "trace.json" : mega_options_text(cfg->engine.options, "%s/trace.json", folder);
}

void mega_train_derive_options(mega_train_options *cfg)
{
    mega_model_options *m = &cfg->model;
    if (cfg->planned_world_size > 0) cfg->engine.world_size = cfg->planned_world_size;
    mega_engine_settings_derive(&cfg->engine);
    derive_shape(cfg);
    derive_stage_parts(cfg);
    if (m->recompute_granularity == MEGA_RECOMPUTE_FULL &&
        mega_options_derives(cfg->engine.options, "recompute_method"))
        m->recompute_method = MEGA_RECOMPUTE_UNIFORM;
    derive_profile(cfg);
}
