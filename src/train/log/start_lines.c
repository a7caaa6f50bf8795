/* What a run prints before its first step: options, layout, network, memory. In full with --print-options; otherwise
 * what differs from defaults, in at most 40 lines with those of the checkpoint and the data. */
#include "train_impl.h"

static void log_batches(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t *ramp = cfg->engine.optim.rampup_batch_size;
    if (ramp[2] > 0)
        train_line(
            t,
            "will use batch size rampup starting from global batch size %lld to global batch size %lld with batch "
            "size increments %lld over %lld samples.",
            (long long)ramp[0], (long long)cfg->engine.optim.global_batch_size, (long long)ramp[1], (long long)ramp[2]);
    else if (t->io->is_detailed)
        train_line(t, "setting number of micro-batches to constant %lld",
                   (long long)(cfg->engine.optim.global_batch_size /
                               (cfg->engine.optim.micro_batch_size * cfg->engine.data_parallel_size)));
}

static mega_status log_options(const trainer *t)
{
    mega_buffer text = {0};
    mega_status st;
    if (t->io->is_detailed) {
        st = train_options_table(t, &text);
    } else {
        mega_buffer_puts(&text, "options that differ from their defaults (--print-options shows all):\n");
        st = mega_options_differences(t->cfg->engine.options, &text);
    }
    if (st == MEGA_OK) (t->cfg->print_options ? train_line_always : train_lines)(t, text.data);
    mega_buffer_fini(&text);
    return st;
}

mega_status train_log_start(const trainer *t)
{
    train_line(t,
               "using world size: %lld, data-parallel-size: %lld, tensor-model-parallel size: %lld, "
               "pipeline-model-parallel size: %lld ",
               (long long)t->cfg->engine.world_size, (long long)t->cfg->engine.data_parallel_size,
               (long long)t->cfg->engine.comm.tensor_model_parallel_size,
               (long long)t->cfg->engine.comm.pipeline_model_parallel_size);
    MEGA_TRY(log_options(t));
    log_batches(t);
    train_log_tokenizer(t);
    if (t->io->is_detailed) train_line(t, "> setting random seeds to %lld ...", (long long)t->cfg->engine.seed);
    train_datetime(t, "after megatron is initialized");
    return MEGA_OK;
}

/* ---- the network and its memory ---- */

/* In one line: the total, what it may be, and the largest classes. */
static void start_put_memory(const trainer *t, mega_buffer *out)
{
    enum { SHOWN = 4 };
    train_memory_class row[TRAIN_MEMORY_CLASSES];
    const char *limit_name;
    char text[32];
    const int rows = train_memory_classes(t, row);
    mega_buffer_printf(out, "memory       %s", train_bytes(text, sizeof text, (double)train_memory_total(t)));
    const double limit = (double)train_memory_limit(t, &limit_name);
    mega_buffer_printf(out, " of %s (%s)", train_bytes(text, sizeof text, limit), limit_name);
    for (int n = 0; n < SHOWN; n++) {
        int most = 0;
        for (int i = 1; i < rows; i++)
            if (!row[i].is_beside && row[i].bytes > row[most].bytes) most = i;
        if (row[most].bytes == 0) break;
        mega_buffer_printf(out, "%s%s %s", n == 0 ? ": " : ", ", row[most].name,
                           train_bytes(text, sizeof text, (double)row[most].bytes));
        row[most].bytes = 0;
    }
    mega_buffer_puts(out, ", …\n");
}

mega_status train_log_model(const trainer *t)
{
    mega_buffer text = {0};
    t->task->describe(&t->network, &text);
    start_put_memory(t, &text);
    const mega_status st = mega_buffer_check(&text, "the description of the model");
    if (st == MEGA_OK) train_lines(t, text.data);
    mega_buffer_fini(&text);
    return st;
}
