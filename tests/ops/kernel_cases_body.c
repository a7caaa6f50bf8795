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
