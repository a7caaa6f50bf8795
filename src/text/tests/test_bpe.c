/* Merging: the scan, the heap and the plainest implementation agree on random tables, even with ranks that no training
 * would give; long words do not take quadratic time. */
#include "kit.h"
#include "megalith/threads.h"
#include "models/bpe.h"
#include <stdlib.h>
#include <string.h>

/* While a pair has a rank: merges the pair of lowest rank, the leftmost of equal ones. */
static int64_t plain_merge(const mega_merges *m, int32_t *symbol, int64_t n)
{
    for (;;) {
        int64_t best = -1;
        uint64_t best_rank = UINT64_MAX;
        for (int64_t i = 0; i + 1 < n; i++)
            for (int64_t k = 0; k < m->count; k++)
                if (m->list[k].left == symbol[i] && m->list[k].right == symbol[i + 1] && (uint64_t)k < best_rank) {
                    best = i;
                    best_rank = (uint64_t)k;
                }
        if (best < 0) return n;
        symbol[best] = m->list[best_rank].id;
        for (int64_t i = best + 1; i + 1 < n; i++) symbol[i] = symbol[i + 1];
        n--;
    }
}

/* Each pair of symbols below `symbols` occurs once and becomes any symbol below twice that. */
static void random_merges(mega_merges *m, int symbols, uint64_t *state)
{
    bool used[64][64] = {{false}};
    *m = (mega_merges){0};
    const int count = 1 + (int)(mega_kit_next(state) % (uint64_t)(symbols * symbols));
    for (int i = 0; i < count; i++) {
        const int left = (int)(mega_kit_next(state) % (uint64_t)symbols),
                  right = (int)(mega_kit_next(state) % (uint64_t)symbols);
        if (used[left][right]) continue;
        used[left][right] = true;
        const int id = (int)(mega_kit_next(state) % (uint64_t)(2 * symbols));
        assert_int_equal(mega_merges_add(m, left, right, id), MEGA_OK);
    }
    assert_int_equal(mega_merges_seal(m), MEGA_OK);
}

static void three_ways_agree(void **unused)
{
    (void)unused;
    uint64_t state = 0x2545F4914F6CDD1Dull;
    mega_bpe scan = {0}, heap = {0};
    const int tables = getenv("MEGA_UNDER_VALGRIND") != NULL ? 30 : 300;
    for (int table = 0; table < tables; table++) {
        mega_merges merges;
        const int symbols = 1 + (int)(mega_kit_next(&state) % 8);
        random_merges(&merges, symbols, &state);
        for (int word = 0; word < 20; word++) {
            const int64_t n = (int64_t)(mega_kit_next(&state) % 90);
            int32_t plain[96];
            assert_int_equal(mega_bpe_reserve(&scan, 96), MEGA_OK);
            assert_int_equal(mega_bpe_reserve(&heap, 96), MEGA_OK);
            for (int64_t i = 0; i < n; i++)
                plain[i] = scan.symbol[i] = heap.symbol[i] = (int32_t)(mega_kit_next(&state) % (uint64_t)symbols);
            const int64_t left = plain_merge(&merges, plain, n);
            assert_int_equal(mega_bpe_merge_scan(&scan, &merges, n), left);
            assert_int_equal(mega_bpe_merge_heap(&heap, &merges, n), left);
            assert_memory_equal(scan.symbol, plain, (size_t)left * sizeof *plain);
            assert_memory_equal(heap.symbol, plain, (size_t)left * sizeof *plain);
        }
        mega_merges_fini(&merges);
    }
    mega_bpe_fini(&scan);
    mega_bpe_fini(&heap);
}

/* a a -> b, b b -> c, …: a word of 2^20 symbols becomes one. Quadratic work would take hours. */
static void long_words(void **unused)
{
    (void)unused;
    const int levels = getenv("MEGA_UNDER_VALGRIND") != NULL ? 14 : 20;
    mega_merges merges = {0};
    for (int i = 0; i < levels; i++) assert_int_equal(mega_merges_add(&merges, i, i, i + 1), MEGA_OK);
    assert_int_equal(mega_merges_seal(&merges), MEGA_OK);
    mega_bpe b = {0};
    assert_int_equal(mega_bpe_reserve(&b, 1 << levels), MEGA_OK);
    memset(b.symbol, 0, sizeof *b.symbol << levels);
    const double started = mega_time_now();
    assert_int_equal(mega_bpe_merge(&b, &merges, 1 << levels), 1);
    assert_int_equal(b.symbol[0], levels);
    memset(b.symbol, 0, sizeof *b.symbol << levels);
    assert_int_equal(mega_bpe_merge(&b, &merges, (1 << levels) - 1), levels);
    assert_true(mega_time_now() - started < 60);
    mega_bpe_fini(&b);
    mega_merges_fini(&merges);
}

static void last_of_two_equal_rules_holds(void **unused)
{
    (void)unused;
    mega_merges merges = {0};
    assert_int_equal(mega_merges_add(&merges, 0, 1, 5), MEGA_OK);
    assert_int_equal(mega_merges_add(&merges, 1, 0, 6), MEGA_OK);
    assert_int_equal(mega_merges_add(&merges, 0, 1, 5), MEGA_OK);
    assert_int_equal(mega_merges_seal(&merges), MEGA_OK);
    assert_true(mega_merges_find(&merges, 0, 1) == ((uint64_t)2 << 32 | 5));
    assert_true(mega_merges_find(&merges, 1, 0) == ((uint64_t)1 << 32 | 6));
    assert_true(mega_merges_find(&merges, 1, 1) == UINT64_MAX);
    mega_merges_fini(&merges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_ways_agree),
        cmocka_unit_test(long_words),
        cmocka_unit_test(last_of_two_equal_rules_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
