/* A mixture of experts that begins with the weights of a dense model. */
#include "block.h"
#include "megalith/family.h"
#include "megalith/model_parts.h"

/* Declares the parameters of the whole model of a folder. */
static mega_status declare_dense(const mega_transformer *dense, mega_params *params)
{
    mega_transformer_list list;
    MEGA_TRY(mega_transformer_list_create(dense, 1, &list));
    const mega_model model = mega_transformer_model(&list);
    const mega_status st = mega_model_declare(&model, 1, params);
    mega_transformer_list_destroy(&list);
    return st;
}

mega_status mega_transformer_begin_mixture(mega_checkpoint *c, const mega_transformer *mixture, int tp)
{
    mega_transformer dense;
    mega_layout *stage = NULL;
    mega_params *params = NULL;
    mega_transformer_from_shape(mega_checkpoint_shape(c), 1, &dense);
    dense.padded_vocab = mixture->padded_vocab; /* tables have the same rows in memory */
    MEGA_TRY(mega_layout_create(NULL, &(mega_layout_sizes){.tp = tp, .planned_ranks = tp}, &stage));
    mega_status st = mega_params_create(stage, &params);
    if (st == MEGA_OK) st = declare_dense(&dense, params);
    if (st == MEGA_OK) mega_checkpoint_begin_mixture(c, mega_family_of(&mixture->net), params);
    else
        mega_params_destroy(params);
    mega_layout_destroy(stage); /* only its records are read from here on */
    return st;
}
