/* JSON with jansson (include <jansson.h> to work with the tree). */
#ifndef MEGALITH_JSON_H
#define MEGALITH_JSON_H

#include "megalith/status.h"

#include <stddef.h>

struct json_t;
struct json_error_t;

/* Like json_loadb, but returns NULL when any allocation failed, where jansson may return an incomplete tree. A new
 * reference; flags and error are jansson's. */
struct json_t *mega_json_load(const char *text, size_t size, size_t flags, struct json_error_t *error);
/* Returns why mega_json_load failed: MEGA_ERR_MEMORY, or MEGA_ERR_FORMAT for invalid JSON. */
mega_status mega_json_status(const struct json_error_t *error);
/* Like json_dumps, but returns NULL when any allocation failed, where jansson may return an incomplete text. Release
 * with free. */
char *mega_json_dump(const struct json_t *tree, size_t flags);

#endif
