/* Checks from its rows alone that the parity matrix covers every pair of settings. */
#include "kit.h"
#include "parity_matrix.h"

#include <stdlib.h>

static cover made;

static bool is_there(int f, int i, int g, int k)
{
    for (int r = 0; r < made.rows; r++)
        if (made.row[r].level[f] == i && made.row[r].level[g] == k) return true;
    return false;
}

/* Pairs of levels that no row has although some row of all possible ones could. Rows are tried at random: those that
 * are allowed are many. */
static int count_missing(const bool may[MATRIX_FACTORS][COVER_LEVELS], bool core_only)
{
    static bool possible[MATRIX_FACTORS][COVER_LEVELS][MATRIX_FACTORS][COVER_LEVELS];
    const bool core[MATRIX_FACTORS] = {[MATRIX_TENSOR] = true, [MATRIX_STAGES] = true, [MATRIX_ZERO] = true};
    int missing = 0;
    memset(possible, 0, sizeof possible);
    srand(7);
    for (int n = 0; n < 500000; n++) {
        cover_row row;
        for (int f = 0; f < MATRIX_FACTORS; f++) row.level[f] = rand() % made.levels[f];
        if (!matrix_allows(&row)) continue;
        for (int f = 0; f < MATRIX_FACTORS; f++)
            for (int g = f + 1; g < MATRIX_FACTORS; g++) possible[f][row.level[f]][g][row.level[g]] = true;
    }
    for (int f = 0; f < MATRIX_FACTORS; f++)
        for (int g = f + 1; g < MATRIX_FACTORS; g++)
            for (int i = 0; i < made.levels[f]; i++)
                for (int k = 0; k < made.levels[g]; k++) {
                    if (core_only && (!core[f] || !core[g] || !may[f][i] || !may[g][k])) continue;
                    if (!possible[f][i][g][k] || is_there(f, i, g, k)) continue;
                    print_error("no row has \"%s\" with \"%s\"\n", matrix_words[f][i], matrix_words[g][k]);
                    missing++;
                }
    return missing;
}

static void every_row_is_allowed(bool full)
{
    assert_true(matrix_make(&made, full));
    for (int r = 0; r < made.rows; r++) {
        for (int f = 0; f < MATRIX_FACTORS; f++) assert_in_range(made.row[r].level[f], 0, made.levels[f] - 1);
        assert_true(matrix_allows(&made.row[r]));
        assert_in_range(matrix_ranks(&made.row[r]), 1, MATRIX_RANKS);
    }
}

static void full_matrix_has_every_pair(void **state)
{
    (void)state;
    static const bool any[MATRIX_FACTORS][COVER_LEVELS];
    every_row_is_allowed(true);
    assert_int_equal(count_missing(any, false), 0);
    assert_true(made.rows <= 64); /* what the time allows */
}

static void sparse_matrix_has_every_pair_of_layouts(void **state)
{
    (void)state;
    static const bool may[MATRIX_FACTORS][COVER_LEVELS] = {[MATRIX_TENSOR] = {true, true, true},
                                                           [MATRIX_STAGES] = {true, true, true},
                                                           [MATRIX_ZERO] = {true, true, true, true}};
    every_row_is_allowed(false);
    assert_int_equal(count_missing(may, true), 0);
    assert_true(made.rows <= 14);
    assert_true(is_there(MATRIX_STAGES, 1, MATRIX_ZERO, 1)); /* a pipeline with ZeRO 1, which was once left out */
    for (int f = 0; f < MATRIX_FACTORS; f++)                 /* and every level of the rest occurs as well */
        for (int i = 0; i < made.levels[f]; i++) {
            bool used = f <= MATRIX_ZERO;
            for (int r = 0; r < made.rows; r++) used = used || made.row[r].level[f] == i;
            if (!used) fail_msg("no row has \"%s\"", matrix_words[f][i]);
        }
}

static void rows_are_always_the_same(void **state)
{
    (void)state;
    static cover again;
    assert_true(matrix_make(&made, true));
    assert_true(matrix_make(&again, true));
    assert_int_equal(made.rows, again.rows);
    for (int r = 0; r < made.rows; r++)
        assert_memory_equal(made.row[r].level, again.row[r].level, sizeof(int) * MATRIX_FACTORS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_matrix_has_every_pair),
        cmocka_unit_test(sparse_matrix_has_every_pair_of_layouts),
        cmocka_unit_test(rows_are_always_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
