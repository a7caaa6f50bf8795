/* A named array that a program stores in its checkpoints. */
#ifndef MEGALITH_CLIENT_ARRAY_H
#define MEGALITH_CLIENT_ARRAY_H

#include "megalith/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* When saving, name and data are borrowed for the call; when loaded, they belong to the engine. */
typedef struct mega_client_array {
    const char *name;
    mega_dtype dtype;
    int64_t rows, columns; /* [rows] if columns is 0 */
    const void *data;
} mega_client_array;

#ifdef __cplusplus
}
#endif

#endif
