/* What mega_setup.argv and mega_setup.config say: the values that mega_engine_composition fills. */
#ifndef MEGALITH_SETUP_OPTIONS_H
#define MEGALITH_SETUP_OPTIONS_H

#include "megalith/engine_settings.h"

typedef struct setup_values {
    mega_engine_settings engine;
    const char *config; /* of mega_setup: a text or the name of a file; NULL: none */
    /* what launchers of the field give to the programs that they start */
    const char *local_rank;       /* NULL: not given */
    bool deepspeed;               /* switches on the engine, which always is */
    const char *deepspeed_config; /* NULL: not given */
} setup_values;

/* json_keys.c */
enum { ENGINE_JSON_KEYS = 51 };
extern const mega_option_row engine_json_keys[ENGINE_JSON_KEYS];

#endif
