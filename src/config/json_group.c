/* A group of parameters that a JSON gives as an object, as programs give groups to DeepSpeed: {"params": "*.bias",
 * "lr": 1e-4, "weight_decay": 0} is "*.bias:lr=1e-4,weight_decay=0". */
#include "config_impl.h"
#include "megalith/json.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char *json_group_text(mega_options *o, const json_t *group)
{
    const char *pattern = json_string_value(json_object_get(group, "params")), *text, *name;
    const json_t *value;
    bool has_settings = false;
    if (pattern == NULL) return NULL;
    text = mega_options_text(o, "%s", pattern);
    json_object_foreach((json_t *)group, name, value)
    {
        if (strcmp(name, "params") == 0 || json_is_false(value)) continue;
        char *number = json_is_true(value)
                           ? NULL
                           : mega_json_dump(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
        text = mega_options_text(o, "%s%c%s%s%s", text, has_settings ? ',' : ':', name, number != NULL ? "=" : "",
                                 number != NULL ? number : "");
        has_settings = true;
        free(number);
    }
    return text;
}
