/* One tensor between memory and file: types, orientation, padding. Nothing here needs a second copy of a tensor. */
#include "ckpt_impl.h"

#include <string.h>

#define BLOCK_ROWS 16 /* rows of the memory turned at a time */
#define TILE_ROWS  64 /* rows of the file made at a time from a transposed tensor */
#define TILE_BYTES ((size_t)4 << 20)

/* A tensor as rows of the memory; one-dimensional ones are a single row. */
typedef struct frame {
    int64_t rows, cols; /* without padding */
    int64_t pitch;      /* elements from row to row in memory */
    int64_t padded;     /* elements in memory, padding included */
} frame;

static frame frame_of(const mega_param *p)
{
    if (p->num_dims == 1) return (frame){1, p->true_shape[0], p->shape[0], p->shape[0]};
    return (frame){p->true_shape[0], p->true_shape[1], p->shape[1], p->shape[0] * p->shape[1]};
}

mega_status mega_state_tensor_check(const mega_state_tensor *t)
{
    const mega_param *p = t->param;
    for (int d = 0; d < p->num_dims; d++) {
        if (p->local_shape[d] != 0 && p->local_shape[d] != p->shape[d])
            return MEGA_FAIL(
                MEGA_ERR_UNSUPPORTED,
                "tensor %s: this rank holds a slice of %lld of %lld; checkpoints of several ranks are not built "
                "yet; run on one rank",
                t->name, (long long)p->local_shape[d], (long long)p->shape[d]);
    }
    return MEGA_OK;
}

void mega_state_tensor_entry(const mega_state_tensor *t, mega_dtype file, mega_st_entry *out)
{
    const mega_param *p = t->param;
    const bool turned = p->num_dims == 2 && p->transposed_in_file;
    *out = (mega_st_entry){.name = t->name, .dtype = mega_st_dtype_from_mega(file), .num_dims = p->num_dims};
    for (int d = 0; d < p->num_dims; d++) out->shape[d] = (uint64_t)p->true_shape[turned ? 1 - d : d];
}

static bool is_float(mega_st_dtype t)
{
    return t == MEGA_ST_F64 || t == MEGA_ST_F32 || t == MEGA_ST_BF16 || t == MEGA_ST_F16;
}

bool mega_state_tensor_fits(const mega_state_tensor *t, const mega_safetensor *from)
{
    mega_st_entry e;
    mega_state_tensor_entry(t, MEGA_F32, &e);
    if (!is_float(from->dtype) || from->num_dims != e.num_dims) return false;
    for (int d = 0; d < e.num_dims; d++) {
        if (from->shape[d] != e.shape[d]) return false;
    }
    return true;
}

void mega_state_tensor_describe(mega_buffer *out, const mega_st_entry *e)
{
    mega_buffer_puts(out, "[");
    for (int d = 0; d < e->num_dims; d++)
        mega_buffer_printf(out, "%s%llu", d > 0 ? ", " : "", (unsigned long long)e->shape[d]);
    mega_buffer_puts(out, "]");
}

static double load(const uint8_t *from, mega_dtype type)
{
    double d;
    float f;
    uint16_t h;
    switch (type) {
    case MEGA_F64: memcpy(&d, from, sizeof d); return d;
    case MEGA_F32: memcpy(&f, from, sizeof f); return (double)f;
    case MEGA_BF16: memcpy(&h, from, sizeof h); return (double)mega_bf16_to_f32(h);
    default: memcpy(&h, from, sizeof h); return (double)mega_f16_to_f32(h);
    }
}

static void store(uint8_t *to, mega_dtype type, double x)
{
    const float f = (float)x;
    uint16_t h;
    switch (type) {
    case MEGA_F64: memcpy(to, &x, sizeof x); return;
    case MEGA_F32: memcpy(to, &f, sizeof f); return;
    case MEGA_BF16: h = mega_f32_to_bf16(f); break;
    default: h = mega_f32_to_f16(f); break;
    }
    memcpy(to, &h, sizeof h);
}

/* n elements. Equal types move as bytes, so every bit of a NaN survives. The files of other writers may put tensors at
 * any byte, hence load and store by memcpy. */
static void convert(void *to, mega_dtype to_type, const void *from, mega_dtype from_type, int64_t n)
{
    const size_t to_size = mega_dtype_size(to_type), from_size = mega_dtype_size(from_type);
    if (to_type == from_type) {
        memcpy(to, from, (size_t)n * to_size);
        return;
    }
    uint8_t *restrict t = to;
    const uint8_t *restrict f = from;
    for (size_t i = 0; i < (size_t)n; i++) store(t + i * to_size, to_type, load(f + i * from_size, from_type));
}

/* to[c * to_pitch + r] = from[r * from_pitch + c]; pitches in elements. The inner loop writes one after the other: with
 * strides of whole pages a cache would hold only few of the lines that the other way round visits. */
static void turn(void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t rows, int64_t cols,
                 size_t size)
{
    uint8_t *restrict t = to;
    const uint8_t *restrict f = from;
    for (int64_t c = 0; c < cols; c++) {
        uint8_t *column = t + (size_t)(c * to_pitch) * size;
        const uint8_t *at = f + (size_t)c * size;
        const size_t step = (size_t)from_pitch * size;
        if (size == 4) { /* a size that the compiler knows */
            for (int64_t r = 0; r < rows; r++, at += step) memcpy(column + 4 * r, at, 4);
        } else if (size == 2) {
            for (int64_t r = 0; r < rows; r++, at += step) memcpy(column + 2 * r, at, 2);
        } else {
            for (int64_t r = 0; r < rows; r++, at += step) memcpy(column + 8 * r, at, 8);
        }
    }
}

static const uint8_t *element(const mega_state_tensor *t, mega_dtype acc, const frame *f, int64_t row, int64_t col)
{
    return (const uint8_t *)t->data + (size_t)(row * f->pitch + col) * mega_dtype_size(acc);
}

/* Rows [first, first + n) of the file into the tile. */
static void fill_tile(void *tile, const mega_state_tensor *t, mega_dtype acc, mega_dtype file, const frame *f,
                      bool turned, int64_t first, int64_t n)
{
    const size_t size = mega_dtype_size(file);
    uint8_t *to = tile, block[BLOCK_ROWS * TILE_ROWS * sizeof(double)];
    if (!turned) {
        for (int64_t r = 0; r < n; r++)
            convert(to + (size_t)(r * f->cols) * size, file, element(t, acc, f, first + r, 0), acc, f->cols);
        return;
    }
    for (int64_t row = 0; row < f->rows; row += BLOCK_ROWS) {
        const int64_t m = f->rows - row < BLOCK_ROWS ? f->rows - row : BLOCK_ROWS;
        for (int64_t r = 0; r < m; r++)
            convert(block + (size_t)(r * n) * size, file, element(t, acc, f, row + r, first), acc, n);
        turn(to + (size_t)row * size, f->rows, block, n, m, n, size);
    }
}

mega_status mega_state_tensor_write(const mega_state_tensor *t, mega_dtype acc, mega_dtype file, mega_st_writer *w)
{
    const frame f = frame_of(t->param);
    const bool turned = t->param->num_dims == 2 && t->param->transposed_in_file;
    const size_t size = mega_dtype_size(file);
    if (!turned && acc == file && f.pitch == f.cols) /* memory is the file */
        return mega_st_writer_write(w, t->data, (size_t)(f.rows * f.cols) * size);
    const int64_t file_rows = turned ? f.cols : f.rows, file_cols = turned ? f.rows : f.cols;
    if (file_rows == 0 || file_cols == 0) return MEGA_OK;
    int64_t step = (int64_t)(TILE_BYTES / ((size_t)file_cols * size));
    step = step < 1 ? 1 : step > TILE_ROWS ? TILE_ROWS : step;
    void *tile = mega_malloc((size_t)(step * file_cols) * size);
    if (tile == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tensor %s: no memory to write it", t->name);
    mega_status st = MEGA_OK;
    for (int64_t first = 0; first < file_rows && st == MEGA_OK; first += step) {
        const int64_t n = file_rows - first < step ? file_rows - first : step;
        fill_tile(tile, t, acc, file, &f, turned, first, n);
        st = mega_st_writer_write(w, tile, (size_t)(n * file_cols) * size);
    }
    mega_free(tile);
    return st;
}

void mega_state_tensor_read(const mega_state_tensor *t, mega_dtype acc, const mega_safetensor *from)
{
    const frame f = frame_of(t->param);
    const bool turned = t->param->num_dims == 2 && t->param->transposed_in_file;
    mega_dtype file = MEGA_F32;
    mega_st_dtype_to_mega(from->dtype, &file);
    const size_t size = mega_dtype_size(file), acc_size = mega_dtype_size(acc);
    uint8_t *to = t->data;
    if (f.rows * f.cols != f.padded) memset(to, 0, (size_t)f.padded * acc_size);
    if (!turned) {
        for (int64_t r = 0; r < f.rows; r++)
            convert(to + (size_t)(r * f.pitch) * acc_size, acc, from->data + (size_t)(r * f.cols) * size, file, f.cols);
        return;
    }
    uint8_t block[BLOCK_ROWS * TILE_ROWS * sizeof(double)];
    for (int64_t row = 0; row < f.rows; row += BLOCK_ROWS) {
        const int64_t m = f.rows - row < BLOCK_ROWS ? f.rows - row : BLOCK_ROWS;
        for (int64_t first = 0; first < f.cols; first += TILE_ROWS) {
            const int64_t n = f.cols - first < TILE_ROWS ? f.cols - first : TILE_ROWS;
            turn(block, n, from->data + (size_t)(first * f.rows + row) * size, f.rows, n, m, size);
            for (int64_t r = 0; r < m; r++)
                convert(to + (size_t)((row + r) * f.pitch + first) * acc_size, acc, block + (size_t)(r * n) * size,
                        file, n);
        }
    }
}
