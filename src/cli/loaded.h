/* Shared by generate_samples_gpt and tasks: a model from --load, its tokenizer, and the threads to run it. */
#ifndef MEGA_CLI_LOADED_H
#define MEGA_CLI_LOADED_H

#include "megalith/command_options.h"
#include "megalith/pretrained.h"
#include "megalith/threads.h"

#define MEGA_CLI_MOST_BATCH 256

typedef struct mega_loaded {
    mega_pretrained model;
    mega_tokenizer *tokenizer; /* the folder's, else the one from the options; NULL if neither names one */
    mega_encoder *encoder;     /* NULL without a tokenizer */
    mega_team *team;
    bool owns_tokenizer;
} mega_loaded; /* zero-initialised is valid and empty */

/* Takes the shape and the tokenizer from the folder and checks the command line against them; all differences are
 * reported together. The weights are read later (mega_pretrained_load), when their use is known. Collective: the world
 * (NULL: one rank); if one rank fails, all ranks fail. */
mega_status mega_loaded_open(mega_command_options *cfg, mega_world *world, mega_loaded *out);
/* The check of it: l has the shape, the folder and its tokenizer, and gets a tokenizer that the options name. */
mega_status mega_loaded_check(mega_loaded *l, mega_command_options *cfg);
/* Fails if an encoder reads the prompts of the model. what: "the server", "tasks". */
mega_status mega_loaded_need_decoder(const mega_loaded *l, const char *what);
/* Fails if there is no tokenizer, with a message that says how to name one. */
mega_status mega_loaded_need_tokenizer(const mega_loaded *l);
void mega_loaded_close(mega_loaded *l);

#endif
