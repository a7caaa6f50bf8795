/* Writes files for other programs: the metrics file, TensorBoard events under Megatron's tags, progress.txt. A file
 * that cannot be written does not end the training: pending data is written later, and what is missing is reported at
 * the end. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/metrics.h"
#include "megalith/outbox.h"
#include "megalith/tensorboard.h"
#include "train_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_S 5.0 /* maximum delay in seconds before a reader sees an event */

/* Records whether writing to a file works, so that only changes are logged. */
typedef struct target {
    const char *option, *path, *what;
    bool is_failing;
    int64_t lost; /* number of records reported as lost */
} target;

struct train_monitor {
    mega_metrics *metrics;
    mega_tensorboard *board;
    mega_outbox *progress;
    target of_metrics, of_board, of_progress;
    double last_flush;
    char loss_key[MEGA_LOSS_NAME], part_key[MEGA_METRICS][MEGA_LOSS_NAME]; /* keys in the metrics file */
};

/* Called after each attempt to write. If data is missing although no write fails, the file was removed. */
static void monitor_hear(target *f, mega_status st, mega_missing missing)
{
    if (st != MEGA_OK && !f->is_failing)
        mega_warn("%s: %s; the training continues; what cannot be written is kept in memory (1 MiB at most) and tried "
                  "again",
                  f->option, mega_error_message());
    if (st == MEGA_OK && f->is_failing) mega_info("%s %s: can be written again", f->option, f->path);
    f->is_failing = st != MEGA_OK;
    if (st != MEGA_OK || missing.pieces <= f->lost) return;
    f->lost = missing.pieces;
    mega_warn("%s %s: it was removed, or could not be written for long: %s of iterations %lld to %lld are lost",
              f->option, f->path, f->what, (long long)missing.first, (long long)missing.last);
}

static void hear_end(const target *f, mega_status st, mega_missing missing)
{
    if (missing.pieces > 0)
        mega_warn("%s %s: %s of iterations %lld to %lld are missing%s%s", f->option, f->path, f->what,
                  (long long)missing.first, (long long)missing.last, st != MEGA_OK ? ": " : "",
                  st != MEGA_OK ? mega_error_message() : "");
    else if (st != MEGA_OK)
        mega_warn("%s %s: its last %s may be missing: %s", f->option, f->path, f->what, mega_error_message());
}

/* Writes each argument under its own name, as Megatron does, from the lines "  name .... value" of the dump. */
static mega_status write_arguments(const trainer *t, mega_tensorboard *board)
{
    mega_buffer dump = {0};
    mega_status st = mega_options_dump_arguments(t->cfg->engine.options, &dump);
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

static mega_status open_board(trainer *t, train_monitor *m)
{
    const char *folder = t->cfg->tensorboard_dir;
    m->of_board = (target){.option = "--tensorboard-dir", .path = folder, .what = "events"};
    MEGA_TRY(mega_tensorboard_open(folder, mega_tensorboard_now(), &m->board));
    mega_tensorboard_iteration(m->board, t->first_iteration);
    MEGA_TRY(write_arguments(t, m->board));
    monitor_hear(&m->of_board, mega_tensorboard_flush(m->board), mega_tensorboard_missing(m->board));
    return MEGA_OK;
}

/* Opens SAVE/progress.txt, to which --log-progress adds one line per checkpoint. */
static mega_status open_progress(const trainer *t, train_monitor *m)
{
    char *path = mega_path_join(t->cfg->save, "progress.txt");
    mega_status st = path != NULL ? mega_outbox_create(path, NULL, 0, &m->progress)
                                  : MEGA_FAIL(MEGA_ERR_MEMORY, "progress.txt: no memory for its path");
    mega_free(path);
    MEGA_TRY(st);
    m->of_progress =
        (target){.option = "--log-progress", .path = mega_outbox_path(m->progress), .what = "lines on checkpoints"};
    return MEGA_OK;
}

mega_status train_monitor_open(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    train_monitor *m = mega_calloc(1, sizeof *m);
    if (m == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "training: no memory for its monitors");
    t->monitor = m;
    m->last_flush = mega_time_now();
    train_loss_key(m->loss_key, train_loss_name(t));
    for (int i = 0; i < train_loss_parts(t); i++) train_loss_key(m->part_key[i], mega_engine_metric_name(t->engine, i));
    if (!train_is_first(t)) return MEGA_OK;
    if (cfg->log_progress && !cfg->skip_train) MEGA_TRY(open_progress(t, m));
    m->of_metrics = (target){.option = "--metrics-file", .path = cfg->metrics_file, .what = "rows"};
    /* A run that only evaluates does not repeat iterations, so it keeps the rows of the training that it evaluates. */
    const int64_t keep = cfg->skip_train ? MEGA_METRICS_KEEP_ALL : t->first_iteration;
    if (cfg->metrics_file != NULL) MEGA_TRY(mega_metrics_open(cfg->metrics_file, t->run_id, keep, &m->metrics));
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

static void put(metrics_row *r, const char *key, double x)
{
    r->value[r->count++] = (mega_metric){.key = key, .kind = MEGA_METRIC_DOUBLE, .x = x};
}

static void write_row(train_monitor *m, const metrics_row *r)
{
    const mega_status st = mega_metrics_row(m->metrics, r->value, r->count);
    monitor_hear(&m->of_metrics, st, mega_metrics_missing(m->metrics));
}

/* Adds the load to rows of iterations whose log line measured it again. */
static void put_load(metrics_row *r, const trainer *t)
{
    if (!t->is_load_new) return;
    put(r, "cpu_taken_by_others", t->load.others);
    put(r, "cpu_taken_by_hypervisor", t->load.stolen);
    put(r, "cpu_taken_by_quota", t->load.throttled);
}

static void step_row(const trainer *t, const mega_step_result *s, double params_norm, double step_s)
{
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    metrics_row r = {.count = 0};
    if (t->monitor->metrics == NULL) return;
    put_int(&r, "iteration", p->iteration);
    put_int(&r, "consumed_samples", p->consumed_samples);
    if (isfinite(s->loss)) put(&r, t->monitor->loss_key, s->loss);
    for (int i = 0; i < train_loss_parts(t); i++)
        if (isfinite(s->metric[i])) put(&r, t->monitor->part_key[i], s->metric[i]);
    if (!s->skipped) put(&r, "grad_norm", s->grad_norm);
    if (t->cfg->engine.backend.fp16) {
        put(&r, "loss_scale", s->loss_scale);
        r.value[r.count++] = (mega_metric){.key = "skipped", .kind = MEGA_METRIC_BOOL, .i = s->skipped};
    }
    put(&r, "learning_rate", s->lr);
    put(&r, "weight_decay", s->weight_decay);
    put_int(&r, "global_batch_size", s->samples);
    if (t->cfg->log_num_zeros_in_grad) put_int(&r, "num_zeros", s->grad_zeros);
    if (t->cfg->log_params_norm) put(&r, "params_norm", params_norm);
    put(&r, "iteration_time_ms", step_s * 1e3);
    put(&r, "tokens_per_second", (double)s->tokens / step_s);
    put_load(&r, t);
    write_row(t->monitor, &r);
}

/* Writes a scalar by iteration and the same scalar by number of samples. */
static mega_status scalar(const trainer *t, const char *tag, double value)
{
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    char twin[96];
    snprintf(twin, sizeof twin, "%.80s vs samples", tag);
    MEGA_TRY(mega_tensorboard_scalar(t->monitor->board, tag, p->iteration, value, mega_tensorboard_now()));
    return mega_tensorboard_scalar(t->monitor->board, twin, p->consumed_samples, value, mega_tensorboard_now());
}

static mega_status plain_scalar(const trainer *t, const char *tag, double value)
{
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    return mega_tensorboard_scalar(t->monitor->board, tag, p->iteration, value, mega_tensorboard_now());
}

static mega_status memory_scalars(const trainer *t)
{
    MEGA_TRY(plain_scalar(t, "mem-reserved-bytes", (double)mega_memory_resident()));
    MEGA_TRY(plain_scalar(t, "mem-allocated-bytes", (double)train_memory_total(t)));
    return plain_scalar(t, "mem-allocated-count", (double)mega_alloc_count());
}

static mega_status step_scalars(const trainer *t, const mega_step_result *s, double params_norm, double step_s)
{
    const mega_train_options *cfg = t->cfg;
    if (cfg->log_learning_rate_to_tensorboard) MEGA_TRY(scalar(t, "learning-rate", s->lr));
    if (cfg->log_batch_size_to_tensorboard) MEGA_TRY(scalar(t, "batch-size", (double)s->samples));
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
    if (!cfg->log_throughput) return MEGA_OK;
    const double flops = train_token_flops(t, NULL) * (double)s->tokens / step_s;
    return plain_scalar(t, "throughput", flops * 1e-12);
}

void train_monitor_step(trainer *t, const mega_step_result *s, double params_norm, double step_s)
{
    train_monitor *m = t->monitor;
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    mega_status st = MEGA_OK;
    step_row(t, s, params_norm, step_s);
    t->is_load_new = false;
    if (m->board == NULL) return;
    mega_tensorboard_iteration(m->board, iteration);
    if (iteration % t->cfg->tensorboard_log_interval == 0) st = step_scalars(t, s, params_norm, step_s);
    const bool is_due = mega_time_now() - m->last_flush >= FLUSH_S;
    if (st == MEGA_OK && !is_due) return;
    m->last_flush = mega_time_now();
    if (st == MEGA_OK) st = mega_tensorboard_flush(m->board);
    monitor_hear(&m->of_board, st, mega_tensorboard_missing(m->board));
}

static void evaluation_row(const trainer *t, int split, double loss, bool is_final)
{
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    metrics_row r = {.count = 0};
    if (t->monitor->metrics == NULL) return;
    put_int(&r, "iteration", p->iteration);
    put_int(&r, "consumed_samples", p->consumed_samples);
    put(&r, split == MEGA_SPLIT_TEST ? "test_loss" : "validation_loss", loss);
    put(&r, split == MEGA_SPLIT_TEST ? "test_ppl" : "validation_ppl", train_perplexity(loss));
    if (is_final) r.value[r.count++] = (mega_metric){.key = "final", .kind = MEGA_METRIC_BOOL, .i = 1};
    write_row(t->monitor, &r);
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

void train_monitor_evaluation(trainer *t, int split, double loss, bool is_final)
{
    train_monitor *m = t->monitor;
    const int64_t iteration = mega_engine_progress_get(t->engine)->iteration;
    evaluation_row(t, split, loss, is_final);
    if (m->board == NULL) return;
    /* Write one point per iteration: the final evaluation would repeat a regular one. */
    if (is_final && split == MEGA_SPLIT_VALID && iteration % t->cfg->eval_interval == 0 && !t->cfg->skip_train) return;
    mega_tensorboard_iteration(m->board, iteration);
    mega_status st = evaluation_scalars(t, split, loss);
    if (st == MEGA_OK) st = mega_tensorboard_flush(m->board);
    monitor_hear(&m->of_board, st, mega_tensorboard_missing(m->board));
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
                  {"step", (double)mega_engine_progress_get(t->engine)->iteration}};
    mega_status st = MEGA_OK;
    if (m->board == NULL) return;
    for (size_t i = 0; i < MEGA_COUNT(logged) && st == MEGA_OK; i++)
        if (isfinite(logged[i].value)) st = plain_scalar(t, logged[i].tag, logged[i].value);
    if (st == MEGA_OK) st = mega_tensorboard_flush(m->board);
    monitor_hear(&m->of_board, st, mega_tensorboard_missing(m->board));
}

void train_monitor_saved(trainer *t)
{
    char text[160], when[32];
    const time_t now = time(NULL);
    struct tm local;
    train_monitor *m = t->monitor;
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    if (m->progress == NULL) return;
    localtime_r(&now, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    const int n = snprintf(text, sizeof text, "%s\tsaved checkpoint\titeration: %lld\tsamples: %lld\ttokens: %lld\n",
                           when, (long long)p->iteration, (long long)p->consumed_samples,
                           (long long)(p->consumed_samples * t->cfg->seq_length));
    mega_status st = mega_outbox_put(m->progress, p->iteration, p->iteration, text, (size_t)n);
    if (st == MEGA_OK) st = mega_outbox_flush(m->progress);
    monitor_hear(&m->of_progress, st, mega_outbox_missing(m->progress));
}

void train_monitor_flush(trainer *t)
{
    train_monitor *m = t->monitor;
    if (m->metrics != NULL) {
        const mega_status st = mega_metrics_sync(m->metrics);
        monitor_hear(&m->of_metrics, st, mega_metrics_missing(m->metrics));
    }
    if (m->board == NULL) return;
    const mega_status st = mega_tensorboard_flush(m->board);
    monitor_hear(&m->of_board, st, mega_tensorboard_missing(m->board));
}

void train_monitor_close(trainer *t)
{
    train_monitor *m = t->monitor;
    mega_missing missing;
    if (m == NULL) return;
    mega_status st = mega_metrics_close(m->metrics, &missing);
    hear_end(&m->of_metrics, st, missing);
    st = mega_tensorboard_close(m->board, &missing);
    hear_end(&m->of_board, st, missing);
    if (m->progress != NULL) {
        st = mega_outbox_sync(m->progress);
        hear_end(&m->of_progress, st, mega_outbox_missing(m->progress));
        mega_outbox_close(m->progress);
    }
    mega_free(m);
    t->monitor = NULL;
}
