/* Exchanges between the devices of several ranks that the devices make themselves (GPUs by NCCL), in streams beside the
 * one that computes. comm/ decides who exchanges what, and makes the identifiers of groups known to their ranks. */
#ifndef MEGALITH_DEVICE_EXCHANGE_H
#define MEGALITH_DEVICE_EXCHANGE_H

#include "megalith/device_memory.h"
#include "megalith/dtype.h"
#include "megalith/message.h"

typedef enum mega_exchange_kind {
    MEGA_EXCHANGE_ALL_REDUCE,
    MEGA_EXCHANGE_REDUCE_SCATTER,
    MEGA_EXCHANGE_ALL_GATHER,
    MEGA_EXCHANGE_ALL_TO_ALL,
    MEGA_EXCHANGE_BROADCAST,
    MEGA_EXCHANGE_SEND,
    MEGA_EXCHANGE_RECEIVE,
    MEGA_EXCHANGE_MESSAGES
} mega_exchange_kind;

/* Exchanges of a lane run one after the other; lanes do not wait for each other. */
enum { MEGA_EXCHANGE_LANES = 5, MEGA_EXCHANGE_ID = 128, MEGA_EXCHANGE_NAME = 96 };
typedef struct mega_exchange_group mega_exchange_group;

/* As the calls of comm.h define it: `count` elements of one slice for kinds with slices. Of MEGA_EXCHANGE_MESSAGES,
 * whose messages go on together, `messages` has `count`. */
typedef struct mega_exchange {
    mega_exchange_kind kind;
    const char *name; /* purpose, for messages */
    const void *in;
    void *out;
    const mega_message *messages; /* read when it is started */
    int64_t count;
    mega_dtype dtype;
    mega_reduce reduce;
    int peer;      /* the other end, or the root of a broadcast, in the group */
    int place;     /* by which `await` and `is_done` name it; free again when it is done */
    bool is_timed; /* `seconds` will be asked */
} mega_exchange;

/* What is called while the host waits for the device: `look` from time to time, `times` calls before in this wait; a
 * failure ends the wait, and the exchanges. `over` when the wait has ended. */
typedef struct mega_exchange_watch {
    mega_status (*look)(void *user, long times);
    void (*over)(void *user);
    void *user;
} mega_exchange_watch;

/* A failure is also the device's (mega_device_finish), and ends all its exchanges. */
typedef struct mega_device_exchanges {
    /* Loads the library. `watch` is copied. A failure here is not the device's. */
    mega_status (*open)(mega_device *device, int places, const mega_exchange_watch *watch);
    int (*version)(mega_device *device); /* of the library; equal on all ranks that exchange */
    mega_status (*id)(mega_device *device, char out[MEGA_EXCHANGE_ID]); /* on one rank of a group */
    /* Collective over the ranks of the group. */
    mega_status (*group_open)(mega_device *device, const char *name, const char id[MEGA_EXCHANGE_ID], int ranks,
                              int rank, int lane, mega_exchange_group **out);
    /* Begins when the work is done that the device was given before, and reads and writes its memory later. */
    mega_status (*start)(mega_device *device, mega_exchange_group *group, const mega_exchange *what);
    mega_status (*await)(mega_device *device, int place); /* work that is given from now on comes after it */
    mega_status (*is_done)(mega_device *device, int place, bool *out);
    /* Of one that is timed and done: by the device's clock, from when this rank could begin. */
    mega_status (*seconds)(mega_device *device, int place, double *out);
    /* By how much free memory of the device has fallen since `open`, which counts what other processes took. */
    size_t (*taken)(mega_device *device);
    /* Waits for the exchanges and closes all groups; after a failure it ends them. */
    void (*close)(mega_device *device);
} mega_device_exchanges;

#endif
