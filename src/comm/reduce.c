/* The arithmetic of reductions. Every element is reduced over ranks 0, 1, 2, … in that order, so that the bits are the
 * same on every rank and in every run; 16-bit numbers are widened, summed in float and rounded once. */
#include "comm_impl.h"
#include "megalith/threads.h"

#include <string.h>

/* Inlined into one function per instruction set. */
#define INLINE static inline __attribute__((always_inline))

enum { PIECE = 512 }; /* elements at a time, so that the sums stay in the L1 cache */

mega_status comm_check_reducible(mega_dtype dtype, const char *what)
{
    switch (dtype) {
    case MEGA_F32:
    case MEGA_F64:
    case MEGA_BF16:
    case MEGA_F16:
    case MEGA_I32:
    case MEGA_I64: return MEGA_OK;
    default:
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s: cannot reduce numbers of type %s; expected f32, f64, bf16, f16, "
                         "i32 or i64",
                         what, mega_dtype_name(dtype));
    }
}

#define REDUCE(type)                                                          \
    do {                                                                      \
        type *r = sum;                                                        \
        const type *x = part;                                                 \
        if (op == MEGA_REDUCE_SUM)                                            \
            for (int64_t i = 0; i < n; i++) r[i] += x[i];                     \
        else if (op == MEGA_REDUCE_MAX)                                       \
            for (int64_t i = 0; i < n; i++) r[i] = x[i] > r[i] ? x[i] : r[i]; \
        else                                                                  \
            for (int64_t i = 0; i < n; i++) r[i] = x[i] < r[i] ? x[i] : r[i]; \
    } while (0)

/* sum[i] = op(sum[i], part[i]); both have the wide type. */
INLINE void reduce_wide(void *sum, const void *part, int64_t n, mega_dtype wide, mega_reduce op)
{
    switch (wide) {
    case MEGA_F64: REDUCE(double); break;
    case MEGA_I32: REDUCE(int32_t); break;
    case MEGA_I64: REDUCE(int64_t); break;
    default: REDUCE(float); break;
    }
}

INLINE const void *widened(float *room, const void *x, int64_t begin, int64_t n, mega_dtype dtype)
{
    if (!mega_dtype_is_half(dtype)) return (const char *)x + (size_t)begin * mega_dtype_size(dtype);
    const uint16_t *h = (const uint16_t *)x + begin;
    if (dtype == MEGA_BF16)
        for (int64_t i = 0; i < n; i++) room[i] = mega_bf16_to_f32(h[i]);
    else
        mega_half_widen(room, h, n, MEGA_F16);
    return room;
}

INLINE void store(void *out, int64_t begin, const void *sum, int64_t n, mega_dtype dtype)
{
    const size_t size = mega_dtype_size(dtype);
    if (!mega_dtype_is_half(dtype)) {
        memcpy((char *)out + (size_t)begin * size, sum, (size_t)n * size);
        return;
    }
    uint16_t *h = (uint16_t *)out + begin;
    const float *f = sum;
    if (dtype == MEGA_BF16)
        for (int64_t i = 0; i < n; i++) h[i] = mega_f32_to_bf16(f[i]);
    else
        mega_half_narrow(h, f, n, MEGA_F16);
}

/* ---- one function per instruction set: the same numbers in the same order ---- */

typedef struct reduction {
    void *out;
    const void *const *from;
    int ranks;
    int64_t count;
    mega_dtype dtype;
    mega_reduce op;
} reduction;

INLINE void reduce_all(const reduction *r)
{
    double sum[PIECE]; /* room for any of the wide types */
    float room[PIECE];
    const mega_dtype wide = mega_dtype_is_half(r->dtype) ? MEGA_F32 : r->dtype;
    for (int64_t begin = 0; begin < r->count; begin += PIECE) {
        const int64_t n = r->count - begin < PIECE ? r->count - begin : PIECE;
        memcpy(sum, widened(room, r->from[0], begin, n, r->dtype), (size_t)n * mega_dtype_size(wide));
        for (int k = 1; k < r->ranks; k++)
            reduce_wide(sum, widened(room, r->from[k], begin, n, r->dtype), n, wide, r->op);
        store(r->out, begin, sum, n, r->dtype);
    }
}

static void reduce_portable(const reduction *r)
{
    reduce_all(r);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void reduce_avx2(const reduction *r)
{
    reduce_all(r);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) static void reduce_avx512(const reduction *r)
{
    reduce_all(r);
}
#endif

void comm_reduce(void *out, const void *const *from, int ranks, int64_t count, mega_dtype dtype, mega_reduce op)
{
    const reduction r = {out, from, ranks, count, dtype, op};
#if defined(__x86_64__)
    const mega_isa isa = mega_cpu_isa();
    if (isa >= MEGA_ISA_AVX512) {
        reduce_avx512(&r);
        return;
    }
    if (isa >= MEGA_ISA_AVX2) {
        reduce_avx2(&r);
        return;
    }
#endif
    reduce_portable(&r);
}
