/* Does the run fit, and if not, what would. */
#include "megalith/log.h"
#include "train_impl.h"
#include <stdio.h>

void train_memory_table(const mega_engine_memory *m, mega_dtype compute, mega_buffer *out)
{
    const struct {
        const char *what;
        size_t bytes;
    } row[] = {{"weights", m->weights}, {"masters", m->masters}, {"gradients", m->gradients},
               {"moments", m->moments}, {"saved", m->saved},     {"scratch", m->scratch},
               {"inputs", m->inputs},   {"data", m->data},       {"libraries", m->libraries}};
    static const char *const meaning[] = {"parameters in the type that is computed with",
                                          "parameters in full precision, which the optimizer updates",
                                          "of the parameters, in full precision",
                                          "of the optimizer",
                                          "activations kept for the backward",
                                          "everything else that is computed",
                                          "of the programs",
                                          "rows of one step",
                                          "and threads: measured, not planned"};
    char text[32];
    for (int i = 0; i < 9; i++) {
        if (i == 0 && m->weights == 0) continue; /* the masters are the weights */
        mega_buffer_printf(out, "  %-12s%12s  %s%s\n", row[i].what,
                           train_bytes(text, sizeof text, (double)row[i].bytes), meaning[i],
                           i == 0 && compute == MEGA_BF16 ? " (bf16)" : "");
    }
    mega_buffer_printf(out, "  %-12s%12s\n", "total", train_bytes(text, sizeof text, (double)m->total));
}

/* Total of the same run with another micro-batch or recomputation; 0 when it cannot be built. */
static size_t total_with(const trainer *t, int64_t micro_batch, mega_recompute_granularity recompute)
{
    mega_config cfg = *t->cfg; /* a view: nothing of it is released */
    mega_engine_options o;
    mega_engine *e = NULL;
    mega_gpt gpt;
    mega_engine_memory m = {0};
    cfg.micro_batch_size = micro_batch;
    cfg.recompute_granularity = recompute;
    if (recompute == MEGA_RECOMPUTE_FULL && cfg.recompute_method == MEGA_RECOMPUTE_METHOD_NONE) {
        cfg.recompute_method = MEGA_RECOMPUTE_UNIFORM;
        if (cfg.recompute_num_layers == 0) cfg.recompute_num_layers = 1;
    }
    if (mega_gpt_from_config(&gpt, &cfg, t->vocab) != MEGA_OK || mega_engine_options_from_config(&o, &cfg) != MEGA_OK)
        return 0;
    o.team = t->team;
    if (mega_engine_create(&e, mega_engine_gpt(&gpt), &o) != MEGA_OK) return 0;
    mega_engine_memory_get(e, &m);
    mega_engine_destroy(e);
    return m.total;
}

static void suggest(const trainer *t, size_t limit, mega_buffer *out)
{
    const int64_t micro = t->cfg->micro_batch_size;
    const mega_recompute_granularity now = t->cfg->recompute_granularity;
    char text[32];
    bool found = false;
    size_t least = 0;
    for (int full = 0; full < 2; full++) {
        if (full == 1 && now == MEGA_RECOMPUTE_FULL) break;
        for (int64_t b = micro; b >= 1; b = b == 1 ? 0 : b / 2) {
            if (t->cfg->global_batch_size % b != 0 || (b == micro && full == 0)) continue;
            const size_t total = total_with(t, b, full == 1 ? MEGA_RECOMPUTE_FULL : now);
            if (total > 0 && (least == 0 || total < least)) least = total;
            if (total == 0 || total > limit) continue;
            mega_buffer_printf(out, "%s", found ? "; or " : ". It fits with ");
            if (b != micro) mega_buffer_printf(out, "--micro-batch-size %lld", (long long)b);
            if (full == 1) mega_buffer_printf(out, "%s--recompute-granularity full", b != micro ? " " : "");
            mega_buffer_printf(out, " (%s)", train_bytes(text, sizeof text, (double)total));
            found = true;
            break;
        }
    }
    if (found) return;
    mega_buffer_puts(out, ". No micro-batch size makes it fit");
    if (least > 0) mega_buffer_printf(out, " (the least is %s)", train_bytes(text, sizeof text, (double)least));
    mega_buffer_puts(out,
                     "; take a smaller network (--num-layers, --hidden-size), a shorter --seq-length, or a machine "
                     "with more memory");
}

mega_status train_check_memory(const trainer *t)
{
    const char *name = "--memory-limit";
    const size_t limit = t->cfg->memory_limit > 0 ? (size_t)t->cfg->memory_limit : mega_memory_available(&name);
    mega_engine_memory m;
    char need[32], have[32];
    mega_buffer table = {0}, remedy = {0};
    mega_engine_memory_get(t->engine, &m);
    if (m.total <= limit) return MEGA_OK;
    train_memory_table(&m, t->cfg->params_dtype, &table);
    suggest(t, limit, &remedy);
    const mega_status st =
        MEGA_FAIL(MEGA_ERR_MEMORY, "this run needs %s of memory and may use %s (%s)%s. What it needs:\n%s",
                  train_bytes(need, sizeof need, (double)m.total), train_bytes(have, sizeof have, (double)limit), name,
                  remedy.data != NULL ? remedy.data : "", table.data != NULL ? table.data : "");
    mega_buffer_fini(&table);
    mega_buffer_fini(&remedy);
    return st;
}
