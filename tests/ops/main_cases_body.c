/* Cases of the kernels that transformers use: embedding, norms, elementwise, cross-entropy, optimizers, products. Part
 * of ops_test_kernels and device_test_kernels. */

static int32_t *integers(check *k, int64_t n, int32_t lowest, int32_t count)
{
    int32_t *x = check_bytes(k, (size_t)n * sizeof *x);
    float *f = check_input(k, MEGA_F32, n);
    for (int64_t i = 0; i < n; i++) x[i] = lowest + (int32_t)(fabsf(f[i]) * 1000.0f) % count;
    return x;
}

static void check_embedding(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("embedding", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_embedding_args a = {.rows = rows, .cols = cols, .begin = 10, .table_rows = 7};
    a.ids = integers(&k, rows, 8, 11); /* 8 to 18: some are not held */
    a.table = check_input(&k, type, 7 * cols);
    a.addend = rows % 2 == 1 ? check_input(&k, type, rows * cols) : NULL;
    a.y = check_output_add(&k, "y", type, rows * cols);
    check_run(&k, &mega_plain_embedding, &mega_cpu_embedding, &a, &a.head);
}

/* Also a batch of one id, as padding is, and of two: their sums are shared by the blocks of a GPU. */
static void check_embedding_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    static const struct {
        const char *name;
        int64_t more;
        int32_t lowest, count;
    } ids[] = {{"ids", 0, 8, 11}, {"one id", 192, 12, 1}, {"two ids", 192, 15, 2}};
    for (int i = 0; i < COUNT(ids); i++) {
        const int64_t n = rows > 0 ? rows + ids[i].more : 0;
        check k = check_begin("embedding_grad", type, "%lld x %lld, %s", (long long)n, (long long)cols, ids[i].name);
        mega_embedding_grad_args a = {.rows = n, .cols = cols, .begin = 10, .table_rows = 7};
        a.ids = integers(&k, n, ids[i].lowest, ids[i].count);
        void *dy = check_input(&k, type, n * cols);
        for (int64_t e = 0; e < n * cols && i > 0; e++) /* long sums, of which nothing cancels */
            set_element(dy, type, e, fabs(element(dy, type, e)));
        a.dy = dy;
        a.dtable = check_output_add(&k, "dtable", acc_type(&k), 7 * cols);
        check_run(&k, &mega_plain_embedding_grad, &mega_cpu_embedding_grad, &a, &a.head);
    }
}

/* Forms of both norms: which operands there are. */
static const struct norm_case {
    const char *name;
    bool rms, gain, bias, plus_one;
} norm_cases[] = {{"layer norm", false, true, true, false},        {"without bias", false, true, false, false},
                  {"without both", false, false, false, false},    {"layer norm, 1 + gain", false, true, true, true},
                  {"rms norm", true, true, false, false},          {"rms norm, 1 + gain", true, true, false, true},
                  {"rms norm, no gain", true, false, false, false}};

static void check_layer_norm(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(norm_cases); i++) {
        const struct norm_case *n = &norm_cases[i];
        check k = check_begin("layer_norm", type, "%lld x %lld, %s", (long long)rows, (long long)cols, n->name);
        mega_layer_norm_args a = {.rows = rows, .cols = cols, .eps = 1e-5, .rms = n->rms, .plus_one = n->plus_one};
        a.x = check_input(&k, type, rows * cols);
        a.gain = n->gain ? check_input(&k, type, cols) : NULL, a.bias = n->bias ? check_input(&k, type, cols) : NULL;
        a.y = check_output_add(&k, "y", type, rows * cols);
        a.mean = n->rms ? NULL : check_output_add(&k, "mean", acc_type(&k), rows);
        a.rstd = check_output_add(&k, "rstd", acc_type(&k), rows);
        check_run(&k, &mega_plain_layer_norm, &mega_cpu_layer_norm, &a, &a.head);
    }
}

static void check_layer_norm_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(norm_cases); i++) {
        const struct norm_case *n = &norm_cases[i];
        check k = check_begin("layer_norm_grad", type, "%lld x %lld, %s", (long long)rows, (long long)cols, n->name);
        mega_layer_norm_grad_args a = {.rows = rows, .cols = cols, .rms = n->rms, .plus_one = n->plus_one};
        a.x = check_input(&k, type, rows * cols), a.gain = n->gain ? check_input(&k, type, cols) : NULL;
        a.mean = n->rms ? NULL : check_input(&k, acc_type(&k), rows), a.rstd = check_input(&k, acc_type(&k), rows);
        a.addend = rows % 2 == 1 ? check_input(&k, type, rows * cols) : NULL;
        a.dx = check_output_add(&k, "dx", type, rows * cols);
        a.dy = rows % 3 == 2 ? a.dx : check_input(&k, type, rows * cols); /* in place */
        a.dgain = n->gain ? check_output_add(&k, "dgain", acc_type(&k), cols) : NULL;
        a.dbias = n->bias ? check_output_add(&k, "dbias", acc_type(&k), cols) : NULL;
        check_run(&k, &mega_plain_layer_norm_grad, &mega_cpu_layer_norm_grad, &a, &a.head);
    }
}

static void check_gelu(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 2; form++) {
        check k = check_begin("gelu", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        mega_gelu_args a = {.rows = rows, .cols = cols, .tanh_form = form == 0};
        float *x = check_input(&k, MEGA_F32, rows * cols);
        a.bias = rows % 2 == 1 ? check_input(&k, type, cols) : NULL;
        a.y = check_output_add(&k, "y", type, rows * cols);
        void *wide = check_bytes(&k, (size_t)(rows * cols) * 8);
        for (int64_t i = 0; i < rows * cols; i++) set_element(wide, type, i, 3.0f * x[i]); /* into both tails */
        a.x = wide;
        check_run(&k, &mega_plain_gelu, &mega_cpu_gelu, &a, &a.head);
    }
}

static void check_gelu_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 2; form++) {
        check k = check_begin("gelu_grad", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        mega_gelu_grad_args a = {.rows = rows, .cols = cols, .tanh_form = form == 0};
        a.x = check_input(&k, type, rows * cols);
        a.dx = check_output_add(&k, "dx", type, rows * cols);
        a.dy = rows % 3 == 2 ? a.dx : check_input(&k, type, rows * cols);
        if (rows % 2 == 1) {
            a.bias = check_input(&k, type, cols);
            a.dbias = check_output_add(&k, "dbias", acc_type(&k), cols);
        }
        check_run(&k, &mega_plain_gelu_grad, &mega_cpu_gelu_grad, &a, &a.head);
    }
}

static const mega_step_block step_block = {.seed = 5, .step = 3, .loss_factor = 0.5};

static void samples(check *k, int64_t rows, const uint32_t **sample, const int32_t **position)
{
    *sample = (uint32_t *)integers(k, rows, 1000000, 500);
    *position = integers(k, rows, 0, 2048);
}

static void check_dropout_add(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 3;
         form++) { /* without dropout; everything; dropout alone, whose zeros must be the same */
        check k = check_begin("dropout_add", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        mega_dropout_add_args a = {
            .rows = rows, .cols = cols, .dropout = form > 0 ? 0.1 + 0.4 * (form - 1) : 0.0, .site = 9};
        if (form > 0) samples(&k, rows, &a.sample_id, &a.seq_position);
        a.bias = form < 2 ? check_input(&k, type, cols) : NULL;
        a.y = check_output_add(&k, "y", type, rows * cols);
        a.x = rows % 3 == 2 ? a.y : check_input(&k, type, rows * cols);
        a.residual = form < 2 ? check_input(&k, type, rows * cols) : NULL;
        a.head.step = &step_block;
        k.same_zeros = form == 2;
        check_run(&k, &mega_plain_dropout_add, &mega_cpu_dropout_add, &a, &a.head);
    }
}

static void check_dropout_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 3; form++) {
        check k = check_begin("dropout_grad", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        mega_dropout_grad_args a = {.rows = rows, .cols = cols, .dropout = form > 0 ? 0.3 : 0.0, .site = 9};
        if (form > 0) samples(&k, rows, &a.sample_id, &a.seq_position);
        a.dx = check_output_add(&k, "dx", type, rows * cols);
        a.dy = rows % 3 == 2 ? a.dx : check_input(&k, type, rows * cols);
        if (form < 2) a.dbias = check_output_add(&k, "dbias", acc_type(&k), cols);
        a.head.step = &step_block;
        k.same_zeros = form == 2;
        check_run(&k, &mega_plain_dropout_grad, &mega_cpu_dropout_grad, &a, &a.head);
    }
}

static void check_column_sum(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("column_sum", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_column_sum_args a = {.rows = rows, .cols = cols};
    a.x = check_input(&k, type, rows * cols);
    a.sum = check_output_add(&k, "sum", acc_type(&k), cols);
    check_run(&k, &mega_plain_column_sum, &mega_cpu_column_sum, &a, &a.head);
}

static void check_add(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("add", type, "%lld", (long long)(rows * cols));
    mega_add_args a = {.count = rows * cols};
    a.y = check_output_add(&k, "y", type, rows * cols);
    a.a = rows % 3 == 2 ? a.y : check_input(&k, type, rows * cols);
    a.b = check_input(&k, type, rows * cols);
    check_run(&k, &mega_plain_add, &mega_cpu_add, &a, &a.head);
}

static void check_masked_sum(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 2; form++) {
        check k = check_begin("masked_sum", type, "%lld", (long long)(rows * cols));
        mega_masked_sum_args a = {.count = rows * cols};
        a.x = form == 0 ? check_input(&k, acc_type(&k), rows * cols) : NULL;
        a.mask = check_input(&k, MEGA_F32, rows * cols);
        a.out = check_output_add(&k, "out", acc_type(&k), 1);
        check_run(&k, &mega_plain_masked_sum, &mega_cpu_masked_sum, &a, &a.head);
    }
}

static void check_convert(mega_dtype type, int64_t rows, int64_t cols)
{
    static const mega_dtype all[] = {MEGA_F32, MEGA_BF16, MEGA_F64, MEGA_F16};
    for (int pair = 0; pair < 16; pair++) {
        check k = check_begin("convert", type, "%lld, pair %d", (long long)(rows * cols), pair);
        mega_convert_args a = {
            .count = rows * cols, .dst_dtype = all[pair / 4], .src_dtype = all[pair % 4], .scale = 0.25};
        a.src = check_input(&k, a.src_dtype, rows * cols);
        a.dst = check_output_add(&k, "dst", a.dst_dtype, rows * cols);
        k.tolerance_f32 = k.tolerance_bf16 = 0.0; /* a power of two times a number: one rounding in both forms */
        check_run(&k, &mega_plain_convert, &mega_cpu_convert, &a, &a.head);
    }
}

/* form 0: with a factor; 1: one that refuses the update; others: none. */
static const mega_update_block *update_block(check *k, int form)
{
    const mega_update_block block = {.grad_factor = -0.6, .verdict = form};
    if (form < 0 || form > 1) return NULL;
    return memcpy(check_bytes(k, sizeof block), &block, sizeof block);
}

static const double *numbers(check *k, const double *from, size_t count)
{
    return memcpy(check_bytes(k, count * sizeof *from), from, count * sizeof *from);
}

static void check_adamw(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 4; form++) {
        check k = check_begin("adamw", type, "%lld, form %d", (long long)(rows * cols), form);
        static const double third[] = {1 - 0.9 * 0.9 * 0.9, 1 - 0.95 * 0.95 * 0.95, 0.01, 0.1, 0.9, 0.95};
        mega_adamw_args a = {.count = rows * cols, .eps = 1e-8, .number = numbers(&k, third, COUNT(third))};
        a.grad_factor = 0.7, a.l2 = form == 1, a.block = update_block(&k, form - 2);
        a.p = check_output_add(&k, "p", acc_type(&k), a.count);
        a.m = check_output_add(&k, "m", acc_type(&k), a.count);
        a.v = check_output_add(&k, "v", acc_type(&k), a.count);
        if (rows % 2 == 0) a.weight = check_output_add(&k, "weight", type, a.count);
        a.g = check_input(&k, acc_type(&k), a.count);
        for (int64_t i = 0; i < a.count; i++) { /* v is a mean of squares */
            const double v = fabs(element(a.v, acc_type(&k), i)) + 0.01;
            set_element(k.output[2].initial, acc_type(&k), i, (float)v);
        }
        check_run(&k, &mega_plain_adamw, &mega_cpu_adamw, &a, &a.head);
    }
}

static void check_sgd(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int form = 0; form < 4; form++) {
        check k = check_begin("sgd", type, "%lld, form %d", (long long)(rows * cols), form);
        const double number[] = {form == 1, 0.01, 0.1};
        mega_sgd_args a = {.count = rows * cols, .mu = 0.9, .grad_factor = 0.7};
        a.number = numbers(&k, number, COUNT(number)), a.block = update_block(&k, form - 2);
        a.p = check_output_add(&k, "p", acc_type(&k), a.count);
        a.momentum = check_output_add(&k, "momentum", acc_type(&k), a.count);
        if (rows % 2 == 0) a.weight = check_output_add(&k, "weight", type, a.count);
        a.g = check_input(&k, acc_type(&k), a.count);
        check_run(&k, &mega_plain_sgd, &mega_cpu_sgd, &a, &a.head);
    }
}

static void check_norm(mega_dtype type, int64_t rows, int64_t cols)
{
    static const int64_t counts[] = {0, 1, 31, 65536, 65537, 200003};
    for (int i = 0; i < COUNT(counts) && rows == 1 && cols == 1; i++) {
        check k = check_begin("norm", type, "%lld", (long long)counts[i]);
        mega_norm_args a = {.count = counts[i], .adds = i % 2 == 1};
        float *x = check_input(&k, MEGA_F32, counts[i]);
        if (i == 2) x[3] = x[30] = 0.0f; /* in a vector and after the last whole one */
        if (i == 5) x[7] = INFINITY, x[70000] = NAN, x[200002] = -INFINITY;
        void *typed = check_bytes(&k, (size_t)counts[i] * 8);
        for (int64_t j = 0; j < counts[i]; j++) set_element(typed, acc_type(&k), j, x[j]);
        a.x = typed;
        a.out = check_output_add(&k, "out", MEGA_F64, 3);
        k.tolerance_f32 = k.tolerance_bf16 = 2e-11; /* count x eps: both sum in double, in other orders */
        check_run(&k, &mega_plain_norm, &mega_cpu_norm, &a, &a.head);
    }
}

static void check_zero(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("zero", type, "%lld", (long long)(rows * cols));
    mega_zero_args a = {.count = rows * cols};
    a.x = check_output_add(&k, "x", type, a.count);
    k.tolerance_f32 = k.tolerance_bf16 = 0.0;
    check_run(&k, &mega_plain_zero, &mega_cpu_zero, &a, &a.head);
}

static void check_accumulate(mega_dtype type, int64_t rows, int64_t cols)
{
    const mega_dtype held[] = {type == MEGA_F64 ? MEGA_F64 : MEGA_F32, MEGA_BF16, MEGA_F16};
    for (int form = 0; form < 6; form++) {
        check k = check_begin("accumulate", type, "%lld, form %d", (long long)(rows * cols), form);
        mega_accumulate_args a = {.count = rows * cols, .y_dtype = held[form / 2], .overwrites = form % 2 == 1};
        a.y = check_output_add(&k, "y", a.y_dtype, a.count);
        a.x = check_input(&k, acc_type(&k), a.count);
        k.tolerance_f32 = k.tolerance_bf16 = 0.0; /* of two floats a double has the sum, which is rounded once */
        check_run(&k, &mega_plain_accumulate, &mega_cpu_accumulate, &a, &a.head);
    }
}

static void check_loss_add(mega_dtype type, int64_t rows, int64_t cols)
{
    static const float sums[] = {6, 6, INFINITY, 6, 0}, weights[] = {4, 0, 4, NAN, 3};
    for (int form = 0; form < 3 * COUNT(sums) && rows == 1 && cols == 1; form++) {
        check k = check_begin("loss_add", type, "form %d", form);
        mega_loss_add_args a = {.times = 3, .per_token = form % 3 == 1, .is_more = form % 3 == 2};
        void *sum = check_input(&k, acc_type(&k), 1), *weight = check_input(&k, acc_type(&k), 1);
        set_element(sum, acc_type(&k), 0, sums[form / 3]), set_element(weight, acc_type(&k), 0, weights[form / 3]);
        a.sums = check_output_add(&k, "sums", MEGA_F64, 2), a.sum = sum, a.weight = weight;
        k.tolerance_f32 = k.tolerance_bf16 = 0.0;
        check_run(&k, &mega_plain_loss_add, &mega_cpu_loss_add, &a, &a.head);
    }
}

/* Losses by their sums: of one that does not count only the number is looked at, one may have no weight, and their sum
 * may be what is not finite. */
static void check_check_losses(mega_dtype type, int64_t rows, int64_t cols)
{
    static const struct {
        double sums[6], coefficient[3], positions;
    } of[] = {{{3, 2, 5, 4, 7, 8}, {0, 0.5, 2}, 0},    {{3, 2, 5, 4, 7, 8}, {0, 0.5, 2}, 12},
              {{3, 0, 5, 4, 0, 0}, {1, 0.5, 2}, 12},   {{NAN, 2, 5, 4, 7, 8}, {0, 0.5, 2}, 12},
              {{3, 2, 5, 4, NAN, 8}, {0, 0.5, 2}, 12}, {{1e308, 1, 1e308, 1, 7, 8}, {1, 1, 2}, 0}};
    for (int i = 0; i < COUNT(of) && rows == 1 && cols == 1; i++) {
        check k = check_begin("check", type, "losses %d", i);
        mega_check_args a = {.loss = NAN, .clip = 1, .lr = 0.1, .correction = 0.5};
        double *sums = check_bytes(&k, sizeof of[i].sums);
        memcpy(sums, of[i].sums, sizeof of[i].sums);
        a.losses = (mega_check_losses){.sums = sums, .count = 3, .positions = of[i].positions};
        memcpy(a.losses.coefficient, of[i].coefficient, sizeof of[i].coefficient);
        a.block = check_output_add(&k, "block", MEGA_F64, sizeof *a.block / sizeof(double));
        mega_update_block *b = k.output[0].initial;
        *b = (mega_update_block){.squares = 36, .zeros = 7, .updates = 11};
        k.tolerance_f32 = k.tolerance_bf16 = 0.0;
        check_run(&k, &mega_plain_check, &mega_cpu_check, &a, &a.head);
    }
}

/* One for each verdict, with and without clipping, and one whose verdict is of an earlier step. */
static void check_check(mega_dtype type, int64_t rows, int64_t cols)
{
    static const struct {
        double not_finite, verdict, loss, clip, lr, weight_decay, correction;
    } of[] = {{0, 0, 2, 0, 0.1, 0.1, 0.5}, {0, 0, 2, 1, 0.1, 0.1, 0.5}, {0, 0, 2, 90, 0, 0.1, 0.5},
              {0, 0, NAN, 1, 1, 0, 1},     {2, 0, 2, 1, 1, 0, 1},       {2, 0, INFINITY, 1, 1, 0, 1},
              {0, 2, 2, 1, 1, 0, 1},       {0, 0, 2, 1, -1, 0, 1},      {0, 0, 2, 1, NAN, 0, 1},
              {0, 0, 2, 1, 1, -1e39, 0.5}, {0, 0, 2, 0, 1, 0, 1e39}};
    for (int i = 0; i < COUNT(of) && rows == 1 && cols == 1; i++) {
        check k = check_begin("check", type, "case %d", i);
        mega_check_args a = {.loss = of[i].loss, .clip = of[i].clip, .lr = of[i].lr};
        a.weight_decay = of[i].weight_decay, a.correction = of[i].correction;
        a.block = check_output_add(&k, "block", MEGA_F64, sizeof *a.block / sizeof(double));
        mega_update_block *b = k.output[0].initial;
        b->squares = 36, b->zeros = 7, b->not_finite = of[i].not_finite;
        b->updates = 11, b->verdict = of[i].verdict;
        k.tolerance_f32 = k.tolerance_bf16 = 0.0;
        check_run(&k, &mega_plain_check, &mega_cpu_check, &a, &a.head);
    }
    check_check_losses(type, rows, cols);
}

/* rows x cols logits, some of whose last columns are padding; leading dimension beyond that. */
static void check_xent_in_parts(const char *name, mega_dtype type, int64_t rows, int64_t cols)
{
    const int64_t ld = cols + 3, padding = cols > 4 ? 3 : 0;
    for (int form = 0; form < 3; form++) {
        check k = check_begin(name, type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        const mega_dtype acc = acc_type(&k);
        void *logits = check_input(&k, acc, rows * ld), *row_max = check_bytes(&k, (size_t)rows * 8);
        void *sums = check_bytes(&k, (size_t)rows * 16);
        const int32_t *labels = integers(&k, rows, 100, (int32_t)(cols + 2)); /* the last ones are not held */
        mega_xent_max_args m = {.row_max = row_max, .logits = logits, .rows = rows, .valid = cols - padding, .ld = ld};
        mega_xent_sum_args s = {.sums = sums, .logits = logits, .row_max = row_max, .labels = labels};
        s.rows = rows, s.valid = cols - padding, s.ld = ld, s.begin = 100;
        m.head.dtype = s.head.dtype = type;
        if (strcmp(name, "xent_max") == 0) {
            if (form == 1 && rows > 0 && cols > 0) set_element(logits, acc, (rows - 1) * ld, NAN);
            m.row_max = check_output_add(&k, "row_max", acc, rows);
            check_run(&k, &mega_plain_xent_max, &mega_cpu_xent_max, &m, &m.head);
            continue;
        }
        mega_plain_xent_max.run(NULL, &m);
        if (strcmp(name, "xent_sum") == 0) {
            s.sums = check_output_add(&k, "sums", acc, 2 * rows);
            check_run(&k, &mega_plain_xent_sum, &mega_cpu_xent_sum, &s, &s.head);
            continue;
        }
        mega_plain_xent_sum.run(NULL, &s);
        mega_xent_grad_args g = {.logits = logits, .row_max = row_max, .sums = sums, .labels = labels};
        g.rows = rows, g.cols = cols, g.valid = cols - padding, g.ld = ld, g.begin = 100;
        g.loss_mask = check_input(&k, MEGA_F32, rows);
        g.denominator = form == 0 ? NULL : check_input(&k, acc, 1);
        g.loss = check_output_add(&k, "loss", acc, rows);
        if (form < 2) g.dlogits = check_output_add(&k, "dlogits", type, rows * ld);
        if (form == 1 && type == acc) { /* in place */
            memcpy(k.output[1].initial, logits, (size_t)(rows * ld) * mega_dtype_size(acc));
            g.logits = g.dlogits;
        }
        g.head.step = &step_block, g.coefficient = form == 0 ? 1.0 : -0.3;
        check_run(&k, &mega_plain_xent_grad, &mega_cpu_xent_grad, &g, &g.head);
    }
}

static void check_xent_max(mega_dtype type, int64_t rows, int64_t cols)
{
    check_xent_in_parts("xent_max", type, rows, cols);
}

static void check_xent_sum(mega_dtype type, int64_t rows, int64_t cols)
{
    check_xent_in_parts("xent_sum", type, rows, cols);
    if (rows == 1 && cols == 1) check_xent_in_parts("xent_sum", type, 3, 5003); /* several runs */
}

static void check_xent_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check_xent_in_parts("xent_grad", type, rows, cols);
}

static void check_xent(mega_dtype type, int64_t rows, int64_t cols)
{
    const int64_t ld = cols + 3, padding = cols > 4 ? 3 : 0;
    for (int form = 0; form < 4; form++) {
        check k = check_begin("xent", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, form);
        const mega_dtype acc = acc_type(&k);
        mega_xent_args a = {.rows = rows, .cols = cols, .valid = cols - padding, .ld = ld, .begin = 100};
        a.logits = check_input(&k, acc, rows * ld);
        a.labels = integers(&k, rows, 100, (int32_t)(cols + 2)); /* the last ones are not held */
        a.loss_mask = check_input(&k, MEGA_F32, rows);
        a.denominator = form == 0 ? NULL : check_input(&k, acc, 1);
        a.loss = check_output_add(&k, "loss", acc, rows);
        if (form != 2) a.dlogits = check_output_add(&k, "dlogits", type, rows * ld);
        if (form == 1 && type == acc) { /* in place */
            memcpy(k.output[1].initial, a.logits, (size_t)(rows * ld) * mega_dtype_size(acc));
            a.logits = a.dlogits;
        }
        if (form == 3 && rows > 1) { /* a row that begins with a run of what is masked, and one with a NaN */
            for (int64_t v = 0; v < 2048 && cols > 4096; v++)
                set_element((void *)(uintptr_t)a.logits, acc, v, -INFINITY);
            set_element((void *)(uintptr_t)a.logits, acc, (rows - 1) * ld, NAN);
        }
        a.head.step = &step_block, a.coefficient = form == 0 ? 1.0 : -0.3;
        check_run(&k, &mega_plain_xent, &mega_cpu_xent, &a, &a.head);
    }
    if (rows == 1 && cols == 1) check_xent(type, 3, 5003); /* several runs */
}

/* m, n, k: nothing, one, few rows, odd, a slice for each of three threads, past a block of k, past packed rows of k and
 * packed columns. */
static const int64_t products[][3] = {{0, 4, 4},      {4, 0, 4},      {3, 5, 0},      {1, 1, 1},       {1, 33, 70},
                                      {4, 50, 64},    {5, 7, 3},      {9, 1, 40},     {17, 33, 9},     {64, 96, 32},
                                      {130, 70, 385}, {200, 193, 70}, {40, 203, 530}, {5, 1540, 1030}, {6, 1540, 4203}};

static void check_gemm_form(mega_dtype type, const int64_t *p, bool trans_a, bool trans_b, bool accumulate, bool wide)
{
    check k = check_begin("gemm", type, "%lld x %lld x %lld, trans %d %d, accumulate %d, wide %d", (long long)p[0],
                          (long long)p[1], (long long)p[2], trans_a, trans_b, accumulate, wide);
    mega_gemm_args a = {.m = p[0], .n = p[1], .k = p[2], .trans_a = trans_a, .trans_b = trans_b};
    a.accumulate = accumulate;
    static const mega_step_block first = {.first_micro_batch = true}, later = {.first_micro_batch = false};
    a.first_in_step = p[0] % 2 == 0;
    a.head.step = p[1] % 2 == 0 ? &first : &later;
    a.lda = (trans_a ? a.m : a.k) + 2, a.ldb = (trans_b ? a.k : a.n) + 1, a.ldc = a.n + 3;
    a.a = check_input(&k, type, (trans_a ? a.k : a.m) * a.lda);
    a.b = check_input(&k, type, (trans_b ? a.n : a.k) * a.ldb);
    a.bias = !accumulate && p[0] % 2 == 1 ? check_input(&k, type, a.n) : NULL;
    a.c_dtype = wide ? acc_type(&k) : type;
    a.c = check_output_add(&k, "c", a.c_dtype, a.m * a.ldc);
    k.row = a.ldc;
    if (!accumulate && p[1] % 3 != 0) a.residual = p[1] % 2 == 0 ? a.c : check_input(&k, a.c_dtype, a.m * a.ldc);
    if (trans_a) a.row_sum = check_output_add(&k, "row_sum", acc_type(&k), a.m);
    /* Sums of k products in float: rounding grows like sqrt(k) eps, at most 4e-6 here. A wide result of bf16 factors is
     * as exact; a bf16 result is rounded. */
    k.tolerance_f32 = 4e-6;
    k.tolerance_bf16 = wide ? 4e-6 : 4e-3;
    check_run(&k, &mega_plain_gemm, &mega_cpu_gemm, &a, &a.head);
}

/* What is above the diagonal of a product of which only the lower half is wanted is not compared. */
static void clear_upper(const mega_gemm_args *a)
{
    const size_t size = mega_dtype_size(a->c_dtype);
    for (int64_t m = 0; m < a->m; m++)
        memset((char *)a->c + (size_t)(m * a->ldc + m + 1) * size, 0, (size_t)(a->n - m - 1) * size);
}

static void plain_lower(const mega_queue *queue, const void *args)
{
    mega_plain_gemm.run(queue, args);
    clear_upper(args);
}

static void cpu_lower(const mega_queue *queue, const void *args)
{
    mega_cpu_gemm.run(queue, args);
    clear_upper(args);
}

/* a a' and a' a, past blocks of rows, of k and of packed columns. The squares on the diagonal add up without
 * cancelling: where a sum of some thousands of them is one chain of roundings, these have a direction, and the longest
 * ones differ by more than is allowed. */
static void check_gemm_lower(mega_dtype type, int64_t size, int64_t depth, bool trans)
{
    check k = check_begin("gemm", type, "%lld x %lld, lower, trans %d", (long long)size, (long long)depth, trans);
    mega_kernel plain = mega_plain_gemm, cpu = mega_cpu_gemm;
    plain.run = plain_lower;
    cpu.run = cpu_lower;
    mega_gemm_args a = {.m = size, .n = size, .k = depth, .trans_a = trans, .trans_b = !trans, .lower = true};
    a.lda = a.ldb = (trans ? size : depth) + 1, a.ldc = size;
    a.c_dtype = type == MEGA_F64 ? type : MEGA_F32;
    a.a = a.b = check_input(&k, type, (trans ? depth : size) * a.lda);
    a.c = check_output_add(&k, "c", a.c_dtype, size * size);
    k.row = size;
    k.tolerance_f32 = k.tolerance_bf16 = 4e-6;
    check_run(&k, &plain, &cpu, &a, &a.head);
}

static void check_gemm(mega_dtype type, int64_t rows, int64_t cols)
{
    static const int64_t lower[][2] = {{1, 3},     {7, 40},   {97, 64},   {250, 70},
                                       {33, 1300}, {1600, 9}, {33, 8192}, {14, 4101}};
    if (rows != 1 || cols != 1) return;
    for (int i = 0; i < COUNT(lower); i++)
        if (type == MEGA_F32 || lower[i][0] < 1000) check_gemm_lower(type, lower[i][0], lower[i][1], i % 2);
    for (int i = 0; i < COUNT(products); i++) {
        const bool is_large = products[i][2] > 1000 || (is_slow && products[i][0] * products[i][1] > 5000);
        for (int form = 0; form < 16; form += is_large ? 5 : 1) /* the largest in four of its forms */
            if (type != MEGA_F64 || products[i][2] < 1000) /* (no blocks there to go past: F64 is the definition) */
                check_gemm_form(type, products[i], form & 1, form & 2, form & 4, form & 8);
    }
}
