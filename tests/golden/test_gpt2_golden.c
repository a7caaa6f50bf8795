/* Compares forward, loss and every gradient of a small random GPT-2 with PyTorch and transformers in fp32
 * (tools/make_gpt2_golden.py). Two fp32 programs that sum in different orders agree to a few times 2^-24 times the
 * square root of the longest sum; every tensor must agree within 1e-5 of its norm. */
#include "gpt_run.h"
#include "megalith/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct golden_tensor {
    char name[96];
    int num_dims;
    uint64_t dim[2];
    const void *data; /* copied out of the file: aligned */
    int64_t count;
} golden_tensor;

typedef struct golden {
    golden_tensor tensor[80];
    int count;
} golden;

static const uint8_t *take(const uint8_t **at, const uint8_t *end, size_t n)
{
    const uint8_t *here = *at;
    if ((size_t)(end - here) < n) fail_msg("tests/golden/gpt2.bin is cut short");
    *at += n;
    return here;
}

static uint32_t take_u32(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *b = take(at, end, 4);
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static golden golden_read(void)
{
    golden g = {.count = 0};
    char *bytes = NULL;
    size_t size = 0;
    GPT_RUN_OK(mega_file_read(mega_kit_source("tests/golden/gpt2.bin"), &bytes, &size));
    const uint8_t *at = (const uint8_t *)bytes, *const end = at + size;
    assert_memory_equal(take(&at, end, 8), "MEGAGLD1", 8);
    const uint32_t count = take_u32(&at, end);
    assert_true(count <= sizeof g.tensor / sizeof *g.tensor);
    for (; g.count < (int)count; g.count++) {
        golden_tensor *t = &g.tensor[g.count];
        const uint32_t length = take_u32(&at, end);
        assert_true(length < sizeof t->name);
        memcpy(t->name, take(&at, end, length), length);
        take_u32(&at, end); /* type: f32 and i32 have one size */
        t->num_dims = (int)take_u32(&at, end);
        assert_in_range(t->num_dims, 1, 2);
        t->count = 1;
        for (int d = 0; d < t->num_dims; d++) {
            const uint64_t low = take_u32(&at, end);
            t->dim[d] = low | (uint64_t)take_u32(&at, end) << 32;
            t->count *= (int64_t)t->dim[d];
        }
        void *copy = malloc((size_t)t->count * 4);
        memcpy(copy, take(&at, end, (size_t)t->count * 4), (size_t)t->count * 4);
        t->data = copy;
    }
    assert_true(at == end);
    mega_free(bytes);
    return g;
}

static void golden_free(golden *g)
{
    for (int i = 0; i < g->count; i++) free((void *)(uintptr_t)g->tensor[i].data);
}

static const golden_tensor *find(const golden *g, const char *prefix, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (int i = 0; i < g->count; i++)
        if (strcmp(g->tensor[i].name, full) == 0) return &g->tensor[i];
    fail_msg("tests/golden/gpt2.bin has no tensor %s", full);
    return NULL;
}

/* Element (row, col) in memory orientation of a tensor in file orientation. */
static float element(const golden_tensor *t, const mega_param *r, int64_t row, int64_t col)
{
    const float *x = t->data;
    if (t->num_dims == 1) return x[row];
    return r->transposed_in_file ? x[col * r->true_shape[0] + row] : x[row * r->true_shape[1] + col];
}

static void load_weights(const gpt_run *run, const golden *g)
{
    for (int i = 0; i < mega_params_count(run->params); i++) {
        const mega_param *r = mega_params_get(run->params, i);
        const golden_tensor *t = find(g, "", r->name);
        assert_int_equal(t->count, r->true_shape[0] * r->true_shape[1]);
        float *w = mega_params_master(run->params, i);
        for (int64_t row = 0; row < r->true_shape[0]; row++)
            for (int64_t col = 0; col < r->true_shape[1]; col++) w[row * r->shape[1] + col] = element(t, r, row, col);
    }
    assert_int_equal(mega_params_publish(run->params), MEGA_OK);
}

static void fill(gpt_run *run, const golden *g)
{
    gpt_run_fill(run, 0, 2); /* sample ids and positions; the rest comes from the file */
    memcpy(mega_program_tensor(run->program, "tokens", 0), find(g, "", "tokens")->data, 42 * 4);
    memcpy(mega_program_tensor(run->program, "labels", 0), find(g, "", "labels")->data, 42 * 4);
    memcpy(mega_program_tensor(run->program, "loss_mask", 0), find(g, "", "loss_mask")->data, 42 * 4);
}

static void check(mega_backend_kind backend, int threads, double tolerance)
{
    const mega_transformer m =
        gpt_of((gpt_size){.layers = 2, .heads = 3, .head_dim = 8, .positions = 20, .vocab = 61, .init_std = 0.02});
    const gpt_run_options o = {.dtype = MEGA_F32, .backend = backend, .threads = threads, .batch = 3, .seq = 14};
    golden g = golden_read();
    gpt_run run = gpt_run_make(&m, &o);
    load_weights(&run, &g);
    fill(&run, &g);
    gpt_run_zero_gradients(&run);
    GPT_RUN_OK(mega_program_forward(run.program, 0));
    GPT_RUN_OK(mega_program_backward(run.program, 0));
    mega_kit_assert_close("token_loss", mega_program_tensor(run.program, "token_loss", 0),
                          find(&g, "", "token_loss")->data, 42, tolerance);
    const double expected = *(const float *)find(&g, "", "loss")->data;
    assert_true(fabs(gpt_run_loss(&run, 0) - expected) <= tolerance * expected);
    double worst = 0.0;
    for (int i = 0; i < mega_params_count(run.params); i++) {
        const mega_param *r = mega_params_get(run.params, i);
        const golden_tensor *t = find(&g, "grad.", r->name);
        float *const wanted = malloc((size_t)t->count * sizeof *wanted);
        for (int64_t row = 0; row < r->true_shape[0]; row++)
            for (int64_t col = 0; col < r->true_shape[1]; col++)
                wanted[row * r->true_shape[1] + col] = element(t, r, row, col);
        mega_kit_assert_close(t->name, mega_params_grad(run.params, i), wanted, t->count, tolerance);
        worst = fmax(worst, mega_kit_relative_error(mega_params_grad(run.params, i), wanted, t->count));
        free(wanted);
    }
    print_message("worst gradient differs by %.2g of its norm\n", worst);
    gpt_run_free(&run);
    golden_free(&g);
}

static void plain_kernels_agree_with_transformers(void **state)
{
    (void)state;
    check(MEGA_BACKEND_PLAIN, 1, 1e-5);
}

static void fast_kernels_agree_with_transformers(void **state)
{
    (void)state;
    check(MEGA_BACKEND_CPU, 1, 1e-5);
    check(MEGA_BACKEND_CPU, 2, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_kernels_agree_with_transformers),
        cmocka_unit_test(fast_kernels_agree_with_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
