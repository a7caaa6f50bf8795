/* Mistakes are collected over the whole command line and told together. */
#include "config_impl.h"
#include <stdarg.h>
#include <stdio.h>

const char *mega_config_text(mega_config *cfg, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n < 0 ? NULL : mega_arena_alloc(&cfg->arena, (size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, fmt, again);
    else
        cfg->state->out_of_memory = true;
    va_end(again);
    return text != NULL ? text : "";
}

void mega_config_problem(mega_config *cfg, mega_status status, const char *fmt, ...)
{
    mega_config_state *state = cfg->state;
    if (status == MEGA_ERR_MEMORY) {
        state->out_of_memory = true;
        return;
    }
    char text[1536];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (state->problems == state->problem_capacity) {
        const size_t capacity = state->problem_capacity > 0 ? state->problem_capacity * 2 : 8;
        char **grown = mega_realloc(state->problem, capacity * sizeof *grown);
        if (grown == NULL) {
            state->out_of_memory = true;
            return;
        }
        state->problem = grown;
        state->problem_capacity = capacity;
    }
    char *copy = mega_arena_strdup(&cfg->arena, text);
    if (copy == NULL) {
        state->out_of_memory = true;
        return;
    }
    if (state->problems == 0) state->problem_status = status;
    else if (state->problem_status != status)
        state->problem_status = MEGA_ERR_USAGE;
    state->problem[state->problems++] = copy;
}

mega_status mega_config_problems_report(mega_config *cfg)
{
    mega_config_state *state = cfg->state;
    if (state->out_of_memory) return MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory while reading the command line");
    if (state->problems == 0) return MEGA_OK;
    if (state->problems == 1) return MEGA_FAIL(state->problem_status, "%s", state->problem[0]);
    mega_buffer all = {0};
    mega_buffer_printf(&all, "%zu mistakes:", state->problems);
    for (size_t i = 0; i < state->problems; i++) {
        if (all.size > MEGA_ERROR_BYTES - 700) { /* the record is of fixed size; the first ones are the ones to mend */
            mega_buffer_printf(&all, "\n  … and %zu more", state->problems - i);
            break;
        }
        mega_buffer_printf(&all, "\n  %zu. %s", i + 1, state->problem[i]);
    }
    if (all.failed) state->out_of_memory = true;
    const mega_status st =
        all.failed ? MEGA_FAIL(MEGA_ERR_MEMORY, "options: no memory for the list of %zu mistakes", state->problems)
                   : MEGA_FAIL(state->problem_status, "%s", all.data);
    mega_buffer_fini(&all);
    return st;
}
