/* Rules about what a command will write: that it can be written, and that nothing is lost by it. Found before anything
 * is computed. */
#include "megalith/file.h"
#include "megalith/output.h"
#include "program_impl.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* The folder that is there already, of all that lead to `path`. */
static const char *nearest_folder(mega_config *cfg, const char *path)
{
    const char *at = path;
    while (!mega_folder_exists(at)) {
        const char *slash = strrchr(at, '/');
        if (mega_file_exists(at)) return at;
        if (slash == NULL) return ".";
        if (slash == at) return "/";
        at = mega_config_text(cfg, "%.*s", (int)(slash - at), at);
    }
    return at;
}

/* Tries it: what rights say does not tell of read-only file systems, of quotas, or of what root may not do. A pipe is
 * left alone: its reader would take a closing for the end. */
static mega_status try_place(const char *path, const char *there, bool folder)
{
    mega_writer *w = NULL;
    struct stat info;
    if (folder || there != path) return mega_folder_try(there);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return MEGA_OK;
    MEGA_TRY(mega_writer_append_to(&w, path));
    return mega_writer_close(w, false);
}

static void check_writable(mega_config *cfg, const char *option, const char *path, bool folder)
{
    struct stat info;
    if (path == NULL || path[0] == '\0') return;
    if (stat(path, &info) != 0 && errno == ENAMETOOLONG) {
        mega_config_problem(cfg, MEGA_ERR_USAGE,
                            "%s %s: file systems do not take names this long; choose a shorter one", option, path);
        return;
    }
    if (folder ? mega_file_exists(path) : mega_folder_exists(path)) {
        mega_config_problem(cfg, MEGA_ERR_USAGE, "%s %s: it is a %s; expected the name of a %s", option, path,
                            folder ? "file" : "folder", folder ? "folder" : "file");
        return;
    }
    const char *there = !folder && mega_file_exists(path) ? path : nearest_folder(cfg, path);
    if (there != path && !mega_folder_exists(there)) {
        mega_config_problem(cfg, MEGA_ERR_IO, "%s %s: %s is a file, not a folder; choose another place", option, path,
                            there);
    } else if (try_place(path, there, folder) != MEGA_OK) {
        mega_config_problem(cfg, MEGA_ERR_IO, "%s %s: %s", option, path, mega_error_message());
    }
}

/* What was there before is replaced if this program wrote it, as the same kind of output, or if --overwrite says so. */
static void check_output(mega_config *cfg, const char *dest, const char *path, mega_output_kind kind)
{
    const bool is_folder = kind == MEGA_OUTPUT_TOKENIZER;
    const size_t before = cfg->state->problems;
    if (path == NULL || cfg->rank != 0) return;
    check_writable(cfg, mega_config_text(cfg, "--%s", dest), path, is_folder);
    if (cfg->overwrite || cfg->state->problems > before || mega_output_is_free(path, kind)) return;
    mega_config_problem(cfg, MEGA_ERR_USAGE,
                        "--%s %s: this %s is there already and is not %s; nothing was changed: give another name, move "
                        "it away, or give --overwrite to replace it",
                        dest, path, is_folder ? "vocabulary" : "file", mega_output_name(kind));
}

/* The same for a command that does not make the folder: a typo in it is more likely than a wish for one. */
static void check_in_folder(mega_config *cfg, const char *dest, const char *path, mega_output_kind kind)
{
    const size_t before = cfg->state->problems;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    check_output(cfg, dest, path, kind);
    if (slash == NULL || slash == path || cfg->state->problems > before || cfg->rank != 0) return;
    const char *folder = mega_config_text(cfg, "%.*s", (int)(slash - path), path);
    if (mega_folder_exists(folder)) return;
    mega_config_problem(cfg, MEGA_ERR_NOT_FOUND, "--%s %s: there is no folder %s; make it, or give another name", dest,
                        path, folder);
}

/* Another pair is replaced, as Megatron does; the index tells whether it is one. */
static void check_pair(mega_config *cfg, const char *prefix, const char *end)
{
    if (prefix == NULL) return;
    const size_t before = cfg->state->problems;
    check_writable(cfg, "--output-prefix", mega_config_text(cfg, "%s%s.bin", prefix, end), false);
    if (cfg->state->problems > before) return; /* the place is the same */
    check_output(cfg, "output-prefix", mega_config_text(cfg, "%s%s.idx", prefix, end), MEGA_OUTPUT_INDEX);
}

/* Where a training will write: told now, not at its first checkpoint. The first rank alone writes files. */
void mega_rule_writes(mega_config *cfg)
{
    if (!cfg->skip_train) check_writable(cfg, "--save", cfg->save, true);
    check_writable(cfg, "--data-cache-path", cfg->data_cache_path, true);
    if (cfg->rank != 0) return;
    check_writable(cfg, "--tensorboard-dir", cfg->tensorboard_dir, true);
    check_writable(cfg, "--metrics-file", cfg->metrics_file, false);
    if (!cfg->skip_train) check_output(cfg, "profile-trace", cfg->profile_trace, MEGA_OUTPUT_TRACE);
    check_in_folder(cfg, "schedule-svg", cfg->schedule_svg, MEGA_OUTPUT_SCHEDULE);
}

/* Drawn over, the metrics would be gone, also with --overwrite. */
static bool draws_over_metrics(mega_config *cfg)
{
    const mega_list *files = &cfg->positional;
    const char *svg = cfg->plot.svg;
    for (size_t i = 0; svg != NULL && i < files->count; i++) {
        if (!mega_file_same(svg, files->item[i])) continue;
        mega_config_problem(
            cfg, MEGA_ERR_USAGE,
            "--svg %s: this is the metrics file %s, which the drawing would replace; give another name, "
            "such as %s.svg",
            svg, files->item[i], files->item[i]);
        return true;
    }
    return false;
}

void mega_rule_outputs(mega_config *cfg)
{
    const mega_list *keys = &cfg->preprocess.json_keys;
    check_in_folder(cfg, "genfile", cfg->generate.genfile, MEGA_OUTPUT_TEXTS);
    check_in_folder(cfg, "sample-output-file", cfg->generate.sample_output_file, MEGA_OUTPUT_SAMPLES);
    if (!draws_over_metrics(cfg)) check_in_folder(cfg, "svg", cfg->plot.svg, MEGA_OUTPUT_PLOT);
    check_output(cfg, "output", cfg->train_tokenizer.output, MEGA_OUTPUT_TOKENIZER);
    check_pair(cfg, cfg->data.output_prefix, "");
    for (size_t i = 0; i < keys->count; i++)
        check_pair(cfg, cfg->preprocess.output_prefix, mega_config_text(cfg, "_%s_document", keys->item[i]));
}
