/* Runs the generation programs of pipeline stages one after another in this process, with a cache in every stage: the
 * logits are the same, bit for bit, as those of the whole model. */
#include "gpt_describe.h"
#include "kit.h"
#include "megalith/program.h"
#include "megalith/transformer.h"

#include <string.h>

enum { BATCH = 2, ROWS = 3, CAPACITY = 8, MOST_STAGES = 3, VOCAB = 13, PADDED = 16 };

static mega_transformer three_layers(void)
{
    mega_transformer gpt = gpt_of(
        (gpt_size){.layers = 3, .heads = 2, .head_dim = 4, .positions = CAPACITY, .vocab = VOCAB, .init_std = 0.2});
    gpt.hidden_dropout = gpt.attention_dropout = 0.1;
    return gpt;
}

typedef struct stage {
    mega_layout *layout;
    mega_params *params;
    mega_program *prefill, *decode;
    int32_t length[BATCH];
} stage;

static void stage_build(stage *s, const mega_transformer *m, int64_t rows, mega_program **out)
{
    mega_graph *g = NULL;
    need(mega_graph_create(MEGA_F32, s->params, s->layout, &g));
    need(gpt_describe_generate(g, m, BATCH, rows, CAPACITY + ROWS));
    const mega_program_options o = {.name = "stage", .states_of = s->prefill};
    need(mega_program_build(g, &o, out));
    need(mega_program_allocate(*out));
    mega_program_step_block(*out)->kv_length = s->length;
}

static void stage_open(stage *s, const mega_transformer *m, int rank, int stages)
{
    const mega_layout_sizes sizes = {.pp = stages, .planned_ranks = stages, .planned_rank = rank};
    *s = (stage){0};
    need(mega_layout_create(NULL, &sizes, &s->layout));
    need(mega_params_create(s->layout, &s->params));
    need(gpt_declare(m, s->params));
    need(mega_params_place(s->params, MEGA_F32, INT64_MAX));
    need(mega_params_allocate(s->params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(s->params, 7));
    stage_build(s, m, ROWS, &s->prefill);
    stage_build(s, m, 1, &s->decode);
}

static void stage_close(stage *s)
{
    mega_program_destroy(s->decode);
    mega_program_destroy(s->prefill);
    mega_params_destroy(s->params);
    mega_layout_destroy(s->layout);
}

/* Runs rows begin … begin + rows - 1 of every sequence through all stages; returns the logits of the last stage. */
static const float *stages_run(stage *s, int stages, int32_t begin, int32_t rows)
{
    mega_program *before = NULL;
    for (int i = 0; i < stages; i++) {
        mega_program *p = rows == 1 ? s[i].decode : s[i].prefill;
        int32_t *tokens = mega_program_tensor(p, "tokens", 0), *positions = mega_program_tensor(p, "position_ids", 0);
        int32_t *last = mega_program_tensor(p, "last_rows", 0);
        assert_int_equal(tokens != NULL, i == 0);
        assert_int_equal(last != NULL, i == stages - 1);
        for (int32_t at = 0; at < BATCH * rows && tokens != NULL; at++) {
            tokens[at] = (at * 5 + begin) % VOCAB;
            positions[at] = begin + at % rows;
        }
        for (int b = 0; b < BATCH; b++) {
            s[i].length[b] = begin;
            if (last != NULL) last[b] = b * rows + rows - 1;
        }
        const size_t bytes = mega_program_tensor_bytes(p, "stage_input");
        assert_int_equal(bytes > 0, i > 0);
        if (i > 0)
            memcpy(mega_program_tensor(p, "stage_input", 0), mega_program_tensor(before, "stage_output", 0), bytes);
        need(mega_program_forward(p, 0));
        before = p;
    }
    return mega_program_tensor(before, "logits", 0);
}

static void stages_give_the_logits_of_the_whole_model(void **state)
{
    (void)state;
    const mega_transformer m = three_layers();
    stage whole[1], cut[MOST_STAGES];
    stage_open(whole, &m, 0, 1);
    for (int i = 0; i < MOST_STAGES; i++) stage_open(&cut[i], &m, i, MOST_STAGES);
    for (int32_t begin = 0; begin < CAPACITY;) {
        const int32_t rows = begin + ROWS <= CAPACITY - 2 ? ROWS : 1;
        const float *expected = stages_run(whole, 1, begin, rows), *found = stages_run(cut, MOST_STAGES, begin, rows);
        assert_memory_equal(found, expected, sizeof *found * BATCH * PADDED);
        begin += rows;
    }
    for (int i = 0; i < MOST_STAGES; i++) stage_close(&cut[i]);
    stage_close(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stages_give_the_logits_of_the_whole_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
