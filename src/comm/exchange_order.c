/* Whether ranks that make their exchanges in given orders wait for each other for ever (exchange_order.h). */
#include "megalith/exchange_order.h"
#include "comm_impl.h"
#include "megalith/compare.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- the list of a rank ---- */

static void order_add(mega_order *o, const char *name, mega_ordered what)
{
    if (o->failed || !mega_array_reserve(&o->item, &o->items, o->count + 1, sizeof *o->item) ||
        !mega_array_reserve(&o->name, &o->names, o->count + 1, sizeof *o->name)) {
        o->failed = true;
        return;
    }
    o->item[o->count] = what;
    o->name[o->count++] = name;
}

void mega_order_start(mega_order *o, const char *name, int way, bool is_sent, mega_ordered *out)
{
    *out = (mega_ordered){.kind = is_sent ? MEGA_ORDERED_SEND : MEGA_ORDERED_RECEIVE,
                          .way = (uint8_t)way,
                          .number = is_sent ? o->sent[way]++ : o->received[way]++};
    order_add(o, name, *out);
}

void mega_order_await(mega_order *o, const char *name, mega_ordered *message)
{
    mega_ordered what = *message;
    if (what.kind == MEGA_ORDERED_NONE) return;
    what.kind = what.kind == MEGA_ORDERED_SEND ? MEGA_ORDERED_AWAIT_SENT : MEGA_ORDERED_AWAIT_RECEIVED;
    *message = (mega_ordered){.kind = MEGA_ORDERED_NONE};
    order_add(o, name, what);
}

void mega_order_meet(mega_order *o, const char *name, int ranks, uint64_t identity)
{
    order_add(o, name,
              (mega_ordered){.kind = MEGA_ORDERED_MEET,
                             .ranks = (uint16_t)ranks,
                             .number = (uint32_t)(identity ^ identity >> 32)});
}

void mega_order_fini(mega_order *o)
{
    mega_free(o->item);
    mega_free(o->name);
    *o = (mega_order){.item = NULL};
}

/* ---- playing the lists of all ranks ---- */

static bool is_sent_by_me(const mega_ordered *x)
{
    return x->kind == MEGA_ORDERED_SEND || x->kind == MEGA_ORDERED_AWAIT_SENT;
}

/* The other end of a message of rank r. */
static int other_end(const mega_ordered *x, int r, int ranks)
{
    return is_sent_by_me(x) == (x->way == 0) ? (r + 1) % ranks : (r + ranks - 1) % ranks;
}

static bool is_complete(const mega_order_rank *all, int r, int ranks, const mega_ordered *x)
{
    const mega_order_rank *mine = &all[r], *other = &all[other_end(x, r, ranks)];
    const uint32_t sent = (is_sent_by_me(x) ? mine : other)->sent[x->way];
    const uint32_t received = (is_sent_by_me(x) ? other : mine)->received[x->way];
    return x->number < sent && x->number < received;
}

/* Passes the items of rank r that wait for nothing. Returns whether there was one. */
static bool rank_goes_on(mega_order_rank *all, int r, int ranks)
{
    mega_order_rank *mine = &all[r];
    const int64_t began = mine->at;
    for (; mine->at < mine->count; mine->at++) {
        const mega_ordered *x = &mine->item[mine->at];
        if (x->kind == MEGA_ORDERED_SEND) mine->sent[x->way]++;
        else if (x->kind == MEGA_ORDERED_RECEIVE)
            mine->received[x->way]++;
        else if (x->kind == MEGA_ORDERED_MEET || !is_complete(all, r, ranks, x))
            break;
    }
    return mine->at > began;
}

static bool is_at(const mega_order_rank *rank, const mega_ordered *x)
{
    return rank->at < rank->count && memcmp(&rank->item[rank->at], x, sizeof *x) == 0;
}

/* Lets ranks pass a meeting to which all have come. */
static bool some_meet(mega_order_rank *all, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        if (all[r].at == all[r].count || all[r].item[all[r].at].kind != MEGA_ORDERED_MEET) continue;
        const mega_ordered x = all[r].item[all[r].at];
        int there = 0;
        for (int k = r; k < ranks; k++) there += is_at(&all[k], &x);
        if (there != x.ranks) continue;
        for (int k = r; k < ranks; k++) all[k].at += is_at(&all[k], &x);
        return true;
    }
    return false;
}

bool mega_order_play(mega_order_rank *rank, int ranks)
{
    bool is_at_end = true, has_moved;
    do {
        has_moved = false;
        for (int r = 0; r < ranks; r++) has_moved |= rank_goes_on(rank, r, ranks);
        if (!has_moved) has_moved = some_meet(rank, ranks);
    } while (has_moved);
    for (int r = 0; r < ranks; r++) is_at_end &= rank[r].at == rank[r].count;
    return is_at_end;
}

/* ---- over ranks ---- */

static void describe_wait(const mega_order *o, const mega_comm *comm, int64_t at, char out[MEGA_COMPARED_TEXT])
{
    const mega_ordered *x = &o->item[at];
    char what[160];
    if (x->kind == MEGA_ORDERED_MEET) snprintf(what, sizeof what, "for %d ranks to meet in %s", x->ranks, o->name[at]);
    else
        snprintf(what, sizeof what, "until rank %d has %s %s %u",
                 comm_world_rank(comm, other_end(x, comm->rank, comm->size)), is_sent_by_me(x) ? "received" : "sent",
                 o->name[at], x->number);
    snprintf(out, MEGA_COMPARED_TEXT, "waits %s, after %lld of its %lld starts and waits", what, (long long)at,
             (long long)o->count);
}

/* Lists the first ranks that would wait for ever. */
static mega_status order_report(const mega_order *o, mega_comm *comm, const mega_order_rank *rank)
{
    char mine[MEGA_COMPARED_TEXT] = "", *all = mega_calloc((size_t)comm->size, MEGA_COMPARED_TEXT);
    mega_buffer text = {0};
    mega_status st = mega_comm_agree(comm, all != NULL ? MEGA_OK : MEGA_NO_MEMORY("order of exchanges", "its report"));
    if (rank[comm->rank].at < o->count) describe_wait(o, comm, rank[comm->rank].at, mine);
    if (st == MEGA_OK) st = mega_comm_all_gather(comm, "order of exchanges", all, mine, sizeof mine, MEGA_U8);
    mega_buffer_printf(&text, "group %s: its ranks would wait for each other for ever:", comm->name);
    for (int r = 0, named = 0; st == MEGA_OK && r < comm->size && named < MEGA_COMPARED_MOST; r++) {
        if (rank[r].at == rank[r].count) continue;
        mega_buffer_printf(&text, "\n  rank %d %s", comm_world_rank(comm, r), all + (size_t)r * MEGA_COMPARED_TEXT);
        named++;
    }
    if (st == MEGA_OK)
        st = MEGA_FAIL(MEGA_ERR_COMM,
                       "%s\n  start all ranks with one program and the same options; if they were, please report this",
                       text.failed ? "ranks would wait for each other for ever" : text.data);
    mega_buffer_fini(&text);
    mega_free(all);
    return st;
}

/* all: `most` items of each rank, in the order of ranks. */
static mega_status order_play(const mega_order *o, mega_comm *comm, const int64_t *count, int64_t most,
                              mega_ordered *all, mega_order_rank *rank)
{
    mega_ordered *mine = all + most * comm->rank;
    for (int64_t i = 0; i < most; i++) mine[i] = i < o->count ? o->item[i] : (mega_ordered){.kind = MEGA_ORDERED_NONE};
    MEGA_TRY(mega_comm_all_gather(comm, "order of exchanges", all, mine, most * (int64_t)sizeof *mine, MEGA_U8));
    for (int r = 0; r < comm->size; r++) rank[r] = (mega_order_rank){.item = all + most * r, .count = count[r]};
    return mega_order_play(rank, comm->size) ? MEGA_OK : order_report(o, comm, rank);
}

mega_status mega_order_check(const mega_order *mine, mega_comm *comm)
{
    const size_t ranks = (size_t)comm->size;
    int64_t *count = mega_calloc(ranks, sizeof *count), most = 1;
    mega_order_rank *rank = mega_calloc(ranks, sizeof *rank);
    const bool has_all = count != NULL && rank != NULL && !mine->failed;
    mega_status st = mega_comm_agree(comm, has_all ? MEGA_OK : MEGA_NO_MEMORY("order of exchanges", "their list"));
    if (st == MEGA_OK) st = mega_comm_all_gather(comm, "numbers of exchanges", count, &mine->count, 1, MEGA_I64);
    for (size_t r = 0; st == MEGA_OK && r < ranks; r++) most = count[r] > most ? count[r] : most;
    mega_ordered *all = st == MEGA_OK ? mega_calloc(ranks * (size_t)most, sizeof *all) : NULL;
    if (st == MEGA_OK)
        st = mega_comm_agree(comm, all != NULL ? MEGA_OK : MEGA_NO_MEMORY("order of exchanges", "those of all ranks"));
    if (st == MEGA_OK) st = order_play(mine, comm, count, most, all, rank);
    mega_free(all);
    mega_free(rank);
    mega_free(count);
    return st;
}
