/* All that a CUDA kernel may use. Three compilers read it: nvcc and clang, for which each name below is a built-in or
 * one instruction of PTX 7.0 (compute capability 8.0), and any C compiler, for which the names are functions of the
 * software device (tests/device/), so that the kernels that ship are the ones that are tested without a GPU.
 *
 * A kernel is C17 that is also C++: no templates, no headers of NVIDIA, no libdevice, no atomics (the bits of a result
 * may not depend on scheduling). The arguments are one struct by value, the op's own where there is one:
 *
 *     KERNEL(NAME, TYPE, 256) { ... uses the struct of this type as `a`, and has 256 threads in a block ... }
 *
 * The threads of a block are numbered by thread_x() alone, blocks by x, y and z. Warps have 32 threads: a block has a
 * multiple of 32. Operations of a warp are made by all of its 32 lanes at the same place of the source, barriers by all
 * threads of the block; none of them may stand in a branch that some of these threads do not take. Only barriers order
 * the threads: not even the lanes of a warp run in step. */
#ifndef MEGALITH_CUDA_DEVICE_H
#define MEGALITH_CUDA_DEVICE_H

#include <stdint.h>

/* 16 bytes that are read or written at once. */
typedef struct bytes_16 {
    uint32_t v[4];
} __attribute__((aligned(16))) bytes_16;

#if defined(__CUDACC__) || defined(__CUDA__)

#ifdef __clang__ /* without the toolkit's headers */
#define __global__           __attribute__((global))
#define __device__           __attribute__((device))
#define __shared__           __attribute__((shared))
#define DEVICE_BOUNDS(n)     __attribute__((launch_bounds(n)))
#define DEVICE_CONSTANT
#else
/* One block at least: without that number nvcc keeps some registers in memory to fit one more block. */
#define DEVICE_BOUNDS(n) __launch_bounds__(n, 1)
#define DEVICE_CONSTANT __grid_constant__
#endif

#define DEVICE static __device__ inline
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1") /* where copies would keep addresses in registers */
/* The function that follows is the kernel `name`: `type a` is its argument. */
#define KERNEL(name, type, threads) \
    extern "C" __global__ void DEVICE_BOUNDS(threads) name(const DEVICE_CONSTANT type a)
/* `name` points to one `type` that all threads of the block share; contents undefined at first. At most 48 KB for all
 * of a kernel. */
#define SHARED(type, name)                                        \
    static __shared__ __attribute__((aligned(128))) type name##_; \
    type *const name = &name##_
/* The same, of the size that the launch gives, at most 99 KB: one of these in a kernel, and no SHARED beside it. */
#define SHARED_DYNAMIC(type, name)                                            \
    extern __shared__ __attribute__((aligned(128))) char device_shared_end[]; \
    type *const name = (type *)device_shared_end

#define DEVICE_REGISTER(name, register)               \
    DEVICE unsigned name(void)                        \
    {                                                 \
        unsigned r;                                   \
        asm("mov.u32 %0, %%" register ";" : "=r"(r)); \
        return r;                                     \
    }
DEVICE_REGISTER(thread_x, "tid.x")
DEVICE_REGISTER(threads_x, "ntid.x")
DEVICE_REGISTER(block_x, "ctaid.x")
DEVICE_REGISTER(block_y, "ctaid.y")
DEVICE_REGISTER(block_z, "ctaid.z")
DEVICE_REGISTER(blocks_x, "nctaid.x")
DEVICE_REGISTER(blocks_y, "nctaid.y")
DEVICE_REGISTER(blocks_z, "nctaid.z")

/* ---- order ---- */

/* What threads of the block wrote before it, all of them may read after it. */
DEVICE void block_barrier(void)
{
    asm volatile("bar.sync 0;" ::: "memory");
}
/* The same for the lanes of a warp. */
DEVICE void warp_barrier(void)
{
    asm volatile("bar.warp.sync -1;" ::: "memory");
}

/* ---- exchange between the lanes of a warp ---- */

/* Returns the value of lane `lane ^ mask`. */
DEVICE uint32_t warp_xor_bits(uint32_t v, int mask)
{
    uint32_t r;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(r) : "r"(v), "r"(mask));
    return r;
}
/* Returns the value of lane `from` (0 to 31), which each lane may choose for itself. */
DEVICE uint32_t warp_from_bits(uint32_t v, int from)
{
    uint32_t r;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=r"(r) : "r"(v), "r"(from));
    return r;
}

/* ---- matrix products of a warp; fragments as in the PTX manual ---- */

/* d[16, 8] += a[16, 16] b[16, 8]: a and b bf16, d f32. */
DEVICE void warp_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* The same with a and b f16. */
DEVICE void warp_mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* d[16, 8] += a[16, 8] b[8, 8]: a and b numbers that tf32_round has rounded. */
DEVICE void warp_mma_tf32(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE uint32_t tf32_round(float x)
{
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

/* (By a cast where the compiler knows the kinds of memory: it then adds constants to one address instead of keeping
 * many in registers.) */
DEVICE uint32_t device_shared_address(const void *p)
{
#ifdef __clang__
    return (uint32_t)(uintptr_t)(const __attribute__((address_space(3))) char *)p;
#else
    uint64_t r;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(r) : "l"(p));
    return (uint32_t)r;
#endif
}
/* Four matrices of 8 x 8 numbers of 16 bits, from shared memory: lane l gives the address of row l % 8 of matrix
 * l / 8, a multiple of 16, and receives in r[m] the numbers 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix m. */
DEVICE void warp_load_matrices(uint32_t r[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(device_shared_address(row))
                 : "memory");
}
/* The same with each matrix transposed. */
DEVICE void warp_load_matrices_transposed(uint32_t r[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(device_shared_address(row))
                 : "memory");
}

/* ---- asynchronous copies to shared memory ---- */

/* Starts to copy 16 bytes, or to write 16 zeros if `bytes` is 0 (`from` is then not read, but must be an address of the
 * device). Both addresses are multiples of 16. The copies since the last commit form a group. The thread sees what it
 * copied after the wait, other threads after a barrier behind that. */
DEVICE void copy_async_16(void *to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(device_shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}
/* The same for 4 bytes and multiples of 4: for rows that begin anywhere. */
DEVICE void copy_async_4(void *to, const void *from, int bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(device_shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}
DEVICE void copy_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most the last `groups` groups are under way; a constant. */
#define copy_async_wait(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")

/* 16 bytes at a multiple of 16. */
DEVICE bytes_16 load_16(const void *from)
{
    return *(const bytes_16 *)from;
}
DEVICE void store_16(void *to, bytes_16 v)
{
    *(bytes_16 *)to = v;
}

/* ---- numbers ---- */

#define DEVICE_FUNCTION(name, instruction)              \
    DEVICE float name(float x)                          \
    {                                                   \
        float r;                                        \
        asm(instruction " %0, %1;" : "=f"(r) : "f"(x)); \
        return r;                                       \
    }
DEVICE_FUNCTION(device_exp2, "ex2.approx.ftz.f32") /* within 2 ulp; results below 2^-126 are 0 */
DEVICE_FUNCTION(device_log2, "lg2.approx.f32")     /* within 2^-22, absolute */
DEVICE_FUNCTION(device_sin, "sin.approx.f32")      /* within 2^-20, absolute, for |x| <= pi */
DEVICE_FUNCTION(device_cos, "cos.approx.f32")
DEVICE_FUNCTION(device_sqrt, "sqrt.rn.f32") /* rounded correctly, as device_divide */
DEVICE double device_sqrt_double(double x)
{
    double r;
    asm("sqrt.rn.f64 %0, %1;" : "=d"(r) : "d"(x));
    return r;
}
DEVICE float device_divide(float x, float y)
{
    float r;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
/* x y + z, rounded once. */
DEVICE float device_fma(float x, float y, float z)
{
    float r;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(x), "f"(y), "f"(z));
    return r;
}
DEVICE uint32_t float_bits(float x)
{
    uint32_t r;
    asm("mov.b32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}
DEVICE float bits_float(uint32_t b)
{
    float r;
    asm("mov.b32 %0, %1;" : "=f"(r) : "r"(b));
    return r;
}
/* Two numbers of 16 bits, rounded to nearest even; `low` is in the low half. */
DEVICE uint32_t bf16_pair(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
DEVICE uint32_t f16_pair(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
DEVICE float f16_low(uint32_t pair)
{
    float r;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(r) : "r"(pair));
    return r;
}

#else
#include "device_host.h"
#endif

/* ---- the same for all compilers ---- */

DEVICE float f16_high(uint32_t pair)
{
    return f16_low(pair >> 16);
}
DEVICE float bf16_low(uint32_t pair)
{
    return bits_float(pair << 16);
}
DEVICE float bf16_high(uint32_t pair)
{
    return bits_float(pair & 0xffff0000u);
}
/* y if one of them is a NaN: see warp_max. */
DEVICE float device_max(float x, float y)
{
    return x > y ? x : y;
}
DEVICE float device_min(float x, float y)
{
    return x < y ? x : y;
}
/* Within 2^-21 of tanh, relative: 1 - 2 / (e^2x + 1) loses the digits of a small x, for which there is a series. */
DEVICE float device_tanh(float x)
{
    const float xx = x * x, m = xx < 0.0625f ? xx : 0.0625f;
    const float series = x * (1 + m * (-1 / 3.0f + m * (2 / 15.0f + m * (-17 / 315.0f + m * (62 / 2835.0f)))));
    const float large = 1 - device_divide(2, device_exp2(x * 2.8853900817779268f) + 1);
    return xx < 0.0625f ? series : large;
}
DEVICE uint32_t multiply_high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

DEVICE float warp_xor(float v, int mask)
{
    return bits_float(warp_xor_bits(float_bits(v), mask));
}
DEVICE float warp_from(float v, int from)
{
    return bits_float(warp_from_bits(float_bits(v), from));
}
#ifndef DEVICE_FOLDS /* the software device has the same, in one step */
/* The sum over the lanes of a warp, in a fixed order, the same bits in all of them. */
DEVICE float warp_sum(float v)
{
    UNROLL
    for (int m = 16; m > 0; m /= 2) v += warp_xor(v, m);
    return v;
}
/* The maximum over the lanes of a warp. None may have a NaN: the lanes would differ. */
DEVICE float warp_max(float v)
{
    UNROLL
    for (int m = 16; m > 0; m /= 2) v = device_max(v, warp_xor(v, m));
    return v;
}
DEVICE double warp_sum_double(double v)
{
    UNROLL
    for (int m = 16; m > 0; m /= 2) {
        union {
            double d;
            uint32_t v[2];
        } x;
        x.d = v;
        x.v[0] = warp_xor_bits(x.v[0], m);
        x.v[1] = warp_xor_bits(x.v[1], m);
        v += x.d;
    }
    return v;
}
#endif

/* Philox 4x32-10: the random numbers of megalith/philox.h. */
typedef struct device_philox {
    uint32_t v[4];
} device_philox;
DEVICE device_philox philox_4x32(device_philox c, uint32_t key0, uint32_t key1)
{
    UNROLL
    for (int round = 0; round < 10; round++) {
        const uint32_t high0 = multiply_high(0xD2511F53u, c.v[0]), low0 = 0xD2511F53u * c.v[0];
        const uint32_t high1 = multiply_high(0xCD9E8D57u, c.v[2]), low1 = 0xCD9E8D57u * c.v[2];
        c.v[0] = high1 ^ c.v[1] ^ key0;
        c.v[1] = low1;
        c.v[2] = high0 ^ c.v[3] ^ key1;
        c.v[3] = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

#endif
