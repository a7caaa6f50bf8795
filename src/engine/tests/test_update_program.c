/* The printed update program of a small GPT in several layouts, compared with tests/golden/update_programs.txt. Each is
 * planned on one rank. Where a program changed on purpose, MEGA_WRITE_GOLDEN=FILE writes the new text to FILE. */
#include "engine_run.h"
#include "kit.h"
#include "megalith/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *title;
    mega_layout_sizes layout;
    int zero;
    bool sequence_parallel;
    mega_optimizer_kind optimizer;
} layouts[] = {
    {"one rank", {0}, 0, false, MEGA_OPTIMIZER_ADAM},
    {"dp 2, ZeRO 1, rank 1", {.planned_ranks = 2, .planned_rank = 1}, 1, false, MEGA_OPTIMIZER_ADAM},
    {"dp 2, tp 2 with sequence parallelism, ZeRO 3, rank 0",
     {.tp = 2, .planned_ranks = 4},
     3,
     true,
     MEGA_OPTIMIZER_ADAM},
    {"pp 2 with tied embeddings, rank 0", {.pp = 2, .planned_ranks = 2}, 0, false, MEGA_OPTIMIZER_ADAM},
    {"Lamb, dp 2, tp 2, ZeRO 1, rank 0", {.tp = 2, .planned_ranks = 4}, 1, false, MEGA_OPTIMIZER_LAMB},
    {"Muon, dp 2, rank 0", {.planned_ranks = 2}, 0, false, MEGA_OPTIMIZER_MUON},
    {"Muon, dp 2, tp 2, ZeRO 2, rank 0", {.tp = 2, .planned_ranks = 4}, 2, false, MEGA_OPTIMIZER_MUON},
};

/* Returns the number of data-parallel ranks. */
static int64_t data_parallel(const mega_layout_sizes *l)
{
    return (l->planned_ranks > 0 ? l->planned_ranks : 1) / ((l->tp > 0 ? l->tp : 1) * (l->pp > 0 ? l->pp : 1));
}

static void print_all(mega_buffer *out)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        mega_engine *e = NULL;
        mega_transformer gpt = engine_run_gpt();
        gpt.num_layers = 2;
        gpt.sequence_parallel = layouts[i].sequence_parallel;
        mega_engine_options o = engine_run_options(4, 1, 1e-3);
        o.compute = MEGA_BF16;
        o.layout = layouts[i].layout;
        o.zero_stage = layouts[i].zero;
        o.bucket_elements = 4000;
        o.optimizer.kind = layouts[i].optimizer;
        o.optimizer.max_coeff = 1;
        o.optimizer.muon_steps = 5;
        o.optimizer.muon_split = layouts[i].optimizer == MEGA_OPTIMIZER_LAMB; /* the default, which is Muon's alone */
        o.batch.micro_step = data_parallel(&o.layout);
        if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK) fail_msg("%s", mega_error_message());
        mega_buffer_printf(out, "%s# %s\n", i > 0 ? "\n" : "", layouts[i].title);
        if (mega_update_print(mega_engine_update_program(e), out) != MEGA_OK) fail_msg("%s", mega_error_message());
        mega_engine_destroy(e);
    }
}

/* Returns the content of the file, which the caller frees. */
static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (f == NULL || text == NULL) fail_msg("%s: cannot be read", path);
    else if (fread(text, 1, (1 << 16) - 1, f) == 0)
        fail_msg("%s: is empty", path);
    if (f != NULL) fclose(f);
    return text;
}

/* Fails with the first line that differs: a message has no room for all lines. */
static void compare(const char *expected, const char *found)
{
    for (int line = 1; *expected != '\0' || *found != '\0'; line++) {
        const size_t wide = strcspn(expected, "\n"), new_wide = strcspn(found, "\n");
        if (wide != new_wide || memcmp(expected, found, wide) != 0)
            fail_msg("tests/golden/update_programs.txt, line %d: \"%.*s\"; now \"%.*s\". If it changed on purpose: "
                     "MEGA_WRITE_GOLDEN=tests/golden/update_programs.txt build/tests/unit_test_update_program",
                     line, (int)wide, expected, (int)new_wide, found);
        expected += wide + (expected[wide] == '\n');
        found += new_wide + (found[new_wide] == '\n');
    }
}

static void programs_are_as_they_were(void **state)
{
    (void)state;
    mega_buffer text = {0};
    print_all(&text);
    const char *write_to = getenv("MEGA_WRITE_GOLDEN");
    if (write_to != NULL) {
        FILE *f = fopen(write_to, "wb");
        assert_non_null(f);
        fputs(text.data, f);
        fclose(f);
    }
    char *golden = read_all(mega_kit_source("tests/golden/update_programs.txt"));
    compare(golden, text.data);
    free(golden);
    mega_buffer_fini(&text);
}

/* The printed figures are sums over the list. */
static void costs_are_those_of_the_formulas(void **state)
{
    (void)state;
    mega_engine *e = NULL;
    mega_update_cost cost;
    mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = engine_run_options(4, 1, 1e-3);
    o.compute = MEGA_BF16;
    o.layout = (mega_layout_sizes){.planned_ranks = 4};
    o.batch.micro_step = data_parallel(&o.layout);
    o.zero_stage = 1;
    if (gpt_engine_create(&e, &gpt, &o) != MEGA_OK) fail_msg("%s", mega_error_message());
    const mega_params *p = mega_engine_params(e);
    mega_update_cost_get(mega_engine_update_program(e), &cost);
    /* gradients are scattered in fp32, weights gathered in bf16; a few small sums */
    const double elements = (double)mega_params_elements(p), exchanged = elements * 3 / 4 * (4 + 2);
    assert_true(cost.sent > exchanged && cost.sent < exchanged + 200);
    /* of a quarter of the elements: the norm reads gradients; Adam reads four numbers, writes three and a weight.
     * Padding between parameters and at the end of buckets is no work. */
    const double worked = elements / 4 * (4 + 7 * 4 + 2);
    assert_true(cost.bytes > 0.5 * worked && cost.bytes <= worked);
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_as_they_were),
        cmocka_unit_test(costs_are_those_of_the_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
