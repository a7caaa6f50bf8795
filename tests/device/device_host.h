/* The third branch of backend/cuda/device.h, for C compilers: the names that a kernel uses are functions of the runner
 * (runner.c, warp.c), which runs the threads of a block as fibers. Only device.h includes this file. */
#ifndef DEVICE_HOST_H
#define DEVICE_HOST_H

#include <math.h>
#include <stddef.h>
#include <string.h>

/* A kernel as the runner and the driver know it. */
typedef struct device_kernel {
    const char *name;
    void (*call)(const void *args); /* runs one thread */
    size_t args_bytes;
    unsigned threads;
} device_kernel;

#define DEVICE static inline __attribute__((unused))
#define UNROLL
#define NO_UNROLL
/* Pointers to all kernels lie in one section, which the driver searches for names. */
#define KERNEL(name_, type, threads_)                                                                   \
    static void name_##_thread(const type a);                                                           \
    static void name_##_call(const void *args)                                                          \
    {                                                                                                   \
        name_##_thread(*(const type *)args);                                                            \
    }                                                                                                   \
    extern const device_kernel device_kernel_##name_;                                                   \
    const device_kernel device_kernel_##name_ = {#name_, name_##_call, sizeof(type), threads_};         \
    __attribute__((section("device_kernels"), used)) static const device_kernel *const name_##_listed = \
        &device_kernel_##name_;                                                                         \
    static void name_##_thread(const type a)
/* The variable's address says which memory is meant, also where a function is called twice. */
#define SHARED(type, name)     \
    static const char name##_; \
    type *const name = (type *)device_shared(&name##_, sizeof(type))
#define SHARED_DYNAMIC(type, name) type *const name = (type *)device_shared_dynamic(sizeof(type))

/* Where the thread is that runs now. A kernel that is watched asks by a function: it may read no memory of ours. */
typedef struct device_index {
    unsigned thread, threads, block[3], blocks[3];
} device_index;
extern _Thread_local device_index device_index_now __attribute__((tls_model("initial-exec")));
unsigned device_index_of(int which); /* as they are numbered in this struct */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define DEVICE_IS_WATCHED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(DEVICE_IS_WATCHED)
#define DEVICE_INDEX(number, member) device_index_of(number)
#else
#define DEVICE_INDEX(number, member) device_index_now.member
/* In one meeting of the lanes instead of five. Kernels that are watched use what device.h has in their place. */
float device_warp_sum(float v, int line);
float device_warp_max(float v, int line);
double device_warp_sum_double(double v, int line);
#define warp_sum(v)                  device_warp_sum(v, __LINE__)
#define warp_max(v)                  device_warp_max(v, __LINE__)
#define warp_sum_double(v)           device_warp_sum_double(v, __LINE__)
#define DEVICE_FOLDS                 1
#endif
#define thread_x()  DEVICE_INDEX(0, thread)
#define threads_x() DEVICE_INDEX(1, threads)
#define block_x()   DEVICE_INDEX(2, block[0])
#define block_y()   DEVICE_INDEX(3, block[1])
#define block_z()   DEVICE_INDEX(4, block[2])
#define blocks_x()  DEVICE_INDEX(5, blocks[0])
#define blocks_y()  DEVICE_INDEX(6, blocks[1])
#define blocks_z()  DEVICE_INDEX(7, blocks[2])
void *device_shared(const void *which, size_t bytes);
void *device_shared_dynamic(size_t bytes);

/* Each takes the line of the call: threads that meet must come from the same one. */
void device_block_barrier(int line);
void device_warp_barrier(int line);
uint32_t device_warp_xor(uint32_t v, int mask, int line);
uint32_t device_warp_from(uint32_t v, int from, int line);
void device_mma_bf16(float *d, const uint32_t *a, const uint32_t *b, int line);
void device_mma_f16(float *d, const uint32_t *a, const uint32_t *b, int line);
void device_mma_tf32(float *d, const uint32_t *a, const uint32_t *b, int line);
void device_load_matrices(uint32_t *r, const uint16_t *row, int is_transposed, int line);
void device_copy_async(void *to, const void *from, int size, int bytes, int line);
void device_copy_commit(int line);
void device_copy_wait(int groups, int line);
bytes_16 device_load_16(const void *from, int line);
void device_store_16(void *to, bytes_16 v, int line);

#define block_barrier()                       device_block_barrier(__LINE__)
#define warp_barrier()                        device_warp_barrier(__LINE__)
#define warp_xor_bits(v, mask)                device_warp_xor(v, mask, __LINE__)
#define warp_from_bits(v, from)               device_warp_from(v, from, __LINE__)
#define warp_mma_bf16(d, a, b)                device_mma_bf16(d, a, b, __LINE__)
#define warp_mma_f16(d, a, b)                 device_mma_f16(d, a, b, __LINE__)
#define warp_mma_tf32(d, a, b)                device_mma_tf32(d, a, b, __LINE__)
#define warp_load_matrices(r, row)            device_load_matrices(r, row, 0, __LINE__)
#define warp_load_matrices_transposed(r, row) device_load_matrices(r, row, 1, __LINE__)
#define copy_async_16(to, from, bytes)        device_copy_async(to, from, 16, bytes, __LINE__)
#define copy_async_4(to, from, bytes)         device_copy_async(to, from, 4, bytes, __LINE__)
#define copy_async_commit()                   device_copy_commit(__LINE__)
#define copy_async_wait(groups)               device_copy_wait(groups, __LINE__)
#define load_16(from)                         device_load_16(from, __LINE__)
#define store_16(to, v)                       device_store_16(to, v, __LINE__)

/* ---- numbers ---- */

static inline float bits_float(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}
static inline uint32_t float_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
/* A function that the GPU only approximates is exact here: tolerances of tests allow for the difference. */
static inline float device_exp2(float x)
{
    const float r = exp2f(x);
    return r < 0x1p-126f ? 0 : r;
}
static inline float device_log2(float x)
{
    return log2f(x);
}
static inline float device_sin(float x)
{
    return sinf(x);
}
static inline float device_cos(float x)
{
    return cosf(x);
}
static inline float device_sqrt(float x)
{
    return sqrtf(x);
}
static inline double device_sqrt_double(double x)
{
    return sqrt(x);
}
static inline float device_divide(float x, float y)
{
    return x / y;
}
static inline float device_fma(float x, float y, float z)
{
    return fmaf(x, y, z);
}
/* To nearest, ties away from zero: 10 bits of mantissa stay. */
static inline uint32_t tf32_round(float x)
{
    const uint32_t b = float_bits(x);
    return (b & 0x7fffffffu) >= 0x7f800000u ? b : (b + 0x1000u) & 0xffffe000u;
}
static inline uint32_t device_bf16(float x)
{
    const uint32_t b = float_bits(x);
    if ((b & 0x7fffffffu) > 0x7f800000u) return 0x7fffu; /* NaN, as the GPU writes it */
    return (b + 0x7fffu + (b >> 16 & 1)) >> 16;
}
static inline uint32_t bf16_pair(float low, float high)
{
    return device_bf16(low) | device_bf16(high) << 16;
}
static inline uint32_t device_f16(float x)
{
    const uint32_t b = float_bits(x), sign = b >> 16 & 0x8000u, size = b & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7fffu;
    if (size >= 0x477ff000u) return sign | 0x7c00u; /* 65520 and above round to infinity */
    if (size < 0x38800000u)                         /* below 2^-14: in steps of 2^-24 */
        return sign | (uint32_t)lrintf(bits_float(size) * 0x1p24f);
    return sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
}
static inline uint32_t f16_pair(float low, float high)
{
    return device_f16(low) | device_f16(high) << 16;
}
static inline float f16_low(uint32_t pair)
{
    const uint32_t sign = (pair & 0x8000u) << 16, exponent = pair >> 10 & 31, fraction = pair & 0x3ffu;
    if (exponent == 31) return bits_float(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0) return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
    return sign != 0 ? -(float)fraction * 0x1p-24f : (float)fraction * 0x1p-24f;
}

#endif
