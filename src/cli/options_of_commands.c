/* Names of Megatron options whose answer is not "works", for commands that do not train: preprocess_data,
 * train_tokenizer, tasks. */
#include "options_impl.h"

#define TASK_RETRIEVAL "it belongs to retrieval tasks"
#define ANY_WORKERS    "all workers share one input, and the output is the same for any number of them"

// clang-format off
static const mega_option_row preprocess_rows[] = {
    {RENAMED("json-key", MEGA_OPTION_STRING, "json-keys", "it is --json-keys")},
    {IDLE("chunk-size", MEGA_OPTION_INT, "32", "work is handed out by its size in bytes, and the output is the same")},
    {LATER("dataset-impl", MEGA_OPTION_STRING, "mmap", "data files are written for mapping; leave it out")},
    {IDLE("partitions", MEGA_OPTION_INT, "1", ANY_WORKERS)},
    {IDLE("keep-sequential-samples", MEGA_OPTION_FLAG, NULL, ANY_WORKERS)},
    {IDLE("seq-length", MEGA_OPTION_INT, NULL, "documents are stored whole, and cut into samples by the training")},
    {IDLE("make-vocab-size-divisible-by", MEGA_OPTION_INT, "128", "ids are stored as they are; the training pads the embedding")},
    {IDLE("pad-vocab-size-to", MEGA_OPTION_INT, NULL, "ids are stored as they are; the training pads the embedding")},
    {LATER("datasets", MEGA_OPTION_LIST, NULL, "use megalith data merge")},
};
const mega_option_section cli_other_preprocess_section = MEGA_SECTION("preprocessing", preprocess_rows);

static const mega_option_row train_tokenizer_rows[] = {
    {RENAMED("json-key", MEGA_OPTION_STRING, "json-keys", "it is --json-keys")},
};
const mega_option_section cli_other_train_tokenizer_section = MEGA_SECTION("tokenizer training", train_tokenizer_rows);



static const mega_option_row task_rows[] = {
    {RENAMED("json-keys", MEGA_OPTION_STRING, "json-key", "here it is --json-key")},
    {IDLE("qa-data-dev", MEGA_OPTION_STRING, NULL, TASK_RETRIEVAL)},
    {IDLE("qa-data-test", MEGA_OPTION_STRING, NULL, TASK_RETRIEVAL)},
    {IDLE("faiss-use-gpu", MEGA_OPTION_FLAG, NULL, TASK_RETRIEVAL)},
    {IDLE("faiss-match", MEGA_OPTION_STRING, "string", TASK_RETRIEVAL)},
    {IDLE("faiss-topk-retrievals", MEGA_OPTION_INT, "100", TASK_RETRIEVAL)},
    {IDLE("eval-micro-batch-size", MEGA_OPTION_INT, NULL, TASK_RETRIEVAL)},
    {IDLE("train-with-neg", MEGA_OPTION_FLAG, NULL, TASK_RETRIEVAL)},
    {IDLE("train-hard-neg", MEGA_OPTION_INT, "0", TASK_RETRIEVAL)},
    {IDLE("val-av-rank-hard-neg", MEGA_OPTION_INT, "30", TASK_RETRIEVAL)},
    {IDLE("val-av-rank-other-neg", MEGA_OPTION_INT, "30", TASK_RETRIEVAL)},
};
const mega_option_section cli_other_tasks_section = MEGA_SECTION("evaluation", task_rows);

// clang-format on
