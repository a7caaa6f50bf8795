/* JSON by jansson (include <jansson.h> for what one does with the tree). */
#ifndef MEGALITH_JSON_H
#define MEGALITH_JSON_H

#include "megalith/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t;
struct json_error_t;

/* json_loadb, which notices every allocation that was refused: NULL then, and never a tree that lacks something. A new
 * reference; flags and error are jansson's. */
struct json_t *mega_json_load(const char *text, size_t size, size_t flags, struct json_error_t *error);
/* Why a load gave no tree: MEGA_ERR_MEMORY, or MEGA_ERR_FORMAT for a text that is wrong. */
mega_status mega_json_status(const struct json_error_t *error);
/* json_dumps, likewise: NULL where memory was refused (or the tree is no text), and never a text that lacks something.
 * Released by free. */
char *mega_json_dump(const struct json_t *tree, size_t flags);

#ifdef __cplusplus
}
#endif

#endif
