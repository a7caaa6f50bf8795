/* YAML of configurations, with libyaml: reading as JSON, and writing. */
#ifndef MEGALITH_YAML_H
#define MEGALITH_YAML_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>

struct json_t;

/* Called with each mistake, a whole message: "F, line 3: …". */
typedef void mega_yaml_mistake(void *user, const char *text);

/* Appends a JSON text with the same content as a YAML whose top is a mapping. Each key is on the line that it has in
 * the YAML, so that a reader of JSON knows the lines. Plain words are read as in YAML 1.1 (yes, no, on, off are
 * booleans), and 1e-4 is a number. `name` is the file in messages. Returns MEGA_OK, MEGA_ERR_FORMAT after mistakes,
 * which it reports one by one, or MEGA_ERR_MEMORY; only this last one is recorded as this thread's error. */
MEGA_CHECK_RESULT mega_status mega_yaml_to_json(const char *text, size_t size, const char *name, mega_buffer *out,
                                                mega_yaml_mistake *mistake, void *user);

/* Appends a tree of objects as PyYAML's safe_dump writes it: keys in order, one a line. */
MEGA_CHECK_RESULT mega_status mega_yaml_write(const struct json_t *tree, mega_buffer *out);

#endif
