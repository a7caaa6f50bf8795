/* Weights that are kept packed: which instructions share a copy, which one writes it, and that results stay the
 * same. */
#include "graph_kit.h"
#include "kit.h"
#include "megalith/dtype.h"
#include "program_impl.h"

#include <string.h>

enum { ROWS = 40, WIDTH = 64, VOCAB = 96 };

/* A GEMM and a head of four chunks. */
static mega_params *declared(const mega_layout *layout)
{
    static const mega_param record[] = {
        {.name = "weight", .num_dims = 2, .shape = {WIDTH, WIDTH}, .true_shape = {WIDTH, WIDTH}},
        {.name = "table", .num_dims = 2, .shape = {VOCAB, WIDTH}, .true_shape = {VOCAB, WIDTH}}};
    mega_params *params = NULL;
    int index;
    need(mega_params_create(layout, &params));
    for (int i = 0; i < 2; i++) need(mega_params_add(params, &record[i], &index));
    need(mega_params_place(params, MEGA_BF16, 0));
    need(mega_params_allocate(params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    return params;
}

static built_program begin(int pack_weights)
{
    built_program k = {.layout = NULL};
    mega_graph *g = NULL;
    const int64_t rows = ROWS, dim[2] = {ROWS, WIDTH};
    need(mega_layout_create(NULL, NULL, &k.layout));
    k.params = declared(k.layout);
    need(mega_graph_create(MEGA_BF16, k.params, k.layout, &g));
    const mega_tensor x = mega_graph_input(g, "x", MEGA_BF16, 2, dim);
    const mega_tensor labels = mega_graph_input(g, "labels", MEGA_I32, 1, &rows);
    const mega_tensor mask = mega_graph_input(g, "mask", MEGA_F32, 1, &rows);
    const mega_tensor h = mega_op_linear(g, x, mega_graph_param(g, 0));
    const mega_head_shape s = {.valid = VOCAB, .chunk_rows = 10, .with_gradient = true};
    const mega_head_result r = mega_op_lm_head_loss(g, h, mega_graph_param(g, 1), labels, mask, &s);
    mega_graph_loss(g, "loss", r.loss, 1);
    const mega_program_options o = {.differentiate = true, .pack_weights = pack_weights, .name = "test"};
    need(mega_program_build(g, &o, &k.program));
    need(mega_program_allocate(k.program));
    return k;
}

static void fill(const built_program *k, int number)
{
    uint16_t *weight = mega_params_flat_weight(k->params), *x = mega_program_tensor(k->program, "x", 0);
    for (int64_t i = 0; i < mega_params_elements(k->params); i++)
        weight[i] = mega_f32_to_bf16((float)((i * 37 + number) % 19 - 9) * 0.05f);
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = mega_f32_to_bf16((float)(i * 11 % 17 - 8) * 0.1f);
    for (int i = 0; i < ROWS; i++) {
        ((int32_t *)mega_program_tensor(k->program, "labels", 0))[i] = i * 5 % VOCAB;
        ((float *)mega_program_tensor(k->program, "mask", 0))[i] = 1.0f;
    }
}

/* Runs steps of two micro-batches each; the weights change between steps. */
static void run(built_program *k, float loss[4])
{
    mega_step_block *step = mega_program_step_block(k->program);
    step->keeps_packed = true;
    for (int i = 0; i < 4; i++) {
        step->first_micro_batch = i % 2 == 0;
        fill(k, i / 2);
        need(mega_program_forward(k->program, 0));
        need(mega_program_backward(k->program, 0));
        mega_program_loss l;
        assert_true(mega_program_loss_get(k->program, 0, 0, &l));
        memcpy(&loss[i], l.sum, sizeof loss[i]);
    }
}

static void kept_weights_change_no_bit(void **state)
{
    (void)state;
    float losses[3][4];
    float *grads[3];
    built_program k[3];
    const size_t bytes = (VOCAB + WIDTH) * WIDTH * sizeof(float);
    for (int i = 0; i < 3; i++) {
        k[i] = begin(i);
        run(&k[i], losses[i]);
        grads[i] = mega_params_flat_grad(k[i].params);
    }
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(losses[0], losses[i], sizeof losses[0]);
        assert_memory_equal(grads[0], grads[i], bytes);
    }
    assert_true(losses[0][0] == losses[0][1] && losses[0][1] != losses[0][2]);
    for (int i = 0; i < 3; i++) built_program_end(&k[i]);
}

static void chunks_share_what_the_first_packs(void **state)
{
    (void)state;
    const bool pairs = mega_cpu_isa() >= MEGA_ISA_AVX512_BF16;
    for (int least = 0; least < 3; least++) {
        built_program k = begin(least);
        const mega_graph *g = k.program->g;
        int makers = 0, readers = 0;
        for (int i = 0; i < g->num_ops; i++) {
            makers += g->op[i].fills_packed;
            readers += g->op[i].packed_bytes > 0;
            if (g->op[i].packed_bytes > 0 && g->op[i].in[LINEAR_WEIGHT] == g->weights.tensor[1])
                assert_int_equal(g->op[i].packed_bytes, (size_t)VOCAB * WIDTH * 2);
        }
        /* The table in both orientations, four chunks each; the weight only in the forward (no one requests d(x)). */
        assert_int_equal(makers, !pairs || least == 0 ? 0 : least == 1 ? 3 : 2);
        assert_int_equal(readers, !pairs || least == 0 ? 0 : least == 1 ? 9 : 8);
        mega_program_memory m;
        mega_program_memory_get(k.program, &m);
        assert_int_equal(m.packed_bytes, makers == 0 ? 0 : (2 * VOCAB + (least == 1 ? WIDTH : 0)) * WIDTH * 2);
        built_program_end(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_weights_change_no_bit),
        cmocka_unit_test(chunks_share_what_the_first_packs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
