/* A command line: the first byte chooses the command, then there is one option per line. */
#include "fuzz.h"
#include "megalith/command_options.h"
#include "megalith/cuda.h"
#include "megalith/launch.h"
#include "megalith/parameter.h"
#include "megalith/parameter_group.h"

enum { MAX_WORDS = 64 };

/* Replaces the function of launch/, which would also link the code that starts ranks. */
bool mega_launch_knows(const char *name, size_t length)
{
    return length > 8 && memcmp(name, "hostfile", 8) == 0;
}

bool mega_launch_was_used(void)
{
    return false;
}

/* Replaces that of graph/, for the same reason. */
mega_status mega_param_group_check(const char *text)
{
    return text[0] != ':' ? MEGA_OK : MEGA_FAIL(MEGA_ERR_USAGE, "\"%s\": no pattern", text);
}

/* Replaces that of params/, for the same reason: no checkpoint is opened. */
void mega_params_destroy(mega_params *params)
{
    (void)params;
}

/* Replace those of backend/, whose kernels are not linked: there is no GPU. */
mega_status mega_cuda_count(int *out)
{
    *out = 0;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "no driver");
}

mega_status mega_cuda_describe(int64_t ordinal, char text[MEGA_CUDA_TEXT])
{
    snprintf(text, MEGA_CUDA_TEXT, "cuda:%lld", (long long)ordinal);
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: no driver", text);
}

/* Replaces that of comm/. */
double mega_world_code_scale(void)
{
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const char *command = mega_commands.command[data[0] % mega_commands.commands].name;
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
    mega_command_options values;
    mega_status st = mega_command_options_init(&values);
    mega_options *options = values.train.engine.options;
    if (st == MEGA_OK) st = mega_options_parse(options, command, argc, argv);
    fuzz_answer(st);
    mega_buffer json = {0};
    if (st == MEGA_OK) {
        mega_command_options again;
        fuzz_require(mega_options_to_json(options, &json) == MEGA_OK, "what was parsed can be written");
        fuzz_require(mega_command_options_init(&again) == MEGA_OK, "defaults");
        fuzz_answer(mega_options_from_json(again.train.engine.options, json.data, MEGA_SET_BY_CHECKPOINT));
        mega_command_options_fini(&again);
    }
    mega_buffer_fini(&json);
    mega_command_options_fini(&values);
    free(text);
    return 0;
}
