/* Creates models from Hugging Face model folders, of any family. */
#include "megalith/language.h"
#include "megalith/family.h"
#include "megalith/memory.h"
#include "megalith/transformer.h"

typedef struct network {
    mega_transformer transformer;
    mega_transformer_list list; /* its layers point to transformer */
} network;

static mega_status check_cuts(const mega_transformer *g, int tp, int stages)
{
    if (g->heads % tp != 0)
        return MEGA_MISTAKE(
            "--tensor-model-parallel-size %d: the model has %lld attention heads, which are cut over the "
            "ranks; give a divisor of that",
            tp, (long long)g->heads);
    if (g->net.t5 == MEGA_T5_NONE && mega_transformer_check_stages(g, stages) != MEGA_OK)
        return MEGA_MISTAKE("--pipeline-model-parallel-size %d: the model has %lld layers, which cannot be cut into so "
                            "many stages (first %lld, last %lld; 0: as many as the others); give a divisor of the "
                            "layers, or the ends their own: --decoder-first-pipeline-num-layers N, "
                            "--decoder-last-pipeline-num-layers N",
                            stages, (long long)g->num_layers, (long long)g->first_stage_layers,
                            (long long)g->last_stage_layers);
    return MEGA_OK;
}

/* Returns the number of programs per stage: 1 without interleaving, -1 if no stage can be split into programs of
 * program_layers layers. */
static int64_t programs_of_stage(const mega_language_options *o, int64_t layers, int stages)
{
    if (stages == 1) return 1;
    if (o->program_layers <= 0) return o->stage_programs > 0 ? o->stage_programs : 1;
    const int64_t even = stages - (o->first_stage_layers > 0) - (o->last_stage_layers > 0);
    const int64_t left = layers - o->first_stage_layers - o->last_stage_layers;
    if (even <= 0 || left <= 0 || left % (even * o->program_layers) != 0) return -1;
    return left / (even * o->program_layers);
}

/* Sets the number of programs per stage of `g`, whose first and last stage already have their layers. */
static mega_status cut_stages(mega_transformer *g, const mega_language_options *o, int stages)
{
    g->stage_chunks = programs_of_stage(o, g->num_layers, stages);
    if ((g->stage_chunks <= 1 || g->net.t5 != MEGA_T5_NONE) && o->program_layers <= 0) return MEGA_OK;
    if (g->net.t5 == MEGA_T5_NONE && g->stage_chunks > 0 && mega_transformer_check_stages(g, stages) == MEGA_OK)
        return MEGA_OK;
    return MEGA_MISTAKE(
        "--%s %lld: the %lld layers of the model cannot be cut so over %d pipeline stages; leave it out, "
        "which changes no result",
        o->program_layers > 0 ? "num-layers-per-virtual-pipeline-stage" : "num-virtual-stages-per-pipeline-rank",
        (long long)(o->program_layers > 0 ? o->program_layers : o->stage_programs), (long long)g->num_layers, stages);
}

mega_status mega_language_model_create(const mega_model_shape *shape, const mega_language_options *o,
                                       mega_language_model *out)
{
    const int tp = o->tp > 0 ? o->tp : 1, stages = o->stages > 0 ? o->stages : 1;
    if (o->encodes && (!shape->net.is_encoder || shape->net.choices > 0))
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED, "this folder holds a %s%s; expected an encoder of single texts, such as a bert",
            mega_family_of(&shape->net)->model_type, shape->net.choices > 0 ? " that chooses between texts" : "");
    if (shape->net.is_encoder && !o->encodes)
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "this folder holds an encoder (%s), which sees the tokens on both sides and continues no text; "
            "give the folder of a decoder",
            mega_family_of(&shape->net)->model_type);
    const bool has_source = shape->net.t5 != MEGA_T5_NONE;
    if (has_source && shape->net.decoder_start < 0)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "config.json of this %s names no decoder_start_token_id, with which the text of the decoder "
                         "begins; add it",
                         mega_family_of(&shape->net)->model_type);
    network *n = mega_calloc(1, sizeof *n);
    if (n == NULL) return MEGA_NO_MEMORY("model", "its record");
    mega_transformer_from_shape(shape, o->vocab_multiple * tp, &n->transformer);
    n->transformer.first_stage_layers = o->first_stage_layers;
    n->transformer.last_stage_layers = o->last_stage_layers;
    n->transformer.shows_hidden = o->encodes;
    n->transformer.expert_buffer = o->expert_buffer;
    mega_status st = check_cuts(&n->transformer, tp, stages);
    if (st == MEGA_OK) st = cut_stages(&n->transformer, o, stages);
    if (st == MEGA_OK) st = mega_transformer_list_create(&n->transformer, stages, &n->list);
    if (st != MEGA_OK) {
        mega_free(n);
        return st;
    }
    *out = (mega_language_model){.model = mega_transformer_model(&n->list),
                                 .positions = n->transformer.positions,
                                 .vocab = n->transformer.vocab,
                                 .padded_vocab = n->transformer.padded_vocab,
                                 .has_source = has_source,
                                 .start = has_source ? (int32_t)shape->net.decoder_start : 0,
                                 .stage_programs = (int)n->transformer.stage_chunks,
                                 .self = n};
    return MEGA_OK;
}

mega_status mega_language_model_show_masks(mega_language_model *m, int64_t masks)
{
    mega_transformer *g = &((network *)m->self)->transformer;
    if (!g->net.is_encoder || g->net.no_head || g->net.classes > 0 || g->net.choices > 0)
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "this folder holds %s (%s), which predicts no masked tokens; give the folder of a BERT with a head for "
            "them, as pretrain_bert saves it",
            g->net.no_head      ? "an encoder without a head"
            : g->net.is_encoder ? "a classifier"
                                : "a decoder",
            mega_family_of(&g->net)->model_type);
    g->masks = masks;
    g->shows_hidden = false;
    return MEGA_OK;
}

void mega_language_model_fini(mega_language_model *m)
{
    network *n = m->self;
    if (n != NULL) mega_transformer_list_destroy(&n->list);
    mega_free(n);
    *m = (mega_language_model){.self = NULL};
}
