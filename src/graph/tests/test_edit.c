/* The editor of instruction lists (edit.c) and the index of writes and reads (uses.c). */
#include "edit_impl.h"
#include "kit.h"
#include "uses_impl.h"

#include <string.h>

enum { ROWS = 4, COLUMNS = 8, LINES = 6 };

/* x0 → scale → scale … → scale: instruction i writes a tensor that only instruction i + 1 reads. */
static mega_graph *chain(void)
{
    static mega_layout *layout;
    const int64_t dim[2] = {ROWS, COLUMNS};
    mega_graph *g;
    need(mega_layout_create(NULL, NULL, &layout));
    need(mega_graph_create(MEGA_F32, NULL, layout, &g));
    mega_tensor x = mega_graph_input(g, "x", MEGA_F32, 2, dim);
    for (int i = 0; i < LINES; i++) x = mega_op_scale(g, x, i);
    need(mega_graph_status(g));
    assert_int_equal(g->num_ops, LINES);
    return g;
}

static void end(mega_graph *g)
{
    mega_layout_destroy((mega_layout *)g->layout);
    mega_graph_destroy(g);
}

/* Asserts that the instructions have these numbers; -1 ends the list. */
static void expect(const mega_graph *g, const int *number)
{
    int count = 0;
    for (; number[count] >= 0; count++)
        if (count >= g->num_ops || g->op[count].attr.bucket != number[count])
            fail_msg("instruction %d is number %d; expected %d", count, g->op[count].attr.bucket, number[count]);
    assert_int_equal(g->num_ops, count);
}

static void number(mega_graph *g)
{
    for (int i = 0; i < g->num_ops; i++) g->op[i].attr.bucket = i;
}

static void insertions_keep_their_order(void **state)
{
    (void)state;
    mega_graph *g = chain();
    graph_edit e = {0};
    number(g);
    g->num_forward = 4;
    for (int i = 4; i < LINES; i++) g->op[i].backward = true;
    g->op[0].first_use = 1;
    g->op[3].first_use = 5;
    need(mega_edit_apply(&e, g)); /* nothing */
    expect(g, (int[]){0, 1, 2, 3, 4, 5, -1});
    const struct {
        int before, number;
        bool backward;
    } in[] = {{LINES, 10, true}, {1, 11, false}, {4, 12, true}, {1, 13, false},
              {0, 14, false},    {4, 15, true},  {4, 16, false}};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        need(mega_edit_insert(
            &e, in[i].before,
            &(instruction){
                .kind = OP_SCALE, .attr = {.bucket = in[i].number}, .backward = in[i].backward, .first_use = -1}));
    need(mega_edit_apply(&e, g));
    expect(g, (int[]){14, 0, 11, 13, 1, 2, 3, 16, 12, 15, 4, 5, 10, -1}); /* 16: the last of the forward */
    assert_int_equal(g->num_forward, 8);
    assert_int_equal(g->op[1].first_use, 4);   /* instruction 1 */
    assert_int_equal(g->op[6].first_use, 11);  /* instruction 5 */
    assert_int_equal(g->op[12].first_use, -1); /* inserted */
    mega_edit_fini(&e);
    end(g);
}

static void moves_and_removals(void **state)
{
    (void)state;
    mega_graph *g = chain();
    number(g);
    g->num_forward = 4;
    mega_edit_move_up(g, 3, 1);
    expect(g, (int[]){0, 3, 1, 2, 4, 5, -1});
    mega_edit_move_up(g, 2, 2);
    expect(g, (int[]){0, 3, 1, 2, 4, 5, -1});
    mega_edit_remove(g, 0);
    mega_edit_remove(g, 2);
    mega_edit_remove(g, 5);
    for (int k = 0; k < OP_MAX_IN; k++) assert_int_equal(g->op[2].in[k], 0);
    mega_edit_compact(g);
    expect(g, (int[]){3, 2, 4, -1});
    assert_int_equal(g->num_forward, 2);
    end(g);
}

/* The index has what a search through the whole list finds. */
static void the_index_has_all_uses(void **state)
{
    (void)state;
    mega_graph *g = chain();
    const mega_tensor last = {g->op[LINES - 1].out[0]}, first = {g->op[0].out[0]};
    const mega_tensor part = mega_op_rows(g, first, 1, 2);
    mega_op_mul(g, part, part);
    mega_op_add(g, last, first);
    need(mega_graph_status(g));
    graph_uses uses;
    need(mega_uses_find(g, &uses));
    int reads = 0, writes = 0;
    for (int32_t t = 0; t < g->num_tensors; t++) {
        const use_list read = mega_uses_reads(&uses, t), write = mega_uses_writes(&uses, t);
        int at_read = 0, at_write = 0;
        for (int i = 0; i < g->num_ops; i++) {
            for (int k = 0; k < OP_MAX_IN; k++) {
                if (g->op[i].in[k] == 0 || mega_graph_root(g, g->op[i].in[k]) != t) continue;
                assert_true(at_read < read.count);
                assert_int_equal(read.use[at_read].op, i);
                assert_int_equal(read.use[at_read++].operand, k);
            }
            for (int k = 0; k < OP_MAX_OUT; k++) {
                if (g->op[i].out[k] == 0 || g->op[i].out[k] != t) continue;
                assert_true(at_write < write.count);
                assert_int_equal(write.use[at_write].op, i);
                assert_int_equal(write.use[at_write++].operand, k);
            }
        }
        assert_int_equal(at_read, read.count);
        assert_int_equal(at_write, write.count);
        reads += read.count;
        writes += write.count;
    }
    assert_int_equal(reads, LINES + 4);
    assert_int_equal(writes, LINES + 2);
    assert_int_equal(mega_uses_reads(&uses, part.id).count, 0);  /* reads of a view are those of its value */
    assert_int_equal(mega_uses_reads(&uses, first.id).count, 4); /* scale, mul twice, add */
    mega_uses_fini(&uses);
    end(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(insertions_keep_their_order),
                                       cmocka_unit_test(moves_and_removals), cmocka_unit_test(the_index_has_all_uses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
