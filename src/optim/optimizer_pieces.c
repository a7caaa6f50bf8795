/* The update of gradients that are held in 16 bits (mega_params_hold_gradients_in). Kernels read them in float: so the
 * elements of a span are processed a piece at a time. A piece is widened into memory that stays in the cache, and used
 * before the next one is widened. What is computed for an element does not depend on where pieces end; a sum over a
 * span is that of its pieces, in their order. Muon does not do this: it computes in place of the gradient of a whole
 * matrix. */
#include "megalith/device_memory.h"
#include "optimizer_impl.h"

static int64_t longest_span(const optimizer_span *span, int count)
{
    int64_t longest = 0;
    for (int i = 0; i < count; i++)
        if (span[i].end - span[i].begin > longest) longest = span[i].end - span[i].begin;
    return longest;
}

int64_t optimizer_piece(const mega_optimizer *o)
{
    const int64_t updated = longest_span(o->update, o->num_update), counted = longest_span(o->counted, o->num_counted);
    const int64_t longest = updated > counted ? updated : counted;
    if (o->options.backend != MEGA_BACKEND_CUDA || longest <= OPTIMIZER_PIECE) return OPTIMIZER_PIECE;
    return longest < OPTIMIZER_GPU_PIECE ? longest : OPTIMIZER_GPU_PIECE;
}

size_t optimizer_wide_bytes(const mega_optimizer *o)
{
    for (int b = 0; b < mega_params_num_buckets(o->params); b++)
        if (optimizer_is_held_in_half(o, b)) return (size_t)optimizer_piece(o) * sizeof(float);
    return 0;
}

bool optimizer_is_held_in_half(const mega_optimizer *o, int bucket)
{
    return mega_dtype_is_half(mega_params_grad_dtype(o->params, bucket));
}

const void *optimizer_widen(mega_optimizer *o, int bucket, int64_t element, int64_t count)
{
    mega_params_convert(o->params, o->wide, MEGA_F32, mega_params_grad_at(o->params, bucket, element),
                        mega_params_grad_dtype(o->params, bucket), count);
    return o->wide;
}

/* The part of a span's work from element `at` of the span on. */
static optimizer_work work_of_piece(const optimizer_work *all, int64_t at, int64_t count)
{
    optimizer_work piece = *all;
    piece.call.count = count;
    piece.call.param = (float *)all->call.param + at;
    for (int k = 0; k < MEGA_OPTIMIZER_STATES; k++)
        if (all->state[k] != NULL) piece.state[k] = (float *)all->state[k] + at;
    if (all->weight != NULL) piece.weight = (uint16_t *)all->weight + at;
    return piece;
}

void optimizer_each_piece(mega_optimizer *o, int i, optimizer_on_work *on)
{
    const optimizer_span *r = &o->update[i];
    const optimizer_work *all = &o->work[i];
    if (!optimizer_is_held_in_half(o, r->bucket)) {
        on(o, i, all);
        return;
    }
    const int64_t most = optimizer_piece(o);
    for (int64_t at = 0; at < all->call.count; at += most) {
        const int64_t left = all->call.count - at, count = left < most ? left : most;
        optimizer_work piece = work_of_piece(all, at, count);
        piece.call.state = piece.state;
        piece.call.grad = optimizer_widen(o, r->bucket, r->begin + at, count);
        on(o, i, &piece);
    }
}

/* ---- the caller's row ---- */

static size_t elements_bytes(const mega_optimizer *o, int64_t count)
{
    return (size_t)count * mega_dtype_size(mega_params_acc_dtype(o->params));
}

/* Whether the host reaches what it updates in place. */
static bool is_of_host(const mega_optimizer *o)
{
    return o->options.backend != MEGA_BACKEND_CUDA && mega_device_is_host(NULL);
}

/* Parameter, gradient, states, rounded weight. */
size_t optimizer_copies_bytes(const mega_optimizer *o)
{
    if (is_of_host(o) || o->builtin != NULL) return 0;
    return elements_bytes(o, OPTIMIZER_PIECE) * (size_t)(2 + mega_optimizer_row_states(o->row)) +
           OPTIMIZER_PIECE * sizeof(uint16_t);
}

static void run_on_copies(mega_optimizer *o, const optimizer_work *w, int64_t at, int64_t count)
{
    const size_t first = elements_bytes(o, at), bytes = elements_bytes(o, count),
                 room = elements_bytes(o, OPTIMIZER_PIECE);
    const int states = mega_optimizer_row_states(o->row);
    char *param = o->copies, *grad = param + room, *state = grad + room;
    optimizer_work here = *w;
    here.call.count = count;
    here.call.param = param;
    here.call.grad = grad;
    here.call.state = here.state;
    if (w->weight != NULL) here.weight = (uint16_t *)(void *)(state + (size_t)states * room);
    mega_device_read(param, (const char *)w->call.param + first, bytes);
    mega_device_read(grad, (const char *)w->call.grad + first, bytes);
    for (int k = 0; k < states; k++) {
        here.state[k] = state + (size_t)k * room;
        mega_device_read(here.state[k], (const char *)w->state[k] + first, bytes);
    }
    mega_optimizer_row_run(o->row, o->options.queue.team, &here);
    mega_device_write((char *)w->call.param + first, param, bytes);
    for (int k = 0; k < states; k++) mega_device_write((char *)w->state[k] + first, here.state[k], bytes);
    if (w->weight != NULL) mega_device_write((uint16_t *)w->weight + at, here.weight, (size_t)count * sizeof(uint16_t));
}

void optimizer_run_on_host(mega_optimizer *o, const optimizer_work *w)
{
    if (is_of_host(o)) mega_optimizer_row_run(o->row, o->options.queue.team, w);
    for (int64_t at = 0; at < w->call.count && !is_of_host(o); at += OPTIMIZER_PIECE) {
        const int64_t left = w->call.count - at;
        run_on_copies(o, w, at, left < OPTIMIZER_PIECE ? left : OPTIMIZER_PIECE);
    }
}
