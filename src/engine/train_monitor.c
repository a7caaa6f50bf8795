/* What a run leaves for other programs: the metrics file. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "train_impl.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct train_monitor {
    mega_writer *metrics;
    mega_buffer row;
};

/* Rows up to the iteration that the run goes on from. Final evaluations are cut too: they come after the last
 * checkpoint. */
static mega_status keep_rows(const char *path, int64_t iteration)
{
    char *text = NULL;
    size_t size = 0;
    mega_buffer kept = {0};
    if (!mega_file_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_file_read(&text, &size, path));
    for (char *line = text; line < text + size;) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end == NULL) break; /* a row that was never finished */
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        const json_t *at = json_object_get(row, "iteration");
        if (json_is_integer(at) && json_integer_value(at) <= iteration && json_object_get(row, "final") == NULL)
            mega_buffer_append(&kept, line, (size_t)(end + 1 - line));
        json_decref(row);
        line = end + 1;
    }
    mega_free(text);
    mega_status st = mega_buffer_check(&kept, path);
    if (st == MEGA_OK && kept.size != size)
        st = mega_file_write_atomic(path, kept.data != NULL ? kept.data : "", kept.size);
    mega_buffer_fini(&kept);
    return st;
}

static mega_status open_metrics(trainer *t)
{
    const char *path = t->cfg->metrics_file;
    if (path == NULL) return MEGA_OK;
    char *folder = mega_path_folder(path);
    if (folder == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "--metrics-file %s: no memory for its folder's name", path);
    mega_status st = mega_folder_create(folder);
    mega_free(folder);
    if (st == MEGA_OK && t->first_iteration > 0) {
        st = keep_rows(path, t->first_iteration);
        return st == MEGA_OK ? mega_writer_append_to(&t->monitor->metrics, path) : st;
    }
    return st == MEGA_OK ? mega_writer_create(&t->monitor->metrics, path) : st;
}

mega_status train_monitor_open(trainer *t)
{
    t->monitor = mega_calloc(1, sizeof *t->monitor);
    if (t->monitor == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "training: no memory for its monitors");
    return open_metrics(t);
}

static mega_status write_row(train_monitor *m)
{
    MEGA_TRY(mega_buffer_check(&m->row, "a row of the metrics file"));
    MEGA_TRY(mega_writer_write(m->metrics, m->row.data, m->row.size));
    return mega_writer_flush(m->metrics);
}

/* JSON has no number that is not finite. */
static void number(mega_buffer *b, const char *key, double value)
{
    if (isfinite(value)) mega_buffer_printf(b, ", \"%s\": %.17g", key, value);
    else
        mega_buffer_printf(b, ", \"%s\": null", key);
}

mega_status train_monitor_step(trainer *t, const mega_step_result *r, double params_norm, double step_s)
{
    train_monitor *m = t->monitor;
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    if (m->metrics == NULL) return MEGA_OK;
    m->row.size = 0;
    mega_buffer_printf(&m->row, "{\"iteration\": %lld, \"consumed_samples\": %lld", (long long)p->iteration,
                       (long long)p->consumed_samples);
    number(&m->row, "lm_loss", r->loss);
    number(&m->row, "grad_norm", r->grad_norm);
    number(&m->row, "learning_rate", mega_engine_next_lr(t->engine));
    number(&m->row, "weight_decay", r->weight_decay);
    mega_buffer_printf(&m->row, ", \"global_batch_size\": %lld", (long long)r->samples);
    if (t->cfg->log_num_zeros_in_grad) mega_buffer_printf(&m->row, ", \"num_zeros\": %lld", (long long)r->grad_zeros);
    if (t->cfg->log_params_norm) number(&m->row, "params_norm", params_norm);
    number(&m->row, "iteration_time_ms", step_s * 1e3);
    number(&m->row, "tokens_per_second", (double)r->tokens / step_s);
    mega_buffer_puts(&m->row, "}\n");
    return write_row(m);
}

mega_status train_monitor_evaluation(trainer *t, int split, double loss, bool is_final)
{
    train_monitor *m = t->monitor;
    const mega_engine_progress *p = mega_engine_progress_get(t->engine);
    if (m->metrics == NULL) return MEGA_OK;
    m->row.size = 0;
    mega_buffer_printf(&m->row, "{\"iteration\": %lld, \"consumed_samples\": %lld", (long long)p->iteration,
                       (long long)p->consumed_samples);
    number(&m->row, split == MEGA_SPLIT_TEST ? "test_loss" : "validation_loss", loss);
    number(&m->row, split == MEGA_SPLIT_TEST ? "test_ppl" : "validation_ppl", exp(fmin(20, loss)));
    mega_buffer_puts(&m->row, is_final ? ", \"final\": true}\n" : "}\n");
    return write_row(m);
}

mega_status train_monitor_flush(trainer *t)
{
    return t->monitor->metrics != NULL ? mega_writer_flush(t->monitor->metrics) : MEGA_OK;
}

mega_status train_monitor_close(trainer *t)
{
    train_monitor *m = t->monitor;
    if (m == NULL) return MEGA_OK;
    const mega_status st = m->metrics != NULL ? mega_writer_close(m->metrics, true) : MEGA_OK;
    mega_buffer_fini(&m->row);
    mega_free(m);
    t->monitor = NULL;
    return st;
}
