/* For tests of a DeepSpeed JSON: parse() reads an engine's options, `notes` holds what was logged meanwhile. */
#ifndef ENGINE_TESTS_JSON_KIT_H
#define ENGINE_TESTS_JSON_KIT_H

#include "../setup_options.h"
#include "kit.h"
#include "megalith/engine_commands.h"
#include "megalith/log.h"
#include <stdio.h>
#include <string.h>

static char notes[8192];

static void note(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    const size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", line);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

static void begin(setup_values *v, int64_t ranks)
{
    mega_options *o = NULL;
    *v = (setup_values){0};
    assert_int_equal(mega_options_create(&mega_engine_composition, v, &o), MEGA_OK);
    mega_engine_settings_init(&v->engine, o);
    v->engine.world_size = ranks;
    v->engine.needs_lr = v->engine.micro_follows = true;
}

static void end(setup_values *v)
{
    mega_options_destroy(v->engine.options);
}

/* Reads an engine's options from a JSON (or NULL) and a line of argv. */
static mega_status parse(setup_values *v, const char *json, const char *line)
{
    static char text[1024], name[] = "program";
    char *argv[64] = {name}, *rest = text;
    int argc = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0') argv[argc++] = word;
    notes[0] = '\0';
    mega_log_set_sink(note, NULL);
    begin(v, 1);
    v->config = json;
    return mega_options_parse(v->engine.options, NULL, argc, argv);
}

#endif
