/* The printable alphabet in which GPT-2's files write bytes: 33..126, 161..172 and 174..255 represent themselves; the
 * other 68 bytes, in ascending order, are U+0100, U+0101, … */
#ifndef MEGALITH_TEXT_SYMBOLS_H
#define MEGALITH_TEXT_SYMBOLS_H

#include "megalith/memory.h"
#include <stdint.h>

enum { MEGA_SYMBOL_LIMIT = 324 }; /* one past the highest code point of the alphabet */

/* Returns the byte whose symbol is the n-th by code point: the order of GPT-2's first 256 ids. */
uint8_t mega_symbol_byte_at(int n);

/* Appends the symbols of bytes; returns false when memory is short. */
bool mega_symbols_write(mega_buffer *out, const char *bytes, size_t n);
/* Appends the bytes that symbols represent; returns false and appends nothing if a character is not in the alphabet. */
bool mega_symbols_read(mega_buffer *out, const char *symbols, size_t n);

#endif
