/* Encodes protocol buffers. */
#include "proto.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_DOUBLE = 1, WIRE_BYTES = 2, WIRE_FLOAT = 5 };

static void put_varint(mega_buffer *b, uint64_t v)
{
    do {
        const uint8_t byte = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        mega_buffer_append(b, &byte, 1);
        v >>= 7;
    } while (v > 0);
}

static void proto_put_key(mega_buffer *b, unsigned field, unsigned wire)
{
    put_varint(b, field << 3 | wire);
}

void proto_put_fixed(mega_buffer *b, uint64_t bits, int bytes)
{
    uint8_t le[8];
    for (int i = 0; i < bytes; i++) le[i] = (uint8_t)(bits >> (8 * i));
    mega_buffer_append(b, le, (size_t)bytes);
}

void proto_put_int(mega_buffer *b, unsigned field, uint64_t value)
{
    proto_put_key(b, field, WIRE_VARINT);
    put_varint(b, value);
}

void proto_put_double(mega_buffer *b, unsigned field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    proto_put_key(b, field, WIRE_DOUBLE);
    proto_put_fixed(b, bits, 8);
}

void proto_put_float(mega_buffer *b, unsigned field, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    proto_put_key(b, field, WIRE_FLOAT);
    proto_put_fixed(b, bits, 4);
}

void proto_put_bytes(mega_buffer *b, unsigned field, const void *bytes, size_t n)
{
    proto_put_key(b, field, WIRE_BYTES);
    put_varint(b, n);
    mega_buffer_append(b, bytes, n);
}

void proto_put_text(mega_buffer *b, unsigned field, const char *text)
{
    proto_put_bytes(b, field, text, strlen(text));
}

void proto_put_message(mega_buffer *b, unsigned field, mega_buffer *inner)
{
    proto_put_bytes(b, field, inner->data, inner->size);
    b->failed = b->failed || inner->failed;
    inner->size = 0;
}
