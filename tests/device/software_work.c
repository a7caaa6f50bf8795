/* What programs queue: copies, fills and launches. */
#include "software.h"
#include <stdio.h>
#include <stdlib.h>

/* Enters, and checks the stream and a range of device memory (bytes 0: none). */
static cu_result enter_range(const char *name, cu_stream stream, cu_address at, size_t bytes)
{
    const cu_result r = software_enter_context(name, CU_LAUNCH_FAILED);
    if (r != CU_OK) return r;
    if (!stream_is_valid(stream)) return software_refuse(name, NO_STREAM);
    if (bytes == 0 || software_is_device((const void *)(uintptr_t)at, bytes)) return CU_OK;
    software_say("%s: %zu bytes at %p are not inside an allocation", name, bytes, (void *)(uintptr_t)at);
    return CU_INVALID_VALUE;
}

/* Memory that is not pinned cannot be copied while the host goes on: the driver reads it at once, or waits. A
 * capture can do neither. */
static cu_result pageable_check(cu_stream s)
{
    if (s->capture == NULL) return CU_OK;
    software_say("a copy of memory that is not pinned (cuMemHostAlloc) is captured");
    return graph_break(s->capture);
}

cu_result cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t bytes, cu_stream stream)
{
    cu_result r = enter_range("cuMemcpyHtoDAsync_v2", stream, to, bytes);
    const bool is_pinned = r == CU_OK && software_is_pinned(from, bytes);
    if (r == CU_OK && !is_pinned) r = pageable_check(stream);
    if (r != CU_OK || bytes == 0) return software_leave(r);
    software_op *op = op_make(OP_COPY_IN);
    op->to = (char *)(uintptr_t)to;
    op->from = from;
    op->bytes = bytes;
    if (!is_pinned) {
        if ((op->staged = malloc(bytes)) == NULL) abort();
        memcpy(op->staged, from, bytes);
    }
    return software_leave(stream_add(stream, op));
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t bytes, cu_stream stream)
{
    cu_result r = enter_range("cuMemcpyDtoHAsync_v2", stream, from, bytes);
    const bool is_pinned = r == CU_OK && software_is_pinned(to, bytes);
    if (r == CU_OK && !is_pinned) r = pageable_check(stream);
    if (r != CU_OK || bytes == 0) return software_leave(r);
    software_op *op = op_make(OP_COPY_OUT);
    op->to = to;
    op->from = (const char *)(uintptr_t)from;
    op->bytes = bytes;
    r = stream_add(stream, op);
    return software_leave(r == CU_OK && !is_pinned ? software_finish(stream) : r);
}

cu_result cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, cu_stream stream)
{
    cu_result r = enter_range("cuMemcpyDtoDAsync_v2", stream, to, bytes);
    if (r == CU_OK && !software_is_device((const void *)(uintptr_t)from, bytes)) r = CU_INVALID_VALUE;
    if (r != CU_OK || bytes == 0) return software_leave(r);
    software_op *op = op_make(OP_COPY);
    op->to = (char *)(uintptr_t)to;
    op->from = (const char *)(uintptr_t)from;
    op->bytes = bytes;
    return software_leave(stream_add(stream, op));
}

/* ---- copies of rows ---- */

/* Whether the rows are in memory of that kind, in one allocation if it is the device's. */
static bool has_rows(unsigned kind, const char *at, size_t pitch, const cu_copy_2d *c)
{
    const size_t span = (c->rows - 1) * pitch + c->bytes;
    if (pitch < c->bytes || pitch > CU_MOST_PITCH) return false;
    return kind == CU_HOST || (kind == CU_DEVICE && software_is_device(at, span));
}

static const char *first_row(unsigned kind, const void *host, cu_address at, size_t x, size_t y, size_t pitch)
{
    return (kind == CU_HOST ? (const char *)host : (const char *)(uintptr_t)at) + y * pitch + x;
}

static cu_result rows_queue(const cu_copy_2d *c, cu_stream stream)
{
    const char *const from = first_row(c->from_kind, c->from_host, c->from, c->from_x, c->from_y, c->from_pitch);
    const char *const to = first_row(c->to_kind, c->to_host, c->to, c->to_x, c->to_y, c->to_pitch);
    const bool is_in = c->from_kind == CU_HOST, is_out = c->to_kind == CU_HOST;
    if ((is_in && is_out) || !has_rows(c->from_kind, from, c->from_pitch, c) ||
        !has_rows(c->to_kind, to, c->to_pitch, c)) {
        software_say("cuMemcpy2DAsync_v2: %zu rows of %zu bytes, %zu and %zu bytes apart: not inside an allocation, or "
                     "no such pitch or kind of memory",
                     c->rows, c->bytes, c->from_pitch, c->to_pitch);
        return CU_INVALID_VALUE;
    }
    const bool is_pinned = is_in    ? software_is_pinned(from, (c->rows - 1) * c->from_pitch + c->bytes)
                           : is_out ? software_is_pinned(to, (c->rows - 1) * c->to_pitch + c->bytes)
                                    : true;
    if (!is_pinned && pageable_check(stream) != CU_OK) return CU_CAPTURE_INVALIDATED;
    software_op *op = op_make(is_in ? OP_COPY_IN : is_out ? OP_COPY_OUT : OP_COPY);
    op->to = (char *)(uintptr_t)to;
    op->from = from;
    op->bytes = c->bytes;
    op->rows = c->rows;
    op->to_pitch = c->to_pitch;
    op->from_pitch = c->from_pitch;
    if (is_in && !is_pinned) {
        if ((op->staged = malloc(c->rows * c->bytes)) == NULL) abort();
        for (size_t r = 0; r < c->rows; r++) memcpy(op->staged + r * c->bytes, from + r * c->from_pitch, c->bytes);
    }
    const cu_result r = stream_add(stream, op);
    return r == CU_OK && is_out && !is_pinned ? software_finish(stream) : r;
}

cu_result cuMemcpy2DAsync_v2(const cu_copy_2d *what, cu_stream stream)
{
    const cu_result r = enter_range("cuMemcpy2DAsync_v2", stream, 0, 0);
    return software_leave(r == CU_OK && what->rows > 0 && what->bytes > 0 ? rows_queue(what, stream) : r);
}

/* ---- fills ---- */

static cu_result fill(const char *name, cu_address to, unsigned value, size_t count, size_t size, cu_stream stream)
{
    const size_t bytes = count > SIZE_MAX / size ? SIZE_MAX : count * size;
    cu_result r = enter_range(name, stream, to, bytes);
    if (r == CU_OK && to % size != 0) r = CU_INVALID_VALUE;
    if (r != CU_OK || bytes == 0) return software_leave(r);
    software_op *op = op_make(OP_FILL);
    op->to = (char *)(uintptr_t)to;
    op->value = value;
    op->bytes = bytes;
    return software_leave(stream_add(stream, op));
}

cu_result cuMemsetD8Async(cu_address to, unsigned char value, size_t count, cu_stream stream)
{
    return fill("cuMemsetD8Async", to, value * 0x01010101u, count, 1, stream);
}

cu_result cuMemsetD32Async(cu_address to, unsigned value, size_t count, cu_stream stream)
{
    return fill("cuMemsetD32Async", to, value, count, 4, stream);
}

/* ---- launches ---- */

struct CUfunc_st {
    unsigned magic;
    const device_kernel *kernel;
    size_t most_shared;
    cu_function next; /* of the module */
};
#define NO_FUNCTION "no function, or one of a module that is unloaded"
enum { FUNCTION_MAGIC = 0x46554e43, MODULE_MAGIC = 0x4d4f444c, MOST_NAME = 128 };

static bool function_is_valid(cu_function f)
{
    return f != NULL && f->magic == FUNCTION_MAGIC;
}

cu_result cuLaunchKernel(cu_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                         unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                         cu_stream stream, void **params, void **extra)
{
    const cu_result r = software_enter_context("cuLaunchKernel", CU_LAUNCH_OUT_OF_RESOURCES);
    if (r != CU_OK) return software_leave(r);
    if (!function_is_valid(function)) return software_leave(software_refuse("cuLaunchKernel", NO_FUNCTION));
    if (!stream_is_valid(stream)) return software_leave(software_refuse("cuLaunchKernel", NO_STREAM));
    const device_kernel *k = function->kernel;
    const char *what = NULL;
    if (threads_x != k->threads || threads_y != 1 || threads_z != 1) what = "blocks of another size than KERNEL gives";
    else if (blocks_x == 0 || blocks_x > 0x7fffffffu || blocks_y - 1 > 65534 || blocks_z - 1 > 65534)
        what = "no such grid";
    else if (shared_bytes > function->most_shared)
        what = "more shared memory than the function may have";
    else if (params == NULL || params[0] == NULL || extra != NULL || k->args_bytes > MOST_ARGS)
        what = "arguments";
    if (what != NULL) {
        software_say("cuLaunchKernel, %s: %s (%u x %u x %u blocks of %u, %u bytes of shared memory)", k->name, what,
                     blocks_x, blocks_y, blocks_z, threads_x, shared_bytes);
        return software_leave(CU_INVALID_VALUE);
    }
    software_op *op = op_make(OP_KERNEL);
    if ((op->memory = malloc(k->args_bytes)) == NULL) abort();
    memcpy(op->memory, params[0], k->args_bytes);
    op->launch = (device_launch){k, op->memory, {blocks_x, blocks_y, blocks_z}, shared_bytes};
    return software_leave(stream_add(stream, op));
}

/* Holds the next work of the stream to these ranges: the watch reports what it accesses outside of them. */
cu_result mega_software_cuda_operands(cu_stream stream, int count, const cu_address *at, const size_t *bytes,
                                      const unsigned *use)
{
    const cu_result r = software_enter_context("mega_software_cuda_operands", CU_INVALID_VALUE);
    if (r != CU_OK) return software_leave(r);
    if (!stream_is_valid(stream)) return software_leave(software_refuse("mega_software_cuda_operands", NO_STREAM));
    if (count < 1 || count > MOST_OPERANDS) return software_leave(CU_INVALID_VALUE);
    free(stream->operands);
    if ((stream->operands = malloc((size_t)count * sizeof *stream->operands)) == NULL) abort();
    for (int i = 0; i < count; i++)
        stream->operands[i] = (watch_operand){(const char *)(uintptr_t)at[i], bytes[i], use[i]};
    stream->num_operands = count;
    return software_leave(CU_OK);
}

/* ---- modules: which kernels an image has; their code is that of the library ---- */

struct CUmod_st {
    unsigned magic;
    bool has_all;
    char (*names)[MOST_NAME];
    int count;
    cu_function functions;
};

/* The linker makes these two of the section into which KERNEL puts pointers. A library without a kernel has none. */
extern const device_kernel *const __start_device_kernels[] __attribute__((weak, visibility("hidden")));
extern const device_kernel *const __stop_device_kernels[] __attribute__((weak, visibility("hidden")));

static const device_kernel *kernel_find(const char *name)
{
    for (const device_kernel *const *k = __start_device_kernels; k < __stop_device_kernels; k++)
        if (strcmp((*k)->name, name) == 0) return *k;
    return NULL;
}

/* PTX says the size of the argument and of a block: both must be those of the host's version. */
static const char *entry_check(const device_kernel *k, const char *entry)
{
    static char text[200];
    const char *close = strchr(entry, ')'), *open = close;
    unsigned bytes = 0, threads = 0;
    while (open != NULL && open > entry && *open != '[') open--;
    if (open != NULL && *open == '[' && sscanf(open, "[%u]", &bytes) == 1 && bytes != k->args_bytes) {
        snprintf(text, sizeof text, "%s takes %u bytes, and %zu when it is compiled for the host", k->name, bytes,
                 k->args_bytes);
        return text;
    }
    const char *most = close != NULL ? strstr(close, ".maxntid") : NULL,
               *body = close != NULL ? strchr(close, '{') : NULL;
    if (most == NULL || body == NULL || most > body || sscanf(most, ".maxntid %u", &threads) != 1) return NULL;
    if (threads == k->threads) return NULL;
    snprintf(text, sizeof text, "%s has blocks of %u threads, and of %u when it is compiled for the host", k->name,
             threads, k->threads);
    return text;
}

static cu_result ptx_read(cu_module m, const char *text, const char **error)
{
    const char *version = strstr(text, ".version"), *target = strstr(text, ".target sm_");
    int major = 0, minor = 0, capability = 0;
    if (version == NULL || target == NULL || sscanf(version, ".version %d.%d", &major, &minor) != 2 ||
        sscanf(target, ".target sm_%d", &capability) != 1)
        return CU_INVALID_PTX;
    if ((major + 4) * 1000 + minor * 10 > software.version) return CU_UNSUPPORTED_PTX_VERSION;
    if (capability > software.capability) return CU_NO_BINARY_FOR_GPU;
    for (const char *at = strstr(text, ".entry"); at != NULL; at = strstr(at + 1, ".entry")) {
        if ((m->names = realloc(m->names, (size_t)(m->count + 1) * sizeof *m->names)) == NULL) abort();
        if (sscanf(at, ".entry %127[A-Za-z0-9_$]", m->names[m->count]) != 1) continue;
        const device_kernel *k = kernel_find(m->names[m->count++]);
        *error = k != NULL ? entry_check(k, at) : NULL;
        if (*error != NULL) return CU_INVALID_PTX;
    }
    return CU_OK;
}

/* Its kind of chip is in the flags of its ELF header, since CUDA 13 (version 8 of the form) in the second byte. The
 * code runs on chips of this generation that came later, too. */
static cu_result cubin_read(cu_module m, const char *image)
{
    const int chip = (unsigned char)image[image[8] == 8 ? 49 : 48];
    if (chip / 10 != software.capability / 10 || chip > software.capability) return CU_NO_BINARY_FOR_GPU;
    m->has_all = true;
    return CU_OK;
}

static cu_result image_read(cu_module m, const char *image, const char **error)
{
    if (memcmp(image, "\177ELF", 4) == 0) return cubin_read(m, image);
    if (strncmp(image, "// software device", 18) == 0) {
        m->has_all = true;
        return CU_OK;
    }
    for (const char *c = image; *c != 0; c++)
        if ((unsigned char)*c < 9 || (unsigned char)*c > 126) return CU_INVALID_IMAGE;
    return strstr(image, ".version") != NULL ? ptx_read(m, image, error) : CU_INVALID_IMAGE;
}

/* It and its functions stay where they are, so that a later call with one of them is refused instead of reading freed
 * memory. */
static void module_end(cu_module m)
{
    m->magic = 0;
    for (cu_function f = m->functions; f != NULL; f = f->next) f->magic = 0;
    free(m->names);
    m->names = NULL;
    m->count = 0;
}

static bool module_is_valid(cu_module m)
{
    return m != NULL && m->magic == MODULE_MAGIC;
}

/* Writes into the caller's buffer why an image was refused, as the compiler of the driver does. */
static void log_write(const char *error, unsigned options, const unsigned *option, void **value)
{
    char *log = NULL;
    size_t bytes = 0;
    for (unsigned i = 0; i < options; i++) {
        if (option[i] == CU_JIT_ERROR_LOG) log = value[i];
        if (option[i] == CU_JIT_ERROR_LOG_BYTES) bytes = (uintptr_t)value[i];
    }
    if (log != NULL && bytes > 0) snprintf(log, bytes, "%s", error != NULL ? error : "");
    else if (error != NULL)
        software_say("%s", error);
}

cu_result cuModuleLoadDataEx(cu_module *out, const void *image, unsigned options, unsigned *option, void **value)
{
    cu_result r = software_enter_context("cuModuleLoadDataEx", CU_NO_BINARY_FOR_GPU);
    const char *error = NULL;
    if (r == CU_OK && image == NULL) r = CU_INVALID_VALUE;
    if (r != CU_OK) return software_leave(r);
    cu_module m = software_handle(sizeof *m);
    if (m == NULL) return software_leave(CU_OUT_OF_MEMORY);
    m->magic = MODULE_MAGIC;
    r = image_read(m, image, &error);
    log_write(error, options, option, value);
    if (r == CU_OK) *out = m;
    else
        module_end(m);
    return software_leave(r);
}

cu_result cuModuleUnload(cu_module module)
{
    cu_result r = software_enter_context("cuModuleUnload", CU_INVALID_HANDLE);
    if (r == CU_OK && !module_is_valid(module))
        r = software_refuse("cuModuleUnload", "no module, or one that is unloaded");
    if (r == CU_OK) r = software_finish_all();
    if (r == CU_OK) module_end(module);
    return software_leave(r);
}

static const device_kernel *module_kernel(cu_module m, const char *name)
{
    bool is_there = m->has_all;
    for (int i = 0; i < m->count && !is_there; i++) is_there = strcmp(m->names[i], name) == 0;
    const device_kernel *k = is_there ? kernel_find(name) : NULL;
    if (is_there && k == NULL) software_say("the kernel %s was not compiled for the host", name);
    return k;
}

cu_result cuModuleGetFunction(cu_function *out, cu_module module, const char *name)
{
    const cu_result r = software_enter_context("cuModuleGetFunction", CU_NOT_FOUND);
    if (r != CU_OK) return software_leave(r);
    if (!module_is_valid(module))
        return software_leave(software_refuse("cuModuleGetFunction", "no module, or one that is unloaded"));
    const device_kernel *k = module_kernel(module, name);
    if (k == NULL) return software_leave(CU_NOT_FOUND);
    cu_function f = software_handle(sizeof *f);
    if (f == NULL) return software_leave(CU_OUT_OF_MEMORY);
    *f = (struct CUfunc_st){FUNCTION_MAGIC, k, DEVICE_STATIC_SHARED, module->functions};
    *out = module->functions = f;
    return software_leave(CU_OK);
}

cu_result cuFuncGetAttribute(int *value, unsigned attribute, cu_function function)
{
    cu_result r = software_enter_context("cuFuncGetAttribute", CU_INVALID_HANDLE);
    if (r == CU_OK && !function_is_valid(function)) r = software_refuse("cuFuncGetAttribute", NO_FUNCTION);
    if (r != CU_OK) return software_leave(r);
    *value = attribute == CU_FUNCTION_MAX_THREADS            ? (int)function->kernel->threads
             : attribute == CU_FUNCTION_REGISTERS            ? 32
             : attribute == CU_FUNCTION_DYNAMIC_SHARED_BYTES ? (int)function->most_shared
                                                             : 0;
    return software_leave(CU_OK);
}

cu_result cuFuncSetAttribute(cu_function function, unsigned attribute, int value)
{
    cu_result r = software_enter_context("cuFuncSetAttribute", CU_INVALID_VALUE);
    if (r == CU_OK && !function_is_valid(function)) r = software_refuse("cuFuncSetAttribute", NO_FUNCTION);
    if (r == CU_OK && (attribute != CU_FUNCTION_DYNAMIC_SHARED_BYTES || value < 0 || value > DEVICE_MOST_SHARED))
        r = CU_INVALID_VALUE;
    if (r == CU_OK) function->most_shared = (size_t)value > DEVICE_STATIC_SHARED ? (size_t)value : DEVICE_STATIC_SHARED;
    return software_leave(r);
}
