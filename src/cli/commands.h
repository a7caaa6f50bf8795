/* The commands: a function each, in src/cli/NAME.c, and a row each. argv[0] is the command's name; argv[1…] are its
 * options. Each function returns the exit status: 0, 1 for a failure, 2 for a mistake in the command line. The caller
 * has already handled --help and calls without options. */
#ifndef MEGA_CLI_COMMANDS_H
#define MEGA_CLI_COMMANDS_H

#include "megalith/launch.h"

int mega_command_help(int argc, char **argv);
int mega_command_version(int argc, char **argv);
int mega_command_merge_datasets(int argc, char **argv);
int mega_command_doctor(int argc, char **argv);
int mega_command_tokenize(int argc, char **argv);
int mega_command_train_tokenizer(int argc, char **argv);
int mega_command_preprocess_data(int argc, char **argv);
int mega_command_data(int argc, char **argv);
int mega_command_pretrain_gpt(int argc, char **argv);
int mega_command_pretrain_bert(int argc, char **argv);
int mega_command_pretrain_t5(int argc, char **argv);
int mega_command_run_clm(int argc, char **argv);
int mega_command_plan(int argc, char **argv);
int mega_command_generate_samples_gpt(int argc, char **argv);
int mega_command_run_text_generation_server(int argc, char **argv);
int mega_command_tasks(int argc, char **argv);
int mega_command_merge_mp_partitions(int argc, char **argv);
int mega_command_embed(int argc, char **argv);
int mega_command_fill_mask(int argc, char **argv);
int mega_command_plot(int argc, char **argv);
int mega_command_report(int argc, char **argv);
int mega_command_new(int argc, char **argv);
int mega_command_config(int argc, char **argv);
/* Its options come before and among those of a training; it parses them itself, including --help. */
int mega_command_compare_configurations(int argc, char **argv);
/* Its options precede another command, so it parses them itself, including --help. */
int mega_command_launch(int argc, char **argv);

/* The rows, in the order of the overview: a name; what a mega_command has (megalith/config.h), which program.c takes;
 * how it runs (cli_row), which main.c takes. */
#define CLI_COMMANDS(COMMAND)                                                                                          \
    COMMAND(pretrain_gpt,                                                                                              \
            (.bit = FOR_GPT, .aliases = "pretrain_gpt2|pretrain_gpt_core|pretrain_zeropp_gpt|finetune_gpt",            \
             .summary = "trains a GPT", .scripts = "train|train_gpt|train_gpt2|finetune",                              \
             .replaces = "pretrain_gpt|pretrain_gpt2|pretrain_gpt_core|pretrain_zeropp_gpt|finetune_gpt"),             \
            (.run = mega_command_pretrain_gpt, .outlives_reader = true, .log_to_output = true,                         \
             .example =                                                                                                \
                 "megalith pretrain_gpt --preset tiny --micro-batch-size 8 --train-iters 200 --lr 1e-3 --data-path "   \
                 "my_text_document \\\n"                                                                               \
                 "    --vocab-file tokenizer/vocab.json --merge-file tokenizer/merges.txt --save checkpoints "         \
                 "--save-interval 100"))                                                                               \
    COMMAND(run_clm,                                                                                                   \
            (.bit = FOR_CLM, .aliases = "run_clm_no_trainer|megatron_lm_gpt_pretraining",                              \
             .summary = "trains a GPT on text files, in epochs, with the options of transformers' script",             \
             .replaces = "run_clm|run_clm_no_trainer|megatron_lm_gpt_pretraining"),                                    \
            (.run = mega_command_run_clm, .outlives_reader = true, .log_to_output = true,                              \
             .example = "megalith run_clm --config_name gpt2 --tokenizer_name tokenizer --train_file my.txt "          \
                        "--num_train_epochs 3 "                                                                        \
                        "--output_dir my_model"))                                                                      \
    COMMAND(                                                                                                           \
        pretrain_bert, (.bit = FOR_BERT, .aliases = "", .summary = "trains a BERT", .replaces = "pretrain_bert"),      \
        (.run = mega_command_pretrain_bert, .outlives_reader = true, .log_to_output = true,                            \
         .example =                                                                                                    \
             "megalith pretrain_bert --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 \\\n"   \
             "    --micro-batch-size 8 --train-iters 1000 --lr 1e-3 --data-path my_text_sentence --vocab-file "        \
             "bert-vocab.txt "                                                                                         \
             "--save checkpoints"))                                                                                    \
    COMMAND(pretrain_t5, (.bit = FOR_T5, .aliases = "", .summary = "trains a T5", .replaces = "pretrain_t5"),          \
            (.run = mega_command_pretrain_t5, .outlives_reader = true, .log_to_output = true,                          \
             .example =                                                                                                \
                 "megalith pretrain_t5 --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 \\\n" \
                 "    --decoder-seq-length 64 --micro-batch-size 8 --train-iters 1000 --lr 1e-3 --data-path "          \
                 "my_text_sentence \\\n"                                                                               \
                 "    --vocab-file bert-vocab.txt --vocab-extra-ids 100 --save checkpoints"))                          \
    COMMAND(plan,                                                                                                      \
            (.bit = FOR_PLAN, .aliases = "", .summary = "parameters, memory and cost of a run, without running it",    \
             .positional = "[COMMAND]"),                                                                               \
            (.run = mega_command_plan, .example = "megalith plan --preset gpt2 --micro-batch-size 4"))                 \
    COMMAND(generate_samples_gpt,                                                                                      \
            (.bit = FOR_GENERATE, .aliases = "generate_samples_gpt2|generate_samples|generate_text",                   \
             .summary = "text from a trained GPT",                                                                     \
             .scripts = "sample|run_generation|generate|infer|inference|complete",                                     \
             .replaces = "generate_samples_gpt|generate_samples_gpt2|generate_samples"),                               \
            (.run = mega_command_generate_samples_gpt,                                                                 \
             .example =                                                                                                \
                 "megalith generate_samples_gpt --load checkpoints --prompt 'In the beginning' --out-seq-length 64"))  \
    COMMAND(run_text_generation_server,                                                                                \
            (.bit = FOR_SERVER, .aliases = "run_text_generation_server_345M|text_generation_server",                   \
             .summary = "answers prompts over HTTP", .scripts = "serve|server",                                        \
             .replaces = "run_text_generation_server|run_text_generation_server_345M|text_generation_server"),         \
            (.run = mega_command_run_text_generation_server,                                                           \
             .example = "megalith run_text_generation_server --load checkpoints --port 5000"))                         \
    COMMAND(tasks,                                                                                                     \
            (.bit = FOR_TASKS, .aliases = "tasks/main|tasks_main|run_tasks",                                           \
             .summary = "evaluates a trained model on text, or on samples with labels, which it may learn before",     \
             .scripts = "eval|evaluate|lm_eval", .replaces = "tasks/main"),                                            \
            (.run = mega_command_tasks,                                                                                \
             .example = "megalith tasks --task LM_LOSS --load checkpoints --valid-data my.txt"))                       \
    COMMAND(merge_mp_partitions,                                                                                       \
            (.bit = FOR_MERGE, .aliases = "",                                                                          \
             .summary = "copies a checkpoint, which is whole: there are no parts to merge",                            \
             .replaces = "merge_mp_partitions"),                                                                       \
            (.run = mega_command_merge_mp_partitions,                                                                  \
             .example = "megalith merge_mp_partitions --model-type GPT --load checkpoints --save merged"))             \
    COMMAND(                                                                                                           \
        embed,                                                                                                         \
        (.bit = FOR_EMBED, .aliases = "", .summary = "the mean embedding of each text by an encoder such as BERT"),    \
        (.run = mega_command_embed,                                                                                    \
         .example = "megalith embed --load bert --input sentences.txt --output sentences.npy"))                        \
    COMMAND(fill_mask,                                                                                                 \
            (.bit = FOR_FILL, .aliases = "fill-mask",                                                                  \
             .summary = "the tokens that fit the masks of a text, by an encoder such as BERT", .scripts = "fill"),     \
            (.run = mega_command_fill_mask,                                                                            \
             .example = "megalith fill_mask --load bert --text 'Paris is the [MASK] of France.'"))                     \
    COMMAND(preprocess_data,                                                                                           \
            (.bit = FOR_PREPROCESS, .aliases = "preprocess", .summary = "text files to an indexed data set",           \
             .scripts = "prepare|prepare_data", .replaces = "preprocess_data"),                                        \
            (.run = mega_command_preprocess_data, .outlives_reader = true,                                             \
             .example = "megalith preprocess_data --input my.txt --output-prefix my --append-eod \\\n"                 \
                        "    --vocab-file tokenizer/vocab.json --merge-file tokenizer/merges.txt"))                    \
    COMMAND(train_tokenizer,                                                                                           \
            (.bit = FOR_TRAIN_TOKENIZER, .aliases = "", .summary = "makes a vocabulary from text files"),              \
            (.run = mega_command_train_tokenizer, .outlives_reader = true,                                             \
             .example = "megalith train_tokenizer --input my.txt --vocab-size 4096 --output tokenizer"))               \
    COMMAND(tokenize,                                                                                                  \
            (.bit = FOR_TOKENIZE, .aliases = "", .summary = "shows the ids and pieces of a text, both ways",           \
             .positional = "[TEXT]"),                                                                                  \
            (.run = mega_command_tokenize,                                                                             \
             .example = "megalith tokenize --tokenizer-type ByteTokenizer --text 'Hello, world'"))                     \
    COMMAND(data,                                                                                                      \
            (.bit = FOR_DATA, .aliases = "", .summary = "shows, checks and merges indexed data sets",                  \
             .positional = "show|info|verify|merge PREFIX…"),                                                          \
            (.run = mega_command_data, .example = "megalith data info my_text_document"))                              \
    COMMAND(plot,                                                                                                      \
            (.bit = FOR_PLOT, .aliases = "", .summary = "draws or compares metrics files", .positional = "FILE…"),     \
            (.run = mega_command_plot, .example = "megalith plot metrics.jsonl"))                                      \
    COMMAND(report,                                                                                                    \
            (.bit = FOR_REPORT, .aliases = "", .summary = "one HTML page about one training or several",               \
             .positional = "RUN…"),                                                                                    \
            (.run = mega_command_report, .example = "megalith report metrics.jsonl -o report.html"))                   \
    COMMAND(compare_configurations,                                                                                    \
            (.aliases = "bench_configurations",                                                                        \
             .summary = "speed and memory of one model with each of several DeepSpeed JSONs"),                         \
            (.run = mega_command_compare_configurations,                                                               \
             .example = "megalith compare_configurations zero1.json zero3.json --ranks 2 --preset tiny --lr 1e-3"))    \
    COMMAND(new,                                                                                                       \
            (.bit = FOR_NEW, .aliases = "", .summary = "writes a C program of your own that trains on a text file",    \
             .positional = "PROJECT"),                                                                                 \
            (.run = mega_command_new, .example = "megalith new poet --text my.txt"))                                   \
    COMMAND(config,                                                                                                    \
            (.bit = FOR_CONFIG, .aliases = "", .summary = "writes Accelerate's YAML by its questions",                 \
             .positional = "[default]"),                                                                               \
            (.run = mega_command_config))                                                                              \
    COMMAND(doctor, (.aliases = "", .summary = "what this machine has and what will be used"),                         \
            (.run = mega_command_doctor))                                                                              \
    COMMAND(help, (.aliases = "", .summary = "the commands; help COMMAND shows one, help presets the shapes"),         \
            (.run = mega_command_help))                                                                                \
    COMMAND(version, (.aliases = "", .summary = "the version"), (.run = mega_command_version))                         \
    COMMAND(merge_datasets,                                                                                            \
            (.aliases = "", .summary = "joins indexed data sets: data merge", .replaces = "merge_datasets"),           \
            (.run = mega_command_merge_datasets, .outlives_reader = true,                                              \
             .example = "megalith merge_datasets --input FOLDER --output-prefix all"))                                 \
    COMMAND(checkpoint,                                                                                                \
            (.aliases =                                                                                                \
                 "checkpoint_util|checkpoint_reshaping_and_interoperability|checkpoint/util|convert|export|export_hf", \
             .summary = "reshapes and converts checkpoints; none here needs it",                                       \
             .replaces = "checkpoint_util|checkpoint_reshaping_and_interoperability|checkpoint/util"),                 \
            (.instead = "a checkpoint of this program loads under any layout and in Hugging Face without conversion: " \
                        "SAVE/iter_N is a "                                                                            \
                        "folder that from_pretrained reads, and --load reads a folder of Hugging Face's"))             \
    COMMAND(launch,                                                                                                    \
            (.aliases =                                                                                                \
                 "run|torchrun|deepspeed|accelerate|accelerate_launch|torch.distributed.launch|torch.distributed.run|" \
                 "accelerate.commands.launch|deepspeed.launcher.runner",                                               \
             .summary = "starts several ranks; also as torchrun, deepspeed, accelerate launch"),                       \
            (.run = mega_command_launch, .outlives_reader = true, .example = MEGA_LAUNCH_EXAMPLE))

#endif
