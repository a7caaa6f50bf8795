/* Reads what a checkpoint stores about its run. */
#include "megalith/run_json.h"
#include "megalith/json.h"
#include <string.h>

mega_status mega_run_json(json_t **out, const mega_checkpoint *c)
{
    json_error_t error;
    const char *text = c != NULL ? mega_checkpoint_run_json(c) : NULL;
    *out = text != NULL ? mega_json_load(text, strlen(text), 0, &error) : NULL;
    if (text == NULL || *out != NULL) return MEGA_OK;
    return MEGA_FAIL(mega_json_status(&error),
                     "checkpoint %s: state/run.json line %d column %d: %s; it was written by another program or "
                     "edited; --finetune loads only the weights",
                     mega_checkpoint_folder(c), error.line, error.column, error.text);
}
