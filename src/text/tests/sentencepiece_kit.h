/* Writes a model as sentencepiece does: fields of Protocol Buffers. */
#ifndef MEGALITH_SENTENCEPIECE_KIT_H
#define MEGALITH_SENTENCEPIECE_KIT_H

#include "megalith/memory.h"
#include <string.h>

static void put_number(mega_buffer *b, uint64_t n)
{
    for (; n > 127; n >>= 7) mega_buffer_append(b, &(char){(char)(n | 128)}, 1);
    mega_buffer_append(b, &(char){(char)n}, 1);
}

static void put_bytes(mega_buffer *b, int field, const void *bytes, size_t n)
{
    put_number(b, (uint64_t)field << 3 | 2);
    put_number(b, n);
    mega_buffer_append(b, bytes, n);
}

static void put_value(mega_buffer *b, int field, uint64_t value)
{
    put_number(b, (uint64_t)field << 3);
    put_number(b, value);
}

static void put_model_piece(mega_buffer *b, const char *text, float score, int type)
{
    mega_buffer piece = {0};
    put_bytes(&piece, 1, text, strlen(text));
    put_number(&piece, 2 << 3 | 5);
    mega_buffer_append(&piece, &score, 4);
    put_value(&piece, 3, (uint64_t)type);
    put_bytes(b, 1, piece.data, piece.size);
    mega_buffer_fini(&piece);
}

#endif
