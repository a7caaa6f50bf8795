/* Invariant 1 on one rank: recomputation, threads and the size of the micro-batch change only speed and memory, and
 * precision only rounding. Compares losses and gradients of one step of four samples of a small GPT with dropout with
 * the same step in double with the plain kernels. The loss is per token, so that the mean does not depend on the
 * micro-batch. */
#include "gpt_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 4
#define SEQ     16

typedef struct variant {
    const char *name;
    mega_transformer_recompute recompute;
    bool uniform;
    int64_t layers;
} variant;

static const variant variants[] = {{"none", MEGA_TRANSFORMER_RECOMPUTE_NONE, false, 1},
                                   {"selective", MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE, false, 1},
                                   {"full uniform 1", MEGA_TRANSFORMER_RECOMPUTE_FULL, true, 1},
                                   {"full uniform 2", MEGA_TRANSFORMER_RECOMPUTE_FULL, true, 2},
                                   {"full block 1", MEGA_TRANSFORMER_RECOMPUTE_FULL, false, 1}};
#define NUM_VARIANTS (sizeof variants / sizeof *variants)

typedef struct outcome {
    double token_loss[SAMPLES * SEQ];
    double *gradient; /* flat, as double */
    int64_t count;
} outcome;

typedef struct setting {
    mega_dtype dtype;
    mega_backend_kind backend;
    int threads;
    int64_t micro_batch;
} setting;

static outcome step(const variant *v, const setting *s)
{
    mega_transformer m = gpt_run_tiny();
    m.attention_dropout = m.hidden_dropout = 0.1;
    m.recompute = v->recompute;
    m.recompute_uniform = v->uniform;
    m.recompute_layers = v->layers;
    const gpt_run_options o = {.dtype = s->dtype,
                               .backend = s->backend,
                               .threads = s->threads,
                               .batch = s->micro_batch,
                               .seq = SEQ,
                               .per_token_loss = true};
    gpt_run r = gpt_run_make(&m, &o);
    /* Weights of every precision are the bf16 ones, so that what differs is the computation alone. */
    for (int64_t i = 0; i < mega_params_elements(r.params); i++) {
        void *w = mega_params_flat_master(r.params);
        const double rounded = (double)mega_bf16_to_f32(mega_f32_to_bf16((float)gpt_run_number(&r, w, i)));
        if (mega_params_acc_dtype(r.params) == MEGA_F64) ((double *)w)[i] = rounded;
        else
            ((float *)w)[i] = (float)rounded;
    }
    assert_int_equal(mega_params_publish(r.params), MEGA_OK);
    mega_program_step_block(r.program)->loss_factor = 1.0 / (SAMPLES * SEQ);
    gpt_run_zero_gradients(&r);
    outcome out = {.count = mega_params_elements(r.params)};
    for (int64_t first = 0; first < SAMPLES; first += s->micro_batch) {
        gpt_run_fill(&r, 0, (uint32_t)first);
        GPT_RUN_OK(mega_program_forward(r.program, 0));
        GPT_RUN_OK(mega_program_backward(r.program, 0));
        const void *loss = mega_program_tensor(r.program, "token_loss", 0);
        for (int64_t i = 0; i < s->micro_batch * SEQ; i++)
            out.token_loss[first * SEQ + i] = gpt_run_number(&r, loss, i);
    }
    out.gradient = malloc((size_t)out.count * sizeof *out.gradient);
    for (int64_t i = 0; i < out.count; i++) out.gradient[i] = gpt_run_number(&r, mega_params_flat_grad(r.params), i);
    gpt_run_free(&r);
    return out;
}

static void expect_same_bits(const outcome *a, const outcome *b, const char *what)
{
    for (int i = 0; i < SAMPLES * SEQ; i++)
        if (memcmp(&a->token_loss[i], &b->token_loss[i], sizeof(double)) != 0)
            fail_msg("%s: loss of token %d is %.17g, expected %.17g", what, i, a->token_loss[i], b->token_loss[i]);
    for (int64_t i = 0; i < a->count; i++)
        if (memcmp(&a->gradient[i], &b->gradient[i], sizeof(double)) != 0)
            fail_msg("%s: gradient element %lld is %.17g, expected %.17g", what, (long long)i, a->gradient[i],
                     b->gradient[i]);
}

static void expect_near(const outcome *a, const outcome *b, double loss_tolerance, double gradient_tolerance,
                        const char *what)
{
    const double loss = mega_kit_relative_error_f64(a->token_loss, b->token_loss, SAMPLES * SEQ);
    const double gradient = mega_kit_relative_error_f64(a->gradient, b->gradient, a->count);
    if (!(loss <= loss_tolerance && gradient <= gradient_tolerance))
        fail_msg("%s: losses differ by %.3g (at most %.3g), gradients by %.3g (at most %.3g)", what, loss,
                 loss_tolerance, gradient, gradient_tolerance);
}

/* Against the reference: nothing but rounding. Within one precision and micro-batch: the same bits whatever is
 * recomputed and however many threads there are. Between micro-batches: per-token losses keep their bits in double,
 * where products sum in one order; gradients are summed in another order. */
static void check_precision(mega_dtype dtype, mega_backend_kind backend, double loss_tolerance,
                            double gradient_tolerance)
{
    const setting exact = {MEGA_F64, MEGA_BACKEND_PLAIN, 1, SAMPLES};
    outcome reference = step(&variants[0], &exact);
    char what[128];
    for (int64_t micro_batch = 1; micro_batch <= SAMPLES; micro_batch *= 2) {
        const setting one = {dtype, backend, 1, micro_batch};
        outcome base = step(&variants[0], &one);
        snprintf(what, sizeof what, "%s, micro-batch %lld, against f64", mega_dtype_name(dtype),
                 (long long)micro_batch);
        expect_near(&base, &reference, loss_tolerance, gradient_tolerance, what);
        for (size_t v = 0; v < NUM_VARIANTS; v++)
            for (int threads = 1; threads <= 2; threads++) {
                if (v == 0 && threads == 1) continue;
                const setting s = {dtype, backend, threads, micro_batch};
                outcome o = step(&variants[v], &s);
                snprintf(what, sizeof what, "%s, micro-batch %lld, recompute %s, %d threads", mega_dtype_name(dtype),
                         (long long)micro_batch, variants[v].name, threads);
                expect_same_bits(&o, &base, what);
                free(o.gradient);
            }
        free(base.gradient);
    }
    free(reference.gradient);
}

static void f64_plain(void **state)
{
    (void)state;
    check_precision(MEGA_F64, MEGA_BACKEND_PLAIN, 0.0, 1e-14);
}

static void f32_plain(void **state)
{
    (void)state;
    check_precision(MEGA_F32, MEGA_BACKEND_PLAIN, 1e-6, 1e-5);
}

static void f32_fast(void **state)
{
    (void)state;
    check_precision(MEGA_F32, MEGA_BACKEND_CPU, 1e-6, 1e-5);
}

/* bf16 has 8 bits: an activation is off by up to 2^-9 of itself, and a gradient has passed about twenty roundings. */
static void bf16_fast(void **state)
{
    (void)state;
    check_precision(MEGA_BF16, MEGA_BACKEND_CPU, 1e-2, 3e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_plain),
        cmocka_unit_test(f32_plain),
        cmocka_unit_test(f32_fast),
        cmocka_unit_test(bf16_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
