/* Derives options of a training from other options. Runs again after a checkpoint has set the shape, so that each
 * value follows from the current ones; never changes a value that was given. */
#include "megalith/file.h"
#include "megalith/memory.h"
#include "train_rules.h"

#include <stdio.h>

static void derive_shape(mega_train_options *cfg)
{
    const int64_t h = cfg->model.hidden_size, heads = cfg->model.num_attention_heads;
    /* --swiglu: about as many weights as without a gate, in multiples of 64 (Megatron's rule) */
    if (h > 0 && mega_options_derives(cfg->engine.options, "ffn_hidden_size"))
        cfg->model.ffn_hidden_size = cfg->model.swiglu ? 4 * h * 2 / 3 / 64 * 64 : 4 * h;
    if (h > 0 && heads > 0 && h % heads == 0 && mega_options_derives(cfg->engine.options, "kv_channels"))
        cfg->model.kv_channels = h / heads;
    if (cfg->seq_length > 0 && mega_options_derives(cfg->engine.options, "max_position_embeddings"))
        cfg->model.max_position_embeddings = cfg->seq_length;
    if (cfg->seq_length > 0 && mega_options_derives(cfg->engine.options, "decoder_seq_length"))
        cfg->t5.decoder_seq_length = cfg->seq_length;
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

/* Converts tokens to samples, or to iterations if the training is counted in them. */
static int64_t of_tokens(const mega_train_options *cfg, int64_t tokens, bool up)
{
    const mega_optim_options *o = &cfg->engine.optim;
    const int64_t unit = cfg->seq_length * (o->train_iters > 0 ? o->global_batch_size : 1);
    const int64_t count = (tokens + (up ? unit - 1 : unit / 2)) / unit;
    return count > 0 ? count : 1;
}

/* --train-tokens: the length of the training, unless another option says a shorter one. */
static void derive_length(mega_train_options *cfg)
{
    mega_optim_options *o = &cfg->engine.optim;
    const int64_t length = of_tokens(cfg, cfg->train_tokens, true);
    if (o->train_iters > 0) o->train_iters = length < o->train_iters ? length : o->train_iters;
    else if (o->train_samples > length || mega_options_derives(cfg->engine.options, "train_samples"))
        o->train_samples = length;
}

/* The curriculum of the options, if it is one that a step can follow, and the batches of its steps. */
static bool has_curriculum(const mega_train_options *cfg, mega_curriculum *c, mega_batch_ramp *r)
{
    const mega_optim_options *o = &cfg->engine.optim;
    mega_curriculum_from_options(o, c);
    if (!c->is_on) return false;
    const bool is_right = mega_curriculum_check(c, cfg->seq_length) == MEGA_OK &&
                          mega_batch_ramp_from_options(o, cfg->engine.data_parallel_size, r) == MEGA_OK;
    if (!is_right) mega_error_clear(); /* a rule says what is wrong */
    return is_right;
}

/* Under a curriculum steps differ in their tokens: the steps are counted until they have read that number of tokens.
 * The learning rate counts tokens itself (mega_train_engine_options). */
static void derive_length_of_curriculum(mega_train_options *cfg)
{
    mega_optim_options *o = &cfg->engine.optim;
    mega_curriculum c;
    mega_batch_ramp r;
    if (cfg->train_tokens <= 0 || !has_curriculum(cfg, &c, &r)) return;
    const mega_consumed all = mega_consumed_after(&c, &r, cfg->seq_length, 0, cfg->train_tokens);
    if (o->train_iters > 0) o->train_iters = all.steps < o->train_iters ? all.steps : o->train_iters;
    else if (o->train_samples > all.samples || mega_options_derives(cfg->engine.options, "train_samples"))
        o->train_samples = all.samples;
    mega_engine_settings_derive(&cfg->engine); /* schedules follow from the length */
}

static void derive_counted_in_tokens(mega_train_options *cfg)
{
    mega_optim_options *o = &cfg->engine.optim;
    mega_options *options = cfg->engine.options;
    const bool is_known = cfg->seq_length > 0 && cfg->seq_length < 1 << 24 && o->global_batch_size > 0 &&
                          o->global_batch_size < (int64_t)1 << 31;
    if (!is_known) return;
    if (o->curriculum_learning) {
        derive_length_of_curriculum(cfg);
        return;
    }
    if (cfg->train_tokens > 0) {
        derive_length(cfg);
        mega_engine_settings_derive(&cfg->engine); /* schedules follow from the length */
    }
    const bool iters = o->train_iters > 0;
    if (cfg->lr_decay_tokens > 0 && mega_options_derives(options, iters ? "lr_decay_iters" : "lr_decay_samples"))
        *(iters ? &o->lr_decay_iters : &o->lr_decay_samples) = of_tokens(cfg, cfg->lr_decay_tokens, false);
    if (cfg->lr_warmup_tokens > 0 && mega_options_derives(options, iters ? "lr_warmup_iters" : "lr_warmup_samples"))
        *(iters ? &o->lr_warmup_iters : &o->lr_warmup_samples) = of_tokens(cfg, cfg->lr_warmup_tokens, false);
}

/* "auto" for these keys of a DeepSpeed JSON is what transformers fills in. */
static void derive_auto(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    const int64_t h = cfg->model.hidden_size;
    const struct {
        const char *dest;
        int64_t value;
    } of[] = {{"ddp_bucket_size", h * h},
              {"stage3_prefetch_bucket_size", (int64_t)(0.9 * (double)(h * h))},
              {"stage3_param_persistence_threshold", 10 * h}};
    for (size_t i = 0; h > 0 && i < MEGA_COUNT(of); i++)
        if (mega_options_is_auto(o, of[i].dest))
            (void)mega_options_set_deepspeed(o, of[i].dest, mega_options_text(o, "%lld", (long long)of[i].value));
}

/* --ckpt-step: the folder of that iteration in --load, as if it had been named there. */
static void derive_checkpoint(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    char name[40];
    int n = cfg->load != NULL ? (int)strlen(cfg->load) : 0;
    if (n == 0 || cfg->ckpt_step <= 0) return;
    while (n > 1 && cfg->load[n - 1] == '/') n--;
    const char *folder = mega_options_text(o, "%.*s", n, cfg->load);
    snprintf(name, sizeof name, "iter_%07lld", (long long)cfg->ckpt_step);
    if (strcmp(mega_path_base(folder), name) == 0 || train_iteration_in(folder) == cfg->ckpt_step) return;
    const char *path = mega_options_text(o, "%s/%s", folder, name);
    char *of_clm = mega_folder_exists(path) ? NULL : train_find_state(folder, cfg->ckpt_step);
    if (of_clm == NULL && train_is(cfg, "run_clm") && !mega_folder_exists(path))
        path = mega_options_text(o, "%s/step_%lld", folder, (long long)cfg->ckpt_step);
    cfg->load = of_clm != NULL ? mega_options_text(o, "%s", of_clm) : path;
    mega_free(of_clm);
}

void mega_train_derive_options(mega_train_options *cfg)
{
    derive_checkpoint(cfg);
    if (cfg->planned_world_size > 0) cfg->engine.world_size = cfg->planned_world_size;
    if (mega_train_classifies(cfg) && cfg->classify.epochs == 0) cfg->skip_train = true;
    const bool in_epochs = train_is(cfg, "run_clm") || mega_train_classifies(cfg);
    cfg->engine.length_follows = in_epochs && cfg->engine.optim.train_iters <= 0;
    mega_engine_settings_derive(&cfg->engine);
    derive_counted_in_tokens(cfg);
    derive_shape(cfg);
    derive_auto(cfg);
    derive_stage_parts(cfg);
    derive_profile(cfg);
}
