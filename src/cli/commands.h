/* The commands: a function each, in src/cli/NAME.c; command_rows.h has a row for each, from which its declaration
 * follows. argv[0] is the command's name; argv[1…] are its options. Each function returns the exit status: 0, 1 for a
 * failure, 2 for a mistake in the command line. The caller has already handled --help and calls without options. */
#ifndef MEGA_CLI_COMMANDS_H
#define MEGA_CLI_COMMANDS_H

#include "megalith/launch.h"

#define SHOWN(...)
#define RUN(...)
#define COMMAND(name, shown, run) int mega_command_##name(int argc, char **argv);
#include "command_rows.h"
#undef SHOWN
#undef RUN
#undef COMMAND

#endif
