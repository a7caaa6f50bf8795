/* A snapshot of a rank's record, and the messages that exchange them between hosts. */
#ifndef MEGA_RECORD_WIRE_H
#define MEGA_RECORD_WIRE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RECORD_MISSING = 8, /* most awaited ranks that are listed */
    RECORD_NAME = 40,
    WIRE_SECRET = 16,
    WIRE_RANKS = 16 /* most ranks in a query */
};

typedef enum record_state {
    RECORD_RUNS = 1,
    RECORD_WAITS,
    RECORD_LEFT,  /* ended normally */
    RECORD_FAILED /* has printed its failure, and ends all ranks */
} record_state;
typedef enum process_state { PROCESS_RUNS, PROCESS_STOPPED, PROCESS_DEAD, PROCESS_HANGS } process_state;

/* Sent as it is in memory: all hosts of a world have the same architecture (their data is sent unconverted too), and
 * the magic number shows if they do not. */
typedef struct record_view {
    int32_t rank, pid, kind; /* comm_kind of the last call; -1: none yet */
    int32_t num_missing, missing[RECORD_MISSING];
    int64_t step, micro_batch;
    uint64_t number;
    double age; /* seconds in this state */
    uint8_t state, process, is_long, spare[5];
    char phase[32], scope[RECORD_NAME], name[RECORD_NAME], group[16];
} record_view;
_Static_assert(sizeof(record_view) == 216, "the layout must not change between versions of the program");

typedef enum wire_kind { WIRE_ASK = 1, WIRE_ANSWER } wire_kind;

typedef struct wire_head {
    uint32_t magic;
    uint16_t version, kind;
    unsigned char secret[WIRE_SECRET]; /* of this world: messages without it are ignored */
    int32_t rank;                      /* the sender */
    /* 1 + the rank that reports the failure and ends all ranks; 0: none on this host */
    int32_t ender;
    int64_t first_report_age_ms; /* milliseconds since the first report of this host; -1: none */
    int32_t dead;                /* a dead rank of this host; -1: none */
    int32_t count;               /* number of ranks asked about, or of records, that follow */
} wire_head;
_Static_assert(sizeof(wire_head) == 48, "the layout must not change between versions of the program");

typedef struct wire_ask {
    wire_head head;
    int32_t rank[WIRE_RANKS];
} wire_ask;

typedef struct wire_answer {
    wire_head head;
    record_view view[WIRE_RANKS + 1]; /* and one for a dead rank */
} wire_answer;                        /* only head.count views are sent */

wire_head wire_head_of(wire_kind kind, const unsigned char *secret, int rank);
/* Returns whether the first bytes of a message are a valid head in a world of `ranks` ranks. */
bool wire_head_is_good(const wire_head *head, wire_kind kind, const unsigned char *secret, int ranks);
bool wire_ask_is_good(const wire_ask *ask, const unsigned char *secret, int ranks);
/* Checks a record; also ends every text inside its field and removes bytes that a terminal would interpret. */
bool wire_view_is_good(record_view *view, int ranks);

#endif
