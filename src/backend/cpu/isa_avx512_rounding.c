/* The bodies for AVX-512 with the instruction that rounds to bf16 (Zen 4, Sapphire Rapids and later). Only those that
 * use it (vround) are compiled here, for this type alone. All other calls go to the bodies of isa_avx512.c, which are
 * the same code. Products of bf16 with more than a few rows do not come here (gemm_pairs.c, attention_pairs_get). */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#define ONLY_BF16    1
#pragma GCC diagnostic ignored "-Wunused-function" /* bodies that round nothing */
#include "cpu/all_body.c"

/* Define a function of the table: OTHER for a body that rounds nothing, ROUNDS for one that does. */
#define OTHER(name, parameters, arguments)     \
    static void rounding_##name parameters     \
    {                                          \
        mega_cpu_bodies_avx512.name arguments; \
    }
#define ROUNDS(name, body, parameters, arguments)       \
    static void rounding_##name parameters              \
    {                                                   \
        if (a->head.dtype == MEGA_BF16) body arguments; \
        else                                            \
            mega_cpu_bodies_avx512.name arguments;      \
    }
#define ROUNDING(name, body) rounding_##name
#define RANGE(type)          (const type *a, int64_t begin, int64_t end)

OTHER(convert, RANGE(mega_convert_args), (a, begin, end))
OTHER(adamw, RANGE(mega_adamw_args), (a, begin, end))
OTHER(sgd, RANGE(mega_sgd_args), (a, begin, end))
OTHER(norm, (const float *x, int64_t n, double out[3]), (x, n, out))
OTHER(embedding_grad, RANGE(mega_embedding_grad_args), (a, begin, end))
OTHER(softcap, RANGE(mega_softcap_args), (a, begin, end))
OTHER(xent_max, RANGE(mega_xent_max_args), (a, begin, end))
OTHER(xent_sum, RANGE(mega_xent_sum_args), (a, begin, end))
OTHER(column_sum, (const mega_column_sum_args *a, int64_t begin, int64_t end, float *partial), (a, begin, end, partial))
OTHER(fold, (float *sum, const float *partial, int64_t rows, int64_t ld, int64_t begin, int64_t end),
      (sum, partial, rows, ld, begin, end))
OTHER(attention, (const mega_attention_args *a, int64_t item, int64_t begin, int64_t end, float *scratch),
      (a, item, begin, end, scratch))
OTHER(attention_grad, (const mega_attention_grad_args *a, int64_t item, const attention_part *part, float *scratch),
      (a, item, part, scratch))
OTHER(gemm_rows, RANGE(mega_gemm_args), (a, begin, end))
OTHER(gemm_pack_b,
      (const mega_gemm_args *a, float *dst, int64_t n, int64_t columns, int64_t k, int64_t depth, int64_t begin,
       int64_t end),
      (a, dst, n, columns, k, depth, begin, end))
OTHER(gemm_block, (const gemm_block *b, int64_t row, int64_t rows, int64_t begin, int64_t end, float *pa),
      (b, row, rows, begin, end, pa))
OTHER(gemm_pack_a, (const mega_gemm_args *a, float *dst, int64_t m, int64_t rows, int64_t k, int64_t depth, bool sums),
      (a, dst, m, rows, k, depth, sums))
OTHER(gemm_columns, (const gemm_block *b, int64_t begin, int64_t end, float *pb), (b, begin, end, pb))

ROUNDS(add, add_range, RANGE(mega_add_args), (a, begin, end))
ROUNDS(mul, mul_range, RANGE(mega_mul_args), (a, begin, end))
ROUNDS(embedding, embedding_rows, RANGE(mega_embedding_args), (a, begin, end))
ROUNDS(layer_norm, layer_norm_rows, RANGE(mega_layer_norm_args), (a, begin, end))
ROUNDS(gelu, gelu_rows, RANGE(mega_gelu_args), (a, begin, end))
ROUNDS(activation, activation_range, RANGE(mega_activation_args), (a, begin, end))
ROUNDS(activation_grad, activation_grad_range, RANGE(mega_activation_grad_args), (a, begin, end))
ROUNDS(glu, glu_rows, RANGE(mega_glu_args), (a, begin, end))
ROUNDS(glu_grad, glu_grad_rows, RANGE(mega_glu_grad_args), (a, begin, end))
ROUNDS(softcap_grad, softcap_grad_range, RANGE(mega_softcap_grad_args), (a, begin, end))
ROUNDS(dropout_add, dropout_add_rows, RANGE(mega_dropout_add_args), (a, begin, end))
ROUNDS(xent_grad, xent_grad_rows, RANGE(mega_xent_grad_args), (a, begin, end))
ROUNDS(xent, xent_rows, RANGE(mega_xent_args), (a, begin, end))
ROUNDS(gelu_grad, gelu_grad_rows, (const mega_gelu_grad_args *a, int64_t begin, int64_t end, float *partial),
       (a, begin, end, partial))
ROUNDS(dropout_grad, dropout_grad_rows, (const mega_dropout_grad_args *a, int64_t begin, int64_t end, float *partial),
       (a, begin, end, partial))
ROUNDS(layer_norm_grad, layer_norm_grad_rows,
       (const mega_layer_norm_grad_args *a, int64_t begin, int64_t end, float *dgain, float *dbias),
       (a, begin, end, dgain, dbias))
ROUNDS(attention_cached, attention_cached_items,
       (const mega_attention_cached_args *a, int64_t begin, int64_t end, float *scratch), (a, begin, end, scratch))
ROUNDS(rope, rope_rows, (const mega_rope_args *a, int64_t begin, int64_t end, float *cosines, float *sines),
       (a, begin, end, cosines, sines))

static double rounding_spin_fma(int64_t rounds, float *sink)
{
    return mega_cpu_bodies_avx512.spin_fma(rounds, sink);
}

const cpu_bodies mega_cpu_bodies_avx512_rounding = BODIES(ROUNDING);
#else
extern const int mega_cpu_no_avx512_rounding;
const int mega_cpu_no_avx512_rounding = 1;
#endif
