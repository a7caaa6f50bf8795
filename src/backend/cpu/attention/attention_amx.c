/* Attention in bf16 by AMX tiles (flags.cmake sets the compiler options of this file). In other respects like
 * attention_dots.c. */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#include "cpu/attention/attention_impl.h"
#include "cpu/vector_math.h"

#define PAIRS             1
#define PRODUCTS_BY_TILES 1

ALWAYS void products_begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } whole __attribute__((aligned(64))) = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&whole);
}

/* Releases the tiles, so that the system need not save them when it switches threads. */
ALWAYS void products_end(void)
{
    _tile_release();
}

#include "cpu/philox_body.c"

#include "cpu/attention/attention_tile_body.c"

#include "cpu/attention/attention_body.c"
#include "cpu/attention/attention_grad_body.c"

const attention_pairs mega_attention_amx = {attention_item, attention_grad_item, pack_turned, pack_along};
#else
extern const int mega_attention_no_amx;
const int mega_attention_no_amx = 1;
#endif
