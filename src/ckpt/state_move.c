/* Converts types, transposes, and stores past the caches, on the way between memory and file. */
#include "state_impl.h"

#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

static double move_load(const uint8_t *from, mega_dtype type)
{
    double d;
    float f;
    uint16_t h;
    switch (type) {
    case MEGA_F64: memcpy(&d, from, sizeof d); return d;
    case MEGA_F32: memcpy(&f, from, sizeof f); return (double)f;
    case MEGA_BF16: memcpy(&h, from, sizeof h); return (double)mega_bf16_to_f32(h);
    default: memcpy(&h, from, sizeof h); return (double)mega_f16_to_f32(h);
    }
}

static void move_store(uint8_t *to, mega_dtype type, double x)
{
    const float f = (float)x;
    uint16_t h;
    switch (type) {
    case MEGA_F64: memcpy(to, &x, sizeof x); return;
    case MEGA_F32: memcpy(to, &f, sizeof f); return;
    case MEGA_BF16: h = mega_f32_to_bf16(f); break;
    default: h = mega_f32_to_f16(f); break;
    }
    memcpy(to, &h, sizeof h);
}

/* Converts n elements. Equal types are copied as bytes, so every bit of a NaN survives. Files of other writers may
 * place tensors at any offset, hence load and store with memcpy. */
void mega_state_convert(void *to, mega_dtype to_type, const void *from, mega_dtype from_type, int64_t n)
{
    const size_t to_size = mega_dtype_size(to_type), from_size = mega_dtype_size(from_type);
    if (to_type == from_type) {
        memcpy(to, from, (size_t)n * to_size);
        return;
    }
    uint8_t *restrict t = to;
    const uint8_t *restrict f = from;
    for (size_t i = 0; i < (size_t)n; i++)
        move_store(t + i * to_size, to_type, move_load(f + i * from_size, from_type));
}

/* Bypasses the caches: the destination is larger than they are, and its lines need not be read before they are
 * overwritten. */
void mega_state_copy(uint8_t *to, const uint8_t *from, size_t n)
{
#if defined(__x86_64__)
    const size_t head = (uintptr_t) - (uintptr_t)to % 64;
    if (n >= head + 64) {
        memcpy(to, from, head);
        size_t at = head;
        for (; at + 64 <= n; at += 64) {
            __m128i line[4];
            memcpy(line, from + at, sizeof line);
            for (int i = 0; i < 4; i++) _mm_stream_si128((__m128i *)(void *)(to + at) + i, line[i]);
        }
        to += at, from += at, n -= at;
    }
#endif
    memcpy(to, from, n);
}

/* Makes these stores visible to other threads. */
void mega_state_copy_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

typedef uint32_t quad __attribute__((vector_size(16)));

static quad load_quad(const uint8_t *from)
{
    quad q;
    memcpy(&q, from, sizeof q);
    return q;
}

/* Transposes four by four elements of 32 bits; pitches in bytes. */
static void turn_quads(uint8_t *to, size_t to_pitch, const uint8_t *from, size_t from_pitch)
{
    const quad a = load_quad(from), b = load_quad(from + from_pitch), c = load_quad(from + 2 * from_pitch),
               d = load_quad(from + 3 * from_pitch);
    const quad ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5), ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7),
               bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5), bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    const quad turned[4] = {
        __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5), __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7),
        __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5), __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7)};
    for (size_t i = 0; i < 4; i++) memcpy(to + i * to_pitch, &turned[i], sizeof turned[i]);
}

/* Transposes blocks of at most STATE_BLOCK rows and columns through a buffer in the cache: with a pitch of whole pages,
 * all lines of a column would fall into a few sets of the L1 cache. So each line is read once, completely, and written
 * once, completely. */
#define STATE_BLOCK_PITCH (STATE_BLOCK + 4) /* in elements; not a power of two */

static void turn_rest(uint8_t *to, const uint8_t *from, size_t step, int64_t rows, int64_t cols, size_t size,
                      int64_t quad_rows, int64_t quad_cols)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = r < quad_rows ? quad_cols : 0; c < cols; c++) {
            uint8_t *t = to + (size_t)(c * STATE_BLOCK_PITCH + r) * size;
            const uint8_t *f = from + (size_t)r * step + (size_t)c * size;
            if (size == 4) memcpy(t, f, 4); /* sizes known to the compiler */
            else if (size == 2)
                memcpy(t, f, 2);
            else
                memcpy(t, f, 8);
        }
    }
}

/* Inlined for each element size and kind of store, which are constants in the callers. */
static inline __attribute__((always_inline)) void turn(uint8_t *to, int64_t to_pitch, const uint8_t *from,
                                                       int64_t from_pitch, int64_t rows, int64_t cols, size_t size,
                                                       bool past_caches)
{
    uint8_t block[STATE_BLOCK * STATE_BLOCK_PITCH * sizeof(double)];
    const size_t step = (size_t)from_pitch * size, block_step = STATE_BLOCK_PITCH * size;
    const int64_t quad_rows = size == 4 ? rows & ~(int64_t)3 : 0, quad_cols = size == 4 ? cols & ~(int64_t)3 : 0;
    for (int64_t r = 0; r < quad_rows; r += 4) {
        const uint8_t *at = from + (size_t)r * step;
        for (size_t ahead = 8; ahead < 12; ahead++) /* prefetch: the lines of a row are adjacent, rows are far apart */
            for (int64_t c = 0; r + 8 < quad_rows && c < cols; c += 16)
                __builtin_prefetch(at + ahead * step + (size_t)c * size);
        for (int64_t c = 0; c < quad_cols; c += 4)
            turn_quads(block + (size_t)c * block_step + (size_t)r * 4, block_step, at + (size_t)c * 4, step);
    }
    turn_rest(block, from, step, rows, cols, size, quad_rows, quad_cols);
    for (int64_t c = 0; c < cols; c++) {
        uint8_t *column = to + (size_t)(c * to_pitch) * size;
        if (past_caches) mega_state_copy(column, block + (size_t)c * block_step, (size_t)rows * size);
        else
            memcpy(column, block + (size_t)c * block_step, (size_t)rows * size);
    }
}

void mega_state_turn(uint8_t *to, int64_t to_pitch, const uint8_t *from, int64_t from_pitch, int64_t rows, int64_t cols,
                     size_t size, bool past_caches)
{
    if (size == 4 && past_caches) turn(to, to_pitch, from, from_pitch, rows, cols, 4, true);
    else if (size == 4)
        turn(to, to_pitch, from, from_pitch, rows, cols, 4, false);
    else
        turn(to, to_pitch, from, from_pitch, rows, cols, size, past_caches);
}
