/* The keys of a DeepSpeed JSON: those of options (column json of their rows), those that are no option here, and the
 * block of the engine's own options. */
#include "config_impl.h"
#include <stdio.h>
#include <string.h>

#define KEY_IDLE(json_, kind_, remark_) \
    .json = (json_), .field = NO_FIELD, .kind = (kind_), .answer = ANSWER_NO_EFFECT, .remark = (remark_)
#define KEY_LATER(json_, kind_, neutral_, remark_)                                                          \
    .json = (json_), .field = NO_FIELD, .kind = (kind_), .answer = ANSWER_NOT_BUILT, .neutral = (neutral_), \
    .remark = (remark_)
#define KEY_BY_VALUE(json_, cases_, remark_)                                                              \
    .json = (json_), .field = NO_FIELD, .kind = KIND_STRING, .answer = ANSWER_RENAMED, .cases = (cases_), \
    .remark = (remark_)

#define ZERO       "zero_optimization."
#define PRINTS     "the program prints what it wants of mega_step_result"
#define PLANNED    "memory is planned before the first step, and nothing is allocated in it"
#define HOST       "everything lies in the host's memory already"
#define ALWAYS     "it is always so"
#define SHARED     "ZeRO 3 shares weights layer by layer, as the memory plan decides"
#define NO_OFFLOAD "it only matters with an offload device"
#define FP16_ONLY  "it only matters with fp16"
#define ONE_BY_ONE "operations run one after the other in any case"
#define NO_MONITOR "an engine writes no files of events: write what mega_step_result holds"
#define OF_MONITOR "it only matters with a monitor"
#define SCHEDULE                                \
    "leave the block out, and give \"" JSON_OWN \
    "\": {\"lr_decay_style\": …, \"lr_warmup_iters\": …} or mega_setup.lr_scheduler"
#define OF_SCHEDULE "it only matters with a scheduler"
#define QUANTIZED   "what ranks exchange is not quantized; leave it out"

// clang-format off
static const option_row key_rows[] = {
    {KEY_IDLE("steps_per_print|dump_state|memory_breakdown|log_level", KIND_ANY, PRINTS)},
    {KEY_IDLE("wall_clock_breakdown", KIND_BOOL, "mega_step_result holds the seconds of each part of a step")},
    {KEY_LATER("dataloader_drop_last", KIND_BOOL, NULL, "epochs follow one another without a gap; leave it out")},
    {KEY_LATER("prescale_gradients|sparse_gradients|disable_allgather", KIND_BOOL, NULL, "gradients are summed, then divided; leave it out")},
    {KEY_LATER("gradient_predivide_factor", KIND_FLOAT, "1", "gradients are summed, then divided; leave it out")},
    {KEY_LATER("gradient_allreduce_op", KIND_STRING, "mean", "leave it out")},
    {KEY_LATER("communication_data_type|data_types.grad_accum_dtype", KIND_STRING, "fp32", "gradients are kept and summed in fp32; leave it out")},
    {KEY_IDLE("zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer", KIND_BOOL, "every optimizer works with every stage")},
    {KEY_BY_VALUE("optimizer.type", "Adam:optimizer=adam|AdamW:optimizer=adam|SGD:optimizer=sgd", "mega_setup.optimizer takes one of your own")},
    {KEY_IDLE("optimizer.params.torch_adam|optimizer.params.fused", KIND_BOOL, "there is one implementation")},
    {KEY_LATER("optimizer.params.amsgrad|optimizer.params.nesterov|optimizer.params.maximize", KIND_BOOL, NULL, "leave it out, or give an optimizer of your own as mega_setup.optimizer")},
    {KEY_LATER("optimizer.params.bias_correction", KIND_BOOL, "true", "Adam corrects its bias; leave it out")},
    {KEY_LATER("optimizer.params.dampening", KIND_FLOAT, "0", "leave it out")},
    {KEY_LATER("optimizer.params.max_grad_norm", KIND_FLOAT, "0", "use \"gradient_clipping\"")},
    {KEY_LATER("scheduler.type", KIND_STRING, NULL, SCHEDULE)},
    {KEY_IDLE("scheduler.params.warmup_min_lr|scheduler.params.warmup_max_lr|scheduler.params.warmup_num_steps|scheduler.params.warmup_type|scheduler.params.total_num_steps|scheduler.params.warmup_min_ratio|scheduler.params.cos_min_ratio|scheduler.params.last_batch_iteration", KIND_ANY, OF_SCHEDULE)},
    {KEY_LATER("fp16.enabled", KIND_BOOL, NULL, "use \"bf16\": {\"enabled\": true}, which has half the bytes of fp32 and needs no loss scaling")},
    {KEY_IDLE("fp16.auto_cast|fp16.loss_scale|fp16.initial_scale_power|fp16.loss_scale_window|fp16.hysteresis|fp16.consecutive_hysteresis|fp16.min_loss_scale|fp16.fp16_master_weights_and_grads", KIND_ANY, FP16_ONLY)},
    {KEY_IDLE("bf16.immediate_grad_update|bf16.check_grad_overflow", KIND_BOOL, "gradients are fp32, and every step looks for values that are not finite")},
    {KEY_LATER("bf16.bf16_master_weights_and_grads|bf16.bf16_optimizer_states", KIND_BOOL, NULL, "master weights and moments are fp32; leave it out")},
    {KEY_LATER("amp.enabled|torch_autocast.enabled", KIND_BOOL, NULL, "use \"bf16\": {\"enabled\": true}")},
    {KEY_IDLE("amp.opt_level", KIND_STRING, "it only matters with amp")},
    {KEY_IDLE(ZERO "contiguous_gradients|" ZERO "use_multi_rank_bucket_allreduce|" ZERO "memory_efficient_linear", KIND_BOOL, PLANNED)},
    {KEY_IDLE(ZERO "reduce_scatter", KIND_BOOL, "from stage 1 on gradients are summed by a reduce-scatter in any case")},
    {KEY_IDLE(ZERO "allgather_partitions", KIND_BOOL, "from stage 1 on weights are gathered from the ranks that own them in any case")},
    {KEY_IDLE(ZERO "allgather_bucket_size", KIND_INT, "gradients and weights are exchanged in the same buckets, whose size is \"" ZERO "reduce_bucket_size\"")},
    {KEY_IDLE(ZERO "sub_group_size|" ZERO "stage3_model_persistence_threshold|" ZERO "stage3_module_granularity_threshold", KIND_INT, SHARED)},
    {KEY_IDLE(ZERO "round_robin_gradients|" ZERO "ignore_unused_parameters", KIND_BOOL, ALWAYS)},
    {KEY_IDLE(ZERO "load_from_fp32_weights|" ZERO "elastic_checkpoint|" ZERO "stage3_gather_16bit_weights_on_model_save|" ZERO "stage3_gather_fp16_weights_on_model_save", KIND_BOOL, "a checkpoint holds whole fp32 tensors, which every layout loads")},
    {KEY_LATER(ZERO "legacy_stage1|" ZERO "cpu_offload|" ZERO "cpu_offload_params", KIND_BOOL, NULL, "leave it out")},
    {KEY_LATER(ZERO "offload_optimizer.device|" ZERO "offload_param.device", KIND_STRING, "none", "memory beyond the machine's is not built yet; leave the block out")},
    {KEY_IDLE(ZERO "offload_optimizer.pin_memory|" ZERO "offload_optimizer.nvme_path|" ZERO "offload_optimizer.buffer_count|" ZERO "offload_optimizer.fast_init|" ZERO "offload_optimizer.pipeline|" ZERO "offload_optimizer.pipeline_read|" ZERO "offload_optimizer.pipeline_write|" ZERO "offload_optimizer.ratio", KIND_ANY, NO_OFFLOAD)},
    {KEY_IDLE(ZERO "offload_param.pin_memory|" ZERO "offload_param.nvme_path|" ZERO "offload_param.buffer_count|" ZERO "offload_param.buffer_size|" ZERO "offload_param.max_in_cpu", KIND_ANY, NO_OFFLOAD)},
    {KEY_LATER(ZERO "zero_hpz_partition_size", KIND_INT, "1", "all data-parallel ranks share out together; leave it out")},
    {KEY_LATER(ZERO "mics_shard_size", KIND_INT, "-1", "all data-parallel ranks share out together; leave it out")},
    {KEY_LATER(ZERO "zero_quantized_weights|" ZERO "zero_quantized_gradients|" ZERO "zero_quantized_nontrainable_weights", KIND_BOOL, NULL, QUANTIZED)},
    {KEY_IDLE("aio.block_size|aio.queue_depth|aio.thread_count|aio.intra_op_parallelism|aio.single_submit|aio.overlap_events|aio.use_gds", KIND_ANY, NO_OFFLOAD)},
    {KEY_LATER("activation_checkpointing.partition_activations", KIND_BOOL, NULL, "set mega_model.distribute_saved")},
    {KEY_IDLE("activation_checkpointing.cpu_checkpointing", KIND_BOOL, HOST)},
    {KEY_IDLE("activation_checkpointing.contiguous_memory_optimization|activation_checkpointing.number_checkpoints", KIND_ANY, PLANNED)},
    {KEY_IDLE("activation_checkpointing.synchronize_checkpoint_boundary|activation_checkpointing.profile", KIND_BOOL, ONE_BY_ONE)},
    {KEY_LATER("tensorboard.enabled|csv_monitor.enabled|wandb.enabled|comet.enabled", KIND_BOOL, NULL, NO_MONITOR)},
    {KEY_IDLE("tensorboard.output_path|tensorboard.job_name|csv_monitor.output_path|csv_monitor.job_name|wandb.group|wandb.team|wandb.project", KIND_STRING, OF_MONITOR)},
    {KEY_LATER("flops_profiler.enabled", KIND_BOOL, NULL, "call mega_engine_cost_get, and read the seconds in mega_step_result")},
    {KEY_IDLE("flops_profiler.profile_step|flops_profiler.module_depth|flops_profiler.top_modules|flops_profiler.detailed|flops_profiler.output_file|flops_profiler.recompute_fwd_factor", KIND_ANY, "it only matters with the profiler")},
    {KEY_LATER("comms_logger.enabled", KIND_BOOL, NULL, "leave the block out")},
    {KEY_IDLE("comms_logger.verbose|comms_logger.prof_all|comms_logger.debug|comms_logger.prof_ops", KIND_ANY, "it only matters with the logger")},
    {KEY_LATER("curriculum_learning.enabled|data_efficiency.enabled|progressive_layer_drop.enabled|eigenvalue.enabled|elasticity.enabled|autotuning.enabled", KIND_BOOL, NULL, "leave the block out")},
    {KEY_LATER("tensor_parallel.autotp_size", KIND_INT, "0|1", "write the layers for several ranks (mega_column_linear), and give \"" JSON_OWN "\": {\"tensor_model_parallel_size\": …}")},
    {KEY_IDLE("pipeline.partition|pipeline.seed_layers|pipeline.activation_checkpoint_interval", KIND_ANY, "mega_model says it")},
    {KEY_IDLE("checkpoint.tag_validation|checkpoint.load_universal|checkpoint.use_node_local_storage", KIND_ANY, "a checkpoint holds whole tensors in one folder, which every layout loads")},
};
// clang-format on

enum { OF_OPTIONS, OF_NO_OPTION, OF_ENGINE, NO_MORE };

/* The next row of the part that the walk is in, with its paths in rest. */
static bool next_row(json_key_walk *w)
{
    if (w->part == OF_NO_OPTION) {
        if (w->at == ROW_COUNT(key_rows)) return false;
        w->row = &key_rows[w->at++];
        w->index = SIZE_MAX;
        w->rest = w->row->json;
        return true;
    }
    while (mega_option_next(&w->options)) {
        const option_row *row = w->options.row;
        if (w->part == OF_OPTIONS ? row->json == NULL : !mega_option_is_of_engine(row)) continue;
        w->row = row;
        w->index = w->options.index;
        w->rest = w->part == OF_OPTIONS ? row->json : row->name;
        return true;
    }
    return false;
}

bool mega_json_key_next(json_key_walk *w)
{
    while (w->rest == NULL || w->rest[0] == '\0') {
        if (w->part == NO_MORE) return false;
        if (next_row(w)) continue;
        w->part++;
        w->options = (option_walk){0};
    }
    const size_t n = strcspn(w->rest, "|");
    char dest[80];
    if (w->part == OF_ENGINE) snprintf(w->path, sizeof w->path, JSON_OWN ".%s", mega_option_dest(w->row, dest));
    else
        snprintf(w->path, sizeof w->path, "%.*s", (int)n, w->rest);
    w->rest += n + (w->rest[n] == '|');
    return true;
}

bool mega_json_key_find(const char *path, json_key_walk *out)
{
    *out = (json_key_walk){0};
    while (mega_json_key_next(out))
        if (strcmp(out->path, path) == 0) return true;
    return false;
}

/* Where path ends in key, if key is below it; else NULL. */
static const char *rest_below(const char *key, const char *path, size_t length)
{
    if (length == 0) return key;
    if (strncmp(key, path, length) != 0 || (key[length] != '.' && key[length] != '[')) return NULL;
    return key + length + (key[length] == '.');
}

bool mega_json_key_has_below(const char *path)
{
    for (json_key_walk w = {0}; mega_json_key_next(&w);)
        if (rest_below(w.path, path, strlen(path)) != NULL) return true;
    return false;
}

/* The same last word elsewhere: "stage" at the top belongs into "zero_optimization". */
static const char *same_elsewhere(mega_config *cfg, const char *last)
{
    for (json_key_walk w = {0}; mega_json_key_next(&w);) {
        const char *dot = strrchr(w.path, '.');
        if (dot != NULL && strcmp(dot + 1, last) == 0) return mega_config_text(cfg, "%s", w.path);
    }
    return NULL;
}

const char *mega_json_key_near(mega_config *cfg, const char *path)
{
    enum { MOST = 512 };
    const char *dot = strrchr(path, '.'), *last = dot != NULL ? dot + 1 : path;
    const size_t above = dot != NULL ? (size_t)(dot - path) : 0;
    const char **names = mega_arena_alloc(&cfg->arena, MOST * sizeof *names);
    const char *beside = NULL; /* begins with what was written: "train_micro_batch_size" */
    size_t n = 0;
    for (json_key_walk w = {0}; names != NULL && n < MOST && mega_json_key_next(&w);) {
        const char *rest = rest_below(w.path, path, above);
        if (rest == NULL) continue;
        names[n] = mega_config_text(cfg, "%.*s", (int)strcspn(rest, ".["), rest);
        if (beside == NULL && strlen(last) > 3 && strncmp(names[n], last, strlen(last)) == 0) beside = names[n];
        n++;
    }
    if (beside == NULL && names != NULL) beside = mega_config_nearest(last, names, n);
    const char *elsewhere = same_elsewhere(cfg, last), *near = elsewhere;
    if (names == NULL) cfg->state->out_of_memory = true;
    else if (beside != NULL)
        near = mega_config_text(cfg, "%.*s%s", (int)(last - path), path, beside);
    return near != NULL ? mega_config_text(cfg, "; did you mean \"%s\"?", near) : "";
}
