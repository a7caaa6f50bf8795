/* Writes a trained Unigram model in SentencePiece's format. */
#include "tokenizer/protobuf.h"
#include "unigram_train.h"
#include <string.h>

enum { PIECE_NORMAL = 1, PIECE_UNKNOWN = 2, PIECE_CONTROL = 3, MODEL_UNIGRAM = 1 };

static void unigram_put_varint(mega_buffer *out, uint64_t value)
{
    do {
        const char byte = (char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        mega_buffer_append(out, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void unigram_put_number(mega_buffer *out, unsigned field, int64_t value)
{
    unigram_put_varint(out, field << 3 | MEGA_WIRE_VARINT);
    unigram_put_varint(out, (uint64_t)value);
}

static void put_field(mega_buffer *out, unsigned field, const char *bytes, size_t n)
{
    unigram_put_varint(out, field << 3 | MEGA_WIRE_BYTES);
    unigram_put_varint(out, n);
    mega_buffer_append(out, bytes, n);
}

static void unigram_put_piece(mega_buffer *out, mega_buffer *scratch, const char *text, size_t n, float score, int type)
{
    uint32_t bits;
    uint8_t bytes[4];
    memcpy(&bits, &score, sizeof bits);
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(bits >> (8 * i));
    scratch->size = 0;
    put_field(scratch, 1, text, n);
    unigram_put_varint(scratch, 2 << 3 | MEGA_WIRE_32);
    mega_buffer_append(scratch, bytes, 4);
    if (type != PIECE_NORMAL) unigram_put_number(scratch, 3, type);
    put_field(out, 1, scratch->data, scratch->size);
    out->failed = out->failed || scratch->failed;
}

/* A table of replacements that makes a blank of a tab and of an end of line: a double-array trie with three keys of one
 * byte, and the string " ". Its parts are as in charsmap.c. */
static void put_charsmap(mega_buffer *out, mega_buffer *scratch)
{
    enum { UNITS = 512, CHILDREN = 256, VALUES = 16, HAS_VALUE = 256 };
    static const uint8_t blanks[] = {'\t', '\n', '\r'};
    uint32_t unit[UNITS] = {(uint32_t)CHILDREN << 10};
    for (size_t i = 0; i < sizeof blanks; i++) {
        const uint32_t child = CHILDREN ^ blanks[i];
        unit[child] = (uint32_t)VALUES << 10 | HAS_VALUE | blanks[i];
        unit[child ^ VALUES] = 0x80000000u; /* the string at 0 */
    }
    uint8_t bytes[4 + 4 * UNITS + 2] = {(uint8_t)(4 * UNITS & 0xFF), (uint8_t)(4 * UNITS >> 8)};
    for (int i = 0; i < UNITS; i++)
        for (int k = 0; k < 4; k++) bytes[4 + 4 * i + k] = (uint8_t)(unit[i] >> (8 * k));
    bytes[4 + 4 * UNITS] = ' ';
    scratch->size = 0;
    put_field(scratch, 1, "blanks", 6);
    put_field(scratch, 2, (const char *)bytes, sizeof bytes);
    for (unsigned flag = 3; flag <= 5; flag++)
        unigram_put_number(scratch, flag, 1); /* prefix, no extra blanks, blanks as U+2581 */
    put_field(out, 3, scratch->data, scratch->size);
}

static void put_trainer(mega_buffer *out, mega_buffer *scratch, int64_t size)
{
    static const struct {
        unsigned field;
        int value;
    } ids[] = {{40, 2}, {41, -1}, {42, 1}, {43, 0}}; /* unknown, bos, eos, pad */
    scratch->size = 0;
    unigram_put_number(scratch, 3, MODEL_UNIGRAM);
    unigram_put_number(scratch, 4, size);
    for (int i = 0; i < 4; i++) unigram_put_number(scratch, ids[i].field, ids[i].value);
    put_field(out, 2, scratch->data, scratch->size);
}

mega_status mega_unigram_model(const mega_unigram *u, mega_buffer *out)
{
    mega_buffer scratch = {0};
    unigram_put_piece(out, &scratch, "<pad>", 5, 0, PIECE_CONTROL);
    unigram_put_piece(out, &scratch, "</s>", 4, 0, PIECE_CONTROL);
    unigram_put_piece(out, &scratch, "<unk>", 5, 0, PIECE_UNKNOWN);
    for (int64_t i = 0; i < u->pieces; i++)
        unigram_put_piece(out, &scratch, mega_unigram_bytes(u, i), u->piece[i].size, (float)u->piece[i].score,
                          PIECE_NORMAL);
    put_trainer(out, &scratch, u->pieces + 3);
    put_charsmap(out, &scratch);
    out->failed = out->failed || scratch.failed;
    mega_buffer_fini(&scratch);
    return mega_buffer_check(out, "the SentencePiece model");
}
