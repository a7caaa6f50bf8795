/* Copies of checkpoints: files as they are, so that nothing is read into memory and every byte stays. */
#ifndef MEGALITH_CHECKPOINT_COPY_H
#define MEGALITH_CHECKPOINT_COPY_H

#include "megalith/checkpoint.h"

typedef struct mega_checkpoint_copied {
    char *folder; /* SAVE/NAME; the caller frees it */
    int64_t files, bytes;
    bool was_there; /* the same checkpoint had been copied there before */
} mega_checkpoint_copied;

/* Checks what mega_checkpoint_copy would refuse, and writes nothing. */
mega_status mega_checkpoint_check_copy(const mega_checkpoint *c, const char *save, bool takeover);
/* Copies an opened checkpoint, with its optimizer's state if it has one, to SAVE/NAME, and names it in SAVE's tracker.
 * NAME is that of its folder if it is one of an iteration or a tag, and "release", as converted weights are called in
 * Megatron, for a folder of others. Refuses a SAVE with another checkpoint, whose place in the tracker would be taken.
 * Whole or not at all, as a save. takeover: as mega_checkpoint_lock. */
mega_status mega_checkpoint_copy(const mega_checkpoint *c, const char *save, bool takeover,
                                 mega_checkpoint_copied *out);

#endif
