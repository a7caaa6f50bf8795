/* What several ranks hold of a tensor: read from the file of the whole, and written so that the file is that of one
 * rank, byte for byte. */
#include "ckpt_impl.h"
#include "tiny.h"

#include <stdlib.h>

typedef struct cutting {
    int64_t rows, cols, real_rows; /* cols 0: one dimension */
    bool turned;
    int dim, blocks, ranks, owners; /* owners share out what one rank of the axis holds */
} cutting;

static const cutting cuttings[] = {
    {264, 4, 257, false, 0, 1, 2, 1},  {264, 4, 257, false, 0, 1, 8, 3},  {12, 5, 12, true, 0, 3, 2, 1},
    {12, 5, 12, true, 0, 3, 4, 1},     {12, 5, 12, true, 0, 3, 2, 4},     {7, 6, 7, true, 1, 1, 3, 1},
    {7, 6, 7, true, 1, 1, 2, 5},       {12, 0, 12, false, 0, 3, 2, 1},    {12, 0, 12, false, 0, 3, 4, 3},
    {9, 0, 9, false, 0, 1, 1, 4},      {133, 197, 131, true, 0, 7, 1, 2}, {384, 130, 384, true, 0, 3, 2, 3},
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
    return (mega_param){.name = "a",
                        .num_dims = c->cols > 0 ? 2 : 1,
                        .shape = {c->rows, c->cols > 0 ? c->cols : 1},
                        .true_shape = {c->real_rows, c->cols > 0 ? c->cols : 1},
                        .transposed_in_file = c->turned,
                        .axis = MEGA_AXIS_TP,
                        .cut_dim = c->dim,
                        .blocks = c->blocks};
}

static void read_all(const mega_state_tensor *t, const mega_safetensor *from)
{
    const int64_t shares = mega_state_tensor_shares(t, MEGA_F32);
    for (int64_t i = 0; i < shares; i++) mega_state_tensor_read(t, MEGA_F32, from, i);
}

/* Element `local` of a rank's slice, looked up in the whole. */
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
    float *data = mega_malloc(4 * (size_t)(count + 1));
    memset(data, 0x7b, 4 * (size_t)(count + 1));
    const mega_state_tensor t = {.name = "a",
                                 .param = p,
                                 .data = data,
                                 .is_part = true,
                                 .cut = {rank, c->ranks, c->blocks},
                                 .first = first,
                                 .count = count};
    size_t begin, end;
    read_all(&t, from);
    for (int64_t i = 0; i < count; i++) assert_true(data[i] == expected(c, whole, rank, first + i));
    int kept;
    memset(&kept, 0x7b, sizeof kept);
    assert_memory_equal(&data[count], &kept, sizeof kept);
    mega_state_tensor_span(&t, mega_dtype_size(file), &begin, &end);
    assert_true(begin <= end && end <= from->end - from->begin);
    tiny_ok(mega_state_tensor_write(&t, MEGA_F32, file, put, out));
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_make_the_whole)};
    return cmocka_run_group_tests_name("parts of tensors", tests, NULL, NULL);
}
