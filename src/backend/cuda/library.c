/* NVIDIA's driver: loading its library, and what its errors mean to a user. */
#include "gpu.h"
#include "megalith/status.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_DRIVER 11040 /* has all functions of driver.h */

static mega_status load_symbols(void *library, const char *path, mega_cuda_driver *out)
{
    void *symbol;
#define X(member, name, params)                                                                                      \
    symbol = dlsym(library, #name);                                                                                  \
    if (symbol == NULL)                                                                                              \
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,                                                                       \
                         "%s has no function %s: the driver is too old; install NVIDIA's driver 470 or newer", path, \
                         #name);                                                                                     \
    memcpy(&out->member, &symbol, sizeof symbol);
    MEGA_CUDA_FUNCTIONS(X)
#undef X
    return MEGA_OK;
}

mega_status mega_cuda_library_load(mega_cuda_driver *out)
{
    const char *path = getenv("MEGA_CUDA_LIBRARY");
    const bool is_given = path != NULL && path[0] != '\0';
    if (!is_given) path = "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays loaded: a driver has threads of its own */
    if (library == NULL && is_given) return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "MEGA_CUDA_LIBRARY: %s", dlerror());
    if (library == NULL)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "no NVIDIA driver: %s; install it (nvidia-smi then shows the GPUs), or start the container "
                         "with --gpus all",
                         dlerror());
    MEGA_TRY(load_symbols(library, path, out));
    int version = 0;
    MEGA_TRY(mega_cuda_check(out, out->driver_version(&version), "the version of NVIDIA's driver"));
    if (version >= OLDEST_DRIVER) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "NVIDIA's driver is for CUDA %d.%d; 11.4 (driver 470) or newer is needed: install a newer driver",
                     version / 1000, version % 1000 / 10);
}

/* What a user can do. */
static const char *advice(cu_result result)
{
    switch (result) {
    case CU_OUT_OF_MEMORY: return "; nvidia-smi shows who else has memory of the GPU";
    case CU_ECC_UNCORRECTABLE:
        return "; the GPU's memory is damaged (nvidia-smi -q -d ECC): resume from the last checkpoint on another GPU";
    case CU_ILLEGAL_ADDRESS:
    case CU_LAUNCH_FAILED:
        return "; dmesg | grep Xid may name a fault of the hardware; otherwise report it as a mistake of megalith";
    case CU_NO_BINARY_FOR_GPU:
    case CU_UNSUPPORTED_PTX_VERSION: return "; a newer driver may know this GPU";
    case CU_NO_DEVICE:
        return getenv("CUDA_VISIBLE_DEVICES") != NULL
                   ? "; CUDA_VISIBLE_DEVICES is set: it names the GPUs that a program may see"
                   : "; nvidia-smi shows the GPUs; a container needs --gpus all";
    default: return "";
    }
}

mega_status mega_cuda_check(const mega_cuda_driver *cuda, cu_result result, const char *what)
{
    const char *name = "unknown", *text = "unknown error";
    if (result == CU_OK) return MEGA_OK;
    if (cuda->error_name(result, &name) != CU_OK || name == NULL) name = "unknown";
    if (cuda->error_text(result, &text) != CU_OK || text == NULL) text = "unknown error";
    const mega_status code = result == CU_OUT_OF_MEMORY ? MEGA_ERR_MEMORY
                             : result == CU_NO_DEVICE   ? MEGA_ERR_UNSUPPORTED
                                                        : MEGA_ERR_IO;
    return MEGA_FAIL(code, "%s: %s (%s, error %u of CUDA)%s", what, text, name, result, advice(result));
}
