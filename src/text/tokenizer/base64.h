/* Reads and writes base64. */
#ifndef MEGALITH_TEXT_BASE64_H
#define MEGALITH_TEXT_BASE64_H

#include "megalith/memory.h"

/* Replaces the content of `out` by the bytes. Returns false if the text is not base64. */
bool mega_base64_read(const char *text, size_t n, mega_buffer *out);
/* Appends bytes as base64. */
void mega_base64_write(const uint8_t *bytes, size_t n, mega_buffer *out);

#endif
