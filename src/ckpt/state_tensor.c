/* Moves one tensor between memory and file, without a second copy of the tensor. */
#include "megalith/device_memory.h"
#include "state_impl.h"

#include <string.h>

#define TILE_BYTES  ((size_t)4 << 20)
#define SHARE_BYTES ((size_t)1 << 20) /* bytes of memory that one thread fills at a time */

mega_status mega_state_tensor_check(const mega_state_tensor *t)
{
    const mega_param *p = t->param;
    for (int d = 0; d < p->num_dims && !t->is_part; d++) {
        if (p->local_shape[d] != 0 && p->local_shape[d] != p->shape[d])
            return MEGA_FAIL(
                MEGA_ERR_USAGE,
                "tensor %s: this rank holds %lld of %lld entries of dimension %d, but it was passed as a whole "
                "tensor; expected is_part with the position of the slice",
                t->name, (long long)p->local_shape[d], (long long)p->shape[d], d);
    }
    return MEGA_OK;
}

void mega_state_tensor_entry(const mega_state_tensor *t, mega_dtype file, mega_st_entry *out)
{
    const mega_param *p = t->param;
    const bool turned = mega_state_turned(p);
    int64_t shape[2];
    mega_param_file_shape(p, t->file, shape);
    const mega_st_dtype type = mega_st_dtype_from_mega(mega_param_file_dtype(t->param, file));
    *out = (mega_st_entry){.name = t->name, .dtype = type, .num_dims = p->num_dims};
    for (int d = 0; d < p->num_dims; d++) out->shape[d] = (uint64_t)shape[turned ? 1 - d : d];
    if (p->stack_of > 0) {
        for (int d = p->num_dims; d > 0; d--) out->shape[d] = out->shape[d - 1];
        out->shape[0] = (uint64_t)p->stack_of;
        out->num_dims = p->num_dims + 1;
    }
    if (p->file_dims == 0) return;
    out->num_dims = p->file_dims;
    for (int d = 0; d < p->file_dims; d++) out->shape[d] = (uint64_t)p->file_dim[d];
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

/* Rows and columns of a piece in the host's memory. */
typedef struct view {
    const uint8_t *at;
    int64_t pitch; /* in elements */
} view;

/* Some of a piece's rows, as the file has them, copied from a device at once: each copy waits for it. */
typedef struct device_window {
    uint8_t *space; /* NULL: the host can read the numbers in place */
    int64_t begin, end, most;
} device_window;

/* The numbers of rows of the file from `first` on, in place or in the window, which is filled from there if it does not
 * have them. */
static view view_of(const mega_state_tensor *t, mega_dtype acc, const mega_state_piece *p, int64_t first, int64_t rows,
                    device_window *w)
{
    const size_t size = mega_dtype_size(acc);
    const bool turned = mega_state_turned(t->param);
    const uint8_t *const corner = (const uint8_t *)t->data + (size_t)p->at * size;
    const size_t step = (turned ? 1 : (size_t)p->pitch) * size; /* from a row of the file to the next */
    if (w->space == NULL) return (view){corner + (size_t)first * step, p->pitch};
    if (first >= w->end) {
        const int64_t left = rows - first, n = left < w->most ? left : w->most;
        mega_device_read_rows(w->space, corner + (size_t)first * step, (size_t)p->pitch * size,
                              turned ? p->real_rows : n, (size_t)(turned ? n : p->real_cols) * size);
        w->begin = first;
        w->end = first + n;
    }
    if (turned) return (view){w->space + (size_t)(first - w->begin) * size, w->end - w->begin};
    return (view){w->space + (size_t)((first - w->begin) * p->real_cols) * size, p->real_cols};
}

/* Converts n rows of the piece, as they are in the file, into the tile; where the file has them turned, `from` has n
 * columns. */
static void fill_tile(void *tile, const mega_state_tensor *t, mega_dtype acc, mega_dtype file,
                      const mega_state_piece *p, const view *from, int64_t n)
{
    const size_t size = mega_dtype_size(file), pitch = (size_t)from->pitch * mega_dtype_size(acc);
    uint8_t *to = tile, block[STATE_BLOCK * STATE_BLOCK * sizeof(double)];
    if (!mega_state_turned(t->param)) {
        for (int64_t r = 0; r < n; r++)
            mega_state_convert(to + (size_t)(r * p->real_cols) * size, file, from->at + (size_t)r * pitch, acc,
                               p->real_cols);
        return;
    }
    for (int64_t row = 0; row < p->real_rows; row += STATE_BLOCK) {
        const int64_t m = p->real_rows - row < STATE_BLOCK ? p->real_rows - row : STATE_BLOCK;
        const uint8_t *at = from->at + (size_t)row * pitch;
        if (acc == file) { /* no conversion needed */
            mega_state_turn(to + (size_t)row * size, p->real_rows, at, from->pitch, m, n, size, false);
            continue;
        }
        for (int64_t r = 0; r < m; r++)
            mega_state_convert(block + (size_t)(r * n) * size, file, at + (size_t)r * pitch, acc, n);
        mega_state_turn(to + (size_t)row * size, p->real_rows, block, n, m, n, size, false);
    }
}

/* How many rows of `run` numbers a buffer of these bytes has: a multiple of `least`, or all. */
static int64_t rows_in(size_t bytes, int64_t run, size_t size, int64_t least, int64_t rows)
{
    int64_t n = (int64_t)(bytes / ((size_t)run * size)) / least * least;
    if (n < least) n = least;
    return n < rows ? n : rows;
}

/* Returns how many elements of the tensor in the file are before the place of this parameter in a stack. */
static int64_t stack_before(const mega_state_tensor *t)
{
    int64_t rows, cols;
    mega_state_extent(t, &rows, &cols);
    return t->param->stack_at * rows * cols;
}

/* Writes rows of the file, of each of which the piece holds `run` elements. */
static mega_status write_piece(const mega_state_tensor *t, mega_dtype acc, mega_dtype file, const mega_state_piece *p,
                               mega_state_sink *sink, void *user)
{
    const bool turned = mega_state_turned(t->param), in_place = mega_device_is_host(t->data);
    const size_t size = mega_dtype_size(file);
    int64_t whole_rows, whole_cols;
    mega_state_extent(t, &whole_rows, &whole_cols);
    const int64_t rows = turned ? p->real_cols : p->real_rows, run = turned ? p->real_rows : p->real_cols;
    const int64_t pitch = turned ? whole_rows : whole_cols;
    const int64_t corner = stack_before(t) + (turned ? p->col * pitch + p->row : p->row * pitch + p->col);
    const bool converts = turned || acc != file || (in_place && p->pitch != run);
    mega_state_runs runs = {corner * (int64_t)size, rows, run * (int64_t)size, pitch * (int64_t)size};
    device_window w = {.space = NULL};
    if (rows == 0 || run == 0) return MEGA_OK;
    if (in_place && !converts) return sink(user, &runs, view_of(t, acc, p, 0, rows, &w).at);
    int64_t step = rows_in(TILE_BYTES, run, size, 1, rows);
    if (converts && step > STATE_BLOCK) step = STATE_BLOCK;
    w.most = rows_in(TILE_BYTES, run, mega_dtype_size(acc), step, rows);
    const size_t window_bytes = in_place ? 0 : (size_t)(w.most * run) * mega_dtype_size(acc);
    uint8_t *space = mega_malloc(window_bytes + (converts ? (size_t)(step * run) * size : 0));
    if (space == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tensor %s: no memory to write it", t->name);
    w.space = in_place ? NULL : space;
    mega_status st = MEGA_OK;
    for (int64_t first = 0; first < rows && st == MEGA_OK; first += step) {
        runs.rows = rows - first < step ? rows - first : step;
        const view from = view_of(t, acc, p, first, rows, &w);
        if (converts) fill_tile(space + window_bytes, t, acc, file, p, &from, runs.rows);
        st = sink(user, &runs, converts ? space + window_bytes : from.at);
        runs.offset += runs.rows * runs.pitch;
    }
    mega_free(space);
    return st;
}

mega_status mega_state_tensor_write(const mega_state_tensor *t, mega_dtype acc, mega_dtype file, mega_state_sink *sink,
                                    void *user)
{
    const mega_dtype type = mega_param_file_dtype(t->param, file);
    for (int64_t i = 0, n = mega_state_pieces(t); i < n; i++) {
        const mega_state_piece p = mega_state_piece_get(t, i);
        MEGA_TRY(write_piece(t, acc, type, &p, sink, user));
    }
    return mega_device_finish(mega_device_of(t->data)); /* what a device that failed gave is in no checkpoint */
}

static int64_t rows_of_share(const mega_state_piece *p, mega_dtype acc)
{
    const int64_t row_bytes = p->cols * (int64_t)mega_dtype_size(acc);
    const int64_t blocks = row_bytes > 0 ? (int64_t)SHARE_BYTES / (row_bytes * STATE_BLOCK) : 0;
    return blocks < 1 ? STATE_BLOCK : blocks * STATE_BLOCK;
}

static int64_t shares_of(const mega_state_piece *p, mega_dtype acc)
{
    const int64_t step = rows_of_share(p, acc);
    return p->cols > 0 ? (p->rows + step - 1) / step : 0;
}

/* The search for a share's piece starts at the first piece, so a tensor in very many runs is a single share. */
static bool is_one_share(int64_t pieces)
{
    return pieces > 3 * 1024;
}

int64_t mega_state_tensor_shares(const mega_state_tensor *t, mega_dtype acc)
{
    const int64_t n = mega_state_pieces(t);
    int64_t shares = 0;
    if (is_one_share(n)) return 1;
    for (int64_t i = 0; i < n; i++) {
        const mega_state_piece p = mega_state_piece_get(t, i);
        shares += shares_of(&p, acc);
    }
    return shares;
}

void mega_state_tensor_span(const mega_state_tensor *t, size_t file_size, size_t *begin, size_t *end)
{
    const bool turned = mega_state_turned(t->param);
    int64_t whole_rows, whole_cols, first = INT64_MAX, last = 0;
    mega_state_extent(t, &whole_rows, &whole_cols);
    for (int64_t i = 0, n = mega_state_pieces(t); i < n; i++) {
        const mega_state_piece p = mega_state_piece_get(t, i);
        const int64_t row = turned ? p.col : p.row, rows = turned ? p.real_cols : p.real_rows;
        if (p.real_rows == 0 || p.real_cols == 0) continue;
        first = row < first ? row : first;
        last = row + rows > last ? row + rows : last;
    }
    const size_t row_bytes = (size_t)(turned ? whole_rows : whole_cols) * file_size;
    const size_t before = last > 0 ? (size_t)stack_before(t) * file_size : 0;
    *begin = last > 0 ? before + (size_t)first * row_bytes : 0;
    *end = before + (size_t)last * row_bytes;
}

/* Transposes columns of the file into rows [begin, end) of the memory, in blocks that fit into the L1 cache. `to` is
 * the place of row `begin`; its rows are `pitch` elements apart. */
static void read_turned(const mega_state_tensor *t, mega_dtype acc, const uint8_t *from, mega_dtype file,
                        const mega_state_piece *p, int64_t begin, int64_t end, uint8_t *to, int64_t pitch)
{
    const size_t size = mega_dtype_size(file), acc_size = mega_dtype_size(acc);
    int64_t file_pitch, columns;
    mega_state_extent(t, &file_pitch, &columns);
    uint8_t block[STATE_BLOCK * STATE_BLOCK * sizeof(double)];
    for (int64_t row = begin; row < end; row += STATE_BLOCK) {
        const int64_t m = end - row < STATE_BLOCK ? end - row : STATE_BLOCK;
        for (int64_t first = 0; first < p->real_cols; first += STATE_BLOCK) {
            const int64_t n = p->real_cols - first < STATE_BLOCK ? p->real_cols - first : STATE_BLOCK;
            const uint8_t *at = from + (size_t)((p->col + first) * file_pitch + p->row + row) * size;
            uint8_t *place = to + (size_t)((row - begin) * pitch + first) * acc_size;
            if (acc == file) {
                mega_state_turn(place, pitch, at, file_pitch, n, m, size, true);
                continue;
            }
            mega_state_turn(block, n, at, file_pitch, n, m, size, false);
            for (int64_t r = 0; r < m; r++)
                mega_state_convert(place + (size_t)(r * pitch) * acc_size, acc, block + (size_t)(r * n) * size, file,
                                   n);
        }
    }
}

/* Fills rows [begin, end) of the piece, to a place as in read_turned. */
static void fill_rows(const mega_state_tensor *t, mega_dtype acc, const mega_safetensor *from,
                      const mega_state_piece *p, int64_t begin, int64_t end, uint8_t *to, int64_t pitch)
{
    mega_dtype file = MEGA_F32;
    mega_st_dtype_to_mega(from->dtype, &file);
    const size_t size = mega_dtype_size(file), acc_size = mega_dtype_size(acc);
    int64_t whole_rows, whole_cols;
    mega_state_extent(t, &whole_rows, &whole_cols);
    if (p->real_rows != p->rows || p->real_cols != p->cols)
        for (int64_t r = 0; r < end - begin; r++)
            memset(to + (size_t)(r * pitch) * acc_size, 0, (size_t)p->cols * acc_size);
    if (end > p->real_rows) end = p->real_rows; /* the rest is padding */
    if (begin >= end || p->real_cols == 0) return;
    const uint8_t *own = from->data + (size_t)stack_before(t) * size;
    const uint8_t *at = own + (size_t)((p->row + begin) * whole_cols + p->col) * size;
    if (mega_state_turned(t->param)) {
        read_turned(t, acc, own, file, p, begin, end, to, pitch);
    } else if (acc == file && pitch == whole_cols && (p->real_cols == whole_cols || end - begin == 1)) {
        mega_state_copy(to, at, (size_t)((end - begin - 1) * whole_cols + p->real_cols) * size);
    } else {
        for (int64_t r = 0; r < end - begin; r++)
            mega_state_convert(to + (size_t)(r * pitch) * acc_size, acc, at + (size_t)(r * whole_cols) * size, file,
                               p->real_cols);
    }
    mega_state_copy_end();
}

/* Fills rows [begin, end) of the piece in memory: in place where the host can, otherwise by way of the window. */
static void read_rows(const mega_state_tensor *t, mega_dtype acc, const mega_safetensor *from,
                      const mega_state_piece *p, int64_t begin, int64_t end, void *window)
{
    const size_t size = mega_dtype_size(acc);
    uint8_t *place = (uint8_t *)t->data + (size_t)(p->at + begin * p->pitch) * size;
    if (mega_device_is_host(t->data)) {
        fill_rows(t, acc, from, p, begin, end, place, p->pitch);
        return;
    }
    fill_rows(t, acc, from, p, begin, end, window, p->cols);
    mega_device_write_rows(place, (size_t)p->pitch * size, window, end - begin, (size_t)p->cols * size);
}

size_t mega_state_tensor_window(const mega_state_tensor *t, mega_dtype acc)
{
    int64_t width;
    const size_t size = mega_dtype_size(acc), held = (size_t)mega_state_held(t, &width) * size;
    const size_t rows = (size_t)(STATE_BLOCK * width) * size, share = rows > SHARE_BYTES ? rows : SHARE_BYTES;
    if (mega_device_is_host(t->data)) return 0;
    return held < share ? held : share;
}

void mega_state_tensor_read(const mega_state_tensor *t, mega_dtype acc, const mega_safetensor *from, int64_t share,
                            void *window)
{
    const int64_t n = mega_state_pieces(t);
    for (int64_t i = 0; i < n; i++) {
        const mega_state_piece p = mega_state_piece_get(t, i);
        const int64_t shares = shares_of(&p, acc), step = rows_of_share(&p, acc);
        if (!is_one_share(n) && share >= shares) {
            share -= shares;
            continue;
        }
        for (int64_t k = is_one_share(n) ? 0 : share; k < shares; k++) {
            const int64_t begin = k * step, end = begin + step < p.rows ? begin + step : p.rows;
            read_rows(t, acc, from, &p, begin, end, window);
            if (!is_one_share(n)) return;
        }
    }
}

mega_state_tensor mega_state_tensor_of(const mega_param *p, int file, mega_params *held, int own)
{
    mega_state_tensor t = {.name = mega_param_file_name(p, file),
                           .param = p,
                           .file = file,
                           .is_part = true,
                           .cut = mega_params_cut(held, p)};
    if (own < 0) return t;
    const mega_range owned = mega_params_owned(held, own);
    t.data = mega_params_master(held, own);
    t.first = owned.first;
    t.count = owned.count;
    return t;
}
