/* megalith plan: prints the memory that a training would use and what it would compute. */
#include "plan.h"
#include "cli.h"
#include "megalith/train.h"
#include "train_text.h"

mega_status mega_cli_plan(mega_command_options *cfg, mega_world *world)
{
    mega_buffer text = {0};
    mega_team *team = NULL;
    MEGA_TRY(cli_train_text_leave_out(cfg));
    MEGA_TRY(mega_cli_team(cfg, &team));
    const mega_status st = mega_train_plan(&cfg->train, team, world, &text);
    mega_team_destroy(team);
    if (text.size > 0) fputs(text.data, stdout); /* also if the run does not fit: the numbers explain why */
    mega_buffer_fini(&text);
    return st;
}

/* The only word is the name of the command; a list of values where an option takes one leaves others. */
static mega_status plan_check_words(const mega_command_options *cfg, int argc, char **argv)
{
    const mega_list *words = mega_options_positional(cfg->train.engine.options);
    const size_t name = argc > 1 && argv[1][0] != '-';
    if (words->count <= name) return MEGA_OK;
    return MEGA_MISTAKE(
        "\"%s\" belongs to no option; expected one value for each, and the name of a command before all "
        "options",
        words->item[name]);
}

int mega_cli_plan_gpt(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_read_on(NULL, &cfg, "plan", argc, argv, &exit_status)) return exit_status;
    mega_status st = plan_check_words(&cfg, argc, argv);
    if (st == MEGA_OK) st = mega_cli_plan(&cfg, NULL);
    exit_status = st == MEGA_OK ? 0 : mega_cli_fail("plan", st);
    mega_command_options_fini(&cfg);
    return exit_status;
}
