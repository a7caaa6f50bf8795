/* Finds how the ranks of a run could divide it so that it fits: ZeRO stages, tensor and pipeline parallelism, and full
 * recomputation with them. Plans each way to test it. */
#include "megalith/layers.h"
#include "train_impl.h"

enum { SHOWN = 3, MOST_TENSOR = 8 };

typedef struct division {
    int64_t zero, tp, pp;
    bool recomputes;
} division;

/* Returns the most that a rank needs, 0 if this is no way that this network and these ranks allow. */
static size_t rank_bytes_of(const trainer *t, const division *d, size_t limit)
{
    mega_train_options cfg = *t->cfg; /* a shallow copy: nothing in it is freed */
    train_whole_run run = {.stage = 0};
    cfg.engine.graph.zero_stage = d->zero;
    cfg.engine.comm.tensor_model_parallel_size = d->tp;
    cfg.engine.comm.pipeline_model_parallel_size = d->pp;
    cfg.engine.data_parallel_size = cfg.engine.world_size / d->tp / d->pp;
    cfg.model.padded_vocab_size = mega_vocab_pad(t->text.vocab_rows, cfg.make_vocab_size_divisible_by, (int)d->tp);
    if (d->recomputes) {
        cfg.engine.graph.recompute_granularity = MEGA_RECOMPUTE_FULL;
        cfg.engine.graph.recompute_method = MEGA_RECOMPUTE_UNIFORM;
        cfg.engine.graph.recompute_num_layers = 1;
    }
    return train_plan_all_stages(t, &cfg, limit, &run) ? run.bytes : 0;
}

static bool is_allowed(const trainer *t, const division *d)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t world = cfg->engine.world_size, dp = world / (d->tp * d->pp);
    return world % (d->tp * d->pp) == 0 && cfg->model.num_attention_heads % d->tp == 0 &&
           cfg->model.ffn_hidden_size % d->tp == 0 && cfg->model.num_layers % d->pp == 0 &&
           (d->pp == 1 || d->zero < 2) && (d->zero == cfg->engine.graph.zero_stage || dp > 1);
}

static void show_division(const trainer *t, const division *d, size_t bytes, bool is_first, mega_buffer *out)
{
    const mega_train_options *cfg = t->cfg;
    char text[32];
    if (is_first) mega_buffer_puts(out, "it would fit if the ranks divided it otherwise:\n");
    mega_buffer_puts(out, " ");
    if (d->zero != cfg->engine.graph.zero_stage) mega_buffer_printf(out, " --zero-stage %lld", (long long)d->zero);
    if (d->tp != cfg->engine.comm.tensor_model_parallel_size)
        mega_buffer_printf(out, " --tensor-model-parallel-size %lld", (long long)d->tp);
    if (d->pp != cfg->engine.comm.pipeline_model_parallel_size)
        mega_buffer_printf(out, " --pipeline-model-parallel-size %lld", (long long)d->pp);
    if (d->recomputes) mega_buffer_puts(out, " --recompute-granularity full");
    mega_buffer_printf(out, ": %s a rank\n", train_bytes(text, sizeof text, (double)bytes));
}

/* ZeRO first, which changes the least, then the fewest tensor and the fewest pipeline ranks that suffice. */
int train_suggest_ranks(const trainer *t, size_t limit, mega_buffer *out)
{
    const mega_train_options *cfg = t->cfg;
    const int64_t tp = cfg->engine.comm.tensor_model_parallel_size, pp = cfg->engine.comm.pipeline_model_parallel_size,
                  world = cfg->engine.world_size;
    const bool may_recompute = !cfg->skip_train && cfg->engine.graph.activation_budget == 0 &&
                               cfg->engine.graph.recompute_granularity != MEGA_RECOMPUTE_FULL;
    int found = 0;
    for (int recomputes = 0; recomputes <= (may_recompute ? 1 : 0) && found == 0; recomputes++)
        for (int64_t p = pp; p <= world && found < SHOWN; p *= 2)
            for (int64_t k = tp; k * p <= world && k <= (tp > MOST_TENSOR ? tp : MOST_TENSOR) && found < SHOWN; k *= 2)
                for (int64_t z = cfg->engine.graph.zero_stage; z <= 3 && found < SHOWN; z++) {
                    const division d = {z, k, p, recomputes == 1};
                    const bool is_new = z != cfg->engine.graph.zero_stage || k != tp || p != pp;
                    const size_t bytes = is_new && is_allowed(t, &d) ? rank_bytes_of(t, &d, limit) : 0;
                    if (bytes == 0 || bytes > limit) continue;
                    show_division(t, &d, bytes, found++ == 0, out);
                    break; /* a higher stage at the same division frees more, and sends more */
                }
    mega_error_clear(); /* ways that are none */
    return found;
}
