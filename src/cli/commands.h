/* The commands: a function each, in src/cli/NAME.c; command_rows.h has a row for each. argv[0] is the command's name;
 * argv[1…] are its options. Each function returns the exit status: 0, 1 for a failure, 2 for a mistake in the command
 * line. The caller has already handled --help and calls without options. */
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

#endif
