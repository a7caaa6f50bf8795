/* The bodies for any processor: vectors of 16 bytes, which every target of the compiler has or imitates. */
#define VECTOR_BYTES 16
#include "cpu/all_body.c"

const cpu_bodies mega_cpu_bodies_portable = BODIES;
