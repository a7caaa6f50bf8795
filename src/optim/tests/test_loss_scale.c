/* Tests the loss scale against the rules of Megatron-LM and of DeepSpeed, which are written here once more from their
 * description, and against sequences worked out by hand. */
#include "kit.h"
#include "megalith/loss_scale.h"

#include <math.h>
#include <string.h>

enum { STEPS = 4000 };

/* Megatron-LM's three numbers. */
typedef struct reference {
    double scale;
    int64_t growth, hysteresis;
} reference;

static void megatron(reference *r, const mega_loss_scale_options *o, bool overflowed)
{
    if (overflowed) {
        r->growth = 0;
        if (--r->hysteresis <= 0) r->scale = fmax(r->scale * 0.5, o->least);
        return;
    }
    if (++r->growth == o->window) {
        r->growth = 0;
        r->hysteresis = o->hysteresis;
        r->scale *= 2;
    }
}

/* DeepSpeed's, by the numbers of steps. */
typedef struct other {
    double scale;
    int64_t step, last_overflow, hysteresis;
    bool raised;
} other;

static void deepspeed(other *r, const mega_loss_scale_options *o, bool overflowed)
{
    if (overflowed) {
        if (o->hysteresis == 1 || r->hysteresis == 1) {
            r->raised = r->scale == o->least;
            r->scale = fmax(r->scale / 2, o->least);
        } else {
            r->hysteresis--;
        }
        r->last_overflow = r->step;
    } else {
        const int64_t stable = r->step - r->last_overflow - 1;
        if (o->consecutive_hysteresis) r->hysteresis = o->hysteresis;
        if (stable > 0 && stable % o->window == 0) {
            r->hysteresis = o->hysteresis;
            r->scale *= 2;
        }
    }
    r->step++;
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static mega_loss_scale_options options_of(int i)
{
    return (mega_loss_scale_options){.initial = ldexp(1, 8 + 3 * (i % 4)),
                                     .least = i % 3 == 0 ? 1 : 0.25,
                                     .window = 1 + i % 5,
                                     .hysteresis = 1 + i % 3,
                                     .consecutive_hysteresis = i % 7 == 6};
}

static void agrees_with_megatron(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int i = 0; i < 60; i++) {
        mega_loss_scale_options o = options_of(i);
        o.consecutive_hysteresis = false;
        mega_loss_scale s = mega_loss_scale_begin(&o);
        reference r = {o.initial, 0, o.hysteresis};
        for (int step = 0; step < STEPS; step++) {
            const bool overflowed = r.scale > 1e12 || draw(&seed) % 4 == 0;
            const mega_loss_scale before = s;
            const mega_loss_scale_change change = mega_loss_scale_advance(&s, &o, overflowed);
            megatron(&r, &o, overflowed);
            if (change == MEGA_SCALE_EXHAUSTED) {
                assert_memory_equal(&s, &before,
                                    sizeof s); /* Megatron-LM continues at the minimum; here the run ends */
                assert_true(before.scale == o.least && r.scale == o.least && overflowed);
                break;
            }
            if (s.scale != r.scale) fail_msg("options %d, step %d: %g, expected %g", i, step, s.scale, r.scale);
            assert_true((change == MEGA_SCALE_RAISED) == (s.scale > before.scale));
            assert_true((change == MEGA_SCALE_LOWERED) == (s.scale < before.scale));
        }
    }
}

static void agrees_with_deepspeed(void **state)
{
    (void)state;
    uint32_t seed = 11;
    for (int i = 0; i < 60; i++) {
        mega_loss_scale_options o = options_of(i);
        o.rules = MEGA_SCALE_DEEPSPEED;
        mega_loss_scale s = mega_loss_scale_begin(&o);
        other r = {.scale = o.initial, .last_overflow = -1, .hysteresis = o.hysteresis};
        for (int step = 0; step < STEPS; step++) {
            const bool overflowed = r.scale > 1e12 || draw(&seed) % 4 == 0;
            const mega_loss_scale_change change = mega_loss_scale_advance(&s, &o, overflowed);
            deepspeed(&r, &o, overflowed);
            assert_true((change == MEGA_SCALE_EXHAUSTED) == r.raised);
            if (r.raised) break;
            if (s.scale != r.scale || s.hysteresis != r.hysteresis)
                fail_msg("options %d, step %d: %g (%lld), expected %g (%lld)", i, step, s.scale,
                         (long long)s.hysteresis, r.scale, (long long)r.hysteresis);
        }
    }
}

/* 1: overflow. After each step, the scale and the hysteresis. */
static void sequences(void **state)
{
    (void)state;
    static const struct {
        double initial;
        int64_t window, hysteresis;
        bool consecutive;
        const char *steps;
        double scale[8];
        int64_t left[8];
    } row[] = {
        {16, 2, 2, false, "00000000", {16, 16, 32, 32, 64, 64, 128, 128}, {2, 2, 2, 2, 2, 2, 2, 2}},
        {65536, 1000, 2, false, "11101", {65536, 32768, 16384, 16384, 8192}, {1, 1, 1, 1, 1}},
        {65536, 1000, 2, true, "101011", {65536, 65536, 65536, 65536, 65536, 32768}, {1, 2, 1, 2, 1, 1}},
        {65536, 1000, 2, false, "10101", {65536, 65536, 32768, 32768, 16384}, {1, 1, 1, 1, 1}},
        {256, 2, 2, false, "100011", {256, 256, 256, 512, 512, 256}, {1, 1, 1, 2, 1, 1}},
        {4, 1000, 1, false, "11", {2, 1}, {1, 1}},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const mega_loss_scale_options o = {.rules = MEGA_SCALE_DEEPSPEED,
                                           .initial = row[i].initial,
                                           .least = 1,
                                           .window = row[i].window,
                                           .hysteresis = row[i].hysteresis,
                                           .consecutive_hysteresis = row[i].consecutive};
        mega_loss_scale s = mega_loss_scale_begin(&o);
        for (size_t k = 0; k < strlen(row[i].steps); k++) {
            mega_loss_scale_advance(&s, &o, row[i].steps[k] == '1');
            if (s.scale != row[i].scale[k] || s.hysteresis != row[i].left[k])
                fail_msg("sequence %zu, step %zu: %g (%lld)", i, k, s.scale, (long long)s.hysteresis);
        }
    }
}

static void a_static_scale_never_changes(void **state)
{
    (void)state;
    const mega_loss_scale_options o = {.fixed = 384, .window = 1, .hysteresis = 1};
    mega_loss_scale s = mega_loss_scale_begin(&o);
    for (int i = 0; i < 20; i++) {
        const mega_loss_scale_change change = mega_loss_scale_advance(&s, &o, i % 3 == 0);
        assert_int_equal(change, i % 3 == 0 ? MEGA_SCALE_WAITS : MEGA_SCALE_KEPT);
        assert_true(s.scale == 384);
    }
}

static void zeros_are_the_defaults(void **state)
{
    (void)state;
    const mega_loss_scale_options none = {0};
    assert_int_equal(mega_loss_scale_check(&none), MEGA_OK);
    mega_loss_scale s = mega_loss_scale_begin(&none);
    assert_true(s.scale == 4294967296.0 && s.hysteresis == 2);
    for (int i = 0; i < 999; i++) assert_int_equal(mega_loss_scale_advance(&s, &none, false), MEGA_SCALE_KEPT);
    assert_int_equal(mega_loss_scale_advance(&s, &none, false), MEGA_SCALE_RAISED);
    /* A scale that would become infinite stays. */
    const mega_loss_scale_options high = {.initial = 1.7e308, .least = 1, .window = 1, .hysteresis = 1};
    s = mega_loss_scale_begin(&high);
    assert_int_equal(mega_loss_scale_advance(&s, &high, false), MEGA_SCALE_KEPT);
}

static void wrong_numbers_are_refused(void **state)
{
    (void)state;
    const mega_loss_scale_options wrong[] = {{.fixed = -1},
                                             {.fixed = NAN},
                                             {.fixed = INFINITY},
                                             {.initial = 1, .least = 2},
                                             {.initial = INFINITY, .least = 1},
                                             {.initial = 1, .least = -1},
                                             {.window = -1},
                                             {.hysteresis = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (mega_loss_scale_check(&wrong[i]) != MEGA_ERR_USAGE) fail_msg("options %zu are taken", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_megatron),
        cmocka_unit_test(agrees_with_deepspeed),
        cmocka_unit_test(sequences),
        cmocka_unit_test(a_static_scale_never_changes),
        cmocka_unit_test(zeros_are_the_defaults),
        cmocka_unit_test(wrong_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
