/* Finds the split of the layers that gives each pipeline stage the most equal number of FLOPs. The first and last
 * entry of the layer list (embedding and head) cost as much as some number of layers. If the layers between them
 * differ from each other, prints only how balanced the stages are. */
#include "train_impl.h"
#include <stdlib.h>

typedef struct cut {
    int64_t first, last, others; /* number of layers of the first stage, of the last, and of each other stage */
    double slowest;              /* FLOPs per token of the slowest stage */
} cut;

/* Forward FLOPs of the layers in the list, from the cost column. */
typedef struct model_cost {
    double begin, layer, end;
} model_cost;

static double balance_flops(const mega_model_parts *p, int begin, int end)
{
    double flops = 0;
    for (int l = begin; l < end; l++) flops += mega_model_parts_flops(p, l);
    return flops;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

static double slowest(const model_cost *c, const cut *x)
{
    const double ends = most((double)x->first * c->layer + c->begin, (double)x->last * c->layer + c->end);
    return most(ends, (double)x->others * c->layer);
}

/* Returns the split whose slowest stage is fastest; of equal ones, the one whose stages before the last differ least.
 * Each stage's number of layers is a multiple of its number of chunks. */
static cut best_cut(const model_cost *c, int64_t layers, int stages, int chunks)
{
    const int64_t others = (int64_t)(stages - 2) * chunks;
    cut best = {.slowest = -1};
    for (int64_t last = chunks; last < layers; last += chunks)
        for (int64_t first = (layers - last) / chunks * chunks; first >= chunks; first -= chunks) {
            const int64_t left = layers - last - first;
            if (stages == 2 ? left != 0 : left < others || left % others != 0) continue;
            cut x = {.first = first, .last = last, .others = stages == 2 ? 0 : left / (stages - 2)};
            x.slowest = slowest(c, &x);
            const bool is_evener = llabs(x.first - x.others) < llabs(best.first - best.others);
            if (best.slowest < 0 || x.slowest < best.slowest || (x.slowest == best.slowest && is_evener)) best = x;
        }
    return best;
}

/* Returns the FLOPs of the slowest stage with the model's current split. */
static double slowest_now(const mega_model_parts *p, int stages)
{
    double slowest = 0;
    for (int s = 0; s < stages; s++) {
        double flops = 0;
        for (int part = s; part < mega_model_parts_count(p); part += stages)
            flops += balance_flops(p, mega_model_parts_first(p, part), mega_model_parts_first(p, part + 1));
        slowest = most(slowest, flops);
    }
    return slowest;
}

static bool are_blocks_alike(const mega_model_parts *p)
{
    const int layers = mega_model_parts_layers(p);
    bool alike = layers > 2;
    for (int l = 2; l < layers - 1; l++) alike = alike && mega_model_parts_flops(p, l) == mega_model_parts_flops(p, 1);
    return alike;
}

void train_plan_balance(const trainer *t, mega_buffer *out)
{
    const mega_model_parts *p = mega_engine_parts(t->engine);
    const int stages = mega_engine_layout(t->engine)->pp.size, chunks = mega_engine_chunks(t->engine);
    const int layers = mega_model_parts_layers(p);
    if (stages < 2) return;
    const model_cost c = {mega_model_parts_flops(p, 0), mega_model_parts_flops(p, 1),
                          mega_model_parts_flops(p, layers - 1)};
    const double now = slowest_now(p, stages), mean = balance_flops(p, 0, layers) / stages;
    cut best = {.slowest = -1};
    if (are_blocks_alike(p)) best = best_cut(&c, layers - 2, stages, chunks);
    mega_buffer_printf(out, "balance      the stage that computes most has %.0f %% more than the mean",
                       100 * (now / mean - 1));
    if (best.slowest > 0 && best.slowest < 0.98 * now) {
        mega_buffer_printf(out, "; --decoder-first-pipeline-num-layers %lld --decoder-last-pipeline-num-layers %lld ",
                           (long long)best.first, (long long)best.last);
        if (chunks > 1) mega_buffer_printf(out, "--num-virtual-stages-per-pipeline-rank %d ", chunks);
        mega_buffer_printf(out, "would leave %.0f %%", 100 * (best.slowest / mean - 1));
    }
    mega_buffer_puts(out, "\n");
}
