/* A message between two ranks of a group, where several go on together (mega_comm_messages_start). */
#ifndef MEGALITH_MESSAGE_H
#define MEGALITH_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mega_message {
    int peer; /* the other rank */
    bool is_received;
    void *data; /* [bytes]; read only, if it is sent */
    int64_t bytes;
} mega_message;

#endif
