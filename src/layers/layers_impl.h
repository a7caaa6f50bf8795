/* Internal functions of the layers. */
#ifndef MEGALITH_LAYERS_IMPL_H
#define MEGALITH_LAYERS_IMPL_H

#include "megalith/graph.h"
#include "megalith/layers.h"

/* Declares and returns the parameter NAME.KIND of a layer, such as "fc.weight". */
mega_tensor layer_param(const mega_builder *b, const char *name, const char *kind, int64_t rows, int64_t columns,
                        const mega_param_options *options);

/* Returns whether sequence parallelism is on, so that this rank of tp holds only a slab of the rows. */
bool layer_has_slab(const mega_builder *b);
/* Returns whether this rank has all rows of a sample, which `layer` needs; if not, records MEGA_ERR_UNSUPPORTED. */
bool layer_has_all_rows(const mega_builder *b, const char *layer);

#endif
