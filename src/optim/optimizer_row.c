/* Checks an optimizer's row, and runs its update, element by element, on the threads of the team. */
#include "optimizer_row.h"
#include "megalith/dtype.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* Elements that a thread claims and rounds at a time: 4 kB of floats (bench_optimizer). */
enum { ROW_GRAIN = 1024 };

static int list_length(const char *const *names)
{
    int n = 0;
    while (names != NULL && names[n] != NULL) n++;
    return n;
}

int mega_optimizer_row_states(const mega_optimizer_row *row)
{
    return list_length(row->state);
}

/* The names become tensor names in checkpoints, and names for mega_engine_get_param. */
static mega_status check_states(const mega_optimizer_row *row)
{
    for (int i = 0; i < list_length(row->state); i++) {
        const char *name = row->state[i];
        if (name[0] == '\0' || strcmp(name, "grad") == 0)
            return MEGA_MISTAKE("optimizer %s: state %d is called \"%s\"; expected a name, and another than \"grad\", "
                                "which is the gradient",
                                row->name, i, name);
        for (int k = 0; k < i; k++)
            if (strcmp(name, row->state[k]) == 0)
                return MEGA_MISTAKE("optimizer %s: states %d and %d are both called \"%s\"; give each its own name",
                                    row->name, k, i, name);
    }
    return MEGA_OK;
}

mega_status mega_optimizer_row_check(const mega_optimizer_row *row)
{
    const int options = list_length(row->option), states = list_length(row->state);
    if (row->name == NULL || row->name[0] == '\0' || row->update == NULL)
        return MEGA_MISTAKE("optimizer of the caller: its %s is missing; give it",
                            row->update == NULL ? "function update" : "name");
    if (states > MEGA_OPTIMIZER_STATES)
        return MEGA_MISTAKE("optimizer %s: %d states; expected at most %d", row->name, states, MEGA_OPTIMIZER_STATES);
    if (options > 0 && row->option_default == NULL)
        return MEGA_MISTAKE("optimizer %s: %d options and no option_default; give one for each", row->name, options);
    for (int i = 0; i < options; i++)
        if (!isfinite(row->option_default[i]))
            return MEGA_MISTAKE("optimizer %s: option %s is %g; expected a finite number", row->name, row->option[i],
                                row->option_default[i]);
    return check_states(row);
}

typedef struct row_work {
    const mega_optimizer_row *row;
    const optimizer_work *work;
} row_work;

static void row_part(void *user, int thread, int64_t begin, int64_t end)
{
    const row_work *w = user;
    uint16_t *weight = w->work->weight;
    (void)thread;
    if (weight == NULL) {
        w->row->update(&w->work->call, begin, end);
        return;
    }
    const float *param = w->work->call.param;
    for (int64_t first = begin; first < end; first += ROW_GRAIN) { /* rounded while it is still in the cache */
        const int64_t last = end - first > ROW_GRAIN ? first + ROW_GRAIN : end;
        w->row->update(&w->work->call, first, last);
        mega_half_narrow(weight + first, param + first, last - first, w->work->compute);
    }
}

void mega_optimizer_row_run(const mega_optimizer_row *row, mega_team *team, const optimizer_work *w)
{
    row_work part = {row, w};
    if (w->call.count > 0) mega_team_for(team, w->call.count, ROW_GRAIN, row_part, &part);
}
