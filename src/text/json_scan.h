/* The one loop of JSON that sees every byte: over the characters of a string that stand for themselves. */
#ifndef MEGALITH_TEXT_JSON_SCAN_H
#define MEGALITH_TEXT_JSON_SCAN_H

#include "megalith/threads.h"
#include <stddef.h>
#include <stdint.h>

/* Bytes from p on that are ASCII, no control character, no quote and no backslash; n at most. */
typedef size_t mega_json_run(const uint8_t *p, size_t n);

mega_json_run mega_json_run_plain;              /* byte by byte: the definition */
mega_json_run *mega_json_run_for(mega_isa isa); /* the fastest of this machine up to `isa` */

#endif
