/* Selects the bodies for this processor's instruction set. */
#include "cpu/bodies.h"

const cpu_bodies *mega_cpu_bodies_get(void)
{
#if defined(__x86_64__)
    switch (mega_cpu_isa()) {
    case MEGA_ISA_AMX:
    case MEGA_ISA_AVX512_BF16: return &mega_cpu_bodies_avx512_rounding;
    case MEGA_ISA_AVX512: return &mega_cpu_bodies_avx512;
    case MEGA_ISA_AVX2: return &mega_cpu_bodies_avx2;
    case MEGA_ISA_PORTABLE: break;
    }
#endif
    return &mega_cpu_bodies_portable;
}
