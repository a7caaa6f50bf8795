/* What the files of the trainer share. */
#ifndef MEGALITH_TEXT_TRAINER_H
#define MEGALITH_TEXT_TRAINER_H

#include "megalith/tokenizer_train.h"

/* An empty trainer with the same options. */
mega_status mega_trainer_create_like(mega_trainer **out, const mega_trainer *t);

/* Whether a text that is cut between a character and the white space after it teaches the same as the whole: words end
 * there. False for characters, whose mistakes are reported by their byte of the document. */
bool mega_trainer_takes_pieces(const mega_trainer *t);

#endif
