/* What generate_samples_gpt and tasks share: a model from --load, its tokenizer, and the threads to run it. */
#ifndef MEGA_CLI_LOADED_H
#define MEGA_CLI_LOADED_H

#include "megalith/command_options.h"
#include "megalith/pretrained.h"
#include "megalith/threads.h"

#define MEGA_CLI_MOST_BATCH 256

typedef struct mega_loaded {
    mega_pretrained model;
    mega_tokenizer *tokenizer; /* of the folder, else of the options; NULL when neither names one */
    mega_encoder *encoder;     /* NULL without a tokenizer */
    mega_team *team;
    bool owns_tokenizer;
} mega_loaded; /* zero-initialised is valid and empty */

/* Shape and tokenizer come from the folder; what the command line says of them is checked against it, all of it at
 * once. The weights are read later (mega_pretrained_load), when it is known what they are for. Collective over the
 * world (NULL: one rank): all ranks fail where one does. */
mega_status mega_loaded_open(mega_loaded *out, mega_command_options *cfg, mega_world *world);
/* An error that says how to name one where there is none. */
mega_status mega_loaded_need_tokenizer(const mega_loaded *l);
void mega_loaded_close(mega_loaded *l);

#endif
