/* Cases of the kernels of a router. Part of ops_test_kernels and device_test_kernels. */

/* Options for a number of experts: every score, with and without a bias, groups where the experts can be cut. */
static const struct route_case {
    const char *name;
    mega_route_score score;
    bool normalized, has_bias, has_groups;
} route_cases[] = {{"softmax", MEGA_ROUTE_SOFTMAX, false, false, false},
                   {"softmax normalized", MEGA_ROUTE_SOFTMAX, true, false, true},
                   {"of chosen", MEGA_ROUTE_SOFTMAX_OF_CHOSEN, false, false, false},
                   {"of chosen, bias", MEGA_ROUTE_SOFTMAX_OF_CHOSEN, false, true, true},
                   {"of near", MEGA_ROUTE_SOFTMAX_OF_NEAR, false, false, false},
                   {"sigmoid", MEGA_ROUTE_SIGMOID, false, false, false},
                   {"sigmoid, bias", MEGA_ROUTE_SIGMOID, true, true, true}};

static mega_route_options route_options(const struct route_case *c, int64_t experts)
{
    mega_route_options o = {.score = c->score, .normalized = c->normalized, .choices = experts < 9 ? experts : 8};
    if (c->score == MEGA_ROUTE_SOFTMAX_OF_NEAR) o.margin = 0.37, o.scale = 1.25;
    if (c->normalized) o.epsilon = 1e-20, o.scale = 2.5;
    if (!c->has_groups || experts % 4 != 0) return o;
    o.groups = 4, o.chosen_groups = 2;
    o.group_best = c->has_bias && experts >= 8 ? 2 : 1;
    if (o.choices > experts / 2) o.choices = experts / 2;
    return o;
}

/* Logits of which some are equal; the last row has a NaN, but not where bits are compared (device_test_bits), because
 * compilers differ in the sign of the NaN that comes of two. */
static void *route_logits(check *k, mega_dtype type, int64_t rows, int64_t experts)
{
    void *x = check_input(k, type, rows * experts);
    for (int64_t i = 0; i < rows * experts; i += 3) set_element(x, type, i, i % 2 == 0 ? 1.5f : -1.0f);
    if (rows > 2 && getenv("MEGA_SOFTWARE_CUDA_SUMS") == NULL) set_element(x, type, rows * experts - 1, NAN);
    return x;
}

static void check_route(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 3 * COUNT(route_cases); i++) {
        const struct route_case *c = &route_cases[i / 3];
        const bool by_keys = i % 3 == 2;
        check k =
            check_begin("route", type, "%lld x %lld, %s, form %d", (long long)rows, (long long)cols, c->name, i % 3);
        mega_route_args a = {.rows = rows, .experts = cols, .options = route_options(c, cols)};
        if (by_keys) a.options.groups = a.options.chosen_groups = a.options.group_best = 0;
        const int64_t chosen = rows * a.options.choices;
        a.logits_dtype = i % 3 == 1 ? acc_type(&k) : type;
        a.logits = route_logits(&k, a.logits_dtype, rows, cols);
        a.keys = by_keys ? route_logits(&k, acc_type(&k), rows, cols) : NULL;
        a.bias = c->has_bias && !by_keys ? check_input(&k, acc_type(&k), cols) : NULL;
        a.choice = check_output_add(&k, "choice", MEGA_I32, chosen);
        a.weight = check_output_add(&k, "weight", acc_type(&k), chosen);
        a.share = check_output_add(&k, "share", acc_type(&k), rows * cols);
        check_run(&k, &mega_plain_route, &mega_cpu_route, &a, &a.head);
    }
}

/* Choices of a token that differ: consecutive experts from a random one on. */
static int32_t *route_choices(check *k, int64_t rows, int64_t experts, int64_t choices)
{
    const int32_t *first = integers(k, rows, 0, (int32_t)experts);
    int32_t *choice = check_bytes(k, (size_t)(rows * choices) * sizeof *choice);
    for (int64_t i = 0; i < rows * choices; i++) choice[i] = (int32_t)((first[i / choices] + i % choices) % experts);
    return choice;
}

static void check_route_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 3 * COUNT(route_cases); i++) {
        const struct route_case *c = &route_cases[i / 3];
        check k = check_begin("route_grad", type, "%lld x %lld, %s, form %d", (long long)rows, (long long)cols, c->name,
                              i % 3);
        mega_route_grad_args a = {.rows = rows, .experts = cols, .options = route_options(c, cols)};
        a.logits_dtype = i % 3 == 1 ? acc_type(&k) : type;
        a.logits = route_logits(&k, a.logits_dtype, rows, cols);
        a.choice = route_choices(&k, rows, cols, a.options.choices);
        a.dweight = i % 3 != 2 ? check_input(&k, acc_type(&k), rows * a.options.choices) : NULL;
        a.dshare = i % 3 != 1 ? check_input(&k, acc_type(&k), rows * cols) : NULL;
        a.dlogits = check_output_add(&k, "dlogits", type, rows * cols);
        check_run(&k, &mega_plain_route_grad, &mega_cpu_route_grad, &a, &a.head);
    }
}

static void check_route_jitter(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("route_jitter", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_route_jitter_args a = {.rows = rows, .cols = cols, .jitter = 0.3, .site = 9};
    samples(&k, rows, &a.sample_id, &a.seq_position);
    a.y = check_output_add(&k, "y", type, rows * cols);
    a.x = rows % 3 == 2 ? a.y : check_input(&k, type, rows * cols);
    a.head.step = &step_block;
    check_run(&k, &mega_plain_route_jitter, &mega_cpu_route_jitter, &a, &a.head);
}

/* All rows as one group, and three groups of them. */
static void check_route_balance(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 2; i++) {
        check k = check_begin("route_balance", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, i);
        mega_route_balance_args a = {.groups = rows == 0 ? 0 : 1 + 2 * i, .rows = rows, .experts = cols};
        const int64_t tokens = a.groups * rows;
        a.choices = cols < 5 ? cols : 5, a.counted = i == 0 ? a.choices : 1;
        a.share = check_input(&k, acc_type(&k), tokens * cols);
        a.choice = route_choices(&k, tokens, cols, a.choices);
        a.loss = check_output_add(&k, "loss", acc_type(&k), a.groups);
        a.fraction = check_output_add(&k, "fraction", acc_type(&k), a.groups * cols);
        k.tolerance_f32 = 2e-5; /* terms of both signs */
        check_run(&k, &mega_plain_route_balance, &mega_cpu_route_balance, &a, &a.head);
    }
}

static void check_route_balance_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("route_balance_grad", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_route_balance_grad_args a = {.groups = rows == 0 ? 0 : 3, .rows = rows, .experts = cols};
    a.dloss = check_input(&k, acc_type(&k), a.groups), a.fraction = check_input(&k, acc_type(&k), a.groups * cols);
    a.dshare = check_output_add(&k, "dshare", acc_type(&k), a.groups * rows * cols);
    check_run(&k, &mega_plain_route_balance_grad, &mega_cpu_route_balance_grad, &a, &a.head);
}

static void check_route_load(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("route_load", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_route_load_args a = {.groups = rows, .experts = cols};
    void *fraction = check_input(&k, acc_type(&k), rows * cols);
    for (int64_t i = 0; i < rows * cols; i++)
        set_element(fraction, acc_type(&k), i, i % 5 == 0 ? 0.0f : (float)fabs(element(fraction, acc_type(&k), i)));
    a.fraction = fraction;
    a.fullest = check_output_add(&k, "fullest", acc_type(&k), rows);
    a.emptiest = check_output_add(&k, "emptiest", acc_type(&k), rows);
    a.entropy = check_output_add(&k, "entropy", acc_type(&k), rows);
    check_run(&k, &mega_plain_route_load, &mega_cpu_route_load, &a, &a.head);
}

static void check_route_count(mega_dtype type, int64_t rows, int64_t cols)
{
    check k = check_begin("route_count", type, "%lld x %lld", (long long)rows, (long long)cols);
    mega_route_count_args a = {.rows = rows, .experts = cols, .choices = cols < 5 ? cols : 5};
    a.choice = route_choices(&k, rows, cols, a.choices);
    a.counts = check_output_add(&k, "counts", acc_type(&k), cols);
    check_run(&k, &mega_plain_route_count, &mega_cpu_route_count, &a, &a.head);
}

/* By weight and by position, all rows as one group and as three, also where nothing is dropped. Some weights are equal,
 * of both signs, or no numbers. */
static void check_route_capacity(mega_dtype type, int64_t rows, int64_t cols)
{
    static const struct {
        int64_t groups, capacity;
        bool by_position;
    } forms[] = {{1, 3, false}, {3, 1, false}, {3, 2, true}, {1, 1000000, false}};
    for (int i = 0; i < COUNT(forms); i++) {
        check k = check_begin("route_capacity", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, i);
        mega_route_capacity_args a = {.groups = rows == 0 ? 0 : forms[i].groups, .rows = rows};
        a.experts = cols < 9 ? cols : 9, a.choices = cols < 5 ? cols : 5, a.by_position = forms[i].by_position,
        a.capacity = forms[i].capacity;
        const int64_t count = a.groups * rows * a.choices;
        void *weight = check_input(&k, acc_type(&k), count);
        for (int64_t c = 0; c < count; c += 4)
            set_element(weight, acc_type(&k), c, c % 3 == 0 ? 0.25f : c % 3 == 1 ? 0.0f : -0.0f);
        if (count > 1) set_element(weight, acc_type(&k), count - 1, NAN);
        a.weight = weight;
        a.choice = route_choices(&k, a.groups * rows, a.experts, a.choices);
        a.kept = check_output_add(&k, "kept", MEGA_I32, count);
        a.dropped = check_output_add(&k, "dropped", acc_type(&k), a.groups);
        check_run(&k, &mega_plain_route_capacity, &mega_cpu_route_capacity, &a, &a.head);
    }
}

/* All rows as one group, three groups, and many; logits of one size, and of which some are too large for an
 * exponential. */
static void check_route_sinkhorn(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 5; i++) {
        check k = check_begin("route_sinkhorn", type, "%lld x %lld, form %d", (long long)rows, (long long)cols, i);
        mega_route_sinkhorn_args a = {.groups = i % 2 == 0 ? 1 : 3, .rows = rows, .experts = cols};
        if (i == 3 && rows * cols <= 512) a.groups = 20;
        if (i == 4) a.rows = rows < 9 ? rows : 9, a.experts = 300; /* more than threads of a block */
        if (rows == 0) a.groups = 0;
        const int64_t count = a.groups * a.rows * a.experts;
        a.logits_dtype = i == 1 ? acc_type(&k) : type;
        void *logits = check_input(&k, a.logits_dtype, count);
        for (int64_t l = 0; l < count && i == 3; l += a.experts + 1) set_element(logits, a.logits_dtype, l, 1000.0f);
        a.logits = logits;
        a.keys = check_output_add(&k, "keys", acc_type(&k), count);
        check_run(&k, &mega_plain_route_sinkhorn, &mega_cpu_route_sinkhorn, &a, &a.head);
    }
}

static void check_route_z(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k = check_begin("route_z", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_route_z_args a = {.rows = rows, .experts = cols};
        a.logits_dtype = wide ? acc_type(&k) : type;
        a.logits = route_logits(&k, a.logits_dtype, rows, cols);
        a.loss = check_output_add(&k, "loss", acc_type(&k), rows);
        check_run(&k, &mega_plain_route_z, &mega_cpu_route_z, &a, &a.head);
    }
}

static void check_route_z_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int wide = 0; wide < 2; wide++) {
        check k = check_begin("route_z_grad", type, "%lld x %lld, wide %d", (long long)rows, (long long)cols, wide);
        mega_route_z_grad_args a = {.rows = rows, .experts = cols};
        a.logits_dtype = wide ? acc_type(&k) : type;
        a.dloss = check_input(&k, acc_type(&k), rows);
        a.logits = route_logits(&k, a.logits_dtype, rows, cols);
        a.dlogits = check_output_add(&k, "dlogits", type, rows * cols);
        check_run(&k, &mega_plain_route_z_grad, &mega_cpu_route_z_grad, &a, &a.head);
    }
}
