/* GPT as a program: its gradients against finite differences in double, and settings that must not change them. */
#include "gpt_describe.h"
#include "gpt_run.h"
#include "megalith/transformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const gpt_run_options train_f64 = {.dtype = MEGA_F64, .backend = MEGA_BACKEND_PLAIN, .batch = 2, .seq = 8};

/* Returns the loss, and the gradients of samples 0 and 1, a copy that the caller frees. */
static double run_once(const mega_transformer *m, const gpt_run_options *o, double **gradients, int64_t *count)
{
    gpt_run r = gpt_run_make(m, o);
    gpt_run_fill(&r, 0, 0);
    gpt_run_zero_gradients(&r);
    GPT_RUN_OK(mega_program_forward(r.program, 0));
    const double loss = gpt_run_loss(&r, 0);
    if (!o->evaluate) GPT_RUN_OK(mega_program_backward(r.program, 0));
    if (gradients != NULL) {
        *count = mega_params_elements(r.params);
        *gradients = malloc((size_t)*count * sizeof **gradients);
        const void *flat = mega_params_flat_grad(r.params);
        for (int64_t i = 0; i < *count; i++) (*gradients)[i] = gpt_run_number(&r, flat, i);
    }
    gpt_run_free(&r);
    return loss;
}

static void gradients_match_finite_differences(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    m.attention_dropout = m.hidden_dropout = 0.2;
    gpt_run r = gpt_run_make(&m, &train_f64);
    gpt_run_fill(&r, 0, 0);
    gpt_run_zero_gradients(&r);
    GPT_RUN_OK(mega_program_forward(r.program, 0));
    GPT_RUN_OK(mega_program_backward(r.program, 0));
    const int64_t n = mega_params_elements(r.params);
    double *const gradient = malloc((size_t)n * sizeof *gradient);
    memcpy(gradient, mega_params_flat_grad(r.params), (size_t)n * sizeof *gradient);
    for (int p = 0; p < mega_params_count(r.params); p++) {
        const mega_param *record = mega_params_get(r.params, p);
        double *const w = mega_params_master(r.params, p);
        /* Along a random direction of the whole tensor first, then along a few single elements. */
        for (int trial = 0; trial < 4; trial++) {
            const double h = 1e-5;
            double loss[2], expected = 0.0;
            float *const direction = calloc((size_t)record->count, sizeof *direction);
            if (trial == 0) mega_kit_random(direction, record->count, 7 + (uint32_t)p);
            else
                direction[(trial * 7919 + p) % record->count] = 1.0f;
            for (int side = 0; side < 2; side++) {
                const double step = side == 0 ? h : -h;
                for (int64_t i = 0; i < record->count; i++) w[i] += step * (double)direction[i];
                GPT_RUN_OK(mega_program_forward(r.program, 0));
                loss[side] = gpt_run_loss(&r, 0);
                for (int64_t i = 0; i < record->count; i++) w[i] -= step * (double)direction[i];
            }
            for (int64_t i = 0; i < record->count; i++) expected += gradient[record->offset + i] * (double)direction[i];
            const double found = (loss[0] - loss[1]) / (2.0 * h);
            if (fabs(found - expected) > 1e-6 * fmax(1.0, fabs(expected)))
                fail_msg("%s, direction %d: difference %.9g, gradient %.9g", record->name, trial, found, expected);
            free(direction);
        }
    }
    free(gradient);
    gpt_run_free(&r);
}

static void fusion_changes_rounding_only(void **state)
{
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        mega_transformer m = gpt_run_tiny();
        m.attention_dropout = m.hidden_dropout = dropout == 0 ? 0.0 : 0.1;
        gpt_run_options unfused = train_f64;
        unfused.no_fusion = true;
        double *a, *b;
        int64_t n;
        const double loss = run_once(&m, &train_f64, &a, &n), expected = run_once(&m, &unfused, &b, &n);
        assert_true(fabs(loss - expected) <= 1e-12 * expected);
        assert_true(mega_kit_relative_error_f64(a, b, n) <= 1e-12);
        free(a);
        free(b);
    }
}

static void recomputation_keeps_the_bits(void **state)
{
    (void)state;
    const struct {
        mega_transformer_recompute kind;
        bool uniform;
        int64_t layers;
    } variant[] = {{MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE, false, 1},
                   {MEGA_TRANSFORMER_RECOMPUTE_FULL, true, 1},
                   {MEGA_TRANSFORMER_RECOMPUTE_FULL, true, 2},
                   {MEGA_TRANSFORMER_RECOMPUTE_FULL, false, 1},
                   {MEGA_TRANSFORMER_RECOMPUTE_FULL, false, 2}};
    mega_transformer m = gpt_run_tiny();
    m.attention_dropout = m.hidden_dropout = 0.1;
    for (int unfused = 0; unfused < 2; unfused++) {
        gpt_run_options o = train_f64;
        o.no_fusion = unfused == 1;
        double *expected, *found;
        int64_t n;
        m.recompute = MEGA_TRANSFORMER_RECOMPUTE_NONE;
        const double loss = run_once(&m, &o, &expected, &n);
        for (size_t i = 0; i < sizeof variant / sizeof *variant; i++) {
            m.recompute = variant[i].kind;
            m.recompute_uniform = variant[i].uniform;
            m.recompute_layers = variant[i].layers;
            assert_true(run_once(&m, &o, &found, &n) == loss);
            assert_memory_equal(found, expected, (size_t)n * sizeof *found);
            free(found);
        }
        free(expected);
    }
}

static void recomputation_saves_memory_and_costs_flops(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    mega_program_memory none, full;
    mega_program_cost cost_none, cost_full;
    gpt_run r = gpt_run_make(&m, &train_f64);
    mega_program_memory_get(r.program, &none);
    mega_program_cost_get(r.program, &cost_none);
    gpt_run_free(&r);
    m.recompute = MEGA_TRANSFORMER_RECOMPUTE_FULL;
    m.recompute_uniform = true;
    r = gpt_run_make(&m, &train_f64);
    mega_program_memory_get(r.program, &full);
    mega_program_cost_get(r.program, &cost_full);
    gpt_run_free(&r);
    assert_true(full.saved_bytes < none.saved_bytes / 2);
    assert_true(cost_none.recompute_flops == 0.0 && cost_full.recompute_flops > 0.0);
    assert_true(cost_full.forward_flops == cost_none.forward_flops);
    assert_true(cost_full.backward_flops == cost_none.backward_flops);
}

static void padding_of_the_vocabulary_changes_nothing(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    double loss[2];
    double *gradient[2];
    for (int i = 0; i < 2; i++) {
        m.padded_vocab = i == 0 ? m.vocab : 64;
        gpt_run r = gpt_run_make(&m, &train_f64);
        gpt_run_fill(&r, 0, 0);
        gpt_run_zero_gradients(&r);
        GPT_RUN_OK(mega_program_forward(r.program, 0));
        GPT_RUN_OK(mega_program_backward(r.program, 0));
        loss[i] = gpt_run_loss(&r, 0);
        const int wte = mega_params_find(r.params, "transformer.wte.weight");
        const double *g = mega_params_grad(r.params, wte);
        for (int64_t k = m.vocab * m.hidden; k < m.padded_vocab * m.hidden; k++) assert_true(g[k] == 0.0);
        gradient[i] = malloc((size_t)(m.vocab * m.hidden) * sizeof(double));
        memcpy(gradient[i], g, (size_t)(m.vocab * m.hidden) * sizeof(double));
        gpt_run_free(&r);
    }
    assert_true(loss[0] == loss[1]);
    assert_memory_equal(gradient[0], gradient[1], (size_t)(m.vocab * m.hidden) * sizeof(double));
    free(gradient[0]);
    free(gradient[1]);
}

static void evaluation_gives_the_training_loss_without_dropout(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    gpt_run_options evaluate = train_f64;
    evaluate.evaluate = true;
    const double loss = run_once(&m, &train_f64, NULL, NULL);
    m.attention_dropout = m.hidden_dropout = 0.3; /* evaluation does not apply dropout */
    assert_true(run_once(&m, &evaluate, NULL, NULL) == loss);
    assert_true(run_once(&m, &train_f64, NULL, NULL) != loss);
}

static void the_form_of_gelu_follows_the_folder(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny(), back;
    mega_model_shape shape;
    const double tanh_loss = run_once(&m, &train_f64, NULL, NULL);
    m.net.activation = MEGA_ACT_GELU;
    const double erf_loss = run_once(&m, &train_f64, NULL, NULL);
    assert_true(erf_loss != tanh_loss && fabs(erf_loss - tanh_loss) < 1e-2);
    mega_transformer_to_shape(&m, 0, &shape);
    assert_int_equal(shape.net.activation, MEGA_ACT_GELU);
    mega_transformer_from_shape(&shape, 1, &back);
    assert_int_equal(back.net.activation, MEGA_ACT_GELU);
}

static void slots_hold_a_micro_batch_each(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    m.hidden_dropout = 0.1;
    gpt_run_options o = train_f64;
    o.slots = 2;
    gpt_run r = gpt_run_make(&m, &o);
    const int64_t n = mega_params_elements(r.params);
    double *const one = malloc((size_t)n * sizeof *one);
    gpt_run_zero_gradients(&r);
    for (int s = 0; s < 2; s++) { /* one after another, in one slot */
        gpt_run_fill(&r, 0, 2 * (uint32_t)s);
        GPT_RUN_OK(mega_program_forward(r.program, 0));
        GPT_RUN_OK(mega_program_backward(r.program, 0));
    }
    memcpy(one, mega_params_flat_grad(r.params), (size_t)n * sizeof *one);
    gpt_run_zero_gradients(&r);
    for (int s = 0; s < 2; s++) { /* both forwards before the first backward */
        gpt_run_fill(&r, s, 2 * (uint32_t)s);
        GPT_RUN_OK(mega_program_forward(r.program, s));
    }
    for (int s = 0; s < 2; s++) GPT_RUN_OK(mega_program_backward(r.program, s));
    assert_true(mega_kit_relative_error_f64(mega_params_flat_grad(r.params), one, n) <= 1e-14);
    free(one);
    gpt_run_free(&r);
}

static void masks_do_not_depend_on_the_micro_batch(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    m.attention_dropout = m.hidden_dropout = 0.2;
    double loss[4 * 8];
    gpt_run_options o = train_f64;
    o.batch = 4;
    gpt_run r = gpt_run_make(&m, &o);
    gpt_run_fill(&r, 0, 0);
    GPT_RUN_OK(mega_program_forward(r.program, 0));
    memcpy(loss, mega_program_tensor(r.program, "token_loss", 0), sizeof loss);
    gpt_run_free(&r);
    for (o.batch = 1; o.batch <= 2; o.batch++) {
        r = gpt_run_make(&m, &o);
        for (int64_t first = 0; first < 4; first += o.batch) {
            gpt_run_fill(&r, 0, (uint32_t)first);
            GPT_RUN_OK(mega_program_forward(r.program, 0));
            assert_memory_equal(mega_program_tensor(r.program, "token_loss", 0), loss + first * 8,
                                (size_t)(8 * o.batch) * sizeof(double));
        }
        gpt_run_free(&r);
    }
}

/* ---- masks of dropout ---- */

enum { MASK_TOKENS = 2 * 16, MASK_HIDDEN = 24, MASK_SITES = 7 }; /* the embedding, and two per layer */

typedef struct mask_notes {
    double value[2 * MASK_SITES][MASK_TOKENS * MASK_HIDDEN]; /* after each dropout, then after each attention */
    char name[2 * MASK_SITES][48];
    int count;
} mask_notes;

static void note_masks(void *user, const mega_observed *made)
{
    mask_notes *n = user;
    if (made->backward || (strcmp(made->op, "dropout") != 0 && strcmp(made->op, "attention") != 0)) return;
    if (made->cols != MASK_HIDDEN) return; /* skip the denominators of an attention */
    assert_in_range(n->count, 0, 2 * MASK_SITES - 1);
    snprintf(n->name[n->count], sizeof n->name[0], "%s", made->tensor);
    memcpy(n->value[n->count++], made->data, sizeof n->value[0]);
}

static void set_parameter(const gpt_run *r, const char *name, int64_t begin, int64_t end, double value)
{
    const int i = mega_params_find(r->params, name);
    assert_true(i >= 0);
    for (int64_t k = begin; k < end; k++) ((double *)mega_params_master(r->params, i))[k] = value;
}

/* Sets up a model in which every dropout applies to ones, so that the masks are visible: projections are 0, their
 * biases 1. */
static void show_masks(gpt_run *r, mask_notes *notes)
{
    char name[64];
    memset(mega_params_flat_master(r->params), 0, (size_t)mega_params_elements(r->params) * sizeof(double));
    set_parameter(r, "transformer.wte.weight", 0, (int64_t)r->gpt.vocab * MASK_HIDDEN, 1);
    for (int n = 0; n < r->gpt.num_layers; n++) {
        snprintf(name, sizeof name, "transformer.h.%d.attn.c_attn.bias", n);
        set_parameter(r, name, 2 * MASK_HIDDEN, 3 * MASK_HIDDEN, 1); /* all values are 1, all scores equal */
        snprintf(name, sizeof name, "transformer.h.%d.attn.c_proj.bias", n);
        set_parameter(r, name, 0, MASK_HIDDEN, 1);
        snprintf(name, sizeof name, "transformer.h.%d.mlp.c_proj.bias", n);
        set_parameter(r, name, 0, MASK_HIDDEN, 1);
    }
    *notes = (mask_notes){0};
    gpt_run_fill(r, 0, 0);
    mega_program_observe(r->program, note_masks, notes);
    GPT_RUN_OK(mega_program_forward(r->program, 0));
    mega_program_observe(r->program, NULL, NULL);
}

static const double *mask_of(const mask_notes *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->name[i], name) == 0) return n->value[i];
    fail_msg("no dropout made %s", name);
    return NULL;
}

/* Dropouts add to the residual stream one after another, so their masks are the differences. */
static void mask_get(const mask_notes *n, int site, double out[MASK_TOKENS * MASK_HIDDEN])
{
    char name[2][32] = {"drop", ""};
    for (int i = 0; i < site; i++) {
        memcpy(name[1], name[0], sizeof name[0]);
        snprintf(name[0], sizeof name[0], "h.%d.%s.drop", i / 2, i % 2 == 0 ? "attn" : "mlp");
    }
    const double *now = mask_of(n, name[0]), *before = site > 0 ? mask_of(n, name[1]) : NULL;
    for (int i = 0; i < MASK_TOKENS * MASK_HIDDEN; i++) out[i] = now[i] - (before != NULL ? before[i] : 0);
}

/* Returns the share of equal elements. Two independent masks agree in about (1 - p)^2 + p^2 of their elements, which is
 * 62.5 % here; a mask agrees with itself in all of them. */
static double agreement(const double *a, const double *b)
{
    int same = 0;
    for (int i = 0; i < MASK_TOKENS * MASK_HIDDEN; i++) same += (a[i] > 0.5) == (b[i] > 0.5);
    return (double)same / (MASK_TOKENS * MASK_HIDDEN);
}

static void no_two_dropouts_share_a_mask(void **state)
{
    (void)state;
    static mask_notes notes;
    static double mask[MASK_SITES][MASK_TOKENS * MASK_HIDDEN];
    mega_transformer m = gpt_run_tiny();
    gpt_run_options o = train_f64;
    o.seq = 16;
    m.hidden_dropout = m.attention_dropout = 0.25;
    gpt_run r = gpt_run_make(&m, &o);
    show_masks(&r, &notes);
    for (int i = 0; i < MASK_SITES; i++) {
        double kept = 0;
        mask_get(&notes, i, mask[i]);
        for (int k = 0; k < MASK_TOKENS * MASK_HIDDEN; k++) kept += mask[i][k] > 0.5;
        assert_true(fabs(kept / (MASK_TOKENS * MASK_HIDDEN) - 0.75) < 0.08); /* five standard deviations */
        for (int k = 0; k < i; k++)
            if (!(fabs(agreement(mask[i], mask[k]) - 0.625) < 0.09))
                fail_msg("dropouts %d and %d: %.3f of their masks agree", k, i, agreement(mask[i], mask[k]));
    }
    /* for attention, each row has the share of its keys that are kept */
    const double *attention[3] = {mask_of(&notes, "h.0.attn"), mask_of(&notes, "h.1.attn"),
                                  mask_of(&notes, "h.2.attn")};
    for (int i = 0; i < 3; i++) {
        int same = 0;
        for (int k = 0; k < MASK_TOKENS * MASK_HIDDEN; k++)
            same += fabs(attention[i][k] - attention[(i + 1) % 3][k]) < 1e-9;
        assert_true(same < MASK_TOKENS * MASK_HIDDEN / 2);
    }
    gpt_run_free(&r);
}

/* Masks depend on the seed, the step and the sample. */
static void seed_step_and_sample_draw_other_masks(void **state)
{
    (void)state;
    static mask_notes notes;
    static double first[MASK_TOKENS * MASK_HIDDEN], other[MASK_TOKENS * MASK_HIDDEN];
    mega_transformer m = gpt_run_tiny();
    gpt_run_options o = train_f64;
    o.seq = 16;
    m.hidden_dropout = m.attention_dropout = 0.25;
    gpt_run r = gpt_run_make(&m, &o);
    mega_step_block *step = mega_program_step_block(r.program);
    show_masks(&r, &notes);
    mask_get(&notes, 1, first);
    for (int i = 0; i < 3; i++) {
        step->seed += i == 0;
        step->step += i == 1;
        show_masks(&r, &notes);
        mask_get(&notes, 1, other);
        if (i < 2) assert_true(fabs(agreement(first, other) - 0.625) < 0.09);
        step->seed -= i == 0;
        step->step -= i == 1;
        if (i == 2) assert_memory_equal(first, other, sizeof first);
    }
    const int64_t half = MASK_TOKENS / 2 * MASK_HIDDEN; /* samples 0 and 1 */
    assert_memory_not_equal(first, first + half, (size_t)half * sizeof *first);
    gpt_run_free(&r);
}

static double measured_deviation(const gpt_run *r, const char *name)
{
    const int i = mega_params_find(r->params, name);
    assert_true(i >= 0);
    const int64_t n = mega_params_get(r->params, i)->count;
    const double *w = mega_params_master(r->params, i);
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += w[k];
        squares += w[k] * w[k];
    }
    return sqrt(squares / (double)n - sum / (double)n * (sum / (double)n));
}

/* Projections into the residual stream start with a standard deviation that is smaller by sqrt(2 layers) (Radford et
 * al. 2019); all other weights have the given one. */
static void projections_into_the_residual_stream_start_smaller(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    m.hidden = 64;
    m.ffn_hidden = 128;
    m.heads = 8;
    gpt_run_options o = train_f64;
    gpt_run r = gpt_run_make(&m, &o);
    static const struct {
        const char *name;
        bool smaller;
    } weight[] = {{"transformer.wte.weight", false},
                  {"transformer.wpe.weight", false},
                  {"transformer.h.0.attn.c_attn.weight", false},
                  {"transformer.h.2.mlp.c_fc.weight", false},
                  {"transformer.h.0.attn.c_proj.weight", true},
                  {"transformer.h.2.attn.c_proj.weight", true},
                  {"transformer.h.1.mlp.c_proj.weight", true}};
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) {
        const double expected = weight[i].smaller ? 0.2 / sqrt(2.0 * 3.0) : 0.2;
        double found = measured_deviation(&r, weight[i].name);
        if (i == 0) found *= sqrt(32.0 / 29.0);  /* padding rows are zero */
        if (!(fabs(found / expected - 1) < 0.1)) /* at least 1,024 elements: more than four standard deviations */
            fail_msg("%s: deviation %g, expected %g", weight[i].name, found, expected);
    }
    gpt_run_free(&r);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    m.hidden_dropout = 0.1;
    const gpt_run_options o = {.dtype = MEGA_F32, .backend = MEGA_BACKEND_CPU, .threads = 2, .batch = 2, .seq = 16};
    gpt_run r = gpt_run_make(&m, &o);
    gpt_run_fill(&r, 0, 0);
    const uint64_t before = mega_alloc_count();
    GPT_RUN_OK(mega_program_forward(r.program, 0));
    GPT_RUN_OK(mega_program_backward(r.program, 0));
    assert_int_equal(mega_alloc_count(), before);
    gpt_run_free(&r);
}

static void generation_gives_the_logits_of_the_whole_forward(void **state)
{
    (void)state;
    enum { SEQ = 11, BATCH = 2, ROWS = 4, CAPACITY = 16 };
    mega_transformer m = gpt_run_tiny();
    gpt_run_options o = train_f64;
    o.seq = SEQ;
    gpt_run r = gpt_run_make(&m, &o);
    mega_program *program[2] = {NULL, NULL};
    int32_t length[BATCH] = {0, 0};
    for (int k = 0; k < 2; k++) {
        mega_graph *g = NULL;
        GPT_RUN_OK(mega_graph_create(MEGA_F64, r.params, r.layout, &g));
        GPT_RUN_OK(gpt_describe_generate(g, &m, BATCH, k == 0 ? ROWS : 1, CAPACITY));
        const mega_program_options po = {
            .backend = MEGA_BACKEND_PLAIN, .name = k == 0 ? "prefill" : "decode", .states_of = program[0]};
        GPT_RUN_OK(mega_program_build(g, &po, &program[k]));
        GPT_RUN_OK(mega_program_allocate(program[k]));
        mega_program_step_block(program[k])->kv_length = length;
    }
    gpt_run_fill(&r, 0, 2);
    int32_t *const tokens = mega_program_tensor(r.program, "tokens", 0);
    /* The loss of every possible label is a logit up to a constant per row, so it shows the logits of the forward
     * pass. */
    for (int64_t begin = 0; begin < SEQ;) {
        const int64_t rows = begin + ROWS <= 8 ? ROWS : 1;
        mega_program *p = program[rows == 1];
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t i = 0; i < rows; i++) {
                ((int32_t *)mega_program_tensor(p, "tokens", 0))[b * rows + i] = tokens[b * SEQ + begin + i];
                ((int32_t *)mega_program_tensor(p, "position_ids", 0))[b * rows + i] = (int32_t)(begin + i);
                ((int32_t *)mega_program_tensor(p, "last_rows", 0))[b] = (int32_t)(b * rows + rows - 1);
            }
        GPT_RUN_OK(mega_program_forward(p, 0));
        begin += rows;
        const double *logits = mega_program_tensor(p, "logits", 0);
        for (int b = 0; b < BATCH; b++) {
            length[b] = (int32_t)begin;
            double first = 0.0;
            for (int v = 0; v < m.vocab; v++) {
                ((int32_t *)mega_program_tensor(r.program, "labels", 0))[b * SEQ + begin - 1] = v;
                GPT_RUN_OK(mega_program_forward(r.program, 0));
                const double *loss = mega_program_tensor(r.program, "token_loss", 0);
                const double sum = loss[b * SEQ + begin - 1] + logits[b * m.padded_vocab + v];
                if (v == 0) first = sum;
                assert_true(fabs(sum - first) < 1e-12 * fmax(1.0, fabs(first)));
            }
        }
    }
    mega_program_destroy(program[1]);
    mega_program_destroy(program[0]);
    gpt_run_free(&r);
}

static void cost_column_agrees_with_the_formula(void **state)
{
    (void)state;
    mega_transformer m = gpt_run_tiny();
    gpt_run r = gpt_run_make(&m, &train_f64);
    mega_program_cost c;
    mega_program_cost_get(r.program, &c);
    /* PaLM's 6 N + 12 L H S per token (Chowdhery et al. 2022, appendix B); a causal mask halves the attention */
    const double inner = (double)(m.heads * m.head_dim), layers = (double)m.num_layers;
    const double weights =
        layers * (double)m.hidden * (4 * inner + 2 * (double)m.ffn_hidden) + (double)(m.padded_vocab * m.hidden);
    const double expected = (6 * weights + 6 * layers * inner * (double)r.seq) * (double)(r.batch * r.seq);
    /* The forward program also computes the head's gradient, so only the sum agrees. */
    assert_true(fabs(c.forward_flops + c.backward_flops - expected) <= 1e-12 * expected);
    gpt_run_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(fusion_changes_rounding_only),
        cmocka_unit_test(recomputation_keeps_the_bits),
        cmocka_unit_test(recomputation_saves_memory_and_costs_flops),
        cmocka_unit_test(padding_of_the_vocabulary_changes_nothing),
        cmocka_unit_test(evaluation_gives_the_training_loss_without_dropout),
        cmocka_unit_test(the_form_of_gelu_follows_the_folder),
        cmocka_unit_test(slots_hold_a_micro_batch_each),
        cmocka_unit_test(masks_do_not_depend_on_the_micro_batch),
        cmocka_unit_test(no_two_dropouts_share_a_mask),
        cmocka_unit_test(seed_step_and_sample_draw_other_masks),
        cmocka_unit_test(projections_into_the_residual_stream_start_smaller),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(generation_gives_the_logits_of_the_whole_forward),
        cmocka_unit_test(cost_column_agrees_with_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
