/* The options of a C program's engine (mega_setup.argv): those rows of the table that the engine reads. What belongs to
 * a GPT, its data or the commands around it is the program's own. */
#include "program_impl.h"
#include <string.h>

static const char *const taken[] = {
    "micro_batch_size",
    "global_batch_size",
    "gradient_accumulation_steps",
    "rampup_batch_size",
    "train_iters",
    "train_samples",
    "optimizer",
    "calculate_per_token_loss",
    "lr",
    "lr_decay_style",
    "lr_decay_iters",
    "lr_decay_samples",
    "lr_wsd_decay_style",
    "lr_wsd_decay_iters",
    "lr_wsd_decay_samples",
    "lr_warmup_fraction",
    "lr_warmup_iters",
    "lr_warmup_samples",
    "lr_warmup_init",
    "min_lr",
    "weight_decay",
    "decoupled_weight_decay",
    "start_weight_decay",
    "end_weight_decay",
    "weight_decay_incr_style",
    "clip_grad",
    "adam_beta1",
    "adam_beta2",
    "adam_eps",
    "sgd_momentum",
    "seed",
    "bf16",
    "fp64",
    "num_threads",
    "no_pack_weights",
    "backend",
    "keep_checkpoints",
    "save_dtype",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "distributed_timeout_minutes",
    "ddp_impl",
    "ddp_bucket_size",
    "use_distributed_optimizer",
    "overlap_grad_reduce",
    "zero_stage",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_reuse_distance",
    "stage3_max_live_parameters",
};

/* `--deepspeed` switches on the engine, which always is. */
bool mega_option_is_of_launcher(const mega_option_row *row)
{
    return strcmp(row->name, "local_rank") == 0 || strcmp(row->name, "deepspeed") == 0;
}

/* -1 is what DeepSpeed's programs have where no launcher gave one. */
void mega_engine_take_of_launcher(mega_config *cfg, const mega_option_row *row, const char *typed, const char *text)
{
    int64_t rank;
    if (strcmp(row->name, "local_rank") != 0) return;
    if (!mega_value_int(text, &rank) || rank < -1)
        mega_config_problem(cfg, USAGE, "%s: found \"%s\", expected the number of this rank on its host, or -1", typed,
                            text);
    else if (rank != -1 && rank != cfg->local_rank)
        mega_config_problem(cfg, USAGE,
                            "%s %s: by its launcher this process is rank %lld of the %lld on its host; leave it out, "
                            "or give each rank its own (LOCAL_RANK under megalith launch)",
                            typed, text, (long long)cfg->local_rank, (long long)cfg->local_world_size);
}

bool mega_engine_takes(mega_config *cfg, const mega_option_row *row, const char *text, int position)
{
    mega_config_state *state = cfg->state;
    if (!state->is_engine || strcmp(row->name, "deepspeed_config") != 0) return false;
    state->json_file = text;
    state->json_file_position = position;
    return true;
}

bool mega_option_is_of_engine(const mega_option_row *row)
{
    char dest[80];
    if (row->answer != MEGA_ANSWER_WORKS) return false;
    mega_option_dest(row, dest);
    for (size_t i = 0; i < ROW_COUNT(taken); i++)
        if (strcmp(taken[i], row->dest != NULL ? row->dest : dest) == 0) return true;
    return false;
}

void mega_rule_engine_reads(mega_config *cfg)
{
    for (option_walk w = {.of = &cfg->state->table}; mega_option_next(&w);) {
        const option_entry *entry = &cfg->state->entry[w.index];
        if (entry->source != MEGA_SET_BY_COMMAND_LINE || w.row->answer != MEGA_ANSWER_WORKS) continue;
        if (mega_option_is_of_engine(w.row)) continue;
        if (strcmp(w.row->name, "sequence-parallel") == 0) {
            mega_config_problem(cfg, USAGE,
                                "%s (argument %d): the engine of a C program does not read it; set "
                                "mega_model.sequence_parallel instead",
                                entry->typed, entry->position);
            continue;
        }
        mega_config_problem(cfg, USAGE,
                            "%s (argument %d): the engine of a C program does not read it; leave it out "
                            "(mega_engine_options_help lists what it reads)",
                            entry->typed, entry->position);
    }
}
