/* Numbers of any type as doubles, for libraries in software. Types are NCCL's. */
#ifndef DEVICE_NUMBER_H
#define DEVICE_NUMBER_H

#include "device.h"
#include "nccl_calls.h"

/* Bytes of a number, 0 for an unknown type. */
static inline size_t number_bytes(uint32_t type)
{
    switch (type) {
    case NCCL_INT8: return 1;
    case NCCL_F16:
    case NCCL_BF16: return 2;
    case NCCL_INT32:
    case NCCL_F32: return 4;
    case NCCL_INT64:
    case NCCL_F64: return 8;
    default: return 0;
    }
}

static inline double number_get(const void *from, uint32_t type, size_t i)
{
    switch (type) {
    case NCCL_F16: return (double)f16_low(((const uint16_t *)from)[i]);
    case NCCL_BF16: return (double)bits_float((uint32_t)((const uint16_t *)from)[i] << 16);
    case NCCL_F32: return (double)((const float *)from)[i];
    case NCCL_F64: return ((const double *)from)[i];
    case NCCL_INT32: return ((const int32_t *)from)[i];
    case NCCL_INT64: return (double)((const int64_t *)from)[i];
    default: return ((const signed char *)from)[i];
    }
}

static inline void number_set(void *to, uint32_t type, size_t i, double v)
{
    switch (type) {
    case NCCL_F16: ((uint16_t *)to)[i] = (uint16_t)f16_pair((float)v, 0); break;
    case NCCL_BF16: ((uint16_t *)to)[i] = (uint16_t)bf16_pair((float)v, 0); break;
    case NCCL_F32: ((float *)to)[i] = (float)v; break;
    case NCCL_F64: ((double *)to)[i] = v; break;
    case NCCL_INT32: ((int32_t *)to)[i] = (int32_t)v; break;
    case NCCL_INT64: ((int64_t *)to)[i] = (int64_t)v; break;
    default: ((signed char *)to)[i] = (signed char)v; break;
    }
}

#endif
