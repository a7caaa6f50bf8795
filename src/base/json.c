/* Parses and prints JSON with jansson, and works around a fault: jansson 2.14 ignores two failed allocations. Its
 * lexer's token buffer then drops a character (lex_save), and its output buffer drops a piece of an object's key
 * (dump_string in do_dump), without an error. A key of run.json that lost a letter would be a missing key. */
#include "megalith/json.h"
#include "megalith/memory.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool refused; /* an allocation failed since the call on this thread began */

static void *noted_malloc(size_t bytes)
{
    void *block = mega_malloc(bytes);
    if (block == NULL) refused = true;
    return block;
}

/* jansson's allocator is set for the whole process; blocks allocated earlier can still be freed. */
static void note_refusals(void)
{
    json_set_alloc_funcs(noted_malloc, free);
}

static void begin_call(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, note_refusals);
    refused = false;
}

json_t *mega_json_load(const char *text, size_t size, size_t flags, json_error_t *error)
{
    begin_call();
    json_t *root = json_loadb(text, size, flags, error);
    if (!refused) return root;
    json_decref(root);
    memset(error, 0, sizeof *error);
    error->line = error->column = -1;
    memcpy(error->text, "no memory to read it", 21);
    error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    return NULL;
}

mega_status mega_json_status(const json_error_t *error)
{
    return json_error_code(error) == json_error_out_of_memory ? MEGA_ERR_MEMORY : MEGA_ERR_FORMAT;
}

char *mega_json_dump(const json_t *tree, size_t flags)
{
    begin_call();
    char *text = json_dumps(tree, flags);
    if (!refused) return text;
    free(text);
    return NULL;
}
