/* What one rank does for all ranks, and questions that all ranks answer together. */
#include "megalith/record.h"
#include "train_impl.h"
#include <stdio.h>

enum { SHOWN = 4 }; /* ranks whose parameters are counted in the log */

bool train_is_first(const trainer *t)
{
    return mega_world_rank(t->world) == 0;
}

mega_status train_agree(const trainer *t, mega_status st)
{
    return t->world == NULL ? st : mega_comm_agree(mega_world_comm(t->world), st);
}

void train_record_phase(const trainer *t, const char *phase)
{
    mega_record_long_phase(mega_world_record(t->world), phase);
}

mega_status train_poll_ranks(trainer *t, double minutes, bool *late)
{
    const mega_train_options *cfg = t->cfg;
    int32_t word[3] = {t->io->stop != NULL ? (int32_t)*t->io->stop : 0, 0, mega_lock_is_lost(t->saves.lock)};
    word[1] = train_is_first(t) && cfg->exit_duration_in_mins > 0 && minutes > (double)cfg->exit_duration_in_mins;
    if (t->world != NULL)
        MEGA_TRY(mega_comm_all_reduce(mega_world_comm(t->world), "signals", word, 3, MEGA_I32, MEGA_REDUCE_MAX));
    t->stop = word[0];
    *late = word[1] != 0;
    return word[2] != 0 ? train_agree(t, mega_lock_check(t->saves.lock)) : MEGA_OK;
}

mega_status train_check_stop(trainer *t, const char *what)
{
    bool late;
    MEGA_TRY(train_poll_ranks(t, 0, &late));
    if (t->stop == 0) return MEGA_OK;
    return train_agree(t, MEGA_FAIL(MEGA_ERR_INTERRUPTED, "%s was interrupted by a signal", what));
}

int64_t train_frozen_count(const trainer *t)
{
    const mega_params *whole = mega_engine_whole(t->engine);
    int64_t frozen = 0;
    for (int i = 0; i < mega_params_count(whole); i++) {
        const mega_param *p = mega_params_get(whole, i);
        if (p->is_frozen) frozen += p->true_shape[0] * (p->num_dims > 1 ? p->true_shape[1] : 1);
    }
    return frozen;
}

static void log_frozen(const trainer *t)
{
    char a[32], b[32];
    const int64_t frozen = train_frozen_count(t), all = mega_params_logical_count(mega_engine_whole(t->engine));
    if (frozen > 0)
        train_line(t, " > trained parameters: %s of %s; the others are frozen",
                   train_grouped(a, sizeof a, all - frozen), train_grouped(b, sizeof b, all));
}

/* Prints Megatron's line for each rank that has different parameters. */
mega_status train_log_parameters(const trainer *t)
{
    const mega_axis *tp = &mega_engine_layout(t->engine)->tp, *pp = &mega_engine_layout(t->engine)->pp;
    const int64_t mine = mega_params_local_count(mega_engine_params(t->engine));
    int64_t *all = mega_malloc((size_t)(tp->size * pp->size + tp->size) * sizeof *all);
    if (all == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "training: no memory to count parameters");
    int64_t *stage = all + (ptrdiff_t)tp->size * pp->size;
    mega_status st = mega_comm_all_gather(tp->comm, "number of parameters", stage, &mine, 1, MEGA_I64);
    if (st == MEGA_OK) st = mega_comm_all_gather(pp->comm, "number of parameters", all, stage, tp->size, MEGA_I64);
    const int count = tp->size * pp->size, shown = t->io->is_detailed || count <= SHOWN ? count : SHOWN;
    for (int i = 0; i < shown && st == MEGA_OK; i++) {
        char line[160];
        snprintf(line, sizeof line, " > number of parameters on (tensor, pipeline) model parallel rank (%d, %d): %lld",
                 i % tp->size, i / tp->size, (long long)all[i]);
        (t->cfg->print_options ? train_line_always : train_lines)(t, line);
    }
    if (shown < count && st == MEGA_OK)
        train_line(t, " > and of %d more ranks (--print-options lists them)", count - shown);
    if (st == MEGA_OK) log_frozen(t);
    mega_free(all);
    return st;
}
