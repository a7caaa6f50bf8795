/* Selects the body for this processor's instruction set. */
#include "cpu/normal.h"
#include "megalith/threads.h"

void mega_normal_pairs(double *out, uint32_t seed, uint32_t name_hash, uint64_t first, int64_t count)
{
    normal_pairs_body *body = mega_normal_pairs_portable;
#if defined(__x86_64__)
    const mega_isa isa = mega_cpu_isa();
    if (isa >= MEGA_ISA_AVX512) body = mega_normal_pairs_avx512;
    else if (isa >= MEGA_ISA_AVX2)
        body = mega_normal_pairs_avx2;
#endif
    body(out, seed, name_hash, first, count);
}
