/* The functions and types of NCCL (libnccl.so.2) that exchanges of GPUs use, declared by megalith itself: no header of
 * NCCL is needed to build, and the library is loaded at run time (nccl.c). device_test_declarations compares them with
 * NCCL's own header where that is. They exist since NCCL 2.10, and no call
 * takes a struct whose form depends on the version. */
#ifndef MEGALITH_CUDA_NCCL_CALLS_H
#define MEGALITH_CUDA_NCCL_CALLS_H

#include "driver.h"

typedef unsigned nccl_result; /* an enum there */
enum {
    NCCL_OK = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,
};
enum { NCCL_INT8 = 0, NCCL_INT32 = 2, NCCL_INT64 = 4, NCCL_F16 = 6, NCCL_F32 = 7, NCCL_F64 = 8, NCCL_BF16 = 9 };
enum { NCCL_SUM = 0, NCCL_MAX = 2, NCCL_MIN = 3 };

typedef struct ncclComm *nccl_comm;
/* One rank makes it, and the others of a communicator receive it by other means. Passed by value. */
#ifdef NCCL_UNIQUE_ID_BYTES /* device_test_declarations includes NCCL's own header too */
typedef ncclUniqueId nccl_id;
#else
typedef struct nccl_id {
    char internal[128];
} nccl_id;
#endif

/* X(member of mega_nccl, symbol, parameters). Counts are elements of one rank's part: `out` of ncclAllGather and
 * `in` of ncclReduceScatter have as many for each rank. */
#define MEGA_NCCL_FUNCTIONS(X)                                                                                 \
    X(version, ncclGetVersion, (int *version))                                                                 \
    X(id_get, ncclGetUniqueId, (nccl_id * out))                                                                \
    X(comm_init, ncclCommInitRank, (nccl_comm * out, int ranks, nccl_id id, int rank))                         \
    X(comm_destroy, ncclCommDestroy, (nccl_comm comm))                                                         \
    X(comm_abort, ncclCommAbort, (nccl_comm comm))                                                             \
    X(comm_error, ncclCommGetAsyncError, (nccl_comm comm, nccl_result * error))                                \
    X(group_start, ncclGroupStart, (void))                                                                     \
    X(group_end, ncclGroupEnd, (void))                                                                         \
    X(all_reduce, ncclAllReduce,                                                                               \
      (const void *in, void *out, size_t count, unsigned type, unsigned op, nccl_comm comm, cu_stream stream)) \
    X(all_gather, ncclAllGather,                                                                               \
      (const void *in, void *out, size_t count, unsigned type, nccl_comm comm, cu_stream stream))              \
    X(reduce_scatter, ncclReduceScatter,                                                                       \
      (const void *in, void *out, size_t count, unsigned type, unsigned op, nccl_comm comm, cu_stream stream)) \
    X(broadcast, ncclBroadcast,                                                                                \
      (const void *in, void *out, size_t count, unsigned type, int root, nccl_comm comm, cu_stream stream))    \
    X(send, ncclSend, (const void *in, size_t count, unsigned type, int to, nccl_comm comm, cu_stream stream)) \
    X(receive, ncclRecv, (void *out, size_t count, unsigned type, int from, nccl_comm comm, cu_stream stream))

typedef struct mega_nccl {
#define X(name, symbol, params) nccl_result(*name) params;
    MEGA_NCCL_FUNCTIONS(X)
#undef X
    const char *(*error_text)(nccl_result error); /* ncclGetErrorString */
    const char *(*last_error)(nccl_comm comm);    /* ncclGetLastError, since NCCL 2.13; NULL: it has none */
} mega_nccl;

#endif
