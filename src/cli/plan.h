/* Prints the plan of a run, for `megalith plan` and for pretrain_gpt --dry-run. */
#ifndef MEGA_CLI_PLAN_H
#define MEGA_CLI_PLAN_H

#include "megalith/comm.h"
#include "megalith/command_options.h"

/* Expects cfg as mega_options_read left it. Collective: the world (NULL: one rank); the first rank prints. */
mega_status mega_cli_plan(mega_command_options *cfg, mega_world *world);
/* megalith plan [pretrain_gpt] OPTIONS: reads the options and prints the plan; returns the exit status. */
int mega_cli_plan_gpt(int argc, char **argv);
/* Collective: the world. Trains, as pretrain_gpt does (pretrain_gpt.c); after mega_launch_rank_begin. */
mega_status mega_cli_train(mega_command_options *cfg, mega_world *world);

#endif
