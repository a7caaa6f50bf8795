/* The parts of a tensor that several ranks hold: read from the file of the whole tensor, and written so that the file
 * equals that of one rank, byte for byte. */
#include "ckpt_impl.h"
#include "megalith/device_memory.h"
#include "state_impl.h"
#include "tiny.h"

#include <stdlib.h>

typedef struct cutting {
    int64_t rows, cols, real_rows; /* cols 0: one dimension */
    bool turned;
    int dim, blocks, ranks, owners; /* `owners` divide what one rank of the axis holds */
} cutting;

static const cutting cuttings[] = {
    {264, 4, 257, false, 0, 1, 2, 1},  {264, 4, 257, false, 0, 1, 8, 3},  {12, 5, 12, true, 0, 3, 2, 1},
    {12, 5, 12, true, 0, 3, 4, 1},     {12, 5, 12, true, 0, 3, 2, 4},     {7, 6, 7, true, 1, 1, 3, 1},
    {7, 6, 7, true, 1, 1, 2, 5},       {12, 0, 12, false, 0, 3, 2, 1},    {12, 0, 12, false, 0, 3, 4, 3},
    {9, 0, 9, false, 0, 1, 1, 4},      {133, 197, 131, true, 0, 1, 1, 2}, {384, 130, 384, true, 0, 3, 2, 3},
    {130, 256, 130, true, 1, 1, 2, 7}, {5, 6, 5, false, 1, 2, 3, 2},      {3, 4, 3, false, 0, 1, 1, 24},
};

typedef struct sheet {
    uint8_t *bytes;
    int *seen; /* how often each byte was written */
} sheet;

static mega_status put(void *user, const mega_state_runs *runs, const void *bytes)
{
    const sheet *s = user;
    for (int64_t r = 0; r < runs->rows; r++) {
        for (int64_t i = 0; i < runs->run; i++) {
            s->bytes[runs->offset + r * runs->pitch + i] = ((const uint8_t *)bytes)[r * runs->run + i];
            s->seen[runs->offset + r * runs->pitch + i]++;
        }
    }
    return MEGA_OK;
}

static mega_param record(const cutting *c)
{
    mega_param p = {.name = "a",
                    .num_dims = c->cols > 0 ? 2 : 1,
                    .shape = {c->rows, c->cols > 0 ? c->cols : 1},
                    .true_shape = {c->real_rows, c->cols > 0 ? c->cols : 1},
                    .transposed_in_file = c->turned,
                    .axis = MEGA_AXIS_TP,
                    .cut_dim = c->dim};
    mega_param_set_blocks(&p, c->blocks);
    return p;
}

static void read_all(const mega_state_tensor *t, const mega_safetensor *from)
{
    const int64_t shares = mega_state_tensor_shares(t, MEGA_F32);
    const size_t bytes = mega_state_tensor_window(t, MEGA_F32);
    void *window = bytes > 0 ? mega_malloc(bytes) : NULL;
    for (int64_t i = 0; i < shares; i++) mega_state_tensor_read(t, MEGA_F32, from, i, window);
    mega_free(window);
}

/* Returns element `local` of a rank's slice, found in the whole tensor. */
static float expected(const cutting *c, const float *whole, int rank, int64_t local)
{
    const int64_t cols = c->cols > 0 ? c->cols : 1, width = c->dim == 1 ? cols / c->ranks : cols;
    int64_t at[2] = {local / width, local % width};
    const int64_t block = (c->dim == 0 ? c->rows : cols) / c->blocks, slice = block / c->ranks;
    at[c->dim] = at[c->dim] / slice * block + rank * slice + at[c->dim] % slice;
    return at[0] < c->real_rows ? whole[at[0] * cols + at[1]] : 0.0f;
}

static void check_part(const cutting *c, const mega_param *p, int rank, int owner, const float *whole,
                       const mega_safetensor *from, mega_dtype file, sheet *out)
{
    const int64_t local = c->rows * (c->cols > 0 ? c->cols : 1) / c->ranks;
    const int64_t share = (local + c->owners - 1) / c->owners, first = owner * share < local ? owner * share : local;
    const int64_t count = first + share < local ? share : local - first;
    const size_t bytes = 4 * (size_t)(count + 1);
    float *data = mega_malloc(bytes);
    void *held = NULL;
    tiny_ok(mega_device_alloc(NULL, &held, bytes, "a part"));
    mega_device_fill(held, 0x7b, bytes);
    const mega_state_tensor t = {.name = "a",
                                 .param = p,
                                 .data = held,
                                 .is_part = true,
                                 .cut = {rank, c->ranks},
                                 .first = first,
                                 .count = count};
    size_t begin, end;
    read_all(&t, from);
    mega_device_read(data, held, bytes);
    for (int64_t i = 0; i < count; i++) assert_true(data[i] == expected(c, whole, rank, first + i));
    int kept;
    memset(&kept, 0x7b, sizeof kept);
    assert_memory_equal(&data[count], &kept, sizeof kept);
    mega_state_tensor_span(&t, mega_dtype_size(file), &begin, &end);
    assert_true(begin <= end && end <= from->end - from->begin);
    tiny_ok(mega_state_tensor_write(&t, MEGA_F32, file, put, out));
    mega_device_free(held, bytes);
    mega_free(data);
}

static void check_cutting(const cutting *c, mega_dtype file)
{
    const int64_t cols = c->cols > 0 ? c->cols : 1;
    const size_t all = (size_t)(c->rows * cols), real = (size_t)(c->real_rows * cols) * mega_dtype_size(file);
    const mega_param p = record(c);
    float *whole = mega_malloc(4 * all);
    mega_kit_normal(whole, (int64_t)all, 9);
    for (size_t i = 0; i < all; i++) whole[i] = mega_bf16_to_f32(mega_f32_to_bf16(whole[i]));
    const mega_state_tensor t = {.name = "a", .param = &p, .data = whole};
    sheet one = {mega_calloc(real, 1), mega_calloc(real, sizeof(int))},
          many = {mega_calloc(real, 1), mega_calloc(real, sizeof(int))};
    tiny_ok(mega_state_tensor_write(&t, MEGA_F32, file, put, &one));
    const mega_safetensor from = {
        .name = "a", .dtype = mega_st_dtype_from_mega(file), .begin = 0, .end = real, .data = one.bytes};
    for (int rank = 0; rank < c->ranks; rank++)
        for (int owner = 0; owner < c->owners; owner++) check_part(c, &p, rank, owner, whole, &from, file, &many);
    assert_memory_equal(one.bytes, many.bytes, real);
    for (size_t i = 0; i < real; i++) assert_true(one.seen[i] == 1 && many.seen[i] == 1);
    mega_free(one.bytes);
    mega_free(one.seen);
    mega_free(many.bytes);
    mega_free(many.seen);
    mega_free(whole);
}

static void parts_make_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cuttings / sizeof *cuttings; i++) {
        check_cutting(&cuttings[i], MEGA_F32);
        check_cutting(&cuttings[i], MEGA_BF16);
        check_cutting(&cuttings[i], MEGA_F64);
    }
}

/* Each place of a stack has the bytes that the parameter has in a tensor of its own, and is read from there. */
static void check_place(const cutting *c, int64_t place, int64_t places)
{
    const size_t count = (size_t)(c->rows * (c->cols > 0 ? c->cols : 1)), bytes = count * sizeof(float);
    mega_param alone = record(c), p = alone;
    p.stack_at = place, p.stack_of = places;
    p.part[0].file = alone.part[0].file = "stack";
    float *numbers = mega_malloc(bytes), *again = mega_calloc(count, sizeof *again);
    mega_kit_normal(numbers, (int64_t)count, 5 + (uint32_t)place);
    const mega_state_tensor own = {.name = "a", .param = &alone, .data = numbers},
                            t = {.name = "a", .param = &p, .data = numbers},
                            back = {.name = "a", .param = &p, .data = again};
    sheet one = {mega_calloc(bytes, 1), mega_calloc(bytes, sizeof(int))},
          all = {mega_calloc((size_t)places * bytes, 1), mega_calloc((size_t)places * bytes, sizeof(int))};
    tiny_ok(mega_state_tensor_write(&own, MEGA_F32, MEGA_F32, put, &one));
    tiny_ok(mega_state_tensor_write(&t, MEGA_F32, MEGA_F32, put, &all));
    assert_memory_equal(all.bytes + (size_t)place * bytes, one.bytes, bytes);
    for (size_t i = 0; i < (size_t)places * bytes; i++) assert_int_equal(all.seen[i], i / bytes == (size_t)place);
    size_t begin, end;
    mega_state_tensor_span(&t, sizeof(float), &begin, &end);
    assert_true(begin == (size_t)place * bytes && end == begin + bytes);
    mega_st_entry e;
    mega_state_tensor_entry(&t, MEGA_F32, &e);
    assert_true(e.num_dims == p.num_dims + 1 && e.shape[0] == (uint64_t)places);
    assert_int_equal(e.shape[1], c->turned ? c->cols : c->rows);
    assert_true(mega_state_is_shared(&t, &back) && !mega_state_is_in_order(&t) && !mega_state_is_shared(&own, &own));
    const mega_safetensor from = {
        .name = "a", .dtype = MEGA_ST_F32, .begin = 0, .end = (size_t)places * bytes, .data = all.bytes};
    read_all(&back, &from);
    assert_memory_equal(again, numbers, bytes);
    MEGA_FREE(numbers, again);
    MEGA_FREE(one.bytes, one.seen);
    MEGA_FREE(all.bytes, all.seen);
}

static void a_stack_has_its_places_one_after_the_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cuttings / sizeof *cuttings; i++)
        for (int64_t place = 0; place < 3 && cuttings[i].rows == cuttings[i].real_rows; place++)
            check_place(&cuttings[i], place, 3);
}

/* ---- parameters whose rows have another order in the file, in one tensor or several ---- */

typedef struct family {
    int64_t rows, cols; /* cols 0: one dimension */
    bool turned, by_columns;
    int num_parts;
    mega_param_part part[MEGA_PARAM_PARTS];
    int file_of[MEGA_PARAM_PARTS], num_files;
} family;

static const family families[] = {
    {16, 5, false, false, 3, {{"q", 8, 0, 0, 0, 0}, {"k", 4, 0, 0, 0, 0}, {"v", 4, 0, 0, 0, 0}}, {0, 1, 2}, 3},
    {16, 70, true, false, 3, {{"q", 8, 0, 0, 0, 0}, {"k", 4, 0, 0, 0, 0}, {"v", 4, 0, 0, 0, 0}}, {0, 1, 2}, 3},
    {24, 5, false, false, 3, {{NULL, 8, 0, 2, 6, 0}, {NULL, 8, 2, 2, 6, 0}, {NULL, 8, 4, 2, 6, 0}}, {0, 0, 0}, 1},
    {24, 70, true, false, 3, {{NULL, 8, 0, 2, 6, 0}, {NULL, 8, 2, 2, 6, 0}, {NULL, 8, 4, 2, 6, 0}}, {0, 0, 0}, 1},
    {24, 0, false, false, 3, {{NULL, 8, 0, 2, 6, 0}, {NULL, 8, 2, 2, 6, 0}, {NULL, 8, 4, 2, 6, 0}}, {0, 0, 0}, 1},
    {16, 5, false, false, 3, {{NULL, 8, 0, 0, 0, 0}, {NULL, 4, 12, 0, 0, 0}, {NULL, 4, 8, 0, 0, 0}}, {0, 0, 0}, 1},
    {20, 6, false, false, 3, {{"a", 8, 0, 4, 6, 0}, {"b", 8, 0, 0, 0, 0}, {"a", 4, 4, 2, 6, 0}}, {0, 1, 0}, 2},
    {24, 5, false, true, 3, {{NULL, 8, 0, 2, 6, 0}, {NULL, 8, 2, 2, 6, 0}, {NULL, 8, 4, 2, 6, 0}}, {0, 0, 0}, 1},
    {16, 5, true, true, 3, {{"q", 8, 0, 0, 0, 0}, {"k", 4, 0, 0, 0, 0}, {"v", 4, 0, 0, 0, 0}}, {0, 1, 2}, 3},
    {24, 5, false, false, 2, {{"q", 16, 0, 4, 4, 0}, {"k", 8, 0, 4, 4, 0}}, {0, 1}, 2},
    {2200, 1, false, true, 2, {{NULL, 1100, 0, 1, 2, 0}, {NULL, 1100, 1, 1, 2, 0}}, {0, 0}, 1}, /* very many runs */
};

enum { MOST_CELLS = 2200 };

/* The number at (row, col) of a tensor of the file, in the orientation of the memory. */
static float number_at(int file, int64_t row, int64_t col)
{
    return (float)(10000 * (file + 1) + 100 * row + col);
}

/* The number of element `local` of a rank's slice, found by counting. */
static float family_number(const family *f, int rank, int ranks, int64_t local)
{
    const int64_t cols = f->cols > 0 ? f->cols : 1, width = f->by_columns ? f->rows / ranks : cols;
    const int64_t along = f->by_columns ? local % width : local / width,
                  across = f->by_columns ? local / width : local % width;
    int64_t at = along;
    int i = 0;
    while (at >= f->part[i].rows / ranks) at -= f->part[i++].rows / ranks;
    const mega_param_part *p = &f->part[i];
    at += rank * (p->rows / ranks);
    at = p->block > 0 ? p->first + at / p->block * p->stride + at % p->block : p->first + at;
    return f->by_columns ? number_at(f->file_of[i], across, at) : number_at(f->file_of[i], at, across);
}

static mega_param family_record(const family *f)
{
    mega_param p = {.name = "a",
                    .num_dims = f->cols > 0 ? 2 : 1,
                    .shape = {f->rows, f->cols > 0 ? f->cols : 1},
                    .transposed_in_file = f->turned,
                    .axis = MEGA_AXIS_TP,
                    .num_parts = f->num_parts,
                    .num_files = f->num_files};
    if (f->by_columns) {
        p.shape[0] = f->cols;
        p.shape[1] = f->rows;
        p.cut_dim = 1;
    }
    memcpy(p.true_shape, p.shape, sizeof p.shape);
    memcpy(p.part, f->part, sizeof p.part);
    memcpy(p.file_of, f->file_of, sizeof p.file_of);
    return p;
}

/* Reads and writes the part that one owner of a rank's slice holds. */
static void check_family_part(const family *f, int file, const mega_state_tensor *t, int rank, int ranks,
                              const sheet *one, sheet *out)
{
    float back[MOST_CELLS] = {0};
    mega_state_tensor read = *t;
    const mega_safetensor from = {.name = "a", .dtype = MEGA_ST_F32, .end = sizeof back, .data = one->bytes};
    tiny_ok(mega_state_tensor_write(t, MEGA_F32, MEGA_F32, put, out));
    read.data = back;
    read_all(&read, &from);
    for (int64_t i = 0; i < t->count; i++) {
        const float expected = family_number(f, rank, ranks, t->first + i);
        const bool is_here = (int)(expected / 10000) == file + 1;
        if (back[i] != (is_here ? expected : 0.0f))
            fail_msg("tensor %d, rank %d of %d, element %d of %d from %d: %g, expected %g", file, rank, ranks, (int)i,
                     (int)t->count, (int)t->first, (double)back[i], is_here ? (double)expected : 0.0);
    }
}

static void check_family(const family *f, int ranks, int owners)
{
    const mega_param p = family_record(f);
    const int64_t local = f->rows * (f->cols > 0 ? f->cols : 1) / ranks, share = (local + owners - 1) / owners;
    for (int file = 0; file < f->num_files; file++) {
        static uint8_t expected[4 * MOST_CELLS], bytes[4 * MOST_CELLS];
        static int seen[4 * MOST_CELLS];
        const sheet one = {expected, NULL};
        sheet many = {bytes, seen};
        int64_t shape[2];
        mega_param_file_shape(&p, file, shape);
        memset(bytes, 0, sizeof bytes);
        memset(seen, 0, sizeof seen);
        for (int64_t r = 0; r < shape[0]; r++)
            for (int64_t c = 0; c < shape[1]; c++) {
                const float x = number_at(file, r, c);
                memcpy(expected + 4 * (f->turned ? c * shape[0] + r : r * shape[1] + c), &x, sizeof x);
            }
        for (int rank = 0; rank < ranks; rank++)
            for (int owner = 0; owner < owners; owner++) {
                float cell[MOST_CELLS];
                mega_state_tensor t = {.name = "a", .param = &p, .file = file, .data = cell, .is_part = true};
                t.cut = ranks > 1 ? (mega_param_cut){rank, ranks} : (mega_param_cut){0};
                t.first = owner * share < local ? owner * share : local;
                t.count = t.first + share < local ? share : local - t.first;
                for (int64_t i = 0; i < t.count; i++) cell[i] = family_number(f, rank, ranks, t.first + i);
                check_family_part(f, file, &t, rank, ranks, &one, &many);
            }
        assert_memory_equal(bytes, expected, 4 * (size_t)(shape[0] * shape[1]));
        for (int64_t i = 0; i < 4 * shape[0] * shape[1]; i++) assert_int_equal(seen[i], 1);
    }
}

static void parts_lie_where_they_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int ranks = 1; ranks <= 2; ranks++)
            for (int owners = 1; owners <= 3; owners++) check_family(&families[i], ranks, owners);
}

/* Tests which tensors one process can write from the first byte to the last, and which it has to write at offsets. */
static void order_is_seen(void **state)
{
    (void)state;
    const bool expected[] = {true, true, false, false, false, false, false, false, true, true, false};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const mega_param p = family_record(&families[i]);
        assert_int_equal(mega_state_is_in_order(&(mega_state_tensor){.name = "a", .param = &p}), expected[i]);
    }
    mega_param blocks = {.num_dims = 2, .shape = {12, 2}, .true_shape = {12, 2}};
    mega_param_set_blocks(&blocks, 3);
    assert_true(mega_state_is_in_order(&(mega_state_tensor){.name = "a", .param = &blocks}));
}

/* What graphs read in acc is whole in a file of 16 bits. */
static void what_is_read_in_acc_is_not_rounded(void **state)
{
    (void)state;
    const mega_param p = {.num_dims = 1, .shape = {3, 1}, .true_shape = {3, 1}, .is_buffer = true, .in_acc = true};
    const float numbers[] = {0.1f, -0.3f, 1.0001f};
    const double exact[] = {0.1, -0.3, 1.0001};
    const mega_state_tensor t = {.name = "a", .param = &p, .data = (void *)numbers},
                            wide = {.name = "a", .param = &p, .data = (void *)exact};
    uint8_t bytes[24];
    int seen[24];
    mega_st_entry e;
    for (int i = 0; i < 2; i++) {
        const mega_dtype type = i == 0 ? MEGA_BF16 : MEGA_F16;
        sheet s = {memset(bytes, 0, sizeof bytes), memset(seen, 0, sizeof seen)};
        mega_state_tensor_entry(&t, type, &e);
        assert_int_equal(e.dtype, MEGA_ST_F32);
        tiny_ok(mega_state_tensor_write(&t, MEGA_F32, type, put, &s));
        assert_memory_equal(bytes, numbers, sizeof numbers);
        memset(bytes, 0, sizeof bytes);
        tiny_ok(mega_state_tensor_write(&wide, MEGA_F64, type, put, &s));
        assert_memory_equal(bytes, numbers, sizeof numbers);
    }
    mega_state_tensor_entry(&t, MEGA_F64, &e);
    assert_int_equal(e.dtype, MEGA_ST_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_make_the_whole), cmocka_unit_test(a_stack_has_its_places_one_after_the_other),
        cmocka_unit_test(parts_lie_where_they_say), cmocka_unit_test(what_is_read_in_acc_is_not_rounded),
        cmocka_unit_test(order_is_seen)};
    return cmocka_run_group_tests_name("parts of tensors", tests, NULL, NULL);
}
