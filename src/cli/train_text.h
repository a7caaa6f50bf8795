/* --train-data FILE of 2019: a text instead of a data set. */
#ifndef MEGA_CLI_TRAIN_TEXT_H
#define MEGA_CLI_TRAIN_TEXT_H

#include "megalith/comm.h"
#include "megalith/command_options.h"

#define TRAIN_TEXT_KEY "text" /* of JSON lines */

/* If --train-data names a text, --data-path becomes the data set that is made of it. */
void cli_train_text_name(mega_command_options *cfg);
bool cli_train_text_is_made(const mega_command_options *cfg); /* whether that data set is there */
/* Collective. Makes the data set where it is not there yet. */
mega_status cli_train_text_make(const mega_command_options *cfg, mega_world *world);
/* For a dry run and a plan: leaves out a data set that is not there yet. */
mega_status cli_train_text_leave_out(mega_command_options *cfg);

#endif
