/* The options of a training run, a row each. */
#include "megalith/train_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_train_options, name, field, kind)

// clang-format off
static const mega_option_row tokenizer_rows[] = {
    {ROW("override-tokenizer", override_tokenizer, MEGA_OPTION_FLAG), .help = "continue from --load with another tokenizer than it was trained with, although ids then mean other texts"},
};
const mega_option_section mega_train_tokenizer_section = MEGA_SECTION("data and tokenizer", tokenizer_rows);

static const mega_option_row sequence_rows[] = {
    {ROW("seq-length", seq_length, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .help = "tokens of a sample"},
};
const mega_option_section mega_train_sequence_section = MEGA_SECTION("data and tokenizer", sequence_rows);

static const mega_option_row network_rows[] = {
    {ROW("make-vocab-size-divisible-by", make_vocab_size_divisible_by, MEGA_OPTION_INT), .fallback = "128", .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .help = "the embedding is padded to a multiple of this; padding never enters a loss or a checkpoint"},
};
const mega_option_section mega_train_network_section = MEGA_SECTION("network size", network_rows);

static const mega_option_row training_rows[] = {
    {ROW("log-interval", log_interval, MEGA_OPTION_INT), .fallback = "100", .range = MEGA_RANGE_POSITIVE, .help = "iterations between log lines"},
    {ROW("exit-interval", exit_interval, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "save and leave when the iteration is a multiple of this"},
    {ROW("train-tokens", train_tokens, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "tokens to train on: the training ends there, or at --train-samples or --train-iters if that is earlier"},
    {ROW("exit-duration-in-mins", exit_duration_in_mins, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 30, .help = "save a checkpoint and exit after N minutes"},
    {ROW("tensorboard-dir", tensorboard_dir, MEGA_OPTION_STRING), .alike = MEGA_ALIKE_NOT_NEEDED, .help = "folder for TensorBoard event files"},
    {ROW("dataloader-type", dataloader_type, MEGA_OPTION_CHOICE), .fallback = "single", .choices = "single|cyclic", .not_implemented = "external", .help = "single: the seeded order, once; cyclic: shuffled again each epoch"},
    {ROW("profile", profile, MEGA_OPTION_FLAG), .help = "--profile-table, and --profile-trace into trace.json of --tensorboard-dir, else of --save, else of the working folder"},
    {ROW("profile-step-start", profile_step_start, MEGA_OPTION_INT), .fallback = "10", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "iterations done before the first that is profiled"},
    {ROW("profile-step-end", profile_step_end, MEGA_OPTION_INT), .fallback = "12", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "iterations done when profiling ends"},
};
const mega_option_section mega_train_training_section = MEGA_SECTION("training", training_rows);

static const mega_option_row learning_rows[] = {
    {ROW("lr-decay-tokens", lr_decay_tokens, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "--lr-decay-samples or --lr-decay-iters, counted in tokens"},
    {ROW("lr-warmup-tokens", lr_warmup_tokens, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "--lr-warmup-samples or --lr-warmup-iters, counted in tokens"},
    {ROW("override-opt_param-scheduler", override_opt_param_scheduler, MEGA_OPTION_FLAG), .help = "on --load, this command line's schedule replaces the checkpoint's"},
    {ROW("use-checkpoint-opt_param-scheduler", use_checkpoint_opt_param_scheduler, MEGA_OPTION_FLAG), .help = "on --load, the checkpoint's schedule replaces this command line's"},
};
const mega_option_section mega_train_learning_section = MEGA_SECTION("learning rate", learning_rows);

static const mega_option_row checkpoint_rows[] = {
    {ROW("save", save, MEGA_OPTION_STRING), .help = "folder for checkpoints; each is a folder that Hugging Face loads"},
    {ROW("save-interval", save_interval, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "iterations between checkpoints; without it one is saved at the end"},
    {ROW("save-takeover", save_takeover, MEGA_OPTION_FLAG), .help = "take --save over from a run that still writes there; that run stops saving and ends"},
    {ROW("restart", restart, MEGA_OPTION_FLAG), .help = "start from the beginning in a --save that holds checkpoints; these are removed once this run has saved one"},
    {ROW("no-save-optim", no_save_optim, MEGA_OPTION_FLAG), .help = "leave the optimizer's moments out"},
    {ROW("no-save-rng", no_save_rng, MEGA_OPTION_FLAG), .help = "leave the seed and the data position of random numbers out"},
    {ROW("load", load, MEGA_OPTION_STRING), .help = "folder of checkpoints, one checkpoint, or a Hugging Face folder"},
    {ROW("ckpt-step", ckpt_step, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "load the checkpoint of this iteration in --load instead of the newest"},
    {ROW("no-load-optim", no_load_optim, MEGA_OPTION_FLAG), .help = "start with fresh moments, and start the learning-rate schedule over"},
    {ROW("no-load-rng", no_load_rng, MEGA_OPTION_FLAG), .help = "take the seed of this command line"},
    {ROW("finetune", finetune, MEGA_OPTION_FLAG), .help = "load weights alone and begin at iteration 0"},
    {ROW("use-checkpoint-args", use_checkpoint_args, MEGA_OPTION_FLAG), .help = "take the network's shape and the tokenizer from --load"},
    {ROW("exit-on-missing-checkpoint", exit_on_missing_checkpoint, MEGA_OPTION_FLAG), .help = "refuse to start from random weights when --load holds nothing"},
    {ROW("load-previous", load_previous, MEGA_OPTION_FLAG), .help = "when the newest checkpoint is damaged, continue from the one before"},
};
const mega_option_section mega_train_checkpoint_section = MEGA_SECTION("checkpointing", checkpoint_rows);

static const mega_option_row validation_rows[] = {
    {ROW("eval-iters", eval_iters, MEGA_OPTION_INT), .fallback = "100", .range = MEGA_RANGE_NOT_NEGATIVE, .most = (int64_t)1 << 31, .help = "iterations of an evaluation"},
    {ROW("eval-interval", eval_interval, MEGA_OPTION_INT), .fallback = "1000", .range = MEGA_RANGE_POSITIVE, .help = "iterations between evaluations"},
    {ROW("skip-train", skip_train, MEGA_OPTION_FLAG), .help = "evaluate and leave"},
};
const mega_option_section mega_train_validation_section = MEGA_SECTION("validation", validation_rows);

static const mega_option_row logging_rows[] = {
    {ROW("profile-trace", profile_trace, MEGA_OPTION_STRING), .help = "file for a Chrome trace of the iterations from --profile-step-start to --profile-step-end"},
    {ROW("profile-table", profile_table, MEGA_OPTION_FLAG), .help = "after those iterations, print time, GFLOP/s, GB/s and percent of the measured bound of each kind of op"},
    {ROW("metrics-file", metrics_file, MEGA_OPTION_STRING), .alike = MEGA_ALIKE_NOT_NEEDED, .help = "file to which each iteration adds a JSON object, with all digits"},
    {ROW("wandb-project", wandb_project, MEGA_OPTION_STRING), .takes_empty = true, .help = "write an offline run of Weights & Biases for this project, with Megatron's names; wandb sync uploads it; empty: none"},
    {ROW("wandb-exp-name", wandb_exp_name, MEGA_OPTION_STRING), .takes_empty = true, .help = "the name of that run"},
    {ROW("wandb-save-dir", wandb_save_dir, MEGA_OPTION_STRING), .takes_empty = true, .help = "folder for it; without it wandb in --save, else the working folder"},
    {ROW("log-params-norm", log_params_norm, MEGA_OPTION_FLAG), .help = "log the norm of the parameters"},
    {ROW("log-num-zeros-in-grad", log_num_zeros_in_grad, MEGA_OPTION_FLAG), .help = "log how many gradients are zero"},
    {ROW("log-throughput", log_throughput, MEGA_OPTION_FLAG), .help = "also print TFLOP/s after the time of an iteration, and in TensorBoard (the end of the line has them in any case)"},
    {ROW("log-progress", log_progress, MEGA_OPTION_FLAG), .help = "append to progress.txt in --save"},
    {ROW("tensorboard-log-interval", tensorboard_log_interval, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .help = "iterations between TensorBoard events"},
    {ROW("log-timers-to-tensorboard", log_timers_to_tensorboard, MEGA_OPTION_FLAG), .help = "iteration-time in TensorBoard"},
    {ROW("log-batch-size-to-tensorboard", log_batch_size_to_tensorboard, MEGA_OPTION_FLAG), .help = "batch-size in TensorBoard"},
    {ROW("no-log-learnig-rate-to-tensorboard", log_learning_rate_to_tensorboard, MEGA_OPTION_OFF), .help = "no learning-rate in TensorBoard (spelled as in Megatron)"},
    {ROW("no-log-loss-scale-to-tensorboard", log_loss_scale_to_tensorboard, MEGA_OPTION_OFF), .help = "no loss-scale in TensorBoard"},
    {ROW("log-validation-ppl-to-tensorboard", log_validation_ppl_to_tensorboard, MEGA_OPTION_FLAG), .help = "validation perplexity in TensorBoard"},
    {ROW("log-memory-to-tensorboard", log_memory_to_tensorboard, MEGA_OPTION_FLAG), .help = "memory in TensorBoard"},
    {ROW("log-world-size-to-tensorboard", log_world_size_to_tensorboard, MEGA_OPTION_FLAG), .help = "world-size in TensorBoard"},
    {ROW("log-optimizer-states-to-tensorboard", log_optimizer_states_to_tensorboard, MEGA_OPTION_FLAG), .help = "norms of the weights and of the optimizer's moments in TensorBoard"},
};
const mega_option_section mega_train_logging_section = MEGA_SECTION("logging", logging_rows);

static const mega_option_row machine_rows[] = {
    {ROW("memory-limit", memory_limit, MEGA_OPTION_BYTES), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .alike = MEGA_ALIKE_NOT_NEEDED, .help = "memory a rank may take: 8GB is 8e9 bytes, as printed; 8GiB, or 8G, 8 times 2^30; 0: its share of what the machine gives"},
};
const mega_option_section mega_train_machine_section = MEGA_SECTION("this machine", machine_rows);

static const mega_option_row program_rows[] = {
    {ROW("print-options", print_options, MEGA_OPTION_FLAG), .alike = MEGA_ALIKE_NOT_NEEDED, .help = "print the table of all options in Megatron's form, and the parameters of every rank, as --log-level debug does"},
    {ROW("print-program", print_program, MEGA_OPTION_FLAG), .help = "megalith plan, and --dry-run: print the instructions of a step"},
};
const mega_option_section mega_train_program_section = MEGA_SECTION("this machine", program_rows);

static const mega_option_row dry_run_rows[] = {
    {ROW("dry-run", dry_run, MEGA_OPTION_FLAG), .help = "read and check everything, say what would be done, and stop"},
};
const mega_option_section mega_train_dry_run_section = MEGA_SECTION("this machine", dry_run_rows);

static const mega_option_row overwrite_rows[] = {
    {ROW("overwrite", overwrite, MEGA_OPTION_FLAG), .alike = MEGA_ALIKE_NOT_NEEDED, .help = "replace output files that this command did not write itself"},
};
const mega_option_section mega_train_overwrite_section = MEGA_SECTION("this machine", overwrite_rows);

#define BERT(name, field, kind) MEGA_OPTION(mega_bert_options, name, field, kind)
static const mega_option_row bert_rows[] = {
    {BERT("bert-form", bert_form, MEGA_OPTION_CHOICE), .fallback = "megatron", .choices = "megatron|bert", .help = "where norms stand: megatron: before each branch and at the end, saved as a megatron-bert; bert: after each sum and after the embedding, saved as a bert. With --load the folder says it"},
    {BERT("openai-gelu", openai_gelu, MEGA_OPTION_FLAG), .help = "GELU by its tanh form instead of the exact one"},
};
const mega_option_section mega_train_bert_section = MEGA_SECTION("BERT", bert_rows);

static const mega_option_row bert_samples_rows[] = {
    {BERT("bert-no-binary-head", bert_binary_head, MEGA_OPTION_OFF), .resume = MEGA_RESUME_REPORTED, .help = "samples are single texts, and the model has no head for pairs of sentences"},
    {BERT("bert-nsp", bert_nsp, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "the second text of half of the pairs comes from another document, and the head tells these from the others (next sentence prediction); without it, half of the pairs are exchanged (sentence order)"},
    {BERT("mask-prob", mask_prob, MEGA_OPTION_FLOAT), .fallback = "0.15", .range = MEGA_RANGE_FRACTION, .resume = MEGA_RESUME_REPORTED, .help = "part of the tokens that are masked and predicted"},
    {BERT("short-seq-prob", short_seq_prob, MEGA_OPTION_FLOAT), .fallback = "0.1", .range = MEGA_RANGE_FRACTION, .resume = MEGA_RESUME_REPORTED, .help = "part of the samples that are made shorter at random"},
};
const mega_option_section mega_train_bert_samples_section = MEGA_SECTION("BERT", bert_samples_rows);

#define T5(name, field, kind) MEGA_OPTION(mega_t5_settings, name, field, kind)
static const mega_option_row t5_rows[] = {
    {T5("t5-form", t5_form, MEGA_OPTION_CHOICE), .fallback = "megatron", .choices = "megatron|t5|v1.1|mt5|umt5", .help = "which network: megatron: the blocks of a GPT with biases and a table of positions, saved as a megatron-t5, which transformers does not know; t5, v1.1, mt5, umt5: those of transformers, saved as a t5, mt5 or umt5. With --load the folder says it"},
    {T5("decoder-num-layers", decoder_num_layers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 14, .help = "layers of the decoder; as many as the encoder has (--num-layers) when not given"},
    {T5("mask-prob", mask_prob, MEGA_OPTION_FLOAT), .fallback = "0.15", .range = MEGA_RANGE_FRACTION, .resume = MEGA_RESUME_REPORTED, .help = "part of the tokens that are taken out and predicted"},
    {T5("short-seq-prob", short_seq_prob, MEGA_OPTION_FLOAT), .fallback = "0.1", .range = MEGA_RANGE_FRACTION, .resume = MEGA_RESUME_REPORTED, .help = "part of the samples that are made shorter at random"},
    {T5("pipeline-model-parallel-split-rank", pipeline_model_parallel_split_rank, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "the pipeline stage with which the decoder begins; encoder and decoder are each cut evenly into their stages. When not given, all layers are cut by their weights"},
};
const mega_option_section mega_train_t5_section = MEGA_SECTION("T5", t5_rows);

static const mega_option_row t5_samples_rows[] = {
    {T5("decoder-seq-length", decoder_seq_length, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .resume = MEGA_RESUME_REPORTED, .help = "tokens of a sample in the decoder, the masked ones with a sentinel for each span; --seq-length when not given"},
};
const mega_option_section mega_train_t5_samples_section = MEGA_SECTION("T5", t5_samples_rows);

static const mega_option_row plan_rows[] = {
    {ROW("config_name", clm.config_name, MEGA_OPTION_STRING), .help = "plan the model of a config.json: the file or its folder, of which nothing else is read, or gpt2, gpt2-medium, gpt2-large, gpt2-xl; options given with it win"},
    {ROW("world-size", planned_world_size, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 1 << 20, .help = "number of ranks to plan for, without starting them; 0: one"},
    {ROW("rank", planned_rank, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 1 << 20, .help = "the rank of --world-size whose program and memory are shown"},
    {ROW("instruction-set", instruction_set, MEGA_OPTION_STRING), .choices = "portable|avx2|avx512|avx512_bf16|amx", .help = "instruction set of the processors that will run it, on which scratch and packed weights depend: avx512_bf16 and amx keep bf16 weights packed; this machine's when not given"},
    {ROW("no-suggestions", no_suggestions, MEGA_OPTION_FLAG), .help = "when the run does not fit in memory, leave out the changes that would make it fit: each of them is planned, which takes long for a large model"},
    {ROW("print-schedule", print_schedule, MEGA_OPTION_FLAG), .help = "draw when each pipeline stage runs which micro-batch, a line a stage"},
    {ROW("schedule-svg", schedule_svg, MEGA_OPTION_STRING), .help = "the same as a picture, written to this file"},
};
const mega_option_section mega_train_plan_section = MEGA_SECTION("this machine", plan_rows);
// clang-format on
