/* Cases of the kernels of experts. Part of ops_test_kernels and device_test_kernels. */

/* Choices of tokens: at random, the last of 13 experts without any; all of one expert; every expert by every token;
 * some that are no expert; of one expert alone. */
static const struct expert_case {
    const char *name;
    int64_t slots, experts;
    enum { AT_RANDOM, ALL_OF_ONE, EVERY_ONE, SOME_OUTSIDE } how;
} expert_cases[] = {{"at random", 2, 13, AT_RANDOM}, {"all of one", 2, 7, ALL_OF_ONE},
                    {"every one", 3, 3, EVERY_ONE},  {"some outside", 3, 5, SOME_OUTSIDE},
                    {"of twelve", 2, 12, AT_RANDOM}, {"one expert", 1, 1, EVERY_ONE}};

static int32_t *expert_choices(check *k, const struct expert_case *c, int64_t tokens)
{
    const int64_t n = tokens * c->slots;
    const int32_t experts = (int32_t)c->experts;
    const bool outside = c->how == SOME_OUTSIDE;
    int32_t *choice = integers(k, n, outside ? -1 : 0, experts + (outside ? 2 : 0));
    for (int64_t i = 0; i < n; i++) {
        if (c->how == AT_RANDOM && choice[i] == experts - 1) choice[i] = 0;
        if (c->how == ALL_OF_ONE) choice[i] = 4;
        if (c->how == EVERY_ONE) choice[i] = (int32_t)((i / c->slots + i % c->slots * 2) % c->experts);
    }
    return choice;
}

/* The places of these choices, as the plain kernel has them. */
static mega_expert_order_args expert_places(check *k, const struct expert_case *c, int64_t tokens)
{
    const int64_t n = tokens * c->slots;
    mega_expert_order_args a = {.choices = n, .experts = c->experts, .choice = expert_choices(k, c, tokens)};
    a.place = check_bytes(k, (size_t)n * sizeof *a.place), a.source = check_bytes(k, (size_t)n * sizeof *a.source);
    a.first = check_bytes(k, (size_t)(c->experts + 1) * sizeof *a.first);
    mega_plain_expert_order.run(NULL, &a);
    return a;
}

static void check_expert_order(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 2 * COUNT(expert_cases); i++) {
        const struct expert_case *c = &expert_cases[i / 2];
        const int64_t begin = i % 2 * c->experts / 2, experts = c->experts - begin; /* of all, or of the last half */
        check k = check_begin("expert_order", type, "%lld of %lld, %s, from %lld on", (long long)rows, (long long)cols,
                              c->name, (long long)begin);
        mega_expert_order_args a = {.choices = rows * c->slots, .experts = experts, .begin = begin};
        a.choice = expert_choices(&k, c, rows);
        a.place = check_output_add(&k, "place", MEGA_I32, a.choices);
        a.source = check_output_add(&k, "source", MEGA_I32, a.choices);
        a.first = check_output_add(&k, "first", MEGA_I32, a.experts + 1);
        check_run(&k, &mega_plain_expert_order, &mega_cpu_expert_order, &a, &a.head);
    }
}

/* How the experts of a case are sent: on as many ranks as divide them best, few rows a round and many; a turn is one of
 * the rounds. */
typedef struct expert_round {
    int64_t ranks, rows, round;
} expert_round;

static expert_round expert_round_of(const struct expert_case *c, int turn)
{
    const int64_t ranks = c->experts == 12 ? 3 : c->experts;
    return (expert_round){ranks, turn == 0 ? 40 : 2, turn};
}

static void check_expert_send(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 3 * COUNT(expert_cases); i++) {
        const struct expert_case *c = &expert_cases[i / 3];
        const expert_round r = expert_round_of(c, i % 3);
        check k = check_begin("expert_send", type, "%lld of %lld, %s, round %lld", (long long)rows, (long long)cols,
                              c->name, (long long)r.round);
        const mega_expert_order_args order = expert_places(&k, c, rows);
        mega_expert_send_args a = {.choices = order.choices, .experts = c->experts, .ranks = r.ranks};
        a.rows = r.rows, a.round = r.round;
        a.choice = order.choice, a.order_place = order.place, a.order_source = order.source, a.first = order.first;
        a.place = check_output_add(&k, "place", MEGA_I32, a.choices);
        a.source = check_output_add(&k, "source", MEGA_I32, a.ranks * a.rows);
        check_run(&k, &mega_plain_expert_send, &mega_cpu_expert_send, &a, &a.head);
    }
}

/* The first rows of the experts of each rank, which has `rows` tokens, or half of them. */
static int32_t *expert_firsts(check *k, const struct expert_case *c, const expert_round *r, int64_t rows)
{
    const size_t bytes = (size_t)(c->experts + 1) * sizeof(int32_t);
    const mega_expert_order_args of[2] = {expert_places(k, c, rows), expert_places(k, c, rows / 2)};
    int32_t *const first = check_bytes(k, (size_t)r->ranks * bytes);
    for (int64_t rank = 0; rank < r->ranks; rank++)
        memcpy(first + rank * (c->experts + 1), of[rank % 3 == 1].first, bytes);
    return first;
}

static void check_expert_received(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 3 * COUNT(expert_cases); i++) {
        const struct expert_case *c = &expert_cases[i / 3];
        const expert_round r = expert_round_of(c, i % 3);
        check k = check_begin("expert_received", type, "%lld of %lld, %s, round %lld", (long long)rows, (long long)cols,
                              c->name, (long long)r.round);
        mega_expert_received_args a = {.experts = c->experts, .ranks = r.ranks, .rows = r.rows};
        a.first = expert_firsts(&k, c, &r, rows);
        a.round = r.round, a.rank = cols % r.ranks;
        a.choice = check_output_add(&k, "choice", MEGA_I32, a.ranks * a.rows);
        a.needed = check_output_add(&k, "needed", MEGA_I32, 1);
        check_run(&k, &mega_plain_expert_received, &mega_cpu_expert_received, &a, &a.head);
    }
}

static void check_expert_later(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 2 * COUNT(expert_cases); i++) {
        const struct expert_case *c = &expert_cases[i / 2];
        const expert_round r = expert_round_of(c, i % 2);
        check k = check_begin("expert_later", type, "%lld of %lld, %s, %lld a round", (long long)rows, (long long)cols,
                              c->name, (long long)r.rows);
        mega_expert_later_args a = {.experts = c->experts, .ranks = r.ranks, .rows = r.rows};
        a.first = expert_firsts(&k, c, &r, rows);
        a.later = check_output_add(&k, "later", acc_type(&k), 1);
        k.tolerance_f32 = k.tolerance_bf16 = 0.0;
        check_run(&k, &mega_plain_expert_later, &mega_cpu_expert_later, &a, &a.head);
    }
}

static void check_expert_rows(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < COUNT(expert_cases); i++) {
        const struct expert_case *c = &expert_cases[i];
        check k = check_begin("expert_rows", type, "%lld x %lld, %s", (long long)rows, (long long)cols, c->name);
        mega_expert_rows_args a = {.rows = rows * c->slots, .cols = cols, .slots = c->slots};
        a.source = expert_places(&k, c, rows).source;
        a.x = check_input(&k, type, rows * cols);
        a.y = check_output_add(&k, "y", type, a.rows * cols);
        k.tolerance_f32 = k.tolerance_bf16 = 0.0;
        check_run(&k, &mega_plain_expert_rows, &mega_cpu_expert_rows, &a, &a.head);
    }
}

/* The last form without weights, as in the gradient of expert_rows. */
static void check_expert_combine(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 2 * COUNT(expert_cases); i++) {
        const struct expert_case *c = &expert_cases[i / 2];
        check k = check_begin("expert_combine", type, "%lld x %lld, %s, weights %d", (long long)rows, (long long)cols,
                              c->name, i % 2);
        mega_expert_combine_args a = {.rows = rows, .cols = cols, .slots = c->slots};
        a.place = expert_places(&k, c, rows).place;
        a.y = check_input(&k, type, rows * c->slots * cols);
        a.weight = i % 2 == 1 ? check_input(&k, acc_type(&k), rows * c->slots) : NULL;
        a.out = check_output_add(&k, "out", type, rows * cols);
        check_run(&k, &mega_plain_expert_combine, &mega_cpu_expert_combine, &a, &a.head);
    }
}

/* The places of these choices in a round, which has fewer rows than there are choices, or more. */
static void expert_round_places(check *k, const struct expert_case *c, const mega_expert_order_args *order,
                                mega_expert_combine_grad_args *a)
{
    const expert_round r = expert_round_of(c, 0);
    mega_expert_send_args s = {.choices = order->choices, .experts = c->experts, .ranks = r.ranks, .rows = r.rows};
    s.choice = order->choice, s.order_place = order->place, s.order_source = order->source, s.first = order->first;
    a->place = s.place = check_bytes(k, (size_t)s.choices * sizeof *s.place);
    a->source = s.source = check_bytes(k, (size_t)(s.ranks * s.rows) * sizeof *s.source);
    a->rows = s.ranks * s.rows;
    mega_plain_expert_send.run(NULL, &s);
}

static void check_expert_combine_grad(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 2 * COUNT(expert_cases); i++) { /* of all rows, of a round */
        const struct expert_case *c = &expert_cases[i / 2];
        check k = check_begin("expert_combine_grad", type, "%lld x %lld, %s, form %d", (long long)rows, (long long)cols,
                              c->name, i % 2);
        mega_expert_combine_grad_args a = {.choices = rows * c->slots, .cols = cols, .slots = c->slots};
        const mega_expert_order_args places = expert_places(&k, c, rows);
        a.place = places.place, a.source = places.source, a.rows = a.choices;
        if (i % 2 == 1) expert_round_places(&k, c, &places, &a);
        a.dout = check_input(&k, type, rows * cols), a.y = check_input(&k, type, a.rows * cols);
        a.weight = check_input(&k, acc_type(&k), a.choices);
        a.dy = check_output_add(&k, "dy", type, a.rows * cols);
        a.dweight = check_output_add(&k, "dweight", acc_type(&k), a.choices);
        check_run(&k, &mega_plain_expert_combine_grad, &mega_cpu_expert_combine_grad, &a, &a.head);
    }
}

/* In both directions: y of x, and the gradient of x, of weights that lie the other way. */
static void check_expert_linear(mega_dtype type, int64_t rows, int64_t cols)
{
    for (int i = 0; i < 2 * COUNT(expert_cases); i++) {
        const struct expert_case *c = &expert_cases[i / 2];
        check k = check_begin("expert_linear", type, "%lld x %lld, %s, turned %d", (long long)rows, (long long)cols,
                              c->name, i % 2);
        mega_expert_linear_args a = {.rows = rows * c->slots, .in = cols, .out = 37, .experts = c->experts};
        a.turned = i % 2 == 1;
        a.first = expert_places(&k, c, rows).first;
        a.x = check_input(&k, type, a.rows * a.in), a.weight = check_input(&k, type, a.experts * a.out * a.in);
        a.bias = a.turned ? NULL : check_input(&k, type, a.experts * a.out);
        a.y = check_output_add(&k, "y", type, a.rows * a.out);
        k.row = a.out;
        k.tolerance_f32 = 4e-6; /* of products */
        check_run(&k, &mega_plain_expert_linear, &mega_cpu_expert_linear, &a, &a.head);
    }
}

static void check_expert_linear_grad_w(mega_dtype type, int64_t rows, int64_t cols)
{
    static const mega_step_block first = {.first_micro_batch = true}, later = {.first_micro_batch = false};
    for (int i = 0; i < 3 * COUNT(expert_cases); i++) { /* overwrites, first in a step, adds */
        const struct expert_case *c = &expert_cases[i / 3];
        check k = check_begin("expert_linear_grad_w", type, "%lld x %lld, %s, form %d", (long long)rows,
                              (long long)cols, c->name, i % 3);
        mega_expert_linear_grad_w_args a = {.rows = rows * c->slots, .in = cols, .out = 37, .experts = c->experts};
        a.accumulate = i % 3 > 0, a.first_in_step = rows % 2 == 0;
        a.head.step = i % 3 == 1 ? &first : &later;
        a.first = expert_places(&k, c, rows).first;
        a.dy = check_input(&k, type, a.rows * a.out), a.x = check_input(&k, type, a.rows * a.in);
        a.dweight = check_output_add(&k, "dweight", acc_type(&k), a.experts * a.out * a.in);
        a.dbias = i % 2 == 0 ? check_output_add(&k, "dbias", acc_type(&k), a.experts * a.out) : NULL;
        k.row = a.in;
        k.tolerance_f32 = k.tolerance_bf16 = 4e-6;
        check_run(&k, &mega_plain_expert_linear_grad_w, &mega_cpu_expert_linear_grad_w, &a, &a.head);
    }
}
