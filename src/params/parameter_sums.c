/* The types of gradients: that in which they are held, and that of their sums over dp.
 *
 * A sum in a 16-bit type of gradients in acc: the numbers are rounded in place, into the first half of the bucket's
 * memory, and widened from there when the sum has arrived: no other memory is needed. Gradients that are held in 16
 * bits and are whole (ZeRO 0, 1) are summed where they are, in their type. With ZeRO 2 and 3 the whole bucket is a
 * value of the program, in acc, and only the slice of the sum is held. */
#include "megalith/device_memory.h"
#include "parameter_impl.h"

mega_status mega_params_sum_in(mega_params *p, mega_dtype dtype)
{
    if (p == NULL || p->placed)
        return MEGA_MISTAKE("mega_params_sum_in: %s", p == NULL ? "the list of parameters is NULL; give it"
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
        return MEGA_MISTAKE("mega_params_hold_gradients_in: %s", p == NULL ? "the list of parameters is NULL; give it"
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

/* ---- conversions ---- */

void mega_params_run_in(mega_params *p, mega_backend_kind backend, const mega_queue *queue)
{
    p->backend = backend;
    p->queue = queue != NULL ? *queue : (mega_queue){.team = NULL};
}

static void params_run(const mega_params *p, mega_kernel_id id, const void *args)
{
    mega_device_begin();
    mega_kernel_of(p->backend, id)->run(&p->queue, args);
    mega_device_end();
}

void mega_params_convert(const mega_params *p, void *to, mega_dtype to_dtype, const void *from, mega_dtype from_dtype,
                         int64_t count)
{
    const mega_convert_args a = {.head = {.dtype = from_dtype},
                                 .dst = to,
                                 .src = from,
                                 .dst_dtype = to_dtype,
                                 .src_dtype = from_dtype,
                                 .count = count,
                                 .scale = 1};
    params_run(p, MEGA_KERNEL_convert, &a);
}

static void *sums_element(void *numbers, mega_dtype dtype, int64_t i)
{
    return (char *)numbers + (size_t)i * mega_dtype_size(dtype);
}

/* Numbers n … 2 n - 1 do not overlap their 16-bit forms, which begin where number n / 2 does: so one call of the kernel
 * converts as many numbers as were converted before it. */

/* Rounds `count` numbers in place: number i is then the 16-bit number i of the same memory. */
static void round_in_place(const mega_params *p, void *numbers, int64_t count, mega_dtype half)
{
    for (int64_t at = 0, n; at < count; at += n) {
        n = at < 1 ? 1 : at < count - at ? at : count - at;
        mega_params_convert(p, sums_element(numbers, half, at), half, sums_element(numbers, p->acc, at), p->acc, n);
    }
}

/* Widens `count` 16-bit numbers in place: the last comes first. */
static void widen_in_place(const mega_params *p, void *numbers, int64_t count, mega_dtype half)
{
    for (int64_t end = count, at; end > 0; end = at) {
        at = end > 1 ? (end + 1) / 2 : 0;
        mega_params_convert(p, sums_element(numbers, p->acc, at), p->acc, sums_element(numbers, half, at), half,
                            end - at);
    }
}

/* Widens `count` 16-bit numbers. `to` does not overlap them, or begins where they begin. */
static void widen_to(const mega_params *p, void *to, void *numbers, int64_t count, mega_dtype half)
{
    if (to == numbers) widen_in_place(p, numbers, count, half);
    else
        mega_params_convert(p, to, p->acc, numbers, half, count);
}

/* Zeroes 16-bit numbers from `first` to `end`. */
static void zero_halves(const mega_params *p, void *numbers, int64_t first, int64_t end)
{
    const mega_zero_args a = {
        .head = {.dtype = MEGA_BF16}, .x = sums_element(numbers, MEGA_BF16, first), .count = end - first};
    if (first < end) params_run(p, MEGA_KERNEL_zero, &a);
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
    mega_comm *group = mega_params_group(p, bucket).comm;
    const mega_dtype dtype = mega_params_sum_dtype(p, bucket);
    const int64_t count = mega_params_slice(p, bucket).count;
    if (dtype != summed_dtype(p, bucket)) {
        round_in_place(p, whole, mega_params_bucket(p, bucket)->count, dtype);
        slice = rounded_slice(p, bucket, whole);
    }
    if (p->zero_stage < 1)
        return mega_comm_all_reduce_start(group, "gradients", whole, count, dtype, MEGA_REDUCE_SUM, out);
    return mega_comm_reduce_scatter_start(group, "gradients", slice, whole, count, dtype, out);
}

/* Whole gradients (ZeRO 1) hold no pairs of 16-bit numbers after a sum: what is not this rank's slice is zero where
 * they were. Instructions overwrite the gradients there in the next step, but nothing else does so with the gaps
 * between them, which norms count. */
static void clear_rounded(const mega_params *p, int bucket, void *whole)
{
    const mega_range slice = mega_params_slice(p, bucket);
    const int64_t halves = (int64_t)(mega_dtype_size(p->acc) / sizeof(uint16_t));
    const int64_t end = mega_params_bucket(p, bucket)->count;
    const int64_t from = (slice.first - mega_params_bucket(p, bucket)->offset) * halves;
    zero_halves(p, whole, 0, from < end ? from : end);
    zero_halves(p, whole, from + slice.count * halves, end);
}

/* A slice within `whole` begins with the rounded bucket (rank 0), or after the rounded slice of its rank. */
void mega_params_reduce_finish(const mega_params *p, int bucket, void *whole, void *slice)
{
    const mega_dtype dtype = mega_params_sum_dtype(p, bucket);
    const int64_t count = mega_params_slice(p, bucket).count;
    if (dtype == summed_dtype(p, bucket)) return;
    if (p->zero_stage < 1) {
        widen_to(p, whole, whole, count, dtype);
        return;
    }
    widen_to(p, slice, rounded_slice(p, bucket, whole), count, dtype);
    if (!p->grad.is_shard) clear_rounded(p, bucket, whole);
}
