/* Reads what a training left: its metrics, and beside them what it wrote about itself. */
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json.h"
#include "report_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ENDING ".jsonl"

/* Finds the metrics file of a folder. */
static mega_status find_metrics(char **out, const char *folder)
{
    mega_names names = {0};
    mega_buffer found = {0};
    size_t count = 0;
    char *path = NULL;
    MEGA_TRY(mega_folder_list(folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        if (!mega_path_ends_with(names.name[i], ENDING)) continue;
        mega_buffer_printf(&found, "%s%s", count > 0 ? ", " : "", names.name[i]);
        if (count++ == 0) path = mega_path_join(folder, names.name[i]);
    }
    mega_names_fini(&names);
    mega_status st = mega_buffer_check(&found, folder);
    if (st == MEGA_OK && count == 0)
        st = MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                       "%s: the folder holds no metrics file (*" ENDING "); name the file that --metrics-file wrote",
                       folder);
    else if (st == MEGA_OK && count > 1)
        st = MEGA_MISTAKE("%s: the folder holds %zu metrics files (%s); name one of them", folder, count, found.data);
    else if (st == MEGA_OK && path == NULL)
        st = MEGA_NO_MEMORY(folder, "its metrics file");
    mega_buffer_fini(&found);
    if (st == MEGA_OK) *out = path;
    else
        mega_free(path);
    return st;
}

static mega_status load_about(json_t **out, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    json_error_t error;
    MEGA_TRY(mega_file_read_kind(path, "metrics", MEGA_KIND_TABLE, &text, &size));
    *out = mega_json_load(text, size, 0, &error);
    mega_free(text);
    if (*out != NULL) return MEGA_OK;
    return MEGA_FAIL(mega_json_status(&error),
                     "%s: line %d: %s; expected what a training wrote; remove the file to "
                     "make a report without it",
                     path, error.line, error.text);
}

/* A run whose rows were followed by those of another run in the same file has lost its description to it. */
static mega_status read_about(mega_report_run *run, char **out_run)
{
    char *path = mega_format("%s" MEGA_METRICS_ABOUT, run->path);
    mega_status st = path != NULL ? MEGA_OK : MEGA_NO_MEMORY(run->path, "a name");
    if (st == MEGA_OK && mega_file_exists(path)) st = load_about(&run->about, path);
    else if (st == MEGA_OK)
        run->lacks = mega_format("there is no %s", path);
    const char *id = report_text(run, NULL, "run");
    if (st == MEGA_OK && run->about != NULL) {
        *out_run = mega_strdup(id != NULL ? id : "");
        if (*out_run == NULL) st = MEGA_NO_MEMORY(run->path, "a run");
    }
    mega_free(path);
    return st;
}

/* The description names the loss; without one, the loss is that of a GPT. */
static mega_status read_curves(mega_report_run *run, const char *id)
{
    const char *loss = report_text(run, NULL, "loss");
    const char *const key[MEGA_REPORT_CURVES] = {[MEGA_REPORT_LOSS] = loss != NULL ? loss : "lm_loss",
                                                 [MEGA_REPORT_VALIDATION] = "validation_loss",
                                                 [MEGA_REPORT_TEST] = "test_loss",
                                                 [MEGA_REPORT_LEARNING_RATE] = "learning_rate",
                                                 [MEGA_REPORT_LOSS_SCALE] = "loss_scale",
                                                 [MEGA_REPORT_GRAD_NORM] = "grad_norm",
                                                 [MEGA_REPORT_TOKENS] = "tokens_per_second"};
    mega_buffer name = {0};
    const mega_status st = mega_curves_read(run->path, id, "iteration", key, MEGA_REPORT_CURVES, run->curve, &name);
    run->id = st == MEGA_OK ? mega_strdup(name.data != NULL ? name.data : "") : NULL;
    mega_buffer_fini(&name);
    return st == MEGA_OK && run->id == NULL ? MEGA_NO_MEMORY(run->path, "a run") : st;
}

static mega_status report_read_run(mega_report_run *run, const char *source, const char *id)
{
    char *described = NULL;
    if (mega_folder_exists(source)) MEGA_TRY(find_metrics(&run->path, source));
    else
        run->path = mega_strdup(source);
    if (run->path == NULL || run->label == NULL) return MEGA_NO_MEMORY(source, "a run");
    mega_status st = read_about(run, &described);
    if (st == MEGA_OK) st = read_curves(run, id);
    if (st == MEGA_OK && described != NULL && strcmp(described, run->id) != 0) {
        run->lacks =
            mega_format("%s" MEGA_METRICS_ABOUT " is of run %s, which wrote to the file later", run->path, described);
        json_decref(run->about);
        run->about = NULL;
    }
    mega_free(described);
    return st;
}

mega_status mega_report_read(mega_report_run *out, const char *source, const char *label, const char *id)
{
    mega_report_run run = {.label = mega_strdup(label)};
    const mega_status st = report_read_run(&run, source, id);
    if (st == MEGA_OK) *out = run;
    else
        mega_report_run_fini(&run);
    return st;
}

void mega_report_run_fini(mega_report_run *run)
{
    MEGA_FREE(run->label, run->path, run->id, run->lacks);
    json_decref(run->about);
    for (int i = 0; i < MEGA_REPORT_CURVES; i++) mega_curve_fini(&run->curve[i]);
    *run = (mega_report_run){0};
}

static const json_t *member(const mega_report_run *run, const char *block, const char *key)
{
    return json_object_get(block != NULL ? json_object_get(run->about, block) : run->about, key);
}

const char *report_text(const mega_report_run *run, const char *block, const char *key)
{
    return json_string_value(member(run, block, key));
}

double report_number(const mega_report_run *run, const char *block, const char *key)
{
    const json_t *value = member(run, block, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}
