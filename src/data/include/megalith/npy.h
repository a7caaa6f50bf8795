/* Arrays in NumPy's file format, version 1.0: of one or two dimensions, in C order, little-endian. */
#ifndef MEGALITH_NPY_H
#define MEGALITH_NPY_H

#include "megalith/status.h"
#include <stddef.h>
#include <stdint.h>

typedef enum mega_npy_type { MEGA_NPY_I4, MEGA_NPY_U4, MEGA_NPY_I8, MEGA_NPY_F4 } mega_npy_type;
enum { MEGA_NPY_HEADER_MAX = 256 };
size_t mega_npy_element(mega_npy_type type);
/* Writes the header of an array [rows] (columns 0) or [rows, columns]; returns its size, a multiple of 64. */
size_t mega_npy_header(char out[MEGA_NPY_HEADER_MAX], mega_npy_type type, int64_t rows, int64_t columns);
/* Writes PATH.tmp-OWNER, syncs it and renames it. *out_crc: CRC-32C of the whole file. */
mega_status mega_npy_write(const char *path, mega_npy_type type, int64_t rows, int64_t columns, const void *data,
                           uint32_t *out_crc);

#endif
