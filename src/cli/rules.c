/* Rules of the commands (of generate_samples_gpt: rules_generation.c), and a table of the rules that apply to each
 * command. */
#include "megalith/accelerate.h"
#include "megalith/file.h"
#include "megalith/labelled.h"
#include "megalith/log.h"
#include "megalith/tokenizer_train.h"
#include "options_impl.h"
#include <stdlib.h>
#include <string.h>

/* Rejects a launcher whose processes are not ranks here: each of them would do the whole run on the same files. */
static void rule_one_rank(mega_command_options *cfg)
{
    static const char *const name[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int64_t ranks = 1;
    if (cfg->train.engine.world_size > 1) return;
    for (size_t i = 0; i < MEGA_COUNT(name); i++) {
        const char *world = getenv(name[i]);
        if (world == NULL || !mega_value_int(world, &ranks) || ranks <= 1) continue;
        mega_options_problem(cfg->train.engine.options, MEGA_ERR_UNSUPPORTED,
                             "environment %s=%s: several ranks run under an MPI launcher, and this process is alone: "
                             "start a command that runs on ranks with megalith launch --nproc_per_node %s (srun needs "
                             "--mpi=pmix), and another one without a launcher",
                             name[i], world, world);
        return;
    }
    const char *mark, *launcher = mega_options_python_launcher(&mark, &ranks);
    if (launcher == NULL) return;
    mega_options_problem(cfg->train.engine.options, MEGA_ERR_UNSUPPORTED,
                         "environment %s: %s started this process as one of %lld, and its processes are no ranks here; "
                         "start them with megalith %s (before %s's own options), or unset %s",
                         mark, launcher, (long long)ranks, launcher, launcher, mark);
}

/* In transformers, only --do_train trains; so --do_eval alone means evaluation. */
static void rule_evaluation_alone(mega_command_options *cfg)
{
    const char *eval = mega_options_typed(cfg->train.engine.options, "do_eval");
    const char *train = mega_options_typed(cfg->train.engine.options, "do_train");
    if (eval == NULL || train != NULL || cfg->train.skip_train) return;
    mega_options_mistake(cfg->train.engine.options,
                         "%s without --do_train evaluates and does not train elsewhere; here that is --skip-train",
                         eval);
}

/* A type that can be learnt, and the size of its vocabulary. */
static void rule_vocabulary(mega_command_options *cfg)
{
    mega_options *o = cfg->train.engine.options;
    const char *type = cfg->train.text.tokenizer_type;
    const int64_t least = mega_trainer_least(type), size = cfg->train_tokenizer.vocab_size;
    const bool bpe = strcmp(type, "GPT2BPETokenizer") == 0;
    if (strcmp(type, "ByteTokenizer") == 0 || strcmp(type, "NullTokenizer") == 0) {
        mega_options_mistake(o, "%s has nothing to learn; use GPT2BPETokenizer or CharTokenizer",
                             mega_options_origin(o, "tokenizer_type"));
    } else if (least == 0 && strcmp(type, "CharTokenizer") != 0) {
        mega_options_mistake(o,
                             "%s is read from the files of others; use GPT2BPETokenizer, BertWordPieceLowerCase, "
                             "BertWordPieceCase, SentencePieceTokenizer, GPTSentencePieceTokenizer or CharTokenizer",
                             mega_options_origin(o, "tokenizer_type"));
    } else if (least > 0 && size == 0 && !mega_options_is_given(o, "vocab_size")) {
        mega_options_mistake(o, "missing: --vocab-size N; %s32000 is usual",
                             bpe ? "256 bytes and the end of document come first, " : "");
    } else if (size > 0 && size < least) {
        mega_options_mistake(o, "%s: %s; give %lld or more", mega_options_origin(o, "vocab_size"),
                             bpe ? "a byte-level vocabulary has 256 bytes and the end of document"
                                 : "a vocabulary has special tokens and at least one character",
                             (long long)least);
    }
    if (least == 4 && mega_options_is_given(o, "min_frequency"))
        mega_options_mistake(o, "%s: Unigram merges no pairs; leave the option out",
                             mega_options_origin(o, "min_frequency"));
    if (least != 4 && mega_options_is_given(o, "character_coverage"))
        mega_options_mistake(o,
                             "%s: Unigram alone leaves characters out (--tokenizer-type SentencePieceTokenizer); leave "
                             "the option out",
                             mega_options_origin(o, "character_coverage"));
}

static void rule_tokenizer_training(mega_command_options *cfg)
{
    const mega_train_tokenizer_options *o = &cfg->train_tokenizer;
    if (o->input.count == 0)
        mega_options_mistake(cfg->train.engine.options, "missing: --input FILE…, the text to learn from");
    if (o->output == NULL)
        mega_options_mistake(cfg->train.engine.options, "missing: --output FOLDER, where the vocabulary is written");
    rule_vocabulary(cfg);
}

/* Options that say how sentences are cut, without --split-sentences; files that are not there. */
static void rule_sentences(mega_command_options *cfg)
{
    const mega_preprocess_options *p = &cfg->preprocess;
    mega_options *o = cfg->train.engine.options;
    const struct {
        const char *dest, *path;
        bool on;
    } option[] = {{"keep_newlines", NULL, p->keep_newlines},
                  {"sentence_parameters", NULL, p->sentence_parameters != NULL},
                  {"save_sentence_parameters", NULL, p->save_sentence_parameters != NULL},
                  {"abbreviations", p->abbreviations, p->abbreviations != NULL}};
    for (size_t i = 0; i < sizeof option / sizeof option[0]; i++) {
        if (!option[i].on) continue;
        if (!p->split_sentences)
            mega_options_mistake(o, "%s only goes with --split-sentences; add it, or leave this out",
                                 mega_options_origin(o, option[i].dest));
        else if (option[i].path != NULL && !mega_file_exists(option[i].path))
            mega_options_problem(o, MEGA_ERR_NOT_FOUND, "%s: there is no file %s",
                                 mega_options_origin(o, option[i].dest), option[i].path);
    }
    const char *folder = p->save_sentence_parameters, *there = "abbrev_types.txt";
    if (folder != NULL && mega_file_exists(mega_options_text(o, "%s/%s", folder, there)))
        mega_options_mistake(o,
                             "--save-sentence-parameters %s: there is %s already; nothing was changed: give another "
                             "folder, or move it away",
                             folder, there);
}

static void rule_preprocessing(mega_command_options *cfg)
{
    rule_sentences(cfg);
    if (cfg->preprocess.input.count == 0)
        mega_options_mistake(cfg->train.engine.options, "missing: --input FILE…, the text to read");
    if (cfg->preprocess.output_prefix == NULL) {
        mega_options_mistake(cfg->train.engine.options,
                             "missing: --output-prefix PREFIX, of PREFIX_text_document.bin and .idx");
    }
}

static void rule_server(mega_command_options *cfg)
{
    if (cfg->train.load == NULL)
        mega_options_mistake(cfg->train.engine.options, "missing: --load FOLDER, the trained model");
}

static void rule_embed(mega_command_options *cfg)
{
    const struct {
        const char *value, *says;
    } needed[] = {{cfg->train.load, "--load FOLDER, the encoder"},
                  {cfg->embed.input, "--input FILE, with a text a line"},
                  {cfg->embed.output, "--output FILE.npy, where the embeddings are written"}};
    for (size_t i = 0; i < MEGA_COUNT(needed); i++)
        if (needed[i].value == NULL) mega_options_mistake(cfg->train.engine.options, "missing: %s", needed[i].says);
    if (cfg->embed.output != NULL && !mega_path_ends_with(cfg->embed.output, ".npy"))
        mega_options_mistake(cfg->train.engine.options, "%s: expected a file whose name ends with .npy",
                             mega_options_origin(cfg->train.engine.options, "output"));
}

static void rule_fill_mask(mega_command_options *cfg)
{
    if (cfg->train.load == NULL) mega_options_mistake(cfg->train.engine.options, "missing: --load FOLDER, the encoder");
    if (cfg->embed.input == NULL && cfg->embed.text.count == 0)
        mega_options_mistake(cfg->train.engine.options,
                             "missing: --text TEXT with a mask, or --input FILE, with such a text a line");
    if (cfg->embed.top_k == 0) /* a range would refuse the 0 of generate_samples_gpt in files of options */
        mega_options_mistake(cfg->train.engine.options, "--top_k 0: expected 1 or more tokens of a mask");
}

static void rule_tasks(mega_command_options *cfg)
{
    const bool classifies = mega_train_classifies(&cfg->train);
    if (cfg->train.load == NULL && !classifies)
        mega_options_mistake(cfg->train.engine.options, "missing: --load FOLDER, the trained model");
    if (cfg->train.classify.task == NULL && !mega_options_is_given(cfg->train.engine.options, "task"))
        mega_options_mistake(cfg->train.engine.options,
                             "missing: --task LM_LOSS, WIKITEXT103, LAMBADA" MEGA_LABELLED_TASKS(MEGA_LABELLED_LISTED));
    if (cfg->train.classify.valid_data.count == 0)
        mega_options_mistake(cfg->train.engine.options, "missing: --valid-data FILE…, the %s to evaluate",
                             classifies ? "samples" : "text");
}

/* Megatron's tool leaves the optimizer out by itself. */
static void rule_merge(mega_command_options *cfg)
{
    mega_options *o = cfg->train.engine.options;
    if (cfg->merge.model_type == NULL && !mega_options_is_given(o, "model_type"))
        mega_options_mistake(o, "missing: --model-type GPT, T5, BERT" MEGA_LABELLED_TASKS(MEGA_LABELLED_LISTED));
    if (cfg->train.load == NULL) mega_options_mistake(o, "missing: --load FOLDER, the checkpoint");
    if (cfg->train.no_save_optim)
        mega_options_mistake(o, "%s: the copy is whole, with the optimizer's state if there is one; leave it out",
                             mega_options_origin(o, "no_save_optim"));
}

static void rule_plot(mega_command_options *cfg)
{
    if (mega_options_positional(cfg->train.engine.options)->count == 0) {
        mega_options_mistake(cfg->train.engine.options,
                             "missing: the metrics files to draw (made by pretrain_gpt --metrics-file FILE)");
    }
}

static void rule_report(mega_command_options *cfg)
{
    if (mega_options_positional(cfg->train.engine.options)->count == 0) {
        mega_options_mistake(cfg->train.engine.options,
                             "missing: the runs to show: metrics files (made by pretrain_gpt --metrics-file FILE), or "
                             "folders that hold one each");
    }
}

/* Checks that the files differ. Opening a file for writing empties it: prompts would be lost before they are read, or
 * two kinds of output would be mixed. */
static void rules_check_outputs(mega_command_options *cfg)
{
    const struct {
        const char *dest, *path;
        bool read;
    } file[] = {{"sample_input_file", cfg->generate.sample_input_file, true},
                {"sample_output_file", cfg->generate.sample_output_file, false},
                {"genfile", cfg->generate.genfile, false},
                {"return_logits", cfg->generate.return_logits, false}};
    for (size_t a = 0; a < MEGA_COUNT(file); a++) {
        for (size_t b = a + 1; b < MEGA_COUNT(file); b++) {
            if (file[a].path == NULL || file[b].path == NULL || !mega_file_same(file[a].path, file[b].path)) continue;
            mega_options_mistake(cfg->train.engine.options, "%s and %s are the same file, which %s; give another name",
                                 mega_options_origin(cfg->train.engine.options, file[a].dest),
                                 mega_options_origin(cfg->train.engine.options, file[b].dest),
                                 file[a].read ? "would be emptied before its prompts are read"
                                              : "both would overwrite");
        }
    }
}

static void rule_tokenize_input(mega_command_options *cfg)
{
    mega_train_check_file(&cfg->train, "--input", cfg->tokenize.input, "a text file");
}

/* Checks a checkpoint for generation or evaluation, and the files used with it. */
static void rule_reads(mega_command_options *cfg)
{
    const bool classifies = mega_train_classifies(&cfg->train); /* mega_train checks what it reads */
    if (cfg->train.load != NULL && !classifies && !mega_train_is_hidden(&cfg->train, "--load", cfg->train.load) &&
        !mega_folder_exists(cfg->train.load)) {
        const bool is_file = mega_file_exists(cfg->train.load);
        mega_buffer near = {0};
        if (!is_file) mega_options_put_near(&near, cfg->train.load);
        mega_options_problem(cfg->train.engine.options, MEGA_ERR_NOT_FOUND,
                             "--load %s: %s%s; expected a folder of checkpoints, or a Hugging Face folder",
                             cfg->train.load, is_file ? "it is a file" : "there is no such folder",
                             near.data != NULL ? near.data : "");
        mega_buffer_fini(&near);
    }
    mega_train_check_file(&cfg->train, "--vocab-file", cfg->train.text.vocab_file,
                          "vocab.json, vocab.txt or tokenizer.json");
    mega_train_check_file(&cfg->train, "--merge-file", cfg->train.text.merge_file, "merges.txt");
    mega_train_check_file(&cfg->train, "--sample-input-file", cfg->generate.sample_input_file,
                          "a file with one prompt a line");
    mega_train_check_file(&cfg->train, "--input", cfg->embed.input, "a text file");
    rules_check_outputs(cfg);
    for (size_t i = 0; i < cfg->train.classify.valid_data.count && !classifies; i++) {
        mega_train_check_file(&cfg->train, "--valid-data", cfg->train.classify.valid_data.item[i], "a text file");
    }
}

/* Rejects an output that is one of the metrics files: it would replace the metrics, also with --overwrite. `example` is
 * the ending of a better name. */
static bool replaces_metrics(mega_command_options *cfg, const char *dest, const char *path, const char *what,
                             const char *example)
{
    const mega_list *files = mega_options_positional(cfg->train.engine.options);
    for (size_t i = 0; path != NULL && i < files->count; i++) {
        if (!mega_file_same(path, files->item[i])) continue;
        mega_options_mistake(cfg->train.engine.options,
                             "--%s %s: this is the metrics file %s, which the %s would replace; give another name, "
                             "such as %s.%s",
                             dest, path, files->item[i], what, files->item[i], example);
        return true;
    }
    return false;
}

static void rule_report_output(mega_command_options *cfg)
{
    if (!replaces_metrics(cfg, "output", cfg->report.output, "page", "html"))
        mega_train_check_in_folder(&cfg->train, "output", cfg->report.output, MEGA_OUTPUT_REPORT);
}

static void rule_config_output(mega_command_options *cfg)
{
    if (cfg->config.config_file != NULL) {
        mega_train_check_in_folder(&cfg->train, "config-file", cfg->config.config_file, MEGA_OUTPUT_CONFIG);
        return;
    }
    char *path = mega_accelerate_default_file();
    if (path != NULL) mega_train_check_output(&cfg->train, "config-file", path, MEGA_OUTPUT_CONFIG);
    mega_free(path);
}

static void rule_outputs(mega_command_options *cfg)
{
    const mega_list *keys = &cfg->preprocess.json_keys;
    mega_train_check_in_folder(&cfg->train, "genfile", cfg->generate.genfile, MEGA_OUTPUT_TEXTS);
    mega_train_check_in_folder(&cfg->train, "sample-output-file", cfg->generate.sample_output_file,
                               MEGA_OUTPUT_SAMPLES);
    mega_train_check_in_folder(&cfg->train, "output", cfg->embed.output, MEGA_OUTPUT_EMBEDDINGS);
    mega_train_check_in_folder(&cfg->train, "return-logits", cfg->generate.return_logits, MEGA_OUTPUT_LOGITS);
    if (!replaces_metrics(cfg, "svg", cfg->plot.svg, "drawing", "svg"))
        mega_train_check_in_folder(&cfg->train, "svg", cfg->plot.svg, MEGA_OUTPUT_PLOT);
    mega_train_check_output(&cfg->train, "output", cfg->train_tokenizer.output, MEGA_OUTPUT_TOKENIZER);
    mega_train_check_pair(&cfg->train, cfg->data.output_prefix, "");
    for (size_t i = 0; i < keys->count; i++)
        mega_train_check_pair(&cfg->train, cfg->preprocess.output_prefix,
                              mega_options_text(cfg->train.engine.options, "_%s_%s", keys->item[i],
                                                cfg->preprocess.split_sentences ? "sentence" : "document"));
}

static void rule_print_program(mega_command_options *cfg)
{
    if (cfg->train.print_program && !cfg->train.dry_run)
        mega_warn("%s has no effect on a training; add --dry-run, or give the same options to megalith plan",
                  mega_options_origin(cfg->train.engine.options, "print_program"));
}

/* tasks that train or evaluate a classifier: cli_check_options adds the bit to that of the command */
#define FOR_CLASSIFIER (1u << 31)
#define FOR_RUN        (FOR_PRETRAIN | FOR_CLM | FOR_PLAN | FOR_CLASSIFIER)

/* A rule; they are in the order of the report. Exactly one of general, engine, train and command is set, depending on
 * the module whose options the rule checks. */
typedef struct rule_row {
    uint32_t commands;
    bool shape; /* runs only once the network's shape is known */
    void (*general)(mega_options *o);
    void (*engine)(mega_engine_settings *s);
    void (*train)(mega_train_options *cfg);
    void (*command)(mega_command_options *cfg);
} rule_row;

static const rule_row rules[] = {
    {FOR_TRAINING, true, .train = mega_train_rule_shape_is_given},
    {FOR_TRAINING, true, .train = mega_train_rule_heads_divide_hidden},
    {FOR_TRAINING, true, .general = mega_options_rule_equal},
    {FOR_TRAINING, true, .train = mega_train_rule_positions_reach},
    {FOR_TRAINING, true, .train = mega_train_rule_rotation},
    {FOR_TRAINING, true, .train = mega_train_rule_network},
    {FOR_TRAINING, true, .train = mega_train_rule_experts},
    {FOR_ALL, false, .general = mega_options_rule_most},
    {FOR_ALL, false, .train = mega_train_rule_sizes_fit},
    {FOR_RUN, false, .engine = mega_engine_rule_batch_divides},
    {FOR_RUN, false, .engine = mega_engine_rule_accumulation},
    {FOR_RUN, false, .engine = mega_engine_rule_rampup},
    {FOR_RUN, false, .engine = mega_engine_rule_drop_last},
    {FOR_RUN, false, .engine = mega_engine_rule_curriculum},
    {FOR_RUN, false, .train = mega_train_rule_curriculum},
    {FOR_PRETRAIN, false, .train = mega_train_rule_length_of_training},
    {FOR_CLM, false, .train = mega_train_rule_clm},
    {FOR_BERT, false, .train = mega_train_rule_bert},
    {FOR_T5, false, .train = mega_train_rule_t5},
    {FOR_TASKS, false, .train = mega_train_rule_classify},
    {FOR_RUN, false, .engine = mega_engine_rule_units_agree},
    {FOR_RUN, false, .engine = mega_engine_rule_learning_rate},
    {FOR_RUN, false, .engine = mega_engine_rule_warmup},
    {FOR_RUN, false, .engine = mega_engine_rule_wsd},
    {FOR_RUN, false, .engine = mega_engine_rule_weight_decay},
    {FOR_RUN, false, .engine = mega_engine_rule_scheduler},
    {FOR_RUN, false, .engine = mega_engine_rule_optimizer},
    {FOR_TRAINING, false, .engine = mega_engine_rule_precision},
    {FOR_TRAINING, false, .engine = mega_engine_rule_device},
    {FOR_TRAINING, false, .engine = mega_engine_rule_loss_scale},
    {FOR_TRAINING, false, .engine = mega_engine_rule_amp},
    {FOR_RUN, false, .engine = mega_engine_rule_json},
    {FOR_RUN, false, .engine = mega_engine_rule_recompute},
    {FOR_RUN, false, .engine = mega_engine_rule_without},
    {FOR_RUN, false, .train = mega_train_rule_loading},
    {FOR_RUN, false, .train = mega_train_rule_saving},
    {FOR_RUN, false, .command = rule_evaluation_alone},
    {FOR_PRETRAIN | FOR_CLM | FOR_CLASSIFIER, false, .train = mega_train_rule_profiled_steps},
    {FOR_PRETRAIN | FOR_CLM, false, .command = rule_print_program},
    {FOR_ALL, false, .command = rule_one_rank},
    {FOR_ALL, false, .general = mega_options_rule_environment},
    {FOR_TRAINING, true, .train = mega_train_rule_layout},
    {FOR_TRAINING, true, .train = mega_train_rule_expert_ranks},
    {FOR_TRAINING, true, .train = mega_train_rule_sequence_parallel},
    {FOR_TRAINING, false, .engine = mega_engine_rule_zero},
    {FOR_TRAINING, false, .engine = mega_engine_rule_grad_accum},
    {FOR_TRAINING, true, .train = mega_train_rule_distribute_saved},
    {FOR_TRAINING, true, .train = mega_train_rule_stages},
    {FOR_TRAINING, false, .general = mega_options_rule_alone},
    {FOR_TRAIN_TOKENIZER, false, .command = rule_tokenizer_training},
    {FOR_PREPROCESS, false, .command = rule_preprocessing},
    {FOR_GENERATE, false, .command = cli_rule_generation},
    {FOR_GENERATE, false, .command = cli_rule_drawing},
    {FOR_GENERATE, false, .command = cli_rule_beams},
    {FOR_GENERATE, false, .command = cli_rule_greedy},
    {FOR_SERVER, false, .command = rule_server},
    {FOR_TASKS, false, .command = rule_tasks},
    {FOR_MERGE, false, .command = rule_merge},
    {FOR_EMBED, false, .command = rule_embed},
    {FOR_FILL, false, .command = rule_fill_mask},
    {FOR_PLOT, false, .command = rule_plot},
    {FOR_REPORT, false, .command = rule_report},
};

/* Rules about files: the values of the options are known even if these report mistakes. */
static const struct {
    uint32_t commands;
    unsigned topic;
    void (*train)(mega_train_options *cfg); /* one of `train` and `command` is set */
    void (*command)(mega_command_options *cfg);
} file_rules[] = {
    {FOR_TRAINING | FOR_PREPROCESS | FOR_DATA, MEGA_TOPIC_DATA, .train = mega_train_rule_split},
    {FOR_RUN, MEGA_TOPIC_DATA, .train = mega_train_rule_data_paths},
    {FOR_CLM, MEGA_TOPIC_DATA, .train = mega_train_rule_clm_files},
    {FOR_TASKS, MEGA_TOPIC_DATA, .train = mega_train_rule_classify_files},
    {FOR_RUN | FOR_PREPROCESS | FOR_TOKENIZE, MEGA_TOPIC_TOKENIZER, .train = mega_train_rule_tokenizer_files},
    {FOR_GENERATE | FOR_TASKS | FOR_SERVER | FOR_MERGE | FOR_EMBED | FOR_FILL, MEGA_TOPIC_READ, .command = rule_reads},
    {FOR_TOKENIZE, MEGA_TOPIC_READ, .command = rule_tokenize_input},
    {FOR_RUN, MEGA_TOPIC_WRITTEN, .train = mega_train_rule_writes},
    {FOR_CLM, MEGA_TOPIC_WRITTEN, .train = mega_train_rule_clm_writes},
    {FOR_GENERATE | FOR_EMBED | FOR_PLOT | FOR_TRAIN_TOKENIZER | FOR_PREPROCESS | FOR_DATA, MEGA_TOPIC_WRITTEN,
     .command = rule_outputs},
    {FOR_REPORT, MEGA_TOPIC_WRITTEN, .command = rule_report_output},
    {FOR_CONFIG, MEGA_TOPIC_WRITTEN, .command = rule_config_output},
    {FOR_RUN, 0, .train = mega_train_rule_nothing_kept},
};

void cli_check_options(mega_options *o, bool shape)
{
    mega_command_options *cfg = mega_options_values(o);
    const uint32_t bit = mega_options_command_bit(o) | (mega_train_classifies(&cfg->train) ? FOR_CLASSIFIER : 0);
    size_t before = mega_options_problems(o);
    for (size_t i = 0; i < MEGA_COUNT(rules); i++) {
        const rule_row *r = &rules[i];
        if ((r->commands & bit) == 0 || (r->shape && !shape)) continue;
        if (r->general != NULL) r->general(o);
        if (r->engine != NULL) r->engine(&cfg->train.engine);
        if (r->train != NULL) r->train(&cfg->train);
        if (r->command != NULL) r->command(cfg);
    }
    if (mega_options_problems(o) > before) mega_options_set_faulty(o, MEGA_TOPIC_OPTIONS);
    for (size_t i = 0; i < MEGA_COUNT(file_rules); i++) {
        before = mega_options_problems(o);
        if ((file_rules[i].commands & bit) == 0) continue;
        if (file_rules[i].train != NULL) file_rules[i].train(&cfg->train);
        else
            file_rules[i].command(cfg);
        if (mega_options_problems(o) > before) mega_options_set_faulty(o, file_rules[i].topic);
    }
}
