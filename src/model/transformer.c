/* A language model as a list of layers (block.c, encoder.c, t5.c). */
#include "block.h"
#include "megalith/family.h"
#include "megalith/memory.h"

mega_status mega_transformer_list_create(const mega_transformer *m, int stages, mega_transformer_list *out)
{
    mega_transformer_list list = {.first_layer = NULL};
    MEGA_TRY(mega_transformer_first_layers(m, stages, &list.first_layer));
    if (m->net.t5 != MEGA_T5_NONE) {
        list.rows = t5_layers(m, list.layer);
        *out = list;
        return MEGA_OK;
    }
    const mega_family_names *names = mega_family_of(&m->net)->names;
    list.rows = 3;
    list.layer[0] = (mega_layer){names->root, transformer_embedding, m, 1, "embedding"};
    list.layer[1] = (mega_layer){names->block, transformer_block, m, (int)m->num_layers, "block"};
    const bool classifies = m->net.classes > 0 || m->net.choices > 0;
    list.layer[2] = (mega_layer){names->end,
                                 classifies          ? encoder_class_head
                                 : m->net.is_encoder ? encoder_head
                                                     : transformer_head,
                                 m, 1, "head"};
    *out = list;
    return MEGA_OK;
}

void mega_transformer_list_destroy(mega_transformer_list *list)
{
    mega_free(list->first_layer);
    list->first_layer = NULL;
}

/* Full recomputation with `uniform` keeps only the inputs of groups of n blocks; with `block` it recomputes the first n
 * blocks of each part, one by one. */
mega_model mega_transformer_model(const mega_transformer_list *list)
{
    const mega_transformer *m = list->layer[0].self;
    const bool is_full = m->recompute == MEGA_TRANSFORMER_RECOMPUTE_FULL;
    return (mega_model){.name = m->net.t5 != MEGA_T5_NONE ? "t5" : mega_family_of(&m->net)->names->root,
                        .layer = list->layer,
                        .num_layers = list->rows,
                        .partition = MEGA_PARTITION_TYPE,
                        .partition_type = "^block$",
                        .first_layer = list->first_layer,
                        .recompute_interval = !is_full               ? 0
                                              : m->recompute_uniform ? (int)m->recompute_layers
                                                                     : 1,
                        .recompute_type = "^block$",
                        .recompute_regions = m->recompute_uniform ? 0 : (int)m->recompute_layers,
                        .sequence_parallel = m->sequence_parallel,
                        .distribute_saved = m->distribute_saved};
}
