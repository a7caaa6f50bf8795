/* config.json of a Hugging Face folder. */
#ifndef MEGALITH_HF_CONFIG_H
#define MEGALITH_HF_CONFIG_H

#include "megalith/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the shape of a model of one of the families (family.h). Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT, or MEGA_ERR_UNSUPPORTED with everything that
 * cannot be used. A file of a model that is not a Hugging Face family gives num_layers 0. */
mega_status mega_hf_config_read(const char *path, mega_model_shape *out);

#ifdef __cplusplus
}
#endif

#endif
