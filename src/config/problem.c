/* Collects the mistakes of the whole command line, so that they are reported together. */
#include "config_impl.h"
#include "megalith/assert.h"
#include "megalith/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *mega_options_text(mega_options *o, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : mega_arena_alloc(&o->arena, (size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, fmt, again);
    else
        o->out_of_memory = true;
    va_end(again);
    return text != NULL ? text : "";
}

static bool reserve_problem(mega_options *state)
{
    return mega_array_reserve(&state->problem, &state->problem_capacity, (int64_t)state->problems + 1,
                              sizeof *state->problem);
}

static bool is_known(const mega_options *state, const char *text)
{
    for (size_t i = 0; i < state->problems; i++)
        if (strcmp(state->problem[i].text, text) == 0) return true;
    return false;
}

static void add_problem(mega_options *o, mega_status status, const char *text, const char *where)
{
    mega_options *state = o;
    /* avoid duplicates: the rules are checked again after a checkpoint has supplied the shape */
    if (is_known(state, text)) return;
    if (!reserve_problem(state)) {
        state->out_of_memory = true;
        return;
    }
    const option_problem added = {mega_arena_strdup(&o->arena, text), mega_arena_strdup(&o->arena, where)};
    if (added.text == NULL || added.where == NULL) {
        state->out_of_memory = true;
        return;
    }
    if (state->problems == 0) state->problem_status = status;
    else if (state->problem_status != status)
        state->problem_status = MEGA_ERR_USAGE;
    state->problem[state->problems++] = added;
}

void mega_options_problem_at(mega_options *o, mega_status status, const char *file, int line, const char *fmt, ...)
{
    char text[1536], where[96];
    va_list args;
    if (status == MEGA_ERR_MEMORY) {
        o->out_of_memory = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *base = strrchr(file, '/');
    snprintf(where, sizeof where, "%s:%d", base != NULL ? base + 1 : file, line);
    add_problem(o, status, text, where);
}

void mega_options_warn(mega_options *o, const char *fmt, ...)
{
    char text[1536];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (size_t i = 0; i < o->warnings; i++)
        if (strcmp(o->warned[i], text) == 0) return;
    if (mega_array_reserve(&o->warned, &o->warned_capacity, (int64_t)o->warnings + 1, sizeof *o->warned))
        o->warned[o->warnings++] = mega_options_text(o, "%s", text);
    mega_warn("%s", text);
}

void options_problem_from_error(mega_options *o)
{
    mega_error_record found;
    mega_error_get(&found);
    if (found.code == MEGA_ERR_MEMORY) o->out_of_memory = true;
    else
        add_problem(o, found.code, found.text, found.where);
}

void mega_options_add_mistake(mega_options *o, mega_status st)
{
    mega_error_record found;
    mega_error_get(&found);
    if (st != MEGA_OK) add_problem(o, st, found.text, found.where); /* also for a run that needs too much memory */
}

bool mega_options_is_faulty(const mega_options *o, unsigned topics)
{
    return (o->faulty & topics) != 0;
}

void mega_options_set_faulty(mega_options *o, unsigned topics)
{
    o->faulty |= topics;
}

size_t mega_options_problems(const mega_options *o)
{
    return o->problems;
}

/* Appends all mistakes. With MEGA_CHECK set, each line has the source location of its rule; the error record itself
 * has the location of the first. */
static void list_problems(const mega_options *state, mega_buffer *all)
{
    const bool shows_where = mega_check_level() > 0;
    mega_buffer_printf(all, "%zu mistakes:", state->problems);
    for (size_t i = 0; i < state->problems; i++) {
        const option_problem *p = &state->problem[i];
        /* the record has a fixed size; the first mistakes are the ones to fix first */
        if (all->size > MEGA_ERROR_BYTES - 700) {
            mega_buffer_printf(all, "\n  … and %zu more", state->problems - i);
            break;
        }
        mega_buffer_printf(all, "\n  %zu. %s", i + 1, p->text);
        if (shows_where) mega_buffer_printf(all, " (at %s)", p->where);
    }
}

static mega_status report_text(const mega_options *state, const char *text)
{
    mega_error_record record;
    (void)MEGA_FAIL(state->problem_status, "%s", text);
    mega_error_get(&record);
    snprintf(record.where, sizeof record.where, "%s", state->problem[0].where);
    return mega_error_restore(&record);
}

mega_status mega_options_report(mega_options *o)
{
    mega_options *state = o;
    if (state->out_of_memory) return MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory while reading the command line");
    if (state->problems == 0) return MEGA_OK;
    if (state->problems == 1) return report_text(state, state->problem[0].text);
    mega_buffer all = {0};
    list_problems(state, &all);
    if (all.failed) state->out_of_memory = true;
    const mega_status st =
        all.failed ? MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory for the list of %zu mistakes", state->problems)
                   : report_text(state, all.data);
    mega_buffer_fini(&all);
    return st;
}

/* Returns whether the option was given on the command line, has no effect, and is allowed with this number of ranks. */
static bool is_without_effect(const mega_options *o, size_t i)
{
    if (o->entry[i].source != MEGA_SET_BY_COMMAND_LINE) return false;
    const mega_option_row *row = row_at(o, i);
    return row->answer == MEGA_ANSWER_NO_EFFECT && mega_option_ranks(o, row) <= 1;
}

static const char *why_without_effect(mega_options *o, const mega_option_row *row)
{
    return row->alone != NULL ? mega_options_text(o, "--%s is 1", row->alone) : row->remark;
}

void options_note_not_on_gpu(mega_options *o, const mega_option_row *row, const char *given, const char *text)
{
    const bool asks_not = text != NULL && strchr("fFnN0", text[0]) != NULL; /* false, no, none, 0 */
    if (!row->not_on_gpu || asks_not) return;
    o->not_on_gpu = o->not_on_gpu != NULL ? mega_options_text(o, "%s, %s", o->not_on_gpu, given) : given;
}

void options_note_without_effect(mega_options *o)
{
    const size_t count = o->table.count;
    for (size_t i = 0; i < count; i++) {
        if (!is_without_effect(o, i)) continue;
        const char *reason = why_without_effect(o, row_at(o, i));
        bool told = false;
        mega_buffer names = {0};
        for (size_t j = 0; j < count; j++) {
            if (!is_without_effect(o, j) || strcmp(why_without_effect(o, row_at(o, j)), reason) != 0) continue;
            if (j < i) told = true;
            mega_buffer_printf(&names, "%s%s", names.size > 0 ? ", " : "", o->entry[j].typed);
        }
        if (names.failed) o->out_of_memory = true;
        if (!told && names.data != NULL) mega_warn("no effect here: %s: %s", names.data, reason);
        mega_buffer_fini(&names);
    }
}
