/* megalith launch: starts the ranks of another command. */
#include "megalith/launch.h"
#include "cli.h"
#include "commands.h"

int mega_command_launch(int argc, char **argv)
{
    int exit_status = 1;
    const mega_status st = mega_launch(&mega_commands, argc, argv, &exit_status);
    return st == MEGA_OK ? exit_status : mega_cli_fail("launch", st);
}
