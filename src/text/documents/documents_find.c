/* Finds the files that the inputs name: files, patterns, folders with everything below them, and "-". Sorted bytewise
 * within a pattern and within a folder, so that the order of documents is the same on any machine. */
#include "documents_impl.h"
#include "megalith/file.h"
#include <glob.h>
#include <string.h>

enum { FOLDER_DEPTH_MAX = 32 };

void mega_document_files_fini(mega_document_files *files)
{
    for (int64_t i = 0; i < files->count; i++) mega_free(files->path[i]);
    mega_free(files->path);
    *files = (mega_document_files){0};
}

static mega_status find_add_file(mega_document_files *f, const char *path)
{
    if (!mega_array_reserve(&f->path, &f->capacity, f->count + 1, sizeof *f->path))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "--input: no memory for the names of %lld files", (long long)f->count + 1);
    char *copy = mega_strdup(path);
    if (copy == NULL) return MEGA_NO_MEMORY("--input", "a file name");
    f->path[f->count++] = copy;
    if (strcmp(path, "-") == 0) {
        f->has_stdin = true;
        return MEGA_OK;
    }
    int64_t bytes = 0;
    MEGA_TRY(mega_file_size(path, &bytes));
    f->bytes += (uint64_t)bytes;
    return MEGA_OK;
}

static mega_status find_add_folder(mega_document_files *f, const char *folder, int depth)
{
    if (depth > FOLDER_DEPTH_MAX)
        return MEGA_MISTAKE("--input: %s: folders nested more than %d deep; does a link lead back to a parent folder?",
                            folder, FOLDER_DEPTH_MAX);
    mega_names names;
    MEGA_TRY(mega_folder_list(folder, &names));
    mega_status st = MEGA_OK;
    for (size_t i = 0; st == MEGA_OK && i < names.count; i++) {
        if (names.name[i][0] == '.') continue;
        char *path = mega_path_join(folder, names.name[i]);
        if (path == NULL) {
            st = MEGA_NO_MEMORY("--input", "a file name");
        } else {
            st = mega_folder_exists(path) ? find_add_folder(f, path, depth + 1) : find_add_file(f, path);
        }
        mega_free(path);
    }
    mega_names_fini(&names);
    return st;
}

static mega_status add_path(mega_document_files *f, const char *path)
{
    return mega_folder_exists(path) ? find_add_folder(f, path, 0) : find_add_file(f, path);
}

/* *found is false if nothing has this name or matches this pattern. */
static mega_status add_input(mega_document_files *f, const char *input, bool *found)
{
    *found = true;
    if (strcmp(input, "-") == 0) {
        if (f->has_stdin) return MEGA_MISTAKE("--input: standard input (-) is given twice; expected once");
        return find_add_file(f, input);
    }
    if (mega_file_exists(input) || mega_folder_exists(input)) return add_path(f, input);
    MEGA_TRY(mega_path_check_access(input)); /* a folder above it may be inaccessible */
    glob_t matches;
    const int rc = glob(input, 0, NULL, &matches);
    if (rc == GLOB_NOSPACE) return MEGA_FAIL(MEGA_ERR_MEMORY, "--input: no memory for the files of %s", input);
    *found = rc == 0 && matches.gl_pathc > 0;
    mega_status st = MEGA_OK;
    for (size_t i = 0; rc == 0 && st == MEGA_OK && i < matches.gl_pathc; i++) st = add_path(f, matches.gl_pathv[i]);
    if (rc == 0) globfree(&matches);
    return st;
}

static mega_status documents_find_all(mega_document_files *f, const char *const *inputs, int num_inputs,
                                      mega_buffer *missing)
{
    for (int i = 0; i < num_inputs; i++) {
        bool found;
        MEGA_TRY(add_input(f, inputs[i], &found));
        if (!found) mega_buffer_printf(missing, "%s%s", missing->size > 0 ? ", " : "", inputs[i]);
    }
    if (missing->size > 0)
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "--input: found no file, folder or match for %s; check the name and the working "
                         "folder",
                         missing->data);
    if (f->count == 0)
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                         "--input: found no file in %s, expected at least one (hidden files are ignored)",
                         num_inputs > 0 ? inputs[0] : "an empty list");
    return MEGA_OK;
}

mega_status mega_document_files_find(const char *const *inputs, int num_inputs, mega_document_files *out)
{
    *out = (mega_document_files){0};
    mega_buffer missing = {0};
    const mega_status st = documents_find_all(out, inputs, num_inputs, &missing);
    mega_buffer_fini(&missing);
    if (st != MEGA_OK) mega_document_files_fini(out);
    return st;
}
