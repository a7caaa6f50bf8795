/* The messages of a pipeline stage. Activations travel around the ring of stages in the group pp, gradients in the
 * other direction in pp_back. Each of these two streams has a fixed order, which both ends derive from their
 * schedules. */
#include "stage.h"
#include "engine_build.h"
#include "megalith/assert.h"
#include "megalith/memory.h"

/* The two streams of messages. */
enum { FORWARD, BACKWARD };

static stage_slot *stage_slot_of(const engine_stage *s, const mega_schedule_pass *x)
{
    return &s->slot[x->chunk * s->slots + x->slot];
}

bool stage_has_neighbours(const engine_stage *s)
{
    return s->buffers > 0;
}

/* Returns the buffer of a tensor in one slot, which it lists if it is new. Returns NULL if the program has no tensor of
 * that name. */
static stage_buffer *stage_buffer_of(engine_stage *s, mega_program *p, const char *name, int slot)
{
    void *data = mega_program_tensor(p, name, slot);
    if (data == NULL) return NULL;
    for (int i = 0; i < s->buffers; i++)
        if (s->buffer[i].data == data) return &s->buffer[i];
    s->buffer[s->buffers] = (stage_buffer){.data = data, .bytes = (int64_t)mega_program_tensor_bytes(p, name)};
    return &s->buffer[s->buffers++];
}

static void stage_bind_slots(engine_stage *s, const engine_chunk *chunk, int c, engine_kind kind)
{
    mega_program *p = engine_program_of(chunk, kind);
    for (int i = 0; i < (s->forward_only ? s->slots : chunk->slots); i++)
        for (int border = 0; border <= MEGA_BORDER_OUTPUT_GRADIENT; border++)
            for (int v = 0; v < MEGA_FLOW_VALUES; v++)
                s->slot[c * s->slots + i].buffer[border][v] =
                    stage_buffer_of(s, p, mega_border_name((mega_border)border, v), i);
}

mega_status stage_open(engine_stage *s, const mega_layout *layout, const engine_chunk *chunk, int chunks,
                       engine_kind kind, int slots)
{
    const bool forward_only = kind != ENGINE_TRAIN;
    *s = (engine_stage){.layout = layout, .chunks = chunks, .slots = slots, .forward_only = forward_only};
    for (int c = 0; c < chunks && !forward_only; c++) s->slots = chunk[c].slots > s->slots ? chunk[c].slots : s->slots;
    s->slot = mega_calloc((size_t)(chunks * s->slots), sizeof *s->slot);
    s->buffer = mega_calloc((size_t)(4 * MEGA_FLOW_VALUES * chunks * s->slots), sizeof *s->buffer);
    if (s->slot == NULL || s->buffer == NULL) return MEGA_NO_MEMORY("pipeline stage", "its messages");
    for (int c = 0; c < chunks; c++) stage_bind_slots(s, &chunk[c], c, kind);
    return MEGA_OK;
}

void stage_close(engine_stage *s)
{
    MEGA_FREE(s->slot, s->buffer);
    s->slot = NULL;
    s->buffer = NULL;
}

/* Returns the buffers for the messages that pass x waits for: activations from the previous stage, or gradients from
 * the next one. */
static stage_buffer *const *messages_into(const engine_stage *s, const mega_schedule_pass *x)
{
    return stage_slot_of(s, x)->buffer[x->forward ? MEGA_BORDER_INPUT : MEGA_BORDER_OUTPUT_GRADIENT];
}

/* Returns the buffers that pass x computes for another stage. */
static stage_buffer *const *messages_from(const engine_stage *s, const mega_schedule_pass *x)
{
    return stage_slot_of(s, x)->buffer[x->forward ? MEGA_BORDER_OUTPUT : MEGA_BORDER_INPUT_GRADIENT];
}

static int stage_neighbour(const engine_stage *s, int away)
{
    const mega_axis *pp = &s->layout->pp;
    return (pp->rank + away + pp->size) % pp->size;
}

static bool are_awaited(stage_buffer *const *list)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++)
        if (list[v] != NULL && list[v]->is_awaited) return true;
    return false;
}

static const char *const stream_name[] = {[FORWARD] = "activation", [BACKWARD] = "gradient"};

static mega_status stage_message_start(engine_stage *s, stage_buffer *b, int stream, bool is_sent)
{
    const mega_layout *l = s->layout;
    mega_comm *comm = stream == FORWARD ? l->pp.comm : l->pp_back.comm;
    const char *name = stream_name[stream];
    const int peer = stage_neighbour(s, is_sent == (stream == FORWARD) ? 1 : -1);
    if (s->order != NULL) {
        mega_order_start(s->order, name, stream, is_sent, &b->listed);
        return MEGA_OK;
    }
    return is_sent ? mega_comm_send_start(comm, name, peer, b->data, b->bytes, &b->request)
                   : mega_comm_receive_start(comm, name, peer, b->data, b->bytes, &b->request);
}

static mega_status stage_message_wait(engine_stage *s, stage_buffer *b)
{
    if (s->order == NULL) return mega_comm_wait(&b->request);
    mega_order_await(s->order, stream_name[b->listed.way], &b->listed);
    return MEGA_OK;
}

static mega_status stage_post_values(engine_stage *s, stage_buffer *const *list, int stream)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
        if (list[v] == NULL) continue;
        list[v]->is_awaited = true;
        MEGA_TRY(stage_message_start(s, list[v], stream, false));
    }
    return MEGA_OK;
}

/* Posts receives of one stream, in the order of the schedule, until a buffer is not free. */
static mega_status stage_post(engine_stage *s, int stream)
{
    for (int64_t *i = &s->next[stream]; *i < s->count; ++*i) {
        const mega_schedule_pass *x = &s->pass[*i];
        if (x->forward != (stream == FORWARD)) continue;
        if (are_awaited(messages_into(s, x))) return MEGA_OK;
        MEGA_TRY(stage_post_values(s, messages_into(s, x), stream));
    }
    return MEGA_OK;
}

static mega_status stage_post_all(engine_stage *s)
{
    MEGA_TRY(stage_post(s, FORWARD));
    return stage_post(s, BACKWARD);
}

mega_status stage_begin(engine_stage *s, const mega_schedule_pass *pass, int64_t count)
{
    s->pass = pass;
    s->count = count;
    s->next[FORWARD] = s->next[BACKWARD] = 0;
    return stage_post_all(s);
}

mega_status stage_before(engine_stage *s, const mega_schedule_pass *x)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
        stage_buffer *in = messages_into(s, x)[v], *out = messages_from(s, x)[v];
        MEGA_ASSERT(in == NULL || in->is_awaited, "chunk %d, micro-batch %d: its message was never awaited", x->chunk,
                    x->micro_batch);
        if (in != NULL) MEGA_TRY(stage_message_wait(s, in));
        if (out != NULL) MEGA_TRY(stage_message_wait(s, out));
    }
    return MEGA_OK;
}

static void stage_release(stage_buffer *const *list)
{
    for (int v = 0; v < MEGA_FLOW_VALUES; v++)
        if (list[v] != NULL) list[v]->is_awaited = false;
}

mega_status stage_after(engine_stage *s, const mega_schedule_pass *x)
{
    const stage_slot *at = stage_slot_of(s, x);
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
        stage_buffer *b = messages_from(s, x)[v];
        if (b != NULL) MEGA_TRY(stage_message_start(s, b, x->forward ? FORWARD : BACKWARD, true));
    }
    if (!x->forward || s->forward_only) {
        stage_release(at->buffer[MEGA_BORDER_INPUT]);
        stage_release(at->buffer[MEGA_BORDER_OUTPUT_GRADIENT]);
    }
    return stage_post_all(s);
}

mega_status stage_end(engine_stage *s)
{
    for (int i = 0; i < s->buffers; i++) MEGA_TRY(stage_message_wait(s, &s->buffer[i]));
    return MEGA_OK;
}

mega_status stage_list(engine_stage *s, const mega_schedule_pass *pass, int64_t count, mega_order *order)
{
    s->order = order;
    mega_status st = stage_begin(s, pass, count);
    for (int64_t i = 0; i < count && st == MEGA_OK; i++) {
        st = stage_before(s, &pass[i]);
        if (st == MEGA_OK) st = stage_after(s, &pass[i]);
    }
    s->order = NULL;
    return st;
}

mega_status stage_list_end(engine_stage *s, mega_order *order)
{
    s->order = order;
    const mega_status st = stage_end(s);
    s->order = NULL;
    return st;
}
