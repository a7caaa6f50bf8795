/* Writes, reads and compares DeepSpeed's schedules in run.json. checkpoint_scheduler.h shows their form. */
#include "checkpoint_scheduler.h"
#include <string.h>

static bool reads(mega_scheduler_kind kind, const mega_scheduler_param *p)
{
    return (p->read_by & 1U << kind) != 0;
}

static json_t *value_json(const mega_step_schedule *s, const mega_scheduler_param *p)
{
    const double value = mega_scheduler_param_get(s, p);
    switch (p->kind) {
    case MEGA_SCHEDULER_COUNTS: return json_integer((json_int_t)value);
    case MEGA_SCHEDULER_SWITCH: return json_boolean(value != 0);
    case MEGA_SCHEDULER_WARMUP_KIND: return json_string(mega_warmup_type_name((mega_warmup_type)value));
    default: return json_real(value);
    }
}

json_t *checkpoint_put_scheduler(json_t *scheduler, const mega_step_schedule *s, int64_t steps)
{
    json_t *params = json_object();
    int failed = scheduler == NULL || params == NULL;
    const mega_scheduler_param *p;
    for (size_t i = 0; !failed && (p = mega_scheduler_param_at(i)) != NULL; i++)
        if (reads(s->kind, p)) failed = json_object_set_new(params, p->name, value_json(s, p)) != 0;
    failed = failed || json_object_set_new(scheduler, "last_batch_iteration", json_integer((json_int_t)steps - 1)) != 0;
    if (!failed && s->kind != MEGA_SCHEDULER_NONE)
        failed = json_object_set_new(scheduler, "type", json_string(mega_scheduler_name(s->kind))) != 0 ||
                 json_object_set(scheduler, "params", params) != 0;
    json_decref(params);
    if (!failed) return scheduler;
    json_decref(scheduler);
    return NULL;
}

/* Returns the stored value as a number; false: it is missing or of another type. */
static bool stored_value(const json_t *scheduler, const mega_scheduler_param *p, double *out)
{
    const json_t *value = json_object_get(json_object_get(scheduler, "params"), p->name);
    *out = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    if (p->kind == MEGA_SCHEDULER_SWITCH) return json_is_boolean(value);
    if (p->kind != MEGA_SCHEDULER_WARMUP_KIND) return json_is_number(value);
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    for (mega_warmup_type t = 0; t < MEGA_WARMUP_TYPE_COUNT; t++)
        if (strcmp(text, mega_warmup_type_name(t)) == 0) *out = t;
    return strcmp(text, mega_warmup_type_name((mega_warmup_type)*out)) == 0;
}

/* Returns the kind; MEGA_SCHEDULER_COUNT for a name that is no schedule of this build. */
static mega_scheduler_kind stored_kind(const json_t *scheduler)
{
    const json_t *type = json_object_get(scheduler, "type");
    mega_scheduler_kind kind = MEGA_SCHEDULER_NONE;
    if (type == NULL) return kind;
    const char *text = json_is_string(type) ? json_string_value(type) : "";
    while (kind < MEGA_SCHEDULER_COUNT && strcmp(text, mega_scheduler_name(kind)) != 0) kind++;
    return kind;
}

mega_status checkpoint_read_scheduler(const json_t *scheduler, mega_step_schedule *out)
{
    mega_step_schedule s = {.kind = stored_kind(scheduler)};
    bool is_whole = s.kind < MEGA_SCHEDULER_COUNT;
    const mega_scheduler_param *p;
    for (size_t i = 0; is_whole && (p = mega_scheduler_param_at(i)) != NULL; i++) {
        double value;
        if (!reads(s.kind, p)) continue;
        is_whole = stored_value(scheduler, p, &value);
        if (is_whole) mega_scheduler_param_set(&s, p, value);
    }
    if (!is_whole || mega_step_schedule_check(&s) != MEGA_OK)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "run.json of the checkpoint: its \"scheduler\" is not complete; "
                                          "--override-opt_param-scheduler continues with this command's schedule");
    *out = s;
    return MEGA_OK;
}

void checkpoint_scheduler_differs(mega_buffer *b, const mega_step_schedule *s, const json_t *scheduler)
{
    const mega_scheduler_kind kind = stored_kind(scheduler);
    const mega_scheduler_param *p;
    if (kind != s->kind) {
        mega_buffer_printf(b, "\n  schedule (--deepspeed-schedule): %s here, %s in the checkpoint",
                           mega_scheduler_name(s->kind), mega_scheduler_name(kind));
        return;
    }
    for (size_t i = 0; (p = mega_scheduler_param_at(i)) != NULL; i++) {
        const double here = mega_scheduler_param_get(s, p);
        double there;
        if (!reads(kind, p) || (stored_value(scheduler, p, &there) && there == here)) continue;
        mega_buffer_printf(b, "\n  %s of %s: %.9g here, %.9g in the checkpoint", p->name, mega_scheduler_name(kind),
                           here, there);
    }
}

int64_t checkpoint_scheduler_steps(const json_t *scheduler, int64_t iterations)
{
    const json_t *last = json_object_get(scheduler, "last_batch_iteration");
    return json_is_integer(last) ? (int64_t)json_integer_value(last) + 1 : iterations;
}
