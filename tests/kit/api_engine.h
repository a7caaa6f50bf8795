/* Creates engines with the model of api_model.h from a line of options. */
#ifndef MEGALITH_TESTS_API_ENGINE_H
#define MEGALITH_TESTS_API_ENGINE_H

#include "api_model.h"
#include "kit.h"

#include <stdio.h>
#include <string.h>

/* The options of API_ARGV; later ones of a line override them. */
#define API_LINE "--micro-batch-size 1 --gradient-accumulation-steps 2 --lr 0.01 --fp64 --seed 3 --num-threads 1 "

/* `setup` gives what else the engine is made from (data, mode, JSON); blanks separate the options. */
static inline mega_status api_try_open_model(mega_engine **out, const mega_model *model, mega_setup setup,
                                             const char *options)
{
    char text[1024], name[] = "program", *argv[64] = {name}, *rest = text;
    int argc = 1;
    assert_true(snprintf(text, sizeof text, "%s", options) < (int)sizeof text);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0') argv[argc++] = word;
    *out = NULL;
    setup.model = model;
    setup.argc = argc;
    setup.argv = argv;
    return mega_initialize(&setup, out);
}

static inline mega_status api_try_open(mega_engine **out, mega_setup setup, const char *options)
{
    return api_try_open_model(out, &api_model, setup, options);
}

/* Creates an engine that trains on data with the options of API_LINE and those of `more`. */
static inline mega_engine *api_open(const mega_dataset *data, const char *more)
{
    char line[512];
    mega_engine *e;
    snprintf(line, sizeof line, API_LINE "%s", more);
    need(api_try_open(&e, (mega_setup){.training_data = data}, line));
    return e;
}

#endif
