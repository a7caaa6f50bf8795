/* Cases of the kernels that models other than transformers use. Part of test_kernels.c. */

static void check_activation(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int kind = MEGA_ACT_RELU; kind <= MEGA_ACT_SIGMOID; kind++) {
        check k = check_begin("activation", type, "%lld x %lld, kind %d", (long long)rows, (long long)cols, kind);
        mega_activation_args a = {.count = rows * cols, .kind = (mega_activation_kind)kind};
        float *x = check_input(&k, MEGA_F32, rows * cols);
        void *wide = check_bytes(&k, (size_t)(rows * cols) * 8);
        for (int64_t i = 0; i < rows * cols; i++) set_element(wide, type, i, 10.0f * x[i] * x[i] * x[i]);
        a.x = wide;
        a.y = check_output_add(&k, "y", type, rows * cols);
        check_run(&k, &mega_plain_activation, &mega_cpu_activation, &a, &a.head);
    }
}

static void check_activation_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int kind = MEGA_ACT_RELU; kind <= MEGA_ACT_SIGMOID; kind++) {
        check k = check_begin("activation_grad", type, "%lld x %lld, kind %d", (long long)rows, (long long)cols, kind);
        mega_activation_grad_args a = {.count = rows * cols, .kind = (mega_activation_kind)kind};
        a.x = check_input(&k, type, rows * cols);
        a.dx = check_output_add(&k, "dx", type, rows * cols);
        a.dy = rows % 3 == 2 ? a.dx : check_input(&k, type, rows * cols);
        check_run(&k, &mega_plain_activation_grad, &mega_cpu_activation_grad, &a, &a.head);
    }
}

static void check_mul(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("mul", type, "%lld", (long long)(rows * cols));
    mega_mul_args a = {.count = rows * cols};
    a.a = check_input(&k, type, rows * cols);
    a.y = check_output_add(&k, "y", type, rows * cols);
    a.b = rows % 3 == 2 ? a.y : check_input(&k, type, rows * cols); /* in place */
    check_run(&k, &mega_plain_mul, &mega_cpu_mul, &a, &a.head);
}

static void check_mean_rows(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("mean_rows", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_mean_rows_args a = {.rows = rows, .group = 7, .cols = cols};
    a.x = check_input(&k, type, rows * 7 * cols);
    a.y = check_output_add(&k, "y", type, rows * cols);
    check_run(&k, &mega_plain_mean_rows, &mega_cpu_mean_rows, &a, &a.head);
}

static void check_mean_rows_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("mean_rows_grad", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_mean_rows_grad_args a = {.rows = rows, .group = 7, .cols = cols};
    a.dy = check_input(&k, type, rows * cols);
    a.dx = check_output_add(&k, "dx", type, rows * 7 * cols);
    check_run(&k, &mega_plain_mean_rows_grad, &mega_cpu_mean_rows_grad, &a, &a.head);
}

static void check_squared_error(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("squared_error", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_squared_error_args a = {.rows = rows, .cols = cols};
    a.x = check_input(&k, type, rows * cols), a.target = check_input(&k, type, rows * cols);
    a.loss = check_output_add(&k, "loss", acc_type(&k), rows);
    check_run(&k, &mega_plain_squared_error, &mega_cpu_squared_error, &a, &a.head);
}

static void check_squared_error_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("squared_error_grad", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_squared_error_grad_args a = {.rows = rows, .cols = cols};
    a.target = check_input(&k, type, rows * cols), a.dloss = check_input(&k, acc_type(&k), rows);
    a.dx = check_output_add(&k, "dx", type, rows * cols);
    a.x = rows % 3 == 2 ? a.dx : check_input(&k, type, rows * cols);
    check_run(&k, &mega_plain_squared_error_grad, &mega_cpu_squared_error_grad, &a, &a.head);
}

static void check_accuracy(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k = check_begin("accuracy", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_accuracy_args a = {.rows = rows, .classes = cols};
        a.logits_dtype = wide ? acc_type(&k) : type;
        a.logits = check_input(&k, a.logits_dtype, rows * cols);
        a.labels = integers(&k, rows, -1, (int32_t)cols + 2); /* the first and the last are no class */
        a.hit = check_output_add(&k, "hit", acc_type(&k), rows);
        a.counts = check_output_add(&k, "counts", MEGA_F32, rows);
        check_run(&k, &mega_plain_accuracy, &mega_cpu_accuracy, &a, &a.head);
    }
}

static void check_masked_sum_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("masked_sum_grad", type, "%lld", (long long)(rows * cols));
    mega_masked_sum_grad_args a = {.count = rows * cols};
    a.dout = check_input(&k, acc_type(&k), 1);
    a.mask = rows % 2 == 1 ? check_input(&k, MEGA_F32, rows * cols) : NULL;
    a.dx = check_output_add(&k, "dx", acc_type(&k), rows * cols);
    check_run(&k, &mega_plain_masked_sum_grad, &mega_cpu_masked_sum_grad, &a, &a.head);
}

typedef struct image_case {
    int64_t samples, in, out;
    mega_windows windows;
} image_case;

/* No sample, one pixel, padding wider than the image, gaps between windows, one channel, linear, several chunks. */
static const image_case image_cases[] = {
    {0, 3, 4, {5, 4, 3, 1, 1}},  {1, 1, 1, {1, 1, 1, 1, 0}},      {2, 3, 5, {2, 1, 5, 1, 4}},
    {3, 4, 17, {7, 9, 2, 3, 1}}, {2, 1, 8, {12, 11, 5, 1, 2}},    {2, 40, 33, {6, 7, 1, 1, 0}},
    {2, 6, 9, {6, 7, 1, 2, 0}},  {3, 130, 20, {33, 31, 3, 1, 1}}, {5, 66, 70, {9, 8, 3, 2, 1}},
};

static int64_t image_pixels(const image_case *c)
{
    return c->samples * c->windows.height * c->windows.width;
}

static int64_t image_results(const image_case *c)
{
    return c->samples * mega_windows_along(&c->windows, c->windows.height) *
           mega_windows_along(&c->windows, c->windows.width);
}

static check image_begin(const char *name, mega_dtype type, const image_case *c)
{
    const mega_windows *w = &c->windows;
    return check_begin(name, type, "%lld x %lld x %lld x %lld to %lld, size %lld, stride %lld, padding %lld",
                       (long long)c->samples, (long long)w->height, (long long)w->width, (long long)c->in,
                       (long long)c->out, (long long)w->size, (long long)w->stride, (long long)w->padding);
}

/* The large cases take the plain kernels long; float64 is the definition. */
static bool image_is_skipped(mega_dtype type, const image_case *c, int64_t rows, int64_t cols)
{
    return rows != 1 || cols != 1 || (type == MEGA_F64 && c->in > 60);
}

static void check_conv2d(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(image_cases); i++) {
        const image_case *c = &image_cases[i];
        if (image_is_skipped(type, c, rows, cols)) continue;
        check k = image_begin("conv2d", type, c);
        mega_conv2d_args a = {.windows = c->windows, .samples = c->samples, .in_channels = c->in};
        a.out_channels = c->out;
        a.x = check_input(&k, type, image_pixels(c) * c->in);
        a.weight = check_input(&k, type, c->out * c->in * c->windows.size * c->windows.size);
        a.bias = i % 2 == 1 ? check_input(&k, type, c->out) : NULL;
        a.y = check_output_add(&k, "y", type, image_results(c) * c->out);
        k.tolerance_f32 = 4e-6; /* sums of up to 1170 products, as of gemm */
        check_run(&k, &mega_plain_conv2d, &mega_cpu_conv2d, &a, &a.head);
    }
}

static void check_conv2d_grad_x(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(image_cases); i++) {
        const image_case *c = &image_cases[i];
        if (image_is_skipped(type, c, rows, cols)) continue;
        check k = image_begin("conv2d_grad_x", type, c);
        mega_conv2d_grad_x_args a = {.windows = c->windows, .samples = c->samples, .in_channels = c->in};
        a.out_channels = c->out;
        a.dy = check_input(&k, type, image_results(c) * c->out);
        a.weight = check_input(&k, type, c->out * c->in * c->windows.size * c->windows.size);
        a.dx = check_output_add(&k, "dx", type, image_pixels(c) * c->in);
        k.tolerance_f32 = 4e-6;
        check_run(&k, &mega_plain_conv2d_grad_x, &mega_cpu_conv2d_grad_x, &a, &a.head);
    }
}

static void check_conv2d_grad_w(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(image_cases); i++) {
        const image_case *c = &image_cases[i];
        if (image_is_skipped(type, c, rows, cols)) continue;
        check k = image_begin("conv2d_grad_w", type, c);
        mega_conv2d_grad_w_args a = {.windows = c->windows, .samples = c->samples, .in_channels = c->in};
        a.out_channels = c->out;
        a.dy = check_input(&k, type, image_results(c) * c->out);
        a.x = check_input(&k, type, image_pixels(c) * c->in);
        a.dweight = check_output_add(&k, "dweight", acc_type(&k), c->out * c->in * c->windows.size * c->windows.size);
        if (i % 2 == 1) a.dbias = check_output_add(&k, "dbias", acc_type(&k), c->out);
        k.tolerance_f32 = k.tolerance_bf16 = 1e-5; /* sums of up to 3069 products in float, of any type */
        check_run(&k, &mega_plain_conv2d_grad_w, &mega_cpu_conv2d_grad_w, &a, &a.head);
    }
}
