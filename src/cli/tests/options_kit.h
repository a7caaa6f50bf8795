/* Shared by the tests of options: parses a command line given as one string, and records the notes that are logged. */
#ifndef MEGA_TESTS_OPTIONS_KIT_H
#define MEGA_TESTS_OPTIONS_KIT_H

#include "../../config/config_impl.h"
#include "kit.h"
#include "megalith/command_options.h"
#include "megalith/log.h"
#include "options_impl.h"
#include <stdio.h>
#include <string.h>

/* Returns the table of the rows of all commands. */
static inline const option_table *kit_table(void)
{
    static mega_arena arena;
    static option_table table;
    if (table.line == NULL) assert_int_equal(mega_option_table_make(&table, &mega_commands, &arena), MEGA_OK);
    return &table;
}

static char kit_notes[8192];

static inline void kit_note(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    const size_t used = strlen(kit_notes);
    snprintf(kit_notes + used, sizeof kit_notes - used, "%s\n", line);
}

/* Parses `line`. Words are separated by single spaces; '…' is one word that may contain spaces. */
static inline mega_status kit_parse(mega_command_options *cfg, const char *command, const char *line)
{
    static char text[8192];
    static char name[] = "command";
    char *argv[256];
    int argc = 0;
    snprintf(text, sizeof text, "%s", line);
    argv[argc++] = name;
    for (char *at = text; *at != '\0' && argc < 255;) {
        const char end = *at == '\'' ? '\'' : ' ';
        if (end == '\'') at++;
        argv[argc++] = at;
        while (*at != '\0' && *at != end) at++;
        while (*at == end || *at == ' ') *at++ = '\0';
    }
    kit_notes[0] = '\0';
    mega_log_set_sink(kit_note, NULL);
    mega_status st = mega_command_options_init(cfg);
    if (st == MEGA_OK) st = mega_options_parse(cfg->train.engine.options, command, argc, argv);
    return st;
}

/* A command line that `plan` accepts; tests append to it. */
#define SHAPE "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 4 "

static inline void kit_accept(mega_command_options *cfg, const char *command, const char *line)
{
    const mega_status st = kit_parse(cfg, command, line);
    if (st != MEGA_OK) fail_msg("%s %s: %s", command, line, mega_error_message());
}

static inline void kit_assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

/* Asserts that the line is rejected with a message that contains the part. */
static inline void kit_refuse(const char *command, const char *line, const char *part)
{
    mega_command_options cfg;
    const mega_status st = kit_parse(&cfg, command, line);
    if (st == MEGA_OK) fail_msg("%s %s: accepted", command, line);
    kit_assert_has(mega_error_message(), part);
    mega_command_options_fini(&cfg);
}

#endif
