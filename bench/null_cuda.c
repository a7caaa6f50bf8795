/* A driver of GPUs that does nothing, for bench_device: what is left of a step is the work of the host. It counts the
 * calls; memory is addresses that nobody touches, and what is copied to the host is zero. Here are the functions that
 * return something; the rest are all alike (null_cuda_rest.c). */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define X(name, symbol, params) cu_result symbol params;
MEGA_CUDA_FUNCTIONS(X)
#undef X

uint64_t mega_null_cuda_calls(void);
cu_result null_cuda_done(void);

enum { MEMORY = 1 << 30, ALIGN = 512 };
static uint64_t calls, handles;

cu_result null_cuda_done(void)
{
    calls++;
    return CU_OK;
}

static void *handle(void)
{
    return (void *)(uintptr_t)(++handles);
}

uint64_t mega_null_cuda_calls(void)
{
    return calls;
}

#define MAKES(symbol, params, type) \
    cu_result symbol params         \
    {                               \
        *out = (type)handle();      \
        return null_cuda_done();    \
    }
#define SETS(symbol, params, what) \
    cu_result symbol params        \
    {                              \
        what;                      \
        return null_cuda_done();   \
    }

SETS(cuDriverGetVersion, (int *version), *version = 12040)
SETS(cuGetErrorName, (cu_result error, const char **text), *text = "an error")
SETS(cuGetErrorString, (cu_result error, const char **text), *text = "an error")
SETS(cuDeviceGetCount, (int *count), *count = 1)
SETS(cuDeviceGet, (cu_device * out, int ordinal), *out = 0)
SETS(cuDeviceGetName, (char *name, int bytes, cu_device device), memcpy(name, "nothing", 8))
SETS(cuDeviceGetAttribute, (int *value, unsigned attribute, cu_device device), *value = 8)
SETS(cuDeviceTotalMem_v2, (size_t * bytes, cu_device device), *bytes = (size_t)64 * MEMORY)
SETS(cuDeviceGetPCIBusId, (char *text, int bytes, cu_device device), text[0] = 0)
MAKES(cuDevicePrimaryCtxRetain, (cu_context * out, cu_device device), cu_context)
SETS(cuMemGetInfo_v2, (size_t * free_bytes, size_t *all_bytes), *free_bytes = *all_bytes = (size_t)64 * MEMORY)
SETS(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags), *out = calloc(1, bytes))
SETS(cuMemFreeHost, (void *at), free(at))
SETS(cuMemcpyDtoHAsync_v2, (void *to, cu_address from, size_t bytes, cu_stream stream), memset(to, 0, bytes))
MAKES(cuStreamCreate, (cu_stream * out, unsigned flags), cu_stream)
MAKES(cuEventCreate, (cu_event * out, unsigned flags), cu_event)
SETS(cuEventElapsedTime, (float *milliseconds, cu_event from, cu_event to), *milliseconds = 0)
MAKES(cuModuleLoadDataEx, (cu_module * out, const void *image, unsigned options, unsigned *option, void **value),
      cu_module)
MAKES(cuModuleGetFunction, (cu_function * out, cu_module module, const char *name), cu_function)
SETS(cuFuncGetAttribute, (int *value, unsigned attribute, cu_function function), *value = 0)
MAKES(cuStreamEndCapture, (cu_stream stream, cu_graph *out), cu_graph)
MAKES(cuGraphInstantiateWithFlags, (cu_graph_exec * out, cu_graph graph, unsigned long long flags), cu_graph_exec)

cu_result cuMemAlloc_v2(cu_address *out, size_t bytes)
{
    static cu_address next = (cu_address)1 << 46; /* where no host memory is */
    *out = next;
    next += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return null_cuda_done();
}
