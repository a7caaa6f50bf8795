/* What a run needs by class, and whether it fits. */
#include "megalith/log.h"
#include "megalith/memory.h"
#include "train_impl.h"

enum { SCRATCH_ROW = 5, PACKED_ROW = 7 /* of the table */, NEVER = 4 /* no stage of ZeRO */ };

static void say_buckets(const mega_engine_memory *m, mega_buffer *out)
{
    char text[32];
    if (m->gathered > 0)
        mega_buffer_printf(out, "; gathered weights at most %s", train_bytes(text, sizeof text, (double)m->gathered));
    if (m->buckets > 0)
        mega_buffer_printf(out, "; buckets of gradients at most %s",
                           train_bytes(text, sizeof text, (double)m->buckets));
}

void train_memory_table(const mega_engine_memory *m, mega_dtype compute, mega_buffer *out)
{
    const struct {
        const char *what, *meaning;
        size_t bytes;
        int cut_from; /* stage of ZeRO */
    } row[] = {
        {"weights", compute == MEGA_BF16 ? "parameters in bf16, which is computed with" : "parameters", m->weights, 3},
        {"masters",
         m->weights == 0 ? "the parameters: computed with and updated" : "parameters that the optimizer updates",
         m->masters, m->weights == 0 ? 3 : 1},
        {"gradients", "of the parameters, summed over micro-batches", m->gradients, 2},
        {"optimizer", "its moments", m->moments, 1},
        {"saved", "activations kept for the backward", m->saved, NEVER},
        {"scratch", "everything else that is computed", m->scratch, NEVER},
        {"inputs", "and outputs of the programs", m->inputs, NEVER},
        {"packed", "weights as products take them, kept through a step (--no-pack-weights)", m->packed, NEVER},
        {"data", "rows of one step", m->data, NEVER},
        {"libraries", "and threads: measured, not planned", m->libraries, NEVER},
    };
    char text[32];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (i == 0 && m->weights == 0) continue; /* the masters are the weights */
        if (i == PACKED_ROW && m->packed == 0) continue;
        mega_buffer_printf(out, "  %-12s%12s  %s", row[i].what, train_bytes(text, sizeof text, (double)row[i].bytes),
                           row[i].meaning);
        if (i == SCRATCH_ROW && m->head > 0)
            mega_buffer_printf(out, "; a chunk of the head's logits takes %s",
                               train_bytes(text, sizeof text, (double)m->head));
        if (i == SCRATCH_ROW) say_buckets(m, out);
        if (m->zero_stage >= row[i].cut_from) mega_buffer_printf(out, "; 1/%d of it, ZeRO", m->shards);
        mega_buffer_puts(out, "\n");
    }
    mega_buffer_printf(out, "  %-12s%12s\n", "total", train_bytes(text, sizeof text, (double)m->total));
}

size_t train_memory_limit(const trainer *t, const char **name)
{
    *name = "--memory-limit";
    if (t->cfg->memory_limit > 0) return (size_t)t->cfg->memory_limit;
    return mega_memory_available(name) / (size_t)t->cfg->local_world_size; /* they share what this host has */
}

mega_status train_check_memory(const trainer *t, bool is_shown)
{
    const char *name;
    const size_t limit = train_memory_limit(t, &name);
    mega_engine_memory m;
    char need[32], have[32];
    mega_buffer table = {0}, remedy = {0};
    mega_engine_memory_get(t->engine, &m);
    if (m.total <= limit) return MEGA_OK;
    train_bytes(need, sizeof need, (double)m.total);
    train_bytes(have, sizeof have, (double)limit);
    if (is_shown)
        return MEGA_FAIL(MEGA_ERR_MEMORY,
                         "this run needs %s of memory and may use %s (%s); what would make it fit stands in the plan",
                         need, have, name);
    train_memory_table(&m, t->cfg->params_dtype, &table);
    train_suggest(t, limit, &remedy);
    const mega_status st =
        MEGA_FAIL(MEGA_ERR_MEMORY, "this run needs %s of memory and may use %s (%s); %sWhat it needs:\n%s", need, have,
                  name, remedy.data != NULL ? remedy.data : "", table.data != NULL ? table.data : "");
    mega_buffer_fini(&table);
    mega_buffer_fini(&remedy);
    return st;
}
