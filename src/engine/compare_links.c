/* Compares the messages between neighbours of a pipeline, derived from the schedules of both: one must await what the
 * other sends, in the same order and of the same size. */
#include "engine_build.h"
#include "megalith/compare.h"
#include "megalith/hash.h"
#include "megalith/memory.h"

#include <stdio.h>

/* The four lists of messages of a stage. */
enum { SENT_FORWARD, AWAITED_FORWARD, SENT_BACK, AWAITED_BACK, NUM_LISTS };

typedef struct messages {
    const mega_engine *e;
    const mega_schedule_pass *pass;
    int64_t passes;
    engine_kind kind;
} messages;

/* border: index of the border between two parts of the model, counted over all chunks of all stages. bytes: by value of
 * the flow. */
typedef struct message {
    int64_t border, micro_batch, bytes[MEGA_FLOW_VALUES];
} message;

/* Writes the message that pass x sends or awaits in this list to *out. Returns false if there is none. */
static bool message_of(const messages *m, const mega_schedule_pass *x, int list, message *out)
{
    static const mega_border kind[NUM_LISTS] = {MEGA_BORDER_OUTPUT, MEGA_BORDER_INPUT, MEGA_BORDER_INPUT_GRADIENT,
                                                MEGA_BORDER_OUTPUT_GRADIENT};
    const bool is_forward = list == SENT_FORWARD || list == AWAITED_FORWARD;
    const bool is_behind = list == SENT_FORWARD || list == AWAITED_BACK; /* the border at the end of the chunk */
    const mega_program *p = engine_program_of(&m->e->programs.chunk[x->chunk], m->kind);
    if (x->forward != is_forward) return false;
    out->border = (int64_t)x->chunk * m->e->layout->pp.size + m->e->layout->pp.rank + is_behind;
    out->micro_batch = x->micro_batch;
    int64_t all = 0;
    for (int v = 0; v < MEGA_FLOW_VALUES; v++) {
        out->bytes[v] = (int64_t)mega_program_tensor_bytes(p, mega_border_name(kind[list], v));
        all += out->bytes[v];
    }
    return all > 0;
}

/* Returns a hash of the first `first` messages of the list; *count receives the number of all its messages. */
static uint64_t hash_list(const messages *m, int list, int64_t first, int64_t *count)
{
    uint64_t hash = MEGA_HASH_START;
    message now;
    *count = 0;
    for (int64_t i = 0; i < m->passes; i++) {
        if (!message_of(m, &m->pass[i], list, &now)) continue;
        if ((*count)++ < first) hash = mega_hash64(hash, &now, sizeof now);
    }
    return hash;
}

static void links_describe(const messages *m, int list, int64_t i, char out[MEGA_COMPARED_TEXT])
{
    message now;
    for (int64_t k = 0; k < m->passes; k++)
        if (message_of(m, &m->pass[k], list, &now) && i-- == 0) {
            int64_t bytes = 0;
            for (int v = 0; v < MEGA_FLOW_VALUES; v++) bytes += now.bytes[v];
            snprintf(out, MEGA_COMPARED_TEXT, "%lld bytes of micro-batch %lld at border %lld of the model's parts",
                     (long long)bytes, (long long)now.micro_batch, (long long)now.border);
            return;
        }
    snprintf(out, MEGA_COMPARED_TEXT, "no more messages");
}

/* A link: the messages from `stage` to the next stage (is_forward), or from that stage back. */
typedef struct link {
    int stage;
    bool is_forward;
} stage_link;

static int links_behind(const mega_axis *pp, int stage)
{
    return (stage + 1) % pp->size;
}

static int links_sender(const mega_axis *pp, stage_link l)
{
    return l.is_forward ? l.stage : links_behind(pp, l.stage);
}

static int links_receiver(const mega_axis *pp, stage_link l)
{
    return l.is_forward ? links_behind(pp, l.stage) : l.stage;
}

typedef struct stage_lists {
    int64_t hash[NUM_LISTS], count[NUM_LISTS];
} stage_lists;

static mega_status links_gather(const messages *m, int64_t first, stage_lists *all)
{
    stage_lists mine;
    for (int i = 0; i < NUM_LISTS; i++) mine.hash[i] = (int64_t)hash_list(m, i, first, &mine.count[i]);
    return mega_comm_all_gather(m->e->layout->pp.comm, "comparison of schedules", all, &mine,
                                (int64_t)(sizeof mine / sizeof(int64_t)), MEGA_I64);
}

static bool links_agree(const mega_axis *pp, const stage_lists *all, stage_link l)
{
    return all[links_sender(pp, l)].hash[l.is_forward ? SENT_FORWARD : SENT_BACK] ==
           all[links_receiver(pp, l)].hash[l.is_forward ? AWAITED_FORWARD : AWAITED_BACK];
}

static mega_status links_report(const messages *m, stage_link l, int64_t i)
{
    const mega_axis *pp = &m->e->layout->pp;
    const int from = links_sender(pp, l), to = links_receiver(pp, l);
    char mine[MEGA_COMPARED_TEXT] = "", *all = mega_calloc((size_t)pp->size, MEGA_COMPARED_TEXT);
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "comparison of schedules: no memory");
    if (pp->rank == from) links_describe(m, l.is_forward ? SENT_FORWARD : SENT_BACK, i, mine);
    if (pp->rank == to) links_describe(m, l.is_forward ? AWAITED_FORWARD : AWAITED_BACK, i, mine);
    mega_status st = mega_comm_all_gather(pp->comm, "schedules that differ", all, mine, sizeof mine, MEGA_U8);
    if (st == MEGA_OK)
        st = MEGA_FAIL(
            MEGA_ERR_COMM,
            "pipeline: stage %d sends other %s than stage %d awaits, from message %lld on:\n  stage %d sends: "
            "%s\n  stage %d awaits: %s\n  start all ranks with one program and the same options",
            from, l.is_forward ? "activations" : "gradients", to, (long long)i + 1, from,
            all + (size_t)from * MEGA_COMPARED_TEXT, to, all + (size_t)to * MEGA_COMPARED_TEXT);
    mega_free(all);
    return st;
}

/* Finds the first message of the link that differs between both ends, and reports it. */
static mega_status find_message(const messages *m, stage_link l, stage_lists *all)
{
    const mega_axis *pp = &m->e->layout->pp;
    const int64_t sent = all[links_sender(pp, l)].count[l.is_forward ? SENT_FORWARD : SENT_BACK];
    const int64_t awaited = all[links_receiver(pp, l)].count[l.is_forward ? AWAITED_FORWARD : AWAITED_BACK];
    int64_t least = 0, most = sent > awaited ? sent : awaited;
    while (least < most) { /* the first `least` messages agree, the first `most` + 1 do not */
        const int64_t half = least + (most - least) / 2;
        MEGA_TRY(links_gather(m, half + 1, all));
        if (links_agree(pp, all, l)) least = half + 1;
        else
            most = half;
    }
    return links_report(m, l, least);
}

mega_status engine_compare_links(const mega_engine *e, const mega_schedule_pass *pass, int64_t passes, engine_kind kind)
{
    const mega_axis *pp = &e->layout->pp;
    const messages m = {e, pass, passes, kind};
    if (mega_model_parts_count(e->model.parts) == 1) return MEGA_OK; /* a model of one part has no borders */
    stage_lists *all = mega_malloc((size_t)pp->size * sizeof *all);
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "comparison of schedules: no memory for %d stages", pp->size);
    mega_status st = links_gather(&m, INT64_MAX, all);
    for (int i = 0; i < 2 * pp->size && st == MEGA_OK; i++) {
        const stage_link l = {i / 2, i % 2 == 0};
        if (links_agree(pp, all, l)) continue;
        st = find_message(&m, l, all);
        break;
    }
    mega_free(all);
    return st;
}
