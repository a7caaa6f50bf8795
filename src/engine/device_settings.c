/* Which device computes: --device, and the kernels of --backend that it needs. */
#include "megalith/cuda.h"
#include "megalith/engine_settings.h"

#include <stdio.h>
#include <string.h>

/* Returns N of cuda:N, 0 of cuda, -1 of any other text. */
static int64_t gpu_number(const char *device)
{
    enum { MOST_DIGITS = 4 };
    int64_t number = 0;
    if (strcmp(device, "cuda") == 0) return 0;
    if (strncmp(device, "cuda:", 5) != 0 || device[5] == '\0' || strlen(device) > 5 + MOST_DIGITS) return -1;
    for (const char *c = device + 5; *c != '\0'; c++) {
        if (*c < '0' || *c > '9') return -1;
        number = 10 * number + (*c - '0');
    }
    return number;
}

/* Returns the GPU of a rank that was given none by number: ranks of a host take in turn the GPUs that they see, and
 * share them if there are more ranks. */
static int64_t gpu_of_rank(const mega_engine_settings *s)
{
    int count = 0;
    if (s->local_rank == 0 || mega_cuda_count(&count) != MEGA_OK || count == 0) return 0; /* opening it says why */
    return s->local_rank % count;
}

static bool is_auto(const mega_backend_options *b)
{
    return b->device != NULL && strcmp(b->device, "auto") == 0;
}

/* A plan may be for a GPU that is elsewhere. */
static bool device_is_elsewhere(const mega_engine_settings *s)
{
    const char *command = mega_options_command(s->options); /* NULL: of a C program */
    return command != NULL && strcmp(command, "plan") == 0 && mega_gpu_model_named(s->backend.device) != NULL;
}

/* Adds "; megalith plan also takes a10, a100 …" to the mistake. */
static void refuse_name(const mega_engine_settings *s)
{
    char names[256] = "";
    for (int i = 0; mega_gpu_model_at(i) != NULL; i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", mega_gpu_model_at(i)->name);
    }
    mega_options_problem(s->options, MEGA_ERR_USAGE,
                         "%s: expected cpu, cuda, cuda:N or auto; for a GPU that is elsewhere, megalith plan takes %s",
                         mega_options_origin(s->options, "device"), names);
}

/* What it cannot do on a GPU, a run with `auto` does on the CPU: mega_engine_agree_device decides. */
void mega_engine_derive_device(mega_engine_settings *s)
{
    mega_backend_options *b = &s->backend;
    b->gpu = 0;
    if (b->device == NULL) return;
    const int64_t number = device_is_elsewhere(s) ? 0 : gpu_number(b->device);
    const bool is_wanted = !mega_options_was_set(s->options, "backend") && (is_auto(b) || number >= 0) && !b->fp64;
    if (!is_wanted && b->backend != MEGA_BACKEND_CUDA) return;
    b->gpu = device_is_elsewhere(s) ? 0 : strchr(b->device, ':') != NULL && number >= 0 ? number : gpu_of_rank(s);
    const char *only_cpu = is_auto(b) ? mega_options_not_on_gpu(s->options) : NULL;
    s->gpus.may_take = is_wanted && is_auto(b) && !s->gpus.is_known && only_cpu == NULL;
    if (only_cpu != NULL)
        snprintf(s->gpus.missing, sizeof s->gpus.missing, "%s: nothing is offloaded from a GPU yet", only_cpu);
    if (is_wanted && !is_auto(b)) b->backend = MEGA_BACKEND_CUDA;
}

static bool is_library(const char *library)
{
    return library == NULL || strchr(library, '/') != NULL || strcmp(library, "auto") == 0 ||
           strcmp(library, "own") == 0 || strcmp(library, "cublaslt") == 0;
}

void mega_engine_rule_device(mega_engine_settings *s)
{
    const mega_backend_options *b = &s->backend;
    if (s->backend.device == NULL) return;
    if (!is_library(b->matmul_library))
        mega_options_problem(s->options, MEGA_ERR_USAGE, "%s: expected auto, own, cublaslt, or a path, which has a /",
                             mega_options_origin(s->options, "matmul_library"));
    const bool is_gpu = gpu_number(b->device) >= 0 || device_is_elsewhere(s);
    const char *device = mega_options_origin(s->options, "device");
    const char *only_cpu = mega_options_not_on_gpu(s->options);
    if (!is_gpu && !is_auto(b) && strcmp(b->device, "cpu") != 0) refuse_name(s);
    if (b->backend == MEGA_BACKEND_CUDA && only_cpu != NULL)
        mega_options_problem(s->options, MEGA_ERR_UNSUPPORTED,
                             "%s: with a GPU nothing is moved to the memory of the host yet; leave it out, or give "
                             "--device cpu",
                             only_cpu);
    if (b->backend == MEGA_BACKEND_CUDA && b->no_pack_weights)
        mega_options_warn(s->options, "no effect here: %s: products on a GPU pack no weights",
                          mega_options_origin(s->options, "no_pack_weights"));
    if (s->late_results && (b->backend != MEGA_BACKEND_CUDA || s->world_size > 1))
        mega_options_warn(s->options, "no effect here: %s: %s", mega_options_origin(s->options, "late_results"),
                          b->backend != MEGA_BACKEND_CUDA ? "only a GPU is given a step ahead"
                                                          : "ranks agree on a step before the next one");
    if (is_gpu && b->backend != MEGA_BACKEND_CUDA)
        mega_options_problem(s->options, MEGA_ERR_USAGE,
                             "%s and %s: a GPU runs neither the plain kernels nor those of the CPU, and does not "
                             "compute in double; give one of them",
                             device, mega_options_origin(s->options, b->fp64 ? "fp64" : "backend"));
}
