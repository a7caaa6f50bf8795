/* Finds the folders and files that the names of run_clm lead to. The original downloads what is called so; here a name
 * leads to a folder beside the run. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "tasks/train_clm.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Places for NAME, with what comes before and after it. */
static const char *const places[] = {"", "data/"};

/* Returns NAME without "openai-community/": the hub's names have an owner in front. */
static const char *without_owner(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash != NULL && strchr(slash + 1, '/') == NULL ? slash + 1 : name;
}

const char *train_clm_folder(mega_train_options *cfg, const char *name, const char *sub, mega_buffer *looked)
{
    const char *const names[] = {name, without_owner(name)};
    for (size_t n = 0; n < (names[1] != name ? 2 : 1); n++) {
        for (size_t i = 0; i < MEGA_COUNT(places); i++) {
            if (name[0] == '/' && i > 0) continue;
            const char *folder = mega_options_text(cfg->engine.options, "%s%s%s%s", places[i], names[n],
                                                   sub != NULL ? "/" : "", sub != NULL ? sub : "");
            if (mega_folder_exists(folder)) return folder;
            mega_buffer_printf(looked, "%s%s", looked->size > 0 ? ", " : "", folder);
        }
    }
    return NULL;
}

bool train_clm_has(mega_train_options *cfg, const char *folder, const char *file)
{
    return mega_file_exists(mega_options_text(cfg->engine.options, "%s/%s", folder, file));
}

/* ---- the state of a run ---- */

void train_clm_find_state(mega_train_options *cfg)
{
    const char *folder = cfg->load;
    if (folder == NULL || cfg->finetune || cfg->ckpt_step > 0 || !train_is_ended_clm(folder)) return;
    char *newest = train_find_state(folder, -1);
    if (newest == NULL) {
        mega_options_mistake(
            cfg->engine.options,
            "--resume_from_checkpoint %s: that run has ended, and kept its model alone, without the state "
            "of the training (--checkpointing_steps keeps it); --model_name_or_path %s trains these "
            "weights further",
            folder, folder);
        return;
    }
    mega_info("--resume_from_checkpoint %s: its newest state is %s", folder, newest);
    cfg->load = mega_options_text(cfg->engine.options, "%s", newest);
    mega_free(newest);
}

/* ---- the files of a data set ---- */

/* Returns whether the name contains the word, not inside of a longer one. */
static bool has_word(const char *name, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = name; *at != '\0'; at++) {
        if (strncasecmp(at, word, n) != 0) continue;
        if ((at == name || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[n])) return true;
    }
    return false;
}

static bool has_any(const char *name, const char *const *words)
{
    for (; *words != NULL; words++)
        if (has_word(name, *words)) return true;
    return false;
}

static bool clm_is_text(const char *name)
{
    static const char *const endings[] = {".txt",    ".text",    ".raw",      ".tokens",  ".json",
                                          ".jsonl",  ".csv",     ".csv.gz",   ".csv.zst", ".ndjson",
                                          ".txt.gz", ".json.gz", ".jsonl.gz", ".txt.zst", ".jsonl.zst"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < MEGA_COUNT(endings); i++) {
        const size_t m = strlen(endings[i]);
        if (n > m && strcasecmp(name + n - m, endings[i]) == 0) return true;
    }
    return false;
}

/* Adds the files of one split. With `words` NULL: files that name no split. */
static void add_files(mega_train_options *cfg, const char *folder, const mega_names *names, const char *const *words,
                      int split, mega_list *out)
{
    static const char *const any[] = {"train", "training", "validation", "valid", "dev",
                                      "val",   "test",     "testing",    "eval",  NULL};
    mega_clm_options *c = &cfg->clm;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->name[i];
        if (!clm_is_text(name) || (words != NULL ? !has_any(name, words) : has_any(name, any))) continue;
        if (out->count == MEGA_CLM_FILES) {
            mega_options_mistake(cfg->engine.options,
                                 "--dataset_name %s: %s has more than %d files of a split; join them, or give "
                                 "--train_file and --validation_file",
                                 c->dataset_name, folder, MEGA_CLM_FILES);
            return;
        }
        c->found[split][out->count++] = mega_options_text(cfg->engine.options, "%s/%s", folder, name);
    }
    out->item = c->found[split];
}

static void clm_take_files(mega_train_options *cfg, const char *folder)
{
    static const char *const train[] = {"train", "training", NULL}, *const validation[] = {"validation", "valid", "dev",
                                                                                           "val", NULL};
    mega_clm_options *c = &cfg->clm;
    mega_names names = {0};
    const mega_status st = mega_folder_list(folder, &names);
    if (st != MEGA_OK) {
        mega_options_problem(cfg->engine.options, st, "--dataset_name %s: %s", c->dataset_name, mega_error_message());
        return;
    }
    add_files(cfg, folder, &names, train, 0, &c->train);
    add_files(cfg, folder, &names, validation, 1, &c->validation);
    if (c->train.count == 0) add_files(cfg, folder, &names, NULL, 0, &c->train);
    mega_names_fini(&names);
    if (c->train.count > 0) return;
    mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND,
                         "--dataset_name %s: %s holds no text file (.txt, .raw, .json, .jsonl, .csv, also .gz) of the "
                         "training, such as train.txt; expected files whose names say train and validation",
                         c->dataset_name, folder);
}

void train_clm_find_data(mega_train_options *cfg)
{
    mega_clm_options *c = &cfg->clm;
    mega_buffer looked = {0};
    c->train = c->train_file;
    c->validation = c->validation_file;
    if (c->dataset_name == NULL) return;
    const char *folder = train_clm_folder(cfg, c->dataset_name, c->dataset_config_name, &looked);
    if (folder == NULL && c->dataset_config_name != NULL)
        folder = train_clm_folder(cfg, c->dataset_config_name, NULL, &looked);
    if (folder != NULL) clm_take_files(cfg, folder);
    else
        mega_options_problem(
            cfg->engine.options, MEGA_ERR_NOT_FOUND,
            "--dataset_name %s: nothing is downloaded, and there is no folder of this name: looked for "
            "%s; make one with train.txt and validation.txt (or .jsonl), or give --train_file",
            c->dataset_name, looked.data != NULL ? looked.data : "");
    mega_buffer_fini(&looked);
}
