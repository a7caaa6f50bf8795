/* The end of a step on a GPU, for every optimizer: its updates are the CPU's, the device counts them, and after one
 * that it refuses nothing changes until the verdict is cleared. On the software device. */
#include "kit.h"
#include "megalith/cuda.h"
#include "megalith/device_memory.h"
#include "megalith/optimizer_state.h"
#include "megalith/update.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = 3, MOST = 60, UPDATES = 4, NOT_BUILT = 77 };
static const int64_t rows[PARAMS] = {6, 10, 7}, cols[PARAMS] = {10, 1, 8};

typedef struct side {
    mega_layout *layout;
    mega_params *params;
    mega_optimizer *optimizer;
    mega_update *update;
    mega_device *device; /* NULL: the CPU */
    mega_region region;
    void *scratch;
} side;

static mega_optimizer_options options_of(mega_optimizer_kind kind, int form)
{
    return (mega_optimizer_options){.kind = kind,
                                    .beta1 = 0.8,
                                    .beta2 = 0.95,
                                    .eps = 1e-6,
                                    .l2 = form == 1 && kind == MEGA_OPTIMIZER_ADAM,
                                    .amsgrad = form == 1,
                                    .momentum = 0.7,
                                    .nesterov = form == 1,
                                    .lr_decay = 0.4,
                                    .beta3 = 0.97,
                                    .alpha = 3,
                                    .alpha_steps = UPDATES - 1,
                                    .warmup_steps = UPDATES - 1,
                                    .r = 0.5,
                                    .weight_lr_power = 2.5,
                                    .freeze_step = UPDATES - 1,
                                    .max_coeff = 10,
                                    .min_coeff = 0.01,
                                    .muon_momentum = 0.9,
                                    .muon_steps = 5,
                                    .muon_coefficients = MEGA_MUON_QUINTIC,
                                    .muon_extra_scale = 0.7,
                                    .muon_lr = 0.5};
}

/* What optimizer and parameters need is in the region, on the device; on the CPU in blocks of their own. */
static void side_allocate(side *s)
{
    const int both = MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS;
    mega_region *region = s->device != NULL ? &s->region : NULL;
    if (region != NULL) {
        region->bytes = mega_params_region_bytes(s->params, both) + mega_optimizer_region_bytes(s->optimizer);
        void *base;
        need(mega_device_alloc(s->device, &base, region->bytes, "a test"));
        region->base = base;
    }
    need(mega_params_allocate_in(s->params, both, region));
    need(mega_optimizer_allocate_in(s->optimizer, region));
    const size_t scratch = mega_update_scratch_bytes(s->update);
    need(mega_device_alloc(s->device, &s->scratch, scratch + 1, "a test"));
    mega_update_allocate(s->update, s->scratch);
}

static void side_open(side *s, mega_optimizer_options o, mega_dtype compute, mega_device *device)
{
    *s = (side){.device = device};
    o.backend = device != NULL ? MEGA_BACKEND_CUDA : MEGA_BACKEND_CPU;
    o.queue = (mega_queue){.device = device};
    need(mega_layout_create(NULL, NULL, &s->layout));
    need(mega_params_create(s->layout, &s->params));
    for (int i = 0; i < PARAMS; i++) {
        mega_param p = {.num_dims = cols[i] > 1 ? 2 : 1,
                        .shape = {rows[i], cols[i]},
                        .true_shape = {rows[i], cols[i]},
                        .weight_decay = i != 1,
                        .own_decay = i == 2 ? 0.2 : 0,
                        .lr_scale = i == 2 ? 0.5 : 1};
        p.name[0] = (char)('a' + i);
        need(mega_params_add(s->params, &p, NULL));
    }
    mega_params_run_in(s->params, o.backend, &o.queue);
    need(mega_params_place(s->params, compute, 1000));
    need(mega_optimizer_create(s->params, s->layout, &o, &s->optimizer));
    need(mega_update_create(s->optimizer, &(mega_update_options){0}, &s->update));
    side_allocate(s);
}

static void side_close(side *s)
{
    const size_t scratch = mega_update_scratch_bytes(s->update);
    mega_update_destroy(s->update);
    mega_optimizer_destroy(s->optimizer);
    mega_params_destroy(s->params);
    mega_layout_destroy(s->layout);
    mega_device_free(s->scratch, scratch + 1);
    if (s->region.base != NULL) mega_device_free(s->region.base, s->region.bytes);
}

static void put(const side *s, bool masters, int step)
{
    for (int i = 0; i < PARAMS; i++) {
        float x[MOST];
        for (int k = 0; k < MOST; k++) x[k] = (float)(sin(1.7 * k + 3.1 * i + 0.9 * step) + 0.3);
        mega_device_write(masters ? mega_params_master(s->params, i) : mega_params_grad(s->params, i), x,
                          (size_t)(rows[i] * cols[i]) * sizeof(float));
    }
}

static mega_update_verdict update(const side *s, int step)
{
    mega_update_step *u = mega_update_step_block(s->update);
    *u = (mega_update_step){.correction = 0.5, .clip = 1, .lr = 0.05 / step, .weight_decay = 0.1 * step};
    need(mega_update_run(s->update, MEGA_UPDATE_APPLY));
    return u->verdict;
}

/* All that an update changes: masters, rounded weights, states. Returns how many floats. */
static int64_t look(const side *s, float *out)
{
    float *at = out;
    for (int i = 0; i < PARAMS; i++) {
        const size_t count = (size_t)(rows[i] * cols[i]);
        mega_device_read(at, mega_params_master(s->params, i), count * sizeof *at);
        at += count;
        for (int k = 0; k < mega_optimizer_num_moments(s->optimizer); k++) {
            const void *moment = mega_optimizer_moment(s->optimizer, k, i);
            if (moment == NULL) continue;
            mega_device_read(at, moment, count * sizeof *at);
            at += count;
        }
        if (!mega_dtype_is_half(mega_params_compute_dtype(s->params))) continue;
        uint16_t weight[MOST];
        mega_device_read(weight, mega_params_weight(s->params, i), count * sizeof *weight);
        for (size_t k = 0; k < count; k++) *at++ = mega_bf16_to_f32(weight[k]);
    }
    return at - out;
}

static void compare(const side *cpu, const side *gpu, const char *what)
{
    static float a[PARAMS * MOST * 8], b[PARAMS * MOST * 8];
    const int64_t count = look(cpu, a);
    assert_int_equal(look(gpu, b), count);
    const double most = mega_dtype_is_half(mega_params_compute_dtype(cpu->params)) ? 8e-3 : 2e-5;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= most * fmax(fabs((double)a[i]), 0.1)))
            fail_msg("%s: number %lld is %.9g on the device, %.9g on the CPU", what, (long long)i, (double)b[i],
                     (double)a[i]);
    assert_int_equal(mega_optimizer_updates(gpu->optimizer), mega_optimizer_updates(cpu->optimizer));
    for (int i = 0; i < mega_optimizer_num_numbers(cpu->optimizer); i++)
        assert_true(fabs(mega_optimizer_number(gpu->optimizer, i) / mega_optimizer_number(cpu->optimizer, i) - 1) <
                    1e-13);
}

/* A gradient that is not finite, and then two updates that would be good. */
static void refuse(const side *s)
{
    static float before[PARAMS * MOST * 8], after[PARAMS * MOST * 8];
    const float infinite = INFINITY;
    const int64_t count = look(s, before), updates = mega_optimizer_updates(s->optimizer);
    for (int i = 0; i < 3; i++) {
        put(s, false, 7 + i);
        if (i == 0) mega_device_write((float *)mega_params_grad(s->params, 0) + 3, &infinite, sizeof infinite);
        assert_int_equal(update(s, 1), MEGA_UPDATE_GRADIENT_IS_NOT_FINITE);
        assert_int_equal(look(s, after), count);
        assert_memory_equal(before, after, (size_t)count * sizeof *before);
        assert_int_equal(mega_optimizer_updates(s->optimizer), updates);
    }
    mega_update_clear(s->update);
}

static void agrees(mega_optimizer_kind kind, int form, mega_dtype compute, mega_device *device)
{
    side cpu, gpu;
    side *const both[] = {&cpu, &gpu};
    side_open(&cpu, options_of(kind, form), compute, NULL);
    side_open(&gpu, options_of(kind, form), compute, device);
    for (int i = 0; i < 2; i++) put(both[i], true, 100);
    for (int step = 1; step <= UPDATES; step++) {
        for (int i = 0; i < 2; i++) {
            put(both[i], false, step);
            assert_int_equal(update(both[i], step), MEGA_UPDATE_IS_FINITE);
        }
        compare(&cpu, &gpu, mega_optimizer_kind_name(kind));
        if (step == 2) refuse(&gpu);
        if (step == 3) refuse(&cpu);
    }
    assert_int_equal(mega_optimizer_updates(gpu.optimizer), UPDATES);
    side_close(&cpu);
    side_close(&gpu);
}

static void every_optimizer_updates_as_on_the_cpu(void **state)
{
    mega_device *device = *state;
    for (mega_optimizer_kind kind = 0; kind < MEGA_OPTIMIZER_KINDS; kind++)
        for (int form = 0; form < 2; form++) agrees(kind, form, form == 0 ? MEGA_F32 : MEGA_BF16, device);
}

int main(void)
{
    mega_device *device;
    setenv("MEGA_CUDA_LIBRARY", MEGA_CUDA_SOFTWARE, 1);
    if (mega_cuda_open(0, &device) != MEGA_OK) {
        if (strstr(mega_error_message(), "this build has no kernels for GPUs") != NULL) return NOT_BUILT;
        (void)fprintf(stderr, "%s\n", mega_error_message());
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(every_optimizer_updates_as_on_the_cpu, device)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mega_device_close(device);
    return failed;
}
