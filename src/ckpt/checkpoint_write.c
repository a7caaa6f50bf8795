/* Writing a checkpoint such that a crash at any instant leaves the one before it whole and found:
 *
 *   everything into iter_N.tmp-HOST-PID, each file synced, then its folders   nothing is visible yet
 *   rename to iter_N (or exchange with an existing one), sync SAVE            the folder is there, whole or not at all
 *   the tracker, atomically                                                   the run goes on from it
 *   what is older than --keep-checkpoints is renamed, synced, removed
 */
#include "ckpt_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct saver {
    const mega_checkpoint_save *save;
    char *final, *temporary; /* SAVE/iter_N, SAVE/iter_N.tmp-HOST-PID */
    mega_checksums sums;
} saver;

static mega_status no_memory(const saver *s)
{
    return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory to write it", s->save->folder);
}

static mega_status write_text(saver *s, const char *name, const char *text, size_t size)
{
    char *path = mega_path_join(s->temporary, name);
    if (path == NULL) return no_memory(s);
    mega_writer *w = NULL;
    mega_status st = mega_writer_create(&w, path);
    mega_free(path);
    if (st != MEGA_OK) return st;
    st = mega_writer_write(w, text, size);
    if (st != MEGA_OK) {
        mega_writer_abandon(w);
        return st;
    }
    const uint32_t crc = mega_writer_crc32c(w);
    MEGA_TRY(mega_writer_close(w, true));
    return mega_checksums_add(&s->sums, name, (int64_t)size, crc);
}

/* A whole tensor comes in the order of the file. */
static mega_status append(void *writer, const mega_state_runs *runs, const void *bytes)
{
    return mega_st_writer_write(writer, bytes, (size_t)(runs->rows * runs->run));
}

static mega_status stream_tensors(mega_st_writer *w, const mega_state_tensor *t, mega_dtype acc, mega_dtype file)
{
    for (int i; (i = mega_st_writer_next(w)) >= 0;) MEGA_TRY(mega_state_tensor_write(&t[i], acc, file, append, w));
    return MEGA_OK;
}

static mega_status write_tensors(saver *s, const char *name, const mega_state_tensor *t, int count, mega_dtype file)
{
    const mega_st_pair format = {"format", "pt"}; /* several versions of transformers refuse files without it */
    char *path = mega_path_join(s->temporary, name);
    mega_st_entry *entry = mega_malloc((size_t)(count + 1) * sizeof *entry);
    mega_st_writer *w = NULL;
    uint32_t crc = 0;
    int64_t size = 0;
    mega_status st = path != NULL && entry != NULL ? MEGA_OK : no_memory(s);
    for (int i = 0; i < count && st == MEGA_OK; i++) {
        st = mega_state_tensor_check(&t[i]);
        if (st == MEGA_OK) mega_state_tensor_entry(&t[i], file, &entry[i]);
    }
    if (st == MEGA_OK) st = mega_st_writer_create(&w, path, entry, count, &format, 1);
    if (st == MEGA_OK) {
        st = stream_tensors(w, t, s->save->acc, file);
        if (st == MEGA_OK) st = mega_st_writer_close(w, true, &crc, &size);
        else
            mega_st_writer_abandon(w);
    }
    if (st == MEGA_OK) st = mega_checksums_add(&s->sums, name, size, crc);
    mega_free(entry);
    mega_free(path);
    return st;
}

static mega_status write_json(saver *s)
{
    mega_buffer text = {0};
    mega_status st = mega_hf_config_text(&text, s->save->shape, s->save->save_dtype);
    if (st == MEGA_OK) st = write_text(s, "config.json", text.data, text.size);
    text.size = 0;
    if (st == MEGA_OK) st = mega_hf_generation_text(&text, s->save->shape);
    if (st == MEGA_OK) st = write_text(s, "generation_config.json", text.data, text.size);
    mega_buffer_fini(&text);
    return st;
}

/* The tokenizer writes its own files; they are taken into the list afterwards. */
static mega_status add_file(saver *s, const char *name)
{
    char *path = mega_path_join(s->temporary, name);
    if (path == NULL) return no_memory(s);
    mega_map map = {0};
    mega_status st = mega_map_open(&map, path);
    mega_free(path);
    if (st != MEGA_OK) return st;
    st = mega_checksums_add(&s->sums, name, (int64_t)map.size, mega_crc32c(0, map.data, map.size));
    mega_map_close(&map);
    return st;
}

static mega_status write_tokenizer(saver *s)
{
    if (s->save->tokenizer == NULL) return MEGA_OK;
    MEGA_TRY(mega_tokenizer_save(s->save->tokenizer, s->temporary));
    mega_names names = {0};
    MEGA_TRY(mega_folder_list(&names, s->temporary));
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        if (strcmp(names.name[i], "state") != 0 && !mega_checksums_have(&s->sums, names.name[i]))
            st = add_file(s, names.name[i]);
    }
    mega_names_fini(&names);
    return st;
}

/* Weights in a narrower type than they are trained in cannot resume bit for bit, so the exact ones go with the moments.
 */
static mega_status write_state(saver *s)
{
    const mega_checkpoint_save *v = s->save;
    if (v->run_json != NULL) MEGA_TRY(write_text(s, "state/run.json", v->run_json, strlen(v->run_json)));
    if (v->num_moments == 0) return MEGA_OK;
    MEGA_TRY(write_tensors(s, "state/optimizer.safetensors", v->moments, v->num_moments, v->acc));
    if (v->save_dtype != v->acc)
        MEGA_TRY(write_tensors(s, "state/masters.safetensors", v->weights, v->num_weights, v->acc));
    return MEGA_OK;
}

static mega_status write_checksums(saver *s)
{
    mega_buffer text = {0};
    mega_status st = mega_checksums_text(&text, &s->sums);
    if (st == MEGA_OK) st = write_text(s, MEGA_CHECKSUMS_FILE, text.data, text.size);
    mega_buffer_fini(&text);
    return st;
}

static mega_status write_files(saver *s)
{
    const mega_checkpoint_save *v = s->save;
    char *state = mega_path_join(s->temporary, "state");
    if (state == NULL) return no_memory(s);
    mega_status st = mega_tree_remove(s->temporary); /* of an earlier process with our id */
    if (st == MEGA_OK) st = mega_folder_create(state);
    if (st == MEGA_OK) st = write_json(s);
    if (st == MEGA_OK && v->model_card != NULL) st = write_text(s, "README.md", v->model_card, strlen(v->model_card));
    if (st == MEGA_OK) st = write_tensors(s, "model.safetensors", v->weights, v->num_weights, v->save_dtype);
    if (st == MEGA_OK) st = write_tokenizer(s);
    if (st == MEGA_OK) st = write_state(s);
    if (st == MEGA_OK) st = write_checksums(s);
    if (st == MEGA_OK) st = mega_folder_sync(state);
    if (st == MEGA_OK) st = mega_folder_sync(s->temporary);
    mega_free(state);
    return st;
}

static mega_status write_tracker(const saver *s)
{
    char text[32];
    char *path = mega_path_join(s->save->folder, MEGA_TRACKER);
    if (path == NULL) return no_memory(s);
    const int n = snprintf(text, sizeof text, "%" PRId64, s->save->iteration);
    const mega_status st = mega_file_write_atomic(path, text, (size_t)n);
    mega_free(path);
    return st;
}

/* From here on the new folder is the one that counts. An existing iteration folder comes out under the temporary name.
 */
static mega_status commit(const saver *s)
{
    const bool exists = mega_folder_exists(s->final);
    MEGA_TRY(exists ? mega_file_exchange(s->final, s->temporary) : mega_file_rename(s->temporary, s->final));
    MEGA_TRY(mega_folder_sync(s->save->folder));
    MEGA_TRY(write_tracker(s));
    if (exists && mega_tree_remove(s->temporary) != MEGA_OK) mega_warn("%s", mega_error_message());
    return MEGA_OK;
}

/* Renamed and synced first: a folder that is half removed must not look like an iteration. */
static mega_status remove_iteration(const char *save, int64_t iteration)
{
    char *path = mega_iteration_path(save, iteration), *aside = mega_iteration_temporary(save, iteration);
    mega_status st =
        path != NULL && aside != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a path", save);
    if (st == MEGA_OK) st = mega_file_rename(path, aside);
    if (st == MEGA_OK) st = mega_folder_sync(save);
    if (st == MEGA_OK) st = mega_tree_remove(aside);
    mega_free(path);
    mega_free(aside);
    return st;
}

/* Keeps the one just written and the newest of those before it. Later ones, from a run that was taken back, stay. */
static mega_status prune(const mega_checkpoint_save *v)
{
    if (v->keep <= 0) return MEGA_OK;
    mega_iterations list = {0};
    MEGA_TRY(mega_iterations_list(&list, v->folder));
    mega_status st = MEGA_OK;
    int kept = 0;
    for (size_t i = list.count; i > 0 && st == MEGA_OK; i--) {
        if (list.iteration[i - 1] > v->iteration) continue;
        if (++kept > v->keep) st = remove_iteration(v->folder, list.iteration[i - 1]);
    }
    mega_iterations_fini(&list);
    return st;
}

/* An iteration folder that some other program wrote is not ours to replace. */
static mega_status check_existing(const saver *s)
{
    static const char *const ours[] = {MEGA_CHECKSUMS_FILE, "config.json"};
    if (!mega_folder_exists(s->final)) return MEGA_OK;
    mega_names names = {0};
    MEGA_TRY(mega_folder_list(&names, s->final));
    bool fits = names.count == 0;
    mega_names_fini(&names);
    for (size_t i = 0; i < 2 && !fits; i++) {
        char *path = mega_path_join(s->final, ours[i]);
        if (path == NULL) return no_memory(s);
        fits = mega_file_exists(path);
        mega_free(path);
    }
    if (fits) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE,
                     "%s: already there, and not written by megalith; move it away or choose another --save", s->final);
}

static mega_status check(const mega_checkpoint_save *v)
{
    if (v->iteration < 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "checkpoint %s: iteration %" PRId64 ", expected 0 or more", v->folder,
                         v->iteration);
    if (v->save_dtype != MEGA_F32 && v->save_dtype != MEGA_BF16 && v->save_dtype != MEGA_F16)
        return MEGA_FAIL(MEGA_ERR_USAGE, "checkpoint %s: weights cannot be saved as %s; expected f32, bf16 or f16",
                         v->folder, mega_dtype_name(v->save_dtype));
    if (mega_file_exists(v->folder))
        return MEGA_FAIL(MEGA_ERR_USAGE, "--save %s: this is a file, expected a folder; choose another name",
                         v->folder);
    return MEGA_OK;
}

/* SAVE may have been made moments ago by others; its own entry has to last, too. Not every folder may be opened. */
static mega_status prepare_folder(const char *folder)
{
    MEGA_TRY(mega_folder_create_durably(folder));
    char *parent = mega_path_folder(folder);
    if (parent != NULL && mega_folder_sync(parent) != MEGA_OK) mega_error_clear();
    mega_free(parent);
    return MEGA_OK;
}

mega_status mega_checkpoint_write(const mega_checkpoint_save *save)
{
    MEGA_TRY(check(save));
    saver s = {.save = save, .sums = {.iteration = save->iteration}};
    s.final = mega_iteration_path(save->folder, save->iteration);
    s.temporary = mega_iteration_temporary(save->folder, save->iteration);
    mega_status st = s.final != NULL && s.temporary != NULL ? MEGA_OK : no_memory(&s);
    if (st == MEGA_OK) st = check_existing(&s);
    if (st == MEGA_OK) st = prepare_folder(save->folder);
    if (st == MEGA_OK) {
        int64_t current = -1; /* may itself be a left-over, see mega_leftover_find */
        if (mega_tracker_read(&current, save->folder) != MEGA_OK) mega_error_clear();
        mega_leftovers_remove(save->folder, current);
        st = write_files(&s);
        if (st != MEGA_OK) { /* the first error is the one to tell */
            mega_error_record why;
            mega_error_get(&why);
            mega_tree_remove(s.temporary);
            mega_error_restore(&why);
        }
    }
    if (st == MEGA_OK) st = commit(&s);
    if (st != MEGA_OK) mega_error_prepend("saving iteration %" PRId64, save->iteration);
    if (st == MEGA_OK) {
        mega_leftovers_remove(save->folder, -1);
        if (prune(save) != MEGA_OK) mega_warn("older checkpoints are not removed: %s", mega_error_message());
    }
    mega_free(s.final);
    mega_free(s.temporary);
    mega_checksums_fini(&s.sums);
    return st;
}
