/* Values of the options in mega_setup.argv and mega_setup.config, which mega_engine_composition fills. */
#ifndef MEGALITH_SETUP_OPTIONS_H
#define MEGALITH_SETUP_OPTIONS_H

#include "megalith/engine.h"
#include "megalith/engine_settings.h"

typedef struct setup_values {
    mega_engine_settings engine;
    const char *config;           /* mega_setup.config: JSON text or the name of a file; NULL: none */
    const mega_setting *defaults; /* mega_setup.defaults; NULL: none */
    /* options that common launchers pass to the programs they start */
    const char *local_rank; /* NULL: not given */
} setup_values;

extern const mega_option_section engine_handed_section; /* src/foreign/handed-on.txt */

#endif
