/* Writes files for other programs: the metrics file, TensorBoard events under Megatron's tags, progress.txt. A file
 * that cannot be written does not end the training: pending data is written later, and what is missing is reported at
 * the end. */
#include "megalith/file.h"
#include "megalith/json.h"
#include "megalith/log.h"
#include "megalith/metrics.h"
#include "megalith/outbox.h"
#include "megalith/tensorboard.h"
#include "megalith/wandb.h"
#include "train_impl.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_S 5.0 /* maximum delay in seconds before a reader sees an event */

struct train_monitor {
    mega_metrics *metrics;
    mega_tensorboard *board;
    mega_outbox *progress;
    mega_wandb *wandb;
    mega_outbox_report of_metrics, of_board, of_progress, of_wandb;
    double last_flush;
    char loss_key[MEGA_LOSS_NAME], part_key[MEGA_METRICS][MEGA_LOSS_NAME]; /* keys in the metrics file */
};

/* Writes each argument under its own name, as Megatron does, from the lines "  name .... value" of the dump. */
static mega_status write_arguments(const trainer *t, mega_tensorboard *board)
{
    mega_buffer dump = {0};
    mega_status st = train_options_table(t, &dump);
    char *rest = dump.data, *line;
    while (st == MEGA_OK && rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        char *name = line + strspn(line, " "), *dots = strstr(name, " .");
        if (name == line || dots == NULL) continue;
        *dots = '\0';
        const char *value = dots + 1 + strspn(dots + 1, ".");
        st = mega_tensorboard_text(board, name, value + (*value == ' '), t->first_iteration, mega_tensorboard_now());
    }
    mega_buffer_fini(&dump);
    return st;
}

/* Returns the options as a JSON object, for programs that compare runs; NULL: no memory. */
static json_t *settings_of(const trainer *t)
{
    json_error_t error;
    mega_buffer text = {0};
    const mega_status st = mega_options_to_json(t->cfg->engine.options, &text);
    json_t *settings = st == MEGA_OK ? mega_json_load(text.data, text.size, 0, &error) : NULL;
    mega_buffer_fini(&text);
    return settings;
}

static mega_status write_settings(const trainer *t, mega_tensorboard *board)
{
    json_t *settings = settings_of(t);
    if (settings == NULL) return MEGA_NO_MEMORY("--tensorboard-dir", "the options");
    const mega_status st = mega_tensorboard_hyperparameters(board, settings, mega_tensorboard_now());
    json_decref(settings);
    return st;
}

/* Opens the run of --wandb-project. Without it the training continues. */
static mega_status open_wandb_run(trainer *t, train_monitor *m)
{
    const mega_train_options *cfg = t->cfg;
    char *in_save = cfg->save != NULL ? mega_path_join(cfg->save, "wandb") : NULL;
    const bool is_given = cfg->wandb_save_dir != NULL && cfg->wandb_save_dir[0] != '\0';
    json_t *settings = settings_of(t);
    const mega_wandb_run run = {.folder = is_given ? cfg->wandb_save_dir : in_save,
                                .project = cfg->wandb_project,
                                .name = cfg->wandb_exp_name,
                                .config = settings,
                                .now = mega_tensorboard_now()};
    mega_status st = settings != NULL ? MEGA_OK : MEGA_NO_MEMORY("--wandb-project", "the options");
    if (st == MEGA_OK) st = mega_wandb_open(&run, &m->wandb);
    json_decref(settings);
    mega_free(in_save);
    MEGA_TRY(st);
    m->of_wandb =
        (mega_outbox_report){.option = "--wandb-project", .path = mega_wandb_folder(m->wandb), .what = "values"};
    return MEGA_OK;
}

static mega_status open_board(trainer *t, train_monitor *m)
{
    const char *folder = t->cfg->tensorboard_dir;
    m->of_board = (mega_outbox_report){.option = "--tensorboard-dir", .path = folder, .what = "events"};
    MEGA_TRY(mega_tensorboard_open(folder, mega_tensorboard_now(), &m->board));
    mega_tensorboard_iteration(m->board, t->first_iteration);
    MEGA_TRY(write_arguments(t, m->board));
    MEGA_TRY(write_settings(t, m->board));
    mega_outbox_hear(&m->of_board, mega_tensorboard_flush(m->board), mega_tensorboard_missing(m->board));
    return MEGA_OK;
}

/* Opens SAVE/progress.txt, to which --log-progress adds one line per checkpoint. */
static mega_status open_progress(const trainer *t, train_monitor *m)
{
    char *path = mega_path_join(t->cfg->save, "progress.txt");
    mega_status st =
        path != NULL ? mega_outbox_create(path, NULL, 0, &m->progress) : MEGA_NO_MEMORY("progress.txt", "its path");
    mega_free(path);
    MEGA_TRY(st);
    m->of_progress = (mega_outbox_report){
        .option = "--log-progress", .path = mega_outbox_path(m->progress), .what = "lines on checkpoints"};
    return MEGA_OK;
}

mega_status train_monitor_open(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    train_monitor *m = mega_calloc(1, sizeof *m);
    if (m == NULL) return MEGA_NO_MEMORY("training", "its monitors");
    t->monitor = m;
    m->last_flush = mega_time_now();
    train_loss_key(m->loss_key, train_loss_name(t));
    for (int i = 0; i < train_loss_parts(t); i++) train_loss_key(m->part_key[i], mega_engine_metric_name(t->engine, i));
    if (!train_is_first(t)) return MEGA_OK;
    if (cfg->log_progress && !cfg->skip_train) MEGA_TRY(open_progress(t, m));
    m->of_metrics = (mega_outbox_report){.option = "--metrics-file", .path = cfg->metrics_file, .what = "rows"};
    /* A run that only evaluates does not repeat iterations, so it keeps the rows of the training that it evaluates. */
    const int64_t keep = cfg->skip_train ? MEGA_METRICS_KEEP_ALL : t->first_iteration;
    if (cfg->metrics_file != NULL) MEGA_TRY(mega_metrics_open(cfg->metrics_file, t->run_id, keep, &m->metrics));
    if (cfg->wandb_project != NULL && cfg->wandb_project[0] != '\0' && !cfg->skip_train) MEGA_TRY(open_wandb_run(t, m));
    return cfg->tensorboard_dir != NULL ? open_board(t, m) : MEGA_OK;
}

/* A row of the metrics file while it is being composed. */
typedef struct metrics_row {
    mega_metric value[18 + MEGA_METRICS];
    int count;
} metrics_row;

static void put_int(metrics_row *r, const char *key, int64_t i)
{
    r->value[r->count++] = (mega_metric){.key = key, .kind = MEGA_METRIC_INT, .i = i};
}

static void put_metric(metrics_row *r, const char *key, double x)
{
    r->value[r->count++] = (mega_metric){.key = key, .kind = MEGA_METRIC_DOUBLE, .x = x};
}

static void write_metrics_row(train_monitor *m, const metrics_row *r)
{
    const mega_status st = mega_metrics_row(m->metrics, r->value, r->count);
    mega_outbox_hear(&m->of_metrics, st, mega_metrics_missing(m->metrics));
}

/* Adds the load to rows of iterations whose log line measured it again. */
static void put_load(metrics_row *r, const trainer *t)
{
    if (!t->cpu.is_new) return;
    put_metric(r, "cpu_taken_by_others", t->cpu.load.others);
    put_metric(r, "cpu_taken_by_hypervisor", t->cpu.load.stolen);
    put_metric(r, "cpu_taken_by_quota", t->cpu.load.throttled);
}

static void step_row(const trainer *t, const mega_step_result *s, double params_norm, double step_s)
{
    const mega_engine_progress *p = mega_engine_progress_told(t->engine);
    metrics_row r = {.count = 0};
    if (t->monitor->metrics == NULL) return;
    put_int(&r, "iteration", p->iteration);
    put_int(&r, "consumed_samples", p->consumed_samples);
    if (isfinite(s->loss)) put_metric(&r, t->monitor->loss_key, s->loss);
    for (int i = 0; i < train_loss_parts(t); i++)
        if (isfinite(s->metric[i])) put_metric(&r, t->monitor->part_key[i], s->metric[i]);
    if (!s->skipped) put_metric(&r, "grad_norm", s->grad_norm);
    if (t->cfg->engine.backend.fp16) {
        put_metric(&r, "loss_scale", s->loss_scale);
        r.value[r.count++] = (mega_metric){.key = "skipped", .kind = MEGA_METRIC_BOOL, .i = s->skipped};
    }
    put_metric(&r, "learning_rate", s->lr);
    put_metric(&r, "weight_decay", s->weight_decay);
    put_int(&r, "global_batch_size", s->samples);
    if (t->cfg->log_num_zeros_in_grad) put_int(&r, "num_zeros", s->grad_zeros);
    if (t->cfg->log_params_norm) put_metric(&r, "params_norm", params_norm);
    put_metric(&r, "iteration_time_ms", step_s * 1e3);
    put_metric(&r, "tokens_per_second", (double)s->tokens / step_s);
    put_load(&r, t);
    write_metrics_row(t->monitor, &r);
}

static mega_status plain_scalar(const trainer *t, const char *tag, double value)
{
    const int64_t iteration = mega_engine_progress_told(t->engine)->iteration;
    const train_monitor *m = t->monitor;
    const double now = mega_tensorboard_now();
    if (m->board != NULL) MEGA_TRY(mega_tensorboard_scalar(m->board, tag, iteration, value, now));
    return m->wandb != NULL ? mega_wandb_put(m->wandb, tag, value, iteration, now) : MEGA_OK;
}

/* Writes a scalar by iteration and the same scalar by number of samples. */
static mega_status scalar(const trainer *t, const char *tag, double value)
{
    const mega_engine_progress *p = mega_engine_progress_told(t->engine);
    char twin[96];
    snprintf(twin, sizeof twin, "%.80s vs samples", tag);
    MEGA_TRY(plain_scalar(t, tag, value));
    if (t->monitor->board == NULL) return MEGA_OK;
    return mega_tensorboard_scalar(t->monitor->board, twin, p->consumed_samples, value, mega_tensorboard_now());
}

static mega_status memory_scalars(const trainer *t)
{
    MEGA_TRY(plain_scalar(t, "mem-reserved-bytes", (double)mega_memory_resident()));
    MEGA_TRY(plain_scalar(t, "mem-allocated-bytes", (double)train_memory_total(t)));
    return plain_scalar(t, "mem-allocated-count", (double)mega_alloc_count());
}

/* Megatron-DeepSpeed's names, by iteration and by tokens. */
static mega_status state_scalars(const trainer *t)
{
    static const char *const name[MEGA_STATE_KINDS] = {"variance", "variance_sqrt", "momentum", "weight"};
    const mega_engine_progress *p = mega_engine_progress_told(t->engine);
    const int64_t tokens = p->consumed_tokens;
    const double now = mega_tensorboard_now();
    const struct {
        const char *norm;
        const double *value;
    } of[] = {{"l2", t->states.l2}, {"l1", t->states.l1}, {"abs_max", t->states.abs_max}};
    for (size_t i = 0; i < MEGA_COUNT(of); i++) {
        for (int k = 0; k < MEGA_STATE_KINDS; k++) {
            char tag[64], twin[80];
            if (!mega_optimizer_has_state(mega_engine_optimizer(t->engine), k)) continue;
            snprintf(tag, sizeof tag, "optimizer/%s_%s", name[k], of[i].norm);
            snprintf(twin, sizeof twin, "%s vs tokens", tag);
            MEGA_TRY(plain_scalar(t, tag, of[i].value[k]));
            if (t->monitor->board == NULL) continue;
            MEGA_TRY(mega_tensorboard_scalar(t->monitor->board, twin, tokens, of[i].value[k], now));
        }
    }
    return MEGA_OK;
}

static mega_status step_scalars(const trainer *t, const mega_step_result *s, double params_norm, double step_s)
{
    const mega_train_options *cfg = t->cfg;
    if (cfg->log_learning_rate_to_tensorboard) MEGA_TRY(scalar(t, "learning-rate", s->lr));
    if (cfg->log_batch_size_to_tensorboard) MEGA_TRY(scalar(t, "batch-size", (double)s->samples));
    if (cfg->engine.optim.curriculum_learning)
        MEGA_TRY(scalar(t, "seqlen/curriculum_seqlen", (double)(s->tokens / s->samples)));
    if (!s->skipped) MEGA_TRY(scalar(t, train_loss_name(t), s->loss));
    for (int i = 0; i < train_loss_parts(t); i++)
        if (!s->skipped && isfinite(s->metric[i]))
            MEGA_TRY(scalar(t, mega_engine_metric_name(t->engine, i), s->metric[i]));
    if (cfg->log_loss_scale_to_tensorboard) MEGA_TRY(scalar(t, "loss-scale", mega_engine_loss_scale(t->engine)));
    if (cfg->log_world_size_to_tensorboard) MEGA_TRY(scalar(t, "world-size", (double)cfg->engine.world_size));
    if (!s->skipped) MEGA_TRY(scalar(t, "grad-norm", s->grad_norm));
    if (cfg->log_num_zeros_in_grad && !s->skipped) MEGA_TRY(scalar(t, "num-zeros", (double)s->grad_zeros));
    if (cfg->log_params_norm) MEGA_TRY(scalar(t, "params-norm", params_norm));
    if (cfg->log_memory_to_tensorboard) MEGA_TRY(memory_scalars(t));
    if (cfg->log_timers_to_tensorboard) MEGA_TRY(plain_scalar(t, "iteration-time", step_s));
    if (cfg->log_optimizer_states_to_tensorboard) MEGA_TRY(state_scalars(t));
    if (!cfg->log_throughput) return MEGA_OK;
    const double flops = train_token_flops(t, s, NULL) * (double)s->tokens / step_s;
    return plain_scalar(t, "throughput", flops * 1e-12);
}

/* Writes out the values so far. `st`: the status of giving them to the writers. */
static void flush_values(train_monitor *m, mega_status st)
{
    m->last_flush = mega_time_now();
    if (m->board != NULL) {
        const mega_status now = st == MEGA_OK ? mega_tensorboard_flush(m->board) : st;
        mega_outbox_hear(&m->of_board, now, mega_tensorboard_missing(m->board));
    }
    if (m->wandb != NULL) {
        const mega_status now = st == MEGA_OK ? mega_wandb_flush(m->wandb) : st;
        mega_outbox_hear(&m->of_wandb, now, mega_wandb_missing(m->wandb));
    }
}

bool train_monitor_is_due(const trainer *t)
{
    return mega_engine_progress_told(t->engine)->iteration % t->cfg->tensorboard_log_interval == 0;
}

void train_monitor_step(trainer *t, const mega_step_result *s, double params_norm, double step_s)
{
    train_monitor *m = t->monitor;
    const int64_t iteration = mega_engine_progress_told(t->engine)->iteration;
    mega_status st = MEGA_OK;
    step_row(t, s, params_norm, step_s);
    t->cpu.is_new = false;
    if (m->board == NULL && m->wandb == NULL) return;
    if (m->board != NULL) mega_tensorboard_iteration(m->board, iteration);
    if (train_monitor_is_due(t)) st = step_scalars(t, s, params_norm, step_s);
    if (st != MEGA_OK || mega_time_now() - m->last_flush >= FLUSH_S) flush_values(m, st);
}

static void evaluation_row(const trainer *t, int split, double loss, bool is_final)
{
    const mega_engine_progress *p = mega_engine_progress_told(t->engine);
    metrics_row r = {.count = 0};
    if (t->monitor->metrics == NULL) return;
    put_int(&r, "iteration", p->iteration);
    put_int(&r, "consumed_samples", p->consumed_samples);
    put_metric(&r, split == MEGA_SPLIT_TEST ? "test_loss" : "validation_loss", loss);
    put_metric(&r, split == MEGA_SPLIT_TEST ? "test_ppl" : "validation_ppl", train_perplexity(loss));
    if (is_final) r.value[r.count++] = (mega_metric){.key = "final", .kind = MEGA_METRIC_BOOL, .i = 1};
    write_metrics_row(t->monitor, &r);
}

static mega_status evaluation_scalars(const trainer *t, int split, double loss)
{
    char name[MEGA_LOSS_NAME + 16], ppl[64];
    snprintf(name, sizeof name, "%s %s", train_loss_name(t), split == MEGA_SPLIT_TEST ? "test" : "validation");
    MEGA_TRY(scalar(t, name, loss));
    if (!t->cfg->log_validation_ppl_to_tensorboard) return MEGA_OK;
    snprintf(ppl, sizeof ppl, "%.50s ppl", name);
    return scalar(t, ppl, train_perplexity(loss));
}

void train_monitor_evaluation(trainer *t, int split, double loss, bool of_draw, bool is_final)
{
    train_monitor *m = t->monitor;
    const int64_t iteration = mega_engine_progress_told(t->engine)->iteration;
    /* Write one point per iteration: an evaluation of all samples follows, or the draw at the end would repeat one. */
    if (of_draw && train_ends_epoch(t)) return;
    evaluation_row(t, split, loss, is_final);
    const bool is_repeated = of_draw && is_final && iteration % t->cfg->eval_interval == 0 && !t->cfg->skip_train;
    if (is_repeated && split == MEGA_SPLIT_VALID) return;
    if (split == MEGA_SPLIT_VALID && mega_engine_write_event(t->engine, "Train/Samples/eval_loss", loss) != MEGA_OK)
        mega_warn("%s", mega_error_message());
    if (m->board == NULL && m->wandb == NULL) return;
    if (m->board != NULL) mega_tensorboard_iteration(m->board, iteration);
    flush_values(m, evaluation_scalars(t, split, loss));
}

/* Writes what transformers' script logs to its trackers after an epoch. */
void train_monitor_epoch(trainer *t, int64_t epoch, double loss, double train_loss)
{
    train_monitor *m = t->monitor;
    const struct {
        const char *tag;
        double value;
    } logged[] = {{"perplexity", exp(loss)},
                  {"eval_loss", loss},
                  {"train_loss", train_loss},
                  {"epoch", (double)epoch},
                  {"step", (double)mega_engine_progress_told(t->engine)->iteration}};
    mega_status st = MEGA_OK;
    if (m->board == NULL && m->wandb == NULL) return;
    for (size_t i = 0; i < MEGA_COUNT(logged) && st == MEGA_OK; i++)
        if (isfinite(logged[i].value)) st = plain_scalar(t, logged[i].tag, logged[i].value);
    flush_values(m, st);
}

void train_monitor_saved(trainer *t)
{
    char text[160], when[32];
    const time_t now = time(NULL);
    struct tm local;
    train_monitor *m = t->monitor;
    const mega_engine_progress *p = mega_engine_progress_told(t->engine);
    if (m->progress == NULL) return;
    localtime_r(&now, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    const int n =
        snprintf(text, sizeof text, "%s\tsaved checkpoint\titeration: %lld\tsamples: %lld\ttokens: %lld\n", when,
                 (long long)p->iteration, (long long)p->consumed_samples, (long long)p->consumed_tokens);
    mega_status st = mega_outbox_put(m->progress, p->iteration, p->iteration, text, (size_t)n);
    if (st == MEGA_OK) st = mega_outbox_flush(m->progress);
    mega_outbox_hear(&m->of_progress, st, mega_outbox_missing(m->progress));
}

void train_monitor_flush(trainer *t)
{
    train_monitor *m = t->monitor;
    if (m->metrics != NULL) {
        const mega_status st = mega_metrics_sync(m->metrics);
        mega_outbox_hear(&m->of_metrics, st, mega_metrics_missing(m->metrics));
    }
    flush_values(m, MEGA_OK);
}

void train_monitor_log_address(const trainer *t)
{
    if (t->monitor->wandb != NULL)
        train_line(t, "wandb: %s; wandb sync uploads it", mega_wandb_folder(t->monitor->wandb));
}

void train_monitor_close(trainer *t)
{
    train_monitor *m = t->monitor;
    mega_missing missing;
    if (m == NULL) return;
    mega_status st = mega_metrics_close(m->metrics, &missing);
    mega_outbox_hear_end(&m->of_metrics, st, missing);
    st = mega_tensorboard_close(m->board, &missing);
    mega_outbox_hear_end(&m->of_board, st, missing);
    st = mega_wandb_close(m->wandb, mega_tensorboard_now(), &missing);
    mega_outbox_hear_end(&m->of_wandb, st, missing);
    if (m->progress != NULL) {
        st = mega_outbox_sync(m->progress);
        mega_outbox_hear_end(&m->of_progress, st, mega_outbox_missing(m->progress));
        mega_outbox_close(m->progress);
    }
    mega_free(m);
    t->monitor = NULL;
}
