/* What the files of the trainer share. */
#ifndef MEGALITH_TEXT_TRAINER_H
#define MEGALITH_TEXT_TRAINER_H

#include "megalith/tokenizer_train.h"

/* An empty trainer with the same options. */
mega_status mega_trainer_create_like(mega_trainer **out, const mega_trainer *t);

#endif
