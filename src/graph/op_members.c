/* Fills the arguments of a kernel by the rows of an op (op_members.h). */
#include "op_members.h"
#include <string.h>

static int64_t extent_of(const op_member *m, const instruction *op, const tensor_shape *shape)
{
    switch (m->source) {
    case MEMBER_COUNT: return mega_shape_count(shape);
    case MEMBER_GROUPS: return shape->dim[0] / op->attr.group;
    default: return shape->dim[m->from];
    }
}

void mega_op_fill(const op_binder *b, const instruction *op, void *args)
{
    for (const op_member *m = mega_op_table[op->kind]->members; m != NULL && m->source != MEMBER_NONE; m++) {
        const int32_t tensor = m->operand < OP_MAX_IN ? op->in[m->operand] : op->out[m->operand - OP_MAX_IN];
        const tensor_shape *shape = &b->g->tensor[tensor].shape;
        char *to = (char *)args + m->at;
        if (m->source == MEMBER_ATTR) {
            memcpy(to, (const char *)&op->attr + m->from, m->size);
        } else if (m->source == MEMBER_ADDRESS) {
            const void *address = b->address(b, tensor);
            memcpy(to, &address, sizeof address);
        } else if (m->source == MEMBER_DTYPE) {
            *(mega_dtype *)(void *)to = shape->dtype;
        } else {
            *(int64_t *)(void *)to = extent_of(m, op, shape);
        }
    }
}
