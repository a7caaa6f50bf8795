/* Sums over some of the ranks of a group: by their devices, or made of messages: each member adds up its share of the
 * numbers, in the order of members, and sends the sum to the others. */
#include "comm_impl.h"
#include "megalith/device_memory.h"

typedef struct members_sum {
    const mega_members *m;
    const char *name;
    char *data;
    int64_t count, piece; /* elements in all; most elements of a share per round */
    mega_dtype dtype;
    mega_request *send, *receive; /* by member */
    const void **from;
    char *pieces; /* the scratch */
} members_sum;

/* Limits the pieces of all other members together to the size of the group's scratch for collectives. */
static int64_t members_piece_elements(const mega_members *m, mega_dtype dtype)
{
    const int64_t n = (int64_t)(comm_scratch_bytes(m->comm) / mega_dtype_size(dtype)) / (m->count - 1);
    return n > 0 ? n : 1;
}

size_t mega_comm_members_lists(const mega_members *m)
{
    return (size_t)m->count * (2 * sizeof(mega_request) + sizeof(void *));
}

size_t mega_comm_members_scratch(const mega_members *m, int64_t count, mega_dtype dtype)
{
    if (m->count < 2) return 0;
    const int64_t share = (count + m->count - 1) / m->count, most = members_piece_elements(m, dtype);
    return (size_t)((share < most ? share : most) * (m->count - 1)) * mega_dtype_size(dtype);
}

/* Returns how many elements of a member's share are summed in this round; they begin at *first. */
static int64_t members_part_of(const members_sum *s, int member, int64_t round, int64_t *first)
{
    const int64_t begin = s->count * member / s->m->count, end = s->count * (member + 1) / s->m->count;
    const int64_t left = end - begin - round * s->piece;
    *first = begin + round * s->piece;
    return left < 0 ? 0 : left < s->piece ? left : s->piece;
}

static char *members_element(const members_sum *s, int64_t at)
{
    return s->data + at * (int64_t)mega_dtype_size(s->dtype);
}

static mega_status members_exchange(const members_sum *s, int64_t round, bool is_sum)
{
    const int64_t size = (int64_t)mega_dtype_size(s->dtype);
    int64_t own, theirs;
    const int64_t mine = members_part_of(s, s->m->own, round, &own);
    char *piece = s->pieces;
    for (int k = 0; k < s->m->count; k++) {
        const int64_t n = members_part_of(s, k, round, &theirs);
        s->send[k] = s->receive[k] = (mega_request){.world = NULL};
        s->from[k] = members_element(s, own);
        if (k == s->m->own) continue;
        if (!is_sum) s->from[k] = piece;
        /* first the numbers go to the member that owns the share; then it sends the sum back */
        void *into = is_sum ? members_element(s, theirs) : piece;
        const int64_t out = is_sum ? mine : n, in = is_sum ? n : mine;
        piece += mine * size;
        if (in > 0)
            MEGA_TRY(mega_comm_receive_start(s->m->comm, s->name, s->m->rank[k], into, in * size, &s->receive[k]));
        if (out > 0)
            MEGA_TRY(mega_comm_send_start(s->m->comm, s->name, s->m->rank[k], members_element(s, is_sum ? own : theirs),
                                          out * size, &s->send[k]));
    }
    for (int k = 0; k < s->m->count; k++) {
        MEGA_TRY(mega_comm_wait(&s->receive[k]));
        MEGA_TRY(mega_comm_wait(&s->send[k]));
    }
    if (!is_sum && mine > 0)
        comm_reduce(members_element(s, own), s->from, s->m->count, mine, s->dtype, MEGA_REDUCE_SUM);
    return MEGA_OK;
}

static mega_status members_sum_all(const mega_members *m, const char *name, void *data, int64_t count, mega_dtype dtype,
                                   void *lists, void *scratch)
{
    members_sum s = {.m = m, .name = name, .data = data, .count = count, .dtype = dtype, .pieces = scratch};
    const int64_t share = (count + m->count - 1) / m->count;
    s.piece = members_piece_elements(m, dtype);
    s.send = lists;
    s.receive = s.send + m->count;
    s.from = (const void **)(s.receive + m->count);
    for (int64_t round = 0; round * s.piece < share; round++) {
        MEGA_TRY(members_exchange(&s, round, false));
        MEGA_TRY(members_exchange(&s, round, true));
    }
    return MEGA_OK;
}

static mega_status device_sum(const mega_members *m, const char *name, void *data, int64_t count, mega_dtype dtype)
{
    const comm_op op = {.kind = COMM_ALL_REDUCE,
                        .comm = m->comm,
                        .members = m,
                        .name = name,
                        .out = data,
                        .in = data,
                        .count = count,
                        .dtype = dtype,
                        .reduce = MEGA_REDUCE_SUM,
                        .number = ++m->comm->messages};
    mega_request r;
    if (count == 0) return MEGA_OK;
    MEGA_TRY(comm_begin(&op, &r));
    return mega_comm_wait(&r);
}

mega_status mega_comm_members_sum(const mega_members *m, const char *name, void *data, int64_t count, mega_dtype dtype,
                                  void *lists, void *scratch)
{
    if (m->count < 2) return MEGA_OK;
    MEGA_TRY(comm_check_reducible(dtype, name));
    if (m->devices != NULL && mega_device_of(data) == m->comm->device) return device_sum(m, name, data, count, dtype);
    if (mega_device_is_host(data)) return members_sum_all(m, name, data, count, dtype, lists, scratch);
    const size_t bytes = (size_t)count * mega_dtype_size(dtype), aligned = (bytes + 63) / 64 * 64;
    comm_stage stage;
    MEGA_TRY(comm_stage_take(m->comm->world, data, aligned + mega_comm_members_scratch(m, count, dtype), &stage));
    comm_stage_in(&stage, 0, data, bytes);
    MEGA_TRY(members_sum_all(m, name, stage.data, count, dtype, lists, stage.data + aligned));
    comm_stage_out(&stage, 0, data, bytes);
    comm_stage_give(&stage);
    return MEGA_OK;
}
