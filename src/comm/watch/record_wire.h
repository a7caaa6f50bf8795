/* What is known of a rank at one time, and the messages in which hosts tell each other. */
#ifndef MEGA_RECORD_WIRE_H
#define MEGA_RECORD_WIRE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RECORD_MISSING = 8, /* ranks that one waits for, told by name */
    RECORD_NAME = 40,
    WIRE_SECRET = 16,
    WIRE_RANKS = 16 /* that are asked for at a time */
};

typedef enum record_state {
    RECORD_RUNS = 1,
    RECORD_WAITS,
    RECORD_LEFT,  /* ended in order */
    RECORD_FAILED /* printed the message of its failure, and ends all ranks */
} record_state;
typedef enum process_state { PROCESS_RUNS, PROCESS_STOPPED, PROCESS_DEAD, PROCESS_HANGS } process_state;

/* Goes over the wire as it lies here: hosts of one world are of one kind (their numbers go between them as they are,
 * too), and the magic number tells where they are not. */
typedef struct record_view {
    int32_t rank, pid, kind; /* comm_kind of the last call; -1: none yet */
    int32_t num_missing, missing[RECORD_MISSING];
    int64_t step, micro_batch;
    uint64_t number;
    double age; /* seconds in this state */
    uint8_t state, process, is_long, spare[5];
    char phase[32], scope[RECORD_NAME], name[RECORD_NAME], group[16];
} record_view;
_Static_assert(sizeof(record_view) == 216, "every version of the program lays it out alike");

typedef enum wire_kind { WIRE_ASK = 1, WIRE_ANSWER } wire_kind;

typedef struct wire_head {
    uint32_t magic;
    uint16_t version, kind;
    unsigned char secret[WIRE_SECRET]; /* of this world: whoever does not know it is not listened to */
    int32_t rank;                      /* who speaks */
    int32_t ender;                     /* 1 + rank that tells the failure which ends all; 0: nobody of this host */
    int64_t told_ms;                   /* since a first report was told on this host; -1: none */
    int32_t dead;                      /* a dead rank of this host; -1: none */
    int32_t count;                     /* of what follows: ranks that are asked for, records */
} wire_head;
_Static_assert(sizeof(wire_head) == 48, "every version of the program lays it out alike");

typedef struct wire_ask {
    wire_head head;
    int32_t rank[WIRE_RANKS];
} wire_ask;

typedef struct wire_answer {
    wire_head head;
    record_view view[WIRE_RANKS + 1]; /* and one that is dead */
} wire_answer;                        /* as many as it says are sent */

wire_head wire_head_of(wire_kind kind, const unsigned char *secret, int rank);
/* Whether the first bytes of a message are those of such a one, in a world of so many ranks. */
bool wire_head_is_good(const wire_head *head, wire_kind kind, const unsigned char *secret, int ranks);
bool wire_ask_is_good(const wire_ask *ask, const unsigned char *secret, int ranks);
/* Also ends every text inside its field, without bytes that a terminal would act on. */
bool wire_view_is_good(record_view *view, int ranks);

#endif
