/* A YAML as JSON. What has been read is written as YAML, and read as the same. */
#include "fuzz.h"
#include "megalith/json.h"
#include "megalith/yaml.h"
#include <jansson.h>

static void take_mistake(void *count, const char *text)
{
    fuzz_require(strncmp(text, "f.yaml, line ", 13) == 0, "a mistake names the line");
    ++*(int *)count;
}

static json_t *read_tree(const char *text, size_t size)
{
    mega_buffer json = {0};
    int mistakes = 0;
    json_error_t error;
    const mega_status st = mega_yaml_to_json(text, size, "f.yaml", &json, take_mistake, &mistakes);
    fuzz_require(st == MEGA_OK ? mistakes == 0 : st == MEGA_ERR_MEMORY || mistakes > 0, "an error has a mistake");
    /* a number may be too large for JSON */
    json_t *tree = st == MEGA_OK ? mega_json_load(json.data, json.size, JSON_REJECT_DUPLICATES, &error) : NULL;
    mega_buffer_fini(&json);
    return tree;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_watch(size);
    json_t *tree = read_tree((const char *)data, size);
    mega_buffer yaml = {0};
    if (tree != NULL) {
        fuzz_answer(mega_yaml_write(tree, &yaml));
        json_t *again = read_tree(yaml.data, yaml.size);
        fuzz_require(json_equal(tree, again), "what is written is read as the same");
        json_decref(again);
    }
    mega_buffer_fini(&yaml);
    json_decref(tree);
    return 0;
}
