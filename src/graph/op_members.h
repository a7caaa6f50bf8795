/* Rows of op_row.members: which operand, or what of it, a member of a kernel's arguments gets. A row names the kernel,
 * the member of its arguments, and the operand's number; a member of another type than its source does not compile.
 *
 *   IN(gelu, x, GELU_X)          args->x is the address of in[GELU_X], NULL where that is absent
 *   OUT(gelu, y, 0)              args->y is that of out[0]
 *   DIM(gelu, rows, GELU_X, 0)   args->rows is extent 0 of in[GELU_X]
 *   COUNT, DTYPE                 its number of elements; its type
 *   GROUPS(mean_rows, rows, 0)   extent 0 in groups of attr.group
 *   OUT_DIM, OUT_DTYPE           as DIM and DTYPE, of an output
 *   ATTR(gelu, tanh_form, tanh_form)   args->tanh_form is attr.tanh_form */
#ifndef MEGA_OP_MEMBERS_H
#define MEGA_OP_MEMBERS_H

#include "graph_impl.h"
#include <stddef.h>

#define MEMBERS(...) ((const op_member[]){__VA_ARGS__, {0}})

#define MEMBER_OF(kernel, member) (((mega_##kernel##_args *)0)->member)
#define MEMBER_AT(kernel, member, type) \
    _Generic(MEMBER_OF(kernel, member), type : offsetof(mega_##kernel##_args, member))
/* Of a pointer: a number of another size or type cannot be dereferenced. */
#define POINTER_AT(kernel, member) (offsetof(mega_##kernel##_args, member) + 0 * sizeof &*MEMBER_OF(kernel, member))
#define ATTR_SIZE(kernel, member, attr) \
    (sizeof MEMBER_OF(kernel, member) + \
     0 * sizeof(char[sizeof MEMBER_OF(kernel, member) == sizeof((op_attr *)0)->attr ? 1 : -1]))

#define IN(kernel, member, in)                                                      \
    {                                                                               \
        .source = MEMBER_ADDRESS, .at = POINTER_AT(kernel, member), .operand = (in) \
    }
#define OUT(kernel, member, out)                                                                 \
    {                                                                                            \
        .source = MEMBER_ADDRESS, .at = POINTER_AT(kernel, member), .operand = OP_MAX_IN + (out) \
    }
#define DIM(kernel, member, in, axis)                                                                      \
    {                                                                                                      \
        .source = MEMBER_EXTENT, .at = MEMBER_AT(kernel, member, int64_t), .operand = (in), .from = (axis) \
    }
#define OUT_DIM(kernel, member, out, axis) DIM(kernel, member, OP_MAX_IN + (out), axis)
#define COUNT(kernel, member, in)                                                         \
    {                                                                                     \
        .source = MEMBER_COUNT, .at = MEMBER_AT(kernel, member, int64_t), .operand = (in) \
    }
#define GROUPS(kernel, member, in)                                                         \
    {                                                                                      \
        .source = MEMBER_GROUPS, .at = MEMBER_AT(kernel, member, int64_t), .operand = (in) \
    }
#define DTYPE(kernel, member, in)                                                            \
    {                                                                                        \
        .source = MEMBER_DTYPE, .at = MEMBER_AT(kernel, member, mega_dtype), .operand = (in) \
    }
#define OUT_DTYPE(kernel, member, out) DTYPE(kernel, member, OP_MAX_IN + (out))
#define ATTR(kernel, member, attr)                                                                            \
    {                                                                                                         \
        .source = MEMBER_ATTR, .at = offsetof(mega_##kernel##_args, member), .from = offsetof(op_attr, attr), \
        .size = ATTR_SIZE(kernel, member, attr)                                                               \
    }

#endif
