/* Options of tasks: which task, its data, and for the tasks with labels a fine-tuning. */
#include "megalith/checkpoint.h"
#include "megalith/file.h"
#include "megalith/labelled.h"
#include "train_rules.h"
#include <string.h>

// clang-format off
#define ROW(name_, field_, kind_) MEGA_OPTION(mega_classify_options, name_, field_, kind_)
static const mega_option_row classify_rows[] = {
    {ROW("task", task, MEGA_OPTION_STRING), .choices = "LM_LOSS|WIKITEXT103|LAMBADA" MEGA_LABELLED_TASKS(MEGA_LABELLED_CHOICE), .not_implemented = "ICT-ZEROSHOT-NQ|RETRIEVER-EVAL|RET-FINETUNE-NQ", .help = "what is measured; tasks with labels (docs/tasks.md) may be learnt before, with --epochs"},
    {ROW("valid-data", valid_data, MEGA_OPTION_LIST), .help = "files to evaluate: plain text, or JSON lines (a document each); tasks with labels: TSV files, or RACE's folders of .txt files"},
    {ROW("train-data", train_data, MEGA_OPTION_LIST), .help = "tasks with labels: the same to learn from"},
    {ROW("epochs", epochs, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 1 << 20, .resume = MEGA_RESUME_REPORTED, .help = "tasks with labels: times that --train-data is read; 0: the model is only evaluated"},
    {ROW("keep-last", keep_last, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "an epoch ends with the samples that do not fill a batch; without it they are left out"},
    {ROW("pretrained-checkpoint", pretrained_checkpoint, MEGA_OPTION_STRING), .help = "folder whose weights are taken, as --load FOLDER --finetune; --load comes first if it holds a checkpoint"},
};
const mega_option_section mega_train_classify_section = MEGA_SECTION("evaluation", classify_rows);
// clang-format on

bool mega_train_classifies(const mega_train_options *cfg)
{
    return mega_labelled_find(cfg->classify.task) != NULL;
}

static void classify_give(mega_train_options *cfg, const char *dest, const char *text)
{
    if (mega_options_is_given(cfg->engine.options, dest)) return;
    const mega_status st = mega_options_set(cfg->engine.options, dest, text, MEGA_SET_BY_PRESET);
    if (st != MEGA_OK) mega_options_problem(cfg->engine.options, st, "%s", mega_error_message());
}

/* A run that was cut off goes on from --load; before its first checkpoint it begins again from the pretrained
 * weights. */
static void take_pretrained(mega_train_options *cfg)
{
    const char *from = cfg->classify.pretrained_checkpoint;
    if (from == NULL) return;
    if (cfg->load == NULL) {
        classify_give(cfg, "load", from);
    } else if (!mega_train_classifies(cfg) || mega_checkpoint_is_in(cfg->load)) {
        return;
    } else {
        cfg->load = from;
    }
    if (mega_train_classifies(cfg)) cfg->finetune = true;
}

void mega_train_apply_classify(mega_train_options *cfg)
{
    mega_options *o = cfg->engine.options;
    if (!train_is(cfg, "tasks")) return;
    mega_options_name_preset(o, "--pretrained-checkpoint and the defaults of tasks");
    take_pretrained(cfg);
    if (mega_train_classifies(cfg) && !mega_options_was_set(o, "tokenizer_type"))
        classify_give(cfg, "tokenizer_type", "BertWordPieceLowerCase");
}

/* Which tasks an option belongs to. */
enum { OF_WINDOWS = 1, OF_LAMBADA = 2, OF_LABELS = 4 };

static const struct {
    const char *dest;
    unsigned tasks;
    const char *instead;
} belongs[] = {{"overlapping_eval", OF_WINDOWS, "LM_LOSS and WIKITEXT103 read windows of a text"},
               {"strict_lambada", OF_LAMBADA, "it says what the label of LAMBADA is"},
               {"json_key", OF_WINDOWS | OF_LAMBADA, "the task reads TSV files, or RACE's objects"},
               {"input_format", OF_WINDOWS | OF_LAMBADA, "the task reads TSV files, or RACE's objects"},
               {"train_data", OF_LABELS, "only tasks with labels have something to learn"},
               {"epochs", OF_LABELS, "only tasks with labels have something to learn"},
               {"keep_last", OF_LABELS, "only tasks with labels have something to learn"},
               {"train_samples", 0, "give --epochs"},
               {"train_tokens", 0, "give --epochs"},
               {"rampup_batch_size", 0, "the steps of an epoch have one batch size"},
               {"dataloader_type", 0, "every epoch is shuffled anew"},
               {"data_path", 0, "give --train-data and --valid-data"},
               {"data_path2", 0, "give --valid-data"},
               {"train_data_path", 0, "give --train-data"},
               {"valid_data_path", 0, "give --valid-data"},
               {"test_data_path", 0, "give --valid-data"},
               {"split", 0, "give --train-data and --valid-data"}};

static void refuse_others(mega_train_options *cfg)
{
    const bool has_labels = mega_train_classifies(cfg), is_lambada = strcmp(cfg->classify.task, "LAMBADA") == 0;
    const unsigned task = has_labels ? OF_LABELS : is_lambada ? OF_LAMBADA : OF_WINDOWS;
    for (size_t i = 0; i < MEGA_COUNT(belongs); i++) {
        const bool is_others = belongs[i].tasks != 0 ? (belongs[i].tasks & task) == 0 : has_labels;
        if (is_others && mega_options_is_given(cfg->engine.options, belongs[i].dest))
            mega_options_mistake(cfg->engine.options, "%s does not go with --task %s: %s",
                                 mega_options_origin(cfg->engine.options, belongs[i].dest), cfg->classify.task,
                                 belongs[i].instead);
    }
    if (has_labels && cfg->classify.epochs > 0 && mega_options_is_given(cfg->engine.options, "train_iters"))
        mega_options_mistake(cfg->engine.options,
                             "%s does not go with %s: the epochs say how long the run is; --exit-interval N ends it "
                             "after N iterations",
                             mega_options_origin(cfg->engine.options, "train_iters"),
                             mega_options_origin(cfg->engine.options, "epochs"));
}

/* Names the options of a training in one line where nothing is trained. A script may give them for both. */
static void warn_of_unused(mega_train_options *cfg)
{
    static const char *const training[] = {"train_data", "keep_last",     "train_iters",   "save",
                                           "lr",         "save_interval", "eval_interval", "eval_iters"};
    mega_options *o = cfg->engine.options;
    const char *found = "";
    for (size_t i = 0; i < MEGA_COUNT(training); i++)
        if (mega_options_is_given(o, training[i]))
            found = mega_options_text(o, "%s%s%s", found, found[0] != '\0' ? ", " : "",
                                      mega_options_spelling(o, training[i]));
    if (found[0] != '\0')
        mega_options_warn(o, "nothing is trained (--epochs 0), so that these have no effect: %s", found);
}

void mega_train_rule_classify(mega_train_options *cfg)
{
    const mega_classify_options *c = &cfg->classify;
    mega_options *o = cfg->engine.options;
    if (!train_is(cfg, "tasks") || c->task == NULL) return;
    refuse_others(cfg);
    if (!mega_train_classifies(cfg)) return;
    if (c->epochs == 0) warn_of_unused(cfg);
    if (c->epochs > 0 && !cfg->skip_train && c->train_data.count == 0)
        mega_options_mistake(o, "missing: --train-data, the samples of --epochs %lld", (long long)c->epochs);
    if (cfg->skip_train && cfg->load == NULL)
        mega_options_mistake(o, "missing: --load FOLDER, the trained classifier, or --epochs N, which trains one");
    if (c->epochs > 0 && cfg->save == NULL)
        mega_options_warn(o, "no --save: the trained weights will not be kept; --save FOLDER keeps them");
    if (cfg->seq_length > 0 && cfg->seq_length < 4)
        mega_options_mistake(o, "%s: a sample is [CLS] a token [SEP] [SEP] at least; give 4 or more",
                             mega_options_origin(o, "seq_length"));
}

static void classify_check_data(mega_train_options *cfg, const char *option, const mega_list *list)
{
    const mega_labelled_task *task = mega_labelled_find(cfg->classify.task);
    for (size_t i = 0; i < list->count; i++) {
        if (task->takes_folders && mega_folder_exists(list->item[i])) continue;
        mega_train_check_file(cfg, option, list->item[i], task->takes);
    }
}

void mega_train_rule_classify_files(mega_train_options *cfg)
{
    const char *from = cfg->classify.pretrained_checkpoint;
    if (!mega_train_classifies(cfg)) return;
    classify_check_data(cfg, "--train-data", &cfg->classify.train_data);
    classify_check_data(cfg, "--valid-data", &cfg->classify.valid_data);
    if (from != NULL && !mega_train_is_hidden(cfg, "--pretrained-checkpoint", from) && !mega_folder_exists(from))
        mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND,
                             "--pretrained-checkpoint %s: there is no such folder; expected a folder of checkpoints of "
                             "pretrain_bert, or a Hugging Face folder of a bert or megatron-bert",
                             from);
}
