/* Transport self and the layout of ranks. */
#include "kit.h"
#include "megalith/comm.h"

#include <string.h>

static void layout_has_groups_of_one(void **state)
{
    (void)state;
    mega_layout *l = NULL;
    assert_int_equal(mega_layout_create(NULL, NULL, &l), MEGA_OK);
    const mega_axis axis[] = {l->world, l->tp, l->pp, l->dp, l->cp, l->ep, l->edp};
    static const char *const name[] = {"world", "tp", "pp", "dp", "cp", "ep", "edp"};
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) {
        assert_int_equal(axis[i].rank, 0);
        assert_int_equal(axis[i].size, 1);
        assert_string_equal(mega_comm_name(axis[i].comm), name[i]);
        assert_int_equal(mega_comm_rank(axis[i].comm), 0);
        assert_int_equal(mega_comm_size(axis[i].comm), 1);
    }
    mega_layout_destroy(l);
    mega_layout_destroy(NULL);
}

static void layout_refuses_more_ranks_than_there_are(void **state)
{
    (void)state;
    mega_layout *l = NULL;
    assert_int_equal(mega_layout_create(NULL, &(mega_layout_sizes){.tp = 2}, &l), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--tensor-model-parallel-size 2"));
    assert_non_null(strstr(mega_error_message(), "world of 1 rank;"));
    assert_int_equal(mega_layout_create(NULL, &(mega_layout_sizes){.pp = -3}, &l), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--pipeline-model-parallel-size -3"));
    assert_null(l);
}

/* Megatron's order: tp varies fastest, then dp, then pp. */
static void layout_of_a_planned_world(void **state)
{
    (void)state;
    mega_layout *l = NULL;
    const mega_layout_sizes s = {.tp = 8, .pp = 16, .planned_ranks = 1024, .planned_rank = 1023 - 64 - 2};
    assert_int_equal(mega_layout_create(NULL, &s, &l), MEGA_OK);
    assert_int_equal(l->dp.size, 8);
    assert_int_equal(l->tp.rank, 5);
    assert_int_equal(l->dp.rank, 7);
    assert_int_equal(l->pp.rank, 14);
    assert_int_equal(l->world.rank, 957);
    mega_layout_destroy(l);
    assert_int_equal(mega_layout_create(NULL, &(mega_layout_sizes){.planned_ranks = 4, .planned_rank = 4}, &l),
                     MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "expected 0 to 3"));
}

/* pp_back has the ranks of pp, for messages in the other direction. */
static void layout_has_a_group_for_gradients(void **state)
{
    (void)state;
    for (int rank = 0; rank < 8; rank += 2) { /* pipeline stages 0 to 3 of tensor rank 0 */
        mega_layout *l = NULL;
        const mega_layout_sizes s = {.tp = 2, .pp = 4, .planned_ranks = 8, .planned_rank = rank};
        assert_int_equal(mega_layout_create(NULL, &s, &l), MEGA_OK);
        assert_int_equal(l->pp.rank, rank / 2);
        assert_int_equal(l->pp_back.rank, l->pp.rank);
        assert_int_equal(l->pp_back.size, 4);
        assert_ptr_not_equal(l->pp_back.comm, l->pp.comm);
        mega_layout_destroy(l);
    }
}

static void collectives_count_and_keep_values(void **state)
{
    (void)state;
    mega_layout *l = NULL;
    assert_int_equal(mega_layout_create(NULL, &(mega_layout_sizes){0}, &l), MEGA_OK);
    mega_comm *c = l->tp.comm;
    float in[3] = {1.5f, -2.0f, 3.25f}, out[3] = {0};
    assert_int_equal(mega_comm_sequence(c), 0);
    assert_int_equal(mega_comm_all_reduce(c, "test", in, 3, MEGA_F32, MEGA_REDUCE_SUM), MEGA_OK);
    assert_true(in[0] == 1.5f && in[1] == -2.0f && in[2] == 3.25f);
    assert_int_equal(mega_comm_all_gather(c, "test", out, in, 3, MEGA_F32), MEGA_OK);
    assert_memory_equal(in, out, sizeof in);
    memset(out, 0, sizeof out);
    assert_int_equal(mega_comm_reduce_scatter(c, "test", out, in, 3, MEGA_F32), MEGA_OK);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(mega_comm_reduce_scatter(c, "test", in, in, 3, MEGA_F32), MEGA_OK);
    assert_int_equal(mega_comm_broadcast(c, "test", in, sizeof in, 0), MEGA_OK);
    assert_int_equal(mega_comm_barrier(c, "test"), MEGA_OK);
    assert_int_equal(mega_comm_sequence(c), 6);
    assert_int_equal(mega_comm_sequence(l->dp.comm), 0); /* each group counts its own */
    assert_int_equal(mega_comm_broadcast(c, "test", in, sizeof in, 1), MEGA_ERR_COMM);
    mega_layout_destroy(l);
}

static void agree_passes_the_status_and_its_message_on(void **state)
{
    (void)state;
    mega_layout *l = NULL;
    assert_int_equal(mega_layout_create(NULL, NULL, &l), MEGA_OK);
    assert_int_equal(mega_comm_agree(l->world.comm, MEGA_OK), MEGA_OK);
    const mega_status st = MEGA_FAIL(MEGA_ERR_IO, "file x: gone");
    assert_int_equal(mega_comm_agree(l->world.comm, st), MEGA_ERR_IO);
    assert_string_equal(mega_error_message(), "file x: gone");
    mega_layout_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_has_groups_of_one),
        cmocka_unit_test(layout_refuses_more_ranks_than_there_are),
        cmocka_unit_test(layout_of_a_planned_world),
        cmocka_unit_test(layout_has_a_group_for_gradients),
        cmocka_unit_test(collectives_count_and_keep_values),
        cmocka_unit_test(agree_passes_the_status_and_its_message_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
