/* The messages of a pipeline stage. Activations go round the ring of stages in the group pp, gradients the other way in
 * pp_back: each of the two streams has one order, which both sides read from their schedules. */
#include "stage.h"
#include "engine_impl.h"
#include "megalith/assert.h"
#include "megalith/memory.h"

/* Streams. */
enum { FORWARD, BACKWARD };

static stage_slot *slot_of(const engine_stage *s, const mega_schedule_step *x)
{
    return &s->slot[x->chunk * s->slots + x->slot];
}

static bool is_alone(const engine_stage *s)
{
    return s->layout->pp.size == 1;
}

bool stage_has_neighbours(const engine_stage *s)
{
    return !is_alone(s);
}

/* The buffer of a tensor in one slot; NULL: the program has no tensor of that name. */
static stage_buffer *buffer_of(engine_stage *s, mega_program *p, const char *name, int slot)
{
    void *data = mega_program_tensor(p, name, slot);
    if (data == NULL) return NULL;
    for (int i = 0; i < s->buffers; i++)
        if (s->buffer[i].data == data) return &s->buffer[i];
    s->buffer[s->buffers] = (stage_buffer){.data = data, .bytes = (int64_t)mega_program_tensor_bytes(p, name)};
    return &s->buffer[s->buffers++];
}

static void bind_slots(engine_stage *s, const engine_chunk *chunk, int c)
{
    mega_program *p = s->forward_only ? chunk->evaluate : chunk->train;
    for (int i = 0; i < (s->forward_only ? 1 : chunk->slots); i++)
        s->slot[c * s->slots + i] = (stage_slot){.input = buffer_of(s, p, "stage_input", i),
                                                 .input_gradient = buffer_of(s, p, "stage_input_gradient", i),
                                                 .output = buffer_of(s, p, "stage_output", i),
                                                 .output_gradient = buffer_of(s, p, "stage_output_gradient", i)};
}

mega_status stage_open(engine_stage *s, const mega_layout *layout, const engine_chunk *chunk, int chunks,
                       bool forward_only)
{
    *s = (engine_stage){.layout = layout, .chunks = chunks, .slots = 1, .forward_only = forward_only};
    if (is_alone(s)) return MEGA_OK;
    for (int c = 0; c < chunks && !forward_only; c++) s->slots = chunk[c].slots > s->slots ? chunk[c].slots : s->slots;
    s->slot = mega_calloc((size_t)(chunks * s->slots), sizeof *s->slot);
    s->buffer = mega_calloc((size_t)(4 * chunks * s->slots), sizeof *s->buffer);
    if (s->slot == NULL || s->buffer == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "pipeline stage: no memory for its messages");
    for (int c = 0; c < chunks; c++) bind_slots(s, &chunk[c], c);
    return MEGA_OK;
}

void stage_close(engine_stage *s)
{
    mega_free(s->slot);
    mega_free(s->buffer);
    s->slot = NULL;
    s->buffer = NULL;
}

/* Where the message that step x waits for comes, an activation from the stage before or a gradient from the one after;
 * NULL: x waits for none. */
static stage_buffer *message_into(const engine_stage *s, const mega_schedule_step *x)
{
    const stage_slot *at = slot_of(s, x);
    return x->forward ? at->input : at->output_gradient;
}

static int neighbour(const engine_stage *s, int away)
{
    const mega_axis *pp = &s->layout->pp;
    return (pp->rank + away + pp->size) % pp->size;
}

/* Posts the receives of one stream, in the order of the schedule, as far as buffers are free. */
static mega_status post(engine_stage *s, int stream)
{
    for (int64_t *i = &s->next[stream]; *i < s->count; ++*i) {
        const mega_schedule_step *x = &s->step[*i];
        if (x->forward != (stream == FORWARD)) continue;
        stage_buffer *b = message_into(s, x);
        if (b == NULL) continue;
        if (b->is_awaited) return MEGA_OK;
        b->is_awaited = true;
        MEGA_TRY(stream == FORWARD ? mega_comm_receive_start(s->layout->pp.comm, "activation", neighbour(s, -1),
                                                             b->data, b->bytes, &b->request)
                                   : mega_comm_receive_start(s->layout->pp_back.comm, "gradient", neighbour(s, 1),
                                                             b->data, b->bytes, &b->request));
    }
    return MEGA_OK;
}

static mega_status post_all(engine_stage *s)
{
    MEGA_TRY(post(s, FORWARD));
    return post(s, BACKWARD);
}

mega_status stage_begin(engine_stage *s, const mega_schedule_step *step, int64_t count)
{
    s->step = step;
    s->count = count;
    s->next[FORWARD] = s->next[BACKWARD] = 0;
    return is_alone(s) ? MEGA_OK : post_all(s);
}

mega_status stage_before(engine_stage *s, const mega_schedule_step *x)
{
    if (is_alone(s)) return MEGA_OK;
    stage_buffer *in = message_into(s, x), *out = x->forward ? slot_of(s, x)->output : slot_of(s, x)->input_gradient;
    MEGA_ASSERT(in == NULL || in->is_awaited, "chunk %d, micro-batch %d: its message was never awaited", x->chunk,
                x->micro_batch);
    if (in != NULL) MEGA_TRY(mega_comm_wait(&in->request));
    return out != NULL ? mega_comm_wait(&out->request) : MEGA_OK;
}

static void set_free(stage_buffer *b)
{
    if (b != NULL) b->is_awaited = false;
}

mega_status stage_after(engine_stage *s, const mega_schedule_step *x)
{
    if (is_alone(s)) return MEGA_OK;
    stage_slot *at = slot_of(s, x);
    if (x->forward && at->output != NULL)
        MEGA_TRY(mega_comm_send_start(s->layout->pp.comm, "activation", neighbour(s, 1), at->output->data,
                                      at->output->bytes, &at->output->request));
    if (!x->forward && at->input_gradient != NULL)
        MEGA_TRY(mega_comm_send_start(s->layout->pp_back.comm, "gradient", neighbour(s, -1), at->input_gradient->data,
                                      at->input_gradient->bytes, &at->input_gradient->request));
    if (!x->forward || s->forward_only) {
        set_free(at->input);
        set_free(at->output_gradient);
    }
    return post_all(s);
}

mega_status stage_end(engine_stage *s)
{
    for (int i = 0; i < s->buffers; i++) MEGA_TRY(mega_comm_wait(&s->buffer[i].request));
    return MEGA_OK;
}

mega_status stage_sum_tied(const mega_layout *layout, mega_params *params)
{
    const mega_dtype acc = mega_params_acc_dtype(params);
    for (int i = 0; i < mega_params_count(params) && layout->embedding.size > 1; i++) {
        const mega_param *p = mega_params_get(params, i);
        if (p->tie == MEGA_TIE_NONE) continue;
        /* with ZeRO 2 and 3 the program has summed it over dp, and this rank's part is left */
        const bool is_cut = mega_params_zero_stage(params) >= 2;
        const mega_range part = is_cut ? mega_params_owned(params, i) : (mega_range){0, p->count};
        if (part.count == 0) continue;
        MEGA_TRY(mega_comm_all_reduce(layout->embedding.comm, "gradient of the tied embedding",
                                      mega_params_grad_at(params, p->bucket, p->offset + part.first), part.count, acc,
                                      MEGA_REDUCE_SUM));
    }
    return MEGA_OK;
}
