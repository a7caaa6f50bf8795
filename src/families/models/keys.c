/* Derived values that several families share. */
#include "hf_impl.h"

int64_t hf_derive_kv_heads(const mega_model_shape *s)
{
    return s->heads;
}

int64_t hf_derive_head_dim(const mega_model_shape *s)
{
    return s->heads > 0 ? s->hidden / s->heads : 0;
}

int64_t hf_derive_ffn(const mega_model_shape *s)
{
    return 4 * s->hidden;
}

int64_t hf_derive_decoder_layers(const mega_model_shape *s)
{
    return s->num_layers;
}
