/* Finds the checkpoints in the folder of a run by their iteration: iter_N of pretrain_gpt and its kin, step_N and
 * epoch_E of run_clm. */
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/memory.h"
#include "rules/train_rules.h"
#include <jansson.h>
#include <string.h>

static bool has(const char *folder, const char *file)
{
    char *path = mega_path_join(folder, file);
    const bool found = path != NULL && mega_file_exists(path);
    mega_free(path);
    return found;
}

int64_t train_iteration_in(const char *folder)
{
    char *text = NULL, *path = mega_path_join(folder, "state/run.json");
    size_t size = 0;
    json_error_t error;
    int64_t iteration = -1;
    if (path != NULL && has(folder, "state/run.json") && mega_file_read(path, &text, &size) == MEGA_OK) {
        json_t *root = mega_json_load(text, size, 0, &error);
        const json_t *stored = json_object_get(root, "iteration");
        if (json_is_integer(stored)) iteration = (int64_t)json_integer_value(stored);
        json_decref(root);
    }
    MEGA_FREE(text, path);
    mega_error_clear();
    return iteration;
}

char *train_find_state(const char *folder, int64_t wanted)
{
    mega_names names = {0};
    char *best = NULL;
    int64_t latest = -1;
    if (mega_folder_list(folder, &names) != MEGA_OK) mega_error_clear();
    for (size_t i = 0; i < names.count; i++) {
        if (strncmp(names.name[i], "step_", 5) != 0 && strncmp(names.name[i], "epoch_", 6) != 0) continue;
        char *path = mega_path_join(folder, names.name[i]);
        const int64_t iteration = path != NULL ? train_iteration_in(path) : -1;
        if (iteration > latest && (wanted < 0 || iteration == wanted)) {
            latest = iteration;
            mega_free(best);
            best = path;
        } else {
            mega_free(path);
        }
    }
    mega_names_fini(&names);
    return best;
}

bool train_is_ended_clm(const char *folder)
{
    char *text = NULL, *path = mega_path_join(folder, "latest_checkpointed_iteration.txt");
    const bool found = path != NULL && mega_file_exists(path) && mega_file_read(path, &text, NULL) == MEGA_OK &&
                       strncmp(text, "final", 5) == 0 && strspn(text + 5, "\n") == strlen(text + 5);
    MEGA_FREE(text, path);
    mega_error_clear();
    return found;
}
