/* The rules between options: a table of small functions. Each says which options it looked at, the values found, and
 * what would be valid. Ranges of single values are in the option table. */
#include "megalith/log.h"
#include "program_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shape ---- */

static void rule_shape_is_given(mega_config *cfg)
{
    const struct {
        const char *name, *dest;
        int64_t value;
    } needed[] = {{"--num-layers", "num_layers", cfg->num_layers},
                  {"--hidden-size", "hidden_size", cfg->hidden_size},
                  {"--num-attention-heads", "num_attention_heads", cfg->num_attention_heads},
                  {"--seq-length", "seq_length", cfg->seq_length}};
    const char *missing = "";
    for (size_t i = 0; i < ROW_COUNT(needed); i++) {
        if (needed[i].value > 0 || is_given(cfg, needed[i].dest))
            continue; /* a value that cannot be read is told elsewhere */
        missing = mega_config_text(cfg, "%s%s%s", missing, missing[0] != '\0' ? ", " : "", needed[i].name);
    }
    if (missing[0] == '\0') return;
    mega_config_problem(cfg, USAGE, "missing: %s; give them, or a known shape with --preset gpt2", missing);
}

/* Writes the divisors of n from near `around`, at most eight, in rising order. */
static void divisors_near(int64_t n, int64_t around, char *out, size_t size)
{
    int64_t found[8];
    size_t count = 0;
    if (around > n) around = n; /* what divides n is not above it */
    for (int64_t away = 0; away <= n && count < ROW_COUNT(found) && away < 100000; away++) {
        const int64_t both[2] = {around - away, away <= n - around ? around + away : 0};
        for (int side = 0; side < (away > 0 ? 2 : 1) && count < ROW_COUNT(found); side++) {
            if (both[side] > 0 && both[side] <= n && n % both[side] == 0) found[count++] = both[side];
        }
    }
    if (count == 0) found[count++] = 1;
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && found[j - 1] > found[j]; j--) {
            const int64_t swap = found[j];
            found[j] = found[j - 1];
            found[j - 1] = swap;
        }
    }
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        const int n_written = snprintf(out + used, size - used, "%s%lld", i > 0 ? ", " : "", (long long)found[i]);
        used += n_written > 0 ? (size_t)n_written : 0;
    }
}

static void rule_heads_divide_hidden(mega_config *cfg)
{
    const int64_t h = cfg->hidden_size, heads = cfg->num_attention_heads;
    if (h <= 0 || heads <= 0) return;
    if (cfg->kv_channels <= 0 || !mega_config_was_set(cfg, "kv_channels")) {
        if (h % heads == 0) return;
        char valid[160];
        divisors_near(h, heads, valid, sizeof valid);
        const int64_t next = (h / heads + 1) * heads;
        mega_config_problem(cfg, USAGE, "%s does not divide %s; heads that do: %s; or a hidden size of %lld",
                            mega_config_origin(cfg, "num_attention_heads"), mega_config_origin(cfg, "hidden_size"),
                            valid, (long long)next);
    } else if (cfg->kv_channels * heads != h) {
        mega_config_problem(cfg, MEGA_ERR_UNSUPPORTED,
                            "%s: heads of another width than %s / %s are not built yet; leave it out",
                            mega_config_origin(cfg, "kv_channels"), mega_config_origin(cfg, "hidden_size"),
                            mega_config_origin(cfg, "num_attention_heads"));
    }
}

static void rule_positions_reach(mega_config *cfg)
{
    if (cfg->seq_length <= 0 || cfg->max_position_embeddings <= 0 || cfg->max_position_embeddings >= cfg->seq_length)
        return;
    mega_config_problem(cfg, USAGE, "%s is shorter than %s; make it %lld or more, or shorten the sequence",
                        mega_config_origin(cfg, "max_position_embeddings"), mega_config_origin(cfg, "seq_length"),
                        (long long)cfg->seq_length);
}

/* What is typed or read from a checkpoint has been checked already: here what follows from it, and the product whose
 * factors later code multiplies in 64 bits. */
static void rule_sizes_fit(mega_config *cfg)
{
    for (option_walk w = {.of = &cfg->state->table}; mega_option_next(&w);) {
        char dest[80];
        int64_t value;
        if (w.row->most == 0 || (w.commands & cfg->state->command->bit) == 0) continue;
        if (cfg->state->entry[w.index].source == MEGA_SET_BY_DEFAULT) continue;
        memcpy(&value, mega_value_at(cfg, w.index), sizeof value);
        if (value <= w.row->most) continue;
        mega_config_problem(cfg, USAGE, "%s must be at most %lld",
                            mega_config_origin(cfg, mega_option_dest(w.row, dest)), (long long)w.row->most);
    }
    /* every number that a micro-batch keeps, some 64 for each channel of each token and layer */
    const double kept = (double)cfg->micro_batch_size * (double)cfg->seq_length *
                        (double)(cfg->hidden_size + cfg->ffn_hidden_size) * (double)cfg->num_layers * 64.0;
    if (kept > 1e18) {
        mega_config_problem(cfg, USAGE, "%s, %s, %s, %s: a micro-batch would keep %.1g bytes; make one of them smaller",
                            mega_config_origin(cfg, "micro_batch_size"), mega_config_origin(cfg, "seq_length"),
                            mega_config_origin(cfg, "hidden_size"), mega_config_origin(cfg, "num_layers"), kept);
    }
}

/* ---- batch ---- */

static void rule_batch_divides(mega_config *cfg)
{
    const int64_t micro = cfg->micro_batch_size, global = cfg->global_batch_size;
    if (micro <= 0 && is_given(cfg, "micro_batch_size")) return;
    if (micro <= 0) {
        mega_config_problem(cfg, USAGE, "missing: %s, the samples computed together; 4 is a start",
                            mega_config_spelling(cfg, "micro_batch_size"));
        return;
    }
    const int64_t dp = cfg->data_parallel_size;
    char valid[160];
    if (global % (micro * dp) == 0) return;
    if (global % dp != 0 || global % micro == 0) {
        mega_config_problem(cfg, USAGE,
                            "%s is not a multiple of %s x %lld data-parallel ranks; expected a multiple of %lld",
                            mega_config_origin(cfg, "global_batch_size"), mega_config_origin(cfg, "micro_batch_size"),
                            (long long)dp, (long long)(micro * dp));
        return;
    }
    divisors_near(global / dp, micro, valid, sizeof valid);
    mega_config_problem(cfg, USAGE, "%s is not a multiple of %s; micro-batches that divide it: %s",
                        mega_config_origin(cfg, "global_batch_size"), mega_config_origin(cfg, "micro_batch_size"),
                        valid);
}

static void rule_rampup(mega_config *cfg)
{
    if (!mega_config_was_set(cfg, "rampup_batch_size")) return;
    const int64_t start = cfg->rampup_batch_size[0], step = cfg->rampup_batch_size[1],
                  samples = cfg->rampup_batch_size[2];
    const int64_t micro = cfg->micro_batch_size, global = cfg->global_batch_size;
    if (start <= 0 || step <= 0 || samples <= 0) {
        mega_config_problem(cfg, USAGE,
                            "%s takes three whole numbers above 0, START INCREMENT SAMPLES, for example 16 16 100000",
                            mega_config_spelling(cfg, "rampup_batch_size"));
    } else if (start > global || (global - start) % step != 0) {
        mega_config_problem(cfg, USAGE, "%s: from %lld in steps of %lld does not reach %s",
                            mega_config_origin(cfg, "rampup_batch_size"), (long long)start, (long long)step,
                            mega_config_origin(cfg, "global_batch_size"));
    } else if (micro > 0 && (start % micro != 0 || step % micro != 0)) {
        mega_config_problem(cfg, USAGE, "%s: start and increment must be multiples of %s",
                            mega_config_origin(cfg, "rampup_batch_size"), mega_config_origin(cfg, "micro_batch_size"));
    }
}

/* ---- length of the training ---- */

static void rule_length_of_training(mega_config *cfg)
{
    if (cfg->skip_train) return;
    if (cfg->train_iters > 0 && cfg->train_samples > 0) {
        mega_config_problem(cfg, USAGE, "%s and %s both say how long to train; give one",
                            mega_config_origin(cfg, "train_iters"), mega_config_origin(cfg, "train_samples"));
    } else if (cfg->train_iters <= 0 && cfg->train_samples <= 0 && !is_given(cfg, "train_iters") &&
               !is_given(cfg, "train_samples")) {
        mega_config_problem(cfg, USAGE, "missing: --train-iters N (optimizer steps) or --train-samples N");
    }
}

/* ---- precision, recompute ---- */

static void rule_precision(mega_config *cfg)
{
    if (cfg->bf16 && cfg->fp64) {
        mega_config_problem(cfg, USAGE, "%s and %s: a run has one precision; give one", mega_config_origin(cfg, "bf16"),
                            mega_config_origin(cfg, "fp64"));
    }
    if (cfg->fp64 && cfg->backend != MEGA_BACKEND_PLAIN) {
        mega_config_problem(cfg, USAGE, "%s: only the plain kernels compute in double; use %s plain",
                            mega_config_origin(cfg, "fp64"), mega_config_spelling(cfg, "backend"));
    }
}

static void rule_recompute(mega_config *cfg)
{
    const bool method = cfg->recompute_method != MEGA_RECOMPUTE_METHOD_NONE;
    if (cfg->recompute_granularity == MEGA_RECOMPUTE_SELECTIVE && method) {
        mega_config_problem(cfg, USAGE, "%s belongs to full recompute; selective recompute has no method, leave it out",
                            mega_config_origin(cfg, "recompute_method"));
    } else if (cfg->recompute_granularity == MEGA_RECOMPUTE_NONE && method) {
        mega_config_problem(cfg, USAGE, "%s changes nothing without --recompute-granularity full; add it",
                            mega_config_origin(cfg, "recompute_method"));
    }
}

/* ---- checkpoints ---- */

static void rule_loading(mega_config *cfg)
{
    static const char *const need_load[] = {"use_checkpoint_args", "exit_on_missing_checkpoint"};
    static const char *const idle_without[] = {"finetune", "load_previous", "no_load_optim", "no_load_rng"};
    for (size_t i = 0; cfg->load == NULL && i < ROW_COUNT(need_load); i++) {
        if (!is_given(cfg, need_load[i])) continue;
        mega_config_problem(cfg, USAGE, "%s needs --load FOLDER", mega_config_origin(cfg, need_load[i]));
    }
    for (size_t i = 0; cfg->load == NULL && i < ROW_COUNT(idle_without); i++) { /* scripts pass them all the same */
        if (is_given(cfg, idle_without[i]))
            mega_warn("%s has no effect without --load", mega_config_origin(cfg, idle_without[i]));
    }
    if (cfg->override_opt_param_scheduler && cfg->use_checkpoint_opt_param_scheduler) {
        mega_config_problem(cfg, USAGE, "%s and %s contradict each other; give one",
                            mega_config_origin(cfg, "override_opt_param_scheduler"),
                            mega_config_origin(cfg, "use_checkpoint_opt_param_scheduler"));
    }
    if (cfg->no_load_optim && cfg->use_checkpoint_opt_param_scheduler) {
        mega_config_problem(cfg, USAGE,
                            "%s leaves the checkpoint's schedule unread together with its optimizer, and %s asks for "
                            "it; leave out one (without the second, this command's --lr options hold)",
                            mega_config_origin(cfg, "no_load_optim"),
                            mega_config_origin(cfg, "use_checkpoint_opt_param_scheduler"));
    }
}

static void rule_saving(mega_config *cfg)
{
    if (cfg->save == NULL && is_given(cfg, "save_interval")) {
        mega_config_problem(cfg, USAGE, "%s needs --save FOLDER", mega_config_origin(cfg, "save_interval"));
    }
    if (cfg->save == NULL && cfg->save_takeover) {
        mega_config_problem(cfg, USAGE, "%s needs --save FOLDER, the folder to take over",
                            mega_config_origin(cfg, "save_takeover"));
    }
    if (cfg->save == NULL && cfg->log_progress) {
        mega_config_problem(cfg, USAGE, "%s needs --save FOLDER, where progress.txt is kept",
                            mega_config_origin(cfg, "log_progress"));
    }
    if (cfg->skip_train || cfg->state->command->bit != FOR_PRETRAIN) return;
    if (cfg->save == NULL) mega_warn("no --save: the trained weights will not be kept; --save FOLDER keeps them");
    else if (cfg->save_interval == 0)
        mega_warn("--save without --save-interval: a checkpoint is written at the end and on a signal, none before");
}

static void rule_profiled_steps(mega_config *cfg)
{
    if (cfg->profile_trace == NULL && !cfg->profile_table) return;
    if (cfg->train_iters > 0 && cfg->profile_step_start >= cfg->train_iters && !cfg->skip_train)
        mega_config_problem(cfg, USAGE,
                            "%s: the run ends after %lld iterations and none would be profiled; give a "
                            "smaller number",
                            mega_config_origin(cfg, "profile_step_start"), (long long)cfg->train_iters);
    if (cfg->profile_step_end > cfg->profile_step_start) return;
    mega_config_problem(cfg, USAGE, "%s must be greater than %s: no iteration is between them",
                        mega_config_origin(cfg, "profile_step_end"), mega_config_origin(cfg, "profile_step_start"));
}

/* ---- several ranks ---- */

/* Each process of a launcher whose ranks this one does not see as such would do the whole run over the same files. */
static void rule_one_rank(mega_config *cfg)
{
    static const char *const name[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int64_t ranks = 1;
    if (cfg->world_size > 1) return;
    for (size_t i = 0; i < ROW_COUNT(name); i++) {
        const char *world = getenv(name[i]);
        if (world == NULL || !mega_value_int(world, &ranks) || ranks <= 1) continue;
        mega_config_problem(cfg, MEGA_ERR_UNSUPPORTED,
                            "environment %s=%s: several ranks run under an MPI launcher, with pretrain_gpt, "
                            "generate_samples_gpt and tasks alone: megalith launch --nproc_per_node %s pretrain_gpt … "
                            "(srun needs --mpi=pmix)",
                            name[i], world, world);
        return;
    }
    const char *mark, *launcher = mega_config_python_launcher(&mark, &ranks);
    if (launcher == NULL) return;
    mega_config_problem(cfg, MEGA_ERR_UNSUPPORTED,
                        "environment %s: %s started this process as one of %lld, and its processes are no ranks here; "
                        "start them with megalith %s (it stands before %s's own options), or unset %s",
                        mark, launcher, (long long)ranks, launcher, launcher, mark);
}

/* The greatest. */
static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

const char *mega_rule_more_ranks(const mega_config *cfg)
{
    return cfg->state->command != NULL && cfg->state->command->bit == FOR_PLAN
               ? "--world-size N plans N"
               : "megalith launch --nproc_per_node N starts N";
}

static void rule_layout(mega_config *cfg)
{
    const int64_t tp = cfg->tensor_model_parallel_size, world = cfg->world_size, heads = cfg->num_attention_heads;
    char valid[160];
    if (tp <= 0) return; /* its range says so */
    if (world % tp != 0) {
        divisors_near(heads > 0 ? common_divisor(heads, world) : world, tp, valid, sizeof valid);
        mega_config_problem(cfg, USAGE, "%s does not divide the world of %lld rank%s; sizes that do: %s (%s)",
                            mega_config_origin(cfg, "tensor_model_parallel_size"), (long long)world,
                            world == 1 ? "" : "s", valid, mega_rule_more_ranks(cfg));
        return;
    }
    if (tp > 1 && heads > 0 && heads % tp != 0) {
        divisors_near(common_divisor(heads, world), tp, valid, sizeof valid);
        mega_config_problem(
            cfg, USAGE, "%s is not a multiple of %s: attention is cut by heads; sizes that divide heads and ranks: %s",
            mega_config_origin(cfg, "num_attention_heads"), mega_config_origin(cfg, "tensor_model_parallel_size"),
            valid);
    }
    if (tp > 1 && cfg->ffn_hidden_size > 0 && cfg->ffn_hidden_size % tp != 0)
        mega_config_problem(cfg, USAGE, "%s is not a multiple of %s", mega_config_origin(cfg, "ffn_hidden_size"),
                            mega_config_origin(cfg, "tensor_model_parallel_size"));
}

/* What has nothing to do where ranks are one would be ignored where they are more. */
static void rule_idle_alone(mega_config *cfg)
{
    for (option_walk w = {.of = &cfg->state->table}; mega_option_next(&w);) {
        const option_entry *entry = &cfg->state->entry[w.index];
        const int64_t ranks = mega_option_ranks(cfg, w.row);
        if (ranks <= 1 || entry->source != MEGA_SET_BY_COMMAND_LINE) continue;
        mega_config_problem(cfg, MEGA_ERR_UNSUPPORTED, "%s: found --%s %lld, expected 1, where it has no effect: %s",
                            entry->typed, w.row->alone, (long long)ranks, w.row->remark);
    }
}

/* ---- commands ---- */

static void rule_tokenizer_training(mega_config *cfg)
{
    const mega_train_tokenizer_options *o = &cfg->train_tokenizer;
    const bool characters = strcmp(cfg->tokenizer_type, "CharTokenizer") == 0;
    if (o->input.count == 0) mega_config_problem(cfg, USAGE, "missing: --input FILE…, the text to learn from");
    if (o->output == NULL) mega_config_problem(cfg, USAGE, "missing: --output FOLDER, where the vocabulary is written");
    if (strcmp(cfg->tokenizer_type, "ByteTokenizer") == 0 || strcmp(cfg->tokenizer_type, "NullTokenizer") == 0) {
        mega_config_problem(cfg, USAGE, "%s has nothing to learn; use GPT2BPETokenizer or CharTokenizer",
                            mega_config_origin(cfg, "tokenizer_type"));
    } else if (!characters && o->vocab_size == 0 && !is_given(cfg, "vocab_size")) {
        mega_config_problem(cfg, USAGE,
                            "missing: --vocab-size N; 256 bytes and the end of document come first, 32000 is usual");
    } else if (!characters && o->vocab_size > 0 && o->vocab_size < 257) {
        mega_config_problem(cfg, USAGE,
                            "%s: a byte-level vocabulary has 256 bytes and the end of document; give 257 or more",
                            mega_config_origin(cfg, "vocab_size"));
    }
}

static void rule_preprocessing(mega_config *cfg)
{
    if (cfg->preprocess.input.count == 0) mega_config_problem(cfg, USAGE, "missing: --input FILE…, the text to read");
    if (cfg->preprocess.output_prefix == NULL) {
        mega_config_problem(cfg, USAGE, "missing: --output-prefix PREFIX, of PREFIX_text_document.bin and .idx");
    }
}

static void rule_generation(mega_config *cfg)
{
    if (cfg->load == NULL) mega_config_problem(cfg, USAGE, "missing: --load FOLDER, the trained model");
    const struct {
        const char *dest;
        bool on;
    } sources[] = {{"prompt", cfg->generate.prompt.count > 0},
                   {"num_samples", cfg->generate.num_samples > 0},
                   {"sample_input_file", cfg->generate.sample_input_file != NULL},
                   {"interactive", cfg->generate.interactive}};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (!sources[i].on) continue;
        if (first != NULL)
            mega_config_problem(cfg, USAGE, "%s and %s both say where the prompts come from; give one",
                                mega_config_origin(cfg, first), mega_config_origin(cfg, sources[i].dest));
        first = sources[i].dest;
    }
    if (cfg->generate.sample_output_file != NULL && cfg->generate.sample_input_file == NULL)
        mega_config_problem(cfg, USAGE,
                            "%s goes with --sample-input-file FILE; in every other mode --genfile FILE is written",
                            mega_config_origin(cfg, "sample_output_file"));
    if (cfg->generate.interactive && cfg->data_parallel_size > 1)
        mega_config_problem(
            cfg, USAGE,
            "%s: %lld data-parallel ranks would answer when each has a prompt; start the ranks that "
            "share the model alone (%lld), or give the prompts: --prompt TEXT, --sample-input-file FILE",
            mega_config_origin(cfg, "interactive"), (long long)cfg->data_parallel_size,
            (long long)(cfg->world_size / cfg->data_parallel_size));
    if (cfg->generate.temperature == 0)
        mega_config_problem(cfg, USAGE, "%s must be greater than 0; --greedy takes the most probable token every time",
                            mega_config_origin(cfg, "temperature"));
}

static void rule_greedy(mega_config *cfg)
{
    const struct {
        const char *dest;
        bool draws; /* differs from the value that changes nothing */
    } idle[] = {{"temperature", cfg->generate.temperature != 1},
                {"top_k", cfg->generate.top_k != 0},
                {"top_p", cfg->generate.top_p != 0}};
    for (size_t i = 0; cfg->generate.greedy && i < ROW_COUNT(idle); i++)
        if (idle[i].draws && is_given(cfg, idle[i].dest))
            mega_warn("%s has no effect beside --greedy", mega_config_origin(cfg, idle[i].dest));
}

static void rule_tasks(mega_config *cfg)
{
    if (cfg->load == NULL) mega_config_problem(cfg, USAGE, "missing: --load FOLDER, the trained model");
    if (cfg->tasks.task == NULL && !is_given(cfg, "task"))
        mega_config_problem(cfg, USAGE, "missing: --task LM_LOSS, WIKITEXT103 or LAMBADA");
    if (cfg->tasks.valid_data.count == 0)
        mega_config_problem(cfg, USAGE, "missing: --valid-data FILE…, the text to evaluate");
}

static void rule_plot(mega_config *cfg)
{
    if (cfg->positional.count == 0) {
        mega_config_problem(cfg, USAGE,
                            "missing: the metrics files to draw (made by pretrain_gpt --metrics-file FILE)");
    }
}

typedef struct rule_row {
    uint32_t commands;
    bool shape; /* runs once the network's shape is known */
    void (*check)(mega_config *cfg);
} rule_row;

#define FOR_RUN (FOR_PRETRAIN | FOR_PLAN)

static const rule_row rules[] = {
    {FOR_TRAINING, true, rule_shape_is_given},
    {FOR_TRAINING, true, rule_heads_divide_hidden},
    {FOR_TRAINING, true, mega_rule_equal_values},
    {FOR_TRAINING, true, rule_positions_reach},
    {FOR_ALL | FOR_ENGINE, false, rule_sizes_fit},
    {FOR_RUN | FOR_ENGINE, false, rule_batch_divides},
    {FOR_RUN | FOR_ENGINE, false, mega_rule_accumulation},
    {FOR_RUN | FOR_ENGINE, false, rule_rampup},
    {FOR_PRETRAIN, false, rule_length_of_training},
    {FOR_RUN | FOR_ENGINE, false, mega_rule_units_agree},
    {FOR_RUN | FOR_ENGINE, false, mega_rule_learning_rate},
    {FOR_RUN | FOR_ENGINE, false, mega_rule_warmup},
    {FOR_RUN | FOR_ENGINE, false, mega_rule_wsd},
    {FOR_RUN | FOR_ENGINE, false, mega_rule_weight_decay},
    {FOR_TRAINING | FOR_ENGINE, false, rule_precision},
    {FOR_RUN, false, rule_recompute},
    {FOR_RUN, false, rule_loading},
    {FOR_RUN, false, rule_saving},
    {FOR_RUN, false, mega_rule_evaluation_alone},
    {FOR_PRETRAIN, false, rule_profiled_steps},
    {FOR_ALL, false, rule_one_rank},
    {FOR_ALL | FOR_ENGINE, false, mega_rule_environment},
    {FOR_TRAINING, true, rule_layout},
    {FOR_TRAINING, true, mega_rule_sequence_parallel},
    {FOR_TRAINING | FOR_ENGINE, false, mega_rule_zero},
    {FOR_TRAINING, true, mega_rule_distribute_saved},
    {FOR_TRAINING, true, mega_rule_stages},
    {FOR_TRAINING | FOR_ENGINE, false, rule_idle_alone},
    {FOR_TRAIN_TOKENIZER, false, rule_tokenizer_training},
    {FOR_PREPROCESS, false, rule_preprocessing},
    {FOR_GENERATE, false, rule_generation},
    {FOR_GENERATE, false, rule_greedy},
    {FOR_TASKS, false, rule_tasks},
    {FOR_PLOT, false, rule_plot},
    {FOR_ENGINE, false, mega_rule_engine_reads},
};

/* Mistakes of these concern files: what the options say is known all the same. */
static const struct {
    uint32_t commands;
    mega_config_topic topic;
    void (*check)(mega_config *cfg);
} file_rules[] = {
    {FOR_TRAINING | FOR_PREPROCESS | FOR_DATA, MEGA_TOPIC_DATA, mega_rule_split},
    {FOR_RUN, MEGA_TOPIC_DATA, mega_rule_data_paths},
    {FOR_RUN | FOR_PREPROCESS | FOR_TOKENIZE, MEGA_TOPIC_TOKENIZER, mega_rule_tokenizer_files},
    {FOR_GENERATE | FOR_TASKS, MEGA_TOPIC_READ, mega_rule_reads},
    {FOR_TOKENIZE, MEGA_TOPIC_READ, mega_rule_tokenize_input},
    {FOR_RUN, MEGA_TOPIC_WRITTEN, mega_rule_writes},
    {FOR_GENERATE | FOR_PLOT | FOR_TRAIN_TOKENIZER | FOR_PREPROCESS | FOR_DATA, MEGA_TOPIC_WRITTEN, mega_rule_outputs},
};

void mega_config_run_rules(mega_config *cfg, bool shape)
{
    mega_config_state *state = cfg->state;
    size_t before = state->problems;
    const uint32_t bit = state->is_engine ? (uint32_t)FOR_ENGINE : state->command->bit;
    for (size_t i = 0; i < ROW_COUNT(rules); i++) {
        if ((rules[i].commands & bit) == 0 || (rules[i].shape && !shape)) continue;
        rules[i].check(cfg);
    }
    if (state->problems > before) state->faulty |= MEGA_TOPIC_OPTIONS;
    for (size_t i = 0; i < ROW_COUNT(file_rules); i++) {
        before = state->problems;
        if ((file_rules[i].commands & bit) != 0) file_rules[i].check(cfg);
        if (state->problems > before) state->faulty |= (unsigned)file_rules[i].topic;
    }
}
