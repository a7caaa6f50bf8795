/* Slopes of ALiBi (ops_attention.h). */
#include "attention_rules.h"

#include <math.h>

/* Bases and powers are rounded to float, as in transformers. */
double mega_alibi_slope(int64_t head, int64_t heads)
{
    int64_t lower = 1;
    while (2 * lower <= heads) lower *= 2;
    const bool is_extra = head >= lower;
    const double base = pow(2.0, -8.0 / (double)(is_extra ? 2 * lower : lower));
    const int64_t power = is_extra ? 2 * (head - lower) + 1 : head + 1;
    return (float)pow((double)(float)base, (double)power);
}
