/* Rules about the files that a command will write: they must be writable, and nothing may be lost. Checked before
 * anything is computed. */
#include "megalith/file.h"
#include "megalith/metrics.h"
#include "train_rules.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Returns the deepest folder on the way to `path` that exists. */
static const char *nearest_folder(mega_train_options *cfg, const char *path)
{
    const char *at = path;
    while (!mega_folder_exists(at)) {
        const char *slash = strrchr(at, '/');
        if (mega_file_exists(at)) return at;
        if (slash == NULL) return ".";
        if (slash == at) return "/";
        at = mega_options_text(cfg->engine.options, "%.*s", (int)(slash - at), at);
    }
    return at;
}

/* Tries to write, because permissions alone do not reveal read-only file systems, quotas, or limits for root. Does not
 * open a pipe: closing it would look like the end of the data to its reader. */
static mega_status try_place(const char *path, const char *there, bool folder)
{
    mega_writer *w = NULL;
    struct stat info;
    if (folder || there != path) return mega_folder_try(there);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return MEGA_OK;
    MEGA_TRY(mega_writer_append_to(path, &w));
    return mega_writer_close(w, false);
}

static void check_writable(mega_train_options *cfg, const char *option, const char *path, bool folder)
{
    struct stat info;
    if (path == NULL || path[0] == '\0') return;
    if (stat(path, &info) != 0 && errno == ENAMETOOLONG) {
        mega_options_mistake(cfg->engine.options,
                             "%s %s: file systems do not take names this long; choose a shorter one", option, path);
        return;
    }
    if (folder ? mega_file_exists(path) : mega_folder_exists(path)) {
        mega_options_mistake(cfg->engine.options, "%s %s: it is a %s; expected the name of a %s", option, path,
                             folder ? "file" : "folder", folder ? "folder" : "file");
        return;
    }
    const char *there = !folder && mega_file_exists(path) ? path : nearest_folder(cfg, path);
    if (there != path && !mega_folder_exists(there)) {
        mega_options_problem(cfg->engine.options, MEGA_ERR_IO,
                             "%s %s: %s is a file, not a folder; choose another place", option, path, there);
    } else if (try_place(path, there, folder) != MEGA_OK) {
        mega_options_problem(cfg->engine.options, MEGA_ERR_IO, "%s %s: %s", option, path, mega_error_message());
    }
}

/* Allows replacing an existing file only if this program wrote it as the same kind of output, or with --overwrite. */
void mega_train_check_output(mega_train_options *cfg, const char *dest, const char *path, mega_output_kind kind)
{
    const bool is_folder = kind == MEGA_OUTPUT_TOKENIZER;
    const size_t before = mega_options_problems(cfg->engine.options);
    if (path == NULL || cfg->engine.rank != 0) return;
    check_writable(cfg, mega_options_text(cfg->engine.options, "--%s", dest), path, is_folder);
    if (cfg->overwrite || mega_options_problems(cfg->engine.options) > before || mega_output_is_free(path, kind))
        return;
    mega_options_mistake(
        cfg->engine.options,
        "--%s %s: this %s is there already and is not %s; nothing was changed: give another name, move "
        "it away, or give --overwrite to replace it",
        dest, path, is_folder ? "vocabulary" : "file", mega_output_name(kind));
}

/* Like mega_train_check_output, for a command that does not create the folder: a missing folder is
 * more likely a typo. */
void mega_train_check_in_folder(mega_train_options *cfg, const char *dest, const char *path, mega_output_kind kind)
{
    const size_t before = mega_options_problems(cfg->engine.options);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    mega_train_check_output(cfg, dest, path, kind);
    if (slash == NULL || slash == path || mega_options_problems(cfg->engine.options) > before || cfg->engine.rank != 0)
        return;
    const char *folder = mega_options_text(cfg->engine.options, "%.*s", (int)(slash - path), path);
    if (mega_folder_exists(folder)) return;
    mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND,
                         "--%s %s: there is no folder %s; make it, or give another name", dest, path, folder);
}

/* Allows replacing another pair, as Megatron does; the index shows whether the files are such a pair. */
void mega_train_check_pair(mega_train_options *cfg, const char *prefix, const char *end)
{
    if (prefix == NULL) return;
    const size_t before = mega_options_problems(cfg->engine.options);
    check_writable(cfg, "--output-prefix", mega_options_text(cfg->engine.options, "%s%s.bin", prefix, end), false);
    /* both files are in the same folder, so one report is enough */
    if (mega_options_problems(cfg->engine.options) > before) return;
    mega_train_check_output(cfg, "output-prefix", mega_options_text(cfg->engine.options, "%s%s.idx", prefix, end),
                            MEGA_OUTPUT_INDEX);
}

/* Checks the description beside --metrics-file, unless --metrics-file itself has a problem, of which there were
 * `before` before it was checked. */
static void check_description(mega_train_options *cfg, size_t before)
{
    if (cfg->metrics_file == NULL || cfg->skip_train || mega_options_problems(cfg->engine.options) > before) return;
    mega_train_check_output(cfg, "metrics-file",
                            mega_options_text(cfg->engine.options, "%s" MEGA_METRICS_ABOUT, cfg->metrics_file),
                            MEGA_OUTPUT_ABOUT);
}

static void check_wandb(mega_train_options *cfg)
{
    const bool is_on = cfg->wandb_project != NULL && cfg->wandb_project[0] != '\0';
    if (!is_on || cfg->skip_train) return;
    check_writable(cfg, "--wandb-save-dir", cfg->wandb_save_dir, true);
    if (cfg->wandb_exp_name == NULL || cfg->wandb_exp_name[0] == '\0')
        mega_options_mistake(cfg->engine.options, "missing: --wandb-exp-name NAME, the name of the run of %s",
                             mega_options_origin(cfg->engine.options, "wandb_project"));
}

/* Checks where a training will write before it starts, not at its first checkpoint. Only the first
 * rank writes files. */
void mega_train_rule_writes(mega_train_options *cfg)
{
    if (!cfg->skip_train) check_writable(cfg, "--save", cfg->save, true);
    check_writable(cfg, "--data-cache-path", cfg->data.data_cache_path, true);
    if (cfg->engine.rank != 0) return;
    check_writable(cfg, "--tensorboard-dir", cfg->tensorboard_dir, true);
    check_wandb(cfg);
    if (cfg->engine.monitor.flops_profiler && !cfg->skip_train)
        mega_train_check_output(cfg, "flops-profiler-output", cfg->engine.monitor.flops_profiler_output,
                                MEGA_OUTPUT_FLOPS);
    const size_t before = mega_options_problems(cfg->engine.options);
    check_writable(cfg, "--metrics-file", cfg->metrics_file, false);
    check_description(cfg, before);
    if (!cfg->skip_train) mega_train_check_output(cfg, "profile-trace", cfg->profile_trace, MEGA_OUTPUT_TRACE);
    mega_train_check_in_folder(cfg, "schedule-svg", cfg->schedule_svg, MEGA_OUTPUT_SCHEDULE);
}
