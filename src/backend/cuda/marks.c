/* Times of a GPU: events in the stream that computes. */
#include "gpu.h"
#include "megalith/memory.h"

void mega_cuda_marks_begin(mega_device *device)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    pthread_mutex_lock(&g->lock);
    g->num_marks = 0;
    pthread_mutex_unlock(&g->lock);
}

/* Makes more events, which later steps use again. */
static bool more_marks(mega_cuda_gpu *g)
{
    enum { AT_ONCE = 256 };
    if (g->num_marks < g->made_marks) return true;
    cu_event *more = mega_realloc(g->mark, (size_t)(g->made_marks + AT_ONCE) * sizeof *more);
    if (more == NULL) return mega_cuda_gpu_keep(g, MEGA_NO_MEMORY(g->name, "marks of its time"));
    g->mark = more;
    for (int i = 0; i < AT_ONCE; i++) {
        if (!mega_cuda_gpu_is_done(g, g->cuda.event_create(&g->mark[g->made_marks], 0), "an event of its time"))
            return false;
        g->made_marks++;
    }
    return true;
}

int64_t mega_cuda_mark(mega_device *device)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    int64_t number = -1;
    if (mega_cuda_gpu_enter(g, 1) && more_marks(g) &&
        mega_cuda_gpu_is_done(g, g->cuda.event_record(g->mark[g->num_marks], g->stream), "noting its time"))
        number = g->num_marks++;
    mega_cuda_gpu_leave(g);
    return number;
}

double mega_cuda_seconds(mega_device *device, int64_t from, int64_t to)
{
    mega_cuda_gpu *g = (mega_cuda_gpu *)device;
    float milliseconds = 0;
    if (mega_cuda_gpu_enter(g, 1) && from < g->num_marks && to < g->num_marks &&
        mega_cuda_gpu_wait(g, g->mark[from]) == MEGA_OK && mega_cuda_gpu_wait(g, g->mark[to]) == MEGA_OK &&
        !mega_cuda_gpu_is_done(g, g->cuda.event_elapsed(&milliseconds, g->mark[from], g->mark[to]), "its time"))
        milliseconds = 0;
    mega_cuda_gpu_leave(g);
    return (double)milliseconds * 1e-3;
}
