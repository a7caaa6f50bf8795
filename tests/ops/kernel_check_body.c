/* A check of a kernel: its operands, which are the same for every type but for rounding. The file that includes this
 * one defines check_run, which compares two forms of the kernel. Part of ops_test_kernels and device_test_kernels. */

enum { MAX_OUTPUTS = 5, MAX_BLOCKS = 40, GUARD = 64 };

typedef struct check_output {
    const char *name;
    void *data; /* n elements and GUARD bytes; what it held before the run is restored before each run */
    void *initial, *expected, *first;
    int64_t n, row; /* row: elements of its rows, 0: as check.row says */
    mega_dtype type;
} check_output;

/* Memory of a check that arguments may point into, without its guard. */
typedef struct check_block {
    char *at;
    size_t bytes;
} check_block;

typedef struct check {
    mega_dtype type; /* of the call */
    const char *kernel;
    char label[160]; /* the shape, for messages */
    mega_arena arena;
    check_block block[MAX_BLOCKS];
    int num_blocks;
    check_output output[MAX_OUTPUTS];
    int num_outputs;
    uint32_t seed;
    bool sums_floats; /* what it sums in F64 was rounded to F32 */
    bool same_zeros;  /* an element is zero in both forms or in neither: dropout masks are equal */
    double tolerance_f32, tolerance_bf16;
    double tolerance_f64; /* not 0: the cpu kernel computes F64 itself */
    int64_t row;          /* elements of a row of the outputs, where these are not the columns of the case */
    int64_t work;         /* products of a convolution */
} check;

static int comparisons;     /* made so far */
static uint32_t first_seed; /* is added to the seed of each check */
static bool is_slow;        /* a sanitizer looks at memory, which fewer forms, types and runs touch as well */

static mega_dtype acc_type(const check *k)
{
    return k->type == MEGA_F64 ? MEGA_F64 : MEGA_F32;
}

static double element(const void *x, mega_dtype t, int64_t i)
{
    if (t == MEGA_F64) return ((const double *)x)[i];
    if (t == MEGA_BF16) return mega_bf16_to_f32(((const uint16_t *)x)[i]);
    if (t == MEGA_F16) return mega_f16_to_f32(((const uint16_t *)x)[i]);
    return t == MEGA_I32 ? (double)((const int32_t *)x)[i] : (double)((const float *)x)[i];
}

static void set_element(void *x, mega_dtype t, int64_t i, float v)
{
    if (t == MEGA_F64) ((double *)x)[i] = v;
    else if (t == MEGA_BF16)
        ((uint16_t *)x)[i] = mega_f32_to_bf16(v);
    else if (t == MEGA_F16)
        ((uint16_t *)x)[i] = mega_f32_to_f16(v);
    else if (t == MEGA_I32)
        ((int32_t *)x)[i] = (int32_t)v;
    else
        ((float *)x)[i] = v;
}

static void *check_bytes(check *k, size_t bytes)
{
    void *p = mega_arena_alloc(&k->arena, bytes + GUARD);
    assert_non_null(p);
    assert_in_range(k->num_blocks, 0, MAX_BLOCKS - 1);
    k->block[k->num_blocks++] = (check_block){p, bytes};
    return p;
}

/* n numbers in [-2, 2), the same for every type but for rounding. */
static void *check_input(check *k, mega_dtype t, int64_t n)
{
    float *f = check_bytes(k, (size_t)n * sizeof *f);
    void *x = check_bytes(k, (size_t)n * mega_dtype_size(t));
    mega_kit_random(f, n, k->seed++);
    for (int64_t i = 0; i < n; i++) set_element(x, t, i, 2.0f * f[i]);
    return x;
}

/* An output; it begins as n random numbers, which a kernel that adds must keep. */
static void *check_output_add(check *k, const char *name, mega_dtype t, int64_t n)
{
    check_output *o = &k->output[k->num_outputs++];
    const size_t bytes = (size_t)n * mega_dtype_size(t) + GUARD;
    *o = (check_output){.name = name, .n = n, .type = t, .data = check_input(k, t, n)};
    memset((char *)o->data + bytes - GUARD, 0x5a, GUARD);
    o->initial = check_bytes(k, bytes);
    o->expected = check_bytes(k, bytes);
    o->first = check_bytes(k, bytes);
    memcpy(o->initial, o->data, bytes);
    return o->data;
}

static size_t output_bytes(const check_output *o)
{
    return (size_t)o->n * mega_dtype_size(o->type) + GUARD;
}

/* A new check of a kernel: same seed for each type. Tolerances: kernels that say nothing get a few roundings of each
 * type; in bf16 the two forms round nearly equal numbers, of which now and then one falls to the other side (2^-8). */
static check check_begin(const char *kernel, mega_dtype type, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static check check_begin(const char *kernel, mega_dtype type, const char *fmt, ...)
{
    check k = {.type = type, .kernel = kernel, .seed = 17 + first_seed, .tolerance_f32 = 2e-6, .tolerance_bf16 = 4e-3};
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(k.label, sizeof k.label, fmt, arguments);
    va_end(arguments);
    return k;
}
