/* Measures memory: the difference between a run's resident memory and its plan, and between the plan and the smallest
 * possible, for twelve configurations, each in its own process; the allocations inside a step, by caller; and the
 * variation of step times. Prints lines "RESULT name value unit detail".
 *   bench_memory [steps] */
#include "../tests/kit/held.h"
#include "bench_kit.h"
#include "megalith/command_options.h"
#include "megalith/engine_commands.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- malloc, counted by caller: our code is this program's text segment, libraries are shared objects ---- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern const char __executable_start[], etext[];
static atomic_llong own_calls, library_calls;

static void count_call(const void *caller)
{
    const char *at = caller;
    atomic_fetch_add_explicit(at >= __executable_start && at < etext ? &own_calls : &library_calls, 1,
                              memory_order_relaxed);
}

void *malloc(size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count_call(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    count_call(__builtin_return_address(0));
    void *block = __libc_memalign(alignment, bytes);
    if (block == NULL) return ENOMEM;
    *out = block;
    return 0;
}

/* ---- one run ---- */

typedef struct run_shape {
    const char *name;
    int64_t layers, hidden, heads, vocab, batch, micro_batches, seq;
    mega_dtype dtype;
    mega_transformer_recompute recompute;
    mega_optimizer_kind optimizer;
    bool evaluate;
} run_shape;

static const run_shape shapes[] = {
    {"fp32", 4, 512, 8, 8192, 4, 1, 128, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_ADAM, false},
    {"fp32, evaluated", 4, 512, 8, 8192, 4, 1, 128, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_ADAM,
     true},
    {"fp32, full", 4, 512, 8, 8192, 8, 1, 128, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_FULL, MEGA_OPTIMIZER_ADAM, false},
    {"fp32, selective", 4, 512, 8, 8192, 2, 1, 256, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE, MEGA_OPTIMIZER_ADAM,
     false},
    {"fp32, 4 micro-batches", 5, 512, 8, 8192, 1, 4, 128, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_NONE,
     MEGA_OPTIMIZER_ADAM, false},
    {"fp32, sgd", 4, 640, 10, 8192, 4, 1, 128, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_SGD, false},
    {"fp32, activations", 6, 256, 4, 512, 16, 1, 256, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_ADAM,
     false},
    {"bf16", 4, 512, 8, 8192, 2, 1, 128, MEGA_BF16, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_ADAM, false},
    {"bf16, evaluated", 4, 512, 8, 8192, 2, 1, 128, MEGA_BF16, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_ADAM,
     true},
    {"bf16, full", 4, 512, 8, 8192, 2, 2, 128, MEGA_BF16, MEGA_TRANSFORMER_RECOMPUTE_FULL, MEGA_OPTIMIZER_ADAM, false},
    {"bf16, sgd", 6, 640, 10, 8192, 2, 1, 64, MEGA_BF16, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_SGD, false},
    {"fp32, large vocabulary", 4, 256, 4, 50304, 4, 1, 128, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_NONE,
     MEGA_OPTIMIZER_ADAM, false},
};
enum { NUM_SHAPES = (int)(sizeof shapes / sizeof *shapes), MOST_STEPS = 1000 };

static mega_status make_engine(mega_engine **out, const run_shape *s, mega_team *team)
{
    mega_transformer gpt = bench_gpt(s->layers, s->hidden, s->heads, s->seq, s->vocab);
    gpt.recompute = s->recompute;
    gpt.recompute_uniform = true;
    gpt.recompute_layers = 1;
    mega_command_options cfg = {0};
    mega_engine_options o;
    MEGA_TRY(mega_command_options_init(&cfg));
    cfg.train.engine.optim.micro_batch_size = s->batch;
    cfg.train.engine.optim.global_batch_size = s->batch * s->micro_batches;
    cfg.train.seq_length = s->seq;
    cfg.train.engine.optim.train_iters = 1000;
    cfg.train.engine.optim.lr = 1e-4;
    cfg.train.engine.optim.start_weight_decay = cfg.train.engine.optim.end_weight_decay =
        cfg.train.engine.optim.weight_decay;
    cfg.train.engine.backend.params_dtype = s->dtype;
    cfg.train.engine.optim.optimizer = s->optimizer;
    mega_status st = mega_train_engine_options(&cfg.train, &o);
    o.team = team;
    o.no_evaluate = !s->evaluate;
    if (st == MEGA_OK) st = gpt_engine_create(out, &gpt, &o);
    if (st == MEGA_OK) st = mega_engine_allocate(*out);
    if (st == MEGA_OK) st = mega_engine_initialize(*out, 1234);
    mega_command_options_fini(&cfg);
    return st;
}

/* ---- plan against process ---- */

typedef struct memory_result {
    double error, waste; /* in percent */
} memory_result;

static mega_status measure(const run_shape *s, memory_result *out)
{
    const size_t before = held_bytes();
    mega_team *team = NULL;
    mega_engine *e = NULL;
    mega_engine_memory m;
    mega_step_result r;
    mega_loss_sums sums = {0};
    MEGA_TRY(mega_team_create(mega_default_threads(), &team));
    MEGA_TRY(make_engine(&e, s, team));
    for (int i = 0; i < 3; i++) {
        bench_fill(e, mega_engine_batch(e), s->seq, s->vocab);
        MEGA_TRY(mega_engine_train_batch(e, &r));
    }
    if (s->evaluate) {
        bench_fill(e, mega_engine_evaluation_batch(e, s->batch, 0), s->seq, s->vocab);
        MEGA_TRY(mega_engine_evaluate_batch(e, &sums));
    }
    const double held = (double)(held_bytes() - before);
    mega_engine_memory_get(e, &m);
    out->error = 100 * (held / (double)m.total - 1);
    out->waste = 100 * ((double)(m.saved + m.scratch) / (double)m.live - 1);
    printf("# %-24s planned %8.1f MB, held %8.1f MB, %+.2f MB, %+.2f %%; arena over live %.2f %%\n", s->name,
           (double)m.total * 1e-6, held * 1e-6, (held - (double)m.total) * 1e-6, out->error, out->waste);
    fflush(stdout);
    mega_engine_destroy(e);
    mega_team_destroy(team);
    return MEGA_OK;
}

static int measure_apart(const run_shape *s, memory_result *out)
{
    int channel[2], state = 0;
    if (pipe(channel) != 0) return 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        memory_result r;
        if (measure(s, &r) != MEGA_OK) {
            fprintf(stderr, "bench_memory: %s: %s\n", s->name, mega_error_message());
            _exit(1);
        }
        _exit(write(channel[1], &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
    }
    close(channel[1]);
    const bool got = read(channel[0], out, sizeof *out) == (ssize_t)sizeof *out;
    close(channel[0]);
    waitpid(child, &state, 0);
    return got && state == 0 ? 0 : 1;
}

static int plans(void)
{
    double error = 0, waste = 0;
    for (int i = 0; i < NUM_SHAPES; i++) {
        memory_result r;
        if (measure_apart(&shapes[i], &r) != 0) return 1;
        error = fmax(error, fabs(r.error));
        waste = fmax(waste, r.waste);
    }
    printf("RESULT plan_error_percent %.3f percent largest of %d configurations\n", error, NUM_SHAPES);
    printf("RESULT plan_waste_percent %.3f percent largest of %d configurations\n", waste, NUM_SHAPES);
    return 0;
}

/* ---- allocations in a step, and the variation of step times ---- */

static mega_status steps(int count)
{
    static double seconds[MOST_STEPS];
    const run_shape s = {
        "small", 4, 128, 4, 128, 12, 1, 64, MEGA_F32, MEGA_TRANSFORMER_RECOMPUTE_NONE, MEGA_OPTIMIZER_ADAM, false};
    mega_team *team = NULL;
    mega_engine *e = NULL;
    mega_step_result r;
    long long own = 0, fewest = -1, most = 0;
    MEGA_TRY(mega_team_create(mega_default_threads(), &team));
    MEGA_TRY(make_engine(&e, &s, team));
    for (int i = -1; i < count; i++) {
        bench_fill(e, mega_engine_batch(e), s.seq, s.vocab);
        const long long own_before = own_calls, library_before = library_calls;
        const double start = mega_time_now();
        MEGA_TRY(mega_engine_train_batch(e, &r));
        const double end = mega_time_now();
        if (i < 0) continue;
        const long long library = library_calls - library_before;
        seconds[i] = end - start;
        own += own_calls - own_before;
        if (fewest < 0 || library < fewest) fewest = library;
        if (library > most) most = library;
    }
    bench_sort(seconds, count);
    printf(
        "RESULT allocations_per_step %.3f calls own code, %d steps after the first; libraries: %lld to %lld a step\n",
        (double)own / count, count, fewest, most);
    printf("RESULT step_p95_of_median %.3f ratio %d steps of the small GPT, median %.2f ms\n",
           seconds[count * 95 / 100] / seconds[count / 2], count, seconds[count / 2] * 1e3);
    mega_engine_destroy(e);
    mega_team_destroy(team);
    return MEGA_OK;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 100;
    if (count < 1 || count > MOST_STEPS) count = 100;
    if (plans() != 0) return 1; /* first, while the process holds little else */
    if (steps(count) == MEGA_OK) return 0;
    fprintf(stderr, "bench_memory: %s\n", mega_error_message());
    return 1;
}
