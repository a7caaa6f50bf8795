/* Normal random numbers on any processor. */
#define VECTOR_BYTES 16
#define NORMAL_PAIRS mega_normal_pairs_portable
#include "cpu/normal_body.c"
