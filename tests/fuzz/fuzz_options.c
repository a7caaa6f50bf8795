/* A command line: a byte that picks the command, then options with a line for each. */
#include "fuzz.h"
#include "megalith/config.h"

enum { MAX_WORDS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const char *command = mega_program_composition.command[data[0] % mega_program_composition.commands].name;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    char *argv[MAX_WORDS + 1] = {(char *)(uintptr_t)command};
    int argc = 1;
    for (char *at = text, *end; at != NULL && argc < MAX_WORDS; at = end) {
        end = strchr(at, '\n');
        if (end != NULL) *end++ = '\0';
        argv[argc++] = at;
    }
    fuzz_watch(size);
    mega_config config;
    mega_status st = mega_config_init(&config);
    if (st == MEGA_OK) st = mega_config_parse(&config, command, argc, argv);
    fuzz_answer(st);
    mega_buffer json = {0};
    if (st == MEGA_OK) {
        mega_config again;
        fuzz_require(mega_config_to_json(&config, &json) == MEGA_OK, "what was parsed can be written");
        fuzz_require(mega_config_init(&again) == MEGA_OK, "defaults");
        fuzz_answer(mega_config_from_json(&again, json.data, MEGA_SET_BY_CHECKPOINT));
        mega_config_fini(&again);
    }
    mega_buffer_fini(&json);
    mega_config_fini(&config);
    free(text);
    return 0;
}
