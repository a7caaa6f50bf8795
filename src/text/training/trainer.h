/* Shared by the files of the trainer. */
#ifndef MEGALITH_TEXT_TRAINER_H
#define MEGALITH_TEXT_TRAINER_H

#include "megalith/tokenizer_train.h"

/* Creates an empty trainer with the same options. */
mega_status mega_trainer_create_like(const mega_trainer *t, mega_trainer **out);

/* Returns whether a text may be split between a character and the white space after it without changing the result:
 * words end there. False for characters, whose mistakes are reported by their byte in the document. */
bool mega_trainer_takes_pieces(const mega_trainer *t);

#endif
