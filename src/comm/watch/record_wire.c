/* Messages that carry records. Every message is checked before it is used; an invalid one is rejected as a whole. */
#include "watch/record_wire.h"
#include "comm_impl.h"

#include <string.h>

#define MAGIC 0x4d454752u

enum { VERSION = 1 };

wire_head wire_head_of(wire_kind kind, const unsigned char *secret, int rank)
{
    wire_head h = {.magic = MAGIC,
                   .version = VERSION,
                   .kind = (uint16_t)kind,
                   .rank = rank,
                   .first_report_age_ms = -1,
                   .dead = -1};
    memcpy(h.secret, secret, sizeof h.secret);
    return h;
}

/* Compares in constant time, so that timing does not reveal how many bytes were right. */
static bool same_secret(const unsigned char *a, const unsigned char *b)
{
    unsigned differs = 0;
    for (int i = 0; i < WIRE_SECRET; i++) differs |= (unsigned)(a[i] ^ b[i]);
    return differs == 0;
}

bool wire_head_is_good(const wire_head *h, wire_kind kind, const unsigned char *secret, int ranks)
{
    const int most = kind == WIRE_ASK ? WIRE_RANKS : WIRE_RANKS + 1;
    return h->magic == MAGIC && h->version == VERSION && h->kind == kind && same_secret(h->secret, secret) &&
           h->rank >= 0 && h->rank < ranks && h->ender >= 0 && h->ender <= ranks && h->dead >= -1 && h->dead < ranks &&
           h->first_report_age_ms >= -1 && h->count >= 0 && h->count <= most;
}

bool wire_ask_is_good(const wire_ask *ask, const unsigned char *secret, int ranks)
{
    if (!wire_head_is_good(&ask->head, WIRE_ASK, secret, ranks)) return false;
    for (int i = 0; i < ask->head.count; i++)
        if (ask->rank[i] < 0 || ask->rank[i] >= ranks) return false;
    return true;
}

static void wire_clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
}

bool wire_view_is_good(record_view *v, int ranks)
{
    wire_clean(v->phase, sizeof v->phase);
    wire_clean(v->scope, sizeof v->scope);
    wire_clean(v->name, sizeof v->name);
    wire_clean(v->group, sizeof v->group);
    if (v->num_missing < 0 || v->num_missing > RECORD_MISSING) return false;
    for (int i = 0; i < v->num_missing; i++)
        if (v->missing[i] < 0 || v->missing[i] >= ranks) return false;
    return v->rank >= 0 && v->rank < ranks && v->kind >= -1 && v->kind <= (int)COMM_AGREE && v->age >= 0 &&
           v->age < 1e9 && v->state >= RECORD_RUNS && v->state <= RECORD_FAILED && v->process <= PROCESS_HANGS;
}
