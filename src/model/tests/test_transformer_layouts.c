/* Programs of a GPT in layouts of several ranks, which can be built on one rank: the collectives in them, the values
 * they keep for the backward, and that logits are never gathered. */
#include "gpt_describe.h"
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/program.h"
#include "megalith/transformer.h"

#include <string.h>

enum { LAYERS = 3, BATCH = 2, SEQ = 16, PADDED = 48, TP = 2 };

typedef struct built {
    mega_layout *one, layout;
    mega_params *params;
    mega_program *program;
    mega_buffer text;
} built;

static mega_transformer small_gpt(void)
{
    mega_transformer gpt = gpt_of(
        (gpt_size){.layers = LAYERS, .heads = 4, .head_dim = 6, .positions = SEQ, .vocab = 45, .init_std = 0.02});
    gpt.ffn_hidden = 40;
    gpt.attention_dropout = gpt.hidden_dropout = 0.1;
    gpt.recompute_uniform = true;
    gpt.recompute_layers = 1;
    return gpt;
}

/* Builds two slots, so that saved values can be told apart from scratch. */
static built make(const mega_transformer *m, int tp, bool train)
{
    built b = {0};
    mega_graph *g = NULL;
    need(mega_layout_create(NULL, NULL, &b.one));
    b.layout = *b.one;
    b.layout.tp.size = tp;
    b.layout.tp.rank = tp - 1;
    need(mega_params_create(&b.layout, &b.params));
    need(gpt_declare(m, b.params));
    need(mega_params_place(b.params, MEGA_F32, 0));
    need(mega_graph_create(MEGA_F32, b.params, &b.layout, &g));
    need(train ? gpt_describe_train(g, m, 0, BATCH, SEQ) : gpt_describe_evaluate(g, m, 0, BATCH, SEQ));
    const mega_program_options o = {.differentiate = train, .slots = 2, .name = "layout"};
    need(mega_program_build(g, &o, &b.program));
    need(mega_program_print(b.program, &b.text));
    return b;
}

static void drop(built *b)
{
    mega_buffer_fini(&b->text);
    mega_program_destroy(b->program);
    mega_params_destroy(b->params);
    mega_layout_destroy(b->one);
}

/* Returns the number of lines of the forward or the backward program that contain the word. */
static int lines_with(const built *b, bool backward, const char *word)
{
    const char *middle = strstr(b->text.data, "\nbackward");
    const char *end = b->text.data + strlen(b->text.data);
    if (middle == NULL) middle = end;
    int n = 0;
    for (const char *at = backward ? middle : b->text.data; (at = strstr(at, word)) != NULL; n++) {
        if (at >= (backward ? end : middle)) break;
        at += strcspn(at, "\n");
    }
    return n;
}

static size_t saved_bytes(const built *b)
{
    mega_program_memory m;
    mega_program_memory_get(b->program, &m);
    return m.saved_bytes;
}

/* Forward: one sum after the embedding and after each row-sharded weight (two per layer), and a maximum and a sum of
 * the logits. Backward: one sum before each column-sharded weight; the gradient at the head is computed in the forward
 * program, but summed in the backward. */
static void tensor_parallelism(void **state)
{
    (void)state;
    const mega_transformer m = small_gpt();
    built b = make(&m, TP, true);
    assert_int_equal(lines_with(&b, false, " all_reduce tp "), 1 + 2 * LAYERS + 2);
    assert_int_equal(lines_with(&b, true, " all_reduce tp "), 1 + 2 * LAYERS);
    assert_int_equal(lines_with(&b, false, "all_gather") + lines_with(&b, true, "all_gather"), 0);
    drop(&b);
}

/* Each sum becomes a reduce-scatter of the tokens; each column-sharded weight and the head gather the tokens. The
 * backward has the reverse, and the column-sharded weights gather again for their gradients. */
static void sequence_parallelism(void **state)
{
    (void)state;
    mega_transformer m = small_gpt();
    built without = make(&m, TP, true);
    m.sequence_parallel = true;
    built with = make(&m, TP, true);
    assert_int_equal(lines_with(&with, false, " all_reduce tp "), 2);
    assert_int_equal(lines_with(&with, true, " all_reduce tp "), 0);
    assert_int_equal(lines_with(&with, false, " all_gather tp "), 2 * LAYERS + 1);
    assert_int_equal(lines_with(&with, false, " reduce_scatter tp "), 2 * LAYERS + 1);
    assert_int_equal(lines_with(&with, true, " all_gather tp "), 2 * LAYERS + 1 + 2 * LAYERS);
    assert_int_equal(lines_with(&with, true, " reduce_scatter tp "), 2 * LAYERS + 1);
    assert_non_null(strstr(with.text.data, "[32/2, 24] f32")); /* a slab of the tokens */
    assert_non_null(strstr(with.text.data, "[32, 72/2] f32")); /* Q, K and V of half the heads */
    assert_null(strstr(without.text.data, "[32/2, "));
    assert_true(saved_bytes(&with) < saved_bytes(&without));
    drop(&with);
    m.recompute = MEGA_TRANSFORMER_RECOMPUTE_FULL; /* keeps half of the input of each layer */
    with = make(&m, TP, true);
    m.sequence_parallel = false;
    drop(&without);
    without = make(&m, TP, true);
    assert_true(saved_bytes(&with) < saved_bytes(&without) * 6 / 10);
    drop(&with);
    drop(&without);
}

/* Inputs of recomputed layers are kept as halves and gathered in the backward. */
static void saved_inputs_are_shared(void **state)
{
    (void)state;
    mega_transformer m = small_gpt();
    m.recompute = MEGA_TRANSFORMER_RECOMPUTE_FULL;
    built whole = make(&m, TP, true);
    m.distribute_saved = true;
    built shared = make(&m, TP, true);
    const size_t input = (size_t)BATCH * SEQ * 24 * sizeof(float);
    assert_int_equal(lines_with(&shared, false, " own_rows "), LAYERS);
    assert_int_equal(lines_with(&shared, true, " all_gather tp "), LAYERS);
    assert_int_equal(saved_bytes(&whole) - saved_bytes(&shared), LAYERS * input / 2);
    drop(&shared);
    m.recompute_layers = 2; /* two groups, one of two layers and one of one */
    shared = make(&m, TP, true);
    assert_int_equal(lines_with(&shared, true, " all_gather tp "), 2);
    drop(&shared);
    drop(&whole);
}

/* With one rank of tp, sequence parallelism and distributed saved inputs do not change the program. */
static void one_rank_is_not_cut(void **state)
{
    (void)state;
    mega_transformer m = small_gpt();
    built plain = make(&m, 1, true);
    m.sequence_parallel = m.distribute_saved = true;
    built with = make(&m, 1, true);
    assert_string_equal(plain.text.data, with.text.data);
    drop(&with);
    drop(&plain);
}

/* Cross-entropy works on this rank's columns: no tensor is as wide as the vocabulary. */
static void logits_are_never_gathered(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        mega_transformer m = small_gpt();
        m.sequence_parallel = (kind & 1) != 0;
        built b = make(&m, TP, (kind & 2) != 0);
        assert_null(strstr(b.text.data, ", 48]"));
        assert_non_null(strstr(b.text.data, ", 48/2]"));
        assert_non_null(strstr(b.text.data, "xent_sum"));
        drop(&b);
    }
}

static void tokens_that_cannot_be_cut_are_refused(void **state)
{
    (void)state;
    mega_transformer m = small_gpt();
    mega_layout *one = NULL;
    mega_params *params = NULL;
    mega_graph *g = NULL;
    m.sequence_parallel = true;
    need(mega_layout_create(NULL, NULL, &one));
    mega_layout two = *one;
    two.tp.size = TP;
    need(mega_params_create(&two, &params));
    need(gpt_declare(&m, params));
    need(mega_params_place(params, MEGA_F32, 0));
    need(mega_graph_create(MEGA_F32, params, &two, &g));
    assert_int_equal(gpt_describe_train(g, &m, 0, 1, 15), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "15 tokens of a micro-batch over 2 ranks"));
    mega_graph_destroy(g);
    mega_params_destroy(params);
    mega_layout_destroy(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_parallelism),        cmocka_unit_test(sequence_parallelism),
        cmocka_unit_test(saved_inputs_are_shared),   cmocka_unit_test(one_rank_is_not_cut),
        cmocka_unit_test(logits_are_never_gathered), cmocka_unit_test(tokens_that_cannot_be_cut_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
