/* What gemm.c shares with gemm_onednn.c, and with kernels that consist of products. */
#ifndef MEGA_CPU_GEMM_IMPL_H
#define MEGA_CPU_GEMM_IMPL_H

#include "cpu/share.h"
#include "megalith/assert.h"

/* Bytes of scratch of one thread; false: oneDNN has nothing for this product here. */
bool mega_onednn_scratch(const mega_gemm_args *a, size_t *bytes);
/* The primitives of this product; *handle is what run finds in head.handle and release takes. */
mega_status mega_onednn_prepare(void **handle, const mega_gemm_args *a, int threads);
void mega_onednn_release(void *handle);
void mega_onednn_run(mega_team *team, const mega_gemm_args *a);
const char *mega_onednn_description(char *out, int size);

/* A product inside another kernel, always done here (never by oneDNN): the bytes of scratch that it takes, and the
 * product itself. */
size_t mega_gemm_own_scratch(const mega_gemm_args *a, int threads);
void mega_gemm_own_run(mega_team *team, const mega_gemm_args *a);

#endif
