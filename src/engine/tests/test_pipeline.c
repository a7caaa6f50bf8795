/* Tests pipeline schedules without ranks: order, memory in flight, freedom from deadlock, and how long stages wait. */
#include "kit.h"
#include "megalith/pipeline.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void one_stage_alternates(void **state)
{
    (void)state;
    mega_schedule_pass s[6];
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
    mega_schedule_pass s[10];
    mega_schedule_1f1b(0, 4, 5, s);
    for (int i = 0; i < 10; i++) assert_int_equal(s[i].forward ? s[i].micro_batch : -1 - s[i].micro_batch, expected[i]);
    assert_int_equal(mega_schedule_slots(0, 4, 5), 4);
    assert_int_equal(mega_schedule_slots(3, 4, 5), 1);
    assert_int_equal(mega_schedule_slots(0, 4, 2), 2);
}

enum { MOST = 9, STEPS = 2 * MOST * MOST };

/* Checks that every micro-batch runs forward once through every chunk and backward once after that, and that no slot is
 * reused while it is in use. */
static void check_stage(const mega_pipeline *p, int stage, const mega_schedule_pass *s)
{
    int holder[MOST][MOST], state[MOST][MOST] = {{0}};
    memset(holder, -1, sizeof holder);
    for (int64_t i = 0; i < mega_schedule_length(p); i++) {
        assert_in_range(s[i].slot, 0, mega_schedule_slots_of(p, stage, s[i].chunk) - 1);
        int *held = &holder[s[i].chunk][s[i].slot];
        assert_int_equal(*held, s[i].forward ? -1 : s[i].micro_batch);
        assert_int_equal(state[s[i].chunk][s[i].micro_batch]++, s[i].forward ? 0 : 1);
        *held = s[i].forward ? s[i].micro_batch : -1;
    }
    for (int c = 0; c < p->chunks; c++)
        for (int m = 0; m < p->micro_batches; m++) assert_int_equal(state[c][m], 2);
}

typedef struct stages_of {
    mega_schedule_pass step[MOST][STEPS];
    double done[MOST][2][MOST][MOST];   /* end time, by stage, direction, chunk, micro-batch; < 0: not yet */
    double posted[MOST][2][MOST][MOST]; /* time at which this stage posted that step's receive */
    int64_t next[MOST][2];              /* by direction: first step whose receive is not posted */
} stages_of;

/* Returns the stage to which a step sends (or from which it receives), and its chunk in *chunk; -1: none. */
static int neighbour(const mega_pipeline *p, int stage, const mega_schedule_pass *x, bool sends, int *chunk)
{
    const int way = x->forward == sends ? 1 : -1, last = p->stages - 1, to = stage + way;
    *chunk = x->chunk + (to > last) - (to < 0);
    if (*chunk < 0 || *chunk >= p->chunks) return -1;
    return to > last ? 0 : to < 0 ? last : to;
}

/* Returns when the input of step x of this stage was computed; < 0: not yet. At the ends of the model a step waits for
 * nothing, except that a backward waits for its own forward. */
static double arrival(const stages_of *all, const mega_pipeline *p, int stage, const mega_schedule_pass *x)
{
    int chunk;
    const int from = neighbour(p, stage, x, false, &chunk);
    if (from >= 0) return all->done[from][x->forward][chunk][x->micro_batch];
    return x->forward ? 0 : all->done[stage][1][x->chunk][x->micro_batch];
}

/* Returns the micro-batch that used a buffer before this one; -1: none. The slots of a chunk share `copies` buffers. */
static int before(const mega_pipeline *p, int stage, int chunk, int micro_batch, int copies)
{
    const int slots = mega_schedule_slots_of(p, stage, chunk);
    int m = micro_batch - 1;
    while (m >= 0 && m % slots % copies != micro_batch % slots % copies) m--;
    return m;
}

/* Posts receives in the order of the schedule, until a buffer is not free; activations have one buffer per slot. */
static bool await(stages_of *all, const mega_pipeline *p, int stage, int forward)
{
    bool moved = false;
    for (int64_t *i = &all->next[stage][forward]; *i < mega_schedule_length(p); ++*i, moved = true) {
        const mega_schedule_pass *x = &all->step[stage][*i];
        int chunk;
        if (x->forward != (forward == 1) || neighbour(p, stage, x, false, &chunk) < 0) continue;
        const int m = before(p, stage, x->chunk, x->micro_batch, forward ? MOST : STAGE_PASSES);
        if (m >= 0 && all->done[stage][0][x->chunk][m] < 0) return moved;
        all->posted[stage][forward][x->chunk][x->micro_batch] = m >= 0 ? all->done[stage][0][x->chunk][m] : 0;
    }
    return moved;
}

/* Returns when step x has its input and a free output buffer, that is, when the last message from it has left; < 0: not
 * yet. */
static double may_begin(const stages_of *all, const mega_pipeline *p, int stage, const mega_schedule_pass *x)
{
    double at = arrival(all, p, stage, x);
    int chunk;
    if (at >= 0 && neighbour(p, stage, x, false, &chunk) >= 0) {
        const double posted = all->posted[stage][x->forward][x->chunk][x->micro_batch];
        at = posted < 0 || posted > at ? posted : at;
    }
    const int to = neighbour(p, stage, x, true, &chunk), m = before(p, stage, x->chunk, x->micro_batch, STAGE_PASSES);
    if (at >= 0 && to >= 0 && m >= 0) {
        const double left = all->posted[to][x->forward][chunk][m];
        at = left < 0 || left > at ? left : at;
    }
    return at;
}

/* Simulates all stages and returns the time at which all are done. A forward of a chunk takes 1/chunks, a backward
 * twice that. Messages take no time, but need their buffers at both ends. */
static double run_all(stages_of *all, const mega_pipeline *p)
{
    int64_t at[MOST] = {0};
    double now[MOST] = {0}, end = 0;
    memset(all->next, 0, sizeof all->next);
    for (int s = 0; s < p->stages; s++) {
        mega_schedule_make(p, s, all->step[s]);
        check_stage(p, s, all->step[s]);
        for (int i = 0; i < 2 * MOST * MOST; i++) (&all->done[s][0][0][0])[i] = (&all->posted[s][0][0][0])[i] = -1;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < p->stages; s++) {
            moved |= await(all, p, s, 0);
            moved |= await(all, p, s, 1);
            if (at[s] == mega_schedule_length(p)) continue;
            const mega_schedule_pass *x = &all->step[s][at[s]];
            const double begins = may_begin(all, p, s, x);
            if (begins < 0) continue;
            now[s] = (begins > now[s] ? begins : now[s]) + (x->forward ? 1.0 : 2.0) / p->chunks;
            all->done[s][x->forward][x->chunk][x->micro_batch] = now[s];
            end = now[s] > end ? now[s] : end;
            at[s]++;
            moved = true;
        }
    }
    for (int s = 0; s < p->stages; s++) assert_int_equal(at[s], mega_schedule_length(p));
    return end;
}

/* Stages never deadlock, and wait as long as theory predicts: (p - 1) / (v m) of the ideal time. */
static void bubble_is_what_theory_says(void **state)
{
    (void)state;
    stages_of *all = malloc(sizeof *all);
    for (int stages = 1; stages <= MOST; stages++)
        for (int chunks = 1; chunks <= 4; chunks++)
            for (int m = 1; m <= MOST; m++) {
                if (chunks > 1 && (stages == 1 || m % stages != 0)) continue;
                const mega_pipeline p = {stages, chunks, m};
                const double ideal = 3.0 * m, bubble = run_all(all, &p) / ideal - 1;
                assert_float_equal(bubble, (stages - 1) / (double)(chunks * m), 1e-9);
            }
    free(all);
}

/* Returns the maximum number of (chunk, micro-batch) pairs between forward and backward. */
static int most_in_flight(const mega_pipeline *p, int stage)
{
    mega_schedule_pass s[512];
    int now = 0, most = 0;
    const int64_t n = mega_schedule_make(p, stage, s);
    for (int64_t i = 0; i < n; i++) {
        now += s[i].forward ? 1 : -1;
        most = now > most ? now : most;
    }
    return most;
}

/* With 1F1B the first stage holds as many micro-batches as there are stages; interleaved, 1 + (p - 1) / (p v) times as
 * many. */
static void memory_in_flight(void **state)
{
    (void)state;
    assert_int_equal(mega_schedule_slots(0, 4, 32), 4);
    for (int chunks = 2; chunks <= 4; chunks++) {
        const mega_pipeline p = {4, chunks, 32};
        int first = 0;
        for (int c = 0; c < chunks; c++) first += mega_schedule_slots_of(&p, 0, c);
        assert_int_equal(most_in_flight(&p, 0), 4 * chunks + 3);
        assert_int_equal(most_in_flight(&p, 3), 4 * (chunks - 1) + 1);
        assert_in_range(first, 4 * chunks + 3, 6 * chunks + 4); /* chunks do not peak at the same time */
    }
}

/* The order is Megatron's: 2 stages of 2 chunks, 4 micro-batches, on the last stage. */
static void interleaved_order(void **state)
{
    (void)state;
    static const char expected[] = "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3 ";
    mega_schedule_pass s[16];
    char text[128] = "";
    mega_schedule_interleaved(1, 2, 2, 4, s);
    for (int i = 0; i < 16; i++)
        sprintf(text + strlen(text), "%c%d.%d ", s[i].forward ? 'F' : 'B', s[i].chunk, s[i].micro_batch);
    assert_string_equal(text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_alternates), cmocka_unit_test(first_of_four_stages_warms_up),
        cmocka_unit_test(interleaved_order),    cmocka_unit_test(bubble_is_what_theory_says),
        cmocka_unit_test(memory_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
