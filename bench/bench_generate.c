/* Measures greedy decoding of one sequence in bf16 (random weights) relative to memory speed, for models of the shapes
 * of GPT-2 124M and of a Llama of 160M: the bytes of weights and of cache that a token reads, per second, divided by
 * the best of several loops in which the same team reads the weights. Each loop runs once after every token, so that
 * both sides see the same machine. An argument names one of
 * the shapes: 124m (`make bench only=generate`) or llama (`make bench only=llama_decode`). */
#include "../tests/kit/gpt_describe.h"
#include "bench_kit.h"
#include "megalith/generate.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "megalith/transformer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 128, WARM = 8, MOST_THREADS = 256, READ_LOOPS = 5, AHEAD = 12288 };

typedef long long lanes __attribute__((vector_size(32)));

typedef struct bench {
    mega_team *team;
    mega_engine *engine;
    mega_transformer gpt;
    mega_transformer_list list;
    mega_language_model language;
    mega_generator *generator;
    const char *weights;
    int64_t bytes; /* bytes of weights that one token reads, and each loop */
    int tokens;
    double last; /* when the current token began */
    double seconds[CONTEXT], reads[READ_LOOPS][CONTEXT];
    long long sums[MOST_THREADS * 8]; /* one cache line per thread */
} bench;

/* Sums a thread's share as `streams` streams at once, with or without prefetching: the fastest choice depends on the
 * processor. */
static void read_share(bench *b, int thread, int size, int streams, bool ahead)
{
    int64_t begin, end;
    lanes sum[8] = {{0}};
    mega_team_share(b->bytes, 65536, thread, size, &begin, &end);
    const int64_t part = (end - begin) / streams / 64 * 64;
    for (int64_t i = 0; i < part; i += 64)
        for (int s = 0; s < streams; s++) {
            const char *line = b->weights + begin + s * part + i;
            const lanes *x = (const lanes *)(const void *)line;
            if (ahead) __builtin_prefetch((const void *)((uintptr_t)line + AHEAD));
            sum[2 * (s & 3)] += x[0];
            sum[2 * (s & 3) + 1] += x[1];
        }
    for (int k = 1; k < 8; k++) sum[0] += sum[k];
    if (thread < MOST_THREADS) b->sums[thread * 8] = sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
}

static void read_1(void *user, int thread, int size)
{
    read_share(user, thread, size, 1, false);
}

static void read_1_ahead(void *user, int thread, int size)
{
    read_share(user, thread, size, 1, true);
}

static void read_2_ahead(void *user, int thread, int size)
{
    read_share(user, thread, size, 2, true);
}

static void read_4(void *user, int thread, int size)
{
    read_share(user, thread, size, 4, false);
}

static void read_8(void *user, int thread, int size)
{
    read_share(user, thread, size, 8, false);
}

static mega_team_work *const read_loops[READ_LOOPS] = {read_1, read_1_ahead, read_2_ahead, read_4, read_8};

/* Called after each token: records its time, then runs each read loop once. */
static bool token_made(void *user, int row, int32_t token)
{
    bench *b = user;
    (void)row;
    (void)token;
    b->seconds[b->tokens] = mega_time_now() - b->last;
    for (int i = 0; i < READ_LOOPS; i++) {
        const double start = mega_time_now();
        mega_team_run(b->team, read_loops[i], b);
        b->reads[i][b->tokens] = mega_time_now() - start;
    }
    b->tokens++;
    b->last = mega_time_now();
    return true;
}

/* Returns the median without the first values, which warm up. */
static double median(double *x, int n)
{
    bench_sort(x + WARM, n - WARM);
    return x[WARM + (n - WARM) / 2];
}

/* Bytes of keys and values that a token reads, on the average of those that are measured. */
static double cache_bytes(const bench *b)
{
    const int64_t kv_heads = b->gpt.net.kv_heads > 0 ? b->gpt.net.kv_heads : b->gpt.heads;
    const double positions = (double)(WARM + 1 + b->tokens) / 2.0;
    return 2.0 * 2.0 * (double)(b->gpt.num_layers * kv_heads * b->gpt.head_dim) * positions;
}

static mega_status begin(bench *b)
{
    MEGA_TRY(gpt_language(&b->language, &b->list, &b->gpt));
    MEGA_TRY(mega_team_create(mega_default_threads(), &b->team));
    const mega_engine_options o = {.compute = MEGA_BF16,
                                   .team = b->team,
                                   .micro_batch = 1,
                                   .seq = CONTEXT,
                                   .batch = {.global_batch = 1, .micro_step = 1},
                                   .bucket_elements = INT64_MAX};
    const mega_setup setup = {.model = &b->language.model, .mode = MEGA_GENERATE, .options = &o};
    MEGA_TRY(mega_engine_create(&setup, &b->engine));
    MEGA_TRY(mega_engine_allocate(b->engine));
    MEGA_TRY(mega_engine_initialize(b->engine, 1234));
    const mega_params *params = mega_engine_params(b->engine);
    b->weights = mega_params_flat_weight(params);
    /* All parameters but the table of which a token reads only one row: that of positions, or that of tokens if the
     * head has another. */
    const int64_t table = b->gpt.net.untied ? b->gpt.padded_vocab : b->gpt.positions;
    b->bytes = 2 * (mega_params_local_count(params) - table * b->gpt.hidden);
    return mega_generator_create(b->engine, &b->language, &(mega_generator_options){.no_cache = false}, &b->generator);
}

static mega_status round_of(bench *b, const char *name)
{
    const int32_t prompt = 11;
    int32_t tokens[CONTEXT];
    const mega_generation_rules greedy = {.sampling.greedy = true, .token = token_made, .user = b};
    mega_generation text = {.prompt = &prompt, .prompt_count = 1, .max_new = CONTEXT - 1, .tokens = tokens};
    b->tokens = 0;
    b->last = mega_time_now();
    MEGA_TRY(mega_generator_run(b->generator, &text, 1, &greedy));
    const double token = median(b->seconds, b->tokens), weights = (double)b->bytes, bytes = weights + cache_bytes(b);
    double read = median(b->reads[0], b->tokens);
    for (int i = 1; i < READ_LOOPS; i++) {
        const double now = median(b->reads[i], b->tokens);
        read = now < read ? now : read;
    }
    printf("RESULT generate_%s_of_bandwidth %.4f ratio %.1f tokens/s, %.1f MB of weights and %.2f MB of cache each, "
           "%.2f GB/s; best of %d read loops %.2f GB/s; %d threads, %s\n",
           name, bytes / token / (weights / read), 1.0 / token, weights * 1e-6, (bytes - weights) * 1e-6,
           bytes / token * 1e-9, (int)READ_LOOPS, weights / read * 1e-9, mega_team_size(b->team),
           mega_isa_name(mega_cpu_isa()));
    fflush(stdout);
    return MEGA_OK;
}

static mega_status measure(bench *b, const char *name, const mega_transformer *gpt)
{
    const char *repeats = getenv("MEGA_BENCH_REPEATS");
    const int rounds = repeats != NULL && atoi(repeats) > 0 ? atoi(repeats) : 5;
    memset(b, 0, sizeof *b);
    b->gpt = *gpt;
    mega_status st = begin(b);
    for (int i = 0; i < rounds && st == MEGA_OK; i++) st = round_of(b, name);
    mega_generator_destroy(b->generator);
    mega_engine_destroy(b->engine);
    mega_transformer_list_destroy(&b->list);
    mega_team_destroy(b->team);
    return st;
}

int main(int argc, char **argv)
{
    static bench b;
    const struct {
        const char *name;
        mega_transformer gpt;
    } shapes[] = {{"124m", bench_gpt(12, 768, 12, 1024, 50257)}, {"llama", bench_llama(1024)}};
    mega_status st = MEGA_OK;
    for (int i = 0; i < 2 && st == MEGA_OK; i++)
        if (argc < 2 || strcmp(argv[1], shapes[i].name) == 0) st = measure(&b, shapes[i].name, &shapes[i].gpt);
    if (st != MEGA_OK) fprintf(stderr, "%s\n", mega_error_message());
    return st == MEGA_OK ? 0 : 1;
}
