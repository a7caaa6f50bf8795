/* How a GPT is split into pipeline stages: every layer occurs once, in order, and parameters are in the right
 * stages. */
#include "gpt_describe.h"
#include "kit.h"
#include "megalith/family.h"
#include "megalith/memory.h"
#include "megalith/model_parts.h"
#include "megalith/transformer.h"

#include <string.h>

static mega_transformer twelve_layers(void)
{
    return gpt_of((gpt_size){.layers = 12, .heads = 2, .head_dim = 4, .positions = 4, .vocab = 10, .init_std = 0.02});
}

/* Returns the number of blocks of a part. The first part also has the embedding, the last one also the head. */
static int64_t blocks_of(const mega_model_parts *p, int part)
{
    const bool is_last = part == mega_model_parts_count(p) - 1;
    return mega_model_parts_first(p, part + 1) - mega_model_parts_first(p, part) - (part == 0) - is_last;
}

/* Chunks follow one another over all stages. The first and last stage have as many blocks as configured, the others
 * equally many. */
static void covers_all_layers(const mega_transformer *m, int stages)
{
    const mega_layout_sizes s = {.pp = stages, .planned_ranks = stages};
    const int chunks = stages > 1 && m->stage_chunks > 1 ? (int)m->stage_chunks : 1;
    mega_transformer_list list;
    mega_layout *layout;
    mega_model_parts *parts;
    int64_t all = 0, others = -1;
    assert_int_equal(mega_layout_create(NULL, &s, &layout), MEGA_OK);
    assert_int_equal(mega_transformer_list_create(m, stages, &list), MEGA_OK);
    const mega_model model = mega_transformer_model(&list);
    const mega_model_sizes sizes = {.mode = MEGA_EVAL, .samples = 1, .positions = 4};
    assert_int_equal(mega_model_parts_create(&model, layout, MEGA_F32, sizes, stages * chunks, &parts), MEGA_OK);
    assert_int_equal(mega_model_parts_layers(parts), m->num_layers + 2);
    for (int part = 0; part < stages * chunks; part++) {
        const int stage = part % stages;
        const int64_t blocks = blocks_of(parts, part), said = stages == 1           ? 0
                                                              : stage == 0          ? m->first_stage_layers
                                                              : stage == stages - 1 ? m->last_stage_layers
                                                                                    : 0;
        assert_true(blocks > 0);
        all += blocks;
        if (said > 0) assert_int_equal(blocks, said / chunks);
        else if (others >= 0)
            assert_int_equal(blocks, others);
        else
            others = blocks;
    }
    assert_int_equal(all, m->num_layers);
    mega_model_parts_destroy(parts);
    mega_transformer_list_destroy(&list);
    mega_layout_destroy(layout);
}

static void every_layer_is_on_one_stage(void **state)
{
    (void)state;
    static const struct {
        int stages, first, last, chunks;
    } cut[] = {{1, 0, 0, 0}, {2, 0, 0, 0}, {4, 0, 0, 1}, {12, 0, 0, 0}, {2, 8, 0, 0}, {2, 8, 4, 0},
               {2, 0, 3, 0}, {4, 1, 3, 0}, {4, 3, 0, 0}, {4, 0, 0, 3},  {2, 0, 0, 3}, {2, 8, 4, 2},
               {2, 8, 0, 4}, {4, 2, 2, 2}, {3, 6, 0, 3}, {3, 0, 4, 2},  {4, 4, 4, 2}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        mega_transformer m = twelve_layers();
        m.first_stage_layers = cut[i].first;
        m.last_stage_layers = cut[i].last;
        m.stage_chunks = cut[i].chunks;
        assert_int_equal(mega_transformer_check_stages(&m, cut[i].stages), MEGA_OK);
        covers_all_layers(&m, cut[i].stages);
    }
}

static void layers_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    static const struct {
        int stages, first, last, chunks;
    } cut[] = {{5, 0, 0, 0}, {24, 0, 0, 0}, {2, 8, 3, 0}, {4, 2, 3, 0}, {2, 12, 0, 0},
               {4, 0, 0, 2}, {3, 4, 0, 3},  {2, 8, 4, 3}, {2, 7, 5, 2}, {4, 2, 2, 4}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        mega_transformer m = twelve_layers();
        m.first_stage_layers = cut[i].first;
        m.last_stage_layers = cut[i].last;
        m.stage_chunks = cut[i].chunks;
        assert_int_equal(mega_transformer_check_stages(&m, cut[i].stages), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), "12 layers cannot be cut"));
    }
}

/* Over all stages each parameter occurs once, except the tied table, which occurs twice. */
static void stages_declare_the_whole_model(void **state)
{
    (void)state;
    const mega_transformer m = twelve_layers();
    mega_layout *layout;
    mega_params *whole, *part[4];
    mega_layout *layouts[4];
    assert_int_equal(mega_layout_create(NULL, NULL, &layout), MEGA_OK);
    assert_int_equal(mega_params_create(layout, &whole), MEGA_OK);
    assert_int_equal(gpt_declare(&m, whole), MEGA_OK);
    int declared = 0;
    for (int i = 0; i < 4; i++) {
        const mega_layout_sizes s = {.pp = 4, .planned_ranks = 4, .planned_rank = i};
        assert_int_equal(mega_layout_create(NULL, &s, &layouts[i]), MEGA_OK);
        assert_int_equal(mega_params_create(layouts[i], &part[i]), MEGA_OK);
        assert_int_equal(gpt_declare(&m, part[i]), MEGA_OK);
        declared += mega_params_count(part[i]);
        const int wte = mega_params_find(part[i], "transformer.wte.weight");
        assert_int_equal(wte >= 0, i == 0 || i == 3);
        if (wte >= 0) assert_int_equal(mega_params_get(part[i], wte)->tie, i == 0 ? MEGA_TIE_OWNER : MEGA_TIE_COPY);
        for (int k = 0; k < mega_params_count(part[i]); k++)
            assert_true(mega_params_find(whole, mega_params_get(part[i], k)->name) >= 0);
    }
    assert_int_equal(declared, mega_params_count(whole) + 1);
    assert_int_equal(mega_params_get(whole, mega_params_find(whole, "transformer.wte.weight"))->tie, MEGA_TIE_NONE);
    for (int i = 0; i < 4; i++) {
        mega_params_destroy(part[i]);
        mega_layout_destroy(layouts[i]);
    }
    mega_params_destroy(whole);
    mega_layout_destroy(layout);
}

/* 12 blocks of an encoder, layers 1 to 12, and 4 of a decoder, layers 15 to 18; the norm of the encoder and the
 * embedding of the decoder are between them, and the head is layer 19. */
static mega_transformer two_stacks(void)
{
    mega_transformer m = twelve_layers();
    m.padded_vocab = 64;
    m.net = (mega_network_shape){
        .family = mega_family_find("megatron-t5"), .t5 = MEGA_T5_MEGATRON, .decoder_layers = 4, .head_bias = true};
    return m;
}

static void two_stacks_are_cut(void **state)
{
    (void)state;
    /* by weights: a block of the encoder has 768, one of the decoder 1,024, the head 512 */
    static const struct {
        int stages, split, chunks, parts, first[4];
    } cut[] = {{4, 3, 0, 4, {0, 5, 9, 14}},
               {4, 2, 1, 4, {0, 7, 14, 17}},
               {3, 1, 0, 3, {0, 14, 17}},
               {2, 1, 0, 2, {0, 14}},
               {2, 0, 0, 2, {0, 10}}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        mega_transformer m = two_stacks();
        int *first = NULL;
        m.split_stage = cut[i].split;
        m.stage_chunks = cut[i].chunks;
        assert_int_equal(mega_transformer_first_layers(&m, cut[i].stages, &first), MEGA_OK);
        for (int p = 0; p < cut[i].parts; p++) assert_int_equal(first[p], cut[i].first[p]);
        mega_free(first);
    }
    mega_transformer m = two_stacks();
    int *first = NULL;
    assert_int_equal(mega_transformer_first_layers(&m, 1, &first), MEGA_OK);
    assert_null(first);
    m.stage_chunks = 2; /* four parts: each has a layer, and they follow one another */
    assert_int_equal(mega_transformer_first_layers(&m, 2, &first), MEGA_OK);
    for (int p = 1; p < 4; p++) assert_true(first[p] > first[p - 1] && first[p] < 20);
    mega_free(first);
}

static void two_stacks_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    static const struct {
        int stages, split, chunks, last;
        const char *said;
    } cut[] = {{4, 4, 0, 0, "--pipeline-model-parallel-split-rank 4"},
               {7, 5, 0, 0, "the 12 layers of the encoder"},
               {5, 2, 0, 0, "the 4 of the decoder"},
               {4, 2, 2, 0, "of 2 programs each"},
               {2, 0, 0, 3, "a model of one stack"}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        mega_transformer m = two_stacks();
        int *first = NULL;
        m.split_stage = cut[i].split;
        m.stage_chunks = cut[i].chunks;
        m.last_stage_layers = cut[i].last;
        assert_int_equal(mega_transformer_first_layers(&m, cut[i].stages, &first), MEGA_ERR_USAGE);
        assert_non_null(strstr(mega_error_message(), cut[i].said));
        assert_null(first);
    }
}

/* A large vocabulary leaves the last stage the head alone, which reads nothing of the encoder: it receives one
 * value. */
static void head_alone_receives_one_value(void **state)
{
    (void)state;
    static const mega_t5_kind form[] = {MEGA_T5_MEGATRON, MEGA_T5_ORIGINAL};
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        const mega_layout_sizes s = {.pp = 2, .planned_ranks = 2};
        const mega_model_sizes sizes = {.mode = MEGA_EVAL, .samples = 1, .positions = 4};
        mega_transformer m = two_stacks();
        m.padded_vocab = 1 << 14;
        if (form[i] == MEGA_T5_ORIGINAL)
            m.net = (mega_network_shape){.family = mega_family_find("t5"),
                                         .t5 = form[i],
                                         .positions = MEGA_POSITIONS_NONE,
                                         .decoder_layers = 4,
                                         .relative_buckets = 4,
                                         .relative_distance = 8};
        mega_layout *layout;
        mega_transformer_list list;
        mega_model_parts *parts;
        assert_int_equal(mega_layout_create(NULL, &s, &layout), MEGA_OK);
        assert_int_equal(mega_transformer_list_create(&m, 2, &list), MEGA_OK);
        const mega_model model = mega_transformer_model(&list);
        if (mega_model_parts_create(&model, layout, MEGA_F32, sizes, 2, &parts) != MEGA_OK)
            fail_msg("%s", mega_error_message());
        assert_int_equal(mega_model_parts_first(parts, 1), 19);
        assert_int_equal(mega_model_parts_values(parts), 1);
        mega_model_parts_destroy(parts);
        mega_transformer_list_destroy(&list);
        mega_layout_destroy(layout);
    }
}

/* Two programs of one stage share no table: with two stages of two programs each, the decoder begins in the first part
 * or the last one, if the head has the table of tokens. */
static void tables_of_interleaved_stages(void **state)
{
    (void)state;
    mega_transformer m = two_stacks();
    int *first = NULL;
    const int begin = 1 + 12 + 1; /* the embedding of the decoder */
    m.stage_chunks = 2;
    assert_int_equal(mega_transformer_first_layers(&m, 2, &first), MEGA_OK);
    assert_true(first[1] > begin || first[3] <= begin);
    mega_free(first);
    m.net = (mega_network_shape){
        .family = mega_family_find("mt5"), .t5 = MEGA_T5_ORIGINAL, .decoder_layers = 4, .untied = true};
    assert_int_equal(mega_transformer_first_layers(&m, 2, &first), MEGA_OK); /* biases: each stack in two parts */
    assert_true(first[2] == begin + 1);
    mega_free(first);
    m.net.biases_by_layer = true; /* nothing is shared but the table of tokens */
    m.stage_chunks = 3;
    assert_int_equal(mega_transformer_first_layers(&m, 2, &first), MEGA_OK);
    mega_free(first);
    m.net.biases_by_layer = false;
    m.stage_chunks = 2;
    m.net.untied = false; /* the head alone, behind the decoder in two parts */
    assert_int_equal(mega_transformer_first_layers(&m, 2, &first), MEGA_OK);
    assert_true(first[1] == begin + 1 && first[3] == begin + 1 + 4);
    mega_free(first);
    m.stage_chunks = 3;
    first = NULL;
    assert_int_equal(mega_transformer_first_layers(&m, 2, &first), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--num-virtual-stages-per-pipeline-rank 3"));
    assert_null(first);
}

/* The table of tokens is in the stages of both embeddings and of the head, that of positions in those of the
 * embeddings. */
static void three_stages_share_a_table(void **state)
{
    (void)state;
    mega_transformer m = two_stacks();
    m.split_stage = 1;
    for (int i = 0; i < 3; i++) {
        const mega_layout_sizes s = {.pp = 3, .planned_ranks = 3, .planned_rank = i};
        mega_layout *layout;
        mega_params *p;
        assert_int_equal(mega_layout_create(NULL, &s, &layout), MEGA_OK);
        assert_int_equal(mega_params_create(layout, &p), MEGA_OK);
        assert_int_equal(gpt_declare(&m, p), MEGA_OK);
        const int words = mega_params_find(p, "language_model.embedding.word_embeddings.weight");
        const int places = mega_params_find(p, "language_model.embedding.position_embeddings.weight");
        assert_true(words >= 0);
        assert_int_equal(mega_params_get(p, words)->tie, i == 0 ? MEGA_TIE_OWNER : MEGA_TIE_COPY);
        assert_int_equal(places >= 0, i < 2);
        if (places >= 0) assert_int_equal(mega_params_get(p, places)->tie, i == 0 ? MEGA_TIE_OWNER : MEGA_TIE_COPY);
        mega_params_destroy(p);
        mega_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_is_on_one_stage),
        cmocka_unit_test(layers_that_do_not_divide_are_refused),
        cmocka_unit_test(stages_declare_the_whole_model),
        cmocka_unit_test(two_stacks_are_cut),
        cmocka_unit_test(two_stacks_that_do_not_divide_are_refused),
        cmocka_unit_test(head_alone_receives_one_value),
        cmocka_unit_test(tables_of_interleaved_stages),
        cmocka_unit_test(three_stages_share_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
