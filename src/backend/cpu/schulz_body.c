/* Loops of schulz.c for one number type. REAL and NAME are defined by the file that includes this. */

/* Squares of elements SQUARES_CHUNK k …; each chunk is summed in 8 parts, which the compiler vectorizes. */
static void NAME(squares)(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_matrix_squares_args *a = ((const cpu_job *)user)->args;
    const REAL *x = a->x;
    (void)thread;
    for (int64_t first = begin; first < end; first += SQUARES_CHUNK) {
        const int64_t last = end - first > SQUARES_CHUNK ? first + SQUARES_CHUNK : end;
        double part[8] = {0}, sum = 0;
        int64_t i = first;
        for (; i + 8 <= last; i += 8)
            for (int l = 0; l < 8; l++) part[l] += (double)x[i + l] * (double)x[i + l];
        for (; i < last; i++) sum += (double)x[i] * (double)x[i];
        for (int l = 0; l < 8; l++) sum += part[l];
        ((double *)a->head.scratch)[first / SQUARES_CHUNK] = sum;
    }
}

static void NAME(scaled)(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_matrix_scale_args *a = ((const cpu_job *)user)->args;
    const REAL factor = (REAL)(1 / fmax(sqrt(a->squares[0]), 1e-7)), *x = a->x;
    REAL *y = a->y;
    (void)thread;
    for (int64_t i = begin; i < end; i++) y[i] = x[i] * factor;
}

/* Writes a tile and its transpose; `left` <= `top`, and on the diagonal only the lower half of the tile is read. */
static void NAME(put_tile)(REAL *s, int64_t n, int64_t top, int64_t left, int64_t rows, int64_t cols,
                           REAL (*tile)[TILE])
{
    if (top == left)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = i + 1; j < cols; j++) tile[i][j] = tile[j][i];
    for (int64_t i = 0; i < rows; i++) memcpy(s + (top + i) * n + left, tile[i], (size_t)cols * sizeof(REAL));
    if (top == left) return;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) s[(left + j) * n + top + i] = tile[i][j];
}

/* Tile by tile; begin and end are rows. */
static void NAME(mirrored)(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_mirror_args *a = ((const cpu_job *)user)->args;
    const int64_t n = a->size;
    REAL *s = a->s, tile[TILE][TILE];
    (void)thread;
    for (int64_t top = begin; top < end; top += TILE)
        for (int64_t left = 0; left <= top; left += TILE) {
            const int64_t rows = smaller_size(end - top, TILE), cols = smaller_size(n - left, TILE);
            for (int64_t i = 0; i < rows; i++) memcpy(tile[i], s + (top + i) * n + left, (size_t)cols * sizeof(REAL));
            NAME(put_tile)(s, n, top, left, rows, cols, tile);
        }
}

static void NAME(polynomial)(void *user, int thread, int64_t begin, int64_t end)
{
    const mega_polynomial_args *args = ((const cpu_job *)user)->args;
    const int64_t n = args->size;
    const REAL a = (REAL)args->a, b = (REAL)args->b, c = (REAL)args->c, *g = args->x;
    REAL *s = args->s, tile[TILE][TILE];
    (void)thread;
    for (int64_t top = begin; top < end; top += TILE)
        for (int64_t left = 0; left <= top; left += TILE) {
            const int64_t rows = smaller_size(end - top, TILE), cols = smaller_size(n - left, TILE);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0, at = (top + i) * n + left; j < cols; j++)
                    tile[i][j] = b * g[at + j] + c * s[at + j];
            for (int64_t i = 0; i < rows && top == left; i++) tile[i][i] += a;
            NAME(put_tile)(s, n, top, left, rows, cols, tile);
        }
}
