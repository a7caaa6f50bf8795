/* What the formulas of the optimizers take in an update (optimizer_kernels.h, optimizer_formulas.h); a thread has some
 * of the groups. */
#include "kernel.h"

typedef union double_bits {
    double value;
    uint64_t bits;
} double_bits;

/* The natural logarithm of a normal number above 0: x = 2^e m with m near 1, of which it takes the series of
 * 2 artanh((m - 1) / (m + 1)). */
BODY double log_double(double x)
{
    double_bits m;
    m.value = x;
    int64_t e = (int64_t)(m.bits >> 52) - 1023;
    m.bits = (m.bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    if (m.value > 1.4142135623730951) m.value *= 0.5, e++;
    const double s = (m.value - 1.0) / (m.value + 1.0), ss = s * s;
    double sum = 0.0;
    NO_UNROLL
    for (int k = 23; k > 0; k -= 2) sum = sum * ss + 1.0 / k;
    return (double)e * 0.6931471805599453 + 2.0 * s * sum;
}

/* e^x for |x| < 700: 2^k e^r with r at most log(2) / 2, whose series it takes. */
BODY double exp_double(double x)
{
    const int64_t k = (int64_t)(x * 1.4426950408889634 + (x < 0.0 ? -0.5 : 0.5));
    const double r = (x - (double)k * 0.69314718036912382) - (double)k * 1.9082149292705877e-10;
    double_bits scale;
    double sum = 1.0;
    NO_UNROLL
    for (int n = 14; n > 0; n--) sum = 1.0 + sum * r / n;
    scale.bits = (uint64_t)(k + 1023) << 52;
    return sum * scale.value;
}

/* x^y for x of at least 0: by squaring where y is whole, as the number of an update is. */
BODY double power_double(double x, double y)
{
    if (y >= 0.0 && y < 9007199254740992.0 && (double)(int64_t)y == y) return whole_power(x, (int64_t)y);
    return x == 0.0 ? 0.0 : exp_double(y * log_double(x));
}

#define POW               power_double
#define EXP               exp_double
#define LOG               log_double
#define SQRT              device_sqrt_double
#define NUMBERS_OF_UPDATE BODY
#define NUMBERS(name)     BODY void numbers_##name(const mega_numbers_args *a, const numbers_given *c, double *n)
#include "megalith/optimizer_formulas.h"

KERNEL(numbers, mega_numbers_args, 32)
{
    double carried[MEGA_UPDATE_CARRIED], share;
    if (MEGA_UPDATE_IS_REFUSED(a.block)) return;
    numbers_carry(&a, carried, &share);
    for (int64_t g = thread_x(); g < a.groups; g += 32) numbers_of_group(&a, share, g);
    block_barrier(); /* all have read what the block has carried */
    if (thread_x() == 0)
        for (int i = 0; i < MEGA_UPDATE_CARRIED; i++) a.block->carried[i] = carried[i];
}
