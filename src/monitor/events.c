/* Writes values to several monitors. */
#include "megalith/events.h"
#include "csv.h"
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/outbox.h"
#include "megalith/tensorboard.h"
#include "megalith/threads.h"
#include "megalith/wandb.h"

#include <jansson.h>
#include <string.h>

#define FLUSH_S 5.0 /* maximum delay in seconds before a reader sees a value */

enum { OF_TENSORBOARD, OF_CSV, OF_WANDB, SINKS };

struct mega_events {
    mega_tensorboard *tensorboard;
    csv_monitor *csv;
    mega_wandb *wandb;
    mega_outbox_report report[SINKS];
    mega_status put[SINKS]; /* the first failure since the last flush */
    char *folder[SINKS];
    double flushed;
};

static mega_status open_tensorboard(const mega_monitor_options *o, json_t *config, mega_events *e)
{
    const double now = mega_tensorboard_now();
    char *folder = e->folder[OF_TENSORBOARD] = mega_path_join(o->monitor_tensorboard_path, o->monitor_tensorboard_job);
    if (folder == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a path");
    MEGA_TRY(mega_tensorboard_open(folder, now, &e->tensorboard));
    return config != NULL ? mega_tensorboard_hyperparameters(e->tensorboard, config, now) : MEGA_OK;
}

static mega_status open_csv(const mega_monitor_options *o, json_t *config, mega_events *e)
{
    char *folder = e->folder[OF_CSV] = mega_path_join(o->monitor_csv_path, o->monitor_csv_job);
    if (folder == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a path");
    return csv_monitor_open(folder, config, &e->csv);
}

static mega_status open_wandb(const mega_monitor_options *o, json_t *config, mega_events *e)
{
    const mega_wandb_run run = {.folder = o->monitor_wandb_path,
                                .project = o->monitor_wandb_project,
                                .group = o->monitor_wandb_group,
                                .team = o->monitor_wandb_team,
                                .config = config,
                                .now = mega_tensorboard_now()};
    MEGA_TRY(mega_wandb_open(&run, &e->wandb));
    mega_info("wandb: offline run %s; wandb sync uploads it", mega_wandb_folder(e->wandb));
    return MEGA_OK;
}

static void open_sink(mega_events *e, int sink, const char *name, mega_status st)
{
    e->report[sink] =
        (mega_outbox_report){.option = name, .path = e->folder[sink], .what = "values", .counted = "samples"};
    if (e->folder[sink] == NULL) e->report[sink].path = "";
    if (st != MEGA_OK) mega_warn("%s: %s; the training continues without it", name, mega_error_message());
    mega_error_clear();
}

mega_events *mega_events_open(const mega_monitor_options *o, const char *text)
{
    json_error_t error;
    if (!o->monitor_tensorboard && !o->monitor_csv && !o->monitor_wandb) return NULL;
    mega_events *e = mega_calloc(1, sizeof *e);
    json_t *config = text != NULL ? mega_json_load(text, strlen(text), 0, &error) : NULL;
    if (e == NULL || (text != NULL && config == NULL)) mega_warn("monitors: no memory; the training continues without");
    else {
        if (o->monitor_tensorboard) open_sink(e, OF_TENSORBOARD, "\"tensorboard\"", open_tensorboard(o, config, e));
        if (o->monitor_csv) open_sink(e, OF_CSV, "\"csv_monitor\"", open_csv(o, config, e));
        if (o->monitor_wandb) open_sink(e, OF_WANDB, "\"wandb\"", open_wandb(o, config, e));
        if (e->wandb != NULL) e->report[OF_WANDB].path = mega_wandb_folder(e->wandb);
        mega_events_flush(e);
    }
    json_decref(config);
    return e;
}

static void events_keep_failure(mega_events *e, int sink, mega_status st)
{
    if (st == MEGA_OK) return;
    if (e->put[sink] == MEGA_OK)
        mega_warn("%s: %s; the training continues", e->report[sink].option, mega_error_message());
    e->put[sink] = st;
    mega_error_clear();
}

void mega_events_put(mega_events *e, const char *tag, double value, int64_t step)
{
    if (e == NULL) return;
    const double now = mega_tensorboard_now();
    if (e->tensorboard != NULL) {
        mega_tensorboard_iteration(e->tensorboard, step);
        events_keep_failure(e, OF_TENSORBOARD, mega_tensorboard_scalar(e->tensorboard, tag, step, value, now));
    }
    if (e->csv != NULL) events_keep_failure(e, OF_CSV, csv_monitor_put(e->csv, tag, value, step));
    if (e->wandb != NULL) events_keep_failure(e, OF_WANDB, mega_wandb_put(e->wandb, tag, value, step, now));
}

static void hear(mega_events *e, int sink, mega_status st, mega_missing missing)
{
    mega_outbox_hear(&e->report[sink], st, missing);
    mega_error_clear();
}

void mega_events_flush(mega_events *e)
{
    if (e == NULL) return;
    e->flushed = mega_time_now();
    if (e->tensorboard != NULL) {
        const mega_status st = mega_tensorboard_flush(e->tensorboard);
        hear(e, OF_TENSORBOARD, st, mega_tensorboard_missing(e->tensorboard));
    }
    if (e->csv != NULL) {
        const mega_status st = csv_monitor_flush(e->csv);
        hear(e, OF_CSV, st, csv_monitor_missing(e->csv));
    }
    if (e->wandb != NULL) {
        const mega_status st = mega_wandb_flush(e->wandb);
        hear(e, OF_WANDB, st, mega_wandb_missing(e->wandb));
    }
}

void mega_events_flush_if_due(mega_events *e)
{
    if (e != NULL && mega_time_now() - e->flushed >= FLUSH_S) mega_events_flush(e);
}

void mega_events_close(mega_events *e)
{
    mega_missing missing;
    if (e == NULL) return;
    mega_status st = mega_tensorboard_close(e->tensorboard, &missing);
    mega_outbox_hear_end(&e->report[OF_TENSORBOARD], st, missing);
    if (e->csv != NULL) {
        st = csv_monitor_flush(e->csv);
        mega_outbox_hear_end(&e->report[OF_CSV], st, csv_monitor_missing(e->csv));
        (void)csv_monitor_close(e->csv);
    }
    st = mega_wandb_close(e->wandb, mega_tensorboard_now(), &missing);
    mega_outbox_hear_end(&e->report[OF_WANDB], st, missing);
    for (int i = 0; i < SINKS; i++) mega_free(e->folder[i]);
    mega_free(e);
}
