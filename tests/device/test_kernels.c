/* Compares each kernel of backend/cuda/ with the plain one, on the cases of ops_test_kernels: on random and awkward
 * shapes, in fp32, bf16 and fp16. It runs on the device that the driver's library has: the software device, or a GPU
 * with MEGA_CUDA_LIBRARY=libcuda.so.1. A few shapes and one set of operands; in `make check-device` all shapes, and
 * three sets with the library that MEGA_CUDA_LIBRARY names (test_values.sh).
 * `device_test_kernels 'layer_norm*'` runs the tests of these kernels, `--list` prints the names of all.
 *
 * A number may differ by 1e-5 (fp32) or by 2 units in the last place (16 bits) of the largest number of its row; of
 * gradients of attention, which cancel, from what attention_grad_body.c says. A second run, in which blocks and threads
 * come in another order, must give the same bits. */
#include "attention_rules.h"
#include "backend_impl.h"
#include "driver.h"
#include "gpu.h"
#include "kit.h"
#include "megalith/kernels.h"
#include "megalith/memory.h"
#include <dlfcn.h>
#include <fnmatch.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/kernel_check_body.c"

#include "attention_grad_body.c"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F16};

/* Rows and columns. */
static const int64_t sizes[][2] = {{0, 8},  {1, 1},  {3, 5},     {17, 33},  {65, 64},
                                   {1, 15}, {2, 16}, {300, 129}, {70, 768}, {2, 2600}};
enum { FEW_SIZES = 6, DEVICE_RUNS = 2 }; /* (15: seven numbers are left at an aligned place, one less than a vector) */

static mega_cuda_driver cuda;
static cu_stream stream;
static cu_result (*declare)(cu_stream, int, const cu_address *, const size_t *, const unsigned *); /* or NULL */
static cuda_images images; /* of the program, where it has any */
static cu_module software; /* where it has none */
static bool is_whole;      /* all shapes */
static int operand_sets = 1;
static int64_t case_cols; /* of the case that runs */
static int case_turn;     /* of the checks of a kernel */

static void must(cu_result result, const char *what)
{
    const char *text = "";
    if (result == CU_OK) return;
    cuda.error_text(result, &text);
    fail_msg("%s: error %u, %s", what, result, text);
}
#define MUST(call) must(call, #call)

/* ---- memory of a call ---- */

/* A block of the check, in the device. */
typedef struct mirror {
    cu_address at;
    char *host;
    size_t bytes;
    bool is_output;
} mirror;

typedef struct device_call {
    uint64_t args[64]; /* of the op, with addresses of the device */
    mirror part[MAX_BLOCKS + 2];
    int num_parts;
    mega_step_block step; /* with addresses of the device */
} device_call;

static cu_address mirror_add(device_call *d, char *host, size_t bytes, bool is_output)
{
    mirror *m = &d->part[d->num_parts++];
    *m = (mirror){.host = host, .bytes = bytes, .is_output = is_output};
    MUST(cuda.memory_alloc(&m->at, bytes > 0 ? bytes : 1));
    if (host != NULL && bytes > 0) MUST(cuda.copy_in(m->at, host, bytes, stream));
    return m->at;
}

static bool is_output(const check *k, const char *at)
{
    for (int i = 0; i < k->num_outputs; i++)
        if (k->output[i].data == at) return true;
    return false;
}

/* Returns the address in the device of what the host has at p, or p itself if this is no pointer into the check. */
static uint64_t translated(device_call *d, const check *k, uint64_t p)
{
    for (int i = 0; i < d->num_parts; i++) {
        const mirror *m = &d->part[i];
        const uint64_t begin = (uint64_t)(uintptr_t)m->host;
        if (p >= begin && p < begin + (m->bytes > 0 ? m->bytes : 1)) return m->at + (p - begin);
    }
    for (int i = 0; i < k->num_blocks; i++) {
        const check_block *b = &k->block[i];
        const uint64_t begin = (uint64_t)(uintptr_t)b->at;
        if (p >= begin && p < begin + (b->bytes > 0 ? b->bytes : 1))
            return mirror_add(d, b->at, b->bytes, is_output(k, b->at)) + (p - begin);
    }
    return p;
}

/* Copies the arguments, and all that they point to, into the device. */
static mega_cuda_call call_begin(device_call *d, const check *k, const mega_cuda_kernel *kernel, const void *args,
                                 const mega_kernel_head *head)
{
    const size_t at = (size_t)((const char *)head - (const char *)args);
    assert_in_range(kernel->args_bytes, 1, sizeof d->args);
    d->num_parts = 0;
    memcpy(d->args, args, kernel->args_bytes);
    mega_kernel_head *const own = (mega_kernel_head *)((char *)d->args + at);
    own->scratch = own->handle = own->packed = NULL;
    own->step = NULL;
    for (size_t i = 0; i < kernel->args_bytes / sizeof *d->args; i++) d->args[i] = translated(d, k, d->args[i]);
    d->step = *head->step;
    d->step.kv_length = (const int32_t *)(uintptr_t)translated(d, k, (uint64_t)(uintptr_t)d->step.kv_length);
    own->step = (const mega_step_block *)(uintptr_t)mirror_add(d, (char *)&d->step, sizeof d->step, false);
    const mega_cuda_call call = kernel->call(d->args);
    if (call.scratch > 0) own->scratch = (void *)(uintptr_t)mirror_add(d, NULL, call.scratch, true);
    return call;
}

/* The kernel is the one that the program would launch: PTX, or the code of this kind of GPU. */
static cu_function function_of(const mega_cuda_kernel *kernel, const mega_cuda_launch *l)
{
    cu_function function;
    if (images.text == NULL) must(cuda.module_function(&function, software, l->kernel), l->kernel);
    else if (mega_cuda_images_find(&images, &cuda, kernel->source, l, &function) != MEGA_OK)
        fail_msg("%s", mega_error_message());
    return function;
}

static void launch(const mega_cuda_kernel *kernel, const mega_cuda_launch *l, device_call *d)
{
    const cu_function function = function_of(kernel, l);
    void *params[] = {d->args};
    if (declare != NULL) {
        cu_address at[MAX_BLOCKS + 2];
        size_t bytes[MAX_BLOCKS + 2];
        unsigned use[MAX_BLOCKS + 2];
        for (int i = 0; i < d->num_parts; i++)
            at[i] = d->part[i].at, bytes[i] = d->part[i].bytes, use[i] = d->part[i].is_output ? 3 : 1;
        MUST(declare(stream, d->num_parts, at, bytes, use));
    }
    must(cuda.launch(function, l->x, l->y, l->z, l->threads, 1, 1, l->shared_bytes, stream, params, NULL), l->kernel);
}

static void restore_outputs(check *k)
{
    for (int o = 0; o < k->num_outputs; o++)
        memcpy(k->output[o].data, k->output[o].initial, output_bytes(&k->output[o]));
}

/* Runs the kernel, from the initial outputs. */
static void run_device(check *k, const mega_cuda_kernel *kernel, void *args, mega_kernel_head *head)
{
    device_call d;
    restore_outputs(k);
    const mega_cuda_call call = call_begin(&d, k, kernel, args, head);
    for (int i = 0; i < call.count; i++) launch(kernel, &call.launch[i], &d);
    for (int i = 0; i < d.num_parts; i++)
        if (d.part[i].is_output && d.part[i].host != NULL && d.part[i].bytes > 0)
            MUST(cuda.copy_out(d.part[i].host, d.part[i].at, d.part[i].bytes, stream));
    MUST(cuda.stream_wait(stream));
    for (int i = 0; i < d.num_parts; i++) MUST(cuda.memory_free(d.part[i].at));
}

/* ---- comparison ---- */

/* How far a number may be from the expected one, in a row whose largest number is `most`. (The tail of GELU at -6 is
 * 2e-12: the argument of its exponential is rounded.) */
static double allowed(mega_dtype type, double most)
{
    if (type == MEGA_I32) return 0.0;
    if (type == MEGA_F64) return 1e-12 * most;
    if (type == MEGA_BF16) return 2.0 * ldexp(1.0, ilogb(most > 0.0 ? most : 1e-30) - 7);
    if (type == MEGA_F16) return 2.0 * ldexp(1.0, ilogb(fmax(most, 0x1p-14)) - 10);
    return 1e-5 * fmax(most, 1e-7);
}

static bool is_close(double a, double b, double limit)
{
    if (!isfinite(a) || !isfinite(b)) return a == b || (isnan(a) && isnan(b));
    return fabs(a - b) <= limit;
}

static void only_the_same_infinity_is_close(void **state)
{
    (void)state;
    assert_true(is_close(INFINITY, INFINITY, 1.0) && is_close(NAN, NAN, 1.0) && is_close(1.5, 1.0, 0.5));
    assert_false(is_close(INFINITY, -INFINITY, 1.0) || is_close(NAN, INFINITY, 1.0) || is_close(INFINITY, NAN, 1.0));
    assert_false(is_close(1.0, NAN, 1.0) || is_close(1.0, INFINITY, INFINITY) || is_close(2.0, 1.0, 0.5));
}

static double largest(const check_output *o, int64_t begin, int64_t end)
{
    double most = 0.0;
    for (int64_t i = begin; i < end; i++) {
        const double b = fabs(element(o->expected, o->type, i));
        if (isfinite(b) && b > most) most = b;
    }
    return most;
}

static void compare_row(const check *k, const check_output *o, const grad_range *range, int64_t begin, int64_t end)
{
    const mega_dtype type = o->type == MEGA_F64 && k->sums_floats ? MEGA_F32 : o->type;
    const double limit = allowed(type, largest(o, begin, end));
    for (int64_t i = begin; i < end; i++) {
        const double a = element(o->data, o->type, i), b = element(o->expected, o->type, i);
        if (k->same_zeros && (a == 0.0) != (b == 0.0))
            fail_msg("%s %s: %s[%lld] is %g, expected %g: another mask", k->kernel, k->label, o->name, (long long)i, a,
                     b);
        if (range != NULL ? a >= range[i].low - limit && a <= range[i].high + limit : is_close(a, b, limit)) continue;
        fail_msg("%s %s, %s: %s[%lld] of %lld is %.9g, expected %.9g; allowed is %.3g of row %lld", k->kernel, k->label,
                 mega_dtype_name(k->type), o->name, (long long)i, (long long)o->n, a, b, limit,
                 (long long)(begin / (end - begin)));
    }
}

/* range: of each element; NULL: as expected. */
static void compare(const check *k, const check_output *o, const grad_range *range)
{
    int64_t row = o->row > 0 ? o->row : k->row > 0 ? k->row : case_cols;
    if (o->n % row != 0) row = o->n;
    for (int64_t i = 0; i < o->n; i += row) compare_row(k, o, range, i, i + row);
}

/* Above the diagonal of a product of which only the lower half is wanted there may be anything. */
static void clear_rest(const check *k, const void *args)
{
    const mega_gemm_args *a = args;
    if (strcmp(k->kernel, "gemm") != 0 || !a->lower) return;
    const size_t size = mega_dtype_size(a->c_dtype);
    for (int64_t m = 0; m < a->m; m++)
        memset((char *)a->c + (size_t)(m * a->ldc + m + 1) * size, 0, (size_t)(a->n - m - 1) * size);
}

static void run_plain(check *k, const mega_kernel *plain, void *args, mega_kernel_head *head)
{
    const size_t bytes = plain->scratch != NULL ? plain->scratch(args, 1) : 0;
    head->scratch = bytes > 0 ? mega_malloc(bytes) : NULL;
    restore_outputs(k);
    plain->run(NULL, args);
    if (head->scratch != NULL) mega_free(head->scratch);
    head->scratch = NULL;
    for (int i = 0; i < k->num_outputs; i++)
        memcpy(k->output[i].expected, k->output[i].data, output_bytes(&k->output[i]));
}

/* Gradients of attention have ranges. */
static grad_ranges ranges_of(check *k, const void *args)
{
    grad_ranges ranges = {.of = {NULL}};
    if (strcmp(k->kernel, "attention_grad") == 0) ranges = grad_ranges_of(k, args);
    for (int i = 0; i < k->num_outputs && ranges.of[i] != NULL && k->type == MEGA_F32; i++)
        compare(k, &k->output[i], ranges.of[i]); /* what the plain kernel has computed */
    return ranges;
}

/* Whether the kernel is the attention of whole sequences, or its gradient. */
static bool is_attention(const check *k)
{
    return strcmp(k->kernel, "attention") == 0 || strcmp(k->kernel, "attention_grad") == 0;
}

/* How much a case that has sizes of its own computes, in pairs of a query and a key. */
static int64_t work_of(const check *k, const void *args)
{
    const mega_gemm_args *const g = args;
    const mega_attention_args *const a =
        strcmp(k->kernel, "attention") == 0 ? args : &((const mega_attention_grad_args *)args)->forward;
    if (strcmp(k->kernel, "attention_cached") == 0) return 0;
    if (strcmp(k->kernel, "gemm") == 0) return g->m * g->n * g->k / 100;
    if (!is_attention(k)) return k->work / 250;
    return a->batch * a->heads * a->seq * a->keys;
}

/* Of these cases those that are small will do, and half of the many forms of a product. (The largest convolution takes
 * minutes: it has one set of operands.) */
static bool is_left_out(const check *k, const void *args)
{
    const bool is_form = strcmp(k->kernel, "gemm") == 0 && case_turn % 2 != 1;
    if (is_whole) return k->work > 10000000 && first_seed > 0;
    return is_form || work_of(k, args) > 20000;
}

static void check_run(check *k, const mega_kernel *plain, const mega_kernel *cpu, void *args, mega_kernel_head *head)
{
    static const mega_step_block none;
    const mega_cuda_kernel *const kernel = mega_cuda_kernel_find(k->kernel);
    (void)cpu;
    case_turn++;
    head->dtype = k->type;
    if (kernel->call(args).count >= 0 && !is_left_out(k, args)) {
        if (head->step == NULL) head->step = &none;
        run_plain(k, plain, args, head);
        const grad_ranges ranges = ranges_of(k, args);
        for (int run = 0; run < DEVICE_RUNS; run++) {
            run_device(k, kernel, args, head);
            clear_rest(k, args);
            for (int i = 0; i < k->num_outputs; i++) {
                check_output *o = &k->output[i];
                if (run == 0) compare(k, o, ranges.of[i]), memcpy(o->first, o->data, output_bytes(o));
                else if (memcmp(o->first, o->data, output_bytes(o)) != 0)
                    fail_msg("%s %s, %s: a second run gives other bits of %s", k->kernel, k->label,
                             mega_dtype_name(k->type), o->name);
            }
        }
        comparisons++;
    }
    mega_arena_fini(&k->arena);
}

#include "../ops/main_cases_body.c"

#include "../ops/attention_cases_body.c"
#include "../ops/expert_cases_body.c"
#include "../ops/kernel_cases_body.c"
#include "../ops/optimizer_cases_body.c"
#include "../ops/route_cases_body.c"

typedef struct kernel_case {
    const char *name;
    void (*run)(mega_dtype type, int64_t rows, int64_t cols);
} kernel_case;

#define KERNEL_CASE(name) {#name, check_##name},
static const kernel_case cases[] = {MEGA_KERNEL_LIST(KERNEL_CASE)};
#undef KERNEL_CASE

static void test_kernel(void **state)
{
    const kernel_case *c = *state;
    const int before = comparisons, count = is_whole ? COUNT(sizes) : FEW_SIZES;
    for (int seed = 0; seed < operand_sets; seed++) {
        first_seed = (uint32_t)seed * 1000;
        case_turn = 0;
        for (int t = 0; t < COUNT(types); t++)
            for (int s = 0; s < count; s++) case_cols = sizes[s][1], c->run(types[t], sizes[s][0], sizes[s][1]);
    }
    if (comparisons == before) fail_msg("the case of kernel %s compared nothing", c->name);
}

/* A query that is a NaN, one whose scores are all far below -1e30, and one as usual. */
static void attention_of_extreme_queries(void **state)
{
    enum { N = 3, D = 8 };
    (void)state;
    for (int t = 0; t < COUNT(types); t++) {
        const mega_dtype type = types[t];
        check k = check_begin("attention", type, "extreme queries");
        mega_attention_args a = {.batch = 1, .seq = N, .keys = N, .heads = 1, .kv_heads = 1, .head_dim = D};
        void *q = check_input(&k, type, N * D), *keys = check_input(&k, type, N * D);
        for (int i = 0; i < N; i++) set_element(keys, type, i * D, 1.0);
        set_element(q, type, 0, NAN);
        set_element(q, type, D, -1e36);
        a.q = q, a.k = keys, a.v = check_input(&k, type, N * D);
        a.ld_q = a.ld_kv = a.ld_out = D, a.scale = 1.0;
        a.out = check_output_add(&k, "out", type, N * D);
        a.lse = check_output_add(&k, "lse", MEGA_F32, N);
        k.row = D;
        check_run(&k, &mega_plain_attention, &mega_cpu_attention, &a, &a.head);
    }
}

/* ---- what a call launches ---- */

/* Every file of kernels is launched by a kernel that has a case. */
static void all_files_have_cases(void **state)
{
    const char *const source = getenv("MEGA_SOURCE");
    char pattern[512];
    glob_t found;
    int count = 0;
    (void)state;
    if (source == NULL) skip();
    snprintf(pattern, sizeof pattern, "%s/src/backend/cuda/*.cu", source);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t f = 0; f < found.gl_pathc; f++) {
        const char *const name = strrchr(found.gl_pathv[f], '/') + 1;
        bool has_case = strstr(name, "_body.cu") != NULL; /* part of another */
        for (int i = 0; i < COUNT(cases); i++) {
            const mega_cuda_kernel *const kernel = mega_cuda_kernel_find(cases[i].name);
            if (kernel == NULL) continue;
            const size_t length = strlen(kernel->source);
            has_case = has_case || (strncmp(kernel->source, name, length) == 0 && strcmp(name + length, ".cu") == 0);
        }
        if (!has_case) fail_msg("%s: no case of a kernel launches it; has launch.c a row for it?", name);
        count++;
    }
    globfree(&found);
    assert_true(count > 0);
}

static bool has_type(mega_dtype t)
{
    return t == MEGA_F32 || t == MEGA_BF16 || t == MEGA_F16;
}

/* (head is the first of all arguments.) */
static void other_types_have_no_kernels(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        const mega_cuda_kernel *const kernel = mega_cuda_kernel_find(cases[i].name);
        union {
            mega_kernel_head head;
            uint64_t all[64];
        } args = {.all = {0}};
        if (kernel == NULL) continue;
        for (mega_dtype t = 0; t < MEGA_DTYPE_COUNT; t++) {
            args.head.dtype = t;
            if ((kernel->call(&args).count >= 0) != has_type(t))
                fail_msg("%s, %s: %d launches", kernel->name, mega_dtype_name(t), kernel->call(&args).count);
        }
    }
    for (mega_dtype t = 0; t < MEGA_DTYPE_COUNT; t++) {
        if (has_type(t)) continue;
        const mega_convert_args to = {.count = 8, .dst_dtype = t}, from = {.count = 8, .src_dtype = t};
        assert_int_equal(mega_cuda_kernel_find("convert")->call(&to).count, -1);
        assert_int_equal(mega_cuda_kernel_find("convert")->call(&from).count, -1);
    }
}

static void row_sums_need_transposed_a(void **state)
{
    float sums[4];
    mega_gemm_args a = {.m = 4, .n = 4, .k = 4, .lda = 4, .ldb = 4, .ldc = 4, .row_sum = sums};
    (void)state;
    assert_int_equal(mega_cuda_kernel_find("gemm")->call(&a).count, -1);
    a.trans_a = true;
    assert_int_equal(mega_cuda_kernel_find("gemm")->call(&a).count, 3);
}

static void attention_of_nothing(void **state)
{
    const mega_attention_args full = {.batch = 2, .seq = 3, .keys = 3, .heads = 2, .kv_heads = 1, .head_dim = 8};
    static const int gradient_launches[] = {1, 1, 0, 2};
    (void)state;
    for (int i = 0; i < 4; i++) {
        mega_attention_grad_args g = {.forward = full};
        if (i == 0) g.forward.seq = 0;
        if (i == 1) g.forward.heads = 0;
        if (i == 2) g.forward.batch = 0;
        if (i == 3) g.forward.keys = 0; /* the queries still get their zeros */
        assert_int_equal(mega_cuda_kernel_find("attention")->call(&g.forward).count, i == 3);
        assert_int_equal(mega_cuda_kernel_find("attention_grad")->call(&g).count, gradient_launches[i]);
    }
}

/* ---- the device ---- */

/* Loads the driver; returns why that is not possible, or NULL. */
static const char *open_driver(void)
{
    const char *path = getenv("MEGA_CUDA_LIBRARY");
    void *library = dlopen(path != NULL ? path : MEGA_CUDA_SOFTWARE, RTLD_NOW);
    if (library == NULL) return dlerror();
    bool is_complete = true;
#define LOAD(member, symbol, params) \
    *(void **)&cuda.member = dlsym(library, #symbol), is_complete = is_complete && cuda.member != NULL;
    MEGA_CUDA_FUNCTIONS(LOAD)
#undef LOAD
    *(void **)&declare = dlsym(library, "mega_software_cuda_operands");
    return is_complete ? NULL : "the library lacks functions";
}

static void open_device(void)
{
    cu_device device;
    cu_context context;
    int major, minor;
    MUST(cuda.init(0));
    MUST(cuda.device_get(&device, 0));
    MUST(cuda.device_attribute(&major, CU_CAPABILITY_MAJOR, device));
    MUST(cuda.device_attribute(&minor, CU_CAPABILITY_MINOR, device));
    MUST(cuda.context_retain(&context, device));
    MUST(cuda.context_set(context));
    MUST(cuda.stream_create(&stream, CU_NON_BLOCKING));
    if (mega_cuda_images_exist() != MEGA_OK) MUST(cuda.module_load(&software, "// software device\n", 0, NULL, NULL));
    else if (mega_cuda_images_open(&images, 10 * major + minor) != MEGA_OK)
        fail_msg("%s", mega_error_message());
}

static const struct CMUnitTest own_tests[] = {cmocka_unit_test(only_the_same_infinity_is_close),
                                              cmocka_unit_test(all_files_have_cases),
                                              cmocka_unit_test(other_types_have_no_kernels),
                                              cmocka_unit_test(row_sums_need_transposed_a),
                                              cmocka_unit_test(attention_of_nothing),
                                              cmocka_unit_test(attention_of_extreme_queries)};

static void list_names(void)
{
    for (int i = 0; i < COUNT(own_tests); i++) puts(own_tests[i].name);
    for (int i = 0; i < COUNT(cases); i++)
        if (mega_cuda_kernel_find(cases[i].name) != NULL) puts(cases[i].name);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(own_tests) + COUNT(cases)];
    const char *const wanted = argc > 1 ? argv[1] : "*";
    int count = 0;
    if (strcmp(wanted, "--list") == 0) return list_names(), 0;
    for (int i = 0; i < COUNT(own_tests); i++)
        if (fnmatch(wanted, own_tests[i].name, 0) == 0) tests[count++] = own_tests[i];
    for (int i = 0; i < COUNT(cases); i++)
        if (mega_cuda_kernel_find(cases[i].name) != NULL && fnmatch(wanted, cases[i].name, 0) == 0)
            tests[count++] = (struct CMUnitTest){
                .name = cases[i].name, .test_func = test_kernel, .initial_state = (void *)(uintptr_t)&cases[i]};
    if (count == 0) {
        printf("no test of a kernel matches %s\n", wanted);
        return 1;
    }
    const char *const why = open_driver();
    if (why != NULL) {
        printf("SKIPPED: no driver: %s\n", why);
        return 77;
    }
    is_whole = getenv("MEGA_DEVICE_SEEDS") != NULL;
    if (is_whole && getenv("MEGA_CUDA_LIBRARY") != NULL) operand_sets = 3; /* (the watch is slow) */
    open_device();
    return _cmocka_run_group_tests("kernels", tests, (size_t)count, NULL, NULL);
}
