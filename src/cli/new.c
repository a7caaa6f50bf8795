/* megalith new: creates a folder with a C program that trains on the user's text, and the files it needs. They are
 * copies of examples/template/ with PROJECT replaced by the project's name; cmake/template.sh embeds them in this
 * program, so that it needs no other file at run time. */
#include "cli.h"
#include "commands.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/memory.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct template_file {
    const char *name, *text;
} template_file;
#include "template_files.inc" /* static const template_file template_files[] */

enum { NAME_MOST = 64, FILES = sizeof template_files / sizeof template_files[0] };

typedef struct project {
    char *folder; /* without trailing slashes */
    char *parent;
    char *text; /* absolute path; NULL: none was given */
    const char *name;
} project;

static void project_fini(project *p)
{
    MEGA_FREE(p->folder, p->parent);
    free(p->text); /* allocated by realpath */
}

static mega_status project_read(project *p, const mega_command_options *cfg)
{
    const char *given = mega_options_positional(cfg->train.engine.options)->item[0];
    size_t length = strlen(given);
    while (length > 1 && given[length - 1] == '/') length--;
    p->folder = mega_format("%.*s", (int)length, given);
    p->parent = p->folder != NULL ? mega_path_folder(p->folder) : NULL;
    if (p->parent == NULL) return MEGA_NO_MEMORY("new", "the name");
    p->name = mega_path_base(p->folder);
    return MEGA_OK;
}

/* ---- checks ---- */

/* Checks the name, which becomes the name of a program and of a C file, and a word in a Makefile. */
static mega_status check_name(const project *p)
{
    static const char *const taken[] = {"Makefile", "README", "all", "clean", "train", "checkpoints", "megalith"};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const size_t length = strspn(p->name, letters);
    if (length == 0 || length > NAME_MOST || p->name[length] != '\0' || strchr("_-", p->name[0]) != NULL)
        return MEGA_MISTAKE(
            "the name \"%s\": expected at most %d letters, digits, - and _, the first a letter or a digit", p->name,
            (int)NAME_MOST);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(p->name, taken[i]) == 0)
            return MEGA_MISTAKE("the name \"%s\": a file, a folder or a command of the project has it; take another",
                                p->name);
    return MEGA_OK;
}

static mega_status new_check_folder(const project *p)
{
    struct stat s;
    mega_names names = {0};
    if (lstat(p->folder, &s) != 0) return mega_folder_try(p->parent);
    if (!S_ISDIR(s.st_mode)) return MEGA_MISTAKE("%s is there and not a folder; give another name", p->folder);
    MEGA_TRY(mega_folder_list(p->folder, &names));
    const mega_status st = names.count == 0
                               ? mega_folder_try(p->parent)
                               : MEGA_MISTAKE("the folder %s is there and not empty (%s%s); give another name",
                                              p->folder, names.name[0], names.count > 1 ? ", …" : "");
    mega_names_fini(&names);
    return st;
}

static mega_status check_text_kind(const char *text)
{
    mega_map map;
    MEGA_TRY(mega_map_open(text, &map));
    const mega_status st = mega_file_kind_check(text, map.data, map.size, "a text file", 0);
    mega_map_close(&map);
    if (st != MEGA_OK) MEGA_CONTEXT("--text");
    return st;
}

static mega_status find_text(project *p, const char *text)
{
    if (text == NULL) return MEGA_OK;
    MEGA_TRY(mega_path_check_access(text));
    if (mega_folder_exists(text)) return MEGA_MISTAKE("--text %s: is a folder; expected a text file", text);
    if (!mega_file_exists(text)) return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "--text %s: there is no such file", text);
    if (!mega_file_is_regular(text))
        return MEGA_MISTAKE("--text %s: is not a file that can be read again; expected a text file", text);
    MEGA_TRY(check_text_kind(text));
    p->text = realpath(text, NULL);
    return p->text != NULL ? MEGA_OK : MEGA_NO_MEMORY("new", "the name of the text");
}

/* Reports all mistakes at once. */
static void new_check(mega_command_options *cfg)
{
    project p = {0};
    if (mega_options_positional(cfg->train.engine.options)->count == 0) {
        mega_options_add_mistake(cfg->train.engine.options, MEGA_MISTAKE("missing: PROJECT, the folder to make"));
    } else if (mega_options_positional(cfg->train.engine.options)->count > 1) {
        mega_options_add_mistake(cfg->train.engine.options,
                                 MEGA_MISTAKE("found %d names (%s, %s…), expected one: the folder to make",
                                              (int)mega_options_positional(cfg->train.engine.options)->count,
                                              mega_options_positional(cfg->train.engine.options)->item[0],
                                              mega_options_positional(cfg->train.engine.options)->item[1]));
    } else {
        mega_status st = project_read(&p, cfg);
        if (st == MEGA_OK) st = check_name(&p);
        if (st == MEGA_OK) st = new_check_folder(&p);
        mega_options_add_mistake(cfg->train.engine.options, st);
    }
    mega_options_add_mistake(cfg->train.engine.options, find_text(&p, cfg->project.text));
    project_fini(&p);
}

/* ---- writing ---- */

/* Returns a copy of `text` with each PROJECT replaced by the project's name; the caller frees it. NULL: no memory. */
static char *with_name(const char *text, const char *name)
{
    static const char word[] = "PROJECT";
    mega_buffer out = {0};
    for (const char *at; (at = strstr(text, word)) != NULL; text = at + strlen(word)) {
        mega_buffer_append(&out, text, (size_t)(at - text));
        mega_buffer_puts(&out, name);
    }
    mega_buffer_puts(&out, text);
    if (!out.failed) return out.data;
    mega_buffer_fini(&out);
    return NULL;
}

static mega_status new_write_file(const project *p, const char *folder, const template_file *file)
{
    /* in examples/ it is not named .gitignore, since git would apply it there */
    const bool is_hidden = strcmp(file->name, "gitignore") == 0;
    char *name = with_name(file->name, p->name), *text = with_name(file->text, p->name);
    char *path = name != NULL ? mega_format("%s/%s%s", folder, is_hidden ? "." : "", name) : NULL;
    mega_writer *w = NULL;
    mega_status st = MEGA_OK;
    if (path == NULL || text == NULL) st = MEGA_NO_MEMORY("new", "a file");
    if (st == MEGA_OK) st = mega_writer_create(path, &w);
    if (st == MEGA_OK) {
        st = mega_writer_write(w, text, strlen(text));
        const mega_status closed = mega_writer_close(w, true);
        if (st == MEGA_OK) st = closed;
    }
    MEGA_FREE(path, text, name);
    return st;
}

static mega_status new_write_files(const project *p, const char *folder)
{
    MEGA_TRY(mega_folder_create(folder));
    for (int i = 0; i < FILES; i++) MEGA_TRY(new_write_file(p, folder, &template_files[i]));
    if (p->text != NULL) {
        char *link = mega_path_join(folder, "text.txt");
        const bool is_made = link != NULL && symlink(p->text, link) == 0;
        mega_free(link);
        if (!is_made) return MEGA_FAIL(MEGA_ERR_IO, "%s: cannot make the link text.txt to %s", folder, p->text);
    }
    return mega_folder_sync(folder);
}

/* Removes temporary folders that an earlier, killed `megalith new` of the same name left behind. Never fails. */
static void new_remove_leftovers(const project *p)
{
    mega_names names = {0};
    const size_t length = strlen(p->name), mark = strlen(".tmp-");
    const bool is_listed = mega_folder_list(p->parent, &names) == MEGA_OK;
    for (size_t i = 0; is_listed && i < names.count; i++) {
        const char *name = names.name[i];
        if (strncmp(name, p->name, length) != 0 || strncmp(name + length, ".tmp-", mark) != 0) continue;
        char *path = mega_path_join(p->parent, name);
        const bool is_left = path != NULL && mega_owner_is_dead(name + length + mark, path);
        if (is_left && mega_tree_remove(path) != MEGA_OK) mega_error_clear();
        mega_free(path);
    }
    mega_names_fini(&names);
}

/* Writes the project under a temporary name and renames it once it is complete. The rename replaces an empty folder. */
static mega_status write_project(const project *p)
{
    char *beside = mega_temporary_path(p->folder);
    if (beside == NULL) return MEGA_NO_MEMORY("new", "a name");
    new_remove_leftovers(p);
    mega_status st = new_write_files(p, beside);
    if (st == MEGA_OK) st = mega_file_rename(beside, p->folder);
    if (st == MEGA_OK) {
        st = mega_folder_sync(p->parent);
    } else {
        mega_error_record first;
        mega_error_get_of(st, &first); /* report the original error, not one from the removal */
        if (mega_tree_remove(beside) != MEGA_OK) st = mega_error_restore(&first);
    }
    mega_free(beside);
    return st;
}

static void new_show(const project *p)
{
    const char *text = p->text != NULL ? "text.txt" : "TEXT";
    printf("wrote %s: %s.c, the program; ds.json, its settings; Makefile, README.md, .gitignore\n", p->folder, p->name);
    printf("to train it%s:\n  cd %s && make && ./%s %s\n", p->text != NULL ? "" : " on a text file TEXT", p->folder,
           p->name, text);
}

static mega_status new_run(const mega_command_options *cfg)
{
    project p = {0};
    mega_status st = project_read(&p, cfg);
    if (st == MEGA_OK) st = find_text(&p, cfg->project.text);
    if (st == MEGA_OK && cfg->train.dry_run) {
        mega_cli_dry_run("the folder %s would be made, with %d files", p.folder, (int)FILES);
    } else if (st == MEGA_OK) {
        st = write_project(&p);
        if (st == MEGA_OK) new_show(&p);
    }
    project_fini(&p);
    return st;
}

int mega_command_new(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse_checked(&cfg, "new", argc, argv, new_check, &exit_status)) return exit_status;
    const mega_status st = new_run(&cfg);
    mega_command_options_fini(&cfg);
    return st == MEGA_OK ? 0 : mega_cli_fail("new", st);
}
