/* config.json of a Hugging Face folder. */
#ifndef MEGALITH_HF_CONFIG_H
#define MEGALITH_HF_CONFIG_H

#include "megalith/memory.h"
#include "megalith/model_shape.h"
#include "megalith/status.h"

/* Reads the shape of a model of one of the families (family.h). Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT, or
 * MEGA_ERR_UNSUPPORTED with everything that cannot be used. A file of a model that is not a Hugging Face family gives
 * num_layers 0. */
mega_status mega_hf_config_read(const char *path, mega_model_shape *out);
/* The same of the text of the file `path`. */
mega_status mega_hf_config_parse(const char *path, const char *text, size_t size, mega_model_shape *out);
/* Append config.json and generation_config.json. shape NULL: config.json of a model that is of no Hugging Face family.
 * weights: the type in which they are saved. */
mega_status mega_hf_config_text(mega_buffer *out, const mega_model_shape *shape, mega_dtype weights);
mega_status mega_hf_generation_text(mega_buffer *out, const mega_model_shape *shape);
/* The ids that end a text of the model in this folder: those of generation_config.json, else of its shape. Ids outside
 * of the vocabulary are left out. Returns MEGA_ERR_FORMAT if the file is none. */
mega_status mega_hf_ends_read(const char *folder, const mega_model_shape *shape, int32_t out[MEGA_SHAPE_EOS],
                              int *count);

#endif
