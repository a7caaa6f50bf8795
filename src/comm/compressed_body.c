/* The loops of compressed.c for one number type. REAL and NAME are defined by the file that includes this. */

/* error += data; returns the sum of squares. data may be NULL. */
static double NAME(compensate)(void *error, const void *data, int64_t begin, int64_t end)
{
    REAL *restrict e = error;
    const REAL *restrict x = data;
    double sum = 0;
    for (int64_t i = begin; i < end; i++) {
        if (x != NULL) e[i] += x[i];
        sum += (double)e[i] * (double)e[i];
    }
    return sum;
}

/* Writes the signs, 8 to a byte, and leaves what they and the scale do not say. begin is a multiple of 8. */
static void NAME(split)(void *error, double scale, uint8_t *bits, int64_t begin, int64_t end)
{
    REAL *e = error;
    const REAL s = (REAL)scale;
    for (int64_t i = begin; i < end; i += 8) {
        unsigned byte = 0;
        for (int64_t k = 0; k < 8 && i + k < end; k++) {
            const bool is_plus = e[i + k] >= 0;
            byte |= (unsigned)is_plus << k;
            e[i + k] -= is_plus ? s : -s;
        }
        bits[i / 8] = (uint8_t)byte;
    }
}

/* out = kept * out + scale * sign. */
static void NAME(join)(void *out, int kept, double scale, const uint8_t *bits, int64_t begin, int64_t end)
{
    REAL *x = out;
    const REAL s = (REAL)scale;
    for (int64_t i = begin; i < end; i++) {
        const REAL sign = (bits[i / 8] >> (i % 8) & 1) != 0 ? s : -s;
        x[i] = kept != 0 ? x[i] + sign : sign;
    }
}
