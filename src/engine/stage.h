/* Messages that a pipeline stage exchanges with its neighbours while it runs its schedule. With three stages of two
 * chunks each, a micro-batch goes around the ring twice:
 *
 *     forward, group pp         stage 0 --> stage 1 --> stage 2 --> stage 0 --> stage 1 --> stage 2
 *                               chunk 0     chunk 0     chunk 0     chunk 1     chunk 1     chunk 1
 *     backward, group pp_back   stage 0 <-- stage 1 <-- stage 2 <-- stage 0 <-- stage 1 <-- stage 2 */
#ifndef MEGALITH_STAGE_H
#define MEGALITH_STAGE_H

#include "megalith/comm.h"
#include "megalith/exchange_order.h"
#include "megalith/model_parts.h"
#include "megalith/pipeline.h"
#include "megalith/program.h"

/* Outputs of a stage, and the gradients that it receives, are needed only briefly. So each chunk has this many buffers
 * for them, used in turn: one that a program uses while the other's message is in progress. Tensors that the backward
 * pass reads again have a buffer per slot. */
enum { STAGE_PASSES = 2 };

/* The programs of a chunk. All except ENGINE_TRAIN only run forward. */
typedef enum engine_kind { ENGINE_TRAIN, ENGINE_EVALUATE, ENGINE_PREFILL, ENGINE_DECODE, ENGINE_KINDS } engine_kind;

/* A tensor in the program's memory and the message in progress from or to it. The message has the size of the tensor:
 * borders between stages may have different widths. */
typedef struct stage_buffer {
    void *data;
    int64_t bytes;
    mega_request request;
    mega_ordered listed; /* in the place of `request` while messages are only listed */
    bool is_awaited;     /* reserved for an incoming message, until the backward pass has read it */
} stage_buffer;

/* The buffers of one slot of one chunk, by value of the flow; slots may share buffers. NULL: the program has no such
 * value, for example at the first or the last chunk of the model. */
typedef struct stage_slot {
    stage_buffer *buffer[MEGA_BORDER_OUTPUT_GRADIENT + 1][MEGA_FLOW_VALUES];
} stage_slot;

typedef struct engine_stage {
    const mega_layout *layout;
    const mega_schedule_pass *pass; /* [count] passes of the current run */
    int64_t count;
    int64_t next[2]; /* [stream] first pass whose receive is not posted yet */
    stage_slot *slot;
    stage_buffer *buffer; /* the buffers of all slots, each listed once */
    int buffers;
    int chunks, slots; /* slots: maximum over the chunks */
    bool forward_only;
    mega_order *order; /* not NULL: messages are listed there, and not made */
} engine_stage;

/* Finds the buffers of the programs of one kind, which are allocated. Without a pipeline there are no messages. slots:
 * of programs that only run forward. */
struct engine_chunk;
mega_status stage_open(engine_stage *s, const mega_layout *layout, const struct engine_chunk *chunk, int chunks,
                       engine_kind kind, int slots);
void stage_close(engine_stage *s);
bool stage_has_neighbours(const engine_stage *s); /* false: it has no messages */

/* Starts a run over `count` passes. Receives are posted as soon as their buffers are free; a buffer is overwritten only
 * after the message sent from it has left. */
mega_status stage_begin(engine_stage *s, const mega_schedule_pass *pass, int64_t count);
mega_status stage_before(engine_stage *s,
                         const mega_schedule_pass *x); /* waits for the inputs of x and for its free output buffers */
mega_status stage_after(engine_stage *s, const mega_schedule_pass *x); /* sends what x computed */
mega_status stage_end(engine_stage *s);                                /* waits for all sends */
/* Add to the order what such a run, or the wait for its sends, would start and wait for. They make no message. */
mega_status stage_list(engine_stage *s, const mega_schedule_pass *pass, int64_t count, mega_order *order);
mega_status stage_list_end(engine_stage *s, mega_order *order);

#endif
