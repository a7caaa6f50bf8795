/* The weight files of a Hugging Face folder: model.safetensors, or shards listed in model.safetensors.index.json. */
#include "ckpt_impl.h"

#include "hf_copies.h"
#include "megalith/family.h"
#include "megalith/file_kind.h"
#include "megalith/json.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mega_status open_one(mega_hf_weights *w, const char *folder, const char *name)
{
    char *path = mega_path_join(folder, name);
    if (path == NULL) return MEGA_NO_MEMORY(folder, "the list of its weight files");
    const mega_status st = mega_safetensors_open(path, &w->file[w->count]);
    if (st != MEGA_OK) {
        mega_free(path);
        return st;
    }
    w->path[w->count++] = path;
    return MEGA_OK;
}

static mega_status weights_reserve(mega_hf_weights *w, size_t count, const char *folder)
{
    w->file = mega_calloc(count, sizeof *w->file);
    w->path = mega_calloc(count, sizeof *w->path);
    return w->file != NULL && w->path != NULL ? MEGA_OK : MEGA_NO_MEMORY(folder, "the list of its weight files");
}

/* Shards are opened in the order of their names, whatever the order of the index. */
static int hf_weights_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mega_status open_shards(mega_hf_weights *w, const json_t *map, const char *folder, const char *index)
{
    const size_t count = json_object_size(map);
    const char **name = mega_malloc((count + 1) * sizeof *name);
    if (name == NULL) return MEGA_NO_MEMORY(folder, "the list of its weight files");
    mega_status st = weights_reserve(w, count + 1, folder);
    size_t n = 0;
    for (void *it = json_object_iter((json_t *)(uintptr_t)map); it != NULL && st == MEGA_OK;
         it = json_object_iter_next((json_t *)(uintptr_t)map, it)) {
        const char *shard = json_string_value(json_object_iter_value(it));
        if (shard == NULL || shard[0] == '\0' || strchr(shard, '/') != NULL)
            st =
                MEGA_FAIL(MEGA_ERR_FORMAT, "%s: tensor %s has no file of this folder", index, json_object_iter_key(it));
        else
            name[n++] = shard;
    }
    if (st == MEGA_OK && n > 1) qsort(name, n, sizeof *name, hf_weights_by_text);
    for (size_t i = 0; i < n && st == MEGA_OK; i++) {
        if (i > 0 && strcmp(name[i], name[i - 1]) == 0) continue;
        st = open_one(w, folder, name[i]);
        if (st != MEGA_OK) mega_error_prepend("%s names a shard that cannot be read", index);
    }
    mega_free(name);
    return st;
}

static const mega_safetensor *hf_weights_find_in(const mega_hf_weights *w, const char *name, size_t *shard)
{
    for (size_t i = 0; i < w->count; i++) {
        const mega_safetensor *t = mega_safetensors_find(w->file[i], name);
        if (t == NULL) continue;
        *shard = i;
        return t;
    }
    return NULL;
}

/* Checks that every tensor is in the shard that the index gives, and in no other. */
static mega_status check_index(const mega_hf_weights *w, const json_t *map, const char *index)
{
    for (void *it = json_object_iter((json_t *)(uintptr_t)map); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)map, it)) {
        const char *name = json_object_iter_key(it), *shard = json_string_value(json_object_iter_value(it));
        size_t i = 0;
        while (strcmp(mega_path_base(w->path[i]), shard) != 0) i++;
        if (mega_safetensors_find(w->file[i], name) == NULL)
            return MEGA_FAIL(MEGA_ERR_FORMAT,
                             "%s: tensor %s is not in %s, as the index says; the shards do not belong to one model",
                             index, name, shard);
    }
    for (size_t i = 0; i < w->count; i++) {
        for (size_t k = 0; k < mega_safetensors_count(w->file[i]); k++) {
            const char *name = mega_safetensors_get(w->file[i], k)->name;
            size_t first = 0;
            hf_weights_find_in(w, name, &first);
            if (first != i)
                return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: tensor %s is in both %s and %s; expected in one of them", index,
                                 name, w->path[first], w->path[i]);
        }
    }
    return MEGA_OK;
}

static mega_status open_index(mega_hf_weights *w, const char *folder, const char *index)
{
    char *text = NULL;
    size_t size = 0;
    MEGA_TRY(mega_file_read_kind(index, "an index of weights in JSON", 0, &text, &size));
    json_error_t error;
    json_t *json = mega_json_load(text, size, JSON_REJECT_DUPLICATES, &error);
    mega_free(text);
    if (json == NULL) return MEGA_FAIL(mega_json_status(&error), "%s: line %d: %s", index, error.line, error.text);
    const json_t *map = json_object_get(json, "weight_map");
    mega_status st = MEGA_OK;
    if (!json_is_object(map) || json_object_size(map) == 0)
        st = MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found no \"weight_map\", which gives the file of each tensor", index);
    else
        st = open_shards(w, map, folder, index);
    if (st == MEGA_OK) st = check_index(w, map, index);
    json_decref(json);
    return st;
}

/* The message depends on which other files the folder contains. */
static mega_status refuse_folder(const char *folder)
{
    static const char *const torch[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    for (size_t i = 0; i < 2; i++) {
        char *path = mega_path_join(folder, torch[i]);
        if (path == NULL) return MEGA_NO_MEMORY(folder, "the list of its weight files");
        const bool found = mega_file_exists(path);
        mega_free(path);
        if (found)
            return MEGA_FAIL(
                MEGA_ERR_UNSUPPORTED,
                "%s: the weights are in %s, expected model.safetensors: pickled weights cannot be read; save the "
                "folder again with transformers: AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained("
                "NEW, safe_serialization=True)",
                folder, torch[i]);
    }
    return MEGA_FAIL(
        MEGA_ERR_NOT_FOUND,
        "%s: this folder has neither model.safetensors nor model.safetensors.index.json; expected the weights "
        "beside config.json",
        folder);
}

mega_status mega_hf_weights_open(const char *folder, mega_hf_weights *out)
{
    mega_hf_weights w = {0};
    char *single = mega_path_join(folder, "model.safetensors");
    char *index = mega_path_join(folder, "model.safetensors.index.json");
    mega_status st = MEGA_OK;
    if (single == NULL || index == NULL) {
        st = MEGA_NO_MEMORY(folder, "the list of its weight files");
    } else if (mega_file_exists(single)) {
        st = weights_reserve(&w, 1, folder);
        if (st == MEGA_OK) st = open_one(&w, folder, "model.safetensors");
    } else if (mega_file_exists(index)) {
        st = open_index(&w, folder, index);
    } else {
        st = refuse_folder(folder);
    }
    MEGA_FREE(single, index);
    if (st != MEGA_OK) {
        mega_hf_weights_close(&w);
        return st;
    }
    *out = w;
    return MEGA_OK;
}

void mega_hf_weights_close(mega_hf_weights *w)
{
    for (size_t i = 0; i < w->count; i++) {
        mega_safetensors_close(w->file[i]);
        mega_free(w->path[i]);
    }
    MEGA_FREE(w->file, w->path);
    *w = (mega_hf_weights){0};
}

const mega_safetensor *mega_hf_weights_find_exact(const mega_hf_weights *w, const char *name)
{
    size_t shard = 0;
    return hf_weights_find_in(w, name, &shard);
}

/* Some folders leave out the first part of names, the part that transformers adds to the body of a model; others have
 * it although we do not expect it. */
static const mega_safetensor *find_other_prefix(const mega_hf_weights *w, const char *name)
{
    static const char *const prefix[] = {"transformer.", "model.", "gpt_neox.", "bert.", "roberta.", "distilbert."};
    const mega_safetensor *t = NULL;
    size_t shard = 0;
    char full[256];
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix && t == NULL; i++) {
        const size_t n = strlen(prefix[i]);
        if (strncmp(name, prefix[i], n) == 0) t = hf_weights_find_in(w, name + n, &shard);
        else if (snprintf(full, sizeof full, "%s%s", prefix[i], name) < (int)sizeof full)
            t = hf_weights_find_in(w, full, &shard);
    }
    return t;
}

/* BERTs that were converted from TensorFlow name weight and bias of a LayerNorm gamma and beta. */
static const mega_safetensor *find_old_norm(const mega_hf_weights *w, const char *name)
{
    static const char *const end[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
    char old[256];
    size_t shard = 0;
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        const size_t k = strlen(end[i][0]);
        if (n < k || n >= sizeof old || strcmp(name + n - k, end[i][0]) != 0) continue;
        snprintf(old, sizeof old, "%.*s%s", (int)(n - k), name, end[i][1]);
        const mega_safetensor *t = hf_weights_find_in(w, old, &shard);
        return t != NULL ? t : find_other_prefix(w, old);
    }
    return NULL;
}

static const mega_safetensor *find_or_prefixed(const mega_hf_weights *w, const char *name)
{
    size_t shard = 0;
    const mega_safetensor *t = hf_weights_find_in(w, name, &shard);
    if (t == NULL) t = find_other_prefix(w, name);
    return t != NULL ? t : find_old_norm(w, name);
}

const mega_safetensor *mega_hf_weights_find(const mega_hf_weights *w, const mega_model_shape *shape, const char *name)
{
    const mega_safetensor *t = find_or_prefixed(w, name);
    hf_copy copy;
    for (int i = 0; t == NULL && i < HF_COPIES; i++)
        if (hf_copy_get(shape, i, &copy) && strcmp(copy.original, name) == 0) t = find_or_prefixed(w, copy.name);
    /* version 5 of transformers ties the head of a T5 of any kind, and leaves it out: it is the table */
    if (t == NULL && shape->net.t5 == MEGA_T5_ORIGINAL && strcmp(name, "lm_head.weight") == 0)
        t = mega_hf_weights_find(w, shape, "shared.weight");
    return t;
}

bool mega_hf_may_ignore(const mega_family *f, const char *name)
{
    for (int i = 0; f->ignored[i] != NULL; i++)
        if (mega_family_matches(f->ignored[i], name)) return true;
    return false;
}
