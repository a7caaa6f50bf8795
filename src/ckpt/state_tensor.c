/* One tensor between memory and file: types, orientation, padding. Nothing here needs a second copy of a tensor. */
#include "ckpt_impl.h"

#include <string.h>

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

/* n elements with strides (in elements). Equal types move as bytes, so every bit of a NaN survives. The files of other
 * writers may put tensors at any byte, hence memcpy. */
static void move(void *to, mega_dtype to_type, int64_t to_stride, const void *from, mega_dtype from_type,
                 int64_t from_stride, int64_t n)
{
    const size_t to_size = mega_dtype_size(to_type), from_size = mega_dtype_size(from_type);
    uint8_t *restrict t = to;
    const uint8_t *restrict f = from;
    if (to_type == from_type && to_stride == 1 && from_stride == 1) {
        memcpy(t, f, (size_t)n * to_size);
    } else if (to_type == MEGA_F32 && from_type == MEGA_F32) { /* the usual case, with a size known to the compiler */
        for (int64_t i = 0; i < n; i++) memcpy(t + 4 * i * to_stride, f + 4 * i * from_stride, 4);
    } else if (to_type == from_type) {
        for (int64_t i = 0; i < n; i++)
            memcpy(t + (int64_t)to_size * i * to_stride, f + (int64_t)to_size * i * from_stride, to_size);
    } else {
        for (int64_t i = 0; i < n; i++)
            store(t + (int64_t)to_size * i * to_stride, to_type,
                  load(f + (int64_t)from_size * i * from_stride, from_type));
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
    if (turned) {
        for (int64_t r = 0; r < f->rows; r++)
            move((uint8_t *)tile + (size_t)r * size, file, f->rows, element(t, acc, f, r, first), acc, 1, n);
    } else {
        for (int64_t r = 0; r < n; r++)
            move((uint8_t *)tile + (size_t)(r * f->cols) * size, file, 1, element(t, acc, f, first + r, 0), acc, 1,
                 f->cols);
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
            move(to + (size_t)(r * f.pitch) * acc_size, acc, 1, from->data + (size_t)(r * f.cols) * size, file, 1,
                 f.cols);
        return;
    }
    for (int64_t first = 0; first < f.cols; first += TILE_ROWS) { /* tile by tile, for the cache's sake */
        const int64_t n = f.cols - first < TILE_ROWS ? f.cols - first : TILE_ROWS;
        for (int64_t r = 0; r < f.rows; r++)
            move(to + (size_t)(r * f.pitch + first) * acc_size, acc, 1,
                 from->data + (size_t)(first * f.rows + r) * size, file, f.rows, n);
    }
}
