/* Loops of newton_schulz.c for one number type. REAL and NAME are defined by the file that includes this. */

/* chunk[k] = sum of the squares of elements NORM_CHUNK k …; each is summed in 8 parts, which the compiler
 * vectorizes. */
static void NAME(squares)(void *user, int thread, int64_t begin, int64_t end)
{
    const schulz_job *job = user;
    const REAL *x = job->in;
    (void)thread;
    for (int64_t first = begin; first < end; first += NORM_CHUNK) {
        const int64_t last = end - first > NORM_CHUNK ? first + NORM_CHUNK : end;
        double part[8] = {0}, sum = 0;
        int64_t i = first;
        for (; i + 8 <= last; i += 8)
            for (int l = 0; l < 8; l++) part[l] += (double)x[i + l] * (double)x[i + l];
        for (; i < last; i++) sum += (double)x[i] * (double)x[i];
        for (int l = 0; l < 8; l++) sum += part[l];
        job->chunk[first / NORM_CHUNK] = sum;
    }
}

static void NAME(scaled)(void *user, int thread, int64_t begin, int64_t end)
{
    const schulz_job *job = user;
    const REAL factor = (REAL)job->factor, *x = job->in;
    REAL *out = job->out;
    (void)thread;
    for (int64_t i = begin; i < end; i++) out[i] = x[i] * factor;
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

/* Copies the lower half of `half` to the upper half, tile by tile; begin and end are rows. */
static void NAME(mirrored)(void *user, int thread, int64_t begin, int64_t end)
{
    const schulz_job *job = user;
    const int64_t n = job->size;
    REAL *s = job->half, tile[TILE][TILE];
    (void)thread;
    for (int64_t top = begin; top < end; top += TILE)
        for (int64_t left = 0; left <= top; left += TILE) {
            const int64_t rows = smaller_size(end - top, TILE), cols = smaller_size(n - left, TILE);
            for (int64_t i = 0; i < rows; i++) memcpy(tile[i], s + (top + i) * n + left, (size_t)cols * sizeof(REAL));
            NAME(put_tile)(s, n, top, left, rows, cols, tile);
        }
}

/* half = a I + b A + c half, of which the lower half is known. */
static void NAME(polynomial)(void *user, int thread, int64_t begin, int64_t end)
{
    const schulz_job *job = user;
    const int64_t n = job->size;
    const REAL a = (REAL)job->k.a, b = (REAL)job->k.b, c = (REAL)job->k.c, *g = job->gram[A];
    REAL *s = job->half, tile[TILE][TILE];
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
