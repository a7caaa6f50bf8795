/* Printing the plan of a run: `megalith plan`, and --dry-run of pretrain_gpt. */
#ifndef MEGA_CLI_PLAN_H
#define MEGA_CLI_PLAN_H

#include "megalith/comm.h"
#include "megalith/command_options.h"

/* cfg as mega_options_read left it. Collective: the world (NULL: one rank), of which the first prints. */
mega_status mega_cli_plan(mega_command_options *cfg, mega_world *world);

#endif
