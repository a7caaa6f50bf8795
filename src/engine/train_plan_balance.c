/* Which cut of the layers leaves pipeline stages with the same arithmetic: the head counts as some layers. */
#include "train_impl.h"
#include <stdlib.h>

typedef struct cut {
    int64_t first, last, others; /* layers of the first and last stage, and of each between them */
    double slowest;              /* FLOPs a token of the stage that does most */
} cut;

typedef struct model_cost {
    double layer, head;
} model_cost;

static model_cost cost_of(const mega_gpt *m, int64_t seq)
{
    mega_gpt bare = *m;
    bare.num_layers = 0;
    const double head = mega_gpt_flops_per_token(&bare, seq);
    return (model_cost){(mega_gpt_flops_per_token(m, seq) - head) / (double)m->num_layers, head};
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

static double slowest(const model_cost *c, const cut *x)
{
    return most(most((double)x->first, (double)x->others) * c->layer, (double)x->last * c->layer + c->head);
}

/* Of cuts that are as good, the one whose stages before the last differ least. Each stage's layers are a multiple of
 * its chunks. */
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

void train_plan_balance(const trainer *t, mega_buffer *out)
{
    const mega_axis pp = mega_engine_layout(t->engine)->pp;
    const int chunks = mega_gpt_chunks(&t->gpt, &pp);
    if (pp.size < 2) return;
    const model_cost c = cost_of(&t->gpt, t->cfg->seq_length);
    cut now = {0};
    for (int s = 0; s < pp.size; s++) {
        /* of a stage all chunks have as many */
        const int64_t layers = chunks * mega_gpt_part_of(&t->gpt, &(mega_axis){.rank = s, .size = pp.size}, 0).count;
        *(s == 0 ? &now.first : s == pp.size - 1 ? &now.last : &now.others) = layers;
    }
    now.slowest = slowest(&c, &now);
    const cut best = best_cut(&c, t->gpt.num_layers, pp.size, chunks);
    const double mean = mega_gpt_flops_per_token(&t->gpt, t->cfg->seq_length) / pp.size;
    mega_buffer_printf(out, "balance      the stage that computes most has %.0f %% more than the mean",
                       100 * (now.slowest / mean - 1));
    if (best.slowest > 0 && best.slowest < 0.98 * now.slowest) {
        mega_buffer_printf(out, "; --decoder-first-pipeline-num-layers %lld --decoder-last-pipeline-num-layers %lld ",
                           (long long)best.first, (long long)best.last);
        if (chunks > 1) mega_buffer_printf(out, "--num-virtual-stages-per-pipeline-rank %d ", chunks);
        mega_buffer_printf(out, "would leave %.0f %%", 100 * (best.slowest / mean - 1));
    }
    mega_buffer_puts(out, "\n");
}
