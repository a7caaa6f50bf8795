/* Runs the plain and the cpu kernel on the same arguments: plain once, cpu with each instruction set of this machine,
 * with 1, 2 and 3 threads (in slow builds, MEGA_MATRIX=sparse: 1 and 3, once each). Every output is compared with the
 * plain one within a tolerance, and between thread counts bit by bit. Part of test_kernels.c. */

enum { MAX_THREADS = 3, MAX_WAYS = 8 };

/* The instruction sets that are tested: kernels read the environment at each call. */
static mega_isa ways[MAX_WAYS];
static int num_ways;
static const char *way_name = "plain"; /* for messages */

/* All of them, or what MEGA_ISA names alone. Under a team that shuffles pieces of work two will do, because which
 * pieces there are depends on the way to multiply matrices: panels with AVX2, pairs with the best. */
static void find_ways(void)
{
    const mega_isa best = mega_cpu_isa();
    const bool few = getenv("MEGA_TEST_SHUFFLED") != NULL;
    is_slow = !few && getenv("MEGA_MATRIX") != NULL && strcmp(getenv("MEGA_MATRIX"), "sparse") == 0;
    for (int isa = getenv("MEGA_ISA") != NULL ? (int)best : 0; isa <= (int)best; isa++)
        if (!few || isa == MEGA_ISA_AVX2 || isa == (int)best) ways[num_ways++] = (mega_isa)isa;
}

static void go_way(mega_isa way)
{
    way_name = mega_isa_name(way);
    setenv("MEGA_ISA", way_name, 1);
}

/* Runs one form, each time from the initial outputs. The scratch is NaN before, and guarded. */
static void run_form(check *k, const mega_kernel *kernel, void *args, mega_kernel_head *head, int threads, int runs)
{
    mega_team *team = NULL;
    assert_int_equal(mega_team_create(threads, &team), MEGA_OK);
    const size_t bytes = kernel->scratch != NULL ? kernel->scratch(args, threads) : 0;
    void *block = mega_malloc(bytes + 2 * GUARD);
    assert_non_null(block);
    char *scratch = (char *)(((uintptr_t)block + GUARD - 1) / GUARD * GUARD);
    memset(scratch, 0xff, bytes);
    memset(scratch + bytes, 0x5a, GUARD);
    head->scratch = scratch;
    if (kernel->prepare != NULL && kernel->prepare(args, threads) != MEGA_OK) fail_msg("%s", mega_error_message());
    for (int i = 0; i < runs; i++) {
        for (int o = 0; o < k->num_outputs; o++)
            memcpy(k->output[o].data, k->output[o].initial, output_bytes(&k->output[o]));
        kernel->run(&(mega_queue){.team = team}, args);
    }
    if (kernel->release != NULL) kernel->release(args);
    for (int i = 0; i < GUARD; i++)
        if (scratch[bytes + (size_t)i] != 0x5a) fail_msg("%s %s: wrote behind its scratch", k->kernel, k->label);
    mega_free(block);
    mega_team_destroy(team);
}

/* F16 has three more bits than BF16; sums in float are as exact as those of F32. */
static double tolerance_f16(const check *k)
{
    return fmax(k->tolerance_bf16 / 8, k->tolerance_f32);
}

/* ||found - expected|| / ||expected||, the worst element, and where zeros differ. Equal non-finite values are equal. */
static void compare(const check *k, const check_output *o, int threads)
{
    double difference = 0.0, norm = 0.0, worst = -1.0;
    int64_t where = 0;
    for (int64_t i = 0; i < o->n; i++) {
        const double a = element(o->data, o->type, i), b = element(o->expected, o->type, i);
        if (k->same_zeros && (a == 0.0) != (b == 0.0))
            fail_msg("%s %s: %s[%lld] is %g, expected %g: another mask", k->kernel, k->label, o->name, (long long)i, a,
                     b);
        if (a == b || (isnan(a) && isnan(b))) {
            norm += isfinite(b) ? b * b : 0.0;
            continue;
        }
        const double d = fabs(a - b);
        difference += d * d;
        norm += b * b;
        if (!(d <= worst)) worst = d, where = i;
    }
    const double error = norm == 0.0 ? sqrt(difference) : sqrt(difference / norm);
    const double allowed = o->type == MEGA_I32                            ? 0.0
                           : k->type == MEGA_F64                          ? k->tolerance_f64
                           : o->type == MEGA_BF16 || k->type == MEGA_BF16 ? k->tolerance_bf16
                           : o->type == MEGA_F16 || k->type == MEGA_F16   ? tolerance_f16(k)
                                                                          : k->tolerance_f32;
    if (!(error <= allowed))
        fail_msg(
            "%s %s, %s, %s, %d threads: %s differs by %.3g, allowed %.3g; worst at %lld of %lld: %.9g, expected %.9g",
            k->kernel, k->label, mega_dtype_name(k->type), way_name, threads, o->name, error, allowed, (long long)where,
            (long long)o->n, element(o->data, o->type, where), element(o->expected, o->type, where));
    for (int i = 0; i < GUARD; i++)
        if (((const char *)o->data)[output_bytes(o) - GUARD + (size_t)i] != 0x5a)
            fail_msg("%s %s: wrote behind %s", k->kernel, k->label, o->name);
}

/* The cpu form as the environment has it, with 1 to `most` threads. */
static void check_cpu(check *k, const mega_kernel *cpu, void *args, mega_kernel_head *head, int most)
{
    for (int threads = 1; threads <= most; threads += is_slow ? 2 : 1) {
        /* a later run must do the same again */
        run_form(k, cpu, args, head, threads, is_slow ? 1 : threads);
        for (int i = 0; i < k->num_outputs; i++) {
            check_output *o = &k->output[i];
            if (threads > 1 && memcmp(o->first, o->data, output_bytes(o)) == 0) continue; /* compared already */
            compare(k, o, threads);
            if (threads == 1) memcpy(o->first, o->data, output_bytes(o));
            else
                fail_msg("%s %s, %s, %s: %s has other bits with %d threads than with 1", k->kernel, k->label,
                         mega_dtype_name(k->type), way_name, o->name, threads);
        }
    }
}

/* `head` is the head inside args. */
static void check_run(check *k, const mega_kernel *plain, const mega_kernel *cpu, void *args, mega_kernel_head *head)
{
    static const mega_step_block none;
    if (head->step == NULL) head->step = &none;
    head->dtype = k->type;
    run_form(k, plain, args, head, 1, 1);
    for (int i = 0; i < k->num_outputs; i++)
        memcpy(k->output[i].expected, k->output[i].data, output_bytes(&k->output[i]));
    if (k->type == MEGA_F64) { /* the cpu form is the plain one, whatever the instruction set */
        check_cpu(k, cpu, args, head, 1);
    } else {
        for (int w = 0; w < num_ways; w++) {
            go_way(ways[w]);
            check_cpu(k, cpu, args, head, MAX_THREADS);
        }
    }
    comparisons++;
    mega_arena_fini(&k->arena);
}
