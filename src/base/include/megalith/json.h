/* JSON by jansson (include <jansson.h> for what one does with the tree). */
#ifndef MEGALITH_JSON_H
#define MEGALITH_JSON_H

#include <stdbool.h>
#include <stddef.h>

struct json_t;
struct json_error_t;

/* json_loadb, which notices every allocation that was refused: NULL then, and never a tree that lacks something. A new
 * reference; flags and error are jansson's. */
struct json_t *mega_json_load(const char *text, size_t size, size_t flags, struct json_error_t *error);

#endif
