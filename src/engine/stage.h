/* What a pipeline stage exchanges with its neighbours while it runs its schedule. */
#ifndef MEGALITH_STAGE_H
#define MEGALITH_STAGE_H

#include "megalith/comm.h"
#include "megalith/model_parts.h"
#include "megalith/pipeline.h"
#include "megalith/program.h"

/* What a stage sends, and the gradients that it gets, only pass through: so many buffers of a chunk take turns, the one
 * at work and the one whose message is under way. What the backward reads again is a slot's own. */
enum { STAGE_PASSES = 2 };

/* The programs of a chunk. All but the first only run forward. */
typedef enum engine_kind { ENGINE_TRAIN, ENGINE_EVALUATE, ENGINE_PREFILL, ENGINE_DECODE, ENGINE_KINDS } engine_kind;

/* In the program's memory, and the message under way from or to it, which is as long as the tensor there: borders
 * between stages may be of different widths. */
typedef struct stage_buffer {
    void *data;
    int64_t bytes;
    mega_request request;
    bool is_awaited; /* promised to a message that comes, until the backward has read it */
} stage_buffer;

/* The buffers of one slot of one chunk, of which slots may share some, by value of the flow; NULL: the program has no
 * such value, as where the chunk begins or ends the model. */
typedef struct stage_slot {
    stage_buffer *of[MEGA_BORDER_OUTPUT_GRADIENT + 1][MEGA_FLOW_VALUES];
} stage_slot;

typedef struct engine_stage {
    const mega_layout *layout;
    const mega_schedule_step *step; /* of the run under way */
    int64_t count;
    int64_t next[2]; /* by stage_way: the first step whose message is not awaited yet */
    stage_slot *slot;
    stage_buffer *buffer; /* of all slots, each once */
    int buffers;
    int chunks, slots; /* slots: the most of a chunk */
    bool forward_only;
} engine_stage;

/* Reads the buffers of the allocated programs of one kind. Without a pipeline nothing is exchanged. */
struct engine_chunk;
mega_status stage_open(engine_stage *s, const mega_layout *layout, const struct engine_chunk *chunk, int chunks,
                       engine_kind kind);
void stage_close(engine_stage *s);
bool stage_has_neighbours(const engine_stage *s); /* else its messages are none */

/* A run over `count` steps. Receives are posted as soon as their buffers are free; a buffer is written again only when
 * what was sent from it has left. */
mega_status stage_begin(engine_stage *s, const mega_schedule_step *step, int64_t count);
mega_status stage_before(engine_stage *s,
                         const mega_schedule_step *x); /* what x reads is here, what it writes is free */
mega_status stage_after(engine_stage *s, const mega_schedule_step *x); /* what x made goes */
mega_status stage_end(engine_stage *s);                                /* everything has left */

#endif
