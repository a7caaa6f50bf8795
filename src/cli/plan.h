/* Printing the plan of a run: `megalith plan`, and --dry-run of pretrain_gpt. */
#ifndef MEGA_CLI_PLAN_H
#define MEGA_CLI_PLAN_H

#include "megalith/config.h"

mega_status mega_cli_plan(mega_config *cfg);

#endif
