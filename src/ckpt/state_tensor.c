/* One tensor between memory and file: types, orientation, padding. Nothing here needs a second copy of a tensor. */
#include "ckpt_impl.h"

#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define BLOCK       64 /* rows and columns that are turned at a time; rows of the file made at a time */
#define TILE_BYTES  ((size_t)4 << 20)
#define SHARE_BYTES ((size_t)1 << 20) /* of the memory, that one thread fills at a time */

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

/* Past the caches: what is filled is larger than they are, and a line need not be read before it is overwritten. */
static void copy_past_caches(uint8_t *to, const uint8_t *from, size_t n)
{
#if defined(__x86_64__)
    const size_t head = (uintptr_t) - (uintptr_t)to % 64;
    if (n >= head + 64) {
        memcpy(to, from, head);
        size_t at = head;
        for (; at + 64 <= n; at += 64) {
            __m128i line[4];
            memcpy(line, from + at, sizeof line);
            for (int i = 0; i < 4; i++) _mm_stream_si128((__m128i *)(void *)(to + at) + i, line[i]);
        }
        to += at, from += at, n -= at;
    }
#endif
    memcpy(to, from, n);
}

/* Other threads see what was written past the caches. */
static void end_of_copies(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

typedef uint32_t quad __attribute__((vector_size(16)));

static quad load_quad(const uint8_t *from)
{
    quad q;
    memcpy(&q, from, sizeof q);
    return q;
}

/* Four by four elements of 32 bits; pitches in bytes. */
static void turn_quads(uint8_t *to, size_t to_pitch, const uint8_t *from, size_t from_pitch)
{
    const quad a = load_quad(from), b = load_quad(from + from_pitch), c = load_quad(from + 2 * from_pitch),
               d = load_quad(from + 3 * from_pitch);
    const quad ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5), ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7),
               bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5), bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    const quad turned[4] = {
        __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5), __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7),
        __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5), __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7)};
    for (size_t i = 0; i < 4; i++) memcpy(to + i * to_pitch, &turned[i], sizeof turned[i]);
}

/* Rows and columns of at most BLOCK elements, turned within caches: pitches of whole pages would put all lines that one
 * column visits into few sets of the first level. So each line is read once, whole, and written once, whole. */
#define BLOCK_PITCH (BLOCK + 4) /* elements; no power of two */

static void turn_rest(uint8_t *to, const uint8_t *from, size_t step, int64_t rows, int64_t cols, size_t size,
                      int64_t quad_rows, int64_t quad_cols)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = r < quad_rows ? quad_cols : 0; c < cols; c++) {
            uint8_t *t = to + (size_t)(c * BLOCK_PITCH + r) * size;
            const uint8_t *f = from + (size_t)r * step + (size_t)c * size;
            if (size == 4) memcpy(t, f, 4); /* sizes that the compiler knows */
            else if (size == 2)
                memcpy(t, f, 2);
            else
                memcpy(t, f, 8);
        }
    }
}

/* to[c * to_pitch + r] = from[r * from_pitch + c]; pitches in elements. */
static void turn(uint8_t *to, int64_t to_pitch, const uint8_t *from, int64_t from_pitch, int64_t rows, int64_t cols,
                 size_t size, bool past_caches)
{
    uint8_t block[BLOCK * BLOCK_PITCH * sizeof(double)];
    const size_t step = (size_t)from_pitch * size, block_step = BLOCK_PITCH * size;
    const int64_t quad_rows = size == 4 ? rows & ~(int64_t)3 : 0, quad_cols = size == 4 ? cols & ~(int64_t)3 : 0;
    for (int64_t r = 0; r < quad_rows; r += 4) {
        const uint8_t *at = from + (size_t)r * step;
        for (size_t ahead = 8; ahead < 12; ahead++) /* the lines of a row lie together, rows far apart */
            for (int64_t c = 0; r + 8 < quad_rows && c < cols; c += 16)
                __builtin_prefetch(at + ahead * step + (size_t)c * size);
        for (int64_t c = 0; c < quad_cols; c += 4)
            turn_quads(block + (size_t)c * block_step + (size_t)r * 4, block_step, at + (size_t)c * 4, step);
    }
    turn_rest(block, from, step, rows, cols, size, quad_rows, quad_cols);
    for (int64_t c = 0; c < cols; c++) {
        uint8_t *column = to + (size_t)(c * to_pitch) * size;
        if (past_caches) copy_past_caches(column, block + (size_t)c * block_step, (size_t)rows * size);
        else
            memcpy(column, block + (size_t)c * block_step, (size_t)rows * size);
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
    uint8_t *to = tile, block[BLOCK * BLOCK * sizeof(double)];
    if (!turned) {
        for (int64_t r = 0; r < n; r++)
            convert(to + (size_t)(r * f->cols) * size, file, element(t, acc, f, first + r, 0), acc, f->cols);
        return;
    }
    for (int64_t row = 0; row < f->rows; row += BLOCK) {
        const int64_t m = f->rows - row < BLOCK ? f->rows - row : BLOCK;
        if (acc == file) { /* nothing to convert on the way */
            turn(to + (size_t)row * size, f->rows, element(t, acc, f, row, first), f->pitch, m, n, size, false);
            continue;
        }
        for (int64_t r = 0; r < m; r++)
            convert(block + (size_t)(r * n) * size, file, element(t, acc, f, row + r, first), acc, n);
        turn(to + (size_t)row * size, f->rows, block, n, m, n, size, false);
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
    step = step < 1 ? 1 : step > BLOCK ? BLOCK : step;
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

void mega_state_tensor_shares(const mega_state_tensor *t, mega_dtype acc, int64_t *rows, int64_t *rows_of_share)
{
    const frame f = frame_of(t->param);
    const int64_t row_bytes = f.pitch * (int64_t)mega_dtype_size(acc);
    const int64_t blocks = row_bytes > 0 ? (int64_t)SHARE_BYTES / (row_bytes * BLOCK) : 0;
    *rows = f.pitch > 0 ? f.padded / f.pitch : 0;
    *rows_of_share = blocks < 1 ? BLOCK : blocks * BLOCK;
}

/* Rows of the memory out of columns of the file, in blocks that the first level of cache holds. */
static void read_turned(const mega_state_tensor *t, mega_dtype acc, const uint8_t *from, mega_dtype file,
                        const frame *f, int64_t begin, int64_t end)
{
    const size_t size = mega_dtype_size(file), acc_size = mega_dtype_size(acc);
    uint8_t *to = t->data, block[BLOCK * BLOCK * sizeof(double)];
    for (int64_t row = begin; row < end; row += BLOCK) {
        const int64_t m = end - row < BLOCK ? end - row : BLOCK;
        for (int64_t first = 0; first < f->cols; first += BLOCK) {
            const int64_t n = f->cols - first < BLOCK ? f->cols - first : BLOCK;
            const uint8_t *at = from + (size_t)(first * f->rows + row) * size;
            uint8_t *place = to + (size_t)(row * f->pitch + first) * acc_size;
            if (acc == file) {
                turn(place, f->pitch, at, f->rows, n, m, size, true);
                continue;
            }
            turn(block, n, at, f->rows, n, m, size, false);
            for (int64_t r = 0; r < m; r++)
                convert(place + (size_t)(r * f->pitch) * acc_size, acc, block + (size_t)(r * n) * size, file, n);
        }
    }
}

void mega_state_tensor_read(const mega_state_tensor *t, mega_dtype acc, const mega_safetensor *from, int64_t begin,
                            int64_t end)
{
    const frame f = frame_of(t->param);
    mega_dtype file = MEGA_F32;
    mega_st_dtype_to_mega(from->dtype, &file);
    const size_t size = mega_dtype_size(file), acc_size = mega_dtype_size(acc);
    uint8_t *to = t->data;
    if (f.rows * f.cols != f.padded)
        memset(to + (size_t)(begin * f.pitch) * acc_size, 0, (size_t)((end - begin) * f.pitch) * acc_size);
    if (end > f.rows) end = f.rows; /* the rest is padding */
    if (begin >= end) return;
    if (t->param->num_dims == 2 && t->param->transposed_in_file) {
        read_turned(t, acc, from->data, file, &f, begin, end);
    } else if (acc == file && f.pitch == f.cols) {
        const size_t at = (size_t)(begin * f.cols) * size;
        copy_past_caches(to + at, from->data + at, (size_t)((end - begin) * f.cols) * size);
    } else {
        for (int64_t r = begin; r < end; r++)
            convert(to + (size_t)(r * f.pitch) * acc_size, acc, from->data + (size_t)(r * f.cols) * size, file, f.cols);
    }
    end_of_copies();
}
