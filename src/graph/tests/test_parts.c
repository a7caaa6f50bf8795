/* Parts of parameters: positions of rows in checkpoint tensors, initial values by these positions, and invalid records.
 * Expected positions are counted row by row. */
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/graph.h"
#include "megalith/parameter.h"
#include "megalith/philox.h"

#include <stdio.h>
#include <string.h>

enum { COLS = 5, SEED = 11 };

typedef struct sketch {
    mega_layout *one, layout;
    mega_params *params;
    mega_builder b;
} sketch;

static void begin(sketch *k, int rank, int size)
{
    *k = (sketch){.one = NULL};
    need(mega_layout_create(NULL, NULL, &k->one));
    k->layout = *k->one;
    k->layout.tp.rank = rank;
    k->layout.tp.size = size;
    need(mega_params_create(&k->layout, &k->params));
    k->b = (mega_builder){.layout = &k->layout, .samples = 1, .positions = 1, .path = "m"};
    need(mega_graph_create(MEGA_F32, k->params, &k->layout, &k->b.graph));
}

static void end(sketch *k)
{
    mega_graph_destroy(k->b.graph);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->one);
}

/* Every layout that model families use: grouped queries in three tensors, or interleaved by head; parts of unequal size
 * in another order in one tensor; gate and up interleaved row by row. */
typedef struct family {
    int64_t rows;
    mega_param_part part[MEGA_PARAM_PARTS];
    int num_parts;
} family;

static const family families[] = {
    {16, {{.file = "q", .rows = 8}, {.file = "k", .rows = 4}, {.file = "v", .rows = 4}}, 3},
    {24,
     {{.rows = 8, .first = 0, .block = 2, .stride = 6},
      {.rows = 8, .first = 2, .block = 2, .stride = 6},
      {.rows = 8, .first = 4, .block = 2, .stride = 6}},
     3},
    {16,
     {{.file = "c_attn", .rows = 8},
      {.file = "c_attn", .rows = 4, .first = 12},
      {.rows = 4, .file = "c_attn", .first = 8}},
     3},
    {12, {{.rows = 6, .first = 0, .block = 1, .stride = 2}, {.rows = 6, .first = 1, .block = 1, .stride = 2}}, 2},
    {20,
     {{.file = "both", .rows = 8, .first = 0, .block = 4, .stride = 6},
      {.file = "w", .rows = 8},
      {.file = "both", .rows = 4, .first = 4, .block = 2, .stride = 6}},
     3},
    {12, {{.rows = 12}}, 1},
    {24, {{.file = "q", .rows = 16, .block = 4, .stride = 4}, {.file = "k", .rows = 8, .block = 4, .stride = 4}}, 2},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* Returns the checkpoint tensor that holds row `row` of the whole parameter; *out receives the row there. */
static const char *place_of(const family *f, int64_t row, int64_t *out)
{
    int i = 0;
    while (row >= f->part[i].rows) row -= f->part[i++].rows;
    const mega_param_part *p = &f->part[i];
    *out = p->block > 0 ? p->first + row / p->block * p->stride + row % p->block : p->first + row;
    return p->file;
}

/* Returns the row of the whole parameter that is row `local` of the slice of a rank. */
static int64_t whole_row(const family *f, int rank, int size, int64_t local)
{
    int64_t before = 0;
    for (int i = 0;; i++) {
        const int64_t slice = f->part[i].rows / size;
        if (local < slice) return before + rank * slice + local;
        local -= slice;
        before += f->part[i].rows;
    }
}

static mega_param_options options_of(const family *f, bool by_columns)
{
    mega_param_options o = {.init = MEGA_INIT_NORMAL,
                            .init_std = 0.5,
                            .shard_rows = !by_columns,
                            .shard_columns = by_columns,
                            .num_parts = f->num_parts};
    memcpy(o.part, f->part, sizeof o.part);
    return o;
}

static void values_are_those_of_the_file(const family *f, bool by_columns, int rank, int size)
{
    sketch k;
    begin(&k, rank, size);
    const mega_param_options o = options_of(f, by_columns);
    const int64_t rows = by_columns ? COLS : f->rows, cols = by_columns ? f->rows : COLS;
    mega_builder_param(&k.b, "w", rows, cols, &o);
    need(mega_graph_status(k.b.graph));
    need(mega_params_place(k.params, MEGA_F32, 0));
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(k.params, SEED));
    const mega_param *r = mega_params_get(k.params, 0);
    const float *w = mega_params_master(k.params, 0);
    assert_int_equal(r->local_shape[by_columns ? 1 : 0], f->rows / size);
    for (int64_t i = 0; i < r->local_shape[0]; i++)
        for (int64_t j = 0; j < r->local_shape[1]; j++) {
            int64_t at, shape[2];
            char name[32];
            int file;
            const char *of = place_of(f, whole_row(f, rank, size, by_columns ? j : i), &at);
            snprintf(name, sizeof name, "m.%s", of != NULL ? of : "w");
            assert_int_equal(mega_params_find_file(k.params, name, &file), 0);
            mega_param_file_shape(r, file, shape);
            const int64_t index = by_columns ? i * shape[1] + at : at * COLS + j;
            const float expected = (float)(0.5 * mega_philox_normal(SEED, mega_name_hash(name), (uint64_t)index));
            if (w[i * r->local_shape[1] + j] != expected)
                fail_msg("rank %d of %d, element [%d, %d]: %g, expected %g", rank, size, (int)i, (int)j,
                         (double)w[i * r->local_shape[1] + j], (double)expected);
        }
    end(&k);
}

static void initial_values_are_addressed_by_the_file(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILIES; i++)
        for (int by_columns = 0; by_columns < 2; by_columns++)
            for (int size = 1; size <= 2; size++)
                for (int rank = 0; rank < size; rank++)
                    values_are_those_of_the_file(&families[i], by_columns == 1, rank, size);
}

/* The Xavier bound is that of the checkpoint tensor, as if it were a separate layer. */
static void bounds_are_those_of_the_file(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 0, 1);
    mega_param_options o = options_of(&families[0], false);
    o.init = MEGA_INIT_XAVIER_UNIFORM;
    mega_builder_param(&k.b, "w", 16, COLS, &o);
    mega_builder_param(&k.b, "alone", 4, COLS, &(mega_param_options){.init = MEGA_INIT_XAVIER_UNIFORM});
    need(mega_graph_status(k.b.graph));
    need(mega_params_place(k.params, MEGA_F64, 0));
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS));
    need(mega_params_initialize(k.params, SEED));
    const double *joint = mega_params_master(k.params, 0), bound = 0.81649658; /* sqrt(6 / (4 + 5)) */
    double most = 0;
    for (int i = 8 * COLS; i < 16 * COLS; i++) most = joint[i] > most ? joint[i] : most;
    assert_true(most < bound && most > 0.8 * bound);
    end(&k);
}

/* Parts that are adjacent in memory and in the file are one stretch. */
static void stretches_are_as_long_as_they_can_be(void **state)
{
    (void)state;
    mega_param r = {.num_dims = 2, .shape = {12, 2}, .true_shape = {12, 2}};
    mega_param_stretch s[MEGA_PARAM_PARTS];
    mega_param_set_blocks(&r, 3);
    assert_int_equal(mega_param_stretches(&r, (mega_param_cut){0}, s), 1);
    assert_true(s[0].rows == 12 && s[0].runs == 1 && s[0].file == 0);
    assert_int_equal(mega_param_stretches(&r, (mega_param_cut){1, 2}, s), 3);
    for (int i = 0; i < 3; i++)
        assert_true(s[i].local == 2 * i && s[i].whole == 4 * i + 2 && s[i].file == 4 * i + 2 && s[i].rows == 2);
    r.num_parts = 1; /* consecutive heads */
    r.part[0] = (mega_param_part){.rows = 12, .block = 3, .stride = 3};
    assert_int_equal(mega_param_stretches(&r, (mega_param_cut){1, 2}, s), 1);
    assert_true(s[0].whole == 6 && s[0].file == 6 && s[0].rows == 6 && s[0].runs == 1);
}

static void names_of_files_are_found(void **state)
{
    (void)state;
    sketch k;
    int file = -1;
    begin(&k, 0, 1);
    const mega_param_options o = options_of(&families[0], false);
    mega_builder_param(&k.b, "w", 16, COLS, &o);
    mega_builder_param(&k.b, "u", 4, 0, NULL);
    need(mega_graph_status(k.b.graph));
    assert_int_equal(mega_params_num_files(k.params), 4);
    assert_int_equal(mega_params_find(k.params, "m.k"), -1);
    assert_int_equal(mega_params_find_file(k.params, "m.k", &file), 0);
    assert_int_equal(file, 1);
    assert_int_equal(mega_params_find_file(k.params, "m.w", &file), -1);
    assert_int_equal(mega_params_find_file(k.params, "m.u", &file), 1);
    assert_int_equal(file, 0);
    end(&k);
}

static mega_status share(const int64_t first[2], int64_t rows, int64_t of_rows)
{
    sketch k;
    begin(&k, 0, 1);
    for (int i = 0; i < 2; i++) {
        const mega_param_options o = {
            .num_parts = 1, .part = {{.file = "qk", .rows = i == 0 ? 8 : rows, .first = first[i], .of_rows = of_rows}}};
        mega_builder_param(&k.b, i == 0 ? "q" : "k", i == 0 ? 8 : rows, COLS, &o);
    }
    mega_status st = mega_graph_status(k.b.graph);
    if (st == MEGA_OK) st = mega_params_place(k.params, MEGA_F32, 0);
    int64_t shape[2] = {0, 0};
    int file;
    if (st == MEGA_OK) {
        assert_int_equal(mega_params_find_file(k.params, "m.qk", &file), 0);
        mega_param_file_shape(mega_params_get(k.params, 1), 0, shape);
        assert_true(shape[0] == of_rows && shape[1] == COLS);
    }
    end(&k);
    return st;
}

static void parameters_share_a_tensor(void **state)
{
    (void)state;
    const int64_t right[2] = {0, 8}, over[2] = {0, 4}, far[2] = {0, 10};
    need(share(right, 4, 12));
    assert_int_equal(share(right, 3, 12), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "tensor m.qk of the file has 12 rows, of which parameter m.q"));
    assert_int_equal(share(over, 4, 12), MEGA_ERR_USAGE);
    assert_int_equal(share(far, 4, 12), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "part 0 ends at row 14 of a tensor of 12 rows"));
}

/* Records of a stack of three, as mega_builder_params makes them. */
static mega_status stack(const int64_t places[3], int64_t of, const char *file)
{
    sketch k;
    mega_status st = MEGA_OK;
    begin(&k, 0, 1);
    for (int i = 0; i < 3 && st == MEGA_OK; i++) {
        mega_param r = {.num_dims = 2,
                        .shape = {8, COLS},
                        .true_shape = {8, COLS},
                        .stack_at = places[i],
                        .stack_of = of,
                        .num_parts = 1,
                        .part = {{.file = file, .rows = 8}}};
        snprintf(r.name, sizeof r.name, "m.%d", i);
        st = mega_params_add(k.params, &r, NULL);
    }
    if (st == MEGA_OK) st = mega_params_place(k.params, MEGA_F32, 0);
    end(&k);
    return st;
}

static void a_stack_has_each_place_once(void **state)
{
    (void)state;
    need(stack((int64_t[]){0, 1, 2}, 3, "m.all"));
    need(stack((int64_t[]){2, 1, 0}, 3, "m.all"));
    assert_int_equal(stack((int64_t[]){0, 1, 2}, 4, "m.all"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "tensor m.all of the file has 4 places, of which parameter m.0 and"));
    assert_int_equal(stack((int64_t[]){0, 1, 1}, 3, "m.all"), MEGA_ERR_USAGE);
    assert_int_equal(stack((int64_t[]){0, 1, 3}, 3, "m.all"), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "parameter m.2: place 3 of a stack of 3; expected 0 or more"));
    assert_int_equal(stack((int64_t[]){0, 1, 2}, 3, NULL), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "one of a stack in the file with no name of it"));
}

/* Many parameters with several tensors each: the hash table of names grows. */
static void many_names_are_found(void **state)
{
    (void)state;
    enum { MANY = 300 };
    sketch k;
    char name[32], text[3][32];
    int file;
    begin(&k, 0, 1);
    for (int i = 0; i < MANY; i++) {
        mega_param_options o = options_of(&families[0], false);
        for (int p = 0; p < 3; p++) {
            snprintf(text[p], sizeof text[p], "%d.%s", i, families[0].part[p].file);
            o.part[p].file = text[p];
        }
        snprintf(name, sizeof name, "%d.w", i);
        mega_builder_param(&k.b, name, 16, COLS, &o);
    }
    need(mega_graph_status(k.b.graph));
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "m.%d.w", i);
        assert_int_equal(mega_params_find(k.params, name), i);
        snprintf(name, sizeof name, "m.%d.v", i);
        assert_int_equal(mega_params_find_file(k.params, name, &file), i);
        assert_int_equal(file, 2);
    }
    end(&k);
}

static void expect_wrong(int ranks, int64_t rows, const mega_param_options *o, const char *message)
{
    sketch k;
    begin(&k, 0, ranks);
    mega_builder_param(&k.b, "taken", 2, 2, NULL);
    mega_builder_param(&k.b, "w", rows, COLS, o);
    if (mega_graph_status(k.b.graph) == MEGA_OK) fail_msg("no error, expected \"%s\"", message);
    if (strstr(mega_error_message(), message) == NULL)
        fail_msg("expected \"%s\" in: %s", message, mega_error_message());
    end(&k);
}

static void wrong_parts_are_named(void **state)
{
    (void)state;
    char name[120];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const struct {
        int64_t rows;
        mega_param_options o;
        const char *message;
    } wrong[] = {
        {16, {.num_parts = 5}, "parameter m.w: 5 parts; expected 1 to 4"},
        {16, {.num_parts = -1}, "-1 parts"},
        {16, {.blocks = 5}, "5 blocks; expected 1 or more, at most 4"},
        {16, {.blocks = 3}, "16 rows in 3 blocks; expected a multiple of 3"},
        {16, {.blocks = 2, .num_parts = 1, .part = {{.rows = 16}}}, "2 blocks and 1 parts; give one of the two"},
        {16,
         {.num_parts = 2, .part = {{.rows = 8}, {.rows = 4, .first = 8}}},
         "2 parts have 12 rows together, it has 16"},
        {16, {.num_parts = 2, .part = {{.rows = 16}, {.rows = 0}}}, "part 1: 0 rows"},
        {16, {.num_parts = 1, .part = {{.rows = 16, .first = -1}}}, "first -1"},
        {16, {.num_parts = 1, .part = {{.rows = 16, .block = 3, .stride = 4}}}, "block 3"},
        {16, {.num_parts = 1, .part = {{.rows = 16, .block = 4, .stride = 2}}}, "block 4, stride 2"},
        {16, {.num_parts = 1, .part = {{.rows = 16, .stride = 2}}}, "block 0, stride 2"},
        {16, {.num_parts = 1, .part = {{.rows = 16, .first = INT64_MAX}}}, "expected at most the 16 rows"},
        {16,
         {.num_parts = 2, .part = {{.rows = 8}, {.rows = 8, .first = 6}}},
         "parts 0 and 1 both hold row 6 of tensor m.w; give them other first"},
        {16,
         {.num_parts = 2, .part = {{.rows = 8}, {.rows = 8, .first = 9}}},
         "no part holds row 8 of the 16 of tensor m.w; give first"},
        {16,
         {.num_parts = 2,
          .part = {{.rows = 8, .block = 2, .stride = 4}, {.rows = 8, .first = 1, .block = 2, .stride = 4}}},
         "parts 0 and 1 both hold row 1 of tensor m.w"},
        {16, {.num_parts = 1, .part = {{.rows = 16, .first = 1}}}, "no part holds row 0"},
        {16,
         {.num_parts = 1, .part = {{.rows = 16, .file = "taken"}}},
         "the name m.taken is already used by parameter m.taken"},
        {16,
         {.num_parts = 1, .part = {{.rows = 16, .file = "a\nb"}}},
         "its tensor of the file is called \"m.a\\x0ab\""},
        {16,
         {.part = {{.file = "q", .rows = 16}}},
         "parameter m.w: parts are given, num_parts is 0; give their number"},
        {16,
         {.num_parts = 2, .part = {{.rows = 8, .file = "q"}, {.rows = 8, .file = ""}}},
         "parameter m.w: part 1: the name of its tensor is empty; give one, or NULL"},
        {16, {.num_parts = 1, .part = {{.rows = 16, .file = name}}}, "has 121 bytes; expected at most 95"},
        {16,
         {.num_parts = 2, .part = {{.rows = 8}, {.rows = 8, .first = 8}}, .padding_rows = 2},
         "padding of a parameter in 2 parts is not implemented yet"},
        {16,
         {.num_parts = 2, .part = {{.rows = 8}, {.rows = 8, .file = "b"}}, .file_dims = 1, .file_dim = {16 * COLS}},
         "1 file_dims of 2 tensors"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_wrong(1, wrong[i].rows, &wrong[i].o, wrong[i].message);
}

static void parts_that_ranks_do_not_divide(void **state)
{
    (void)state;
    mega_param_options o = {
        .shard_rows = true, .num_parts = 2, .part = {{.rows = 13, .file = "a"}, {.rows = 3, .file = "b"}}};
    expect_wrong(2, 16, &o,
                 "parameter m.w: part 0 of 2 has 13 rows, which cannot be cut over 2 ranks; expected a multiple of 2");
    o.part[1] = (mega_param_part){.rows = 6, .first = 2, .block = 6, .stride = 8};
    o.part[0] = (mega_param_part){.rows = 10, .first = 0, .block = 2, .stride = 2};
    expect_wrong(1, 16, &o, "both hold row 2");
    expect_wrong(2, 16, &o, "10 rows, which cannot be cut over 2 ranks; expected a multiple of 4");
    o.part[0] = (mega_param_part){.rows = 10, .block = 5, .stride = 8};
    o.part[1] = (mega_param_part){.rows = 6, .first = 5, .block = 3, .stride = 8};
    sketch k;
    begin(&k, 1, 2);
    mega_builder_param(&k.b, "w", 16, COLS, &o);
    need(mega_graph_status(k.b.graph));
    end(&k);
    expect_wrong(4, 16, &o, "part 0 of 2 has 10 rows, which cannot be cut over 4 ranks; expected a multiple of 20");
}

static void heads_stay_whole(void **state)
{
    (void)state;
    enum { D = 64 };
    const mega_param_options grouped = {.shard_rows = true,
                                        .num_parts = 3,
                                        .part = {{.file = "q", .rows = 8 * D, .block = D, .stride = D},
                                                 {.file = "k", .rows = 2 * D, .block = D, .stride = D},
                                                 {.file = "v", .rows = 2 * D, .block = D, .stride = D}}},
                             one = {.shard_rows = true, /* the single key head of Falcon */
                                    .num_parts = 3,
                                    .part = {{.rows = 4 * D, .first = 0, .block = 4 * D, .stride = 6 * D},
                                             {.rows = D, .first = 4 * D, .block = D, .stride = 6 * D},
                                             {.rows = D, .first = 5 * D, .block = D, .stride = 6 * D}}};
    expect_wrong(4, 12 * D, &grouped,
                 "part 1 of 3 has 128 rows, which cannot be cut over 4 ranks; expected a multiple of 256");
    expect_wrong(2, 6 * D, &one,
                 "part 0 of 3 has 256 rows, which cannot be cut over 2 ranks; expected a multiple of 512");
    for (int ranks = 1; ranks <= 2; ranks++) {
        sketch k;
        begin(&k, 0, ranks);
        mega_builder_param(&k.b, "grouped", 12 * D, COLS, &grouped);
        if (ranks == 1) mega_builder_param(&k.b, "one", 6 * D, COLS, &one);
        need(mega_graph_status(k.b.graph));
        end(&k);
    }
}

/* A second request may omit the options or repeat them. */
static void a_second_request_has_the_same_parts(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 0, 1);
    mega_param_options o = options_of(&families[0], false);
    const mega_tensor w = mega_builder_param(&k.b, "w", 16, COLS, &o);
    assert_int_equal(mega_builder_param(&k.b, "w", 16, COLS, &o).id, w.id);
    assert_int_equal(mega_builder_param(&k.b, "w", 16, COLS, NULL).id, w.id);
    need(mega_graph_status(k.b.graph));
    o.part[1].file = "other";
    mega_builder_param(&k.b, "w", 16, COLS, &o);
    assert_int_equal(mega_graph_status(k.b.graph), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "padding, parts"));
    end(&k);
    begin(&k, 0, 1); /* also if nothing is sharded; then the message does not blame sharding */
    o = options_of(&families[0], false);
    o.shard_rows = false;
    mega_builder_param(&k.b, "w", 16, COLS, &o);
    mega_builder_param(&k.b, "w", 16, COLS, &(mega_param_options){.init = o.init, .init_std = o.init_std});
    assert_int_equal(mega_graph_status(k.b.graph), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "padding, parts"));
    end(&k);
    begin(&k, 0, 1); /* a parameter must not have the name of a tensor of another */
    mega_builder_param(&k.b, "w", 16, COLS, &(mega_param_options){.num_parts = 1, .part = {{.file = "q", .rows = 16}}});
    mega_builder_param(&k.b, "q", 2, 2, NULL);
    assert_int_equal(mega_graph_status(k.b.graph), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "parameter m.q: the name m.q is already used by parameter m.w"));
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values_are_addressed_by_the_file),
        cmocka_unit_test(bounds_are_those_of_the_file),
        cmocka_unit_test(stretches_are_as_long_as_they_can_be),
        cmocka_unit_test(names_of_files_are_found),
        cmocka_unit_test(parameters_share_a_tensor),
        cmocka_unit_test(a_stack_has_each_place_once),
        cmocka_unit_test(many_names_are_found),
        cmocka_unit_test(wrong_parts_are_named),
        cmocka_unit_test(parts_that_ranks_do_not_divide),
        cmocka_unit_test(heads_stay_whole),
        cmocka_unit_test(a_second_request_has_the_same_parts),
    };
    return cmocka_run_group_tests_name("parts of parameters", tests, NULL, NULL);
}
