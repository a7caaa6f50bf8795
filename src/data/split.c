/* --split: which items, in order, are for training, validation and test. The rounding is that of Megatron-LM's legacy
 * data sets, so that the same string gives the same documents. */
#include "data_impl.h"
#include "megalith/memory.h"
#include <math.h>
#include <stdlib.h>

/* Parses the weights of up to three parts and normalises their sum to 1. Further parts are ignored, as in Megatron. */
static mega_status split_weights(const char *split, double weight[MEGA_SPLIT_COUNT])
{
    const char separator = strchr(split, ',') != NULL ? ',' : '/';
    double sum = 0;
    const char *p = split;
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) {
        weight[k] = 0;
        if (p == NULL) continue;
        char *end;
        weight[k] = strtod(p, &end);
        const bool empty = end == p;
        while (*end == ' ' || *end == '\t') end++;
        if (empty || (*end != '\0' && *end != separator) || !(weight[k] >= 0) || isinf(weight[k]))
            return MEGA_MISTAKE(
                "--split: found \"%s\", expected up to three numbers of at least 0, separated by ',' or '/', for "
                "train, validation and test; for example 969,30,1",
                split);
        sum += weight[k];
        p = *end == separator ? end + 1 : NULL;
    }
    if (!(sum > 0))
        return MEGA_MISTAKE("--split: found \"%s\", expected at least one part above 0; for example 969,30,1", split);
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) weight[k] /= sum;
    return MEGA_OK;
}

mega_status mega_split_bounds(const char *split, int64_t size, int64_t bounds[MEGA_SPLIT_COUNT + 1])
{
    double weight[MEGA_SPLIT_COUNT];
    MEGA_TRY(split_weights(split, weight));
    bounds[0] = 0;
    /* nearbyint rounds half to even, as Python does. */
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) bounds[k + 1] = bounds[k] + (int64_t)nearbyint(weight[k] * (double)size);
    const int64_t excess = bounds[MEGA_SPLIT_COUNT] - size;
    for (int k = 1; k <= MEGA_SPLIT_COUNT; k++) {
        bounds[k] -= excess;
        /* Subtracting the excess from every bound can move an inner one below its predecessor (0,1,1 of 3). Python
         * would count such a bound from the end; here the part is empty. */
        if (bounds[k] < bounds[k - 1]) bounds[k] = bounds[k - 1];
        if (bounds[k] > size) bounds[k] = size;
    }
    return MEGA_OK;
}
