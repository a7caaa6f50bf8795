/* For tests of a DeepSpeed JSON: parse() reads an engine's options, `notes` holds what was logged meanwhile. */
#ifndef ENGINE_TESTS_JSON_KIT_H
#define ENGINE_TESTS_JSON_KIT_H

#include "../setup_options.h"
#include "kit.h"
#include "megalith/engine_commands.h"
#include "notes.h"
#include <stdio.h>
#include <string.h>

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
    notes_begin();
    begin(v, 1);
    v->config = json;
    return mega_options_parse(v->engine.options, NULL, argc, argv);
}

#endif
