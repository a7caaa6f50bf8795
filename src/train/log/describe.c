/* Writes what `megalith report` shows about a run besides its metrics: command, machine, layout, memory, schedule,
 * options and who set them. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/metrics.h"
#include "megalith/output.h"
#include "megalith/process.h"
#include "plan/pipeline_draw.h"
#include "train_impl.h"
#include <time.h>

/* A picture of more steps than this is megabytes large, and too wide to look at. */
enum { MOST_DRAWN = 4096 };

static void put_key(mega_buffer *b, const char *key, const char *value)
{
    mega_buffer_printf(b, "\"%s\": ", key);
    mega_buffer_json_string(b, value);
    mega_buffer_puts(b, ", ");
}

static void describe_put_number(mega_buffer *b, const char *key, int64_t value)
{
    mega_buffer_printf(b, "\"%s\": %lld, ", key, (long long)value);
}

/* Members of the outermost object have a line each. */
static void describe_put_member(mega_buffer *b, const char *key)
{
    mega_buffer_printf(b, "\n \"%s\": ", key);
}

static void put_text_member(mega_buffer *b, const char *key, const char *value)
{
    describe_put_member(b, key);
    mega_buffer_json_string(b, value);
    mega_buffer_puts(b, ",");
}

static void put_number_member(mega_buffer *b, const char *key, int64_t value)
{
    describe_put_member(b, key);
    mega_buffer_printf(b, "%lld,", (long long)value);
}

static void put_end(mega_buffer *b, const char *key, int64_t value)
{
    mega_buffer_printf(b, "\"%s\": %lld}", key, (long long)value);
}

static void put_machine(const trainer *t, mega_buffer *b)
{
    char host[MEGA_HOST_BYTES], model[128];
    mega_memory_limits limits;
    mega_host_name(host);
    mega_memory_get_limits(&limits);
    describe_put_member(b, "machine");
    mega_buffer_puts(b, "{");
    put_key(b, "host", host);
    put_key(b, "processor", mega_cpu_model(model, sizeof model));
    put_key(b, "instruction_set", mega_isa_name(mega_cpu_isa()));
    describe_put_number(b, "cores", mega_cpu_affinity());
    describe_put_number(b, "ranks", mega_world_size(t->world));
    describe_put_number(b, "ranks_of_host", t->cfg->engine.local_world_size);
    describe_put_number(b, "threads_of_rank", mega_team_size(t->team));
    describe_put_number(b, "peak_flops_of_rank", (int64_t)t->peak.flops);
    put_end(b, "memory_bytes", limits.machine == UINT64_MAX ? 0 : (int64_t)limits.machine);
    mega_buffer_puts(b, ",");
}

static void put_layout(const trainer *t, mega_buffer *b)
{
    const mega_layout *l = mega_engine_layout(t->engine);
    const mega_train_options *cfg = t->cfg;
    describe_put_member(b, "layout");
    mega_buffer_puts(b, "{");
    describe_put_number(b, "tensor", l->tp.size);
    describe_put_number(b, "pipeline", l->pp.size);
    describe_put_number(b, "data", l->dp.size);
    describe_put_number(b, "zero_stage", cfg->engine.graph.zero_stage);
    describe_put_number(b, "micro_batch_size", cfg->engine.optim.micro_batch_size);
    describe_put_number(b, "global_batch_size", cfg->engine.optim.global_batch_size);
    put_end(b, "sequence_length", cfg->seq_length);
    mega_buffer_puts(b, ",");
}

static void put_memory(const trainer *t, mega_buffer *b)
{
    train_memory_class row[TRAIN_MEMORY_CLASSES];
    const char *limit;
    const int rows = train_memory_classes(t, row);
    describe_put_member(b, "memory");
    mega_buffer_puts(b, "{");
    describe_put_number(b, "limit_bytes", (int64_t)train_memory_limit(t, &limit));
    put_key(b, "limit", limit);
    describe_put_number(b, "largest_rank_bytes", t->most_planned);
    if (t->most_held > 0) describe_put_number(b, "held_bytes", t->most_held);
    mega_buffer_puts(b, "\"classes\": [");
    for (int i = 0; i < rows && !row[i].is_beside; i++) {
        mega_buffer_puts(b, i > 0 ? ", {" : "{");
        put_key(b, "class", row[i].name);
        put_key(b, "meaning", row[i].meaning);
        put_end(b, "bytes", (int64_t)row[i].bytes);
    }
    mega_buffer_puts(b, "]},");
}

static mega_status put_schedule(const trainer *t, mega_buffer *b)
{
    const mega_pipeline p = train_pipeline(t);
    mega_buffer svg = {0};
    mega_status st = MEGA_OK;
    describe_put_member(b, "schedule");
    mega_buffer_puts(b, "{");
    if (p.stages > 1 && p.stages * p.chunks * p.micro_batches <= MOST_DRAWN) {
        st = mega_pipeline_draw_svg(&p, &svg);
        if (st == MEGA_OK) put_key(b, "svg", svg.data);
    }
    mega_buffer_fini(&svg);
    describe_put_number(b, "stages", p.stages);
    describe_put_number(b, "chunks", p.chunks);
    put_end(b, "micro_batches", p.micro_batches);
    mega_buffer_puts(b, ",");
    return st;
}

static mega_status put_description(const trainer *t, mega_buffer *b)
{
    const mega_options *o = t->cfg->engine.options;
    char build[MEGA_BUILD_ID_TEXT], began[32], loss[MEGA_LOSS_NAME];
    struct tm utc;
    int64_t padded, logical;
    MEGA_TRY(train_plan_count(t, &padded, &logical));
    gmtime_r(&t->log.described, &utc);
    strftime(began, sizeof began, "%Y-%m-%d %H:%M:%S UTC", &utc);
    mega_build_id(build);
    mega_buffer_puts(b, MEGA_OUTPUT_ABOUT_MARK);
    put_text_member(b, "run", t->run_id);
    put_text_member(b, "command", mega_options_command(o));
    put_text_member(b, "build", build);
    put_text_member(b, "began", began);
    put_text_member(b, "loss", train_loss_key(loss, train_loss_name(t)));
    put_text_member(b, "computes_in", mega_dtype_name(t->cfg->engine.backend.params_dtype));
    put_number_member(b, "parameters", logical);
    put_number_member(b, "first_iteration", t->first_iteration);
    put_number_member(b, "iterations", t->train_iters);
    put_machine(t, b);
    put_layout(t, b);
    put_memory(t, b);
    MEGA_TRY(put_schedule(t, b));
    describe_put_member(b, "options");
    MEGA_TRY(mega_options_origins(t->cfg->engine.options, b));
    mega_buffer_puts(b, "}\n");
    return mega_buffer_check(b, "the description of the run");
}

void train_describe(trainer *t)
{
    const char *metrics = t->cfg->metrics_file;
    mega_buffer b = {0};
    /* A run that only evaluates adds rows to the metrics of the training that it evaluates. */
    if (metrics == NULL || t->cfg->skip_train || !train_is_first(t)) return;
    if (mega_file_exists(metrics) && !mega_file_is_regular(metrics)) return; /* a pipe has no neighbour */
    if (t->log.described == 0) t->log.described = time(NULL);
    char *path = mega_format("%s" MEGA_METRICS_ABOUT, metrics);
    mega_status st = path != NULL ? put_description(t, &b) : MEGA_NO_MEMORY(metrics, "the description of the run");
    if (st == MEGA_OK) st = mega_file_write_atomic(path, b.data, b.size);
    if (st != MEGA_OK)
        mega_warn("%s; the training continues; megalith report will not show the configuration of this run",
                  mega_error_message());
    mega_buffer_fini(&b);
    mega_free(path);
}
