/* Which kernels compute. */
#ifndef MEGALITH_BACKEND_KIND_H
#define MEGALITH_BACKEND_KIND_H

/* The plain kernels define what each computes; the others are fast. Those of CUDA run on a GPU (megalith/cuda.h). */
typedef enum mega_backend_kind { MEGA_BACKEND_CPU, MEGA_BACKEND_PLAIN, MEGA_BACKEND_CUDA } mega_backend_kind;

#endif
