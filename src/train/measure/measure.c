/* Measures copies, and has the parts of a measurement in order (megalith/measure.h). */
#include "measure.h"
#include "megalith/memory.h"
#include "megalith/peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILE_BYTES ((size_t)1 << 20)
#define LEAST_S    0.1 /* a try takes as many calls as this needs */
enum { TRIES = 5, MOST_CALLS = 1 << 12 };

/* ---- a rate ---- */

static mega_status measure_seconds(const measured_device *d, int calls, measured_work *work, void *user, double *out)
{
    const double began = mega_time_now();
    for (int i = 0; i < calls; i++) MEGA_TRY(work(d, user));
    const mega_status st = mega_device_finish(d->device);
    *out = mega_time_now() - began;
    return st;
}

static int measure_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

mega_status measure_rate(const measured_device *d, mega_measured *m, double amount, double peak, measured_work *work,
                         void *user)
{
    const int tries = d->o->is_quick ? 1 : TRIES;
    double rate[TRIES], seconds = 0;
    int calls = 1;
    MEGA_TRY(measure_seconds(d, 1, work, user, &seconds)); /* loads kernels, touches memory */
    for (; !d->o->is_quick && seconds < LEAST_S && calls < MOST_CALLS; calls *= 2)
        MEGA_TRY(measure_seconds(d, calls, work, user, &seconds));
    for (int i = 0; i < tries; i++) {
        MEGA_TRY(measure_seconds(d, calls, work, user, &seconds));
        rate[i] = amount * calls / seconds;
    }
    qsort(rate, (size_t)tries, sizeof *rate, measure_ascending);
    const double unit = strcmp(m->unit, "GB/s") == 0 ? 1e-9 : strcmp(m->unit, "TFLOP/s") == 0 ? 1e-12 : 1;
    m->value = rate[tries / 2] * unit;
    m->low = rate[0] * unit;
    m->high = rate[tries - 1] * unit;
    m->share = peak > 0 ? rate[tries / 2] / peak : 0;
    d->o->each(d->o->user, m);
    return MEGA_OK;
}

double measure_peak(const measured_device *d, mega_dtype type)
{
    return type == MEGA_F32 ? d->peak_32 : d->peak_16;
}

mega_status measure_alloc(const measured_device *d, void **out, size_t bytes, mega_dtype type)
{
    const size_t half = type == MEGA_F32 ? 0 : TILE_BYTES;
    MEGA_TRY(mega_device_alloc(d->device, out, bytes, "what is measured"));
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < TILE_BYTES ? bytes - at : TILE_BYTES;
        mega_device_write((char *)*out + at, d->tile + half, n);
    }
    return MEGA_OK;
}

/* Numbers from -1 to 1: the first tile in fp32, the second in bf16, their upper halves. */
static mega_status tile_make(measured_device *d)
{
    const size_t count = TILE_BYTES / sizeof(float);
    uint32_t random = 2463534242u;
    d->tile = mega_malloc(2 * TILE_BYTES);
    if (d->tile == NULL) return MEGA_NO_MEMORY("measure-device", "random numbers");
    for (size_t i = 0; i < 2 * count; i++) {
        uint32_t bits;
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        const float number = (float)random / 2147483648.0f - 1.0f;
        memcpy(&bits, &number, sizeof bits);
        const uint16_t upper = (uint16_t)(bits >> 16);
        if (i < count) memcpy(d->tile + i * sizeof number, &number, sizeof number);
        memcpy(d->tile + TILE_BYTES + i * sizeof upper, &upper, sizeof upper);
    }
    return MEGA_OK;
}

/* ---- copies ---- */

typedef struct copies {
    char *host, *from, *to;
    size_t bytes;
} copies;

static mega_status copy_to(const measured_device *d, void *user)
{
    const copies *c = user;
    (void)d;
    mega_device_write(c->to, c->host, c->bytes);
    return MEGA_OK;
}

static mega_status copy_from(const measured_device *d, void *user)
{
    const copies *c = user;
    (void)d;
    mega_device_read(c->host, c->from, c->bytes);
    return MEGA_OK;
}

static mega_status copy_within(const measured_device *d, void *user)
{
    const copies *c = user;
    (void)d;
    mega_device_copy(c->to, c->from, c->bytes);
    return MEGA_OK;
}

static mega_status copies_measure(const measured_device *d, copies *c)
{
    const double bytes = (double)c->bytes;
    mega_measured to = {.name = "copy_to_device", .unit = "GB/s", .text = "from memory of the host that is not pinned"};
    mega_measured from = {.name = "copy_from_device", .unit = "GB/s", .text = "to memory that is not pinned"};
    mega_measured in = {.name = "copy_on_device", .unit = "GB/s", .text = "read and written"};
    MEGA_TRY(measure_rate(d, &to, bytes, 0, copy_to, c));
    MEGA_TRY(measure_rate(d, &from, bytes, 0, copy_from, c));
    return measure_rate(d, &in, 2 * bytes, d->peak_bytes, copy_within, c);
}

static mega_status measure_copies(const measured_device *d)
{
    copies c = {.bytes = d->o->is_quick ? (size_t)1 << 20 : (size_t)256 << 20};
    void *from = NULL, *to = NULL;
    c.host = mega_calloc(1, c.bytes);
    mega_status st = c.host != NULL ? MEGA_OK : MEGA_NO_MEMORY("measure-device", "what is copied");
    if (st == MEGA_OK) st = measure_alloc(d, &from, c.bytes, MEGA_F32);
    if (st == MEGA_OK) st = measure_alloc(d, &to, c.bytes, MEGA_F32);
    c.from = from;
    c.to = to;
    if (st == MEGA_OK) st = copies_measure(d, &c);
    mega_device_free(from, c.bytes);
    mega_device_free(to, c.bytes);
    mega_free(c.host);
    return st;
}

/* ---- all ---- */

static mega_status open_device(measured_device *d)
{
    const mega_backend_options *b = &d->o->cfg->engine.backend;
    mega_cuda_info gpu;
    d->backend = b->backend;
    d->queue.team = d->o->team;
    if (b->backend != MEGA_BACKEND_CUDA) {
        d->peak_32 = mega_cpu_peak_flops(d->o->team, MEGA_F32);
        d->peak_16 = mega_cpu_peak_flops(d->o->team, MEGA_BF16);
        return MEGA_OK;
    }
    MEGA_TRY(mega_cuda_info_get(b->gpu, &gpu));
    MEGA_TRY(mega_cuda_open(b->gpu, &d->device));
    MEGA_TRY(mega_cuda_use_library(d->device, b->matmul_library));
    d->queue.device = d->device;
    d->model = mega_gpu_model_reported(gpu.name);
    if (d->model == NULL) return MEGA_OK;
    d->peak_32 = mega_gpu_model_flops(d->model, MEGA_F32);
    d->peak_16 = mega_gpu_model_flops(d->model, MEGA_BF16);
    d->peak_bytes = d->model->gigabytes_s * 1e9;
    return MEGA_OK;
}

mega_status mega_measure_device(const mega_measure_options *o)
{
    measured_device d = {.o = o};
    mega_status st = tile_make(&d);
    if (st == MEGA_OK) st = open_device(&d);
    if (st == MEGA_OK) st = measure_copies(&d);
    if (st == MEGA_OK) st = measure_kernels(&d);
    if (st == MEGA_OK) st = measure_step(&d, MEGA_F32);
    if (st == MEGA_OK) st = measure_step(&d, MEGA_BF16);
    mega_device_close(d.device);
    mega_free(d.tile);
    return st;
}
