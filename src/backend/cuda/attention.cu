/* Attention (ops_attention.h): F32 by multiply-adds, 16-bit numbers by tensor cores; each for heads of up to 64, 128
 * and 256 channels. */
#include "attention_16.h"

#include "attention_16_body.cu"
#include "attention_f32_body.cu"
