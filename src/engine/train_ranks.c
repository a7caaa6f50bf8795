/* What ranks have to do alike, and what one of them does for all. */
#include "train_impl.h"
#include <stdlib.h>

bool train_is_first(const trainer *t)
{
    return mega_world_rank(t->world) == 0;
}

mega_status train_agree(const trainer *t, mega_status st)
{
    return t->world == NULL ? st : mega_comm_agree(mega_world_comm(t->world), st);
}

mega_status train_ask_ranks(trainer *t, double minutes, bool *late)
{
    const mega_config *cfg = t->cfg;
    int32_t word[2] = {t->io->stop != NULL ? (int32_t)*t->io->stop : 0, 0};
    word[1] = train_is_first(t) && cfg->exit_duration_in_mins > 0 && minutes > (double)cfg->exit_duration_in_mins;
    if (t->world != NULL)
        MEGA_TRY(mega_comm_all_reduce(mega_world_comm(t->world), "signals", word, 2, MEGA_I32, MEGA_REDUCE_MAX));
    t->stop = word[0];
    *late = word[1] != 0;
    return MEGA_OK;
}

/* Megatron's line for each rank that holds other parameters. */
mega_status train_say_parameters(const trainer *t)
{
    const mega_axis *tp = &mega_engine_layout(t->engine)->tp;
    int64_t mine = mega_params_local_count(mega_engine_params(t->engine));
    int64_t *count = mega_malloc((size_t)tp->size * sizeof *count);
    if (count == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "training: no memory to count parameters");
    const mega_status st = mega_comm_all_gather(tp->comm, "number of parameters", count, &mine, 1, MEGA_I64);
    for (int i = 0; i < tp->size && st == MEGA_OK; i++)
        train_line(t, " > number of parameters on (tensor, pipeline) model parallel rank (%d, 0): %lld", i,
                   (long long)count[i]);
    mega_free(count);
    return st;
}
