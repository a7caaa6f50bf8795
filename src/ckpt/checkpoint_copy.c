/* Copies an opened checkpoint under the name that it has into another SAVE. */
#include "megalith/checkpoint_copy.h"
#include "checkpoint_impl.h"
#include <stdio.h>
#include <string.h>

typedef struct copier {
    const mega_checkpoint *from;
    const char *save;
    mega_checkpoint_name name;
    char *final, *temporary; /* SAVE/NAME, SAVE/NAME.tmp-OWNER */
    mega_checkpoint_copied *done;
} copier;

static mega_checkpoint_name name_of_copy(const mega_checkpoint *c)
{
    const char *base = mega_path_base(c->folder);
    mega_checkpoint_name name = {"release"};
    int64_t iteration = 0;
    if (mega_iteration_parse(base, &iteration) ||
        (c->sums.count > 0 && mega_checkpoint_check_tag(base, c->iteration) == MEGA_OK))
        snprintf(name.text, sizeof name.text, "%s", base);
    else if (c->sums.count > 0) /* one that an interrupted save has set aside, or a folder of any name */
        name = mega_checkpoint_name_of(c->iteration);
    mega_error_clear();
    return name;
}

static mega_status copier_init(copier *c, const mega_checkpoint *from, const char *save)
{
    *c = (copier){.from = from, .save = save, .name = name_of_copy(from)};
    c->final = mega_path_join(save, c->name.text);
    c->temporary = c->final != NULL ? mega_temporary_path(c->final) : NULL;
    return c->temporary != NULL ? MEGA_OK : MEGA_NO_MEMORY(save, "a path");
}

static void copier_fini(copier *c)
{
    MEGA_FREE(c->final, c->temporary);
}

/* ---- checks ---- */

/* The tracker has one place: a checkpoint of another name in SAVE would no longer be the one that --load SAVE finds. */
static mega_status check_alone(const copier *c)
{
    mega_checkpoint_name name;
    mega_iterations list = {0};
    if (!mega_folder_exists(c->save)) return MEGA_OK;
    if (mega_tracker_read(c->save, &name) != MEGA_OK) {
        mega_error_clear(); /* no tracker, or one that names nothing */
        MEGA_TRY(mega_iterations_list(c->save, &list));
        name = list.count > 0 ? mega_checkpoint_name_of(list.iteration[list.count - 1]) : c->name;
        mega_iterations_fini(&list);
    }
    if (strcmp(name.text, c->name.text) == 0) return MEGA_OK;
    return MEGA_MISTAKE(
        "--save %s: found the checkpoint %s, expected none but %s, which is copied; choose another --save", c->save,
        name.text, c->name.text);
}

/* A copy whose tracker is missing, because it was interrupted, or that was made before, is no mistake. */
static mega_status check_there(const copier *c, bool *is_same)
{
    mega_checksums sums = {0};
    bool is_foreign = false;
    *is_same = false;
    if (!mega_folder_exists(c->final) && !mega_file_exists(c->final)) return MEGA_OK;
    MEGA_TRY(mega_iteration_is_foreign(&is_foreign, c->final));
    if (is_foreign) return mega_checkpoint_refuse(c->save, c->name.text);
    if (c->from->sums.count > 0 && mega_checksums_read(c->final, &sums) == MEGA_OK)
        *is_same = mega_checksums_hash(&sums) == c->from->sums_hash &&
                   mega_checksums_verify(&sums, c->final, MEGA_SUMS_ALL, c->from->team) == MEGA_OK;
    const bool is_another = sums.count > 0 && !*is_same;
    mega_checksums_fini(&sums);
    mega_error_clear();
    if (!is_another) return MEGA_OK; /* an empty folder has no checksums */
    return MEGA_MISTAKE(
        "--save %s: found %s, which is another checkpoint than %s, or damaged; choose another --save, or "
        "move that folder away",
        c->save, c->name.text, c->from->folder);
}

static mega_status check_copy(const copier *c, bool *is_same)
{
    if (mega_file_exists(c->save))
        return MEGA_MISTAKE("--save %s: this is a file, expected a folder or an unused name", c->save);
    MEGA_TRY(check_alone(c));
    return check_there(c, is_same);
}

mega_status mega_checkpoint_check_copy(const mega_checkpoint *from, const char *save, bool takeover)
{
    copier c;
    bool is_same = false;
    mega_status st = copier_init(&c, from, save);
    if (st == MEGA_OK) st = check_copy(&c, &is_same);
    if (st == MEGA_OK && mega_folder_exists(save)) st = mega_checkpoint_lock_probe(save, takeover);
    copier_fini(&c);
    return st;
}

/* ---- copying ---- */

static mega_status copy_bytes(const mega_map *map, const char *to, uint32_t *crc)
{
    mega_writer *w = NULL;
    MEGA_TRY(mega_writer_create_large(to, &w));
    mega_writer_expect(w, (int64_t)map->size);
    mega_status st = mega_writer_write(w, map->data, map->size);
    if (st == MEGA_OK) st = mega_map_check(); /* bytes of a truncated file would be zeros */
    if (st != MEGA_OK) {
        mega_writer_abandon(w);
        return st;
    }
    *crc = mega_writer_crc32c(w);
    return mega_writer_close(w, true);
}

/* name: relative to the folder of the checkpoint. */
static mega_status copy_file(const copier *c, const char *name)
{
    char *from = mega_path_join(c->from->folder, name), *to = mega_path_join(c->temporary, name);
    mega_map map = {0};
    uint32_t crc = 0;
    mega_status st = from != NULL && to != NULL ? mega_map_open(from, &map) : MEGA_NO_MEMORY(c->save, "a path");
    if (st == MEGA_OK) st = copy_bytes(&map, to, &crc);
    const mega_checksum *sum = mega_checksums_find(&c->from->sums, name);
    if (st == MEGA_OK && sum != NULL && (sum->crc != crc || sum->bytes != (int64_t)map.size))
        st = MEGA_FAIL(MEGA_ERR_IO, "%s: it was changed while it was copied; nothing was kept, copy it again", from);
    c->done->files++;
    c->done->bytes += (int64_t)map.size;
    mega_map_close(&map);
    MEGA_FREE(from, to);
    return st;
}

/* Copies the files of a folder, sub: "" or "state". Folders in it are not of a checkpoint. */
static mega_status copy_files(const copier *c, const char *sub)
{
    char *from = mega_path_join(c->from->folder, sub), *to = mega_path_join(c->temporary, sub);
    mega_names names = {0};
    mega_status st = from != NULL && to != NULL ? mega_folder_create(to) : MEGA_NO_MEMORY(c->save, "a path");
    if (st == MEGA_OK) st = mega_folder_list(from, &names);
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        char *name = mega_format("%s%s%s", sub, sub[0] != '\0' ? "/" : "", names.name[i]);
        char *path = name != NULL ? mega_path_join(c->from->folder, name) : NULL;
        if (path == NULL) st = MEGA_NO_MEMORY(c->save, "a path");
        else if (mega_file_is_regular(path))
            st = copy_file(c, name);
        MEGA_FREE(path, name);
    }
    if (st == MEGA_OK) st = mega_folder_sync(to);
    mega_names_fini(&names);
    MEGA_FREE(from, to);
    return st;
}

static mega_status copy_locked(const copier *c, mega_lock *lock)
{
    char id[MEGA_TOKEN_BYTES];
    bool is_same = false;
    MEGA_TRY(check_copy(c, &is_same));
    c->done->was_there = is_same;
    if (is_same) return mega_tracker_write(c->save, c->name.text);
    mega_token_make(id);
    MEGA_TRY(mega_checkpoint_write_run_id(c->save, id));
    mega_lock_mark(lock);
    mega_leftovers_remove(c->save, NULL, !mega_lock_took_over(lock));
    mega_status st = copy_files(c, "");
    if (st == MEGA_OK && c->from->sums.count > 0) st = copy_files(c, "state");
    if (st == MEGA_OK) st = mega_lock_hold(lock);
    if (st == MEGA_OK) st = mega_checkpoint_commit(&(mega_checkpoint_save){.folder = c->save}, c->final, c->temporary);
    mega_lock_let_go(lock);
    if (st == MEGA_OK) return MEGA_OK;
    mega_error_record first;
    mega_error_get_of(st, &first); /* report the original error, not one from the removal */
    return mega_tree_remove(c->temporary) == MEGA_OK ? st : mega_error_restore(&first);
}

mega_status mega_checkpoint_copy(const mega_checkpoint *from, const char *save, bool takeover,
                                 mega_checkpoint_copied *out)
{
    copier c;
    mega_lock *lock = NULL;
    *out = (mega_checkpoint_copied){0};
    mega_status st = copier_init(&c, from, save);
    c.done = out;
    if (st == MEGA_OK) st = mega_checkpoint_prepare(save);
    if (st == MEGA_OK) st = mega_checkpoint_lock(save, takeover, &lock);
    if (st == MEGA_OK) st = copy_locked(&c, lock);
    mega_lock_release(lock);
    if (st == MEGA_OK) {
        out->folder = c.final;
        c.final = NULL;
    }
    copier_fini(&c);
    return st;
}
