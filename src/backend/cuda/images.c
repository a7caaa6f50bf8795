/* The kernels of the program: the images of one kind of chip, or of PTX, are unpacked when a GPU is opened, and loaded
 * by mega_cuda_load or when the first of their kernels runs. */
#include "gpu.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { SHARED_BYTES_OF_ALL = 48 << 10, UNPACKED_MOST = 256 << 20, PART_LINE = 32, IMAGE_LINE = 64 };

/* What is packed for a kind of chip, or as PTX (0). */
typedef struct image_part {
    int chip;
    const unsigned char *at;
    size_t bytes;
} image_part;

/* Returns the first part behind *at, which it moves behind that, or one of 0 bytes. */
static image_part part_next(size_t *at)
{
    image_part p = {.bytes = 0};
    if (mega_cuda_images_bytes - *at < PART_LINE) return p;
    char *end;
    p.chip = (int)strtol((const char *)mega_cuda_images + *at, &end, 10);
    p.bytes = strtoul(end, NULL, 10);
    p.at = mega_cuda_images + *at + PART_LINE;
    *at += PART_LINE + p.bytes;
    return p;
}

/* The code of a chip runs on those of the same generation that came later, too: that of sm_86 on 8.9. */
static image_part part_for(int capability)
{
    image_part best = {.chip = -1};
    size_t at = 0;
    for (image_part p = part_next(&at); p.bytes > 0; p = part_next(&at))
        if (p.chip == 0 || (p.chip / 10 == capability / 10 && p.chip <= capability))
            if (p.chip > best.chip) best = p;
    return best;
}

static mega_status unpack(cuda_images *images, const image_part *part)
{
    const unsigned long long bytes = ZSTD_getFrameContentSize(part->at, part->bytes);
    const bool is_size = bytes != ZSTD_CONTENTSIZE_UNKNOWN && bytes != ZSTD_CONTENTSIZE_ERROR;
    images->text = is_size && bytes < UNPACKED_MOST ? mega_malloc((size_t)bytes + 1) : NULL;
    if (is_size && images->text == NULL) return MEGA_NO_MEMORY("cuda", "the kernels of the program");
    if (!is_size || ZSTD_decompress(images->text, (size_t)bytes, part->at, part->bytes) != bytes)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "cuda: the kernels of this program are damaged; build it again");
    images->bytes = (size_t)bytes;
    images->text[bytes] = '\0';
    images->loaded.chip = part->chip;
    return MEGA_OK;
}

mega_status mega_cuda_images_exist(void)
{
    if (mega_cuda_images_bytes > 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "this build has no kernels for GPUs: clang 14 or newer with NVPTX compiles them; install it, and "
                     "build again");
}

mega_status mega_cuda_images_open(cuda_images *images, int capability)
{
    MEGA_TRY(mega_cuda_images_exist());
    const image_part part = part_for(capability);
    if (part.chip >= 0) return unpack(images, &part);
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "this build has kernels for other GPUs, none for one of compute capability %d.%d: build it with "
                     "MEGA_CUDA_PTX=ON, or with %d in MEGA_CUDA_CHIPS",
                     capability / 10, capability % 10, capability);
}

void mega_cuda_images_close(cuda_images *images, const mega_cuda_driver *cuda)
{
    for (int i = 0; i < images->num_modules; i++) (void)cuda->module_unload(images->module[i].module);
    images->num_modules = 0;
    mega_free(images->text);
    images->text = NULL;
}

/* Returns the image of a source, and its bytes, or NULL. */
static const char *image_of(const cuda_images *images, const char *source, size_t *bytes)
{
    const size_t length = strlen(source);
    for (size_t at = 0; at + IMAGE_LINE < images->bytes; at += IMAGE_LINE + *bytes) {
        const char *const line = images->text + at, *const end = strchr(line, ' ');
        if (end == NULL) return NULL;
        *bytes = strtoul(end, NULL, 10);
        if ((size_t)(end - line) == length && memcmp(line, source, length) == 0) return line + IMAGE_LINE;
    }
    return NULL;
}

/* A driver that is older than the compiler may not know its code; it compiles PTX all the same. */
static bool must_be_ptx(cuda_images *images, cu_result result)
{
    const image_part ptx = part_for(0);
    if (images->loaded.chip == 0 || ptx.chip != 0) return false;
    if (result != CU_NO_BINARY_FOR_GPU && result != CU_INVALID_IMAGE) return false;
    mega_free(images->text);
    images->text = NULL;
    images->bytes = 0;
    return unpack(images, &ptx) == MEGA_OK;
}

/* (Of PTX the driver keeps what it has made for the next start.) */
static mega_status load_module(cuda_images *images, const mega_cuda_driver *cuda, const char *source, cu_module *out)
{
    char log[512] = "", what[640];
    unsigned option[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    size_t bytes = 0;
    const char *const image = image_of(images, source, &bytes);
    if (image == NULL || images->num_modules == CUDA_MODULES)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "cuda: this build has no kernels of %s.cu for GPUs", source);
    const double began = mega_time_now();
    const cu_result result = cuda->module_load(out, image, 2, option, value);
    if (must_be_ptx(images, result)) return load_module(images, cuda, source, out);
    log[sizeof log - 1] = '\0';
    snprintf(what, sizeof what, "cuda: loading the kernels of %s.cu%s%s", source, log[0] != '\0' ? ": " : "", log);
    MEGA_TRY(mega_cuda_check(cuda, result, what));
    images->module[images->num_modules].source = source;
    images->module[images->num_modules++].module = *out;
    images->loaded.images++;
    images->loaded.bytes += bytes;
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
