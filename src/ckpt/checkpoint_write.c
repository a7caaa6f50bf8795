/* Writes a checkpoint such that a crash at any instant leaves the previous one complete and findable
 * (with a tag from the caller, read TAG for iter_N):
 *
 *   everything into iter_N.tmp-OWNER, each file synced, then its folders      nothing is visible yet
 *   rename to iter_N (or exchange with an existing one), sync SAVE            the whole folder is visible
 *   the tracker, atomically                                                   a resumed run uses it
 *   iterations beyond --keep-checkpoints are renamed, synced, removed
 *
 * With several ranks the first does all this, and every rank writes and syncs its part of the tensors. */
#include "ckpt_impl.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct saver {
    const mega_checkpoint_save *save;
    char *final, *temporary; /* SAVE/iter_N, SAVE/iter_N.tmp-OWNER; OWNER is the first rank's process */
    mega_checksums sums;
    mega_shards shards;     /* of the weights */
    mega_tensor_file *file; /* the weights first, a file for each shard; then the states */
    uint32_t *sum;          /* of this rank's parts of them */
    int num_files;
    bool is_shared; /* several ranks save together */
} saver;

static mega_status write_no_memory(const saver *s)
{
    return MEGA_FAIL(MEGA_ERR_MEMORY, "checkpoint %s: no memory to write it", s->save->folder);
}

static mega_status write_text_file(saver *s, const char *name, const char *text, size_t size)
{
    char *path = mega_path_join(s->temporary, name);
    if (path == NULL) return write_no_memory(s);
    mega_writer *w = NULL;
    mega_status st = mega_writer_create(path, &w);
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

/* Tensors whose rows are not in file order are written row by row, at their offsets. */
static mega_status write_alone(const saver *s, const mega_tensor_file *f, uint32_t *crc, int64_t *size)
{
    uint32_t sum = 0;
    if (mega_tensor_file_can_stream(f)) return mega_tensor_file_stream(f, s->temporary, crc, size);
    MEGA_TRY(mega_tensor_file_lay_out(f, s->temporary, size));
    MEGA_TRY(mega_tensor_file_write_part(f, s->temporary, true, &sum));
    *crc = mega_crc32c_zeros((uint64_t)*size) ^ sum;
    return MEGA_OK;
}

/* With several ranks only creates the file: the ranks fill and checksum it later. */
static mega_status write_tensors(saver *s, const mega_tensor_file *f)
{
    uint32_t crc = 0;
    int64_t size = 0;
    MEGA_TRY(s->is_shared ? mega_tensor_file_lay_out(f, s->temporary, &size) : write_alone(s, f, &crc, &size));
    return mega_checksums_add(&s->sums, f->name, size, crc);
}

static mega_status write_json(saver *s)
{
    mega_buffer text = {0};
    mega_status st = mega_hf_config_text(&text, s->save->shape, s->save->save_dtype);
    if (st == MEGA_OK) st = write_text_file(s, "config.json", text.data, text.size);
    text.size = 0;
    if (st == MEGA_OK && s->save->shape != NULL && !s->save->shape->net.is_encoder) { /* which writes no text */
        if (s->save->generation_config != NULL) mega_buffer_puts(&text, s->save->generation_config);
        else
            st = mega_hf_generation_text(&text, s->save->shape);
        if (st == MEGA_OK) st = mega_buffer_check(&text, "generation_config.json");
        if (st == MEGA_OK) st = write_text_file(s, "generation_config.json", text.data, text.size);
    }
    mega_buffer_fini(&text);
    return st;
}

/* The tokenizer writes its own files; this adds one of them to the list afterwards. */
static mega_status write_add_file(saver *s, const char *name)
{
    char *path = mega_path_join(s->temporary, name);
    if (path == NULL) return write_no_memory(s);
    mega_map map = {0};
    mega_status st = mega_map_open(path, &map);
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
    MEGA_TRY(mega_folder_list(s->temporary, &names));
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        if (strcmp(names.name[i], "state") != 0 && mega_checksums_find(&s->sums, names.name[i]) == NULL)
            st = write_add_file(s, names.name[i]);
    }
    mega_names_fini(&names);
    return st;
}

static mega_status write_state(saver *s)
{
    const mega_checkpoint_save *v = s->save;
    if (v->run_json != NULL) MEGA_TRY(write_text_file(s, "state/run.json", v->run_json, strlen(v->run_json)));
    for (int i = s->shards.count; i < s->num_files; i++) MEGA_TRY(write_tensors(s, &s->file[i]));
    return mega_client_arrays_write(v, s->temporary, &s->sums);
}

/* If weights are saved in a narrower type than they are trained in, resuming bit for bit needs the exact ones, which
 * are saved with the moments. */
static mega_status list_files(saver *s)
{
    const mega_checkpoint_save *v = s->save;
    const mega_tensor_file moments = {"state/optimizer.safetensors", v->moments, v->num_moments, v->acc, v->acc},
                           masters = {"state/masters.safetensors", v->weights, v->num_weights, v->acc, v->acc};
    MEGA_TRY(mega_shards_make(v->weights, v->num_weights, v->save_dtype, v->max_shard_bytes, &s->shards));
    const size_t most = (size_t)s->shards.count + 2;
    s->file = mega_calloc(most, sizeof *s->file);
    s->sum = mega_calloc(most, sizeof *s->sum);
    if (s->file == NULL || s->sum == NULL) return write_no_memory(s);
    for (int i = 0; i < s->shards.count; i++) {
        const int first = s->shards.first[i];
        s->file[s->num_files++] = (mega_tensor_file){s->shards.name[i], v->weights + first,
                                                     s->shards.first[i + 1] - first, v->acc, v->save_dtype};
    }
    if (v->num_moments > 0) s->file[s->num_files++] = moments;
    if (v->num_moments > 0 && mega_dtype_size(v->save_dtype) < mega_dtype_size(v->acc))
        s->file[s->num_files++] = masters;
    return MEGA_OK;
}

static mega_status write_weights(saver *s)
{
    mega_buffer index = {0};
    for (int i = 0; i < s->shards.count; i++) MEGA_TRY(write_tensors(s, &s->file[i]));
    if (s->shards.count == 1) return MEGA_OK;
    mega_status st = mega_shards_index(&s->shards, s->save->weights, &index);
    if (st == MEGA_OK) st = write_text_file(s, "model.safetensors.index.json", index.data, index.size);
    mega_buffer_fini(&index);
    return st;
}

static mega_status write_files(saver *s)
{
    const mega_checkpoint_save *v = s->save;
    char *state = mega_path_join(s->temporary, "state");
    if (state == NULL) return write_no_memory(s);
    mega_status st = mega_tree_remove(s->temporary); /* left by an earlier process with our id */
    if (st == MEGA_OK) st = mega_folder_create(state);
    if (st == MEGA_OK) st = write_json(s);
    if (st == MEGA_OK && v->model_card != NULL)
        st = write_text_file(s, "README.md", v->model_card, strlen(v->model_card));
    if (st == MEGA_OK) st = write_weights(s);
    if (st == MEGA_OK) st = write_tokenizer(s);
    if (st == MEGA_OK) st = write_state(s);
    mega_free(state);
    return st;
}

/* Writes the checksums last, when those of all files are known. Then checks that SAVE is still ours, and holds its lock
 * until the folder is renamed. */
static mega_status write_checksums(saver *s)
{
    mega_buffer text = {0};
    char *state = mega_path_join(s->temporary, "state");
    mega_status st = state != NULL ? mega_checksums_text(&text, &s->sums) : write_no_memory(s);
    if (st == MEGA_OK) st = write_text_file(s, MEGA_CHECKSUMS_FILE, text.data, text.size);
    if (st == MEGA_OK) st = mega_folder_sync(state);
    if (st == MEGA_OK) st = mega_folder_sync(s->temporary);
    if (st == MEGA_OK) st = mega_lock_hold(s->save->lock);
    mega_buffer_fini(&text);
    mega_free(state);
    return st;
}

static mega_status check_existing(const saver *s)
{
    bool is_foreign = false;
    MEGA_TRY(mega_iteration_is_foreign(&is_foreign, s->final));
    return is_foreign ? mega_checkpoint_refuse(s->save->folder, mega_path_base(s->final)) : MEGA_OK;
}

static mega_status write_check(const mega_checkpoint_save *v)
{
    if (v->iteration < 0)
        return MEGA_MISTAKE("checkpoint %s: iteration %" PRId64 ", expected 0 or more", v->folder, v->iteration);
    if (v->tag != NULL) MEGA_TRY(mega_checkpoint_check_tag(v->tag, v->iteration));
    if (v->save_dtype != MEGA_F32 && v->save_dtype != MEGA_BF16 && v->save_dtype != MEGA_F16 &&
        v->save_dtype != MEGA_F64)
        return MEGA_MISTAKE("checkpoint %s: weights cannot be saved as %s; expected f64, f32, bf16 or f16", v->folder,
                            mega_dtype_name(v->save_dtype));
    if (mega_file_exists(v->folder))
        return MEGA_MISTAKE("--save %s: this is a file, expected a folder; choose another name", v->folder);
    return MEGA_OK;
}

/* Another process may have created SAVE moments ago, so its own entry must be made durable too. Not every folder may be
 * opened. */
static mega_status prepare_folder(const char *folder)
{
    MEGA_TRY(mega_folder_create_durably(folder));
    char *parent = mega_path_folder(folder);
    if (parent != NULL && mega_folder_sync(parent) != MEGA_OK) mega_error_clear();
    mega_free(parent);
    return MEGA_OK;
}

/* Writes everything except the checksums, into the temporary folder. */
static mega_status write_begin(saver *s)
{
    const mega_checkpoint_save *v = s->save;
    mega_checkpoint_name current; /* this folder may itself be a left-over, see mega_leftover_find */
    const mega_checkpoint_name own = mega_checkpoint_name_of(v->iteration);
    MEGA_TRY(write_check(v));
    MEGA_TRY(mega_lock_check(v->lock));
    s->final = mega_path_join(v->folder, v->tag != NULL ? v->tag : own.text);
    s->temporary = s->final != NULL ? mega_temporary_path(s->final) : NULL;
    if (s->final == NULL || s->temporary == NULL) return write_no_memory(s);
    MEGA_TRY(check_existing(s));
    MEGA_TRY(prepare_folder(v->folder));
    const bool is_tracked = mega_tracker_read(v->folder, &current) == MEGA_OK;
    if (!is_tracked) mega_error_clear();
    mega_leftovers_remove(v->folder, is_tracked ? current.text : NULL, !mega_lock_took_over(v->lock));
    return write_files(s);
}

/* Cleans up after a save that failed; keeps the first error. */
static void write_discard(const saver *s)
{
    mega_error_record why;
    mega_error_get(&why);
    if (s->temporary != NULL) MEGA_IGNORE(mega_tree_remove(s->temporary)); /* keep the first error */
    mega_error_restore(&why);
}

static mega_status write_end(const saver *s)
{
    MEGA_TRY(mega_checkpoint_commit(s->save, s->final, s->temporary));
    mega_leftovers_remove(s->save->folder, NULL, !mega_lock_took_over(s->save->lock));
    if (mega_checkpoint_prune(s->save) != MEGA_OK)
        mega_warn("older checkpoints were not removed: %s", mega_error_message());
    return MEGA_OK;
}

static mega_status save_alone(saver *s)
{
    mega_status st = list_files(s);
    if (st == MEGA_OK) st = write_begin(s);
    if (st == MEGA_OK) st = write_checksums(s);
    if (st != MEGA_OK) {
        write_discard(s);
        return st;
    }
    return write_end(s);
}

/* Returns whether all ranks succeeded so far; if not, or if they cannot be asked, *st is the error. */
static bool all_well(const saver *s, mega_status *st)
{
    int32_t failed = *st != MEGA_OK;
    const mega_status asked =
        mega_comm_all_reduce(s->save->ranks, "state of a checkpoint", &failed, 1, MEGA_I32, MEGA_REDUCE_MAX);
    if (asked != MEGA_OK) *st = asked;
    return asked == MEGA_OK && failed == 0;
}

/* Sends the name of the folder that the first rank created to all ranks. */
static mega_status share_folder(saver *s)
{
    char path[PATH_MAX] = "";
    if (s->temporary != NULL) snprintf(path, sizeof path, "%s", s->temporary);
    MEGA_TRY(mega_comm_broadcast(s->save->ranks, "folder of a checkpoint", path, sizeof path, 0));
    if (s->temporary == NULL) s->temporary = mega_strdup(path);
    return s->temporary != NULL ? MEGA_OK : write_no_memory(s);
}

static mega_status write_parts(const saver *s)
{
    const bool first = mega_comm_rank(s->save->ranks) == 0;
    for (int i = 0; i < s->num_files; i++)
        MEGA_TRY(mega_tensor_file_write_part(&s->file[i], s->temporary, first, &s->sum[i]));
    return MEGA_OK;
}

/* Combines the partial checksums of all ranks by XOR: sums each bit over the ranks and keeps its parity. */
static mega_status join_sums(saver *s)
{
    for (int i = 0; i < s->num_files; i++) {
        int32_t bit[32];
        for (int k = 0; k < 32; k++) bit[k] = (int32_t)(s->sum[i] >> k & 1);
        MEGA_TRY(mega_comm_all_reduce(s->save->ranks, "checksums", bit, 32, MEGA_I32, MEGA_REDUCE_SUM));
        mega_checksum *f = mega_checksums_find(&s->sums, s->file[i].name);
        if (f == NULL) continue; /* the first rank keeps the list */
        f->crc = mega_crc32c_zeros((uint64_t)f->bytes);
        for (int k = 0; k < 32; k++) f->crc ^= (uint32_t)(bit[k] & 1) << k;
    }
    return MEGA_OK;
}

/* The first rank does the same as a single process, except that all ranks fill the tensor files. If one rank fails, all
 * fail. */
static mega_status save_together(saver *s)
{
    const bool first = mega_comm_rank(s->save->ranks) == 0;
    mega_status st = list_files(s);
    if (st == MEGA_OK && first) st = write_begin(s);
    bool well = all_well(s, &st);
    if (well) {
        st = share_folder(s);
        if (st == MEGA_OK) st = write_parts(s);
        well = all_well(s, &st);
    }
    if (well) {
        st = join_sums(s);
        if (st == MEGA_OK && first) st = write_checksums(s);
        well = all_well(s, &st);
    }
    if (!well && first) write_discard(s);
    return well && first ? write_end(s) : st;
}

mega_status mega_checkpoint_write(const mega_checkpoint_save *save)
{
    saver s = {.save = save,
               .sums = {.iteration = save->iteration},
               .is_shared = save->ranks != NULL && mega_comm_size(save->ranks) > 1};
    mega_status st = s.is_shared ? save_together(&s) : save_alone(&s);
    mega_lock_let_go(save->lock);
    if (st != MEGA_OK)
        mega_error_prepend("saving iteration %" PRId64 "%s%s", save->iteration, save->tag != NULL ? " as " : "",
                           save->tag != NULL ? save->tag : "");
    if (s.is_shared) st = mega_comm_agree(save->ranks, st);
    MEGA_FREE(s.final, s.temporary);
    mega_checksums_fini(&s.sums);
    mega_shards_fini(&s.shards);
    MEGA_FREE(s.file, s.sum);
    return st;
}
