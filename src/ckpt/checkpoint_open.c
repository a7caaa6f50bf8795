/* Finds a checkpoint and verifies that it is complete before anything is read from it. */
#include "checkpoint_impl.h"
#include "megalith/file_kind.h"
#include "megalith/run_json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mega_status open_no_memory(const char *path)
{
    return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory to open it", path);
}

/* Allocates nothing, so that a lack of memory cannot look like a missing file. */
static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && n < (int)sizeof path && mega_file_exists(path);
}

/* Opens an optional file of state/; *out is NULL if it does not exist. */
static mega_status open_state_tensors(const char *folder, const char *name, mega_safetensors **out)
{
    if (!has_file(folder, name)) return MEGA_OK;
    char *path = mega_path_join(folder, name);
    if (path == NULL) return open_no_memory(folder);
    const mega_status st = mega_safetensors_open(path, out);
    mega_free(path);
    return st;
}

/* A folder with state/ was written by megalith, so all files must match the checksums. */
static mega_status open_state(mega_checkpoint *c, const opening *how)
{
    char *state = mega_path_join(c->folder, "state");
    if (state == NULL) return open_no_memory(c->folder);
    const bool ours = mega_folder_exists(state);
    mega_free(state);
    if (!ours) return MEGA_OK;
    mega_checksums sums = {0};
    mega_status st = mega_checksums_read(c->folder, &sums);
    if (st != MEGA_OK) {
        mega_error_prepend("checkpoint %s is not complete", c->folder);
        return st;
    }
    st = mega_checksums_verify(&sums, c->folder, how->sums, c->team);
    if (st == MEGA_OK && mega_checksums_find(&sums, "state/run.json") != NULL) {
        char *path = mega_path_join(c->folder, "state/run.json");
        st = path != NULL ? mega_file_read_kind(path, "the JSON of a checkpoint", 0, &c->run_json, NULL)
                          : open_no_memory(c->folder);
        mega_free(path);
    }
    if (st == MEGA_OK) st = open_state_tensors(c->folder, "state/optimizer.safetensors", &c->moments);
    if (st == MEGA_OK) st = open_state_tensors(c->folder, "state/masters.safetensors", &c->masters);
    if (st == MEGA_OK) st = open_state_tensors(c->folder, CHECKPOINT_CLIENT_FILE, &c->client);
    c->iteration = sums.iteration;
    c->sums_hash = mega_checksums_hash(&sums);
    c->sums = sums;
    return st;
}

static mega_status opened_fill(mega_checkpoint *c, const char *folder, const opening *how)
{
    c->folder = mega_strdup(folder);
    if (c->folder == NULL) return open_no_memory(folder);
    char *config = mega_path_join(folder, "config.json");
    if (config == NULL) return open_no_memory(folder);
    mega_status st = open_state(c, how); /* report damage before its consequences */
    if (st == MEGA_OK && !mega_file_exists(config))
        st = MEGA_FAIL(MEGA_ERR_NOT_FOUND, "%s: config.json is missing; expected a folder saved by transformers",
                       folder);
    if (st == MEGA_OK) st = mega_hf_config_read(config, &c->shape);
    if (st == MEGA_OK && c->run_json != NULL && c->shape.num_layers > 0)
        mega_run_json_take_network(c->run_json, &c->shape);
    if (st == MEGA_OK && !how->shape_alone) st = mega_hf_weights_open(folder, &c->weights);
    mega_free(config);
    return st;
}

/* Returns the first name that identifies another program's checkpoint: Megatron's rank folders or its distributed
 * format, DeepSpeed's steps, or a pickle of PyTorch. NULL if there is none. */
static const char *name_of_torch(const mega_names *names)
{
    static const char *const heads[] = {"mp_rank_", "distrib_optim", "zero_pp_rank_", "global_step", "__0_0.distcp"};
    static const char *const ends[] = {".distcp", ".pt", ".pth", ".ckpt"};
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->name[i];
        const size_t n = strlen(name);
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
            if (strncmp(name, heads[k], strlen(heads[k])) == 0) return name;
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (n > strlen(ends[k]) && strcmp(name + n - strlen(ends[k]), ends[k]) == 0) return name;
    }
    return NULL;
}

/* Refuses a folder with PyTorch files that megalith cannot read. With a config.json beside them it is a folder of
 * transformers, whose safetensors can be read. */
static mega_status refuse_torch(const char *folder)
{
    mega_names names = {0};
    if (has_file(folder, "config.json")) return MEGA_OK;
    MEGA_TRY(mega_folder_list(folder, &names));
    const char *found = name_of_torch(&names);
    const mega_status st =
        found == NULL
            ? MEGA_OK
            : MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                        "%s: found %s, written by Megatron, DeepSpeed or PyTorch, expected a Hugging Face GPT-2 "
                        "folder; " MEGA_CHECKPOINT_FROM_TORCH,
                        folder, found);
    mega_names_fini(&names);
    return st;
}

static mega_status open_as(const char *folder, const opening *how, mega_checkpoint **out)
{
    mega_checkpoint *c = mega_calloc(1, sizeof *c);
    if (c == NULL) return open_no_memory(folder);
    c->team = how->team;
    c->says_ignored = true;
    const mega_status st = opened_fill(c, folder, how);
    if (st != MEGA_OK) {
        mega_checkpoint_close(c);
        return st;
    }
    *out = c;
    return MEGA_OK;
}

/* Opens a folder that is itself a checkpoint. If that fails before the contents were verified, verifies them and tries
 * again, so that damage is reported before its consequences. */
static mega_status open_folder(const char *folder, const opening *how, mega_checkpoint **out)
{
    opening whole = *how;
    whole.sums = MEGA_SUMS_ALL;
    for (const known_damage *d = how->damaged; d != NULL; d = d->next)
        if (strcmp(d->folder, folder) == 0) return mega_error_restore(&d->found);
    MEGA_TRY(refuse_torch(folder));
    const mega_status st = open_as(folder, how, out);
    return st != MEGA_ERR_FORMAT && st != MEGA_ERR_UNSUPPORTED ? st : open_as(folder, &whole, out);
}

void mega_checkpoint_close(mega_checkpoint *c)
{
    if (c == NULL) return;
    mega_hf_weights_close(&c->weights);
    mega_safetensors_close(c->moments);
    mega_safetensors_close(c->masters);
    mega_safetensors_close(c->client);
    mega_checksums_fini(&c->sums);
    mega_params_destroy(c->dense);
    MEGA_FREE(c->run_json, c->folder, c);
}

/* name: iter_N or a tag. */
static mega_status open_name(const char *save, const char *name, const opening *how, mega_checkpoint **out)
{
    int64_t iteration = 0;
    char *folder = mega_path_join(save, name);
    if (folder == NULL) return open_no_memory(save);
    mega_status st = MEGA_OK;
    if (mega_folder_exists(folder)) {
        st = open_folder(folder, how, out);
    } else {
        char *aside = mega_leftover_find(save, name);
        if (aside != NULL) {
            mega_warn(
                "checkpoint %s: a save was interrupted while it was renaming it; the complete checkpoint is in %s",
                folder, aside);
            st = open_folder(aside, how, out);
        } else {
            st = MEGA_FAIL(MEGA_ERR_NOT_FOUND, "checkpoint %s: missing, though %s/" MEGA_TRACKER " names it", folder,
                           save);
        }
        mega_free(aside);
    }
    mega_free(folder);
    if (st == MEGA_OK && (*out)->run_json == NULL && (*out)->iteration == 0 && mega_iteration_parse(name, &iteration) &&
        iteration > 0)
        mega_warn("checkpoint %s has no state/ folder: it has only weights, and counts as iteration 0", (*out)->folder);
    return st;
}

/* Tries checkpoints in order of preference: from `newest` downwards, then later ones, which come from a run that went
 * back to an earlier checkpoint. */
static mega_status open_another(const char *save, int64_t newest, bool skip_newest, const opening *how,
                                mega_checkpoint **out)
{
    mega_iterations list = {0};
    MEGA_TRY(mega_iterations_list(save, &list));
    mega_checkpoint *found = NULL;
    mega_status st = MEGA_OK;
    for (int later = 0; later < 2 && found == NULL; later++) {
        for (size_t i = list.count; i > 0 && found == NULL && st != MEGA_ERR_INTERRUPTED; i--) {
            const int64_t iteration = list.iteration[i - 1];
            if ((iteration > newest) != (later == 1) || (iteration == newest && skip_newest)) continue;
            st = open_name(save, mega_checkpoint_name_of(iteration).text, how, &found);
            if (st != MEGA_OK && st != MEGA_ERR_INTERRUPTED) mega_warn("%s", mega_error_message());
        }
    }
    mega_iterations_fini(&list);
    if (st == MEGA_ERR_INTERRUPTED) return st;
    if (found == NULL) return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "%s: it contains no complete checkpoint", save);
    *out = found;
    return MEGA_OK;
}

/* Opens a SAVE folder with a tracker. */
static mega_status open_tracked(const char *save, bool any_whole, const opening *how, mega_checkpoint **out)
{
    int64_t iteration = INT64_MAX; /* a tag counts as the newest */
    mega_checkpoint_name name;
    mega_status st = mega_tracker_read(save, &name);
    const bool is_read = st == MEGA_OK, is_tag = is_read && !mega_iteration_parse(name.text, &iteration);
    if (is_read) st = open_name(save, name.text, how, out);
    if (st == MEGA_OK || st == MEGA_ERR_MEMORY || st == MEGA_ERR_UNSUPPORTED || st == MEGA_ERR_INTERRUPTED) return st;
    mega_error_record damage;
    mega_error_get(&damage);
    if (any_whole) {
        mega_warn("%s", damage.text);
        if (open_another(save, iteration, !is_tag, how, out) == MEGA_OK) {
            mega_warn("continuing from the last complete checkpoint, %s", (*out)->folder);
            return MEGA_OK;
        }
    }
    mega_error_restore(&damage);
    mega_remedy_add(save, iteration, any_whole);
    return st;
}

/* Without the tracker nobody knows whether a checkpoint with a tag is newer than the numbered ones. */
static mega_status refuse_tags_without_tracker(const char *save, const mega_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        char mark[PATH_MAX];
        int64_t iteration = 0;
        const char *name = names->name[i];
        const int n = snprintf(mark, sizeof mark, "%s/" MEGA_CHECKSUMS_FILE, name);
        const bool is_unfinished = strstr(name, ".tmp-") != NULL || strstr(name, ".exchange-") != NULL;
        if (mega_iteration_parse(name, &iteration) || is_unfinished) continue;
        if (n > 0 && n < (int)sizeof mark && has_file(save, mark))
            return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                             "%s: " MEGA_TRACKER " is missing, and %s is a checkpoint with a tag; load that folder "
                             "itself, or write the name of the checkpoint to load into " MEGA_TRACKER,
                             save, name);
    }
    return MEGA_OK;
}

/* Handles a folder without tracker and without config.json. Its files may still be meant as a checkpoint. */
static mega_status open_untracked(const char *path, const mega_names *names, const opening *how, mega_checkpoint **out)
{
    mega_iterations list = {0};
    MEGA_TRY(refuse_tags_without_tracker(path, names));
    MEGA_TRY(mega_iterations_list(path, &list));
    const size_t iterations = list.count;
    mega_iterations_fini(&list);
    if (iterations > 0) {
        MEGA_TRY(open_another(path, INT64_MAX, false, how, out));
        mega_warn("%s: " MEGA_TRACKER " is missing; using the newest complete iteration, %s", path, (*out)->folder);
        return MEGA_OK;
    }
    MEGA_TRY(refuse_torch(path));
    MEGA_TRY(mega_remedy_refuse_parts(path, names));
    *out = NULL;
    return MEGA_OK;
}

mega_status mega_checkpoint_open_as(const char *path, bool any_whole, const opening *how, mega_checkpoint **out)
{
    *out = NULL;
    const mega_status access = mega_path_check_access(path);
    if (access != MEGA_OK) mega_error_prepend("--load");
    if (access != MEGA_OK) return access;
    if (mega_file_exists(path))
        return MEGA_MISTAKE("--load %s: this is a file, expected the folder that contains it", path);
    if (!mega_folder_exists(path)) return MEGA_OK;
    if (has_file(path, MEGA_TRACKER)) return open_tracked(path, any_whole, how, out);
    if (has_file(path, "config.json")) {
        const mega_status st = open_folder(path, how, out);
        if (st == MEGA_ERR_FORMAT || st == MEGA_ERR_NOT_FOUND) mega_remedy_add_beside(path);
        return st;
    }
    mega_names names = {0};
    MEGA_TRY(mega_folder_list(path, &names));
    const mega_status st = open_untracked(path, &names, how, out);
    mega_names_fini(&names);
    return st;
}

bool mega_checkpoint_is_config(const char *folder)
{
    static const char *const more[] = {MEGA_TRACKER, "model.safetensors", "model.safetensors.index.json",
                                       MEGA_CHECKSUMS_FILE};
    if (!has_file(folder, "config.json")) return false;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (has_file(folder, more[i])) return false;
    return true;
}

mega_status mega_checkpoint_open_config(const char *folder, mega_checkpoint **out)
{
    *out = NULL;
    return open_as(folder, &(opening){.sums = MEGA_SUMS_ALL, .shape_alone = true}, out);
}

mega_status mega_checkpoint_open_team(const char *path, bool any_whole, mega_team *team, mega_checkpoint **out)
{
    return mega_checkpoint_open_as(path, any_whole, &(opening){.team = team, .sums = MEGA_SUMS_ALL}, out);
}

mega_status mega_checkpoint_open(const char *path, bool any_whole, mega_checkpoint **out)
{
    return mega_checkpoint_open_team(path, any_whole, NULL, out);
}

bool mega_checkpoint_is_in(const char *path)
{
    return has_file(path, MEGA_TRACKER) || has_file(path, "config.json") || mega_checkpoint_latest(path) >= 0;
}

int64_t mega_checkpoint_latest(const char *save)
{
    mega_iterations list = {0};
    if (mega_iterations_list(save, &list) != MEGA_OK) return -1;
    int64_t newest = -1;
    for (size_t i = list.count; i > 0 && newest < 0; i--) {
        mega_checksums sums = {0};
        char *folder = mega_iteration_path(save, list.iteration[i - 1]);
        if (folder != NULL && mega_checksums_read(folder, &sums) == MEGA_OK &&
            mega_checksums_verify(&sums, folder, MEGA_SUMS_NONE, NULL) == MEGA_OK)
            newest = list.iteration[i - 1];
        mega_checksums_fini(&sums);
        mega_free(folder);
    }
    mega_iterations_fini(&list);
    return newest;
}

int64_t mega_checkpoint_tracked(const char *save)
{
    int64_t iteration = -1;
    mega_checkpoint_name name;
    mega_checksums sums = {0};
    if (!has_file(save, MEGA_TRACKER)) return mega_checkpoint_latest(save);
    mega_status st = mega_tracker_read(save, &name);
    if (st == MEGA_OK && !mega_iteration_parse(name.text, &iteration)) {
        char *folder = mega_path_join(save, name.text);
        st = folder != NULL ? mega_checksums_read(folder, &sums) : open_no_memory(save);
        if (st == MEGA_OK) iteration = sums.iteration;
        mega_checksums_fini(&sums);
        mega_free(folder);
    }
    if (st != MEGA_OK) mega_error_clear();
    return iteration;
}

const char *mega_checkpoint_folder(const mega_checkpoint *c)
{
    return c->folder;
}

int64_t mega_checkpoint_iteration(const mega_checkpoint *c)
{
    return c->iteration;
}

bool mega_checkpoint_has_state(const mega_checkpoint *c)
{
    return c->moments != NULL && c->run_json != NULL;
}

mega_status mega_checkpoint_generation_config(const mega_checkpoint *c, char **out)
{
    static const char name[] = "generation_config.json";
    *out = NULL;
    if (!has_file(c->folder, name)) return MEGA_OK;
    char *path = mega_path_join(c->folder, name);
    if (path == NULL) return open_no_memory(c->folder);
    const mega_status st = mega_file_read_kind(path, "JSON", 0, out, NULL);
    mega_free(path);
    return st;
}

const mega_model_shape *mega_checkpoint_shape(const mega_checkpoint *c)
{
    return c->shape.num_layers > 0 ? &c->shape : NULL;
}

mega_status mega_checkpoint_check_shape(const mega_checkpoint *c)
{
    if (mega_checkpoint_shape(c) != NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "%s: it was saved by a program with a model of its own, whose layers only that program knows (its "
                     "config.json has model_type \"megalith\", no family of Hugging Face); load it with that program",
                     c->folder);
}

const char *mega_checkpoint_run_json(const mega_checkpoint *c)
{
    return c->run_json;
}

const mega_safetensors *mega_checkpoint_client(const mega_checkpoint *c)
{
    return c->client;
}
