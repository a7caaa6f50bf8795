/* The GPUs that the driver shows: how many, and what each is. */
#include "gpu.h"
#include "megalith/cuda.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_CAPABILITY = 8 };

static mega_status count_devices(const mega_cuda_driver *cuda, int *out)
{
    *out = 0;
    MEGA_TRY(mega_cuda_check(cuda, cuda->init(0), "cuda: starting NVIDIA's driver"));
    return mega_cuda_check(cuda, cuda->device_count(out), "cuda: the number of GPUs");
}

mega_status mega_cuda_count(int *out)
{
    mega_cuda_driver cuda;
    *out = 0;
    MEGA_TRY(mega_cuda_library_load(&cuda));
    return count_devices(&cuda, out);
}

static mega_status find_device(const mega_cuda_driver *cuda, int64_t ordinal, cu_device *out)
{
    int count;
    char advice[MEGA_CUDA_ADVICE];
    MEGA_TRY(count_devices(cuda, &count));
    if (count == 0) return mega_cuda_check(cuda, CU_NO_DEVICE, "cuda");
    mega_cuda_no_device(advice);
    if (ordinal < 0 || ordinal >= count)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "cuda:%lld: the driver shows %d GPU%s, numbered from 0%s",
                         (long long)ordinal, count, count == 1 ? "" : "s", advice);
    return mega_cuda_check(cuda, cuda->device_get(out, (int)ordinal), "cuda: a GPU");
}

mega_status mega_cuda_look_at(const mega_cuda_driver *cuda, int64_t ordinal, cu_device *id, mega_cuda_info *out)
{
    int major = 0, minor = 0;
    cu_uuid uuid;
    *out = (mega_cuda_info){.name = ""};
    MEGA_TRY(find_device(cuda, ordinal, id));
    MEGA_TRY(mega_cuda_check(cuda, cuda->device_name(out->name, sizeof out->name, *id), "cuda: the name of a GPU"));
    MEGA_TRY(mega_cuda_check(cuda, cuda->device_attribute(&major, CU_CAPABILITY_MAJOR, *id), out->name));
    MEGA_TRY(mega_cuda_check(cuda, cuda->device_attribute(&minor, CU_CAPABILITY_MINOR, *id), out->name));
    MEGA_TRY(mega_cuda_check(cuda, cuda->device_memory(&out->bytes, *id), out->name));
    MEGA_TRY(mega_cuda_check(cuda, cuda->device_uuid(&uuid, *id), out->name));
    memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
    out->capability = 10 * major + minor;
    if (major >= LEAST_CAPABILITY) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "cuda:%lld is %s, compute capability %d.%d; the kernels need 8.0 (A100, RTX 30) or newer",
                     (long long)ordinal, out->name, major, minor);
}

/* Loads the driver and looks at a GPU. */
static mega_status look_at_gpu(int64_t ordinal, mega_cuda_driver *cuda, mega_cuda_info *out)
{
    cu_device id;
    MEGA_TRY(mega_cuda_images_exist());
    MEGA_TRY(mega_cuda_library_load(cuda));
    return mega_cuda_look_at(cuda, ordinal, &id, out);
}

mega_status mega_cuda_info_get(int64_t ordinal, mega_cuda_info *out)
{
    mega_cuda_driver cuda;
    return look_at_gpu(ordinal, &cuda, out);
}

mega_status mega_cuda_describe(int64_t ordinal, char text[MEGA_CUDA_TEXT])
{
    mega_cuda_driver cuda;
    mega_cuda_info gpu;
    int version = 0;
    MEGA_TRY(look_at_gpu(ordinal, &cuda, &gpu));
    MEGA_TRY(mega_cuda_check(&cuda, cuda.driver_version(&version), gpu.name));
    snprintf(text, MEGA_CUDA_TEXT, "%s, compute capability %d.%d, %.4g GB, driver for CUDA %d.%d", gpu.name,
             gpu.capability / 10, gpu.capability % 10, (double)gpu.bytes * 1e-9, version / 1000, version % 1000 / 10);
    return MEGA_OK;
}
