/* The bodies for any processor, with vectors of 16 bytes, which compilers support or emulate on every target. */
#define VECTOR_BYTES 16
#include "cpu/all_body.c"

const cpu_bodies mega_cpu_bodies_portable = BODIES(OWN);
