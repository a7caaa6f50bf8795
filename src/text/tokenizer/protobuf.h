/* Reads messages of Protocol Buffers field by field. Nothing is copied. */
#ifndef MEGALITH_TEXT_PROTOBUF_H
#define MEGALITH_TEXT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_message {
    const uint8_t *bytes;
    size_t size, at;
    bool damaged; /* set when a field has no end or is of a kind that does not exist */
} mega_message;

enum { MEGA_WIRE_VARINT = 0, MEGA_WIRE_64 = 1, MEGA_WIRE_BYTES = 2, MEGA_WIRE_32 = 5 };

typedef struct mega_field {
    uint64_t number;
    int wire;
    uint64_t value;       /* VARINT, 64, 32 */
    const uint8_t *bytes; /* BYTES */
    size_t size;
} mega_field;

/* Reads the next field; returns false at the end or if the message is damaged. */
bool mega_message_next(mega_message *m, mega_field *out);
static inline mega_message mega_message_in(const mega_field *f)
{
    return (mega_message){.bytes = f->bytes, .size = f->size};
}

#endif
