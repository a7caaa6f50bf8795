/* JSON text to a tree, by jansson, without its one silent fault: the buffer in which its lexer keeps a token drops a
 * character when it cannot grow (2.14: lex_save ignores the answer of strbuffer_append_byte), and the text is read as
 * if that character had never been there. A key of run.json that lost a letter is a key that is missing. */
#include "megalith/json.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool refused; /* an allocation, since the parse on this thread began */

static void *noted_malloc(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) refused = true;
    return block;
}

/* jansson keeps its allocator for the whole process; blocks from before are freed as before. */
static void note_refusals(void)
{
    json_set_alloc_funcs(noted_malloc, free);
}

json_t *mega_json_load(const char *text, size_t size, size_t flags, json_error_t *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, note_refusals);
    refused = false;
    json_t *root = json_loadb(text, size, flags, error);
    if (!refused) return root;
    json_decref(root);
    memset(error, 0, sizeof *error);
    error->line = error->column = -1;
    memcpy(error->text, "no memory to read it", 21);
    error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    return NULL;
}
