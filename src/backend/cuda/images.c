/* The kernels of the program: images are unpacked when a GPU is opened, and loaded by mega_cuda_load
 * or when the first of their kernels runs. */
#include "gpu.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <string.h>
#include <zstd.h>

enum { SHARED_BYTES_OF_ALL = 48 << 10, UNPACKED_MOST = 256 << 20 };

static mega_status unpack(cuda_images *images)
{
    const unsigned long long bytes = ZSTD_getFrameContentSize(mega_cuda_images, mega_cuda_images_bytes);
    const bool is_size = bytes != ZSTD_CONTENTSIZE_UNKNOWN && bytes != ZSTD_CONTENTSIZE_ERROR;
    images->text = is_size && bytes < UNPACKED_MOST ? mega_malloc((size_t)bytes + 1) : NULL;
    if (is_size && images->text == NULL) return MEGA_NO_MEMORY("cuda", "the kernels of the program");
    if (!is_size || ZSTD_decompress(images->text, (size_t)bytes, mega_cuda_images, mega_cuda_images_bytes) != bytes)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "cuda: the kernels of this program are damaged; build it again");
    images->bytes = (size_t)bytes;
    images->text[bytes] = '\0';
    return MEGA_OK;
}

mega_status mega_cuda_images_open(cuda_images *images)
{
    if (mega_cuda_images_bytes > 0) return unpack(images);
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "this build has no kernels for GPUs: clang 14 or newer with NVPTX compiles them; install it, and "
                     "build again");
}

void mega_cuda_images_close(cuda_images *images, const mega_cuda_driver *cuda)
{
    for (int i = 0; i < images->num_modules; i++) (void)cuda->module_unload(images->module[i].module);
    images->num_modules = 0;
    mega_free(images->text);
    images->text = NULL;
}

static const char *image_of(const cuda_images *images, const char *source)
{
    static const char mark[] = "//@ ";
    const size_t length = strlen(source);
    for (size_t at = 0; at < images->bytes; at += strlen(images->text + at) + 1) {
        const char *const text = images->text + at;
        if (strncmp(text, mark, sizeof mark - 1) == 0 && strncmp(text + sizeof mark - 1, source, length) == 0 &&
            text[sizeof mark - 1 + length] == '\n')
            return text;
    }
    return NULL;
}

/* The driver compiles PTX for its GPU, and keeps the result for the next start. */
static mega_status load_module(cuda_images *images, const mega_cuda_driver *cuda, const char *source, cu_module *out)
{
    char log[512] = "", what[640];
    unsigned option[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    const char *image = image_of(images, source);
    if (image == NULL || images->num_modules == CUDA_MODULES)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "cuda: this build has no kernels of %s.cu for GPUs", source);
    const double began = mega_time_now();
    const cu_result result = cuda->module_load(out, image, 2, option, value);
    log[sizeof log - 1] = '\0';
    snprintf(what, sizeof what, "cuda: loading the kernels of %s.cu%s%s", source, log[0] != '\0' ? ": " : "", log);
    MEGA_TRY(mega_cuda_check(cuda, result, what));
    images->module[images->num_modules].source = source;
    images->module[images->num_modules++].module = *out;
    images->loaded.images++;
    images->loaded.bytes += strlen(image);
    images->loaded.seconds += mega_time_now() - began;
    return MEGA_OK;
}

static mega_status images_module_of(cuda_images *images, const mega_cuda_driver *cuda, const char *source,
                                    cu_module *out)
{
    for (int i = 0; i < images->num_modules; i++)
        if (strcmp(images->module[i].source, source) == 0) {
            *out = images->module[i].module;
            return MEGA_OK;
        }
    return load_module(images, cuda, source, out);
}

mega_status mega_cuda_images_load(cuda_images *images, const mega_cuda_driver *cuda, const char *source)
{
    cu_module module;
    return images_module_of(images, cuda, source, &module);
}

/* The names are constants of launch.c, so that their addresses tell them apart. */
static int place_of(const cuda_images *images, const char *kernel)
{
    int at = (int)(((uintptr_t)kernel * 0x9e3779b97f4a7c15u) >> 32) & (CUDA_FUNCTIONS - 1);
    while (images->function[at].kernel != NULL && images->function[at].kernel != kernel)
        at = (at + 1) & (CUDA_FUNCTIONS - 1);
    return at;
}

static mega_status allow_shared(cuda_images *images, const mega_cuda_driver *cuda, int at, unsigned bytes)
{
    if (bytes <= SHARED_BYTES_OF_ALL || bytes <= images->function[at].shared_bytes) return MEGA_OK;
    const cu_result result =
        cuda->function_set_attribute(images->function[at].function, CU_FUNCTION_DYNAMIC_SHARED_BYTES, (int)bytes);
    MEGA_TRY(mega_cuda_check(cuda, result, images->function[at].kernel));
    images->function[at].shared_bytes = bytes;
    return MEGA_OK;
}

mega_status mega_cuda_images_find(cuda_images *images, const mega_cuda_driver *cuda, const char *source,
                                  const mega_cuda_launch *launch, cu_function *out)
{
    const int at = place_of(images, launch->kernel);
    if (images->function[at].kernel == NULL) {
        cu_module module;
        MEGA_TRY(images_module_of(images, cuda, source, &module));
        if (images->num_functions == CUDA_FUNCTIONS / 2)
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "cuda: more than %d kernels", CUDA_FUNCTIONS / 2);
        MEGA_TRY(mega_cuda_check(cuda, cuda->module_function(&images->function[at].function, module, launch->kernel),
                                 launch->kernel));
        images->function[at].kernel = launch->kernel;
        images->num_functions++;
    }
    *out = images->function[at].function;
    return allow_shared(images, cuda, at, launch->shared_bytes);
}
