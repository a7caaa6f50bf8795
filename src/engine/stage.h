/* What a pipeline stage exchanges with its neighbours while it runs its schedule. */
#ifndef MEGALITH_STAGE_H
#define MEGALITH_STAGE_H

#include "megalith/comm.h"
#include "megalith/pipeline.h"
#include "megalith/program.h"

/* Buffers of one slot of one chunk, in the program's memory, and the messages under way from and to them. Where the
 * chunk begins (ends) the model it has no input (output). */
typedef struct stage_slot {
    void *input, *input_gradient, *output, *output_gradient;
    mega_request input_comes, gradient_goes, output_goes, gradient_comes;
    bool is_input_awaited,
        is_gradient_awaited; /* the buffer is promised to a message, until the backward has read it */
} stage_slot;

typedef struct engine_stage {
    const mega_layout *layout;
    const mega_schedule_step *step; /* of the run under way */
    int64_t count;
    int64_t next[2]; /* by stage_way: the first step whose message is not awaited yet */
    stage_slot *slot;
    int chunks, slots; /* slots: the most of a chunk */
    size_t bytes;      /* of an activation */
    bool forward_only;
} engine_stage;

/* Reads the buffers of allocated programs, for training or (forward_only) evaluation. Without a pipeline nothing is
 * exchanged. */
struct engine_chunk;
mega_status stage_open(engine_stage *s, const mega_layout *layout, const struct engine_chunk *chunk, int chunks,
                       bool forward_only);
void stage_close(engine_stage *s);
bool stage_has_neighbours(const engine_stage *s); /* else its messages are none */

/* A run over `count` steps. Receives are posted as soon as their buffers are free; a buffer is written again only when
 * what was sent from it has left. */
mega_status stage_begin(engine_stage *s, const mega_schedule_step *step, int64_t count);
mega_status stage_before(engine_stage *s,
                         const mega_schedule_step *x); /* what x reads is here, what it writes is free */
mega_status stage_after(engine_stage *s, const mega_schedule_step *x); /* what x made goes */
mega_status stage_end(engine_stage *s);                                /* everything has left */

/* Gradients of tied tables are summed over the stages that hold them. */
mega_status stage_sum_tied(const mega_layout *layout, mega_params *params);

#endif
