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

static void check_square_sum(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("square_sum", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_square_sum_args a = {.rows = rows, .cols = cols};
    a.x = check_input(&k, type, rows * cols);
    a.sum = check_output_add(&k, "sum", acc_type(&k), rows);
    check_run(&k, &mega_plain_square_sum, &mega_cpu_square_sum, &a, &a.head);
}

static void check_square_sum_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("square_sum_grad", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_square_sum_grad_args a = {.rows = rows, .cols = cols};
    a.x = check_input(&k, type, rows * cols), a.dsum = check_input(&k, acc_type(&k), rows);
    a.dx = check_output_add(&k, "dx", type, rows * cols);
    check_run(&k, &mega_plain_square_sum_grad, &mega_cpu_square_sum_grad, &a, &a.head);
}

/* Sums of squares for rows of numbers below 2, of twice as many channels. */
static void *square_sums(check *k, int64_t rows, int64_t cols)
{
    float *sum = check_input(k, MEGA_F32, rows);
    void *typed = check_bytes(k, (size_t)rows * 8);
    for (int64_t i = 0; i < rows; i++) set_element(typed, acc_type(k), i, (0.5f + fabsf(sum[i])) * (float)cols);
    return typed;
}

static void check_rms_scale(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 3; form++) {
        check k = check_begin("rms_scale", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        mega_rms_scale_args a = {.rows = rows, .cols = cols, .total = 2 * cols, .eps = 1e-6, .plus_one = form == 1};
        a.x = check_input(&k, type, rows * cols), a.sum = square_sums(&k, rows, cols);
        a.gain = form < 2 ? check_input(&k, type, cols) : NULL;
        a.y = check_output_add(&k, "y", type, rows * cols);
        check_run(&k, &mega_plain_rms_scale, &mega_cpu_rms_scale, &a, &a.head);
    }
}

static void check_rms_scale_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 3; form++) {
        check k = check_begin("rms_scale_grad", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        mega_rms_scale_grad_args a = {.rows = rows, .cols = cols, .total = 2 * cols, .eps = 1e-6};
        a.plus_one = form == 1;
        a.x = check_input(&k, type, rows * cols), a.sum = square_sums(&k, rows, cols);
        a.gain = form < 2 ? check_input(&k, type, cols) : NULL;
        a.dx = check_output_add(&k, "dx", type, rows * cols);
        a.dy = rows % 3 == 2 ? a.dx : check_input(&k, type, rows * cols);
        a.dsum = check_output_add(&k, "dsum", acc_type(&k), rows);
        if (form < 2) a.dgain = check_output_add(&k, "dgain", acc_type(&k), cols);
        check_run(&k, &mega_plain_rms_scale_grad, &mega_cpu_rms_scale_grad, &a, &a.head);
    }
}

/* Heads of 8 and of 70 channels, all or a part of them rotated, and further channels; also in place. */
static void check_rope(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 8; form++) {
        const int64_t head_dim = form % 2 == 0 ? 8 : 70, rotated = form % 2 == 0 ? 6 : 70;
        check k = check_begin("rope", type, "%lld rows, form %d", (long long)rows, form);
        mega_rope_args a = {.rows = rows, .heads = 1 + cols % 3, .head_dim = head_dim, .rotated = rotated};
        a.cols = a.heads * head_dim + cols % 40;
        a.interleaved = (form & 2) != 0, a.inverse = (form & 4) != 0, a.factor = form == 3 ? 1.25f : 1.0f;
        a.positions = integers(&k, rows, 0, 5000);
        a.frequency = check_input(&k, MEGA_F32, rotated / 2);
        a.out = check_output_add(&k, "out", type, rows * a.cols);
        a.x = rows % 3 == 2 ? a.out : check_input(&k, type, rows * a.cols);
        check_run(&k, &mega_plain_rope, &mega_cpu_rope, &a, &a.head);
    }
}

/* The same number of heads on both sides, one head for all, and a sum of heads; channels at begin, middle and end. */
static void check_head_channels(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 3; form++) {
        const int64_t heads = 2 + cols % 3, count = 1 + cols % 40;
        check k = check_begin("head_channels", type, "%lld rows, %lld channels, form %d", (long long)rows,
                              (long long)count, form);
        mega_head_channels_args a = {.rows = rows,
                                     .part = {.from = form == 1 ? 1 : heads,
                                              .from_dim = count + 5,
                                              .from_first = form * 2,
                                              .to = form == 2 ? 1 : heads,
                                              .to_dim = count + 3,
                                              .to_first = 3 - form,
                                              .count = count}};
        a.y = check_output_add(&k, "y", type, rows * a.part.to * a.part.to_dim);
        a.x = check_input(&k, type, rows * a.part.from * a.part.from_dim);
        check_run(&k, &mega_plain_head_channels, &mega_cpu_head_channels, &a, &a.head);
    }
}

static void check_glu(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 2 * MEGA_ACT_GELU_TANH; form <= 2 * MEGA_ACT_IDENTITY + 1; form++) {
        const int kind = form / 2;
        const double limit = form % 2 == 1 ? 0.7 : 0.0;
        check k =
            check_begin("glu", type, "%lld x %lld, kind %d, limit %g", (long long)rows, (long long)cols, kind, limit);
        mega_glu_args a = {.rows = rows, .cols = cols, .kind = (mega_activation_kind)kind, .limit = limit};
        a.alpha = 1.7;
        a.gate_second = kind % 2 == 1;
        a.x = check_input(&k, type, 2 * rows * cols);
        a.y = check_output_add(&k, "y", type, rows * cols);
        check_run(&k, &mega_plain_glu, &mega_cpu_glu, &a, &a.head);
    }
}

static void check_glu_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 2 * MEGA_ACT_GELU_TANH; form <= 2 * MEGA_ACT_IDENTITY + 1; form++) {
        const int kind = form / 2;
        const double limit = form % 2 == 1 ? 0.7 : 0.0;
        check k = check_begin("glu_grad", type, "%lld x %lld, kind %d, limit %g", (long long)rows, (long long)cols,
                              kind, limit);
        mega_glu_grad_args a = {.rows = rows, .cols = cols, .kind = (mega_activation_kind)kind, .limit = limit};
        a.alpha = 1.7;
        a.gate_second = kind % 2 == 1;
        a.dy = check_input(&k, type, rows * cols);
        a.dx = check_output_add(&k, "dx", type, 2 * rows * cols);
        a.x = rows % 3 == 2 ? a.dx : check_input(&k, type, 2 * rows * cols); /* in place */
        check_run(&k, &mega_plain_glu_grad, &mega_cpu_glu_grad, &a, &a.head);
    }
}

static void check_softcap(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("softcap", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_softcap_args a = {.count = rows * cols, .cap = 1.5};
    a.y = check_output_add(&k, "y", acc_type(&k), rows * cols);
    a.x = rows % 3 == 2 ? a.y : check_input(&k, acc_type(&k), rows * cols);
    check_run(&k, &mega_plain_softcap, &mega_cpu_softcap, &a, &a.head);
}

static void check_softcap_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("softcap_grad", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_softcap_grad_args a = {.count = rows * cols, .cap = 2.5};
    a.y = check_input(&k, acc_type(&k), rows * cols);
    a.dx = check_output_add(&k, "dx", type, rows * cols);
    a.dy = rows % 3 == 2 ? a.dx : check_input(&k, type, rows * cols);
    check_run(&k, &mega_plain_softcap_grad, &mega_cpu_softcap_grad, &a, &a.head);
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

static void check_first_rows(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("first_rows", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_first_rows_args a = {.rows = rows, .group = 7, .cols = cols};
    a.x = check_input(&k, type, rows * 7 * cols);
    a.y = check_output_add(&k, "y", type, rows * cols);
    check_run(&k, &mega_plain_first_rows, &mega_cpu_first_rows, &a, &a.head);
}

static void check_first_rows_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("first_rows_grad", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_first_rows_grad_args a = {.rows = rows, .group = 7, .cols = cols};
    a.dy = check_input(&k, type, rows * cols);
    a.dx = check_output_add(&k, "dx", type, rows * 7 * cols);
    check_run(&k, &mega_plain_first_rows_grad, &mega_cpu_first_rows_grad, &a, &a.head);
}

static void check_row_sum(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k = check_begin("row_sum", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_row_sum_args a = {.rows = rows, .cols = cols, .x_dtype = wide ? acc_type(&k) : type};
        a.x = check_input(&k, a.x_dtype, rows * cols);
        a.sum = check_output_add(&k, "sum", acc_type(&k), rows);
        check_run(&k, &mega_plain_row_sum, &mega_cpu_row_sum, &a, &a.head);
    }
}

static void check_row_sum_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k = check_begin("row_sum_grad", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_row_sum_grad_args a = {.rows = rows, .cols = cols, .x_dtype = wide ? acc_type(&k) : type};
        a.dsum = check_input(&k, acc_type(&k), rows);
        a.dx = check_output_add(&k, "dx", a.x_dtype, rows * cols);
        check_run(&k, &mega_plain_row_sum_grad, &mega_cpu_row_sum_grad, &a, &a.head);
    }
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

/* Logits of which some are equal and the largest, and some are masked; the last row has a NaN. */
static void *class_logits(check *k, mega_dtype type, int64_t rows, int64_t cols)
{
    void *x = check_input(k, type, rows * cols);
    for (int64_t i = 0; i < rows * cols; i += 3) set_element(x, type, i, 2.0f);
    for (int64_t i = 1; i < rows * cols && cols > 4; i += 5) set_element(x, type, i, -INFINITY);
    if (rows > 2) set_element(x, type, rows * cols - 1, NAN);
    return x;
}

static void check_accuracy(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k = check_begin("accuracy", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_accuracy_args a = {.rows = rows, .classes = cols, .ignored = wide ? 0 : -100};
        a.logits_dtype = wide ? acc_type(&k) : type;
        a.logits = class_logits(&k, a.logits_dtype, rows, cols);
        a.labels = integers(&k, rows, -1, (int32_t)cols + 2); /* the first and the last are no class */
        a.hit = check_output_add(&k, "hit", acc_type(&k), rows);
        a.counts = check_output_add(&k, "counts", acc_type(&k), rows);
        check_run(&k, &mega_plain_accuracy, &mega_cpu_accuracy, &a, &a.head);
    }
}

static void check_cross_entropy(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k = check_begin("cross_entropy", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_cross_entropy_args a = {.rows = rows, .classes = cols, .ignored = wide ? 0 : -100};
        a.logits_dtype = wide ? acc_type(&k) : type;
        a.logits = class_logits(&k, a.logits_dtype, rows, cols);
        a.labels = integers(&k, rows, -1, (int32_t)cols + 2); /* the first and the last are no class */
        a.loss = check_output_add(&k, "loss", acc_type(&k), rows);
        check_run(&k, &mega_plain_cross_entropy, &mega_cpu_cross_entropy, &a, &a.head);
    }
}

static void check_cross_entropy_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k =
            check_begin("cross_entropy_grad", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_cross_entropy_grad_args a = {.rows = rows, .classes = cols, .ignored = wide ? 0 : -100};
        a.logits_dtype = wide ? acc_type(&k) : type;
        a.dloss = check_input(&k, acc_type(&k), rows);
        a.labels = integers(&k, rows, -1, (int32_t)cols + 2);
        a.dlogits = check_output_add(&k, "dlogits", a.logits_dtype, rows * cols);
        a.logits = rows % 3 == 2 ? a.dlogits : check_input(&k, a.logits_dtype, rows * cols); /* in place */
        check_run(&k, &mega_plain_cross_entropy_grad, &mega_cpu_cross_entropy_grad, &a, &a.head);
    }
}

static void check_labelled_sum(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("labelled_sum", type, "%lld of %lld", (long long)rows, (long long)cols);
    mega_labelled_sum_args a = {.rows = rows, .classes = cols, .ignored = rows % 3 == 0 ? 0 : -100};
    a.labels = integers(&k, rows, -1, (int32_t)cols + 2);
    a.weights = rows % 2 == 1 ? check_input(&k, MEGA_F32, rows) : NULL;
    a.sum = check_output_add(&k, "sum", acc_type(&k), 1);
    check_run(&k, &mega_plain_labelled_sum, &mega_cpu_labelled_sum, &a, &a.head);
}

static void check_label_weights(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int way = 0; way < 8; way++) {
        check k = check_begin("label_weights", type, "%lld of %lld, %d", (long long)rows, (long long)cols, way);
        mega_label_weights_args a = {.rows = rows, .classes = cols, .ignored = way % 2 == 0 ? -1 : 0};
        a.labels = integers(&k, rows, -1, (int32_t)cols + 2);
        a.num_given = way < 4 || rows % 3 != 0 ? rows : rows / 3;
        a.num_masks = rows % 2 == 0 ? rows / 2 : rows;
        float *given = check_input(&k, acc_type(&k), a.num_given);
        for (int64_t i = 0; i < a.num_given && type != MEGA_F64; i += 2) given[i] = 0.0F;
        a.given = way % 4 != 1 ? given : NULL;
        a.mask = way != 3 ? check_input(&k, MEGA_F32, a.num_masks) : NULL;
        a.weights = way != 5 ? check_output_add(&k, "weights", MEGA_F32, rows) : NULL;
        a.wrong = check_output_add(&k, "wrong", MEGA_I32, 3);
        check_run(&k, &mega_plain_label_weights, &mega_cpu_label_weights, &a, &a.head);
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

static void check_loss_seed(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("loss_seed", type, "%lld", (long long)(rows * cols));
    mega_loss_seed_args a = {.coefficient = -0.3};
    a.weight = rows % 2 == 1 ? check_input(&k, acc_type(&k), 1) : NULL;
    a.seed = check_output_add(&k, "seed", acc_type(&k), 1);
    a.head.step = &step_block;
    check_run(&k, &mega_plain_loss_seed, &mega_cpu_loss_seed, &a, &a.head);
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

/* A row of the outputs has `row` numbers. */
static check image_begin(const char *name, mega_dtype type, const image_case *c, int64_t row)
{
    const mega_windows *w = &c->windows;
    check k = check_begin(name, type, "%lld x %lld x %lld x %lld to %lld, size %lld, stride %lld, padding %lld",
                          (long long)c->samples, (long long)w->height, (long long)w->width, (long long)c->in,
                          (long long)c->out, (long long)w->size, (long long)w->stride, (long long)w->padding);
    k.row = row;
    k.work = image_results(c) * c->in * c->out * w->size * w->size;
    return k;
}

/* The large cases take the plain kernels long; float64 is the definition, and in slow builds one type will do. */
static bool image_is_skipped(mega_dtype type, const image_case *c, int64_t rows, int64_t cols)
{
    return rows != 1 || cols != 1 || (c->in > 60 && (type == MEGA_F64 || (is_slow && type != MEGA_F32)));
}

static void check_conv2d(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(image_cases); i++) {
        const image_case *c = &image_cases[i];
        if (image_is_skipped(type, c, rows, cols)) continue;
        check k = image_begin("conv2d", type, c, c->out);
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
        check k = image_begin("conv2d_grad_x", type, c, c->windows.width * c->in); /* a line of an image */
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
        check k = image_begin("conv2d_grad_w", type, c, c->in * c->windows.size * c->windows.size);
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

static const image_case pool_cases[] = {
    {0, 3, 0, {5, 4, 3, 1, 1}},  {1, 1, 0, {1, 1, 1, 1, 0}},    {3, 4, 0, {7, 9, 3, 2, 1}},
    {2, 65, 0, {8, 6, 2, 2, 0}}, {2, 33, 0, {12, 11, 5, 1, 2}}, {1, 130, 0, {9, 9, 2, 3, 1}},
};

static void check_max_pool2d(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(pool_cases) && rows == 1 && cols == 1; i++) {
        const image_case *c = &pool_cases[i];
        check k = image_begin("max_pool2d", type, c, c->in);
        mega_max_pool2d_args a = {.windows = c->windows, .samples = c->samples, .channels = c->in};
        void *x = check_input(&k, type, image_pixels(c) * c->in);
        for (int64_t e = 0; e < image_pixels(c) * c->in; e += 3) set_element(x, type, e, 1.0f); /* equal ones */
        if (i == 2) set_element(x, type, 17, NAN);
        a.x = x;
        a.y = check_output_add(&k, "y", type, image_results(c) * c->in);
        a.index = check_output_add(&k, "index", MEGA_I32, image_results(c) * c->in);
        check_run(&k, &mega_plain_max_pool2d, &mega_cpu_max_pool2d, &a, &a.head);
    }
}

static void check_max_pool2d_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(pool_cases) && rows == 1 && cols == 1; i++) {
        const image_case *c = &pool_cases[i];
        check k = image_begin("max_pool2d_grad", type, c, c->in);
        const int64_t n = image_results(c) * c->in;
        mega_max_pool2d_args f = {.windows = c->windows, .samples = c->samples, .channels = c->in};
        mega_max_pool2d_grad_args a = {.windows = c->windows, .samples = c->samples, .channels = c->in};
        f.x = check_input(&k, type, image_pixels(c) * c->in);
        f.y = check_bytes(&k, (size_t)n * 8), f.index = check_bytes(&k, (size_t)n * 4), f.head.dtype = type;
        mega_plain_max_pool2d.run(NULL, &f);
        a.index = f.index;
        a.dy = check_input(&k, type, n);
        a.dx = check_output_add(&k, "dx", type, image_pixels(c) * c->in);
        check_run(&k, &mega_plain_max_pool2d_grad, &mega_cpu_max_pool2d_grad, &a, &a.head);
    }
}

static void check_mean_pool2d(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(pool_cases) && rows == 1 && cols == 1; i++) {
        const image_case *c = &pool_cases[i];
        check k = image_begin("mean_pool2d", type, c, c->in);
        mega_mean_pool2d_args a = {.windows = c->windows, .samples = c->samples, .channels = c->in};
        a.x = check_input(&k, type, image_pixels(c) * c->in);
        a.y = check_output_add(&k, "y", type, image_results(c) * c->in);
        check_run(&k, &mega_plain_mean_pool2d, &mega_cpu_mean_pool2d, &a, &a.head);
    }
}

static void check_mean_pool2d_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(pool_cases) && rows == 1 && cols == 1; i++) {
        const image_case *c = &pool_cases[i];
        check k = image_begin("mean_pool2d_grad", type, c, c->in);
        mega_mean_pool2d_grad_args a = {.windows = c->windows, .samples = c->samples, .channels = c->in};
        a.dy = check_input(&k, type, image_results(c) * c->in);
        a.dx = check_output_add(&k, "dx", type, image_pixels(c) * c->in);
        check_run(&k, &mega_plain_mean_pool2d_grad, &mega_cpu_mean_pool2d_grad, &a, &a.head);
    }
}

/* Groups, rows of a group, columns: none, two rows, odd, several chunks, blocks of channels. */
static const int64_t norm_sizes[][3] = {{0, 4, 3}, {1, 2, 1}, {3, 17, 5}, {2, 65, 70}, {4, 700, 33}, {1, 3000, 129}};

static void check_batch_norm(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(norm_sizes) && rows == 1 && cols == 1; i++) {
        const int64_t *n = norm_sizes[i], all = n[0] * n[1] * n[2];
        check k =
            check_begin("batch_norm", type, "%lld x %lld x %lld", (long long)n[0], (long long)n[1], (long long)n[2]);
        k.row = n[2];
        mega_batch_norm_args a = {.groups = n[0], .rows = n[1], .cols = n[2], .eps = 1e-5};
        a.x = check_input(&k, type, all);
        a.gain = check_input(&k, type, n[2]), a.bias = check_input(&k, type, n[2]);
        a.y = check_output_add(&k, "y", type, all);
        a.mean = check_output_add(&k, "mean", acc_type(&k), n[0] * n[2]);
        a.var = check_output_add(&k, "var", acc_type(&k), n[0] * n[2]);
        check_run(&k, &mega_plain_batch_norm, &mega_cpu_batch_norm, &a, &a.head);
    }
}

static void check_batch_norm_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(norm_sizes) && rows == 1 && cols == 1; i++) {
        const int64_t *n = norm_sizes[i], all = n[0] * n[1] * n[2];
        check k = check_begin("batch_norm_grad", type, "%lld x %lld x %lld", (long long)n[0], (long long)n[1],
                              (long long)n[2]);
        k.row = n[2];
        mega_batch_norm_grad_args a = {.groups = n[0], .rows = n[1], .cols = n[2], .eps = 1e-5};
        a.x = check_input(&k, type, all), a.gain = check_input(&k, type, n[2]);
        a.mean = check_input(&k, acc_type(&k), n[0] * n[2]);
        float *var = check_input(&k, MEGA_F32, n[0] * n[2]);
        void *positive = check_bytes(&k, (size_t)(n[0] * n[2]) * 8);
        for (int64_t c = 0; c < n[0] * n[2]; c++) set_element(positive, acc_type(&k), c, 0.1f + var[c] * var[c]);
        a.var = positive;
        a.dx = check_output_add(&k, "dx", type, all);
        a.dy = i % 2 == 1 ? a.dx : check_input(&k, type, all); /* in place */
        a.dgain = check_output_add(&k, "dgain", acc_type(&k), n[2]);
        a.dbias = check_output_add(&k, "dbias", acc_type(&k), n[2]);
        check_run(&k, &mega_plain_batch_norm_grad, &mega_cpu_batch_norm_grad, &a, &a.head);
    }
}

static void check_batch_norm_fixed(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("batch_norm_fixed", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_batch_norm_fixed_args a = {.rows = rows, .cols = cols, .eps = 3.0}; /* var may be as low as -2 */
    a.stats = rows % 2 == 0 ? type : acc_type(&k);
    a.gain = check_input(&k, type, cols), a.bias = check_input(&k, type, cols);
    a.mean = check_input(&k, a.stats, cols), a.var = check_input(&k, a.stats, cols);
    a.y = check_output_add(&k, "y", type, rows * cols);
    a.x = rows % 3 == 2 ? a.y : check_input(&k, type, rows * cols); /* in place */
    check_run(&k, &mega_plain_batch_norm_fixed, &mega_cpu_batch_norm_fixed, &a, &a.head);
}

static void check_batch_norm_update(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("batch_norm_update", type, "%lld x %lld", (long long)rows, (long long)cols);
    static const mega_step_block step = {.later_micro_batches = 2};
    mega_batch_norm_update_args a = {.head = {.step = &step}, .groups = rows, .rows = 9, .cols = cols, .momentum = 0.1};
    a.mean = check_input(&k, acc_type(&k), rows * cols), a.var = check_input(&k, acc_type(&k), rows * cols);
    a.sum_mean = check_output_add(&k, "sum_mean", acc_type(&k), cols);
    a.sum_var = check_output_add(&k, "sum_var", acc_type(&k), cols);
    check_run(&k, &mega_plain_batch_norm_update, &mega_cpu_batch_norm_update, &a, &a.head);
}
