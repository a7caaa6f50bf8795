/* Exchanges that devices make themselves (device_exchange.h), where each rank has a device of its own. An operation is
 * then work of the device: its start queues it, its wait lets later work of the device come after it, and the host
 * waits for neither. Its place in the table is free again when it is done; until then, a host that waits for its device
 * can say in which one that waits. */
#include "megalith/comm_log.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "watch/stall_impl.h"

#include <stdio.h>
#include <string.h>

enum {
    AXES = 7,
    MOST_AWAITED = MEGA_COMM_REQUESTS / 2, /* the host waits before there are more */
    SPINS = 200,                           /* looks before this rank yields its core */
    CLOCK_EVERY = 64                       /* looks between those at the clock */
};
enum { LANE_COLLECTIVES, LANE_PIPELINE, LANES_OF_DIRECTION = 2 };

#define FAILED_WAITS_S 2.0 /* how long after a failure of the world an exchange may take */

/* ---- operations ---- */

static int neighbour(const mega_comm *comm, int away)
{
    return (comm->rank + away + comm->size) % comm->size;
}

/* The group of devices that makes it; NULL: there is none. */
static mega_exchange_group *device_group_of(const comm_op *op)
{
    const mega_comm *c = op->comm;
    if (op->kind == COMM_SEND) return op->peer == neighbour(c, c->forth) ? c->to_next : NULL;
    if (op->kind == COMM_RECEIVE) return op->peer == neighbour(c, -c->forth) ? c->from_previous : NULL;
    return op->members != NULL ? op->members->devices : c->collectives;
}

bool comm_of_devices(const comm_op *op)
{
    const void *in = op->in != NULL ? op->in : op->out, *out = op->out != NULL ? op->out : op->in;
    mega_device *const device = op->comm->device;
    return device != NULL && op->count > 0 && mega_device_of(in) == device && mega_device_of(out) == device &&
           device_group_of(op) != NULL;
}

static mega_exchange_kind device_kind(comm_kind kind)
{
    switch (kind) {
    case COMM_SEND: return MEGA_EXCHANGE_SEND;
    case COMM_RECEIVE: return MEGA_EXCHANGE_RECEIVE;
    case COMM_REDUCE_SCATTER: return MEGA_EXCHANGE_REDUCE_SCATTER;
    case COMM_ALL_GATHER: return MEGA_EXCHANGE_ALL_GATHER;
    case COMM_ALL_TO_ALL: return MEGA_EXCHANGE_ALL_TO_ALL;
    case COMM_BROADCAST: return MEGA_EXCHANGE_BROADCAST;
    case COMM_MESSAGES: return MEGA_EXCHANGE_MESSAGES;
    default: return MEGA_EXCHANGE_ALL_REDUCE;
    }
}

mega_status comm_devices_start(comm_op *op, int place)
{
    mega_device *const device = op->comm->device;
    const mega_exchange what = {.kind = device_kind(op->kind),
                                .name = op->name,
                                .in = op->in,
                                .out = op->out,
                                .messages = op->list,
                                .count = op->kind == COMM_MESSAGES ? op->listed : op->count,
                                .dtype = op->dtype,
                                .reduce = op->reduce,
                                .peer = op->kind == COMM_SEND      ? 1
                                        : op->kind == COMM_RECEIVE ? 0
                                                                   : op->peer,
                                .place = place,
                                .is_timed = op->began > 0};
    op->state = COMM_OF_DEVICE;
    op->moved = mega_time_now();
    return device->exchanges->start(device, device_group_of(op), &what);
}

mega_status comm_devices_retire(mega_world *w)
{
    while (w->awaited >= 0) {
        comm_op *op = &w->op[w->awaited];
        mega_device *const device = op->comm->device;
        bool is_done;
        MEGA_TRY(device->exchanges->is_done(device, w->awaited, &is_done));
        if (!is_done) return MEGA_OK;
        if (w->log != NULL && op->began > 0) {
            double seconds;
            MEGA_TRY(device->exchanges->seconds(device, w->awaited, &seconds));
            op->moved = op->began + seconds;
            comm_log_add(op, 0);
        }
        op->state = COMM_FREE;
        w->awaited = op->next;
        w->num_awaited--;
    }
    return MEGA_OK;
}

static mega_status device_look(void *user, long times);
static void device_look_over(void *user);

mega_status comm_devices_await(comm_op *op, int place)
{
    mega_world *w = op->comm->world;
    mega_device *const device = op->comm->device;
    MEGA_TRY(device->exchanges->await(device, place));
    op->is_awaited = true;
    op->next = -1;
    if (w->awaited < 0) w->awaited = place;
    else
        w->op[w->last_awaited].next = place;
    w->last_awaited = place;
    w->num_awaited++;
    mega_status st = comm_devices_retire(w);
    for (long times = 0; st == MEGA_OK && w->num_awaited > MOST_AWAITED; times++) st = device_look(w, times);
    device_look_over(w);
    return st;
}

int comm_devices_missing(const comm_op *op, int *ranks, int most)
{
    const mega_comm *c = op->comm;
    int count = 0;
    if (op->kind == COMM_SEND || op->kind == COMM_RECEIVE) {
        ranks[0] = comm_world_rank(c, op->peer);
        return 1;
    }
    const mega_members *m = op->members;
    for (int i = 0; i < (m != NULL ? m->count : c->size) && count < most; i++) {
        const int r = m != NULL ? m->rank[i] : i;
        if (r != c->rank) ranks[count++] = comm_world_rank(c, r);
    }
    return count;
}

/* ---- waits of the host for its device ---- */

/* The exchange in which a device waits, or the host for the device's library: the first that its later work waits for,
 * else one that was started; NULL: the device does not wait for other ranks. */
static const comm_op *op_of_device(const mega_world *w)
{
    if (w->connecting != NULL) return w->connecting;
    if (w->awaited >= 0) return &w->op[w->awaited];
    for (int i = 0; i < w->used; i++)
        if (w->op[i].state == COMM_OF_DEVICE) return &w->op[i];
    return NULL;
}

static void wait_begin(mega_world *w, const comm_op *op, double now)
{
    record_wait_begin(w, op, now);
    stall_begin(w, now);
    w->device_waits = true;
    w->device_began = now;
}

/* Other operations go on meanwhile, and the waits of other ranks for this one. */
static mega_status device_look(void *user, long times)
{
    mega_world *w = user;
    MEGA_TRY(mega_comm_poll(w));
    MEGA_TRY(comm_devices_retire(w));
    if (times < SPINS) return MEGA_OK;
    transport_yield(w, times - SPINS);
    if (times % CLOCK_EVERY != 0) return MEGA_OK;
    transport_progress(w);
    const comm_op *op = op_of_device(w);
    const double now = mega_time_now();
    if (op == NULL) return MEGA_OK;
    if (!w->device_waits) wait_begin(w, op, now);
    if ((w->failed || w->stalled) && now - w->device_began > FAILED_WAITS_S)
        return MEGA_FAIL(MEGA_ERR_COMM, "%s #%llu (%s) of group %s does not end: another rank has failed",
                         comm_kind_name(op->kind), (unsigned long long)op->number, op->name, op->comm->name);
    return stall_poll(op, now);
}

static void device_look_over(void *user)
{
    mega_world *w = user;
    if (!w->device_waits) return;
    w->device_waits = false;
    record_wait_end(w);
    stall_wait_ended(w);
}

/* ---- whether devices can ---- */

/* What all ranks know of one. */
typedef struct device_facts {
    int32_t host, version; /* 0: it cannot, and `text` says why */
    char identity[32], text[320];
} device_facts;

static void version_text(char out[24], int version)
{
    const int major = version < 10000 ? 1000 : 10000;
    snprintf(out, 24, "%d.%d.%d", version / major, version % major / 100, version % 100);
}

/* Writes why devices of the ranks cannot exchange by themselves. Returns whether they can. */
static bool can_all(const device_facts *all, int ranks, char *why, size_t size)
{
    char one[24], other[24];
    for (int i = 0; i < ranks; i++) {
        if (all[i].version == 0) snprintf(why, size, "rank %d has %s", i, all[i].text);
        if (all[i].version == 0) return false;
    }
    for (int i = 1; i < ranks; i++) {
        if (all[i].version == all[0].version) continue;
        version_text(one, all[0].version);
        version_text(other, all[i].version);
        snprintf(why, size, "rank 0 has NCCL %s, and rank %d %s", one, i, other);
        return false;
    }
    for (int i = 1; i < ranks; i++)
        for (int k = 0; k < i; k++) {
            if (all[i].host != all[k].host || strcmp(all[i].identity, all[k].identity) != 0) continue;
            snprintf(why, size, "ranks %d and %d share the GPU %s, which NCCL refuses", k, i, all[i].identity);
            return false;
        }
    return true;
}

static mega_status compare_ranks(mega_world *w, const device_facts *mine, bool *can, char *why, size_t size)
{
    device_facts *all = mega_calloc((size_t)w->size, sizeof *all);
    mega_status st = mega_comm_agree(&w->all, all != NULL ? MEGA_OK : MEGA_NO_MEMORY("exchanges of devices", "ranks"));
    if (st == MEGA_OK)
        st = mega_comm_all_gather(&w->all, "devices of the ranks", all, mine, (int64_t)sizeof *mine, MEGA_U8);
    if (st == MEGA_OK) *can = can_all(all, w->size, why, size);
    mega_free(all);
    return st;
}

static mega_status ask_all(mega_world *w, mega_device *device, bool *can, char *why, size_t size)
{
    const mega_exchange_watch watch = {device_look, device_look_over, w};
    device_facts mine = {.host = w->host_first};
    const mega_status st = device->exchanges == NULL
                               ? MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "no exchanges of %s", device->name)
                               : device->exchanges->open(device, MEGA_COMM_REQUESTS, &watch);
    snprintf(mine.identity, sizeof mine.identity, "%s", device->identity);
    if (st == MEGA_OK) mine.version = device->exchanges->version(device);
    else
        snprintf(mine.text, sizeof mine.text, "%s", mega_error_message());
    return compare_ranks(w, &mine, can, why, size);
}

/* ---- groups of devices ---- */

/* One that is opened: collectives of a group or of some of its ranks, or a direction between two neighbours of a
 * pipeline. */
typedef struct device_link {
    mega_comm *comm;
    const mega_members *members; /* NULL: all ranks of the group */
    mega_exchange_group **group;
    char id[MEGA_EXCHANGE_ID];
    int ranks, rank, lane;
} device_link;

enum { FEWEST_LINKS = AXES + 4 };
typedef struct device_links {
    device_link *link; /* [FEWEST_LINKS + members] */
    int count;
} device_links;

/* Groups of the same ranks share one: their collectives have one order in any case. */
static void share_or_add(device_links *all, mega_comm *const *group, int i)
{
    for (int k = 0; k < i; k++)
        if (group[k]->size == group[i]->size && group[k]->stride == group[i]->stride) return;
    all->link[all->count++] = (device_link){.comm = group[i],
                                            .group = &group[i]->collectives,
                                            .ranks = group[i]->size,
                                            .rank = group[i]->rank,
                                            .lane = LANE_COLLECTIVES};
}

/* The two directions that this rank takes part in, in an order that is the same for all: that of their senders. */
static void add_directions(device_links *all, mega_comm *c, int forth, int lane)
{
    c->forth = forth;
    for (int sender = 0; sender < c->size && c->size > 1; sender++) {
        const bool sends = sender == c->rank, receives = (sender + forth + c->size) % c->size == c->rank;
        if (!sends && !receives) continue;
        all->link[all->count++] = (device_link){.comm = c,
                                                .group = sends ? &c->to_next : &c->from_previous,
                                                .ranks = 2,
                                                .rank = sends ? 0 : 1,
                                                .lane = lane + (sends ? 0 : 1)};
    }
}

static bool are_same_members(const mega_members *a, const mega_members *b)
{
    return a->count == b->count && memcmp(a->rank, b->rank, (size_t)a->count * sizeof *a->rank) == 0;
}

/* The sums of members whom no earlier ones and no group have already: of all stages, those of pp. */
static void add_members(device_links *all, mega_members *const *members, int i)
{
    mega_members *m = members[i];
    if (m->count < 2 || m->count == m->comm->size) return;
    for (int k = 0; k < i; k++)
        if (are_same_members(members[k], m)) return;
    all->link[all->count++] = (device_link){.comm = m->comm,
                                            .members = m,
                                            .group = &m->devices,
                                            .ranks = m->count,
                                            .rank = m->own,
                                            .lane = LANE_COLLECTIVES};
}

static void share_members(mega_members *const *members, int count)
{
    for (int i = 0; i < count; i++) {
        mega_members *m = members[i];
        if (m->count == m->comm->size) m->devices = m->comm->collectives;
        for (int k = 0; k < i && m->devices == NULL; k++)
            if (are_same_members(members[k], m)) m->devices = members[k]->devices;
    }
}

static mega_status make_ids(device_links *all, mega_device *device)
{
    for (int i = 0; i < all->count; i++)
        if (all->link[i].rank == 0) MEGA_TRY(device->exchanges->id(device, all->link[i].id));
    return MEGA_OK;
}

static const char what_is_sent[] = "identifier of exchanges";

static mega_status send_id_to_members(device_link *l)
{
    const mega_members *m = l->members;
    mega_request request;
    for (int i = 1; i < m->count; i++) {
        if (m->own != 0 && m->own != i) continue;
        MEGA_TRY(m->own == 0
                     ? mega_comm_send_start(m->comm, what_is_sent, m->rank[i], l->id, sizeof l->id, &request)
                     : mega_comm_receive_start(m->comm, what_is_sent, m->rank[0], l->id, sizeof l->id, &request));
        MEGA_TRY(mega_comm_wait(&request));
    }
    return MEGA_OK;
}

static mega_status send_ids(device_links *all)
{
    static const char *const what = what_is_sent;
    for (int i = 0; i < all->count; i++) {
        device_link *l = &all->link[i];
        mega_comm *c = l->comm;
        mega_request request;
        if (l->members != NULL) {
            MEGA_TRY(send_id_to_members(l));
            continue;
        }
        if (l->lane == LANE_COLLECTIVES) {
            MEGA_TRY(mega_comm_broadcast(c, what, l->id, sizeof l->id, 0));
            continue;
        }
        MEGA_TRY(l->rank == 0
                     ? mega_comm_send_start(c, what, neighbour(c, c->forth), l->id, sizeof l->id, &request)
                     : mega_comm_receive_start(c, what, neighbour(c, -c->forth), l->id, sizeof l->id, &request));
        MEGA_TRY(mega_comm_wait(&request));
    }
    return MEGA_OK;
}

/* What a wait for the other ranks of a link is reported as. */
static comm_op connecting_op(const device_link *l)
{
    const bool sends = l->rank == 0;
    mega_comm *c = l->comm;
    return (comm_op){.kind = l->lane == LANE_COLLECTIVES ? COMM_BARRIER
                             : sends                     ? COMM_SEND
                                                         : COMM_RECEIVE,
                     .state = COMM_OF_DEVICE,
                     .comm = c,
                     .name = "connecting devices",
                     .peer = neighbour(c, sends ? c->forth : -c->forth)};
}

static mega_status open_group(const device_link *l, mega_device *device, const char *name)
{
    mega_world *w = l->comm->world;
    const comm_op op = connecting_op(l);
    w->connecting = &op;
    const mega_status st = device->exchanges->group_open(device, name, l->id, l->ranks, l->rank, l->lane, l->group);
    w->connecting = NULL;
    return st;
}

static mega_status open_groups(const device_links *all, mega_device *device)
{
    char name[MEGA_EXCHANGE_NAME];
    for (int i = 0; i < all->count; i++) {
        const device_link *l = &all->link[i];
        if (l->members != NULL) snprintf(name, sizeof name, "%d ranks of group %s", l->ranks, l->comm->name);
        else if (l->lane == LANE_COLLECTIVES)
            snprintf(name, sizeof name, "group %s", l->comm->name);
        else
            snprintf(name, sizeof name, "messages %s of group %s",
                     l->rank == 0 ? "to the next rank" : "from the rank before", l->comm->name);
        MEGA_TRY(open_group(l, device, name));
    }
    return MEGA_OK;
}

/* One small exchange in each: NCCL connects ranks when they first exchange, and the host then waits for the others. */
static mega_status try_groups(const device_links *all, mega_device *device)
{
    enum { NUMBERS = 64 };
    void *block = NULL;
    MEGA_TRY(mega_device_alloc(device, &block, NUMBERS * sizeof(float), "a first exchange"));
    mega_status st = MEGA_OK;
    for (int i = 0; i < all->count && st == MEGA_OK; i++) {
        const device_link *l = &all->link[i];
        const comm_op op = connecting_op(l);
        const mega_exchange_kind kind = l->lane == LANE_COLLECTIVES ? MEGA_EXCHANGE_ALL_REDUCE
                                        : l->rank == 0              ? MEGA_EXCHANGE_SEND
                                                                    : MEGA_EXCHANGE_RECEIVE;
        const mega_exchange what = {.kind = kind,
                                    .name = "a first exchange",
                                    .in = block,
                                    .out = block,
                                    .count = NUMBERS,
                                    .dtype = MEGA_F32,
                                    .peer = 1 - l->rank,
                                    .place = i};
        st = device->exchanges->start(device, *l->group, &what);
        if (st == MEGA_OK) st = device->exchanges->await(device, i);
        l->comm->world->connecting = &op;
        if (st == MEGA_OK) st = mega_device_finish(device);
        l->comm->world->connecting = NULL;
    }
    mega_device_free(block, NUMBERS * sizeof(float));
    return st;
}

/* Those of the layout. */
static void add_groups(device_links *all, const mega_layout *l, mega_comm *const group[AXES])
{
    for (int i = 0; i < AXES; i++)
        if (group[i]->size > 1) share_or_add(all, group, i);
    add_directions(all, l->pp.comm, 1, LANE_PIPELINE);
    add_directions(all, l->pp_back.comm, -1, LANE_PIPELINE + LANES_OF_DIRECTION);
}

int mega_layout_links(const mega_layout *l)
{
    mega_comm *const group[AXES] = {l->tp.comm, l->cp.comm,  l->dp.comm,   l->pp.comm,
                                    l->ep.comm, l->edp.comm, l->world.comm};
    device_link link[FEWEST_LINKS];
    device_links all = {.link = link};
    add_groups(&all, l, group);
    return all.count;
}

static mega_status connect_links(mega_comm *world, device_links *all, mega_device *device)
{
    MEGA_TRY(mega_comm_agree(world, make_ids(all, device)));
    MEGA_TRY(send_ids(all));
    MEGA_TRY(mega_comm_agree(world, open_groups(all, device)));
    return mega_comm_agree(world, try_groups(all, device));
}

static mega_status connect_all(mega_layout *l, mega_device *device, mega_members *const *members, int count)
{
    mega_comm *const world = &l->world.comm->world->all;
    mega_comm *const group[AXES] = {l->tp.comm, l->cp.comm,  l->dp.comm,   l->pp.comm,
                                    l->ep.comm, l->edp.comm, l->world.comm};
    device_links all = {.link = mega_calloc((size_t)(FEWEST_LINKS + count), sizeof *all.link)};
    MEGA_TRY(mega_comm_agree(world, all.link != NULL ? MEGA_OK : MEGA_NO_MEMORY("exchanges of devices", "groups")));
    add_groups(&all, l, group);
    for (int i = 0; i < count; i++) add_members(&all, members, i);
    const mega_status st = connect_links(world, &all, device);
    mega_free(all.link);
    MEGA_TRY(st);
    for (int i = 0; i < AXES; i++) {
        group[i]->device = device;
        for (int k = 0; k < i && group[i]->collectives == NULL; k++)
            if (group[k]->size == group[i]->size && group[k]->stride == group[i]->stride)
                group[i]->collectives = group[k]->collectives;
    }
    l->pp_back.comm->device = device;
    share_members(members, count);
    return MEGA_OK;
}

mega_status mega_layout_connect(mega_layout *l, mega_device *device, mega_members *const *members, int count,
                                bool is_required, char said[MEGA_COMM_SAID])
{
    mega_world *const w = l->world.comm->world;
    char why[400] = "", version[24];
    bool can = false;
    said[0] = '\0';
    if (w == NULL || device == NULL || l->world.comm->device != NULL) return MEGA_OK;
    MEGA_TRY(ask_all(w, device, &can, why, sizeof why));
    if (!can && device->exchanges != NULL) device->exchanges->close(device);
    if (!can && is_required)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "--distributed-backend nccl: %s; leave the option out to exchange through the memory of the "
                         "hosts where NCCL cannot",
                         why);
    if (!can) snprintf(said, MEGA_COMM_SAID, "ranks exchange through the memory of their hosts: %s", why);
    if (!can) return MEGA_OK;
    version_text(version, device->exchanges->version(device));
    MEGA_TRY(connect_all(l, device, members, count));
    const int n = snprintf(said, MEGA_COMM_SAID, "ranks exchange by NCCL %s", version);
    const size_t taken = device->exchanges->taken(device);
    if (taken > 0)
        snprintf(said + n, MEGA_COMM_SAID - (size_t)n, ": %d communicators, for which the GPU has %.4g MB less",
                 mega_layout_links(l), (double)taken * 1e-6);
    return MEGA_OK;
}

/* What was started and is not done is ended with the groups. */
void comm_devices_close(mega_comm *group, int groups)
{
    mega_device *device = NULL;
    mega_world *w = NULL;
    for (int i = 0; i < groups; i++)
        if (group[i].device != NULL) device = group[i].device, w = group[i].world != NULL ? group[i].world : w;
    if (device == NULL || w == NULL) return;
    device->exchanges->close(device);
    int kept = -1;
    for (int k = w->awaited, next; k >= 0; k = next) {
        next = w->op[k].next;
        if (w->op[k].comm->device == device) continue;
        if (kept < 0) w->awaited = k;
        else
            w->op[kept].next = k;
        kept = k;
    }
    if (kept < 0) w->awaited = -1;
    else
        w->op[kept].next = -1;
    w->last_awaited = kept;
    for (int i = 0; i < w->used; i++)
        if (w->op[i].state == COMM_OF_DEVICE && w->op[i].comm->device == device) {
            w->num_awaited -= w->op[i].is_awaited;
            w->op[i].state = COMM_FREE;
        }
    for (int i = 0; i < groups; i++) group[i].device = NULL;
}
