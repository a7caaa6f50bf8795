/* Confidence intervals of measured shares. */
#ifndef MEGALITH_INTERVAL_H
#define MEGALITH_INTERVAL_H

#include <math.h>
#include <stdint.h>

#define MEGA_NORMAL_95 \
    1.959963984540054 /* 95 % of a normal distribution lie within this many standard deviations of its mean */

typedef struct mega_interval {
    double low, high;
} mega_interval;

/* Returns Wilson's interval (1927) of 95 % for the share of `hits` among `total` independent trials. */
static inline mega_interval mega_interval_of_share(int64_t hits, int64_t total)
{
    const double n = (double)total, z = MEGA_NORMAL_95, p = total > 0 ? (double)hits / n : 0;
    mega_interval r = {0, 1};
    if (total < 1) return r;
    const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
    const double half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
    if (hits > 0) r.low = middle - half; /* rounding must not exclude a share of 0 or 1 */
    if (hits < total) r.high = middle + half;
    return r;
}

#endif
