/* Looks for values that are not finite among the results of an instruction. Two kinds are no mistake and are declared
 * where they are made, in the row of their op: what an algorithm makes infinite on purpose (op_row.infinite), and what
 * is multiplied by the loss scale (op_row.scaled), with all that is computed from it: in fp16 such gradients overflow
 * until the scale has come down. */
#include "megalith/device_memory.h"
#include "program_impl.h"

#include <math.h>

/* ---- what the loss scale multiplies ---- */

static bool reads_scaled(const mega_graph *g, const instruction *op)
{
    for (int k = 0; k < OP_MAX_IN; k++)
        if (g->tensor[mega_graph_root(g, op->in[k])].is_scaled) return true;
    return false;
}

void mega_graph_mark_scaled(mega_graph *g)
{
    for (int i = 1; i < g->names.num_seeds; i += 2) /* each tensor is followed by its gradient */
        g->tensor[mega_graph_root(g, g->names.seed[i].tensor)].is_scaled = true;
    for (int i = 0; i < g->num_ops; i++) {
        const instruction *op = &g->op[i];
        const unsigned scaled = reads_scaled(g, op) ? ~0u : mega_op_table[op->kind]->scaled;
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (op->out[k] != 0 && (scaled & 1u << k) != 0) g->tensor[mega_graph_root(g, op->out[k])].is_scaled = true;
    }
}

/* ---- the search ---- */

/* Returns the first value that is not finite, or with `nan_only` the first that is not a number; -1: none. */
static int64_t first_of_host(const void *x, mega_dtype dtype, int64_t count, bool nan_only)
{
    for (int64_t i = 0; i < count; i++) {
        double v = 0;
        switch (dtype) {
        case MEGA_F32: v = (double)((const float *)x)[i]; break;
        case MEGA_F64: v = ((const double *)x)[i]; break;
        case MEGA_BF16: v = (double)mega_bf16_to_f32(((const uint16_t *)x)[i]); break;
        case MEGA_F16: v = (double)mega_f16_to_f32(((const uint16_t *)x)[i]); break;
        default: return -1;
        }
        if (nan_only ? isnan(v) : !isfinite(v)) return i;
    }
    return -1;
}

/* The same of values on the device: in place where the host can read them, otherwise by a window, for each read of a
 * GPU waits. */
static mega_status first_nonfinite(const char *x, mega_dtype dtype, int64_t count, bool nan_only, int64_t *first)
{
    const int64_t size = (int64_t)mega_dtype_size(dtype);
    const int64_t most = count * size < MEGA_DEVICE_WINDOW ? count : MEGA_DEVICE_WINDOW / size;
    *first = -1;
    if (mega_device_is_host(x)) {
        *first = first_of_host(x, dtype, count, nan_only);
        return MEGA_OK;
    }
    void *const window = mega_malloc((size_t)(most * size));
    if (window == NULL) return MEGA_NO_MEMORY("finite", "a window of values of a device");
    for (int64_t at = 0; at < count && *first < 0; at += most) {
        const int64_t n = count - at < most ? count - at : most;
        mega_device_read(window, x + at * size, (size_t)(n * size));
        const int64_t found = first_of_host(window, dtype, n, nan_only);
        if (found >= 0) *first = at + found;
    }
    mega_free(window);
    return MEGA_OK;
}

mega_status mega_program_check_finite(mega_program *p, int i, int slot, bool also_scaled)
{
    const mega_graph *g = p->g;
    const instruction *op = &g->op[i];
    const op_row *row = mega_op_table[op->kind];
    for (int k = 0; k < OP_MAX_OUT; k++) {
        const graph_tensor *t = &g->tensor[op->out[k]];
        if (op->out[k] == 0 || (!also_scaled && g->tensor[mega_graph_root(g, op->out[k])].is_scaled)) continue;
        const void *x = mega_program_address(p, op->out[k], slot);
        int64_t at;
        MEGA_TRY(first_nonfinite(x, t->shape.dtype, mega_shape_count(&t->shape), (row->infinite & 1u << k) != 0, &at));
        if (at < 0) continue;
        const int64_t cols = t->shape.num_dims == 2 ? t->shape.dim[1] : 1;
        char shape[96];
        return MEGA_FAIL(MEGA_ERR_NUMERIC,
                         "%s program, instruction %d: op %s in \"%s\" made a value that is not finite: tensor %s %s, "
                         "row %lld, column %lld",
                         op->backward ? "backward" : "forward", i, row->name, op->scope, t->name,
                         mega_shape_text(shape, sizeof shape, &t->shape), (long long)(at / cols),
                         (long long)(at % cols));
    }
    return MEGA_OK;
}
