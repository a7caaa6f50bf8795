/* A GPU as a device of an engine: its memory, copies through pinned memory, and launches, in one stream; what the host
 * writes is copied by another (writes.c). */
#include "gpu.h"
#include "megalith/assert.h"
#include "megalith/cuda.h"
#include "megalith/log.h"
#include "megalith/memory.h"

#include <stdio.h>

enum {
    PINNED_BYTES = MEGA_CUDA_PINNED_BYTES - MEGA_CUDA_STAGING_BYTES - MEGA_DEVICE_PARTS_BYTES,
    NOTED_SHARE = 20 /* 1/20 of the memory: so much taken by others is worth a word in a message */
};

static mega_cuda_gpu *gpu_of(mega_device *device)
{
    return (mega_cuda_gpu *)device;
}

static cu_address address(const void *at)
{
    return (cu_address)(uintptr_t)at;
}

/* ---- the first failure ---- */

/* Notes the first failure, which gpu_finish returns; results of later work have no meaning. */
static bool keep(mega_cuda_gpu *g, mega_status st)
{
    if (st != MEGA_OK && g->failed.code == MEGA_OK) {
        mega_error_get_of(st, &g->failed);
        mega_cuda_exchanges_abort(g); /* others would wait for this GPU, and it for them */
    }
    return st == MEGA_OK;
}

static bool is_done(mega_cuda_gpu *g, cu_result result, const char *what)
{
    char text[192];
    if (result == CU_OK) return true;
    snprintf(text, sizeof text, "%s: %s", g->name, what);
    return keep(g, mega_cuda_check(&g->cuda, result, text));
}

/* The driver's current context is of the thread, whose own one comes back in gpu_leave. Returns false after a failure,
 * and when nothing is to be done. */
static bool gpu_enter_to_write(mega_cuda_gpu *g, size_t bytes)
{
    pthread_mutex_lock(&g->lock);
    g->is_entered = bytes > 0 && g->failed.code == MEGA_OK &&
                    is_done(g, g->cuda.context_push(g->context), "its context cannot be used");
    return g->is_entered;
}

/* To free what the GPU has, also after a failure. */
static bool gpu_enter_to_end(mega_cuda_gpu *g)
{
    pthread_mutex_lock(&g->lock);
    g->is_entered = g->cuda.context_push(g->context) == CU_OK;
    return g->is_entered;
}

/* To queue work after all that was written before. */
static bool gpu_enter(mega_cuda_gpu *g, size_t bytes)
{
    if (!gpu_enter_to_write(g, bytes)) return false;
    g->has_work = g->has_more = true;
    return keep(g, mega_cuda_writes_flush(&g->writes));
}

static void gpu_leave(mega_cuda_gpu *g)
{
    cu_context own;
    if (g->is_entered) (void)is_done(g, g->cuda.context_pop(&own), "its context cannot be left");
    g->is_entered = false;
    pthread_mutex_unlock(&g->lock);
}

/* Work runs later than it is queued: what a wait reports may be of any kernel since the last one. */
static bool wait_stream(mega_cuda_gpu *g)
{
    char what[160] = "waiting for its work";
    if (g->last != NULL)
        snprintf(what, sizeof what, "waiting for its work, of which kernel %s was the last that was queued", g->last);
    g->last = NULL;
    if (g->exchanges != NULL && !mega_cuda_exchanges_wait(g, g->stream, NULL, what)) return false;
    if (!is_done(g, g->cuda.stream_wait(g->stream), what)) return false;
    mega_cuda_writes_are_done(&g->writes);
    g->has_work = false;
    return true;
}

/* Waits for an event that comes in any case: of copies and marks. */
static mega_status wait_event(void *user, cu_event event)
{
    return mega_cuda_gpu_wait(user, event);
}

mega_status mega_cuda_gpu_wait(mega_cuda_gpu *g, cu_event event)
{
    static const char what[] = "waiting for its work";
    const bool is_good = (g->exchanges == NULL || mega_cuda_exchanges_wait(g, NULL, event, what)) &&
                         is_done(g, g->cuda.event_wait(event), what);
    return is_good ? MEGA_OK : mega_cuda_gpu_status(g);
}

/* ---- for exchanges ---- */

bool mega_cuda_gpu_enter(mega_cuda_gpu *g, size_t bytes)
{
    return gpu_enter(g, bytes);
}

bool mega_cuda_gpu_enter_to_end(mega_cuda_gpu *g)
{
    return gpu_enter_to_end(g);
}

void mega_cuda_gpu_leave(mega_cuda_gpu *g)
{
    gpu_leave(g);
}

bool mega_cuda_gpu_keep(mega_cuda_gpu *g, mega_status st)
{
    return keep(g, st);
}

bool mega_cuda_gpu_is_done(mega_cuda_gpu *g, cu_result result, const char *what)
{
    return is_done(g, result, what);
}

mega_status mega_cuda_gpu_status(const mega_cuda_gpu *g)
{
    return g->failed.code == MEGA_OK ? MEGA_OK : mega_error_restore(&g->failed);
}

/* ---- memory ---- */

static mega_status gpu_alloc(mega_device *device, void **out, size_t bytes, const char *what)
{
    mega_cuda_gpu *g = gpu_of(device);
    size_t left = 0, all = 0;
    char text[384];
    cu_address at = 0;
    if (!gpu_enter(g, bytes)) {
        gpu_leave(g);
        return mega_cuda_gpu_status(g);
    }
    if (g->cuda.memory_info(&left, &all) != CU_OK) left = all = 0;
    const int n = snprintf(text, sizeof text, "%s: %.4g MB for %s, of %.4g MB of which %.4g MB are free", g->name,
                           (double)bytes * 1e-6, what, (double)all * 1e-6, (double)left * 1e-6);
    if (left > 0 && all - g->left > all / NOTED_SHARE)
        snprintf(text + n, sizeof text - (size_t)n, "; other processes and the driver had %.4g MB before this one",
                 (double)(all - g->left) * 1e-6);
    mega_status st = mega_cuda_check(&g->cuda, g->cuda.memory_alloc(&at, bytes), text);
    if (st == MEGA_OK) {
        st = mega_cuda_check(&g->cuda, g->cuda.fill_8(at, 0, bytes, g->stream), text);
        if (st != MEGA_OK) (void)g->cuda.memory_free(at);
    }
    gpu_leave(g);
    *out = st == MEGA_OK ? (void *)(uintptr_t)at : NULL;
    return st;
}

static void gpu_free(mega_device *device, void *block)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (gpu_enter_to_end(g)) {
        if (g->has_work && keep(g, mega_cuda_writes_flush(&g->writes))) (void)wait_stream(g);
        (void)is_done(g, g->cuda.memory_free(address(block)), "giving back memory");
    }
    gpu_leave(g);
}

static void gpu_write(mega_device *device, void *to, const void *host, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    MEGA_ASSERT(g->recording == NULL, "%s: a write in a recording", g->name);
    if (gpu_enter_to_write(g, bytes)) {
        g->has_work = g->has_more = true;
        (void)keep(g, mega_cuda_writes_add(&g->writes, address(to), host, bytes));
    }
    gpu_leave(g);
}

/* After a failure, NaNs: nobody takes them for results. */
static void gpu_read(mega_device *device, void *host, const void *from, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    bool is_good = gpu_enter(g, bytes);
    for (size_t at = 0, n; is_good && at < bytes; at += n) {
        n = bytes - at < PINNED_BYTES ? bytes - at : PINNED_BYTES;
        is_good = is_done(g, g->cuda.copy_out(g->received, address(from) + at, n, g->stream), "a copy from it") &&
                  wait_stream(g);
        if (is_good) memcpy((char *)host + at, g->received, n);
    }
    if (!is_good && bytes > 0) memset(host, 0xff, bytes);
    gpu_leave(g);
}

/* Rows of a device are far apart, or so long that each is pieces by itself: no copy of many at once. */
static bool are_apart(size_t pitch, size_t bytes)
{
    return pitch > CU_MOST_PITCH || bytes > MEGA_CUDA_STAGING_BYTES / 2 || bytes > PINNED_BYTES;
}

static void gpu_write_rows(mega_device *device, void *to, size_t pitch, const void *host, size_t rows, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    MEGA_ASSERT(g->recording == NULL, "%s: a write in a recording", g->name);
    for (size_t r = 0; r < rows && are_apart(pitch, bytes); r++)
        gpu_write(device, (char *)to + r * pitch, (const char *)host + r * bytes, bytes);
    if (are_apart(pitch, bytes)) return;
    if (gpu_enter_to_write(g, rows * bytes)) {
        g->has_work = g->has_more = true;
        (void)keep(g, mega_cuda_writes_add_rows(&g->writes, address(to), pitch, host, rows, bytes));
    }
    gpu_leave(g);
}

static void gpu_read_rows(mega_device *device, void *host, const void *from, size_t pitch, size_t rows, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    const size_t most = bytes > 0 ? PINNED_BYTES / bytes : 0;
    for (size_t r = 0; r < rows && are_apart(pitch, bytes); r++)
        gpu_read(device, (char *)host + r * bytes, (const char *)from + r * pitch, bytes);
    if (are_apart(pitch, bytes)) return;
    bool is_good = gpu_enter(g, bytes);
    for (size_t r = 0, n; is_good && r < rows; r += n) {
        n = rows - r < most ? rows - r : most;
        const cu_copy_2d what = {.from_kind = CU_DEVICE,
                                 .from = address(from) + r * pitch,
                                 .from_pitch = pitch,
                                 .to_kind = CU_HOST,
                                 .to_host = g->received,
                                 .to_pitch = bytes,
                                 .bytes = bytes,
                                 .rows = n};
        is_good = is_done(g, g->cuda.copy_2d(&what, g->stream), "a copy of rows from it") && wait_stream(g);
        if (is_good) memcpy((char *)host + r * bytes, g->received, n * bytes);
    }
    if (!is_good && bytes > 0) memset(host, 0xff, rows * bytes);
    gpu_leave(g);
}

static void gpu_read_all(mega_device *device, const mega_device_part *part, int count)
{
    mega_cuda_gpu *g = gpu_of(device);
    bool is_good = gpu_enter(g, 1);
    size_t at = 0;
    for (int i = 0; i < count; i++, at += part[i - 1].bytes) {
        MEGA_ASSERT(at + part[i].bytes <= MEGA_DEVICE_PARTS_BYTES, "%s: parts of %zu bytes and more", g->name, at);
        is_good =
            is_good && is_done(g, g->cuda.copy_out(g->received + at, address(part[i].device), part[i].bytes, g->stream),
                               "a copy from it");
    }
    is_good = is_good && wait_stream(g);
    at = 0;
    for (int i = 0; i < count; i++, at += part[i - 1].bytes)
        if (is_good) memcpy(part[i].host, g->received + at, part[i].bytes);
        else
            memset(part[i].host, 0xff, part[i].bytes);
    gpu_leave(g);
}

static void gpu_copy(mega_device *device, void *to, const void *from, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (gpu_enter(g, bytes))
        (void)is_done(g, g->cuda.copy(address(to), address(from), bytes, g->stream), "a copy in it");
    gpu_leave(g);
}

static void gpu_fill(mega_device *device, void *to, int byte, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (gpu_enter(g, bytes))
        (void)is_done(g, g->cuda.fill_8(address(to), (unsigned char)byte, bytes, g->stream), "filling its memory");
    gpu_leave(g);
}

/* ---- pinned memory ---- */

static mega_status gpu_host_alloc(mega_device *device, void **out, size_t bytes, const char *what)
{
    mega_cuda_gpu *g = gpu_of(device);
    char text[256];
    if (!gpu_enter(g, bytes)) {
        gpu_leave(g);
        return mega_cuda_gpu_status(g);
    }
    snprintf(text, sizeof text, "%s: %.4g MB of pinned memory for %s", g->name, (double)bytes * 1e-6, what);
    const mega_status st = mega_cuda_check(&g->cuda, g->cuda.host_alloc(out, bytes, 0), text);
    gpu_leave(g);
    return st;
}

static void gpu_host_free(mega_device *device, void *block)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (gpu_enter_to_end(g)) {
        if (g->has_work && keep(g, mega_cuda_writes_flush(&g->writes))) (void)wait_stream(g);
        (void)is_done(g, g->cuda.host_free(block), "giving back pinned memory");
    }
    gpu_leave(g);
}

static void gpu_send(mega_device *device, void *to, const void *pinned, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (gpu_enter(g, bytes)) (void)is_done(g, g->cuda.copy_in(address(to), pinned, bytes, g->stream), "a copy to it");
    gpu_leave(g);
}

/* After a failure, NaNs, as gpu_read. */
static void gpu_receive(mega_device *device, void *pinned, const void *from, size_t bytes)
{
    mega_cuda_gpu *g = gpu_of(device);
    const bool is_good = gpu_enter(g, bytes) &&
                         is_done(g, g->cuda.copy_out(pinned, address(from), bytes, g->stream), "a copy from it") &&
                         wait_stream(g);
    if (!is_good) memset(pinned, 0xff, bytes);
    gpu_leave(g);
}

/* ---- work ---- */

void mega_cuda_gpu_launch(mega_device *device, const char *source, const mega_cuda_launch *l, const void *args)
{
    mega_cuda_gpu *g = gpu_of(device);
    cu_function function;
    void *params[] = {(void *)(uintptr_t)args};
    if (gpu_enter(g, 1) && keep(g, mega_cuda_images_find(&g->images, &g->cuda, source, l, &function))) {
        (void)is_done(
            g, g->cuda.launch(function, l->x, l->y, l->z, l->threads, 1, 1, l->shared_bytes, g->stream, params, NULL),
            l->kernel);
        g->last = l->kernel;
        if (g->recording != NULL) g->recording->launches++;
    }
    gpu_leave(g);
}

static mega_status load_call(mega_cuda_gpu *g, const mega_cuda_kernel *kernel, const void *args)
{
    if (args != NULL && kernel == mega_cuda_kernel_at(MEGA_KERNEL_gemm))
        MEGA_TRY(mega_cuda_products_load(&g->products, args));
    const mega_cuda_call call = args != NULL ? kernel->call(args) : (mega_cuda_call){.count = 0};
    cu_function function;
    if (args == NULL) MEGA_TRY(mega_cuda_images_load(&g->images, &g->cuda, kernel->source));
    for (int i = 0; i < call.count; i++)
        MEGA_TRY(mega_cuda_images_find(&g->images, &g->cuda, kernel->source, &call.launch[i], &function));
    return MEGA_OK;
}

mega_status mega_cuda_load(mega_device *device, mega_kernel_id id, const void *args)
{
    mega_cuda_gpu *g = gpu_of(device);
    const mega_cuda_kernel *kernel = mega_cuda_kernel_at(id);
    if (gpu_enter(g, kernel != NULL)) (void)keep(g, load_call(g, kernel, args));
    const mega_status st = mega_cuda_gpu_status(g);
    gpu_leave(g);
    return st;
}

mega_cuda_loaded mega_cuda_loaded_get(mega_device *device)
{
    mega_cuda_gpu *g = gpu_of(device);
    pthread_mutex_lock(&g->lock);
    const mega_cuda_loaded loaded = g->images.loaded;
    pthread_mutex_unlock(&g->lock);
    return loaded;
}

/* ---- recordings: graphs of CUDA ---- */

static bool gpu_record(mega_device *device)
{
    mega_cuda_gpu *g = gpu_of(device);
    mega_recording *r = mega_calloc(1, sizeof *r);
    bool is_good = gpu_enter(g, 1);
    MEGA_ASSERT(g->recording == NULL, "%s: a recording in a recording", g->name);
    if (is_good && r == NULL) is_good = keep(g, MEGA_NO_MEMORY(g->name, "a recording"));
    is_good = is_good && is_done(g, g->cuda.capture_begin(g->stream, CU_CAPTURE_THREAD), "recording its work");
    if (is_good) g->recording = r;
    else
        mega_free(r);
    gpu_leave(g);
    return is_good;
}

/* Makes of a graph what can be launched; returns false, after a failure or without one, if it is not. */
static bool make_launchable(mega_cuda_gpu *g, cu_graph graph, mega_recording *r)
{
    size_t before = 0, after = 0, all;
    (void)g->cuda.memory_info(&before, &all);
    const cu_result made = g->cuda.graph_instantiate(&r->exec, graph, 0);
    if (made == CU_OUT_OF_MEMORY) { /* the run needs no graph */
        if (!g->lacks_graphs)
            mega_warn("%s: no memory for a graph of %lld launches, which are made one by one", g->name,
                      (long long)r->launches);
        g->lacks_graphs = true;
        return false;
    }
    if (!is_done(g, made, "making a graph of its work")) return false;
    (void)g->cuda.memory_info(&after, &all);
    r->bytes = before > after ? before - after : 0;
    g->device.recorded.recordings++;
    g->device.recorded.launches += r->launches;
    g->device.recorded.bytes += r->bytes;
    return true;
}

/* Capturing ends also after a failure. */
static mega_recording *gpu_record_end(mega_device *device)
{
    mega_cuda_gpu *g = gpu_of(device);
    cu_graph graph = NULL;
    (void)gpu_enter_to_end(g);
    mega_recording *r = g->recording;
    g->recording = NULL;
    r->last = g->last;
    bool is_good = is_done(g, g->cuda.capture_end(g->stream, &graph), "recording its work");
    is_good = is_good && g->failed.code == MEGA_OK && make_launchable(g, graph, r);
    if (graph != NULL) (void)g->cuda.graph_destroy(graph);
    gpu_leave(g);
    if (is_good) return r;
    mega_free(r);
    return NULL;
}

static void gpu_replay(mega_device *device, const mega_recording *recording)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (gpu_enter(g, 1)) {
        (void)is_done(g, g->cuda.graph_launch(recording->exec, g->stream), "launching a graph");
        g->last = recording->last;
    }
    gpu_leave(g);
}

static void gpu_forget(mega_device *device, mega_recording *recording)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (recording == NULL) return;
    if (gpu_enter_to_end(g)) (void)g->cuda.graph_exec_destroy(recording->exec);
    g->device.recorded.recordings--;
    g->device.recorded.launches -= recording->launches;
    g->device.recorded.bytes -= recording->bytes;
    gpu_leave(g);
    mega_free(recording);
}

static mega_status gpu_finish(mega_device *device)
{
    mega_cuda_gpu *g = gpu_of(device);
    if (gpu_enter_to_write(g, g->has_work ? 1 : 0) && keep(g, mega_cuda_writes_flush(&g->writes))) (void)wait_stream(g);
    const mega_status st = mega_cuda_gpu_status(g);
    gpu_leave(g);
    return st;
}

static mega_status gpu_failure(mega_device *device)
{
    mega_cuda_gpu *g = gpu_of(device);
    pthread_mutex_lock(&g->lock);
    const mega_status st = mega_cuda_gpu_status(g);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* ---- opening and closing ---- */

static void gpu_close(mega_device *device)
{
    mega_cuda_gpu *g = gpu_of(device);
    cu_context own;
    mega_cuda_exchanges.close(device);
    if (g->has_context && g->cuda.context_push(g->context) == CU_OK) {
        mega_cuda_products_close(&g->products, &g->cuda);
        mega_cuda_images_close(&g->images, &g->cuda);
        mega_cuda_writes_close(&g->writes);
        if (g->received != NULL) (void)g->cuda.host_free(g->received);
        if (g->answered != NULL) (void)g->cuda.event_destroy(g->answered);
        for (int64_t i = 0; i < g->made_marks; i++) (void)g->cuda.event_destroy(g->mark[i]);
        if (g->stream != NULL) (void)g->cuda.stream_destroy(g->stream);
        (void)g->cuda.context_pop(&own);
    }
    if (g->has_context) (void)g->cuda.context_release(g->id);
    mega_free(g->mark);
    mega_free(g->images.text);
    pthread_mutex_destroy(&g->lock);
    mega_free(g);
}

/* What a GPU that is open has, in its context. */
static mega_status take_own(mega_cuda_gpu *g)
{
    const mega_cuda_driver *cuda = &g->cuda;
    void *received = NULL;
    size_t all;
    MEGA_TRY(mega_cuda_check(cuda, cuda->memory_info(&g->left, &all), g->name));
    MEGA_TRY(mega_cuda_check(cuda, cuda->stream_create(&g->stream, CU_NON_BLOCKING), g->name));
    MEGA_TRY(mega_cuda_check(cuda, cuda->device_bus_id(g->bus_id, sizeof g->bus_id, g->id), g->name));
    g->writes.wait = wait_event;
    g->writes.user = g;
    MEGA_TRY(mega_cuda_writes_open(&g->writes, cuda, g->stream));
    MEGA_TRY(mega_cuda_check(cuda, cuda->host_alloc(&received, PINNED_BYTES + MEGA_DEVICE_PARTS_BYTES, 0), g->name));
    g->received = received;
    g->answers = g->received + PINNED_BYTES;
    MEGA_TRY(mega_cuda_check(cuda, cuda->event_create(&g->answered, CU_NO_TIMING), g->name));
    return MEGA_OK;
}

static mega_status gpu_take(mega_cuda_gpu *g)
{
    const mega_cuda_driver *cuda = &g->cuda;
    cu_context own;
    MEGA_TRY(mega_cuda_check(cuda, cuda->context_retain(&g->context, g->id), g->name));
    g->has_context = true;
    MEGA_TRY(mega_cuda_check(cuda, cuda->context_push(g->context), g->name));
    const mega_status st = take_own(g);
    const cu_result popped = cuda->context_pop(&own);
    return st == MEGA_OK ? mega_cuda_check(cuda, popped, g->name) : st;
}

/* What watches a wait under the lock may use the GPU, too. */
static void gpu_lock_make(pthread_mutex_t *lock)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

mega_status mega_cuda_open(int64_t ordinal, mega_device **out)
{
    mega_cuda_info gpu;
    mega_cuda_gpu *g = mega_calloc(1, sizeof *g);
    if (g == NULL) return MEGA_NO_MEMORY("cuda", "the record of a GPU");
    g->device = (mega_device){.name = g->name,
                              .identity = g->bus_id,
                              .exchanges = &mega_cuda_exchanges,
                              .alloc = gpu_alloc,
                              .free = gpu_free,
                              .write = gpu_write,
                              .read = gpu_read,
                              .read_all = gpu_read_all,
                              .ask = mega_cuda_ask,
                              .answer = mega_cuda_answer,
                              .copy = gpu_copy,
                              .write_rows = gpu_write_rows,
                              .read_rows = gpu_read_rows,
                              .fill = gpu_fill,
                              .host_alloc = gpu_host_alloc,
                              .host_free = gpu_host_free,
                              .send = gpu_send,
                              .receive = gpu_receive,
                              .finish = gpu_finish,
                              .failure = gpu_failure,
                              .close = gpu_close,
                              .record = gpu_record,
                              .record_end = gpu_record_end,
                              .replay = gpu_replay,
                              .forget = gpu_forget,
                              .marks_begin = mega_cuda_marks_begin,
                              .mark = mega_cuda_mark,
                              .seconds = mega_cuda_seconds};
    gpu_lock_make(&g->lock);
    mega_status st = mega_cuda_images_exist();
    if (st == MEGA_OK) st = mega_cuda_library_load(&g->cuda);
    if (st == MEGA_OK) st = mega_cuda_look_at(&g->cuda, ordinal, &g->id, &gpu);
    if (st == MEGA_OK) st = mega_cuda_images_open(&g->images, gpu.capability);
    if (st == MEGA_OK) snprintf(g->name, sizeof g->name, "cuda:%lld", (long long)ordinal);
    if (st == MEGA_OK) st = gpu_take(g);
    if (st == MEGA_OK) {
        *out = &g->device;
        return MEGA_OK;
    }
    mega_error_record why;
    mega_error_get_of(st, &why);
    gpu_close(&g->device);
    return mega_error_restore(&why);
}
