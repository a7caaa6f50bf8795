/* All bodies, for the instruction set and VECTOR_BYTES of the file that includes this one. */
#include "cpu/attention/attention_impl.h"
#include "cpu/bodies.h"
#include "cpu/vector_math.h"

#include "cpu/elementwise_body.c"
#include "cpu/philox_body.c"

#include "cpu/activation_body.c"
#include "cpu/dropout_body.c"
#include "cpu/embedding_body.c"
#include "cpu/gelu_body.c"
#include "cpu/glu_body.c"
#include "cpu/softcap_body.c"

#include "cpu/gemm/gemm_body.c"
#include "cpu/gemm/gemm_panels_body.c"
#include "cpu/layer_norm_body.c"
#include "cpu/optimizer_body.c"
#include "cpu/rope_body.c"
#include "cpu/xent_body.c"

#include "cpu/attention/attention_fma.h"

#include "cpu/attention/attention_tile_body.c"

#include "cpu/attention/attention_body.c"
#include "cpu/attention/attention_cached_body.c"
#include "cpu/attention/attention_grad_body.c"

#define BODIES                                                                                                        \
    {                                                                                                                 \
        .add = add_range, .mul = mul_range, .convert = convert_range, .adamw = adamw_range, .sgd = sgd_range,         \
        .norm = norm_range, .embedding = embedding_rows, .embedding_grad = embedding_grad_columns,                    \
        .layer_norm = layer_norm_rows, .gelu = gelu_rows, .dropout_add = dropout_add_rows, .xent_max = xent_max_rows, \
        .xent_sum = xent_sum_rows, .xent_grad = xent_grad_rows, .xent = xent_rows, .column_sum = column_sum_rows,     \
        .gelu_grad = gelu_grad_rows, .dropout_grad = dropout_grad_rows, .layer_norm_grad = layer_norm_grad_rows,      \
        .fold = fold_columns, .attention = attention_item, .attention_grad = attention_grad_item,                     \
        .attention_cached = attention_cached_items, .gemm_rows = gemm_rows_columns, .gemm_pack_b = gemm_pack_b,       \
        .gemm_block = gemm_block_run, .gemm_pack_a = gemm_pack_a, .gemm_columns = gemm_columns_run,                   \
        .gemm_rows_of_panel = GEMM_MR, .gemm_columns_of_panel = GEMM_NR, .activation = activation_range,              \
        .activation_grad = activation_grad_range, .rope = rope_rows, .glu = glu_rows, .glu_grad = glu_grad_rows,      \
        .softcap = softcap_range, .softcap_grad = softcap_grad_range, .spin_fma = spin_fma                            \
    }
