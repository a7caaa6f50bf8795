/* Loops of newton_schulz.c for one number type. REAL and NAME are defined by the file that includes this. */

/* chunk[k] = sum of the squares of elements NORM_CHUNK k …; each is summed in 8 parts, which the compiler vectorizes. */
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

/* Copies the lower half of gram to the upper half; begin and end are rows. */
static void NAME(mirrored)(void *user, int thread, int64_t begin, int64_t end)
{
    const schulz_job *job = user;
    const int64_t n = job->size;
    REAL *g = job->gram;
    (void)thread;
    for (int64_t top = begin; top < end; top += TILE)
        for (int64_t left = 0; left < end && left <= top; left += TILE)
            for (int64_t i = top; i < end && i < top + TILE; i++)
                for (int64_t j = left; j < i && j < left + TILE; j++) g[j * n + i] = g[i * n + j];
}

/* square = a I + b gram + c square, of which the lower half is known. */
static void NAME(polynomial)(void *user, int thread, int64_t begin, int64_t end)
{
    const schulz_job *job = user;
    const int64_t n = job->size;
    const REAL a = (REAL)job->k.a, b = (REAL)job->k.b, c = (REAL)job->k.c, *g = job->gram;
    REAL *s = job->square;
    (void)thread;
    for (int64_t top = begin; top < end; top += TILE)
        for (int64_t left = 0; left < end && left <= top; left += TILE)
            for (int64_t i = top; i < end && i < top + TILE; i++)
                for (int64_t j = left; j <= i && j < left + TILE; j++) {
                    const REAL x = b * g[i * n + j] + c * s[i * n + j] + (i == j ? a : 0);
                    s[i * n + j] = x;
                    s[j * n + i] = x;
                }
}
