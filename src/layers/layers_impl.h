/* What the files of this room share. */
#ifndef MEGALITH_LAYERS_IMPL_H
#define MEGALITH_LAYERS_IMPL_H

#include "megalith/graph.h"
#include "megalith/layers.h"

/* The parameter NAME.KIND of a layer, such as "fc.weight". */
mega_tensor layer_param(const mega_builder *b, const char *name, const char *kind, int64_t rows, int64_t columns,
                        const mega_param_options *options);

/* Sequence parallelism: this rank of tp has a slab of the rows. */
bool layer_has_slab(const mega_builder *b);
/* Whether a layer that needs all rows of a sample can be described; else records MEGA_ERR_UNSUPPORTED. */
bool layer_has_all_rows(const mega_builder *b, const char *layer);

#endif
