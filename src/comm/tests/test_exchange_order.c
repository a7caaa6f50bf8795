/* Orders of exchanges in which ranks come to an end, and orders in which they wait for each other for ever. */
#include "kit.h"
#include "megalith/exchange_order.h"
#include "megalith/memory.h"

#include <string.h>

enum { STAGES = 4, MICRO_BATCHES = 6, FORTH = 0, BACK = 1 };

typedef struct ring {
    mega_order order[STAGES];
    mega_ordered sent[STAGES][2][MICRO_BATCHES], received[STAGES][2][MICRO_BATCHES];
} ring;

static void send_micro_batch(ring *r, int stage, int way, int m)
{
    mega_order_start(&r->order[stage], "message", way, true, &r->sent[stage][way][m]);
}

/* A stage awaits what it received at once, and what it sent at the end or (is_eager) at once. */
static void pass_micro_batch(ring *r, int stage, int way, int m, bool is_eager)
{
    const int first = way == FORTH ? 0 : STAGES - 1, last = STAGES - 1 - first;
    if (stage != first) {
        mega_order_start(&r->order[stage], "message", way, false, &r->received[stage][way][m]);
        mega_order_await(&r->order[stage], "message", &r->received[stage][way][m]);
    }
    if (stage != last) send_micro_batch(r, stage, way, m);
    if (is_eager) mega_order_await(&r->order[stage], "message", &r->sent[stage][way][m]);
}

/* One forward, one backward; the warm-up of `odd` is longer by two than its place asks for. */
static void make_1f1b(ring *r, bool is_eager, int odd)
{
    memset(r, 0, sizeof *r);
    for (int s = 0; s < STAGES; s++) {
        const int warm_up = STAGES - 1 - s + 2 * (s == odd);
        for (int f = 0, b = 0; b < MICRO_BATCHES;) {
            const bool is_forward = f < MICRO_BATCHES && f - b <= warm_up;
            pass_micro_batch(r, s, is_forward ? FORTH : BACK, is_forward ? f++ : b++, is_eager);
        }
        for (int m = 0; m < MICRO_BATCHES; m++)
            for (int way = FORTH; way <= BACK; way++) mega_order_await(&r->order[s], "message", &r->sent[s][way][m]);
        mega_order_meet(&r->order[s], "sum", STAGES, 1);
    }
}

/* Returns whether all come to the end. at: where each was then, out of its items. */
static bool plays(ring *r, int64_t at[STAGES])
{
    mega_order_rank rank[STAGES];
    memset(rank, 0, sizeof rank);
    for (int s = 0; s < STAGES; s++) {
        assert_false(r->order[s].failed);
        rank[s].item = r->order[s].item;
        rank[s].count = r->order[s].count;
    }
    const bool is_at_end = mega_order_play(rank, STAGES);
    for (int s = 0; s < STAGES; s++) {
        if (at != NULL) at[s] = rank[s].at;
        mega_order_fini(&r->order[s]);
    }
    return is_at_end;
}

static void swap(mega_order *o, int64_t i, int64_t k)
{
    const mega_ordered x = o->item[i];
    o->item[i] = o->item[k];
    o->item[k] = x;
}

static int64_t find(const mega_order *o, mega_ordered_kind kind, int way)
{
    int64_t i = 0;
    while (o->item[i].kind != kind || o->item[i].way != way) i++;
    return i;
}

static void stages_come_to_the_end(void **state)
{
    (void)state;
    ring r;
    make_1f1b(&r, false, -1);
    assert_true(plays(&r, NULL));
}

/* What makes a pipeline with ungrouped, blocking sends stop. */
static void sends_that_are_awaited_at_once_do_not(void **state)
{
    (void)state;
    ring r;
    make_1f1b(&r, true, -1);
    assert_false(plays(&r, NULL));
}

/* Later stages would wait for a forward that the stage before starts after their first gradient only. */
static void only_the_first_stage_may_warm_up_longer(void **state)
{
    (void)state;
    ring r;
    for (int odd = 0; odd < STAGES; odd++) {
        make_1f1b(&r, false, odd);
        assert_int_equal(plays(&r, NULL), odd == 0);
    }
}

static void a_stage_that_awaits_gradients_before_it_sends_stops_all(void **state)
{
    (void)state;
    ring r;
    int64_t at[STAGES];
    make_1f1b(&r, false, -1);
    mega_order *o = &r.order[1];
    const int64_t sends = find(o, MEGA_ORDERED_SEND, FORTH), awaits = find(o, MEGA_ORDERED_AWAIT_RECEIVED, BACK);
    for (int64_t i = sends; i < awaits; i++) /* all sends before it come after it */
        if (o->item[i].kind == MEGA_ORDERED_SEND) swap(o, i, awaits);
    assert_false(plays(&r, at));
    for (int s = 0; s < STAGES; s++) assert_true(at[s] > 0 || s > 1);
}

static void meetings_need_one_order(void **state)
{
    (void)state;
    ring r;
    memset(&r, 0, sizeof r);
    for (int s = 0; s < STAGES; s++) {
        if (s == 0 || s == STAGES - 1) mega_order_meet(&r.order[s], "tied sum", 2, 7);
        mega_order_meet(&r.order[s], "loss", STAGES, 1);
        mega_order_meet(&r.order[s], "norm", STAGES, 2);
    }
    ring other = r;
    for (int s = 0; s < STAGES; s++) {
        other.order[s].item = mega_malloc((size_t)r.order[s].count * sizeof(mega_ordered));
        memcpy(other.order[s].item, r.order[s].item, (size_t)r.order[s].count * sizeof(mega_ordered));
        other.order[s].name = NULL;
    }
    assert_true(plays(&r, NULL));
    swap(&other.order[STAGES - 1], 0, 1); /* the tied sum, after the loss */
    assert_false(plays(&other, NULL));
}

static void meetings_of_other_sizes_are_others(void **state)
{
    (void)state;
    ring r;
    int64_t at[STAGES];
    memset(&r, 0, sizeof r);
    for (int s = 0; s < STAGES; s++) mega_order_meet(&r.order[s], "loss", STAGES, s == 2 ? 5 : 1);
    assert_false(plays(&r, at));
    for (int s = 0; s < STAGES; s++) assert_int_equal(at[s], 0);
    memset(&r, 0, sizeof r);
    for (int s = 0; s < STAGES - 1; s++) mega_order_meet(&r.order[s], "loss", STAGES, 1); /* one never comes */
    assert_false(plays(&r, NULL));
}

/* The longest lists that a run has: in well under a second. */
static void many_micro_batches_take_little_time(void **state)
{
    (void)state;
    enum { MANY = 200000 };
    mega_order o[2] = {{.item = NULL}, {.item = NULL}};
    mega_ordered x;
    for (int m = 0; m < MANY; m++)
        for (int s = 0; s < 2; s++) {
            mega_order_start(&o[s], "message", FORTH, s == 0, &x);
            mega_order_await(&o[s], "message", &x);
            mega_order_start(&o[s], "message", BACK, s == 1, &x);
            mega_order_await(&o[s], "message", &x);
        }
    mega_order_rank rank[2] = {{.item = o[0].item, .count = o[0].count}, {.item = o[1].item, .count = o[1].count}};
    assert_true(mega_order_play(rank, 2));
    assert_int_equal(rank[0].at, 4 * MANY);
    mega_order_fini(&o[0]);
    mega_order_fini(&o[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_come_to_the_end),
        cmocka_unit_test(sends_that_are_awaited_at_once_do_not),
        cmocka_unit_test(only_the_first_stage_may_warm_up_longer),
        cmocka_unit_test(a_stage_that_awaits_gradients_before_it_sends_stops_all),
        cmocka_unit_test(meetings_need_one_order),
        cmocka_unit_test(meetings_of_other_sizes_are_others),
        cmocka_unit_test(many_micro_batches_take_little_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
