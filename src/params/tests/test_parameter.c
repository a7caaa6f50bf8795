/* Records, placement, initial values: they depend on the record alone. */
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/parameter.h"
#include "megalith/philox.h"
#include "parameter_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static mega_param matrix(const char *name, int64_t rows, int64_t cols)
{
    mega_param r = {
        .num_dims = 2, .shape = {rows, cols}, .true_shape = {rows, cols}, .init = MEGA_INIT_NORMAL, .init_std = 0.02};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

static mega_layout *layout_of_one(void)
{
    mega_layout *l = NULL;
    assert_int_equal(mega_layout_create(NULL, NULL, &l), MEGA_OK);
    return l;
}

static void names_are_found_among_many(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    mega_params *p = NULL;
    assert_int_equal(mega_params_create(l, &p), MEGA_OK);
    assert_int_equal(mega_params_find(p, "h.0.w"), -1);
    for (int i = 0; i < 1000; i++) {
        mega_param r = matrix("", 2, 2);
        snprintf(r.name, sizeof r.name, "h.%d.w", i);
        assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
        assert_int_equal(mega_params_add(p, &r, NULL), MEGA_ERR_USAGE);
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(mega_params_find(p, mega_params_get(p, i)->name), i);
    assert_int_equal(mega_params_find(p, "h.1000.w"), -1);
    mega_params_destroy(p);
    mega_layout_destroy(l);
}

/* Three experts of 35 elements, declared from the last to the first, between two others. */
static mega_params *with_experts(const mega_layout *l, bool one_is_frozen)
{
    mega_params *p = NULL;
    need(mega_params_create(l, &p));
    const char *const name[] = {"before", "e.2", "e.1", "e.0", "after"};
    for (int i = 0; i < 5; i++) {
        mega_param r = matrix(name[i], 7, 5);
        r.joins_next = i == 1 || i == 2;
        r.is_frozen = one_is_frozen && i == 2;
        need(mega_params_add(p, &r, NULL));
    }
    return p;
}

static void joined_parameters_lie_side_by_side(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    for (int64_t limit = 0; limit <= 150; limit += 50) { /* of a bucket: they stay together whatever it is */
        mega_params *p = with_experts(l, false);
        need(mega_params_place(p, MEGA_BF16, limit));
        assert_int_equal(mega_params_joined(p, 3), 3);
        assert_int_equal(mega_params_joined_elements(p, 3), 105);
        assert_int_equal(mega_params_joined(p, 0), 1);
        assert_int_equal(mega_params_joined_elements(p, 4), 35);
        assert_int_equal(mega_params_get(p, 3)->offset % 32, 0);
        for (int e = 1; e < 3; e++) {
            assert_int_equal(mega_params_get(p, 3 - e)->offset, mega_params_get(p, 3)->offset + 35 * e);
            assert_int_equal(mega_params_get(p, 3 - e)->bucket, mega_params_get(p, 3)->bucket);
        }
        assert_int_equal(mega_params_get(p, 0)->offset % 32, 0);
        assert_int_equal(mega_params_num_buckets(p), limit == 0 ? 1 : 3);
        need(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
        assert_ptr_equal((char *)mega_params_weight(p, 3) + 2 * 35 * (int64_t)sizeof(uint16_t),
                         mega_params_weight(p, 1));
        mega_params_destroy(p);
    }
    mega_params *p = with_experts(l, true);
    assert_int_equal(mega_params_place(p, MEGA_F32, 0), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "parameters e.2 and e.1: one of them alone is frozen"));
    mega_params_destroy(p);
    need(mega_params_create(l, &p));
    mega_param r = matrix("e.1", 7, 5);
    r.joins_next = true;
    need(mega_params_add(p, &r, NULL));
    assert_int_equal(mega_params_place(p, MEGA_F32, 0), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "parameter e.1: it joins the next one, but none follows"));
    mega_params_destroy(p);
    mega_layout_destroy(l);
}

static void buckets_are_in_backward_order_and_padded(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    mega_params *p = NULL;
    assert_int_equal(mega_params_create(l, &p), MEGA_OK);
    const int64_t size[] = {100, 7, 64, 30};
    for (int i = 0; i < 4; i++) {
        mega_param r = matrix((const char *[]){"a", "b", "c", "d"}[i], size[i], 1);
        int index = -1;
        assert_int_equal(mega_params_add(p, &r, &index), MEGA_OK);
        assert_int_equal(index, i);
    }
    assert_int_equal(mega_params_place(p, MEGA_F32, 100), MEGA_OK);
    assert_int_equal(mega_params_num_buckets(p), 3); /* d c | b | a: b does not fit into the bucket of d and c, nor a
                                                        into that of b */
    int64_t end = 0;
    for (int b = 0; b < mega_params_num_buckets(p); b++) {
        const mega_bucket *bucket = mega_params_bucket(p, b);
        assert_int_equal(bucket->offset, end);
        assert_int_equal(bucket->count % 32, 0);
        assert_true(bucket->used <= bucket->count);
        end += bucket->count;
        for (int i = bucket->first_param; i < bucket->first_param + bucket->num_params; i++) {
            const mega_param *r = mega_params_get(p, i);
            assert_int_equal(r->bucket, b);
            assert_int_equal(r->offset % 32, 0);
            assert_true(r->offset >= bucket->offset && r->offset + r->count <= bucket->offset + bucket->used);
        }
    }
    assert_int_equal(mega_params_elements(p), end);
    assert_true(mega_params_get(p, 3)->offset < mega_params_get(p, 2)->offset);
    assert_int_equal(mega_params_local_count(p), 201);
    assert_int_equal(mega_params_bytes(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS), (size_t)end * 8);
    assert_null(mega_params_weight(p, 0)); /* before allocation everything but pointers is known */
    mega_params_destroy(p);
    mega_layout_destroy(l);
}

/* A tied table waits for the sum over its stages, so its bucket holds nothing else, whichever is declared first. */
static void a_tied_table_is_alone_in_its_bucket(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    for (int tied = 0; tied < 3; tied++) {
        mega_params *p = NULL;
        assert_int_equal(mega_params_create(l, &p), MEGA_OK);
        for (int i = 0; i < 3; i++) {
            mega_param r = matrix((const char *[]){"a", "b", "c"}[i], 8, 4);
            r.tie = i == tied ? MEGA_TIE_OWNER : MEGA_TIE_NONE;
            assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
        }
        assert_int_equal(mega_params_place(p, MEGA_F32, 1000), MEGA_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(mega_params_get(p, i)->bucket == mega_params_get(p, tied)->bucket, i == tied);
        mega_params_destroy(p);
    }
    mega_layout_destroy(l);
}

/* With every ZeRO stage, exactly one dp rank owns each element of a bucket and knows its index in its slice. */
static void ranks_own_every_element_once(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    mega_layout *l = layout_of_one();
    for (int stage = 1; stage <= 3; stage++) {
        int owners[2][64] = {{0}};
        int64_t next[2] = {0, 0};
        for (int rank = 0; rank < RANKS; rank++) {
            mega_layout mine = *l;
            mega_params *p = NULL;
            mine.dp = (mega_axis){rank, RANKS, l->dp.comm};
            assert_int_equal(mega_params_create(&mine, &p), MEGA_OK);
            for (int i = 0; i < 2; i++) {
                const mega_param r = matrix(i == 0 ? "a" : "b", 9, 7);
                assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
            }
            mega_params_shard(p, stage);
            assert_int_equal(mega_params_place(p, MEGA_F32, 1000), MEGA_OK);
            for (int i = 0; i < 2; i++) {
                const mega_range owned = mega_params_owned(p, i);
                const mega_param *r = mega_params_get(p, i);
                for (int64_t k = 0; k < owned.count; k++) owners[i][owned.first + k]++;
                if (owned.count == 0) continue;
                assert_int_equal(owned.first, next[i]); /* in the order of ranks */
                next[i] = owned.first + owned.count;
                const int64_t at = mega_params_shard_index(p, r->bucket, r->offset + owned.first);
                assert_in_range(at, 0, mega_params_shard_elements(p) - owned.count);
            }
            mega_params_destroy(p);
        }
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 63; k++) assert_int_equal(owners[i][k], 1);
    }
    mega_layout_destroy(l);
}

/* An expert's elements are owned once over the ranks of edp, which hold it; what is no expert's, once over dp. */
static void experts_have_buckets_and_slices_of_their_own(void **state)
{
    (void)state;
    enum { RANKS = 6, EP = 2, NUMBERS = 9 * 7 };
    for (int stage = 1; stage <= 3; stage++) {
        int owners[1 + EP][NUMBERS] = {{0}};
        for (int rank = 0; rank < RANKS; rank++) {
            mega_layout *l = NULL;
            mega_params *p = NULL;
            const mega_layout_sizes sizes = {.ep = EP, .planned_ranks = RANKS, .planned_rank = rank};
            assert_int_equal(mega_layout_create(NULL, &sizes, &l), MEGA_OK);
            assert_int_equal(l->edp.size, RANKS / EP);
            assert_int_equal(l->edp.rank * EP + l->ep.rank, l->dp.rank);
            assert_int_equal(mega_params_create(l, &p), MEGA_OK);
            mega_param dense = matrix("a", 9, 7), expert = matrix(l->ep.rank == 0 ? "e.0" : "e.1", 9, 7);
            expert.held_by = 1 + l->ep.rank;
            assert_int_equal(mega_params_add(p, &dense, NULL), MEGA_OK);
            assert_int_equal(mega_params_add(p, &expert, NULL), MEGA_OK);
            assert_int_equal(mega_params_shard(p, stage), MEGA_OK);
            assert_int_equal(mega_params_place(p, MEGA_F32, 1000), MEGA_OK);
            int64_t slices = 0;
            for (int i = 0; i < 2; i++) {
                const mega_param *r = mega_params_get(p, i);
                const mega_axis group = mega_params_group(p, r->bucket);
                const mega_range owned = mega_params_owned(p, i);
                assert_int_equal(group.size, i == 0 ? RANKS : RANKS / EP);
                assert_int_equal(mega_params_group_of(p, r).size, group.size);
                assert_int_equal(mega_params_bucket_shards(p, r->bucket).rank, group.rank);
                assert_int_equal(mega_params_bucket(p, r->bucket)->count % group.size, 0);
                for (int64_t k = 0; k < owned.count; k++) owners[i == 0 ? 0 : r->held_by][owned.first + k]++;
                slices += mega_params_slice(p, r->bucket).count;
                if (owned.count == 0) continue;
                const int64_t at = mega_params_shard_index(p, r->bucket, r->offset + owned.first);
                assert_in_range(at, 0, mega_params_shard_elements(p) - owned.count);
            }
            assert_int_equal(mega_params_shard_elements(p), slices);
            assert_int_equal(mega_params_state_elements(p), slices);
            mega_params_destroy(p);
            mega_layout_destroy(l);
        }
        for (int i = 0; i <= EP; i++)
            for (int k = 0; k < NUMBERS; k++) assert_int_equal(owners[i][k], 1);
    }
}

/* Parameters are sharded as the ZeRO stage says: without ZeRO not at all, whatever the number of dp ranks. */
static void shards_follow_from_the_stage(void **state)
{
    (void)state;
    mega_layout *l = NULL;
    const mega_layout_sizes s = {.tp = 2, .planned_ranks = 6, .planned_rank = 3};
    assert_int_equal(mega_layout_create(NULL, &s, &l), MEGA_OK);
    for (int stage = 0; stage <= 3; stage++) {
        mega_params *p = NULL;
        mega_param r = matrix("w", 12, 8);
        assert_int_equal(mega_params_create(l, &p), MEGA_OK);
        assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
        mega_params_shard(p, stage);
        assert_int_equal(mega_params_place(p, MEGA_F32, 0), MEGA_OK);
        const mega_axis shards = mega_params_shards(p);
        assert_int_equal(shards.size, stage == 0 ? 1 : 3);
        assert_int_equal(shards.rank, stage == 0 ? 0 : 1);
        assert_int_equal(shards.comm == NULL, stage == 0);
        assert_int_equal(mega_params_are_cut(p, MEGA_PARAMS_GRADS), stage >= 2);
        assert_int_equal(mega_params_are_cut(p, MEGA_PARAMS_WEIGHTS), stage == 3);
        double sum = 5;
        if (stage == 0) assert_int_equal(mega_params_sum_counts(p, "test", &sum, 1), MEGA_OK);
        assert_true(sum == 5);
        mega_params_destroy(p);
    }
    mega_layout_destroy(l);
}

/* A frozen parameter declared in the middle comes after all others, in a bucket of its own, and has no moments and no
 * memory for a gradient. */
static void frozen_parameters_lie_behind_the_others(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    mega_params *p = NULL;
    assert_int_equal(mega_params_create(l, &p), MEGA_OK);
    for (int i = 0; i < 4; i++) {
        mega_param r = matrix((const char *[]){"a", "b", "c", "d"}[i], 8, 8);
        r.is_frozen = i == 1;
        assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
    }
    assert_int_equal(mega_params_place(p, MEGA_F32, 0), MEGA_OK);
    assert_int_equal(mega_params_state_elements(p), 3 * 64);
    assert_int_equal(mega_params_elements(p), 4 * 64);
    assert_int_equal(mega_params_get(p, 1)->offset, 3 * 64);
    assert_int_equal(mega_params_get(p, 3)->offset, 0);
    assert_int_equal(mega_params_num_buckets(p), 3); /* d and c, a, b: the parameters of a bucket have consecutive
                                                        numbers */
    for (int b = 0; b < 3; b++)
        for (int k = 0; k < mega_params_bucket(p, b)->num_params; k++)
            assert_int_equal(mega_params_get(p, mega_params_bucket(p, b)->first_param + k)->bucket, b);
    assert_int_equal(mega_params_bytes(p, MEGA_PARAMS_GRADS), 3 * 64 * sizeof(float));
    assert_int_equal(mega_params_bytes(p, MEGA_PARAMS_WEIGHTS), 4 * 64 * sizeof(float));
    assert_int_equal(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS), MEGA_OK);
    for (int i = 0; i < 4; i++) assert_true((mega_params_grad(p, i) == NULL) == (i == 1));
    assert_ptr_equal(mega_params_grad(p, 0), (float *)mega_params_flat_grad(p) + 2 * 64);
    mega_params_destroy(p);
    mega_layout_destroy(l);
}

/* A checkpoint reads the sharding from the record: zero if every rank has the whole parameter. */
static void cuts_follow_from_the_record(void **state)
{
    (void)state;
    for (int tp = 1; tp <= 2; tp++) {
        mega_layout *l = NULL;
        mega_params *p = NULL;
        const mega_layout_sizes s = {.tp = tp, .planned_ranks = tp, .planned_rank = tp - 1};
        assert_int_equal(mega_layout_create(NULL, &s, &l), MEGA_OK);
        assert_int_equal(mega_params_create(l, &p), MEGA_OK);
        mega_param r = matrix("w", 12, 8);
        mega_param_cut cut = mega_params_cut(p, &r);
        assert_true(cut.rank == 0 && cut.size == 0);
        r.axis = MEGA_AXIS_TP;
        cut = mega_params_cut(p, &r);
        assert_int_equal(cut.size, tp == 1 ? 0 : 2);
        assert_int_equal(cut.rank, tp - 1);
        mega_params_destroy(p);
        mega_layout_destroy(l);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    mega_params *p = NULL;
    assert_int_equal(mega_params_create(l, &p), MEGA_OK);
    mega_param r = matrix("w", 4, 4);
    assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
    assert_int_equal(mega_params_add(p, &r, NULL), MEGA_ERR_USAGE); /* twice */
    assert_non_null(strstr(mega_error_message(), "\"w\""));
    r = matrix("v", 4, 4);
    r.true_shape[0] = 5;
    assert_int_equal(mega_params_add(p, &r, NULL), MEGA_ERR_USAGE);
    r = matrix("q", 4, 4);
    r.axis = MEGA_AXIS_TP;
    mega_param_set_blocks(&r, 3);
    assert_int_equal(mega_params_add(p, &r, NULL), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "its 3 parts have 3 rows together, it has 4"));
    assert_int_equal(mega_params_initialize(p, 1), MEGA_ERR_USAGE);
    assert_int_equal(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS), MEGA_ERR_USAGE);
    assert_int_equal(mega_params_place(p, MEGA_I32, 0), MEGA_ERR_UNSUPPORTED);
    assert_int_equal(mega_params_place(p, MEGA_F32, 0), MEGA_OK);
    assert_int_equal(mega_params_place(p, MEGA_F32, 0), MEGA_ERR_USAGE);
    r = matrix("late", 4, 4);
    assert_int_equal(mega_params_add(p, &r, NULL), MEGA_ERR_USAGE);
    mega_params_destroy(p);
    mega_layout_destroy(l);
}

/* The slices of all ranks together equal the whole tensor of a single rank: values depend on the record alone. */
static void initial_values_do_not_depend_on_the_cut(void **state)
{
    (void)state;
    for (int cut_dim = 0; cut_dim < 2; cut_dim++)
        for (int blocks = 1; blocks <= 3; blocks += 2) {
            mega_layout *l = layout_of_one();
            mega_param r = matrix("qkv", 12, 12);
            r.axis = MEGA_AXIS_TP;
            r.cut_dim = cut_dim;
            mega_param_set_blocks(&r, blocks);
            mega_params *whole = NULL;
            assert_int_equal(mega_params_create(l, &whole), MEGA_OK);
            assert_int_equal(mega_params_add(whole, &r, NULL), MEGA_OK);
            assert_int_equal(mega_params_place(whole, MEGA_F32, 0), MEGA_OK);
            assert_int_equal(mega_params_allocate(whole, MEGA_PARAMS_WEIGHTS), MEGA_OK);
            assert_int_equal(mega_params_initialize(whole, 7), MEGA_OK);
            const float *w = mega_params_weight(whole, 0);
            for (int rank = 0; rank < 2; rank++) {
                mega_layout two = *l;
                two.tp = (mega_axis){rank, 2, NULL};
                mega_params *half = NULL;
                assert_int_equal(mega_params_create(&two, &half), MEGA_OK);
                assert_int_equal(mega_params_add(half, &r, NULL), MEGA_OK);
                assert_int_equal(mega_params_place(half, MEGA_F32, 0), MEGA_OK);
                assert_int_equal(mega_params_allocate(half, MEGA_PARAMS_WEIGHTS), MEGA_OK);
                assert_int_equal(mega_params_initialize(half, 7), MEGA_OK);
                const mega_param *local = mega_params_get(half, 0);
                const float *v = mega_params_weight(half, 0);
                const int64_t slice = 12 / blocks / 2;
                for (int64_t i = 0; i < local->local_shape[0]; i++)
                    for (int64_t j = 0; j < local->local_shape[1]; j++) {
                        int64_t at[2] = {i, j};
                        at[cut_dim] = at[cut_dim] / slice * 2 * slice + rank * slice + at[cut_dim] % slice;
                        assert_true(v[i * local->local_shape[1] + j] == w[at[0] * 12 + at[1]]);
                    }
                mega_params_destroy(half);
            }
            mega_params_destroy(whole);
            mega_layout_destroy(l);
        }
}

static void padding_rows_are_zero_and_change_nothing(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    const float *value[2];
    mega_params *p[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        mega_param r = matrix("wte", 5 + 3 * i, 6);
        r.true_shape[0] = 5;
        assert_int_equal(mega_params_create(l, &p[i]), MEGA_OK);
        assert_int_equal(mega_params_add(p[i], &r, NULL), MEGA_OK);
        assert_int_equal(mega_params_place(p[i], MEGA_F32, 0), MEGA_OK);
        assert_int_equal(mega_params_allocate(p[i], MEGA_PARAMS_WEIGHTS), MEGA_OK);
        assert_int_equal(mega_params_initialize(p[i], 3), MEGA_OK);
        assert_int_equal(mega_params_logical_count(p[i]), 30);
        value[i] = mega_params_weight(p[i], 0);
    }
    assert_memory_equal(value[0], value[1], 30 * sizeof(float));
    for (int i = 30; i < 48; i++) assert_true(value[1][i] == 0.0f);
    for (uint64_t i = 0; i < 30; i++)
        assert_true(value[0][i] == (float)(0.02 * mega_philox_normal(3, mega_name_hash("wte"), i)));
    mega_params_destroy(p[0]);
    mega_params_destroy(p[1]);
    mega_layout_destroy(l);
}

static void distributions_have_their_moments(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    mega_params *p = NULL;
    assert_int_equal(mega_params_create(l, &p), MEGA_OK);
    mega_param normal = matrix("normal", 200, 300), xavier = matrix("xavier", 200, 300), one = matrix("one", 4, 4);
    normal.init_std = 0.5;
    xavier.init = MEGA_INIT_XAVIER_UNIFORM;
    one.init = MEGA_INIT_ONE;
    assert_int_equal(mega_params_add(p, &normal, NULL), MEGA_OK);
    assert_int_equal(mega_params_add(p, &xavier, NULL), MEGA_OK);
    assert_int_equal(mega_params_add(p, &one, NULL), MEGA_OK);
    assert_int_equal(mega_params_place(p, MEGA_F64, 0), MEGA_OK);
    assert_int_equal(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS), MEGA_OK);
    assert_int_equal(mega_params_initialize(p, 11), MEGA_OK);
    const double limit = sqrt(6.0 / 500.0);
    for (int k = 0; k < 2; k++) {
        const double *w = mega_params_master(p, k);
        double sum = 0.0, sum_sq = 0.0;
        for (int i = 0; i < 60000; i++) {
            sum += w[i];
            sum_sq += w[i] * w[i];
            if (k == 1) assert_true(fabs(w[i]) <= limit);
        }
        const double std = sqrt(sum_sq / 60000.0), expected = k == 0 ? 0.5 : limit / sqrt(3.0);
        assert_true(fabs(std / expected - 1.0) < 0.02);
        assert_true(fabs(sum / 60000.0) < 5.0 * expected / sqrt(60000.0));
    }
    assert_true(((const double *)mega_params_master(p, 2))[5] == 1.0);
    mega_params_destroy(p);
    mega_layout_destroy(l);
}

static void threads_do_not_change_initial_values(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    mega_params *p[2] = {NULL, NULL};
    mega_team *team = NULL;
    assert_int_equal(mega_team_create(3, &team), MEGA_OK);
    for (int i = 0; i < 2; i++) {
        mega_param r = matrix("w", 17, 5), x = matrix("x", 2, 9);
        x.init = MEGA_INIT_XAVIER_UNIFORM;
        assert_int_equal(mega_params_create(l, &p[i]), MEGA_OK);
        assert_int_equal(mega_params_add(p[i], &r, NULL), MEGA_OK);
        assert_int_equal(mega_params_add(p[i], &x, NULL), MEGA_OK);
        assert_int_equal(mega_params_place(p[i], MEGA_F32, 0), MEGA_OK);
        assert_int_equal(mega_params_allocate(p[i], MEGA_PARAMS_WEIGHTS), MEGA_OK);
        assert_int_equal(mega_params_initialize_team(p[i], 4, i == 0 ? NULL : team), MEGA_OK);
    }
    assert_memory_equal(mega_params_flat_master(p[0]), mega_params_flat_master(p[1]),
                        (size_t)mega_params_elements(p[0]) * sizeof(float));
    mega_team_destroy(team);
    mega_params_destroy(p[0]);
    mega_params_destroy(p[1]);
    mega_layout_destroy(l);
}

static void bf16_weights_are_rounded_masters(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    mega_params *p = NULL;
    assert_int_equal(mega_params_create(l, &p), MEGA_OK);
    mega_param r = matrix("w", 5, 7);
    assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
    assert_int_equal(mega_params_place(p, MEGA_BF16, 0), MEGA_OK);
    assert_int_equal(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS), MEGA_OK);
    assert_int_equal(mega_params_initialize(p, 1), MEGA_OK);
    const float *master = mega_params_master(p, 0);
    const uint16_t *weight = mega_params_weight(p, 0);
    for (int i = 0; i < 35; i++) assert_int_equal(weight[i], mega_f32_to_bf16(master[i]));
    assert_true(((const float *)mega_params_grad(p, 0))[0] == 0.0f);
    mega_params_destroy(p);
    mega_layout_destroy(l);
}

/* What graphs of 16 bits read in acc has a bucket of its own, of whole weights: the masters as they are. */
static void weights_in_acc_are_not_rounded(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        const mega_dtype compute = k == 0 ? MEGA_BF16 : MEGA_F32;
        mega_layout *l = layout_of_one();
        mega_params *p = NULL;
        assert_int_equal(mega_params_create(l, &p), MEGA_OK);
        for (int i = 0; i < 3; i++) {
            mega_param r = matrix((const char *[]){"a", "b", "c"}[i], 40, 3);
            r.init = MEGA_INIT_NORMAL, r.init_std = 0.1;
            r.is_buffer = r.in_acc = i == 1;
            assert_int_equal(mega_params_add(p, &r, NULL), MEGA_OK);
        }
        assert_int_equal(mega_params_place(p, compute, 0), MEGA_OK);
        assert_int_equal(mega_params_num_buckets(p), compute == MEGA_F32 ? 1 : 3);
        assert_int_equal(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS), MEGA_OK);
        assert_int_equal(mega_params_initialize(p, 3), MEGA_OK);
        assert_int_equal(mega_params_weight_dtype(p, mega_params_get(p, 0)->bucket), compute);
        assert_int_equal(mega_params_weight_dtype(p, mega_params_get(p, 1)->bucket), MEGA_F32);
        assert_memory_equal(mega_params_weight(p, 1), mega_params_master(p, 1), 120 * sizeof(float));
        assert_true(((float *)mega_params_weight(p, 1))[5] != 0);
        mega_params_destroy(p);
        mega_layout_destroy(l);
    }
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    mega_layout *l = layout_of_one();
    for (uint64_t n = 1;; n++) {
        mega_params *p = NULL;
        mega_param r = matrix("w", 5, 7);
        mega_alloc_fail_at(n);
        mega_status st = mega_params_create(l, &p);
        if (st == MEGA_OK) st = mega_params_add(p, &r, NULL);
        if (st == MEGA_OK) st = mega_params_place(p, MEGA_BF16, 0);
        if (st == MEGA_OK) st = mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS);
        mega_alloc_fail_at(0);
        mega_params_destroy(p);
        if (st == MEGA_OK) break;
        assert_int_equal(st, MEGA_ERR_MEMORY);
        assert_true(n < 50);
    }
    mega_layout_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_among_many),
        cmocka_unit_test(joined_parameters_lie_side_by_side),
        cmocka_unit_test(buckets_are_in_backward_order_and_padded),
        cmocka_unit_test(a_tied_table_is_alone_in_its_bucket),
        cmocka_unit_test(ranks_own_every_element_once),
        cmocka_unit_test(experts_have_buckets_and_slices_of_their_own),
        cmocka_unit_test(shards_follow_from_the_stage),
        cmocka_unit_test(cuts_follow_from_the_record),
        cmocka_unit_test(frozen_parameters_lie_behind_the_others),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(initial_values_do_not_depend_on_the_cut),
        cmocka_unit_test(padding_rows_are_zero_and_change_nothing),
        cmocka_unit_test(distributions_have_their_moments),
        cmocka_unit_test(threads_do_not_change_initial_values),
        cmocka_unit_test(bf16_weights_are_rounded_masters),
        cmocka_unit_test(weights_in_acc_are_not_rounded),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
