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

/* The table of them; OF(name, body) is the function of a name. */
#define OWN(name, body) body
#define BODIES(OF)                                                                                                \
    {                                                                                                             \
        .add = OF(add, add_range), .mul = OF(mul, mul_range), .convert = OF(convert, convert_range),              \
        .adamw = OF(adamw, adamw_range), .sgd = OF(sgd, sgd_range), .norm = OF(norm, norm_range),                 \
        .embedding = OF(embedding, embedding_rows), .embedding_grad = OF(embedding_grad, embedding_grad_columns), \
        .layer_norm = OF(layer_norm, layer_norm_rows), .gelu = OF(gelu, gelu_rows),                               \
        .dropout_add = OF(dropout_add, dropout_add_rows), .xent_max = OF(xent_max, xent_max_rows),                \
        .xent_sum = OF(xent_sum, xent_sum_rows), .xent_grad = OF(xent_grad, xent_grad_rows),                      \
        .xent = OF(xent, xent_rows), .column_sum = OF(column_sum, column_sum_rows),                               \
        .gelu_grad = OF(gelu_grad, gelu_grad_rows), .dropout_grad = OF(dropout_grad, dropout_grad_rows),          \
        .layer_norm_grad = OF(layer_norm_grad, layer_norm_grad_rows), .fold = OF(fold, fold_columns),             \
        .attention = OF(attention, attention_item), .attention_grad = OF(attention_grad, attention_grad_item),    \
        .attention_cached = OF(attention_cached, attention_cached_items),                                         \
        .gemm_rows = OF(gemm_rows, gemm_rows_columns), .gemm_pack_b = OF(gemm_pack_b, gemm_pack_b),               \
        .gemm_block = OF(gemm_block, gemm_block_run), .gemm_pack_a = OF(gemm_pack_a, gemm_pack_a),                \
        .gemm_columns = OF(gemm_columns, gemm_columns_run), .gemm_rows_of_panel = GEMM_MR,                        \
        .gemm_columns_of_panel = GEMM_NR, .activation = OF(activation, activation_range),                         \
        .activation_grad = OF(activation_grad, activation_grad_range), .rope = OF(rope, rope_rows),               \
        .glu = OF(glu, glu_rows), .glu_grad = OF(glu_grad, glu_grad_rows), .softcap = OF(softcap, softcap_range), \
        .softcap_grad = OF(softcap_grad, softcap_grad_range), .spin_fma = OF(spin_fma, spin_fma)                  \
    }
