/* The order in which the ranks of a group make exchanges over it: messages between neighbours, and what several ranks
 * meet in. Ranks list them before they make them, and then find out whether all would come to the end of their lists,
 * or wait for each other for ever. */
#ifndef MEGALITH_EXCHANGE_ORDER_H
#define MEGALITH_EXCHANGE_ORDER_H

#include "megalith/comm.h"

/* A start does not wait for the other rank. A message is complete when both ranks have started it, and those before it
 * that go the same way between them are complete. */
typedef enum mega_ordered_kind {
    MEGA_ORDERED_NONE,
    MEGA_ORDERED_SEND,
    MEGA_ORDERED_RECEIVE,
    MEGA_ORDERED_AWAIT_SENT,
    MEGA_ORDERED_AWAIT_RECEIVED,
    MEGA_ORDERED_MEET /* waits until `ranks` ranks are at items that are equal to this one */
} mega_ordered_kind;

/* way: 0 if messages go to the next rank of the group, as in a ring; 1: to the one before. number: counts the messages
 * that this rank sends, or receives, on this way; of a meeting its identity. */
typedef struct mega_ordered {
    uint8_t kind, way;
    uint16_t ranks;
    uint32_t number;
} mega_ordered;

typedef struct mega_order {
    mega_ordered *item;
    const char **name; /* purpose of each item, for messages; borrowed */
    int64_t count, items, names;
    uint32_t sent[2], received[2]; /* by way */
    bool failed;                   /* no memory */
} mega_order;

/* They add an item. mega_order_start writes the message to *out; mega_order_await makes it all zero, and adds nothing
 * if it is. */
void mega_order_start(mega_order *o, const char *name, int way, bool is_sent, mega_ordered *out);
void mega_order_await(mega_order *o, const char *name, mega_ordered *message);
void mega_order_meet(mega_order *o, const char *name, int ranks, uint64_t identity);
void mega_order_fini(mega_order *o);

/* Collective over comm. If some ranks would not come to the end of their lists, every rank returns MEGA_ERR_COMM and
 * says who would wait for what. Gathers the lists, 8 bytes an item; the time is that of one look at all items. */
MEGA_CHECK_RESULT mega_status mega_order_check(const mega_order *mine, mega_comm *comm);

/* What mega_order_check does once it has the lists of all ranks. Returns whether all come to their ends; `at` is then
 * the number of items that each rank has passed. The counters begin with 0. */
typedef struct mega_order_rank {
    const mega_ordered *item;
    int64_t count, at;
    uint32_t sent[2], received[2];
} mega_order_rank;
bool mega_order_play(mega_order_rank *rank, int ranks);

#endif
