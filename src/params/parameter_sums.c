/* The types of gradients: that in which they are held, and that of their sums over dp.
 *
 * A sum in a 16-bit type of gradients in acc: the numbers are rounded in place, into the first half of the bucket's
 * memory, and widened from there when the sum has arrived: no other memory is needed. Gradients that are held in 16
 * bits and are whole (ZeRO 0, 1) are summed where they are, in their type. With ZeRO 2 and 3 the whole bucket is a
 * value of the program, in acc, and only the slice of the sum is held. */
#include "megalith/device_memory.h"
#include "parameter_impl.h"

#include <string.h>

enum { PIECE = 512 }; /* elements converted at a time */

mega_status mega_params_sum_in(mega_params *p, mega_dtype dtype)
{
    if (p == NULL || p->placed)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_params_sum_in: %s",
                         p == NULL ? "the list of parameters is NULL; give it"
                                   : "called after mega_params_place; call it "
                                     "before");
    if (dtype != MEGA_F32 && !mega_dtype_is_half(dtype))
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "sums of gradients in %s; expected f32, bf16 or f16",
                         mega_dtype_name(dtype));
    p->sums = dtype;
    return MEGA_OK;
}

mega_status mega_params_hold_gradients_in(mega_params *p, mega_dtype dtype)
{
    if (p == NULL || p->placed)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_params_hold_gradients_in: %s",
                         p == NULL ? "the list of parameters is NULL; give it"
                                   : "called after mega_params_place; call it "
                                     "before");
    if (dtype != MEGA_F32 && !mega_dtype_is_half(dtype))
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "gradients held in %s; expected f32, bf16 or f16",
                         mega_dtype_name(dtype));
    p->held = dtype;
    return MEGA_OK;
}

/* Running statistics share buckets with gradients. They are no gradients: nothing scales them to the range of a 16-bit
 * type. */
static bool has_statistics(const mega_params *p, const mega_bucket *b)
{
    for (int i = b->first_param; i < b->first_param + b->num_params; i++)
        if (p->param[i].is_buffer) return true;
    return false;
}

mega_dtype mega_params_grad_dtype(const mega_params *p, int bucket)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    return b != NULL && mega_dtype_is_half(p->held) && !has_statistics(p, b) ? p->held : p->acc;
}

mega_status mega_params_check_types(const mega_params *p, mega_dtype compute)
{
    const bool held = mega_dtype_is_half(p->held), sums = mega_dtype_is_half(p->sums);
    if (held && compute == MEGA_F64)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "gradients of f64 held in %s; expected f32, which means as computed",
                         mega_dtype_name(p->held));
    if (held && sums && p->held != p->sums && p->zero_stage < 2 && mega_axis_has_others(&p->layout->dp))
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "gradients held in %s and summed over ranks in %s; whole gradients (ZeRO stages 0 and 1) are "
                         "summed in the type in which they are held: give one type",
                         mega_dtype_name(p->held), mega_dtype_name(p->sums));
    return MEGA_OK;
}

/* The type of the memory that a sum over dp reads: the held gradients, or a value of the program. */
static mega_dtype summed_dtype(const mega_params *p, int bucket)
{
    return p->grad.is_shard ? p->acc : mega_params_grad_dtype(p, bucket);
}

mega_dtype mega_params_sum_dtype(const mega_params *p, int bucket)
{
    const mega_bucket *b = mega_params_bucket(p, bucket);
    const mega_dtype from = summed_dtype(p, bucket);
    if (mega_dtype_is_half(from)) return from;
    const bool is_rounded = b != NULL && mega_dtype_is_half(p->sums) && mega_axis_has_others(&p->layout->dp);
    return is_rounded && !has_statistics(p, b) ? p->sums : p->acc;
}

/* ---- conversions, on one thread: they move through memory once ---- */

static int64_t reduced_piece(int64_t left)
{
    return left < PIECE ? left : PIECE;
}

static void load_piece(float *to, const void *from, int64_t at, int64_t count, mega_dtype acc)
{
    double wide[PIECE];
    if (acc == MEGA_F32) {
        memcpy(to, (const char *)from + (size_t)at * sizeof *to, (size_t)count * sizeof *to);
        return;
    }
    memcpy(wide, (const char *)from + (size_t)at * sizeof *wide, (size_t)count * sizeof *wide);
    for (int64_t i = 0; i < count; i++) to[i] = (float)wide[i];
}

static void store_piece(void *to, const float *from, int64_t at, int64_t count, mega_dtype acc)
{
    double wide[PIECE];
    if (acc == MEGA_F32) {
        memcpy((char *)to + (size_t)at * sizeof *from, from, (size_t)count * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < count; i++) wide[i] = (double)from[i];
    memcpy((char *)to + (size_t)at * sizeof *wide, wide, (size_t)count * sizeof *wide);
}

/* Rounds `count` numbers in place: number i is then the 16-bit number i of the same memory, which is at no later
 * place. */
static void round_in_place(void *numbers, int64_t count, mega_dtype acc, mega_dtype half)
{
    float value[PIECE];
    uint16_t rounded[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        const int64_t n = reduced_piece(count - at);
        load_piece(value, numbers, at, n, acc);
        mega_half_narrow(rounded, value, n, half);
        memcpy((char *)numbers + (size_t)at * sizeof *rounded, rounded, (size_t)n * sizeof *rounded);
    }
}

/* Widens `count` 16-bit numbers. `to` does not overlap them, or begins where they begin: so the last comes first. */
static void widen_to(void *to, const void *half_numbers, int64_t count, mega_dtype acc, mega_dtype half)
{
    float value[PIECE];
    uint16_t rounded[PIECE];
    for (int64_t at = (count - 1) / PIECE * PIECE; at >= 0 && count > 0; at -= PIECE) {
        const int64_t n = reduced_piece(count - at);
        memcpy(rounded, (const char *)half_numbers + (size_t)at * sizeof *rounded, (size_t)n * sizeof *rounded);
        mega_half_widen(value, rounded, n, half);
        store_piece(to, value, at, n, acc);
    }
}

/* ---- sums ---- */

/* Returns this rank's slice of the rounded bucket. */
static void *rounded_slice(const mega_params *p, int bucket, void *whole)
{
    const mega_range slice = mega_params_slice(p, bucket);
    return (char *)whole + (size_t)(slice.first - mega_params_bucket(p, bucket)->offset) * sizeof(uint16_t);
}

mega_status mega_params_reduce_start(const mega_params *p, int bucket, void *whole, void *slice, mega_request *out)
{
    mega_comm *dp = p->layout->dp.comm;
    const mega_dtype dtype = mega_params_sum_dtype(p, bucket);
    const int64_t count = mega_params_slice(p, bucket).count;
    if (dtype != summed_dtype(p, bucket)) {
        mega_device_begin();
        round_in_place(whole, mega_params_bucket(p, bucket)->count, p->acc, dtype);
        mega_device_end();
        slice = rounded_slice(p, bucket, whole);
    }
    if (p->zero_stage < 1)
        return mega_comm_all_reduce_start(dp, "gradients", whole, count, dtype, MEGA_REDUCE_SUM, out);
    return mega_comm_reduce_scatter_start(dp, "gradients", slice, whole, count, dtype, out);
}

/* Whole gradients (ZeRO 1) hold no pairs of 16-bit numbers after a sum: what is not this rank's slice is zero where
 * they were. Instructions overwrite the gradients there in the next step, but nothing else does so with the gaps
 * between them, which norms count. */
static void clear_rounded(const mega_params *p, int bucket, void *whole)
{
    const mega_range slice = mega_params_slice(p, bucket);
    const size_t size = mega_dtype_size(p->acc), end = (size_t)mega_params_bucket(p, bucket)->count * sizeof(uint16_t);
    const size_t from = (size_t)(slice.first - mega_params_bucket(p, bucket)->offset) * size;
    const size_t to = from + (size_t)slice.count * size;
    memset(whole, 0, from < end ? from : end);
    if (to < end) memset((char *)whole + to, 0, end - to);
}

/* A slice within `whole` begins with the rounded bucket (rank 0), or after the rounded slice of its rank. */
void mega_params_reduce_finish(const mega_params *p, int bucket, void *whole, void *slice)
{
    const mega_dtype dtype = mega_params_sum_dtype(p, bucket);
    const int64_t count = mega_params_slice(p, bucket).count;
    if (dtype == summed_dtype(p, bucket)) return;
    mega_device_begin();
    if (p->zero_stage < 1) widen_to(whole, whole, count, p->acc, dtype);
    else {
        widen_to(slice, rounded_slice(p, bucket, whole), count, p->acc, dtype);
        if (!p->grad.is_shard) clear_rounded(p, bucket, whole);
    }
    mega_device_end();
}
