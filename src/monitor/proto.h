/* Protocol buffers, written by hand: a field is a number and a wire type, followed by the value. Shared by the writers
 * of TensorBoard and wandb files. */
#ifndef MEGALITH_PROTO_H
#define MEGALITH_PROTO_H

#include "megalith/memory.h"
#include <stdint.h>

void proto_put_int(mega_buffer *b, unsigned field, uint64_t value);
void proto_put_double(mega_buffer *b, unsigned field, double x);
void proto_put_float(mega_buffer *b, unsigned field, float x);
void proto_put_bytes(mega_buffer *b, unsigned field, const void *bytes, size_t n);
void proto_put_text(mega_buffer *b, unsigned field, const char *text);
/* Appends a finished message as a field of another, and empties it for the next use. */
void proto_put_message(mega_buffer *b, unsigned field, mega_buffer *inner);
void proto_put_fixed(mega_buffer *b, uint64_t bits, int bytes); /* little endian, without a field number */

#endif
