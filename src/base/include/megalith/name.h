/* Names that a program chooses for parameters, losses, inputs and outputs. They become keys of JSON and of safetensors,
 * and parts of messages and log lines. */
#ifndef MEGALITH_NAME_H
#define MEGALITH_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a name is UTF-8 (RFC 3629) without control characters (U+0000 to U+001F, U+007F to U+009F). True for
 * the empty name. */
bool mega_name_is_text(const char *name);

/* Writes the name to `out` with each byte that is not printable ASCII as "\xff", cut to `size` bytes including the
 * terminating NUL, and returns out. For messages about names that are not text. */
const char *mega_name_escape(char *out, size_t size, const char *name);

#endif
