/* NVIDIA's driver: loading its library, and what its errors mean to a user. */
#include "gpu.h"
#include "megalith/status.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* A container sees the kernel's modules, and the driver's library only if it was started for GPUs. */
static mega_status no_driver(const char *reason, const char *of_kernel)
{
    if (access(of_kernel, R_OK) == 0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "this machine has NVIDIA's driver, whose library is not here: %s; start the container with "
                         "--gpus all (Podman: --device nvidia.com/gpu=all)",
                         reason);
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "no NVIDIA driver: %s; install it (nvidia-smi then shows the GPUs), or start the container with "
                     "--gpus all",
                     reason);
}

mega_status mega_cuda_library_load(mega_cuda_driver *out)
{
    const char *path = getenv("MEGA_CUDA_LIBRARY");
    const bool is_given = path != NULL && path[0] != '\0';
    if (!is_given) path = "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays loaded: a driver has threads of its own */
    if (library == NULL && is_given) return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "MEGA_CUDA_LIBRARY: %s", dlerror());
    if (library == NULL) return no_driver(dlerror(), "/proc/driver/nvidia/version");
    MEGA_TRY(load_symbols(library, path, out));
    int version = 0;
    MEGA_TRY(mega_cuda_check(out, out->driver_version(&version), "the version of NVIDIA's driver"));
    if (version >= OLDEST_DRIVER) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "NVIDIA's driver is for CUDA %d.%d; 11.4 (driver 470) or newer is needed: install a newer driver",
                     version / 1000, version % 1000 / 10);
}

/* What an error means to a user, and what to do. Xid numbers are NVIDIA's, in the kernel's log. */
#define FAULT                                                                                                       \
    "dmesg | grep Xid names a fault of the hardware (48, 63, 64, 94, 95: memory; 74: NVLink; 79: the GPU has left " \
    "the bus): then resume from the last checkpoint on another GPU; otherwise report it as a mistake of megalith"
static const struct {
    cu_result error;
    mega_status code;
    const char *advice;
} meaning[] = {
    {CU_OUT_OF_MEMORY, MEGA_ERR_MEMORY, "megalith plan with the same options lists what would take less"},
    {CU_STUB_LIBRARY, MEGA_ERR_UNSUPPORTED,
     "this libcuda.so.1 is the toolkit's, for linking only; take its folder out of LD_LIBRARY_PATH"},
    {CU_DEVICE_UNAVAILABLE, MEGA_ERR_UNSUPPORTED,
     "another process has the GPU for itself (nvidia-smi shows it; nvidia-smi -q -d COMPUTE shows the mode)"},
    {CU_NOT_LICENSED, MEGA_ERR_UNSUPPORTED, "this virtual GPU has no licence; nvidia-smi -q shows its licence server"},
    {CU_NO_BINARY_FOR_GPU, MEGA_ERR_IO, "a newer driver may know this GPU"},
    {CU_UNSUPPORTED_PTX_VERSION, MEGA_ERR_IO, "a newer driver may know this GPU"},
    {CU_JIT_COMPILER_NOT_FOUND, MEGA_ERR_UNSUPPORTED,
     "the driver's library libnvidia-ptxjitcompiler.so.1 is missing, which compiles the kernels for this GPU: install "
     "the "
     "driver's compute libraries, in a container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
    {CU_ECC_UNCORRECTABLE, MEGA_ERR_IO,
     "the GPU's memory is damaged (nvidia-smi -q -d ECC; Xid 48, 63, 94 or 95 in dmesg): resume from the last "
     "checkpoint on another GPU, and reset this one (nvidia-smi -r)"},
    {CU_NVLINK_UNCORRECTABLE, MEGA_ERR_IO,
     "a link between GPUs failed (nvidia-smi nvlink -e; Xid 74 in dmesg): resume from the last checkpoint"},
    {CU_ILLEGAL_ADDRESS, MEGA_ERR_IO, FAULT},
    {CU_HARDWARE_STACK_ERROR, MEGA_ERR_IO, FAULT},
    {CU_ILLEGAL_INSTRUCTION, MEGA_ERR_IO, FAULT},
    {CU_MISALIGNED_ADDRESS, MEGA_ERR_IO, FAULT},
    {CU_LAUNCH_FAILED, MEGA_ERR_IO, FAULT},
    {CU_LAUNCH_TIMEOUT, MEGA_ERR_IO,
     "the GPU also drives a screen, whose watchdog ends long kernels: give smaller micro-batches, or use another GPU"},
    {CU_SYSTEM_NOT_READY, MEGA_ERR_UNSUPPORTED,
     "the GPUs are joined by NVSwitch, and nvidia-fabricmanager does not run: systemctl start nvidia-fabricmanager"},
    {CU_SYSTEM_DRIVER_MISMATCH, MEGA_ERR_UNSUPPORTED,
     "libcuda.so.1 and the kernel's module are of different drivers: after an update, restart the machine; in a "
     "container, start it again"},
    {CU_COMPAT_NOT_SUPPORTED, MEGA_ERR_UNSUPPORTED,
     "this libcuda.so.1 is of a compatibility package, which this GPU cannot use: take its folder out of "
     "LD_LIBRARY_PATH"},
    {CU_MPS_CONNECTION_FAILED, MEGA_ERR_UNSUPPORTED,
     "CUDA_MPS_PIPE_DIRECTORY names no MPS server that answers: start nvidia-cuda-mps-control -d, or unset it"},
    {CU_MPS_MAX_CLIENTS, MEGA_ERR_UNSUPPORTED, "the MPS server of this GPU has as many clients as it takes"},
    {CU_UNKNOWN, MEGA_ERR_IO,
     "nvidia-smi shows whether the GPU still answers; in a container, /dev/nvidia-uvm may be missing"},
};

void mega_cuda_no_device(char text[MEGA_CUDA_ADVICE])
{
    const char *named = getenv("CUDA_VISIBLE_DEVICES");
    if (named == NULL) snprintf(text, MEGA_CUDA_ADVICE, "; nvidia-smi shows the GPUs; a container needs --gpus all");
    else if (strncmp(named, "MIG-", 4) == 0)
        snprintf(text, MEGA_CUDA_ADVICE,
                 "; CUDA_VISIBLE_DEVICES=%.80s names an instance of MIG: a process sees the first one alone, and "
                 "nvidia-smi -L lists the names",
                 named);
    else
        snprintf(text, MEGA_CUDA_ADVICE,
                 "; CUDA_VISIBLE_DEVICES=%.80s names the GPUs that a program may see, up to the first that is not "
                 "there; a GPU in MIG mode is seen by the name of an instance only (nvidia-smi -L)",
                 named);
}

mega_status mega_cuda_check(const mega_cuda_driver *cuda, cu_result result, const char *what)
{
    const char *name = "unknown", *text = "unknown error";
    if (result == CU_OK) return MEGA_OK;
    if (cuda->error_name(result, &name) != CU_OK || name == NULL) name = "unknown";
    if (cuda->error_text(result, &text) != CU_OK || text == NULL) text = "unknown error";
    char advice[MEGA_CUDA_ADVICE] = "";
    mega_status code = result == CU_NO_DEVICE ? MEGA_ERR_UNSUPPORTED : MEGA_ERR_IO;
    if (result == CU_NO_DEVICE) mega_cuda_no_device(advice);
    for (size_t i = 0; i < sizeof meaning / sizeof *meaning; i++)
        if (meaning[i].error == result) {
            code = meaning[i].code;
            snprintf(advice, sizeof advice, "; %s", meaning[i].advice);
        }
    return MEGA_FAIL(code, "%s: %s (%s, error %u of CUDA)%s", what, text, name, result, advice);
}
