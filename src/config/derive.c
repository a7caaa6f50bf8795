/* What follows from other options. Runs again after a checkpoint has set the shape, so that each value is derived from
 * what stands now; a value that somebody gave is never touched. */
#include "megalith/log.h"
#include "megalith/threads.h"
#include "program_impl.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* May the option still be derived? Marks it as derived if so. */
static bool derives(mega_config *cfg, const char *dest)
{
    const size_t i = mega_option_find_dest(&cfg->state->table, dest, command_bit(cfg));
    if (i == SIZE_MAX || row_at(cfg, i)->answer != MEGA_ANSWER_WORKS) return false;
    option_entry *entry = &cfg->state->entry[i];
    if (entry->source != MEGA_SET_BY_DEFAULT && entry->source != MEGA_SET_BY_DERIVATION) return false;
    entry->source = MEGA_SET_BY_DERIVATION;
    return true;
}

static void derive_shape(mega_config *cfg)
{
    const int64_t h = cfg->hidden_size, heads = cfg->num_attention_heads;
    if (h > 0 && derives(cfg, "ffn_hidden_size")) cfg->ffn_hidden_size = 4 * h;
    if (h > 0 && heads > 0 && h % heads == 0 && derives(cfg, "kv_channels")) cfg->kv_channels = h / heads;
    if (cfg->seq_length > 0 && derives(cfg, "max_position_embeddings")) cfg->max_position_embeddings = cfg->seq_length;
}

/* What is left of the world beside the model-parallel ranks; 1 where a rule will refuse the layout. */
static void derive_layout(mega_config *cfg)
{
    if (cfg->planned_world_size > 0) cfg->world_size = cfg->planned_world_size;
    const int64_t tp = cfg->tensor_model_parallel_size, pp = cfg->pipeline_model_parallel_size;
    const int64_t world = cfg->world_size;
    const bool divides = tp > 0 && pp > 0 && world % tp == 0 && world / tp % pp == 0;
    cfg->data_parallel_size = divides ? world / tp / pp : 1;
}

static void derive_zero_stage(mega_config *cfg)
{
    if (cfg->ddp_impl == MEGA_DDP_FSDP && derives(cfg, "zero_stage")) cfg->zero_stage = 3;
    else if (cfg->use_distributed_optimizer && derives(cfg, "zero_stage"))
        cfg->zero_stage = 1;
}

/* Stages that say their number of layers have as many parts as the others. */
static void derive_stage_parts(mega_config *cfg)
{
    const int64_t each = cfg->num_layers_per_virtual_pipeline_stage, stages = mega_config_even_stages(cfg);
    const int64_t left =
        cfg->num_layers - cfg->decoder_first_pipeline_num_layers - cfg->decoder_last_pipeline_num_layers;
    if (each > 0 && stages > 0 && left > 0 && derives(cfg, "num_virtual_stages_per_pipeline_rank"))
        cfg->num_virtual_stages_per_pipeline_rank = left / stages / each;
}

/* Ranks of one host share its cores, unless the launcher has given each its own (megalith launch does not). */
static int64_t default_threads(const mega_config *cfg)
{
    const int64_t threads = mega_default_threads();
    const bool own_cores = getenv("MEGA_LAUNCH") == NULL && mega_cpu_affinity() < sysconf(_SC_NPROCESSORS_ONLN);
    if (mega_threads_from_environment() > 0 || own_cores) return threads;
    return threads > cfg->local_world_size ? threads / cfg->local_world_size : 1;
}

/* A product that no 64 bits hold is refused by the rules as well. */
static void derive_batch(mega_config *cfg)
{
    const int64_t dp = cfg->data_parallel_size;
    const int64_t steps = cfg->gradient_accumulation_steps > 0 ? cfg->gradient_accumulation_steps : 1;
    const bool is_open = cfg->state->is_engine && cfg->global_batch_size > 0 && cfg->micro_batch_size <= 0;
    if (is_open &&
        derives(cfg, "micro_batch_size")) { /* as DeepSpeed derives it; where it does not divide, a rule says so */
        const int64_t micro = cfg->global_batch_size / dp / steps;
        cfg->micro_batch_size = micro > 0 ? micro : 1;
    }
    const int64_t micro = cfg->micro_batch_size;
    if (micro <= 0 || !derives(cfg, "global_batch_size")) return;
    cfg->global_batch_size = micro <= INT64_MAX / dp / steps ? micro * steps * dp : INT64_MAX;
}

static void derive_training(mega_config *cfg)
{
    derive_batch(cfg);
    if (cfg->train_iters > 0 && derives(cfg, "lr_decay_iters")) cfg->lr_decay_iters = cfg->train_iters;
    if (cfg->train_samples > 0 && derives(cfg, "lr_decay_samples")) cfg->lr_decay_samples = cfg->train_samples;
    if (cfg->weight_decay_incr_style == MEGA_WD_CONSTANT) {
        if (derives(cfg, "start_weight_decay")) cfg->start_weight_decay = cfg->weight_decay;
        if (derives(cfg, "end_weight_decay")) cfg->end_weight_decay = cfg->weight_decay;
    }
    if (cfg->recompute_granularity == MEGA_RECOMPUTE_FULL && derives(cfg, "recompute_method")) {
        cfg->recompute_method = MEGA_RECOMPUTE_UNIFORM;
    }
    if (cfg->fp64 && derives(cfg, "backend")) cfg->backend = MEGA_BACKEND_PLAIN;
    cfg->params_dtype = cfg->fp64 ? MEGA_F64 : cfg->bf16 ? MEGA_BF16 : MEGA_F32;
}

static void derive_profile(mega_config *cfg)
{
    const char *folder = cfg->tensorboard_dir != NULL ? cfg->tensorboard_dir : cfg->save;
    if (!cfg->profile) return;
    if (derives(cfg, "profile_table")) cfg->profile_table = true;
    if (derives(cfg, "profile_trace"))
        cfg->profile_trace = folder == NULL ? "trace.json" : mega_config_text(cfg, "%s/trace.json", folder);
}

/* Both filters off by name is how Megatron-DeepSpeed's scripts ask for the most probable token. */
static void derive_greedy(mega_config *cfg)
{
    const bool both = mega_config_set_by(cfg, "top_k") == MEGA_SET_BY_COMMAND_LINE &&
                      mega_config_set_by(cfg, "top_p") == MEGA_SET_BY_COMMAND_LINE;
    if (!both || cfg->generate.top_k != 0 || cfg->generate.top_p != 0 || cfg->generate.greedy) return;
    if (!derives(cfg, "greedy")) return;
    cfg->generate.greedy = true;
    mega_warn("--top_k 0 --top_p 0 is --greedy, as Megatron-DeepSpeed documents it; leave one of them out to draw from "
              "all tokens");
}

void mega_config_derive(mega_config *cfg)
{
    derive_layout(cfg);
    derive_zero_stage(cfg);
    derive_shape(cfg);
    derive_stage_parts(cfg);
    derive_training(cfg);
    derive_profile(cfg);
    derive_greedy(cfg);
    if (derives(cfg, "num_threads")) cfg->num_threads = default_threads(cfg);
    if (cfg->preprocess.workers <= 0) cfg->preprocess.workers = cfg->num_threads;
    if (cfg->train_tokenizer.workers <= 0) cfg->train_tokenizer.workers = cfg->num_threads;
    if (cfg->generate.sample_input_file != NULL && derives(cfg, "sample_output_file")) {
        cfg->generate.sample_output_file = mega_config_text(cfg, "%s.out", cfg->generate.sample_input_file);
    }
}
