/* Gradients that the parameters hold in 16 bits (mega_params_hold_gradients_in). Kernels add to gradients in the acc
 * type. So each such gradient is a value of the program: it is alive from the first instruction of a micro-batch that
 * adds to it until the last; after that one, held_grad_add adds it to the held gradient.
 *
 * What follows from this: no kernel knows the held type. A gradient is rounded once a micro-batch, after all of its
 * uses (a tied table has two). The acc memory is that of the gradients that are being computed at one instruction, and
 * the memory plan covers it. With ZeRO 2 and 3 nothing of this is needed: whole buckets are such values already
 * (pass_place.c), and reduce_wait rounds the slice of their sum.
 *
 * A frozen parameter has no memory for a gradient. Instructions that compute it alone are gone (pass_differentiate.c);
 * what is computed beside other results, as that of a norm beside dx, is such a value too, and nothing keeps it. */
#include "place_impl.h"
#include "uses_impl.h"

/* Makes gradient t a value of the program. After the last instruction that adds to it, it is kept, unless its parameter
 * is frozen. */
static mega_status hold_gradient(place *p, int32_t t, int last)
{
    mega_graph *g = p->g;
    const mega_param *r = mega_params_get(g->params, g->tensor[t].param);
    const graph_tensor value = {.role = ROLE_VALUE,
                                .name = mega_arena_format(&g->arena, "gradient of %s", r->name),
                                .shape =
                                    mega_shape_1d(g->acc, mega_params_joined_elements(g->params, g->tensor[t].param)),
                                .holds = HOLDS_GRADIENTS};
    const int32_t whole = mega_graph_tensor_add(g, &value); /* may move g->tensor */
    if (whole == 0) return g->status;
    g->tensor[t].base = whole;
    g->tensor[t].offset = 0;
    if (!mega_param_has_gradient(r)) return MEGA_OK;
    return mega_place_insert(p, last + 1, g->op[last].backward,
                             (instruction){.kind = OP_HELD_GRAD_ADD,
                                           .in = {whole},
                                           .attr = {.bucket = r->bucket, .param = g->tensor[t].param}});
}

static mega_status begin_gradient(place *p, int32_t t, int first)
{
    const mega_graph *g = p->g;
    const int param = g->tensor[t].param;
    const op_attr attr = {.bucket = mega_params_get(g->params, param)->bucket, .param = param};
    return mega_place_insert(p, first, g->op[first].backward,
                             (instruction){.kind = OP_HELD_GRAD_ZERO, .out = {g->tensor[t].base}, .attr = attr});
}

static bool is_value(const mega_graph *g, int32_t t)
{
    if (g->tensor[t].role != ROLE_GRADIENT) return false;
    const mega_param *r = mega_params_get(g->params, g->tensor[t].param);
    if (!mega_param_has_gradient(r)) return true;
    return !mega_params_are_cut(g->params, MEGA_PARAMS_GRADS) &&
           mega_dtype_is_half(mega_params_grad_dtype(g->params, r->bucket));
}

/* Of two gradients that meet between two instructions, one is kept before the other begins. */
mega_status mega_place_held_gradients(place *p)
{
    const mega_graph *g = p->g;
    const int32_t tensors = g->num_tensors; /* without those that are added here */
    graph_uses uses;
    mega_status st = mega_uses_find(g, &uses);
    for (int begins = 0; begins < 2; begins++)
        for (int32_t t = 1; t < tensors && st == MEGA_OK; t++) {
            const use_list writes = mega_uses_writes(&uses, t);
            if (writes.count == 0 || !is_value(g, t)) continue;
            st = begins ? begin_gradient(p, t, writes.use[0].op) : hold_gradient(p, t, writes.use[writes.count - 1].op);
        }
    mega_uses_fini(&uses);
    return st;
}
