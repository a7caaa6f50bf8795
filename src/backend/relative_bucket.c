/* Buckets of relative positions (ops_attention.h). */
#include "megalith/ops_attention.h"

#include <math.h>

/* Where a distance is exactly at the edge of two buckets, the logarithm may come out a rounding too small. */
#define EDGE 1e-9

int64_t mega_relative_bucket(int64_t distance, int64_t buckets, int64_t most, bool one_side)
{
    const int64_t side = one_side ? buckets : buckets / 2, exact = side / 2;
    const int64_t begin = !one_side && distance > 0 ? side : 0;
    const int64_t away = distance <= 0 ? -distance : one_side ? 0 : distance;
    if (away < exact) return begin + away;
    if (away >= most) return begin + side - 1;
    const double steps = log((double)away / (double)exact) / log((double)most / (double)exact);
    const int64_t bucket = exact + (int64_t)(steps * (double)(side - exact) + EDGE);
    return begin + (bucket < side ? bucket : side - 1);
}
