/* megalith plan [COMMAND] ARGS: prints the memory that a command would use and what it would compute. For a command
 * other than pretrain_gpt, runs that command with --dry-run. */
#include "plan.h"
#include "cli.h"
#include "commands.h"
#include "megalith/memory.h"
#include "megalith/train.h"
#include "train_text.h"
#include <string.h>

#pragma weak mega_command_tokenize
#pragma weak mega_command_train_tokenizer
#pragma weak mega_command_preprocess_data
#pragma weak mega_command_generate_samples_gpt
#pragma weak mega_command_tasks
#pragma weak mega_command_run_clm

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

typedef struct dry_row {
    const char *name;
    int (*run)(int argc, char **argv);
} dry_row;

static int dry_run(const dry_row *row, int argc, char **argv)
{
    char option[] = "--dry-run";
    char **words = mega_calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL) return 1;
    for (int i = 1; i < argc; i++) words[i - 1] = argv[i];
    words[argc - 1] = option;
    const int exit_status = row->run(argc, words);
    mega_free(words);
    return exit_status;
}

int mega_command_plan(int argc, char **argv)
{
    const dry_row row[] = {{"tokenize", mega_command_tokenize},
                           {"train_tokenizer", mega_command_train_tokenizer},
                           {"preprocess_data", mega_command_preprocess_data},
                           {"generate_samples_gpt", mega_command_generate_samples_gpt},
                           {"tasks", mega_command_tasks},
                           {"run_clm", mega_command_run_clm},
                           {"pretrain_bert", mega_command_pretrain_bert},
                           {"pretrain_t5", mega_command_pretrain_t5}};
    const char *named = argc > 1 && argv[1][0] != '-' ? mega_command_name(&mega_commands, argv[1]) : NULL;
    for (size_t i = 0; named != NULL && i < sizeof row / sizeof *row; i++)
        if (strcmp(named, row[i].name) == 0 && row[i].run != NULL) return dry_run(&row[i], argc, argv);
    if (argc > 1 && argv[1][0] != '-' && (named == NULL || strcmp(named, "pretrain_gpt") != 0)) {
        fprintf(stderr,
                "megalith plan: error: \"%s\" is no command that can be planned; expected pretrain_gpt or another "
                "command that takes --dry-run, or options alone\n",
                argv[1]);
        return 2;
    }
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_read_on(NULL, &cfg, "plan", argc, argv, &exit_status)) return exit_status;
    const mega_status st = mega_cli_plan(&cfg, NULL);
    exit_status = st == MEGA_OK ? 0 : mega_cli_fail("plan", st);
    mega_command_options_fini(&cfg);
    return exit_status;
}
