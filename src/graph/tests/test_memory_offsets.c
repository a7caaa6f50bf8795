/* Offsets of blocks: no two overlap, and the total is near the lower bound if that is known to be reachable. */
#include "kit.h"
#include "program_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

typedef struct scene {
    plan_block block[MOST];
    plan_block *list[MOST];
    int count;
    uint64_t x;
} scene;

static int draw(scene *s, int n)
{
    s->x ^= s->x << 13, s->x ^= s->x >> 7, s->x ^= s->x << 17;
    return (int)(s->x % (uint64_t)n);
}

static void add(scene *s, int first, int last, size_t bytes)
{
    s->block[s->count++] = (plan_block){.bytes = bytes, .first = first, .last = last};
}

/* Divides a rectangle of instructions by bytes completely into blocks: the lower bound is its height, and is
 * reachable. */
static void cut(scene *s, int first, int last, size_t bytes, int depth)
{
    const bool across = draw(s, 2) == 0;
    if (depth == 0 || (across ? bytes < 128 : first == last)) {
        add(s, first, last, bytes);
        return;
    }
    if (across) {
        const size_t part = 64 * (size_t)(1 + draw(s, (int)(bytes / 64) - 1));
        cut(s, first, last, part, depth - 1);
        cut(s, first, last, bytes - part, depth - 1);
    } else {
        const int middle = first + draw(s, last - first);
        cut(s, first, middle, bytes, depth - 1);
        cut(s, middle + 1, last, bytes, depth - 1);
    }
}

static double waste(scene *s, int num_ops)
{
    size_t alive = 0;
    for (int i = 0; i < s->count; i++) s->list[i] = &s->block[i];
    void *room = malloc(mega_plan_offsets_bytes(s->count, num_ops) + 1);
    assert_non_null(room);
    const size_t bytes = mega_plan_offsets(s->list, s->count, num_ops, room, &alive);
    free(room);
    for (int i = 0; i < s->count; i++) {
        const plan_block *a = &s->block[i];
        assert_true(a->at + a->bytes <= bytes);
        for (int k = 0; k < i; k++) {
            const plan_block *b = &s->block[k];
            if (a->last < b->first || b->last < a->first) continue;
            assert_true(a->at + a->bytes <= b->at || b->at + b->bytes <= a->at);
        }
    }
    return s->count == 0 ? 0 : (double)bytes / (double)alive - 1;
}

static void what_can_be_packed_is_packed(void **state)
{
    (void)state;
    static scene s;
    double sum = 0, most = 0;
    const int seeds = getenv("MEGA_UNDER_VALGRIND") != NULL ? 5 : 40;
    for (int seed = 1; seed <= seeds; seed++) {
        s.count = 0;
        s.x = 88172645463325252u * (uint64_t)seed;
        cut(&s, 0, 99, 1 << 20, 5);
        const double w = waste(&s, 100);
        sum += w;
        if (w > most) most = w;
    }
    if (sum / seeds > 0.01 || most > 0.10) fail_msg("waste: %.3f in the mean, %.3f at most", sum / seeds, most);
}

/* Blocks with long and short lifetimes, as in a program: they must not overlap, whatever total they need. */
static void any_blocks(void **state)
{
    (void)state;
    static scene s;
    const int seeds = getenv("MEGA_UNDER_VALGRIND") != NULL ? 8 : 20;
    for (int seed = 1; seed <= seeds; seed++) {
        s.count = 0;
        s.x = 88172645463325252u * (uint64_t)seed;
        for (int i = 0; i < 20 * (seed - 1); i++) {
            const int first = draw(&s, 200), life = draw(&s, 4) == 0 ? draw(&s, 200 - first) : draw(&s, 3);
            add(&s, first, first + life, 64 * (size_t)(1 + draw(&s, 1000)));
        }
        waste(&s, 203);
    }
}

/* As many blocks as a program of hundreds of layers has. The search is bounded, so it ends within the time limit of the
 * test. */
static void deep_programs_are_placed(void **state)
{
    (void)state;
    static scene s;
    s.count = 0;
    s.x = 88172645463325252u;
    const int most = getenv("MEGA_UNDER_VALGRIND") != NULL ? MOST / 16 : MOST - 1;
    while (s.count < most) {
        const int first = draw(&s, 2000), life = draw(&s, 100), size = draw(&s, 1000);
        add(&s, first, first + life, 64 * (size_t)(1 + size));
    }
    const double w = waste(&s, 2100);
    if (w > 0.10) fail_msg("waste: %.3f", w);
}

/* Nested lifetimes, as in a deep program that saves values for its backward, and in the middle four blocks: the long
 * ones leave no gap for the last one unless they are placed in another order. */
static void a_stack_reaches_the_bound(void **state)
{
    (void)state;
    static scene s;
    const int depth = getenv("MEGA_UNDER_VALGRIND") != NULL ? 60 : 1500, middle = depth;
    s.count = 0;
    s.x = 88172645463325252u;
    for (int i = 0; i < depth; i++) {
        add(&s, i, 2 * depth + 9 - i, 64 * (size_t)(1 + draw(&s, 1000)));
        add(&s, i, i, 6400 * (size_t)(1 + draw(&s, 9)));
    }
    add(&s, middle, middle + 5, 4096);
    add(&s, middle + 2, middle + 5, 201216);
    add(&s, middle + 4, middle + 9, 4096);
    add(&s, middle + 2, middle + 2, 6272);
    add(&s, middle + 4, middle + 4, 4224);
    const double w = waste(&s, 2 * depth + 10);
    if (w > 0) fail_msg("waste: %.6f", w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_be_packed_is_packed),
        cmocka_unit_test(any_blocks),
        cmocka_unit_test(deep_programs_are_placed),
        cmocka_unit_test(a_stack_reaches_the_bound),
    };
    return cmocka_run_group_tests_name("memory_offsets", tests, NULL, NULL);
}
