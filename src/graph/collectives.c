/* The collectives of a program, which are known before it runs: the ranks of a group compare theirs, so that programs
 * that differ are told by name instead of waiting for each other. */
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "program_impl.h"

#include <stdio.h>
#include <string.h>

enum { DESCRIBED = 160 }; /* bytes of a description, in messages */

static const graph_tensor *moved(const mega_program *p, const instruction *op)
{
    return &p->g->tensor[op->kind == OP_ALL_GATHER ? op->in[0] : op->out[0]];
}

/* The i-th collective over `comm`; NULL behind the last. */
static const instruction *find(const mega_program *p, const mega_comm *comm, int64_t i)
{
    for (int k = 0; k < p->g->num_ops; k++) {
        const instruction *op = &p->g->op[k];
        if (mega_op_is_collective(op->kind) && op->attr.axis.comm == comm && i-- == 0) return op;
    }
    return NULL;
}

uint64_t mega_program_collectives_hash(const mega_program *p, const mega_comm *comm, int64_t most, int64_t *out_count)
{
    uint64_t hash = MEGA_HASH_START;
    int64_t count = 0;
    for (int k = 0; k < p->g->num_ops && count < most; k++) {
        const instruction *op = &p->g->op[k];
        if (!mega_op_is_collective(op->kind) || op->attr.axis.comm != comm) continue;
        const graph_tensor *t = moved(p, op);
        const int64_t row[] = {op->kind, op->backward, mega_shape_count(&t->shape), t->shape.dtype, op->attr.reduce};
        hash = mega_hash64(hash, row, sizeof row);
        count++;
    }
    if (out_count != NULL) *out_count = count;
    return hash;
}

/* Whether all members have the same number. */
static mega_status same(mega_comm *comm, uint64_t number, bool *out)
{
    const int64_t half = (int64_t)(number >> 1); /* so that its negative is a number, too */
    int64_t ends[2] = {half, -half};
    MEGA_TRY(mega_comm_all_reduce(comm, "comparison of programs", ends, 2, MEGA_I64, MEGA_REDUCE_MAX));
    *out = ends[0] == -ends[1];
    return MEGA_OK;
}

static void describe(const mega_program *p, const mega_comm *comm, int64_t i, char out[DESCRIBED])
{
    const instruction *op = find(p, comm, i);
    memset(out, 0, DESCRIBED);
    if (op == NULL) {
        snprintf(out, DESCRIBED, "no more collectives");
        return;
    }
    const graph_tensor *t = moved(p, op);
    snprintf(out, DESCRIBED, "%s (%s) of %lld %s in \"%s\", %s", mega_op_table[op->kind]->name, op->attr.what,
             (long long)mega_shape_count(&t->shape), mega_dtype_name(t->shape.dtype), op->scope,
             op->backward ? "backward" : "forward");
}

/* Everyone's i-th, and who differs from the first. */
static mega_status tell(const mega_program *p, mega_comm *comm, int64_t i)
{
    const int size = mega_comm_size(comm);
    char mine[DESCRIBED], *all = mega_calloc((size_t)size, DESCRIBED);
    mega_buffer text = {0};
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "comparison of programs: no memory for %d ranks", size);
    describe(p, comm, i, mine);
    mega_status st = mega_comm_all_gather(comm, "programs that differ", all, mine, DESCRIBED, MEGA_U8);
    mega_buffer_printf(&text,
                       "group %s: its ranks have different %s programs, from collective %lld on:", mega_comm_name(comm),
                       p->name, (long long)i + 1);
    for (int r = 0; r < size; r++)
        if (r == 0 || memcmp(all, all + (size_t)r * DESCRIBED, DESCRIBED) != 0)
            mega_buffer_printf(&text, "\n  rank %d of the group: %s", r, all + (size_t)r * DESCRIBED);
    if (st == MEGA_OK)
        st = MEGA_FAIL(MEGA_ERR_COMM, "%s\n  start all ranks with one program and the same options",
                       text.failed ? "ranks have different programs" : text.data);
    mega_buffer_fini(&text);
    mega_free(all);
    return st;
}

mega_status mega_program_compare_collectives(const mega_program *p, mega_comm *comm)
{
    int64_t count, least = 0, most;
    bool equal;
    MEGA_TRY(same(comm, mega_program_collectives_hash(p, comm, INT64_MAX, &count), &equal));
    if (equal) return MEGA_OK;
    most = count;
    MEGA_TRY(mega_comm_all_reduce(comm, "comparison of programs", &most, 1, MEGA_I64, MEGA_REDUCE_MAX));
    while (least < most) { /* the first `least` are the same everywhere, the first `most` + 1 are not */
        const int64_t half = least + (most - least) / 2;
        MEGA_TRY(same(comm, mega_program_collectives_hash(p, comm, half + 1, NULL), &equal));
        if (equal) least = half + 1;
        else
            most = half;
    }
    return tell(p, comm, least);
}
