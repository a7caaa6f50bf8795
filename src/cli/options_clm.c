/* Names that run_clm answers in another way than the other commands, or alone. What works under its own name is in
 * train/rules/clm_options.c. */
#include "options_impl.h"

#define SAME_LOSS "an evaluation computes micro-batches of the training's size; the loss is the same for any size"

// clang-format off
static const mega_option_row clm_rows[] = {
    {IDLE("per_device_eval_batch_size", MEGA_OPTION_INT, NULL, SAME_LOSS), .range = MEGA_RANGE_POSITIVE},
    {IDLE("per_gpu_eval_batch_size", MEGA_OPTION_INT, NULL, SAME_LOSS), .range = MEGA_RANGE_POSITIVE},
    {IDLE("eval_batch_size", MEGA_OPTION_INT, NULL, SAME_LOSS), .range = MEGA_RANGE_POSITIVE},
    {IDLE("do_train", MEGA_OPTION_BOOL, NULL, "run_clm trains and evaluates in any case")},
    {IDLE("do_eval", MEGA_OPTION_BOOL, NULL, "run_clm trains and evaluates in any case")},
    {IDLE("use_slow_tokenizer", MEGA_OPTION_FLAG, NULL, "there is one tokenizer, and it is fast")},
    {IDLE("overwrite_cache", MEGA_OPTION_BOOL, NULL, "texts are tokenized at every start; there is no cache")},
    {IDLE("preprocessing_num_workers", MEGA_OPTION_INT, NULL, "the threads of the training tokenize")},
    {RENAMED("overwrite_output_dir", MEGA_OPTION_BOOL, "restart", "it is --restart: start from the beginning, and replace what --output_dir holds")},
    {RENAMED("initial_megatron_lm_checkpoint", MEGA_OPTION_STRING, "finetune=1;load", "it is --load FOLDER --finetune: its weights alone")},
    {RENAMED("megatron_lm_checkpoint", MEGA_OPTION_STRING, "finetune=1;load", "it is --load FOLDER --finetune: its weights alone")},
    {BY_VALUE("keep_linebreaks", MEGA_OPTION_STRING, "True:|true:|1:|False:no_keep_linebreaks=1|false:no_keep_linebreaks=1|0:no_keep_linebreaks=1", "without line ends it is --no_keep_linebreaks")},
    {BY_VALUE("evaluation_strategy", MEGA_OPTION_STRING, "epoch:", "the validation data are evaluated after each epoch")},
    {BY_VALUE("eval_strategy", MEGA_OPTION_STRING, "epoch:", "the validation data are evaluated after each epoch")},
    {BY_VALUE("save_strategy", MEGA_OPTION_STRING, "epoch:checkpointing_steps=epoch|steps:|no:", "it is --checkpointing_steps; the final model is saved in any case")},
    {BY_VALUE("logging_strategy", MEGA_OPTION_STRING, "steps:|epoch:|no:", "lines come every --log-interval steps and after each epoch in any case")},
    {LATER("streaming", MEGA_OPTION_BOOL, NULL, "all texts are tokenized before the first step; leave it out")},
};
// clang-format on
const mega_option_section cli_clm_section = MEGA_SECTION("causal language modeling", clm_rows);
