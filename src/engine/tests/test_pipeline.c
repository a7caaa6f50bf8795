/* 1F1B: order, memory in flight, and that stages never wait for each other in a circle. */
#include "kit.h"
#include "megalith/pipeline.h"

static void one_stage_alternates(void **state)
{
    (void)state;
    mega_schedule_step s[6];
    mega_schedule_1f1b(0, 1, 3, s);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(s[i].forward, i % 2 == 0);
        assert_int_equal(s[i].micro_batch, i / 2);
        assert_int_equal(s[i].slot, 0);
    }
}

static void first_of_four_stages_warms_up(void **state)
{
    (void)state;
    /* F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 */
    static const int expected[] = {0, 1, 2, 3, -1, 4, -2, -3, -4, -5};
    mega_schedule_step s[10];
    mega_schedule_1f1b(0, 4, 5, s);
    for (int i = 0; i < 10; i++) assert_int_equal(s[i].forward ? s[i].micro_batch : -1 - s[i].micro_batch, expected[i]);
    assert_int_equal(mega_schedule_slots(0, 4, 5), 4);
    assert_int_equal(mega_schedule_slots(3, 4, 5), 1);
    assert_int_equal(mega_schedule_slots(0, 4, 2), 2);
}

enum { MOST = 9 };

/* Every micro-batch goes forward once and backward once after it, and no slot is taken while it is in use. */
static void check_stage(const mega_schedule_step *s, int slots, int m)
{
    int holder[MOST], state[MOST] = {0};
    for (int i = 0; i < slots; i++) holder[i] = -1;
    for (int i = 0; i < 2 * m; i++) {
        assert_in_range(s[i].slot, 0, slots - 1);
        if (s[i].forward) {
            assert_int_equal(holder[s[i].slot], -1);
            assert_int_equal(state[s[i].micro_batch]++, 0);
            holder[s[i].slot] = s[i].micro_batch;
        } else {
            assert_int_equal(holder[s[i].slot], s[i].micro_batch);
            assert_int_equal(state[s[i].micro_batch]++, 1);
            holder[s[i].slot] = -1;
        }
    }
    for (int i = 0; i < m; i++) assert_int_equal(state[i], 2);
}

/* A step may run when the stage before has sent (forward) or the stage behind has sent back (backward). */
static void runs_to_the_end(int stages, int m)
{
    mega_schedule_step s[MOST][2 * MOST];
    int at[MOST] = {0}, forwards[MOST] = {0}, backwards[MOST] = {0};
    for (int p = 0; p < stages; p++) {
        mega_schedule_1f1b(p, stages, m, s[p]);
        check_stage(s[p], mega_schedule_slots(p, stages, m), m);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int p = 0; p < stages; p++) {
            if (at[p] == 2 * m) continue;
            const mega_schedule_step x = s[p][at[p]];
            const bool ready = x.forward ? p == 0 || forwards[p - 1] > x.micro_batch
                                         : p == stages - 1 || backwards[p + 1] > x.micro_batch;
            if (!ready) continue;
            *(x.forward ? &forwards[p] : &backwards[p]) += 1;
            at[p]++;
            moved = true;
        }
    }
    for (int p = 0; p < stages; p++) assert_int_equal(at[p], 2 * m);
}

static void no_deadlock(void **state)
{
    (void)state;
    for (int stages = 1; stages <= MOST; stages++)
        for (int m = 1; m <= MOST; m++) runs_to_the_end(stages, m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_alternates),
        cmocka_unit_test(first_of_four_stages_warms_up),
        cmocka_unit_test(no_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
