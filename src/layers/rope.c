/* Frequencies of rotary position embedding. Every operation on a vector of frequencies is one of float32, in the order
 * of transformers, so that the angles of far positions are the same; numbers of the configuration are doubles, as in
 * Python. */
#include "layers_impl.h"

#include <math.h>

static double or_default(double x, double fallback)
{
    return x > 0.0 ? x : fallback;
}

static const char *scaling_name(mega_rope_scaling kind)
{
    static const char *const name[] = {"none", "linear", "dynamic", "yarn", "llama3", "longrope"};
    return (unsigned)kind < sizeof name / sizeof *name ? name[kind] : "unknown";
}

int64_t layer_rope_channels(const mega_rope *rope, int64_t head_dim)
{
    return rope->fraction > 0.0 ? (int64_t)((double)head_dim * rope->fraction) : head_dim;
}

/* theta^(2k/R) */
static float wavelength(double theta, int64_t k, int64_t channels)
{
    return (float)pow((double)(float)theta, (double)((float)(2 * k) / (float)channels));
}

/* ---- by kind of scaling ---- */

static double dynamic_theta(const mega_rope *rope, int64_t channels, int64_t positions)
{
    const double length = (double)(positions > rope->max_positions ? positions : rope->max_positions);
    const double stretch = rope->factor * length / (double)rope->max_positions - (rope->factor - 1.0);
    return rope->theta * pow(stretch, (double)channels / (double)(channels - 2));
}

static double length_factor(const mega_rope *rope)
{
    return rope->factor > 0.0 ? rope->factor : (double)rope->max_positions / (double)rope->original_positions;
}

/* Returns the pair that makes `turns` turns within the original positions. */
static double pair_of_turns(const mega_rope *rope, int64_t channels, double turns)
{
    const double pi = 3.141592653589793;
    return (double)channels * log((double)rope->original_positions / (turns * 2.0 * pi)) / (2.0 * log(rope->theta));
}

/* Fast pairs keep their frequency, slow ones are divided by the factor; between `low` and `high` both are mixed. */
static void yarn(const mega_rope *rope, int64_t channels, float *out)
{
    double low = pair_of_turns(rope, channels, or_default(rope->beta_fast, 32.0));
    double high = pair_of_turns(rope, channels, or_default(rope->beta_slow, 1.0));
    if (!rope->no_truncate) low = floor(low), high = ceil(high);
    low = fmax(low, 0.0);
    high = fmin(high, (double)(channels - 1));
    const float width = (float)(high - low == 0.0 ? 0.001 : high - low), factor = (float)length_factor(rope);
    for (int64_t k = 0; k < channels / 2; k++) {
        const float length = wavelength(rope->theta, k, channels), ramp = ((float)k - (float)low) / width;
        const float keep = 1.0f - (ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp);
        out[k] = 1.0f / (factor * length) * (1.0f - keep) + 1.0f / length * keep;
    }
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double yarn_factor(const mega_rope *rope)
{
    const double factor = length_factor(rope);
    if (rope->attention_factor > 0.0) return rope->attention_factor;
    if (rope->mscale > 0.0 && rope->mscale_all_dim > 0.0)
        return yarn_mscale(factor, rope->mscale) / yarn_mscale(factor, rope->mscale_all_dim);
    return yarn_mscale(factor, 1.0);
}

static float llama3(const mega_rope *rope, float frequency)
{
    const double original = (double)rope->original_positions, low = rope->low_freq_factor,
                 high = rope->high_freq_factor;
    const float length = (float)(2.0 * 3.141592653589793) / frequency, factor = (float)rope->factor;
    if (length < (float)(original / high)) return frequency;
    if (length > (float)(original / low)) return frequency / factor;
    const float smooth = ((float)original / length - (float)low) / (float)(high - low);
    return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

static double longrope_factor(const mega_rope *rope)
{
    const double factor = length_factor(rope);
    if (rope->attention_factor > 0.0) return rope->attention_factor;
    return factor <= 1.0 ? 1.0 : sqrt(1.0 + log(factor) / log((double)rope->original_positions));
}

/* ---- checks ---- */

static mega_status missing(const mega_rope *rope, const char *what)
{
    return MEGA_MISTAKE("rope: scaling %s needs %s; give it", scaling_name(rope->scaling), what);
}

static mega_status check_scaling(const mega_rope *rope, int64_t channels)
{
    const bool has_length = rope->original_positions > 0;
    const bool has_factor = rope->factor > 0.0 || (rope->max_positions > 0 && has_length);
    switch (rope->scaling) {
    case MEGA_ROPE_NONE: return MEGA_OK;
    case MEGA_ROPE_LINEAR: return rope->factor > 0.0 ? MEGA_OK : missing(rope, "a factor above 0");
    case MEGA_ROPE_DYNAMIC:
        if (!(rope->factor >= 1.0)) return missing(rope, "a factor of 1 or more");
        if (channels < 4) return missing(rope, "at least 4 rotated channels");
        return rope->max_positions > 0 ? MEGA_OK : missing(rope, "max_positions");
    case MEGA_ROPE_YARN:
        if (!has_length) return missing(rope, "original_positions");
        return has_factor ? MEGA_OK : missing(rope, "a factor above 0, or max_positions");
    case MEGA_ROPE_LLAMA3:
        if (!has_length) return missing(rope, "original_positions");
        if (!(rope->low_freq_factor > 0.0) || !(rope->high_freq_factor > rope->low_freq_factor))
            return missing(rope, "low_freq_factor above 0 and high_freq_factor above that");
        return rope->factor > 0.0 ? MEGA_OK : missing(rope, "a factor above 0");
    case MEGA_ROPE_LONGROPE:
        if (rope->original_positions < 2) return missing(rope, "original_positions of 2 or more");
        if (rope->long_factor == NULL || rope->short_factor == NULL)
            return missing(rope, "long_factor and short_factor");
        return has_factor ? MEGA_OK : missing(rope, "a factor above 0, or max_positions");
    }
    return MEGA_MISTAKE("rope: scaling %d; expected one of mega_rope_scaling", (int)rope->scaling);
}

static mega_status check_rope(const mega_rope *rope, int64_t channels)
{
    if (!(rope->theta > 1.0 && isfinite(rope->theta)))
        return MEGA_MISTAKE("rope: theta %g; expected a finite number above 1, or 0 for no rotation",
                            isnan(rope->theta) ? fabs(rope->theta) : rope->theta);
    if (!(rope->fraction >= 0.0 && rope->fraction <= 1.0))
        return MEGA_MISTAKE("rope: fraction %g of the channels of a head; expected 0 (all) to 1",
                            isnan(rope->fraction) ? fabs(rope->fraction) : rope->fraction);
    if (channels < 2 || channels % 2 != 0)
        return MEGA_MISTAKE(
            "rope: %lld channels of a head are rotated; expected an even number, at least 2, change the "
            "fraction or the size of heads",
            (long long)channels);
    return check_scaling(rope, channels);
}

mega_status mega_rope_frequencies(const mega_rope *rope, int64_t head_dim, int64_t positions, float *out,
                                  double *out_factor)
{
    if (rope == NULL || out == NULL || out_factor == NULL)
        return MEGA_MISTAKE("mega_rope_frequencies: %s is NULL; give it", rope == NULL  ? "the rope"
                                                                          : out == NULL ? "out"
                                                                                        : "out_factor");
    const int64_t channels = layer_rope_channels(rope, head_dim);
    MEGA_TRY(check_rope(rope, channels));
    const bool is_long = positions > rope->original_positions;
    const double theta = rope->scaling == MEGA_ROPE_DYNAMIC ? dynamic_theta(rope, channels, positions) : rope->theta;
    for (int64_t k = 0; k < channels / 2; k++) {
        float length = wavelength(theta, k, channels);
        if (rope->scaling == MEGA_ROPE_LONGROPE)
            length = (float)(is_long ? rope->long_factor : rope->short_factor)[k] * length;
        out[k] = 1.0f / length;
        if (rope->scaling == MEGA_ROPE_LINEAR) out[k] /= (float)rope->factor;
        if (rope->scaling == MEGA_ROPE_LLAMA3) out[k] = llama3(rope, out[k]);
    }
    if (rope->scaling == MEGA_ROPE_YARN) yarn(rope, channels, out);
    *out_factor = rope->scaling == MEGA_ROPE_YARN       ? yarn_factor(rope)
                  : rope->scaling == MEGA_ROPE_LONGROPE ? longrope_factor(rope)
                                                        : 1.0;
    return MEGA_OK;
}
