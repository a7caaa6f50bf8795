/* Cases of the optimizers' kernels (optimizer_kernels.h). Part of ops_test_kernels and device_test_kernels. */

/* Numbers of the magnitude that an optimizer gives, such that no formula divides by 0 or takes the root of a negative
 * number: states are made positive. */
static void check_formula(const mega_kernel *plain, const mega_kernel *cpu, bool writes, int states, int written,
                          int from, mega_dtype type, int64_t count)
{
    static const double number[2][MEGA_FORMULA_NUMBERS] = {
        {0.01, 0.1, 0.9, 0.125, 0.95, 0.0625, 0.75, 0.25, 0.5, 0.3, 1.5, 1.25},
        {0.02, 0.2, 0.7, 0.375, 0.85, 0.1875, 0.5, 0.125, 0.25, 0.6, 0.0, 0.5}};
    for (int form = 0; form < 4; form++) {
        check k = check_begin(plain->name, type, "%lld, form %d", (long long)count, form);
        mega_formula_args a = {
            .count = count, .grad_factor = 0.7, .times = 1.0 + form, .block = update_block(&k, form - 2)};
        const mega_dtype acc = acc_type(&k);
        static const char *const names[] = {"state 0", "state 1", "state 2"};
        a.number = numbers(&k, number[form % 2], MEGA_FORMULA_NUMBERS);
        a.p = writes ? check_output_add(&k, "p", acc, count) : check_input(&k, acc, count);
        for (int s = 0; s < states; s++) {
            a.state[s] = s < written ? check_output_add(&k, names[s], acc, count) : check_input(&k, acc, count);
            void *first = s < written ? k.output[k.num_outputs - 1].initial : a.state[s];
            for (int64_t i = 0; i < count; i++) set_element(first, acc, i, (float)fabs(element(first, acc, i)) + 0.01f);
        }
        if (writes && count % 2 == 0) a.weight = check_output_add(&k, "weight", type, count);
        if (from != MEGA_FORMULA_NONE && from != MEGA_FORMULA_IN_STATE) a.g = check_input(&k, acc, count);
        double *scale = check_bytes(&k, sizeof *scale);
        *scale = 1.75;
        a.scale = form == 1 ? scale : NULL;
        check_run(&k, plain, cpu, &a, &a.head);
    }
}

#define CHECK_FORMULA(name, writes, states, written, from)                                                    \
    static void check_##name(mega_dtype type, int64_t rows, int64_t cols)                                     \
    {                                                                                                         \
        check_formula(&mega_plain_##name, &mega_cpu_##name, writes, states, written, from, type, rows *cols); \
    }
MEGA_FORMULAS(CHECK_FORMULA)

/* Of each formula: the first updates, one in the middle of every schedule and one after it, groups that share and that
 * have their own rate and decay, and a refused update. */
static void check_numbers(mega_dtype type, int64_t rows, int64_t cols)
{
#define FORMULA_ID(name, ...) MEGA_KERNEL_##name,
    static const mega_kernel_id formula[] = {MEGA_FORMULAS(FORMULA_ID) MEGA_KERNEL_adamw, MEGA_KERNEL_sgd};
    static const double updates[] = {1, 2, 7, 5000, 3};
    static const mega_update_group group[] = {{1, 1, 0}, {0.5, 0, 0}, {2, 0.3, 1}};
    for (int i = 0; i < COUNT(formula) * COUNT(updates) && rows == 1 && cols == 1; i++) {
        const double update = updates[i % COUNT(updates)];
        const int form = i % 2, groups = i % 3 == 0 ? 3 : 70;
        check k = check_begin("numbers", type, "formula %d, update %g", (int)formula[i / COUNT(updates)], update);
        mega_numbers_args a = {.groups = groups, .formula = formula[i / COUNT(updates)], .lr = 0.02};
        a.weight_decay = 0.1, a.beta1 = 0.9, a.beta2 = 0.95, a.beta3 = 0.9995, a.eps = 1e-8, a.momentum = 0.9 * form;
        a.no_bias_correction = i % 7 == 0, a.l2 = form, a.dampening = 0.2, a.nesterov = form, a.lr_decay = 0.01;
        a.initial_accumulator = 0.1, a.alpha = 5, a.alpha_steps = 100, a.warmup_steps = 10, a.r = 0.5 * form;
        a.weight_lr_power = 2.5, a.eps_inside_sqrt = form, a.muon_momentum = 0.95, a.muon_nesterov = form;
        mega_update_group *all = check_bytes(&k, (size_t)groups * sizeof *all);
        for (int g = 0; g < groups; g++) all[g] = group[g % 3];
        a.group = all;
        a.number = check_output_add(&k, "numbers", MEGA_F64, (int64_t)groups * MEGA_FORMULA_NUMBERS);
        a.block = check_output_add(&k, "block", MEGA_F64, sizeof *a.block / sizeof(double));
        mega_update_block *b = k.output[1].initial;
        b->updates = update, b->verdict = i % 11 == 10, b->carried[0] = 0.015, b->carried[1] = 3;
        k.tolerance_f32 = k.tolerance_bf16 = 1e-13;
        check_run(&k, &mega_plain_numbers, &mega_cpu_numbers, &a, &a.head);
    }
}

/* Counts around chunks, in one turn. */
static const int64_t chunk_counts[] = {0, 1, 31, 16384, 16385, 70003};

static void check_lamb_moments(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(chunk_counts) && rows == 1 && cols == 1; i++) {
        check k = check_begin("lamb_moments", type, "%lld", (long long)chunk_counts[i]);
        const mega_dtype acc = acc_type(&k);
        const double number[] = {0, i % 2 == 0 ? 1e-6 : 0, i % 2 == 0 ? 0 : 1e-6, 0.1, 0.9, 0.95};
        mega_lamb_moments_args a = {.count = chunk_counts[i], .grad_factor = 0.7};
        a.number = numbers(&k, number, COUNT(number));
        a.p = check_input(&k, acc, a.count), a.g = check_input(&k, acc, a.count), a.block = update_block(&k, i - 3);
        a.m = check_output_add(&k, "m", acc, a.count), a.v = check_output_add(&k, "v", acc, a.count);
        for (int64_t j = 0; j < a.count; j++) { /* v is a mean of squares */
            const double v = fabs(element(a.v, acc, j)) + 0.01;
            set_element(k.output[1].initial, acc, j, (float)v);
        }
        k.tolerance_f64 = 1e-12, k.sums_floats = true, k.row = a.count;
        if (i != 2) a.sums = check_output_add(&k, "sums", MEGA_F64, 2);
        check_run(&k, &mega_plain_lamb_moments, &mega_cpu_lamb_moments, &a, &a.head);
    }
}

static void check_lamb_ratio(mega_dtype type, int64_t rows, int64_t cols)
{
    static const double squares[][2] = {{4, 1}, {0, 1}, {1, 0}, {1e9, 1}, {1e-9, 1}};
    for (int i = 0; i < COUNT(squares) && rows == 1 && cols == 1; i++) {
        check k = check_begin("lamb_ratio", type, "squares %g, %g", squares[i][0], squares[i][1]);
        mega_lamb_ratio_args a = {.least = 0.01, .most = 10};
        a.ratio = check_output_add(&k, "ratio", MEGA_F64, 1);
        a.squares = memcpy(check_bytes(&k, sizeof squares[i]), squares[i], sizeof squares[i]);
        check_run(&k, &mega_plain_lamb_ratio, &mega_cpu_lamb_ratio, &a, &a.head);
    }
}

static void check_exchange(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("exchange", type, "%lld", (long long)(rows * cols));
    mega_exchange_args a = {.count = rows * cols};
    a.a = check_output_add(&k, "a", type, a.count), a.b = check_output_add(&k, "b", type, a.count);
    k.tolerance_f32 = k.tolerance_bf16 = 0.0;
    check_run(&k, &mega_plain_exchange, &mega_cpu_exchange, &a, &a.head);
}

static void check_running(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("running", type, "%lld", (long long)(rows * cols));
    mega_running_args a = {.count = rows * cols, .kept = 0.9, .added = 0.1, .block = update_block(&k, (int)cols % 4)};
    a.y = check_output_add(&k, "y", acc_type(&k), a.count), a.x = check_input(&k, acc_type(&k), a.count);
    if (rows % 2 == 0) a.weight = check_output_add(&k, "weight", type, a.count);
    check_run(&k, &mega_plain_running, &mega_cpu_running, &a, &a.head);
}

/* Counts below the mean, above it and of it. */
static void check_choice_bias(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("choice_bias", type, "%lld", (long long)(rows * cols));
    mega_choice_bias_args a = {.count = rows * cols, .rate = 0.1, .mean = 4, .block = update_block(&k, (int)cols % 4)};
    void *x = check_input(&k, acc_type(&k), a.count);
    for (int64_t i = 0; i < a.count; i++) set_element(x, acc_type(&k), i, (float)(i % 9));
    a.x = x, a.y = check_output_add(&k, "y", acc_type(&k), a.count);
    if (rows % 2 == 0) a.weight = check_output_add(&k, "weight", type, a.count);
    check_run(&k, &mega_plain_choice_bias, &mega_cpu_choice_bias, &a, &a.head);
}

static void check_state_sums(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(chunk_counts) && rows == 1 && cols == 1; i++) {
        check k = check_begin("state_sums", type, "%lld", (long long)chunk_counts[i]);
        const mega_dtype acc = acc_type(&k);
        mega_state_sums_args a = {.count = chunk_counts[i]};
        void *x = check_input(&k, acc, a.count);
        if (i == 5) set_element(x, acc, 40000, NAN);
        a.x = x;
        a.sums = check_output_add(&k, "sums", MEGA_F64, 4);
        k.tolerance_f64 = 1e-12;
        check_run(&k, &mega_plain_state_sums, &mega_cpu_state_sums, &a, &a.head);
    }
}

static void check_matrix_squares(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(chunk_counts) && rows == 1 && cols == 1; i++) {
        check k = check_begin("matrix_squares", type, "%lld", (long long)chunk_counts[i]);
        mega_matrix_squares_args a = {.count = chunk_counts[i]};
        a.x = check_input(&k, acc_type(&k), a.count);
        a.sum = check_output_add(&k, "sum", MEGA_F64, 1);
        k.tolerance_f32 = k.tolerance_bf16 = k.tolerance_f64 =
            2e-11; /* count x eps: both sum in double, in other orders */
        check_run(&k, &mega_plain_matrix_squares, &mega_cpu_matrix_squares, &a, &a.head);
    }
}

static void check_matrix_scale(mega_dtype type, int64_t rows, int64_t cols)
{
    static const double squares[] = {7.0, 0.0};
    for (int i = 0; i < COUNT(squares); i++) {
        check k = check_begin("matrix_scale", type, "%lld, squares %g", (long long)(rows * cols), squares[i]);
        mega_matrix_scale_args a = {.count = rows * cols};
        a.x = check_input(&k, acc_type(&k), a.count), a.y = check_output_add(&k, "y", acc_type(&k), a.count);
        a.squares = memcpy(check_bytes(&k, sizeof squares[i]), &squares[i], sizeof squares[i]);
        check_run(&k, &mega_plain_matrix_scale, &mega_cpu_matrix_scale, &a, &a.head);
    }
}

static void check_mirror(mega_dtype type, int64_t rows, int64_t cols)
{
    if (rows > 65) return; /* the matrix has cols x cols numbers */
    check k = check_begin("mirror", type, "%lld x %lld", (long long)cols, (long long)cols);
    mega_mirror_args a = {.size = rows == 0 ? 0 : cols};
    a.s = check_output_add(&k, "s", acc_type(&k), a.size * a.size);
    k.tolerance_f32 = k.tolerance_bf16 = 0.0;
    check_run(&k, &mega_plain_mirror, &mega_cpu_mirror, &a, &a.head);
}

static void check_polynomial(mega_dtype type, int64_t rows, int64_t cols)
{
    if (rows > 65) return; /* the matrices have cols x cols numbers */
    check k = check_begin("polynomial", type, "%lld x %lld", (long long)cols, (long long)cols);
    mega_polynomial_args a = {.size = rows == 0 ? 0 : cols, .a = 3.5, .b = -4.75, .c = 2.0};
    void *x = check_input(&k, acc_type(&k), a.size * a.size);
    for (int64_t i = 0; i < a.size; i++) /* symmetric */
        for (int64_t j = 0; j < i; j++)
            set_element(x, acc_type(&k), j * a.size + i, (float)element(x, acc_type(&k), i * a.size + j));
    a.x = x;
    k.tolerance_f64 = 1e-15; /* its terms are added in another order */
    a.s = check_output_add(&k, "s", acc_type(&k), a.size * a.size);
    check_run(&k, &mega_plain_polynomial, &mega_cpu_polynomial, &a, &a.head);
}
