/* Numbers of a GPU that the host asks for now and reads later (mega_device_ask): copies to pinned memory, and an event
 * after them, for which alone the host waits. */
#include "gpu.h"
#include "megalith/assert.h"

#include <string.h>

void mega_cuda_ask(mega_device *device, const mega_device_part *part, int count)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    bool is_good = mega_cuda_gpu_enter(g, 1);
    size_t at = 0;
    for (int i = 0; i < count; i++, at += part[i - 1].bytes) {
        MEGA_ASSERT(at + part[i].bytes <= MEGA_DEVICE_PARTS_BYTES, "%s: parts of %zu bytes and more", g->name, at);
        const cu_address from = (cu_address)(uintptr_t)part[i].device;
        is_good = is_good && mega_cuda_gpu_is_done(g, g->cuda.copy_out(g->answers + at, from, part[i].bytes, g->stream),
                                                   "a copy from it");
    }
    if (is_good) (void)mega_cuda_gpu_is_done(g, g->cuda.event_record(g->answered, g->stream), "an event after a copy");
    g->has_more = false;
    mega_cuda_gpu_leave(g);
}

/* What was asked for after the question may still run; without that, all has been waited for. */
static bool wait_for_answer(mega_cuda_gpu *g)
{
    if (!mega_cuda_gpu_enter_to_end(g) || g->failed.code != MEGA_OK) return false;
    if (mega_cuda_gpu_wait(g, g->answered) != MEGA_OK) return false;
    if (g->has_more) return true;
    mega_cuda_writes_are_done(&g->writes);
    g->has_work = false;
    g->last = NULL;
    return true;
}

void mega_cuda_answer(mega_device *device, const mega_device_part *part, int count)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    const bool is_good = wait_for_answer(g);
    size_t at = 0;
    for (int i = 0; i < count; i++, at += part[i - 1].bytes)
        if (is_good) memcpy(part[i].host, g->answers + at, part[i].bytes);
        else
            memset(part[i].host, 0xff, part[i].bytes);
    mega_cuda_gpu_leave(g);
}
