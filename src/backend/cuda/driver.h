/* The functions and types of NVIDIA's driver (libcuda.so.1) that megalith uses, declared by megalith itself: no toolkit
 * is needed to build, and the library is loaded at run time. device_test_declarations compares them with cuda.h where
 * that is. They exist since CUDA 11.4 (driver 470) under exactly these symbols. */
#ifndef MEGALITH_CUDA_DRIVER_H
#define MEGALITH_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned cu_result; /* an enum there; of its values only these have a meaning here */
enum {
    CU_OK = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_STUB_LIBRARY = 34,
    CU_DEVICE_UNAVAILABLE = 46,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_NOT_LICENSED = 102,
    CU_INVALID_IMAGE = 200,
    CU_INVALID_CONTEXT = 201,
    CU_NO_BINARY_FOR_GPU = 209,
    CU_ECC_UNCORRECTABLE = 214,
    CU_INVALID_PTX = 218,
    CU_NVLINK_UNCORRECTABLE = 220,
    CU_JIT_COMPILER_NOT_FOUND = 221,
    CU_UNSUPPORTED_PTX_VERSION = 222,
    CU_INVALID_HANDLE = 400,
    CU_NOT_FOUND = 500,
    CU_NOT_READY = 600,
    CU_ILLEGAL_ADDRESS = 700,
    CU_LAUNCH_OUT_OF_RESOURCES = 701,
    CU_LAUNCH_TIMEOUT = 702,
    CU_HARDWARE_STACK_ERROR = 714,
    CU_ILLEGAL_INSTRUCTION = 715,
    CU_MISALIGNED_ADDRESS = 716,
    CU_LAUNCH_FAILED = 719,
    CU_SYSTEM_NOT_READY = 802,
    CU_SYSTEM_DRIVER_MISMATCH = 803,
    CU_COMPAT_NOT_SUPPORTED = 804,
    CU_MPS_CONNECTION_FAILED = 805,
    CU_MPS_MAX_CLIENTS = 808,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURE_INVALIDATED = 901,
    CU_CAPTURE_UNMATCHED = 903,
    CU_CAPTURE_UNJOINED = 904,
    CU_CAPTURE_ISOLATION = 905,
    CU_CAPTURED_EVENT = 907,
    CU_UNKNOWN = 999,
};

typedef int cu_device;
typedef unsigned long long cu_address; /* of device memory */
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream; /* NULL, the legacy stream, is not used: it would wait for all others */
typedef struct CUevent_st *cu_event;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphExec_st *cu_graph_exec;
typedef struct CUgraphNode_st *cu_graph_node;

enum { /* attributes of a device */
       CU_MAX_THREADS_PER_BLOCK = 1,
       CU_MULTIPROCESSORS = 16,
       CU_CLOCK_KHZ = 13,
       CU_MEMORY_CLOCK_KHZ = 36,
       CU_MEMORY_BUS_BITS = 37,
       CU_ECC_ENABLED = 32,
       CU_CAPABILITY_MAJOR = 75,
       CU_CAPABILITY_MINOR = 76,
       CU_SHARED_BYTES_OPTIN = 97, /* shared memory that a block may have after cuFuncSetAttribute */
};
enum { /* attributes of a function */
       CU_FUNCTION_MAX_THREADS = 0,
       CU_FUNCTION_SHARED_BYTES = 1,
       CU_FUNCTION_LOCAL_BYTES = 3, /* spilled registers and arrays of a thread */
       CU_FUNCTION_REGISTERS = 4,
       CU_FUNCTION_DYNAMIC_SHARED_BYTES = 8, /* the only one that is set */
};
enum { /* options of cuModuleLoadDataEx, whose values are passed as pointers */
       CU_JIT_ERROR_LOG = 5,
       CU_JIT_ERROR_LOG_BYTES = 6,
};
enum { CU_NON_BLOCKING = 1, CU_NO_TIMING = 2 }; /* flags of creation, of a stream and of an event */
enum { CU_CAPTURE_THREAD = 1 };                 /* of cuStreamBeginCapture */

enum { CU_HOST = 1, CU_DEVICE = 2 }; /* kinds of memory */

/* A copy of `rows` rows of `bytes` bytes, which are `pitch` bytes apart; x bytes and y rows come before the first. */
#define CU_COPY_2D_MEMBERS \
    size_t from_x, from_y; \
    unsigned from_kind;    \
    const void *from_host; \
    cu_address from;       \
    void *from_array;      \
    size_t from_pitch;     \
    size_t to_x, to_y;     \
    unsigned to_kind;      \
    void *to_host;         \
    cu_address to;         \
    void *to_array;        \
    size_t to_pitch;       \
    size_t bytes, rows;
#ifndef CUDA_VERSION /* device_test_declarations includes cuda.h too */
struct CUDA_MEMCPY2D_st {
    CU_COPY_2D_MEMBERS
};
struct CUuuid_st {
    char bytes[16];
};
#endif
typedef struct CUDA_MEMCPY2D_st cu_copy_2d;
typedef struct CUuuid_st cu_uuid;
#define CU_MOST_PITCH ((size_t)INT32_MAX)

/* X(member of mega_cuda_driver, symbol, parameters) */
#define MEGA_CUDA_FUNCTIONS(X)                                                                                         \
    X(init, cuInit, (unsigned flags))                                                                                  \
    X(driver_version, cuDriverGetVersion, (int *version))                                                              \
    X(error_name, cuGetErrorName, (cu_result error, const char **text))                                                \
    X(error_text, cuGetErrorString, (cu_result error, const char **text))                                              \
    X(device_count, cuDeviceGetCount, (int *count))                                                                    \
    X(device_get, cuDeviceGet, (cu_device * out, int ordinal))                                                         \
    X(device_name, cuDeviceGetName, (char *name, int bytes, cu_device device))                                         \
    X(device_attribute, cuDeviceGetAttribute, (int *value, unsigned attribute, cu_device device))                      \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, cu_device device))                                          \
    X(device_uuid, cuDeviceGetUuid_v2, (cu_uuid * out, cu_device device))                                              \
    X(device_bus_id, cuDeviceGetPCIBusId, (char *text, int bytes, cu_device device))                                   \
    X(context_retain, cuDevicePrimaryCtxRetain, (cu_context * out, cu_device device))                                  \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (cu_device device))                                               \
    X(context_set, cuCtxSetCurrent, (cu_context context))                                                              \
    X(context_push, cuCtxPushCurrent_v2, (cu_context context))                                                         \
    X(context_pop, cuCtxPopCurrent_v2, (cu_context * out))                                                             \
    X(context_get, cuCtxGetCurrent, (cu_context * out))                                                                \
    X(context_wait, cuCtxSynchronize, (void))                                                                          \
    X(memory_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * all_bytes))                                         \
    X(memory_alloc, cuMemAlloc_v2, (cu_address * out, size_t bytes))                                                   \
    X(memory_free, cuMemFree_v2, (cu_address at))                                                                      \
    X(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                                          \
    X(host_free, cuMemFreeHost, (void *at))                                                                            \
    X(copy_in, cuMemcpyHtoDAsync_v2, (cu_address to, const void *from, size_t bytes, cu_stream stream))                \
    X(copy_out, cuMemcpyDtoHAsync_v2, (void *to, cu_address from, size_t bytes, cu_stream stream))                     \
    X(copy, cuMemcpyDtoDAsync_v2, (cu_address to, cu_address from, size_t bytes, cu_stream stream))                    \
    X(copy_2d, cuMemcpy2DAsync_v2, (const cu_copy_2d *what, cu_stream stream))                                         \
    X(fill_8, cuMemsetD8Async, (cu_address to, unsigned char value, size_t count, cu_stream stream))                   \
    X(fill_32, cuMemsetD32Async, (cu_address to, unsigned value, size_t count, cu_stream stream))                      \
    X(stream_create, cuStreamCreate, (cu_stream * out, unsigned flags))                                                \
    X(stream_destroy, cuStreamDestroy_v2, (cu_stream stream))                                                          \
    X(stream_wait, cuStreamSynchronize, (cu_stream stream))                                                            \
    X(stream_query, cuStreamQuery, (cu_stream stream))                                                                 \
    X(stream_wait_event, cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned flags))                        \
    X(event_create, cuEventCreate, (cu_event * out, unsigned flags))                                                   \
    X(event_destroy, cuEventDestroy_v2, (cu_event event))                                                              \
    X(event_record, cuEventRecord, (cu_event event, cu_stream stream))                                                 \
    X(event_query, cuEventQuery, (cu_event event))                                                                     \
    X(event_wait, cuEventSynchronize, (cu_event event))                                                                \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, cu_event from, cu_event to))                            \
    X(module_load, cuModuleLoadDataEx,                                                                                 \
      (cu_module * out, const void *image, unsigned options, unsigned *option, void **value))                          \
    X(module_unload, cuModuleUnload, (cu_module module))                                                               \
    X(module_function, cuModuleGetFunction, (cu_function * out, cu_module module, const char *name))                   \
    X(function_attribute, cuFuncGetAttribute, (int *value, unsigned attribute, cu_function function))                  \
    X(function_set_attribute, cuFuncSetAttribute, (cu_function function, unsigned attribute, int value))               \
    X(launch, cuLaunchKernel,                                                                                          \
      (cu_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,              \
       unsigned threads_y, unsigned threads_z, unsigned shared_bytes, cu_stream stream, void **params, void **extra))  \
    X(capture_begin, cuStreamBeginCapture_v2, (cu_stream stream, unsigned mode))                                       \
    X(capture_end, cuStreamEndCapture, (cu_stream stream, cu_graph * out))                                             \
    X(graph_instantiate, cuGraphInstantiateWithFlags, (cu_graph_exec * out, cu_graph graph, unsigned long long flags)) \
    X(graph_launch, cuGraphLaunch, (cu_graph_exec exec, cu_stream stream))                                             \
    X(graph_destroy, cuGraphDestroy, (cu_graph graph))                                                                 \
    X(graph_exec_destroy, cuGraphExecDestroy, (cu_graph_exec exec))

/* The functions of a loaded driver. */
typedef struct mega_cuda_driver {
#define X(name, symbol, params) cu_result(*name) params;
    MEGA_CUDA_FUNCTIONS(X)
#undef X
} mega_cuda_driver;

#endif
