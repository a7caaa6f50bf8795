/* Folders of a Hugging Face family as models. There is one family so far, GPT-2. */
#include "megalith/language.h"
#include "megalith/gpt.h"
#include "megalith/memory.h"

typedef struct network {
    mega_gpt gpt;
    mega_gpt_list list; /* its layers point to gpt */
} network;

static mega_status check_cuts(const mega_gpt *g, int tp, int stages)
{
    if (g->heads % tp != 0)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "--tensor-model-parallel-size %d: the model has %lld attention heads, which are cut over the "
                         "ranks; give a divisor of that",
                         tp, (long long)g->heads);
    if (mega_gpt_check_stages(g, stages) != MEGA_OK)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "--pipeline-model-parallel-size %d: the model has %lld layers, which cannot be cut into so "
                         "many stages (first %lld, last %lld; 0: as many as the others); give a divisor of the "
                         "layers, or the ends their own: --decoder-first-pipeline-num-layers N, "
                         "--decoder-last-pipeline-num-layers N",
                         stages, (long long)g->num_layers, (long long)g->first_stage_layers,
                         (long long)g->last_stage_layers);
    return MEGA_OK;
}

mega_status mega_language_model_create(mega_language_model *out, const mega_model_shape *shape,
                                       const mega_language_options *o)
{
    const int tp = o->tp > 0 ? o->tp : 1, stages = o->stages > 0 ? o->stages : 1;
    network *n = mega_calloc(1, sizeof *n);
    if (n == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "model: no memory for its record");
    mega_gpt_from_shape(&n->gpt, shape, o->vocab_multiple * tp);
    n->gpt.first_stage_layers = o->first_stage_layers;
    n->gpt.last_stage_layers = o->last_stage_layers;
    mega_status st = check_cuts(&n->gpt, tp, stages);
    if (st == MEGA_OK) st = mega_gpt_list_create(&n->list, &n->gpt, stages);
    if (st != MEGA_OK) {
        mega_free(n);
        return st;
    }
    *out = (mega_language_model){.model = mega_gpt_model(&n->list),
                                 .positions = n->gpt.positions,
                                 .vocab = n->gpt.vocab,
                                 .padded_vocab = n->gpt.padded_vocab,
                                 .self = n};
    return MEGA_OK;
}

void mega_language_model_fini(mega_language_model *m)
{
    network *n = m->self;
    if (n != NULL) mega_gpt_list_destroy(&n->list);
    mega_free(n);
    *m = (mega_language_model){.self = NULL};
}
