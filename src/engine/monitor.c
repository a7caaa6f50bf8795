/* Monitors and profilers of an engine (megalith/monitor_options.h): what a step reports to them, and what they log. All
 * but the counts of exchanges are of the first rank. They never end a run. */
#include "engine_calls.h"
#include "engine_step.h"
#include "engine_watch.h"
#include "megalith/comm_log.h"
#include "megalith/file.h"
#include "megalith/flops_report.h"
#include "megalith/log.h"
#include "megalith/output.h"
#include "megalith/step_monitor.h"

#include <string.h>

struct engine_monitor {
    mega_monitor_options monitor; /* a copy */
    mega_step_monitor *steps;     /* NULL: not the first rank */
    mega_step_times micro;        /* of the micro-batch that is not logged yet */
    double earlier_s;             /* seconds of sums in the micro-batches of this step before it */
    mega_profile *profile;        /* of the flops profiler; NULL: it is not recording */
    int64_t micro_batches;        /* of the step on this rank */
    bool has_flops;               /* its report was written */
    bool has_told;                /* the caller has had exchanges logged: mega_engine_log_exchanges */
};

static bool wants_something(const mega_monitor_options *o)
{
    return o->monitor_tensorboard || o->monitor_csv || o->monitor_wandb || o->steps_per_print > 0 ||
           o->wall_clock_breakdown || o->memory_breakdown || o->dump_state || o->flops_profiler || o->comms_logger;
}

/* Logs a text of several lines. */
static void log_lines(char *text)
{
    for (char *rest = text, *one; rest != NULL && (one = strsep(&rest, "\n")) != NULL;)
        if (one[0] != '\0' || (rest != NULL && rest[0] != '\0')) mega_info("%s", one);
}

static int64_t planned_bytes(const mega_engine *e)
{
    mega_engine_memory m;
    mega_engine_memory_get(e, &m);
    return (int64_t)m.total;
}

/* ---- the start ---- */

static void dump_state(const mega_engine *e)
{
    const mega_layout *l = e->layout;
    mega_buffer b = {0};
    if (e->options.given != NULL) (void)mega_options_dump_arguments(e->options.given, &b);
    mega_buffer_printf(&b, "engine: %d ranks (tensor %d, pipeline %d, data %d), ZeRO stage %d, %s\n", l->world.size,
                       l->tp.size, l->pp.size, l->dp.size, mega_params_zero_stage(e->params),
                       mega_dtype_name(e->options.compute));
    mega_buffer_printf(&b, "engine: step %lld, samples %lld, batch size %lld = %lld x %lld micro-batches x %d ranks\n",
                       (long long)e->progress.iteration, (long long)e->progress.consumed_samples,
                       (long long)mega_engine_train_batch_size(e), (long long)e->options.micro_batch,
                       (long long)mega_engine_gradient_accumulation_steps(e), l->dp.size);
    mega_buffer_printf(&b, "engine: %d parameter tensors of this rank in %d buckets, %lld bytes planned\n",
                       mega_params_count(e->params), mega_params_num_buckets(e->params), (long long)planned_bytes(e));
    if (!b.failed) log_lines(b.data);
    mega_buffer_fini(&b);
}

static mega_status start_comms_logger(const mega_engine *e, const engine_monitor *m)
{
    const mega_list ops = m->monitor.comms_logger_ops;
    const bool is_all = m->monitor.comms_logger_all || ops.count == 0;
    const mega_comm_log_options o = {.verbose = m->monitor.comms_logger_verbose,
                                     .named = m->monitor.comms_logger_debug,
                                     .op = is_all ? NULL : ops.item,
                                     .ops = is_all ? 0 : ops.count};
    if (!m->monitor.comms_logger) return MEGA_OK;
    if (is_all && !m->monitor.comms_logger_all)
        mega_warn("comms logger: prof_all is off and prof_ops names nothing: all exchanges are counted");
    return mega_comm_log_start(e->options.world, &o);
}

static mega_status open_steps(const mega_engine *e, engine_monitor *m)
{
    mega_buffer config = {0};
    mega_status st = e->options.given != NULL ? mega_options_to_json(e->options.given, &config) : MEGA_OK;
    if (st == MEGA_OK) st = mega_step_monitor_create(&m->monitor, config.data, &m->steps);
    mega_buffer_fini(&config);
    return st;
}

static void open_monitor(mega_engine *e)
{
    engine_monitor *m = e->watch.monitor = mega_calloc(1, sizeof *m);
    mega_status st = m != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "monitors: no memory");
    if (st == MEGA_OK) m->monitor = *e->options.monitor;
    if (st == MEGA_OK) st = start_comms_logger(e, m);
    if (st == MEGA_OK && e->layout->world.rank == 0) st = open_steps(e, m);
    if (st != MEGA_OK) mega_warn("%s; the training continues without monitors", mega_error_message());
    if (st == MEGA_OK && m->monitor.dump_state && e->layout->world.rank == 0) dump_state(e);
    mega_error_clear();
}

/* ---- the flops profiler ---- */

static bool flops_is_due(const mega_engine *e)
{
    const engine_monitor *m = e->watch.monitor;
    return m->steps != NULL && m->monitor.flops_profiler && !m->has_flops &&
           e->progress.iteration == m->monitor.flops_profiler_step;
}

/* Enough for one step: each instruction, and a wait for each. */
static int64_t events_of_step(const mega_engine *e)
{
    int64_t events = 2 * (int64_t)mega_update_num_instructions(e->update) + 16;
    for (int c = 0; c < e->programs.chunks; c++) {
        const mega_program *p = e->programs.chunk[c].train;
        events += 2 * e->watch.monitor->micro_batches *
                  (mega_program_num_instructions(p, false) + mega_program_num_instructions(p, true) + 2);
    }
    return events;
}

static void flops_begin(mega_engine *e)
{
    engine_monitor *m = e->watch.monitor;
    if (!flops_is_due(e)) return;
    m->has_flops = true;
    if (e->watch.profile != NULL) {
        mega_warn("flops profiler: step %lld is being profiled for another report, and has none of this one; give "
                  "another profile_step",
                  (long long)e->progress.iteration + 1);
        return;
    }
    if (mega_profile_create(events_of_step(e), &m->profile) == MEGA_OK) {
        engine_profile(e, m->profile);
        return;
    }
    mega_warn("flops profiler: %s; the training continues without its report", mega_error_message());
    mega_error_clear();
}

/* Rows of the report: first one for each scope, then those of parameters. */
typedef struct flops_rows {
    mega_flops_row *row;
    int count, capacity;
    double micro_batches;
} flops_rows;

static void count_instruction(void *user, const mega_profile_item *x)
{
    flops_rows *r = user;
    if (strcmp(x->phase, "forward") != 0) return;
    int k = 0;
    while (k < r->count && strcmp(r->row[k].path, x->scope) != 0) k++;
    if (k == r->capacity) return;
    if (k == r->count) r->row[r->count++] = (mega_flops_row){.path = x->scope};
    r->row[k].flops += x->flops / r->micro_batches;
    r->row[k].seconds += x->seconds / r->micro_batches;
}

/* Returns whether a module has the name or is below it. */
static bool is_within(const char *scope, const char *module)
{
    const size_t n = strlen(module);
    return strncmp(scope, module, n) == 0 && (scope[n] == '\0' || scope[n] == '.');
}

/* The module of a parameter is its name without the last part, and without what precedes the scopes of the program:
 * "h.0.ln_1" of "transformer.h.0.ln_1.weight". `text` receives it. */
static const char *module_of(const char *name, const flops_rows *scopes, char *text)
{
    const char *dot = strrchr(name, '.');
    const size_t n = dot != NULL ? (size_t)(dot - name) : 0;
    memcpy(text, name, n);
    text[n] = '\0';
    for (const char *part = text; part != NULL; part = strchr(part, '.')) {
        part += *part == '.';
        for (int k = 0; k < scopes->count; k++)
            if (is_within(scopes->row[k].path, part)) return part;
    }
    return text;
}

static mega_status flops_collect(const mega_engine *e, flops_rows *r, mega_arena *arena)
{
    const int params = mega_params_count(e->params);
    const int most = params + (int)events_of_step(e);
    r->capacity = most;
    r->row = mega_arena_alloc(arena, (size_t)most * sizeof *r->row);
    if (r->row == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for its report");
    mega_profile_each(e->watch.monitor->profile, count_instruction, r);
    const flops_rows scopes = *r;
    for (int i = 0; i < params && r->count < r->capacity; i++) {
        const mega_param *p = mega_params_get(e->params, i);
        char *text = mega_arena_alloc(arena, strlen(p->name) + 1);
        if (text == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for its report");
        r->row[r->count++] = (mega_flops_row){.path = module_of(p->name, &scopes, text), .params = (double)p->count};
    }
    return MEGA_OK;
}

static double params_of_model(const mega_engine *e)
{
    const mega_params *whole = mega_model_parts_params(e->model.parts);
    double sum = 0;
    for (int i = 0; i < mega_params_count(whole); i++) {
        const mega_param *p = mega_params_get(whole, i);
        sum += (double)p->true_shape[0] * (double)(p->num_dims > 1 ? p->true_shape[1] : 1);
    }
    return sum;
}

static mega_status flops_write(const mega_engine *e, const mega_step_result *s, double seconds, mega_buffer *out)
{
    const mega_layout *l = e->layout;
    const double micro_batches = (double)s->micro_batches;
    flops_rows rows = {.micro_batches = micro_batches};
    mega_arena arena = {0};
    mega_status st = flops_collect(e, &rows, &arena);
    const mega_flops_report r = {.step = e->progress.iteration,
                                 .ranks = l->world.size,
                                 .data_parallel = l->dp.size,
                                 .model_parallel = (int64_t)l->tp.size * l->pp.size,
                                 .micro_batch = e->options.micro_batch,
                                 .samples = s->samples,
                                 .params_of_model = params_of_model(e),
                                 .forward_s = s->forward_s / micro_batches,
                                 .backward_s = (s->backward_s + s->reduce_s) / micro_batches,
                                 .update_s = s->optimizer_s,
                                 .step_s = seconds,
                                 .micro_batches = micro_batches,
                                 .row = rows.row,
                                 .rows = rows.count};
    if (st == MEGA_OK) st = mega_flops_report_write(&r, &e->watch.monitor->monitor, out);
    mega_arena_fini(&arena);
    return st;
}

static mega_status flops_put_out(const mega_engine *e, mega_buffer *text)
{
    const char *path = e->watch.monitor->monitor.flops_profiler_output;
    const bool may_replace = e->options.given != NULL && mega_options_is_given(e->options.given, "overwrite");
    if (path == NULL) {
        log_lines(text->data);
        return MEGA_OK;
    }
    if (!may_replace && !mega_output_is_free(path, MEGA_OUTPUT_FLOPS))
        return MEGA_MISTAKE("%s exists and is not %s; name another file", path, mega_output_name(MEGA_OUTPUT_FLOPS));
    MEGA_TRY(mega_folder_create_for(path));
    MEGA_TRY(mega_file_write_atomic(path, text->data, text->size));
    mega_info("flops profiler: %s", path);
    return MEGA_OK;
}

static void flops_end(mega_engine *e, const mega_step_result *s, double seconds)
{
    engine_monitor *m = e->watch.monitor;
    mega_buffer text = {0};
    if (m->profile == NULL) return;
    engine_profile(e, NULL);
    mega_status st = flops_write(e, s, seconds, &text);
    if (st == MEGA_OK) st = flops_put_out(e, &text);
    if (st != MEGA_OK) mega_warn("flops profiler: %s; the training continues", mega_error_message());
    mega_error_clear();
    mega_buffer_fini(&text);
    mega_profile_destroy(m->profile);
    m->profile = NULL;
}

/* ---- steps ---- */

static mega_step_seen seen(const mega_engine *e)
{
    const mega_optimizer_options *o = &e->options.optimizer;
    mega_step_seen s = {.step = e->progress.iteration,
                        .skipped = e->progress.skipped,
                        .samples = e->progress.consumed_samples,
                        .lr = mega_engine_lr(e),
                        .loss_scale = engine_scale(e),
                        .is_scaled = e->options.compute == MEGA_F16,
                        .planned_bytes = planned_bytes(e)};
    double beta1 = o->beta1, beta2 = o->beta2;
    (void)mega_step_schedule_betas(&e->options.step_schedule, e->progress.schedule_steps, &beta1, &beta2);
    const bool is_sgd = o->row == NULL && o->kind == MEGA_OPTIMIZER_SGD;
    s.momenta = is_sgd ? 1 : 2;
    s.momentum[0] = is_sgd ? o->momentum : beta1;
    s.momentum[1] = beta2;
    return s;
}

/* Monitors are opened with the first step or value, so that a plan or a dry run writes nothing. */
bool engine_monitor_is_open(mega_engine *e)
{
    if (e->watch.monitor != NULL) return true;
    if (e->options.monitor == NULL || !wants_something(e->options.monitor)) return false;
    open_monitor(e);
    if (e->watch.monitor != NULL && e->watch.monitor->steps != NULL) {
        const mega_step_seen s = seen(e);
        mega_step_monitor_begin(e->watch.monitor->steps, &s);
    }
    return e->watch.monitor != NULL;
}

void engine_monitor_begin(mega_engine *e, int64_t micro_batches)
{
    if (!engine_monitor_is_open(e)) return;
    e->watch.monitor->micro = (mega_step_times){0};
    e->watch.monitor->earlier_s = 0;
    e->watch.monitor->micro_batches = micro_batches;
    flops_begin(e);
}

void engine_monitor_memory(const mega_engine *e, const char *where)
{
    if (e->watch.monitor != NULL && e->watch.monitor->monitor.memory_breakdown)
        mega_step_monitor_memory(e->watch.monitor->steps, where, planned_bytes(e));
}

void engine_monitor_pass(mega_engine *e, bool is_forward, bool is_last, const mega_step_times *pass)
{
    engine_monitor *m = e->watch.monitor;
    /* The passes of a stage are not those of one micro-batch. */
    const bool has_whole_model = mega_engine_is_first_stage(e) && mega_engine_is_last_stage(e);
    if (m == NULL || !has_whole_model) return;
    if (is_forward) {
        m->micro = *pass;
        return;
    }
    m->micro.backward_s = pass->backward_s;
    m->micro.reduce_s = pass->reduce_s;
    if (is_last) return;
    m->earlier_s += pass->reduce_s;
    mega_step_monitor_micro_batch(m->steps, &m->micro);
}

void engine_monitor_step(mega_engine *e, const mega_step_result *r, double seconds)
{
    engine_monitor *m = e->watch.monitor;
    if (m == NULL) return;
    if (m->steps != NULL) {
        mega_step_seen s = seen(e);
        s.batch = r->samples;
        s.micro_batches = r->micro_batches;
        s.has_loss = true;
        s.loss = r->loss;
        s.seconds = seconds;
        s.times = (mega_step_times){r->forward_s, r->backward_s, r->reduce_s, r->optimizer_s};
        m->micro.reduce_s = r->reduce_s - m->earlier_s;
        m->micro.update_s = r->optimizer_s;
        if (e->layout->pp.size == 1) mega_step_monitor_micro_batch(m->steps, &m->micro);
        mega_step_monitor_step(m->steps, &s);
    }
    flops_end(e, r, seconds);
}

void engine_monitor_event(mega_engine *e, const char *tag, double value)
{
    if (engine_monitor_is_open(e))
        mega_step_monitor_event(e->watch.monitor->steps, tag, value, e->progress.consumed_samples);
}

mega_status mega_engine_write_event(mega_engine *e, const char *name, double value)
{
    static const char call[] = "mega_engine_write_event";
    MEGA_TRY(engine_check_free(e, call));
    MEGA_TRY(engine_check_allocated(e, call));
    MEGA_TRY(engine_check_given(e, call, "name", name));
    if (name[0] == '\0' || strpbrk(name, "\n\r,\"") != NULL)
        return MEGA_MISTAKE("%s: name \"%s\"; expected a name without commas, quotation marks and line ends", call,
                            name);
    engine_monitor_event(e, name, value);
    return MEGA_OK;
}

static mega_status check_counts(const mega_engine *e, const char *call)
{
    MEGA_TRY(engine_check_given(e, call, "e", e));
    MEGA_TRY(engine_check_allocated(e, call));
    if (e->watch.monitor != NULL && e->watch.monitor->monitor.comms_logger) return MEGA_OK;
    return MEGA_MISTAKE("%s: exchanges are not counted; give \"comms_logger\": {\"enabled\": true}", call);
}

static mega_status log_exchanges(mega_engine *e, bool stragglers)
{
    static const char call[] = "mega_engine_log_exchanges";
    mega_buffer table = {0};
    MEGA_TRY(engine_begin_call(e, check_counts(e, call)));
    double least[2] = {stragglers, -(double)stragglers};
    MEGA_TRY(mega_comm_all_reduce(e->layout->world.comm, call, least, 2, MEGA_F64, MEGA_REDUCE_MIN));
    if (least[0] != -least[1])
        return MEGA_MISTAKE("%s: stragglers is true on some ranks and false on others; give all the same", call);
    mega_comm_log_table(e->options.world, &table);
    mega_comm *const group[] = {e->layout->world.comm, e->layout->dp.comm, e->layout->tp.comm, e->layout->pp.comm};
    mega_status st = MEGA_OK;
    if (stragglers) st = mega_comm_log_stragglers(e->options.world, group, (int)MEGA_COUNT(group), &table);
    if (st == MEGA_OK && e->layout->world.rank == 0 && table.size > 0 && !table.failed) log_lines(table.data);
    mega_buffer_fini(&table);
    e->watch.monitor->has_told = true;
    return st;
}

mega_status mega_engine_log_exchanges(mega_engine *e, bool stragglers)
{
    MEGA_TRY(engine_enter(e, "mega_engine_log_exchanges"));
    return engine_leave(e, log_exchanges(e, stragglers));
}

void engine_monitor_close(mega_engine *e)
{
    engine_monitor *m = e->watch.monitor;
    mega_buffer table = {0};
    if (m == NULL) return;
    if (m->monitor.comms_logger) {
        if (!m->has_told) mega_comm_log_table(e->options.world, &table);
        if (e->layout->world.rank == 0 && table.size > 0 && !table.failed) log_lines(table.data);
        mega_comm_log_stop(e->options.world);
    }
    mega_buffer_fini(&table);
    if (m->steps != NULL && m->monitor.flops_profiler && !m->has_flops)
        mega_warn("flops profiler: there is no report: it profiles the step after step %lld, and this engine ran up to "
                  "step %lld; profile_step (--flops-profiler-step) says which",
                  (long long)m->monitor.flops_profiler_step, (long long)e->progress.iteration);
    mega_step_monitor_destroy(m->steps);
    mega_profile_destroy(m->profile);
    mega_free(m);
    e->watch.monitor = NULL;
}
