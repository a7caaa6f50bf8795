/* Which kernels a call of an op launches, with how many blocks (launch.h). */
#include "launch_impl.h"
#include <string.h>

ONE(layer_norm, mega_layer_norm_args, by_rows(TYPED(layer_norm), a->rows))

CALL(layer_norm_grad, mega_layer_norm_grad_args)
{
    const bool sums = a->dgain != NULL || a->dbias != NULL;
    mega_cuda_call c = {.count = 0};
    if (sums) c = by_columns(TYPED(layer_norm_grad_columns), "layer_norm_grad_total", 2, a->rows, a->cols);
    add_launches(&c, by_rows(TYPED(layer_norm_grad), a->rows));
    return c;
}

ONE(gelu, mega_gelu_args, elements(TYPED(gelu), a->rows, a->cols))
ONE(gelu_grad, mega_gelu_grad_args, by_columns(TYPED(gelu_grad), "gelu_grad_total", a->dbias != NULL, a->rows, a->cols))
ONE(activation, mega_activation_args, elements(TYPED(activation), 1, a->count))
ONE(activation_grad, mega_activation_grad_args, elements(TYPED(activation_grad), 1, a->count))
ONE(glu, mega_glu_args, elements(TYPED(glu), a->rows, a->cols))
ONE(glu_grad, mega_glu_grad_args, elements(TYPED(glu_grad), a->rows, a->cols))
ONE(softcap, mega_softcap_args, elements("softcap", 1, a->count))
ONE(softcap_grad, mega_softcap_grad_args, elements(TYPED(softcap_grad), 1, a->count))
ONE(dropout_add, mega_dropout_add_args, elements(TYPED(dropout_add), a->rows, a->cols))
ONE(dropout_grad, mega_dropout_grad_args,
    by_columns(TYPED(dropout_grad), "dropout_grad_total", a->dbias != NULL, a->rows, a->cols))
ONE(add, mega_add_args, elements(TYPED(add), 1, a->count))
ONE(mul, mega_mul_args, elements(TYPED(mul), 1, a->count))

CALL(convert, mega_convert_args)
{
    const char *kernel = FOR_TYPE(convert_f32, a->src_dtype);
    if (!has_kernels(a->dst_dtype) || !has_kernels(a->src_dtype)) return no_kernels;
    if (a->dst_dtype == MEGA_BF16) kernel = FOR_TYPE(convert_bf16, a->src_dtype);
    if (a->dst_dtype == MEGA_F16) kernel = FOR_TYPE(convert_f16, a->src_dtype);
    return elements(kernel, 1, a->count);
}

ONE(rope, mega_rope_args, by_rows(TYPED(rope), a->rows))
ONE(head_channels, mega_head_channels_args, by_rows(TYPED(head_channels), a->rows))
ONE(embedding, mega_embedding_args, elements(TYPED(embedding), a->rows, a->cols))

CALL(embedding_grad, mega_embedding_grad_args)
{
    const int64_t chunks = a->rows > 0 ? COLUMN_CHUNKS(a->rows) : 0;
    mega_cuda_call c = {.scratch = SORT_BYTES(a->rows) + (size_t)(2 * chunks * a->cols) * sizeof(float)};
    if (a->rows == 0) return c;
    add_launch(&c, "embedding_grad_sort", SORT_THREADS, 1, 1);
    add_launches(&c, elements(TYPED(embedding_grad), a->rows, a->cols));
    if (chunks > 1) add_launches(&c, elements("embedding_grad_total", chunks - 1, a->cols));
    return c;
}

CALL(gemm, mega_gemm_args)
{
    const bool is_f32 = a->head.dtype == MEGA_F32;
    const char *const form = a->trans_a ? (a->trans_b ? TYPED_END(gemm, _tt) : TYPED_END(gemm, _tn))
                                        : (a->trans_b ? TYPED_END(gemm, _nt) : TYPED_END(gemm, _nn));
    mega_cuda_call c = {.count = 0};
    if (a->row_sum != NULL && !a->trans_a) return no_kernels;
    if (a->row_sum != NULL) c = by_columns(TYPED(gemm_row_sum), "gemm_row_sum_total", 1, a->k, a->m);
    add_launch(&c, form, is_f32 ? GEMM_F32_THREADS : GEMM_16_THREADS, (a->n + GEMM_TILE - 1) / GEMM_TILE,
               (a->m + GEMM_TILE - 1) / GEMM_TILE);
    return c;
}

CALL(expert_order, mega_expert_order_args)
{
    const int64_t blocks = a->experts + 1 < MOST_BLOCKS ? a->experts + 1 : MOST_BLOCKS;
    mega_cuda_call c = {.scratch = (size_t)a->experts * sizeof(uint32_t)};
    add_launch(&c, "expert_order_count", ROW_THREADS, blocks, 1);
    add_launch(&c, "expert_order_place", ROW_THREADS, blocks, 1);
    return c;
}

/* Of a kernel whose threads have a number each. */
static mega_cuda_call by_numbers(const char *kernel, int64_t count)
{
    return by_rows(kernel, (count + ROW_THREADS - 1) / ROW_THREADS);
}

ONE(expert_send, mega_expert_send_args,
    by_numbers("expert_send", a->choices > a->ranks * a->rows ? a->choices : a->ranks * a->rows))
ONE(expert_received, mega_expert_received_args, by_numbers("expert_received", a->ranks * a->rows))
ONE(expert_later, mega_expert_later_args, by_numbers("expert_later", a->ranks > 0))
ONE(expert_rows, mega_expert_rows_args, by_tiles(TYPED(expert_rows), a->rows, a->cols))
ONE(expert_combine, mega_expert_combine_args, by_tiles(TYPED(expert_combine), a->rows, a->cols))
ONE(expert_combine_grad, mega_expert_combine_grad_args,
    by_rows(TYPED(expert_combine_grad), a->choices > a->rows ? a->choices : a->rows))

static int64_t gemm_tiles(int64_t n)
{
    return (n + GEMM_TILE - 1) / GEMM_TILE;
}

/* The rows of each expert, and those of none, may begin one block more than they fill. */
CALL(expert_linear, mega_expert_linear_args)
{
    mega_cuda_call c = {.count = 0};
    if (a->rows == 0) return c;
    add_launch(&c, a->turned ? TYPED_END(expert_linear, _nn) : TYPED_END(expert_linear, _nt),
               a->head.dtype == MEGA_F32 ? GEMM_F32_THREADS : GEMM_16_THREADS, gemm_tiles(a->out),
               gemm_tiles(a->rows) + a->experts);
    return c;
}

CALL(expert_linear_grad_w, mega_expert_linear_grad_w_args)
{
    mega_cuda_call c = {.count = 0};
    if (a->experts > UINT16_MAX) return no_kernels; /* of a launch along y and z */
    if (a->dbias != NULL)
        add_launch(&c, TYPED(expert_linear_grad_bias), COLUMN_THREADS, (a->out + COLUMN_THREADS - 1) / COLUMN_THREADS,
                   a->experts);
    add_launch(&c, TYPED(expert_linear_grad_w), a->head.dtype == MEGA_F32 ? GEMM_F32_THREADS : GEMM_16_THREADS,
               gemm_tiles(a->in), gemm_tiles(a->out));
    if (c.count > 0) c.launch[c.count - 1].z = (unsigned)a->experts;
    return c;
}

/* The kernel of a name for heads of this size. */
#define BY_DIM(name, dim) ((dim) <= 64 ? TYPED(name##_64) : (dim) <= 128 ? TYPED(name##_128) : TYPED(name##_256))

/* The channels that the kernel for heads of this size has. */
#define DIM_OF(dim) ((dim) <= 64 ? 64u : (dim) <= 128 ? 128u : 256u)

/* In F32: two tiles, numbers of each lane for the others, and biases. */
static unsigned attention_f32_shared(const mega_attention_args *a, int numbers)
{
    return (unsigned)(2 * ATTENTION_TILE * (a->head_dim + 1) + numbers * ATTENTION_THREADS + ATTENTION_BIASES) *
           (unsigned)sizeof(float);
}

static void add_attention(mega_cuda_call *c, const char *kernel, int64_t blocks, int64_t heads, int64_t batch,
                          unsigned shared_bytes)
{
    if (blocks == 0 || heads == 0 || batch == 0) return;
    add_launch(c, kernel, ATTENTION_THREADS, blocks, heads);
    c->launch[c->count - 1].z = (unsigned)batch;
    c->launch[c->count - 1].shared_bytes = shared_bytes;
}

/* The blocks of this many queries or keys. */
static int64_t attention_blocks(mega_dtype t, int64_t rows)
{
    const int64_t own = t == MEGA_F32 ? ATTENTION_OWN : ATTENTION_16_OWN;
    return (rows + own - 1) / own;
}

static bool has_attention(int64_t head_dim, const mega_attention_rules *r)
{
    return head_dim <= ATTENTION_MOST_DIM && r->bias_buckets <= MEGA_BIAS_BUCKETS;
}

CALL(attention, mega_attention_args)
{
    mega_cuda_call c = {.count = 0};
    const unsigned dim = DIM_OF(a->head_dim);
    const bool is_f32 = a->head.dtype == MEGA_F32;
    if (!has_attention(a->head_dim, &a->rules)) return no_kernels;
    add_attention(&c, BY_DIM(attention, a->head_dim), attention_blocks(a->head.dtype, a->seq), a->heads, a->batch,
                  is_f32 ? attention_f32_shared(a, 1) : ATTENTION_16_SHARED(dim, 1, ATTENTION_16_TILE(dim)));
    return c;
}

/* Of dk and dv: of heads of more than 128 channels of 16 bits, one after the other. */
static void add_key_grads(mega_cuda_call *c, const mega_attention_grad_args *a)
{
    const mega_attention_args *const f = &a->forward;
    const unsigned dim = DIM_OF(f->head_dim), shared = ATTENTION_16_SHARED(dim, 2, ATTENTION_16_KEY_TILE(dim));
    const int64_t blocks = attention_blocks(a->head.dtype, f->keys);
    if (a->head.dtype == MEGA_F32) {
        const char *const kernel = dim <= 128 ? "attention_grad_kv_128_f32" : "attention_grad_kv_256_f32";
        add_attention(c, kernel, blocks, f->kv_heads, f->batch, attention_f32_shared(f, 2));
    } else if (dim <= 128) {
        const char *const kernel = dim <= 64 ? TYPED(attention_grad_kv_64) : TYPED(attention_grad_kv_128);
        add_attention(c, kernel, blocks, f->kv_heads, f->batch, shared);
    } else {
        add_attention(c, TYPED(attention_grad_k_256), blocks, f->kv_heads, f->batch, shared);
        add_attention(c, TYPED(attention_grad_v_256), blocks, f->kv_heads, f->batch, shared);
    }
}

/* Of the gradient of biases. Returns the bytes of its sums. */
static size_t add_bias_grad(mega_cuda_call *c, const mega_attention_grad_args *a)
{
    const mega_attention_args *const f = &a->forward;
    const int64_t blocks = (f->seq + ATTENTION_OWN - 1) / ATTENTION_OWN, biases = f->heads * f->rules.bias_buckets;
    const unsigned shared = attention_f32_shared(f, 0) +
                            (unsigned)sizeof(float) * (ATTENTION_OWN * (ATTENTION_TILE + 1) + 2 * ATTENTION_BIASES);
    if (a->dbias == NULL || blocks * f->batch == 0) return 0;
    add_attention(c, TYPED(attention_grad_bias), blocks, f->heads, f->batch, shared);
    add_launch(c, "attention_grad_bias_total", ATTENTION_THREADS, (biases + ATTENTION_THREADS - 1) / ATTENTION_THREADS,
               1);
    return (size_t)(blocks * f->batch * biases) * sizeof(float);
}

CALL(attention_grad, mega_attention_grad_args)
{
    const mega_attention_args *const f = &a->forward;
    const int64_t rows = f->batch * f->seq;
    const unsigned dim = DIM_OF(f->head_dim);
    const bool is_f32 = a->head.dtype == MEGA_F32;
    mega_cuda_call c = {.scratch = (size_t)(f->heads * rows) * sizeof(float)};
    if (!has_attention(f->head_dim, &f->rules)) return no_kernels;
    add_launch(&c, TYPED(attention_delta), ROW_THREADS, (rows * 32 + ROW_THREADS - 1) / ROW_THREADS, f->heads);
    add_attention(&c, BY_DIM(attention_grad_q, f->head_dim), attention_blocks(a->head.dtype, f->seq), f->heads,
                  f->batch,
                  is_f32 ? attention_f32_shared(f, 1) : ATTENTION_16_SHARED(dim, 2, ATTENTION_16_GRAD_TILE(dim)));
    add_key_grads(&c, a);
    c.scratch += add_bias_grad(&c, a);
    return c;
}

CALL(attention_cached, mega_attention_cached_args)
{
    if (!has_attention(a->head_dim, &a->rules)) return no_kernels;
    mega_cuda_call c = elements(TYPED(attention_cached_append), a->batch * a->rows, a->kv_heads * a->head_dim);
    add_attention(&c, TYPED(attention_cached), a->rows, a->heads, a->batch, 0);
    return c;
}

CALL(attention_sinks_grad, mega_attention_sinks_grad_args)
{
    mega_cuda_call c = {.count = 0};
    if (a->heads > 0) add_launch(&c, TYPED(attention_sinks_grad), ROW_THREADS, a->heads, 1);
    return c;
}

ONE(column_sum, mega_column_sum_args, by_columns(TYPED(column_sum), "column_sum_total", 1, a->rows, a->cols))
ONE(xent, mega_xent_args, by_rows(TYPED(xent), a->rows))
ONE(xent_max, mega_xent_max_args, by_rows("xent_max", a->rows))
ONE(xent_sum, mega_xent_sum_args, by_rows("xent_sum", a->rows))
ONE(xent_grad, mega_xent_grad_args, by_rows(TYPED(xent_grad), a->rows))
ONE(masked_sum, mega_masked_sum_args, alone("masked_sum", ROW_THREADS))
ONE(masked_sum_grad, mega_masked_sum_grad_args, elements("masked_sum_grad", 1, a->count))
ONE(loss_seed, mega_loss_seed_args, alone("loss_seed", 32))
ONE(squared_error, mega_squared_error_args, by_rows(TYPED(squared_error), a->rows))
ONE(squared_error_grad, mega_squared_error_grad_args, by_tiles(TYPED(squared_error_grad), a->rows, a->cols))

/* Logits, and channels that are summed, have a type of their own: the call's or F32. Nothing else depends on it. */
ONE(accuracy, mega_accuracy_args, by_rows(FOR_TYPE(accuracy, a->logits_dtype), a->rows))
ONE(cross_entropy, mega_cross_entropy_args, by_rows(FOR_TYPE(cross_entropy, a->logits_dtype), a->rows))
ONE(cross_entropy_grad, mega_cross_entropy_grad_args, by_rows(FOR_TYPE(cross_entropy_grad, a->logits_dtype), a->rows))
ONE(labelled_sum, mega_labelled_sum_args, alone("labelled_sum", ROW_THREADS))
ONE(label_weights, mega_label_weights_args, alone("label_weights", ROW_THREADS))
ONE(route, mega_route_args, by_rows(FOR_TYPE(route, a->logits_dtype), a->rows))
ONE(route_grad, mega_route_grad_args, by_rows(TYPED(route_grad), a->rows))
ONE(route_jitter, mega_route_jitter_args, elements(TYPED(route_jitter), a->rows, a->cols))
ONE(route_balance_grad, mega_route_balance_grad_args, by_tiles("route_balance_grad", a->groups * a->rows, a->experts))
ONE(route_load, mega_route_load_args, by_rows("route_load", (a->groups + ROW_THREADS - 1) / ROW_THREADS))
ONE(route_z, mega_route_z_args, by_rows(FOR_TYPE(route_z, a->logits_dtype), a->rows))
ONE(route_z_grad, mega_route_z_grad_args, by_rows(TYPED(route_z_grad), a->rows))
ONE(row_sum, mega_row_sum_args, by_rows(FOR_TYPE(row_sum, a->x_dtype), a->rows))
ONE(row_sum_grad, mega_row_sum_grad_args, by_tiles(FOR_TYPE(row_sum_grad, a->x_dtype), a->rows, a->cols))
ONE(mean_rows, mega_mean_rows_args, by_tiles(TYPED(mean_rows), a->rows, a->cols))
ONE(mean_rows_grad, mega_mean_rows_grad_args, by_tiles(TYPED(mean_rows_grad), a->rows * a->group, a->cols))
ONE(first_rows, mega_first_rows_args, by_tiles(TYPED(first_rows), a->rows, a->cols))
ONE(first_rows_grad, mega_first_rows_grad_args, by_tiles(TYPED(first_rows_grad), a->rows * a->group, a->cols))
ONE(square_sum, mega_square_sum_args, by_rows(TYPED(square_sum), a->rows))
ONE(square_sum_grad, mega_square_sum_grad_args, by_tiles(TYPED(square_sum_grad), a->rows, a->cols))
ONE(rms_scale, mega_rms_scale_args, by_tiles(TYPED(rms_scale), a->rows, a->cols))

CALL(rms_scale_grad, mega_rms_scale_grad_args)
{
    mega_cuda_call c = {.count = 0};
    if (a->dgain != NULL) c = by_columns(TYPED(rms_scale_grad_columns), "rms_scale_grad_total", 1, a->rows, a->cols);
    add_launches(&c, by_rows(TYPED(rms_scale_grad), a->rows));
    return c;
}

/* A block has an expert of a group; another launch adds the parts of the loss in their order. */
CALL(route_balance, mega_route_balance_args)
{
    mega_cuda_call c = by_rows("route_balance", a->groups * a->experts);
    c.scratch = (size_t)(a->groups * a->experts) * sizeof(double);
    add_launches(&c, by_rows("route_balance_total", (a->groups + ROW_THREADS - 1) / ROW_THREADS));
    return c;
}

ONE(route_count, mega_route_count_args, by_rows("route_count", a->experts))

/* A block has an expert of a group; another launch adds what the experts of a group drop. */
CALL(route_capacity, mega_route_capacity_args)
{
    mega_cuda_call c = by_rows("route_capacity", a->groups * a->experts);
    c.scratch = (size_t)(a->groups * a->experts) * sizeof(uint32_t);
    add_launches(&c, by_numbers("route_capacity_total", a->groups));
    return c;
}

/* Scratch has the factors of the rows. */
CALL(route_sinkhorn, mega_route_sinkhorn_args)
{
    mega_cuda_call c = by_rows(FOR_TYPE(route_sinkhorn, a->logits_dtype), a->groups);
    c.scratch = (size_t)(a->groups * a->rows) * sizeof(double);
    return c;
}

/* Of a kernel of the columns of groups of rows, in chunks of the groups. Scratch has `sums` sums of each chunk, and
 * `more` numbers a column of each group. */
static mega_cuda_call by_groups(const char *kernel, int64_t groups, int64_t rows, int64_t cols, int sums, int more)
{
    mega_cuda_call c = {.scratch = (size_t)(groups * cols * (sums * COLUMN_CHUNKS(rows) + more)) * sizeof(float)};
    if (groups == 0) return c;
    add_launch(&c, kernel, COLUMN_THREADS, (cols + COLUMN_WIDTH - 1) / COLUMN_WIDTH, COLUMN_CHUNKS(rows));
    c.launch[0].z = (unsigned)(groups < MOST_GROUPS ? groups : MOST_GROUPS);
    return c;
}

CALL(batch_norm, mega_batch_norm_args)
{
    mega_cuda_call c = by_groups(TYPED(batch_norm_chunks), a->groups, a->rows, a->cols, 2, 1);
    add_launch(&c, TYPED(batch_norm_total), COLUMN_THREADS, (a->cols + COLUMN_THREADS - 1) / COLUMN_THREADS,
               a->groups < MOST_GROUPS ? a->groups : MOST_GROUPS);
    add_launches(&c, by_tiles(TYPED(batch_norm), a->groups * a->rows, a->cols));
    return c;
}

CALL(batch_norm_grad, mega_batch_norm_grad_args)
{
    mega_cuda_call c = by_groups(TYPED(batch_norm_grad_chunks), a->groups, a->rows, a->cols, 2, 3);
    if (a->groups == 0) return c;
    add_launch(&c, "batch_norm_grad_total", COLUMN_THREADS, (a->cols + COLUMN_THREADS - 1) / COLUMN_THREADS, 1);
    add_launches(&c, by_tiles(TYPED(batch_norm_grad), a->groups * a->rows, a->cols));
    return c;
}

ONE(batch_norm_fixed, mega_batch_norm_fixed_args, by_tiles(TYPED(batch_norm_fixed), a->rows, a->cols))

CALL(batch_norm_update, mega_batch_norm_update_args)
{
    mega_cuda_call c = {.count = 0};
    add_launch(&c, "batch_norm_update", COLUMN_THREADS, (a->cols + COLUMN_THREADS - 1) / COLUMN_THREADS, 1);
    return c;
}

static int64_t pixels(const mega_windows *w, int64_t samples)
{
    return samples * w->height * w->width;
}

static int64_t windows(const mega_windows *w, int64_t samples)
{
    if (samples == 0) return 0; /* (nothing is known of the windows then) */
    return samples * mega_windows_along(w, w->height) * mega_windows_along(w, w->width);
}

static bool are_too_many(const mega_windows *w, int64_t samples)
{
    return pixels(w, samples) > INT32_MAX || windows(w, samples) > INT32_MAX;
}

/* The kernels count pixels and windows in 32 bits; there are none for larger images. */
static mega_cuda_call of_images(const mega_windows *w, int64_t samples, mega_cuda_call c)
{
    return are_too_many(w, samples) ? no_kernels : c;
}

static mega_cuda_call convolution(const char *kernel, int64_t rows, int64_t cols)
{
    mega_cuda_call c = {.count = 0};
    add_launch(&c, kernel, CONV_THREADS, CONV_TILES(rows), CONV_TILES(cols));
    return c;
}

ONE(conv2d, mega_conv2d_args,
    of_images(&a->windows, a->samples, convolution(TYPED(conv2d), windows(&a->windows, a->samples), a->out_channels)))
ONE(conv2d_grad_x, mega_conv2d_grad_x_args,
    of_images(&a->windows, a->samples,
              convolution(TYPED(conv2d_grad_x), pixels(&a->windows, a->samples), a->in_channels)))

CALL(conv2d_grad_w, mega_conv2d_grad_w_args)
{
    const int64_t rows = windows(&a->windows, a->samples);
    const int64_t depth = a->in_channels * a->windows.size * a->windows.size, size = a->out_channels * depth;
    mega_cuda_call c = {.count = 0};
    if (are_too_many(&a->windows, a->samples)) return no_kernels;
    if (rows == 0 || size == 0) return c;
    const int64_t chunk = CONV_CHUNK_ROWS(rows, CONV_TILES(a->out_channels) * CONV_TILES(depth));
    const int64_t chunks = (rows + chunk - 1) / chunk;
    c = convolution(TYPED(conv2d_grad_w), depth, a->out_channels);
    c.launch[0].z = (unsigned)chunks;
    add_launch(&c, "conv2d_grad_w_total", COLUMN_THREADS, (size + COLUMN_THREADS - 1) / COLUMN_THREADS, 1);
    c.scratch = (size_t)(chunks * size) * sizeof(float);
    if (a->dbias == NULL) return c;
    const mega_cuda_call bias = by_columns(TYPED(conv2d_grad_bias), "conv2d_grad_bias_total", 1, rows, a->out_channels);
    c.scratch += bias.scratch;
    add_launches(&c, bias);
    return c;
}

ONE(max_pool2d, mega_max_pool2d_args,
    of_images(&a->windows, a->samples, by_tiles(TYPED(max_pool2d), windows(&a->windows, a->samples), a->channels)))
ONE(max_pool2d_grad, mega_max_pool2d_grad_args,
    of_images(&a->windows, a->samples, by_tiles(TYPED(max_pool2d_grad), pixels(&a->windows, a->samples), a->channels)))
ONE(mean_pool2d, mega_mean_pool2d_args,
    of_images(&a->windows, a->samples, by_tiles(TYPED(mean_pool2d), windows(&a->windows, a->samples), a->channels)))
ONE(mean_pool2d_grad, mega_mean_pool2d_grad_args,
    of_images(&a->windows, a->samples, by_tiles(TYPED(mean_pool2d_grad), pixels(&a->windows, a->samples), a->channels)))
ONE(adamw, mega_adamw_args, elements(TYPED(adamw), 1, a->count))
ONE(sgd, mega_sgd_args, elements(TYPED(sgd), 1, a->count))

ONE(zero, mega_zero_args, elements(TYPED(zero), 1, a->count))
ONE(accumulate, mega_accumulate_args,
    has_kernels(a->y_dtype) ? elements(FOR_TYPE(accumulate, a->y_dtype), 1, a->count) : no_kernels)
ONE(loss_add, mega_loss_add_args, alone("loss_add", 32))
ONE(check, mega_check_args, alone("check", 32))
ONE(numbers, mega_numbers_args, alone("numbers", 32))

#define FORMULA_CALL(name, ...)                    \
    CALL(name, mega_formula_args)                  \
    {                                              \
        return elements(TYPED(name), 1, a->count); \
    }
MEGA_FORMULAS(FORMULA_CALL)

/* Of a kernel whose threads have an element of a square each. */
static mega_cuda_call by_square(const char *kernel, int64_t size)
{
    mega_cuda_call c = {.count = 0};
    const int64_t blocks = (size * size + EIGHT_THREADS - 1) / EIGHT_THREADS;
    add_launch(&c, kernel, EIGHT_THREADS, blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, 1);
    return c;
}

ONE(lamb_ratio, mega_lamb_ratio_args, alone("lamb_ratio", 32))
ONE(exchange, mega_exchange_args, elements(TYPED(exchange), 1, a->count))
ONE(running, mega_running_args, elements(TYPED(running), 1, a->count))
ONE(choice_bias, mega_choice_bias_args, elements(TYPED(choice_bias), 1, a->count))
ONE(matrix_scale, mega_matrix_scale_args, elements("matrix_scale", 1, a->count))
ONE(mirror, mega_mirror_args, by_square("mirror", a->size))
ONE(polynomial, mega_polynomial_args, by_square("polynomial", a->size))

/* Of kernels whose blocks sum a chunk each, which a second launch adds. */
#define CHUNKS_CALL(name, sums)                                            \
    CALL(name, mega_##name##_args)                                         \
    {                                                                      \
        return by_chunks(#name "_chunks", #name "_total", sums, a->count); \
    }
CHUNKS_CALL(norm, 3)
CHUNKS_CALL(lamb_moments, 2)
CHUNKS_CALL(state_sums, 4)
CHUNKS_CALL(matrix_squares, 1)

#define FORMULA_ROW(name, ...) ROW_OF(name, formulas),
#define ROW(name)              ROW_OF(name, name)
#define ROW_OF(name, source)   [MEGA_KERNEL_##name] = {#name, #source, name##_bytes, call_##name}

static const mega_cuda_kernel kernels[MEGA_KERNEL_COUNT] = {
    MEGA_FORMULAS(FORMULA_ROW) ROW(layer_norm),
    ROW(layer_norm_grad),
    ROW(gelu),
    ROW(gelu_grad),
    ROW(activation),
    ROW_OF(activation_grad, activation),
    ROW(glu),
    ROW_OF(glu_grad, glu),
    ROW(softcap),
    ROW_OF(softcap_grad, softcap),
    ROW(dropout_add),
    ROW(dropout_grad),
    ROW(add),
    ROW(mul),
    ROW(convert),
    ROW(rope),
    ROW(head_channels),
    ROW(embedding),
    ROW(embedding_grad),
    ROW(gemm),
    ROW(expert_order),
    ROW(expert_send),
    ROW_OF(expert_received, expert_send),
    ROW_OF(expert_later, expert_send),
    ROW(expert_rows),
    ROW(expert_combine),
    ROW_OF(expert_combine_grad, expert_combine),
    ROW(expert_linear),
    ROW_OF(expert_linear_grad_w, expert_linear),
    ROW(column_sum),
    ROW(attention),
    ROW(attention_grad),
    ROW(attention_cached),
    ROW(attention_sinks_grad),
    ROW(xent),
    ROW(xent_max),
    ROW(xent_sum),
    ROW(xent_grad),
    ROW(masked_sum),
    ROW_OF(masked_sum_grad, masked_sum),
    ROW(loss_seed),
    ROW(adamw),
    ROW(squared_error),
    ROW_OF(squared_error_grad, squared_error),
    ROW(accuracy),
    ROW(cross_entropy),
    ROW_OF(cross_entropy_grad, cross_entropy),
    ROW_OF(labelled_sum, cross_entropy),
    ROW_OF(label_weights, cross_entropy),
    ROW(route),
    ROW_OF(route_grad, route),
    ROW(route_jitter),
    ROW(route_balance),
    ROW_OF(route_balance_grad, route_balance),
    ROW_OF(route_load, route_balance),
    ROW_OF(route_count, route_balance),
    ROW(route_capacity),
    ROW(route_sinkhorn),
    ROW(route_z),
    ROW_OF(route_z_grad, route_z),
    ROW(row_sum),
    ROW_OF(row_sum_grad, row_sum),
    ROW(mean_rows),
    ROW_OF(mean_rows_grad, mean_rows),
    ROW(first_rows),
    ROW_OF(first_rows_grad, first_rows),
    ROW(square_sum),
    ROW_OF(square_sum_grad, square_sum),
    ROW(rms_scale),
    ROW_OF(rms_scale_grad, rms_scale),
    ROW(batch_norm),
    ROW_OF(batch_norm_grad, batch_norm),
    ROW_OF(batch_norm_fixed, batch_norm),
    ROW_OF(batch_norm_update, batch_norm),
    ROW(conv2d),
    ROW_OF(conv2d_grad_x, conv2d),
    ROW_OF(conv2d_grad_w, conv2d),
    ROW_OF(max_pool2d, pool2d),
    ROW_OF(max_pool2d_grad, pool2d),
    ROW_OF(mean_pool2d, pool2d),
    ROW_OF(mean_pool2d_grad, pool2d),
    ROW(sgd),
    ROW(norm),
    ROW(zero),
    ROW(accumulate),
    ROW(loss_add),
    ROW(check),
    ROW(numbers),
    ROW_OF(lamb_moments, lamb),
    ROW_OF(lamb_ratio, lamb),
    ROW(exchange),
    ROW(running),
    ROW_OF(choice_bias, running),
    ROW(state_sums),
    ROW_OF(matrix_squares, schulz),
    ROW_OF(matrix_scale, schulz),
    ROW_OF(mirror, schulz),
    ROW_OF(polynomial, schulz),
};

const mega_cuda_kernel *mega_cuda_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].name != NULL && strcmp(kernels[i].name, name) == 0) return &kernels[i];
    return NULL;
}

const mega_cuda_kernel *mega_cuda_kernel_at(mega_kernel_id id)
{
    return id < MEGA_KERNEL_COUNT && kernels[id].name != NULL ? &kernels[id] : NULL;
}
