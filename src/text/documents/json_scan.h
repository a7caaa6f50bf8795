/* The hottest loop of JSON parsing: skips the characters of a string that need no decoding. */
#ifndef MEGALITH_TEXT_JSON_SCAN_H
#define MEGALITH_TEXT_JSON_SCAN_H

#include "megalith/threads.h"
#include <stddef.h>
#include <stdint.h>

/* Returns the number of bytes from p on, at most n, that are ASCII and not a control character, quote or backslash. */
typedef size_t mega_json_run(const uint8_t *p, size_t n);

mega_json_run mega_json_run_plain;              /* byte by byte: the definition */
mega_json_run *mega_json_run_for(mega_isa isa); /* the fastest one that this machine supports, up to `isa` */

#endif
