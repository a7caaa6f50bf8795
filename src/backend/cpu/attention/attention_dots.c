/* Attention in bf16 by dot products of pairs in vectors (flags.cmake sets the compiler options of this file). Weights
 * and dS are rounded to bf16 when they enter a product; sums are floats. */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/attention/attention_impl.h"
#include "cpu/vector_math.h"

#define PAIRS             1
#define PRODUCTS_BY_TILES 0

ALWAYS void products_begin(void)
{
}

ALWAYS void products_end(void)
{
}

#include "cpu/philox_body.c"

#include "cpu/attention/attention_tile_body.c"

#include "cpu/attention/attention_body.c"
#include "cpu/attention/attention_grad_body.c"

const attention_pairs mega_attention_dots = {attention_item, attention_grad_item, pack_turned, pack_along};
#else
extern const int mega_attention_no_dots;
const int mega_attention_no_dots = 1;
#endif
