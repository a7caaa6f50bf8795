/* The options of run_clm, transformers' script: its defaults, the shape and the tokenizer that its names lead to, its
 * rules. */
#include "megalith/checkpoint.h"
#include "megalith/file.h"
#include "megalith/hf_config.h"
#include "tasks/train_clm.h"
#include <stdlib.h>

// clang-format off
#define ROW(name_, field_, kind_) MEGA_OPTION(mega_clm_options, name_, field_, kind_)
static const mega_option_row clm_rows[] = {
    {ROW("train_file", train_file, MEGA_OPTION_LIST), .help = "text files, of which each line is a text, JSON lines, or CSV"},
    {ROW("validation_file", validation_file, MEGA_OPTION_LIST), .help = "the same for the evaluation after each epoch"},
    {ROW("dataset_name", dataset_name, MEGA_OPTION_STRING), .help = "folder NAME or data/NAME with train.txt and validation.txt, or .jsonl; instead of the files"},
    {ROW("dataset_config_name", dataset_config_name, MEGA_OPTION_STRING), .help = "folder in that folder"},
    {ROW("text_column_name", text_column_name, MEGA_OPTION_STRING), .fallback = "text", .help = "key of the text in JSON lines; its column in CSV, where without a column text the first is read"},
    {ROW("validation_split_percentage", validation_split_percentage, MEGA_OPTION_INT), .fallback = "5", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 99, .help = "without files for it: percent of the training's texts, the first ones, that are evaluated"},
    {ROW("max_train_samples", max_train_samples, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "blocks that are trained on, the first ones; 0: all"},
    {ROW("max_eval_samples", max_eval_samples, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "blocks that are evaluated, the first ones; 0: all"},
    {ROW("no_keep_linebreaks", no_keep_linebreaks, MEGA_OPTION_FLAG), .help = "text files: leave the newlines out"},
    {ROW("config_name", config_name, MEGA_OPTION_STRING), .help = "shape of a new model: gpt2, gpt2-medium, gpt2-large, gpt2-xl, or a config.json or its folder"},
    {ROW("model_type", model_type, MEGA_OPTION_STRING), .help = "gpt2: a new model of transformers' GPT2Config, the shape of gpt2"},
    {ROW("config_overrides", config_overrides, MEGA_OPTION_STRING), .help = "changes to it, such as n_embd=1024,n_head=16,n_layer=48", .value = "KEY=VALUE,…"},
    {ROW("tokenizer_name", tokenizer_name, MEGA_OPTION_STRING), .help = "folder with tokenizer.json, or vocab.json and merges.txt; else that of the model"},
    {ROW("model_name_or_path", model_name_or_path, MEGA_OPTION_STRING), .help = "folder of a trained model whose weights are trained further"},
    {ROW("num_train_epochs", num_train_epochs, MEGA_OPTION_INT), .fallback = "3", .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "times that all blocks are read; --max_train_steps counts instead if it is given"},
    {ROW("checkpointing_steps", checkpointing_steps, MEGA_OPTION_STRING), .help = "save a checkpoint every N steps (step_N), or after each \"epoch\" (epoch_E)", .value = "N|epoch"},
    {ROW("with_tracking", with_tracking, MEGA_OPTION_FLAG), .help = "write for the trackers of --report_to, below --output_dir"},
    {ROW("report_to", report_to, MEGA_OPTION_CHOICE), .fallback = "all", .choices = "all|tensorboard|wandb|none", .not_implemented = "comet_ml|aim|mlflow|clearml|dvclive|swanlab|trackio", .help = "tensorboard: events in clm_no_trainer; wandb: an offline run of that project; all: tensorboard"},
};
const mega_option_section mega_train_clm_section = MEGA_SECTION("causal language modeling", clm_rows);
// clang-format on

/* ---- defaults ---- */

static void clm_give(mega_train_options *cfg, const char *dest, const char *text)
{
    if (mega_options_is_given(cfg->engine.options, dest)) return;
    const mega_status st = mega_options_set(cfg->engine.options, dest, text, MEGA_SET_BY_PRESET);
    if (st != MEGA_OK) mega_options_problem(cfg->engine.options, st, "%s", mega_error_message());
}

static void give_int(mega_train_options *cfg, const char *dest, int64_t value)
{
    clm_give(cfg, dest, mega_options_text(cfg->engine.options, "%lld", (long long)value));
}

static void give_float(mega_train_options *cfg, const char *dest, double value)
{
    clm_give(cfg, dest, mega_options_text(cfg->engine.options, "%.17g", value));
}

/* ---- names ---- */

/* Ids of special tokens are those of the tokenizer. */
static void take_network(mega_train_options *cfg, const mega_model_shape *s)
{
    cfg->clm.has_network = true;
    cfg->clm.network = s->net;
    cfg->clm.network.has_ids = false;
    if (s->net.head_dim > 0) give_int(cfg, "kv_channels", s->net.head_dim);
}

static void take_config(mega_train_options *cfg, const char *path)
{
    enum { MOST = 1024 }; /* of transformers' script, which cuts no longer blocks unasked */
    mega_model_shape s;
    const mega_status st = mega_hf_config_read(path, &s);
    if (st != MEGA_OK || s.num_layers == 0) {
        mega_options_problem(cfg->engine.options, st != MEGA_OK ? st : MEGA_ERR_UNSUPPORTED, "--config_name %s: %s",
                             cfg->clm.config_name,
                             st != MEGA_OK ? mega_error_message() : "its config.json does not say what the model is");
        return;
    }
    cfg->clm.vocab = s.vocab;
    if (s.net.family != NULL || s.net.activation != MEGA_ACT_GELU_TANH) take_network(cfg, &s);
    give_int(cfg, "num_layers", s.num_layers);
    give_int(cfg, "hidden_size", s.hidden);
    give_int(cfg, "num_attention_heads", s.heads);
    if (s.ffn_hidden != 4 * s.hidden) give_int(cfg, "ffn_hidden_size", s.ffn_hidden);
    give_int(cfg, "seq_length", s.positions > MOST && train_is(cfg, "run_clm") ? MOST : s.positions);
    give_int(cfg, "max_position_embeddings", s.positions);
    give_float(cfg, "layernorm_epsilon", s.norm_epsilon);
    if (s.init_std > 0) give_float(cfg, "init_method_std", s.init_std);
    give_float(cfg, "attention_dropout", s.attention_dropout);
    give_float(cfg, "hidden_dropout", s.hidden_dropout);
}

/* A shape that is known by name: "gpt2-large", also with the owner that the hub puts in front. */
static const char *known_shape(const char *name)
{
    static const char *const known[] = {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"};
    const char *slash = strrchr(name, '/');
    for (size_t i = 0; i < MEGA_COUNT(known); i++)
        if (strcmp(slash != NULL ? slash + 1 : name, known[i]) == 0) return known[i];
    return NULL;
}

static void find_config(mega_train_options *cfg)
{
    mega_buffer looked = {0};
    const char *name = cfg->clm.config_name, *folder = train_clm_folder(cfg, name, NULL, &looked);
    if (folder != NULL && train_clm_has(cfg, folder, "config.json"))
        take_config(cfg, mega_options_text(cfg->engine.options, "%s/config.json", folder));
    else if (folder == NULL && mega_file_exists(name))
        take_config(cfg, name);
    else if (known_shape(name) != NULL && cfg->model.preset == NULL)
        clm_give(cfg, "preset", known_shape(name));
    else if (known_shape(name) == NULL)
        mega_options_problem(
            cfg->engine.options, MEGA_ERR_NOT_FOUND,
            "--config_name %s: no such config.json, and no folder with one (looked for %s); expected one, or gpt2, "
            "gpt2-medium, gpt2-large, gpt2-xl",
            name, looked.data != NULL ? looked.data : folder);
    mega_buffer_fini(&looked);
}

/* The plan of a shape: a folder of weights says its own. */
static void plan_config(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    mega_options_name_preset(o, mega_options_text(o, "--config_name %s", cfg->clm.config_name));
    if (cfg->load != NULL)
        mega_options_mistake(o, "%s and %s both say what is planned; give one of them",
                             mega_options_origin(o, "config_name"), mega_options_origin(o, "load"));
    else
        find_config(cfg);
}

static bool has_tokenizer(mega_train_options *cfg, const char *folder)
{
    return train_clm_has(cfg, folder, "tokenizer.json") || train_clm_has(cfg, folder, "vocab.json") ||
           train_clm_has(cfg, folder, "tokenizer.model") || train_clm_has(cfg, folder, "vocab.txt");
}

static void find_tokenizer(mega_train_options *cfg)
{
    mega_buffer looked = {0};
    const char *name = cfg->clm.tokenizer_name, *folder = train_clm_folder(cfg, name, NULL, &looked);
    if (folder != NULL && has_tokenizer(cfg, folder)) cfg->clm.tokenizer_folder = folder;
    else if (folder == NULL && mega_file_exists(name))
        cfg->clm.tokenizer_folder = name; /* a tokenizer.json */
    else
        mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND,
                             "--tokenizer_name %s: nothing is downloaded, and %s%s; expected a folder with "
                             "tokenizer.json, or with vocab.json and merges.txt; megalith train_tokenizer makes one",
                             name, folder != NULL ? folder : "there is no such folder: looked for ",
                             folder != NULL        ? " holds no tokenizer"
                             : looked.data != NULL ? looked.data
                                                   : "");
    mega_buffer_fini(&looked);
}

/* Weights to begin with: --resume_from_checkpoint (--load), which goes on with a run, comes before
 * --model_name_or_path. */
static void find_model(mega_train_options *cfg)
{
    mega_buffer looked = {0};
    const char *name = cfg->clm.model_name_or_path;
    if (name == NULL || cfg->load != NULL) return;
    const char *folder = train_clm_folder(cfg, name, NULL, &looked);
    clm_give(cfg, "load",
             folder != NULL ? folder : name); /* a missing folder is reported with all that --load may be */
    clm_give(cfg, "finetune", "true");
    mega_buffer_fini(&looked);
}

static void take_checkpointing(mega_train_options *cfg)
{
    const char *text = cfg->clm.checkpointing_steps;
    int64_t steps;
    if (text == NULL) return;
    cfg->clm.saves_epochs = strcmp(text, "epoch") == 0;
    if (cfg->clm.saves_epochs) return;
    if (mega_value_int(text, &steps) && steps > 0) give_int(cfg, "save_interval", steps);
    else
        mega_options_mistake(cfg->engine.options,
                             "--checkpointing_steps %s: expected a number of steps above 0, or epoch", text);
}

static void take_trackers(mega_train_options *cfg)
{
    const mega_report_to tracker = cfg->clm.report_to;
    if (cfg->save != NULL && (tracker == MEGA_REPORT_TO_ALL || tracker == MEGA_REPORT_TO_TENSORBOARD))
        clm_give(cfg, "tensorboard_dir", mega_options_text(cfg->engine.options, "%s/clm_no_trainer", cfg->save));
    if (tracker != MEGA_REPORT_TO_WANDB) return;
    clm_give(cfg, "wandb_project", "clm_no_trainer");
    clm_give(cfg, "wandb_exp_name", "run_clm");
    if (cfg->save != NULL) clm_give(cfg, "wandb_save_dir", cfg->save);
}

/* What run_clm calls options that the user has not typed. */
static void name_options(mega_train_options *cfg)
{
    const char *load = cfg->clm.model_name_or_path != NULL ? "--model_name_or_path" : "--resume_from_checkpoint";
    const struct {
        const char *dest, *name;
    } of[] = {{"save", "--output_dir"},
              {"load", load},
              {"micro_batch_size", "--per_device_train_batch_size"},
              {"lr", "--learning_rate"},
              {"seq_length", "--block_size"},
              {"train_iters", "--max_train_steps"},
              {"restart", "--overwrite_output_dir"}};
    for (size_t i = 0; i < MEGA_COUNT(of); i++) mega_options_call(cfg->engine.options, of[i].dest, of[i].name);
}

void mega_train_apply_clm(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    if (train_is(cfg, "plan") && cfg->clm.config_name != NULL) plan_config(cfg);
    if (!train_is(cfg, "run_clm")) return;
    mega_options_name_preset(o, "run_clm's defaults and names");
    name_options(cfg);
    train_clm_find_state(cfg);
    const bool has_sizes = mega_options_is_given(o, "global_batch_size") && cfg->engine.micro_follows;
    if (!has_sizes) clm_give(cfg, "micro_batch_size", "8");
    if (cfg->engine.optim.scheduler.kind == MEGA_SCHEDULER_NONE || mega_options_is_auto(o, "lr"))
        clm_give(cfg, "lr", "5e-5");
    clm_give(cfg, "weight_decay", "0");
    if (cfg->clm.config_name != NULL) find_config(cfg);
    train_clm_take_type(cfg);
    if (cfg->clm.tokenizer_name != NULL) find_tokenizer(cfg);
    find_model(cfg);
    take_checkpointing(cfg);
    train_clm_find_data(cfg);
    if (cfg->clm.with_tracking) take_trackers(cfg);
}

/* ---- rules ---- */

static void clm_refuse_others(mega_train_options *cfg)
{
    static const struct {
        const char *dest, *instead;
    } other[] = {
        {"train_samples", "give --num_train_epochs or --max_train_steps"},
        {"train_tokens", "give --num_train_epochs or --max_train_steps"},
        {"rampup_batch_size", "the steps of an epoch have one batch size"},
        {"skip_train", "megalith tasks --task LM_LOSS evaluates a model"},
        {"eval_interval", "the validation data are evaluated after each epoch"},
        {"eval_iters", "all validation data are evaluated after each epoch"},
        {"dataloader_type", "every epoch is shuffled anew"},
        {"data_path", "give --train_file, or pretrain_gpt for indexed data"},
        {"data_path2", "give --validation_file, or pretrain_gpt for indexed data"},
        {"train_data_path", "give --train_file, or pretrain_gpt for indexed data"},
        {"valid_data_path", "give --validation_file, or pretrain_gpt for indexed data"},
        {"test_data_path", "there is no test; megalith tasks --task LM_LOSS evaluates a model"},
        {"split", "give --validation_split_percentage"},
        {"reset_position_ids", "blocks have no ends of documents"},
        {"reset_attention_mask", "blocks have no ends of documents"},
        {"eod_mask_loss", "blocks have no ends of documents"},
    };
    for (size_t i = 0; i < MEGA_COUNT(other); i++)
        if (mega_options_is_given(cfg->engine.options, other[i].dest))
            mega_options_mistake(cfg->engine.options, "%s is not an option of run_clm: %s",
                                 mega_options_origin(cfg->engine.options, other[i].dest), other[i].instead);
}

void mega_train_rule_clm(mega_train_options *cfg)
{
    const mega_clm_options *c = &cfg->clm;
    mega_options *o = cfg->engine.options;
    clm_refuse_others(cfg);
    if (c->dataset_name != NULL && c->train_file.count + c->validation_file.count > 0)
        mega_options_mistake(o, "%s and %s both say what is read; give one of them",
                             mega_options_origin(o, "dataset_name"),
                             mega_options_origin(o, c->train_file.count > 0 ? "train_file" : "validation_file"));
    else if (c->dataset_name == NULL && c->train_file.count == 0)
        mega_options_mistake(o, "missing: --train_file FILE…, or --dataset_name NAME, a folder of texts");
    if (c->dataset_config_name != NULL && c->dataset_name == NULL)
        mega_options_mistake(o, "%s needs --dataset_name", mega_options_origin(o, "dataset_config_name"));
    if (cfg->seq_length == 1)
        mega_options_mistake(o, "%s: a block of one token predicts nothing; give 2 or more",
                             mega_options_origin(o, "seq_length"));
    if (cfg->save == NULL && (c->checkpointing_steps != NULL || c->with_tracking))
        mega_options_mistake(o, "%s needs --output_dir FOLDER",
                             mega_options_origin(o, c->with_tracking ? "with_tracking" : "checkpointing_steps"));
    if (cfg->save == NULL)
        mega_options_warn(o, "no --output_dir: the trained weights will not be kept; --output_dir FOLDER keeps them");
}

void mega_train_rule_clm_files(mega_train_options *cfg)
{
    const mega_clm_options *c = &cfg->clm;
    const mega_list *list[] = {&c->train_file, &c->validation_file};
    static const char *const option[] = {"--train_file", "--validation_file"};
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < list[k]->count; i++)
            mega_train_check_file(cfg, option[k], list[k]->item[i], "a text file, JSON lines or CSV");
    }
}

/* The final model is in --output_dir itself: its files must not replace those of another program unasked. One of
 * this program has a checkpoint beside it, and save_lock.c asks. */
void mega_train_rule_clm_writes(mega_train_options *cfg)
{
    const char *save = cfg->save;
    if (save == NULL || cfg->overwrite || cfg->restart || train_continues_save(cfg) || cfg->engine.rank != 0) return;
    if (!train_clm_has(cfg, save, "config.json")) return;
    char *ours = NULL;
    const bool is_ours = mega_checkpoint_used(save, &ours) != MEGA_OK || ours != NULL;
    mega_free(ours);
    mega_error_clear();
    if (is_ours) return;
    mega_options_mistake(cfg->engine.options,
                         "--output_dir %s: it holds a model (config.json) that run_clm did not write; nothing was "
                         "changed: give another folder, or --overwrite_output_dir to replace its files",
                         save);
}
