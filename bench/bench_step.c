/* Measures whole training steps (forward, loss, backward, clip, AdamW) on random tokens.
 *
 *   bench_step                              prints a table of shapes, relative to the machine's arithmetic peak
 *   bench_step steps=9 124m B=4 T=64 bf16   measures one shape, given as words in any order: small, 124m, bert, t5
 *                                           (60M), llama (160M), f32, bf16, f16, B=, T=, dropout=, accumulate=
 *                                           (micro-batches of B rows per step), threads=, muon or lamb instead of
 *                                           AdamW; profile also prints the time of each kind of op
 *   mpirun -n N bench_step once steps=3 …   measures the shape on N ranks. tp=, sp=1, pp=, first= (layers of the first
 *                                           stage) and zero= (stage) give the layout; threads= is per rank, and B= is
 *                                           the micro-batch of a data-parallel rank. Prints the line that serve answers
 *                                           to run, and then "memory MOST MEAN" over the ranks
 *   bench_step serve …                      builds the shape and obeys input lines, so that bench/run.py can interleave
 *                                           it with a peer:
 *                                             export FOLDER   writes the weights as a Hugging Face folder, and
 *                                                             tokens.bin and labels.bin
 *                                             run N           -> "seconds S1 … SN losses L1 … LN"
 *                                             waited          -> "waited S": seconds that the first thread has waited
 *                                                             for the others so far
 *                                             peak            -> "peak FLOP/s" of this type, in registers only
 *                                             memory          -> "memory BYTES": peak resident memory so far
 *                                             quit
 *   mpirun -n N bench_step serve lines=F …  the same on N ranks. Rank R reads its lines from the pipe F.R, as mpirun
 *                                           passes its input only to one rank, and ranks that waited for that rank over
 *                                           MPI would keep a core busy. Rank 0 answers.
 *
 * bench/peers/torch_step.py accepts the same commands. */
#include "bench_kit.h"
#include "megalith/comm.h"
#include "megalith/command_options.h"
#include "megalith/engine_commands.h"
#include "megalith/family.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/peak.h"
#include "megalith/profile.h"
#include "megalith/threads.h"
#include "megalith/transformer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_STEPS = 256 };

typedef struct shape {
    const char *name;
    int64_t layers, hidden, heads, vocab, batch, seq, accumulate, tp, pp, first, zero, sp;
    double dropout;
    mega_dtype dtype;
    mega_optimizer_kind optimizer;
    bool is_llama; /* the model is bench_llama */
    bool profile;
} shape;

static const shape small = {.name = "small",
                            .layers = 4,
                            .hidden = 128,
                            .heads = 4,
                            .vocab = 65,
                            .batch = 12,
                            .seq = 64,
                            .accumulate = 1,
                            .tp = 1,
                            .pp = 1};
static const shape gpt2 = {.name = "124m",
                           .layers = 12,
                           .hidden = 768,
                           .heads = 12,
                           .vocab = 50304,
                           .batch = 4,
                           .seq = 1024,
                           .accumulate = 1,
                           .tp = 1,
                           .pp = 1};
static const shape llama = {.name = "llama",
                            .layers = 12,
                            .hidden = 768,
                            .heads = 12,
                            .vocab = 32000,
                            .batch = 4,
                            .seq = 512,
                            .accumulate = 1,
                            .tp = 1,
                            .pp = 1,
                            .is_llama = true};

/* The base model of Devlin et al. 2019, with both of its heads. */
static const shape bert = {.name = "bert",
                           .layers = 12,
                           .hidden = 768,
                           .heads = 12,
                           .vocab = 30592,
                           .batch = 8,
                           .seq = 128,
                           .accumulate = 1,
                           .tp = 1,
                           .pp = 1};

/* The small model of Raffel et al. 2019; heads of 64 channels. */
static const shape t5 = {.name = "t5",
                         .layers = 6,
                         .hidden = 512,
                         .heads = 8,
                         .vocab = 32128,
                         .batch = 8,
                         .seq = 128,
                         .accumulate = 1,
                         .tp = 1,
                         .pp = 1};

typedef struct runner {
    shape s;
    mega_transformer gpt;
    mega_command_options cfg;
    mega_engine *engine;
    mega_team *team;
    mega_world *world;     /* NULL if there is one rank */
    mega_profile *profile; /* NULL if none is recorded */
} runner;

static mega_status run_steps(runner *r, int steps, double *seconds, double *losses)
{
    for (int i = 0; i < steps; i++) {
        mega_step_result result = {0};
        bench_fill(r->engine, mega_engine_batch(r->engine), r->s.seq, r->s.vocab);
        const mega_profile_moment start = mega_profile_now(r->team);
        MEGA_TRY(mega_engine_train_batch(r->engine, &result));
        const mega_profile_moment end = mega_profile_now(r->team);
        if (r->profile != NULL) mega_profile_step(r->profile, i, start, end);
        seconds[i] = end.at - start.at;
        losses[i] = result.loss;
    }
    return MEGA_OK;
}

static void configure(runner *r)
{
    const shape *s = &r->s;
    mega_command_options *cfg = &r->cfg;
    r->gpt = s->is_llama ? bench_llama(s->seq) : bench_gpt(s->layers, s->hidden, s->heads, s->seq, s->vocab);
    if (strcmp(s->name, "bert") == 0) {
        r->gpt.net.activation = MEGA_ACT_GELU;
        mega_network_make_encoder(&r->gpt.net, true, true, 0);
        r->gpt.net.family = mega_family_find("bert");
    }
    if (strcmp(s->name, "t5") == 0) {
        mega_network_make_t5(&r->gpt.net, true, false, s->layers, s->hidden);
        r->gpt.net.family = mega_family_find("t5");
        r->gpt.norm_epsilon = 1e-6;
    }
    r->gpt.hidden_dropout = r->gpt.attention_dropout = s->dropout;
    cfg->train.engine.optim.micro_batch_size = s->batch;
    r->gpt.sequence_parallel = s->sp != 0;
    r->gpt.first_stage_layers = s->first;
    cfg->train.engine.comm.tensor_model_parallel_size = s->tp;
    cfg->train.engine.comm.pipeline_model_parallel_size = s->pp;
    cfg->train.engine.graph.zero_stage = s->zero;
    cfg->train.engine.data_parallel_size = mega_world_size(r->world) / (s->tp * s->pp);
    cfg->train.engine.optim.global_batch_size = s->batch * s->accumulate * cfg->train.engine.data_parallel_size;
    cfg->train.seq_length = s->seq;
    cfg->train.engine.optim.train_iters = 1000000;
    cfg->train.engine.optim.lr = 1e-4;
    cfg->train.engine.optim.lr_decay_style = MEGA_LR_CONSTANT;
    cfg->train.engine.optim.adam_beta2 = 0.95;
    cfg->train.engine.optim.optimizer = s->optimizer;
    cfg->train.engine.optim.weight_decay = cfg->train.engine.optim.start_weight_decay =
        cfg->train.engine.optim.end_weight_decay = 0.1;
    cfg->train.engine.backend.params_dtype = s->dtype;
    cfg->train.engine.optim.loss_scale = 1024; /* static, so that f16 skips no step */
}

static mega_status begin(runner *r, const shape *s, mega_team *team, mega_world *world)
{
    *r = (runner){.s = *s, .team = team, .world = world};
    MEGA_TRY(mega_command_options_init(&r->cfg));
    configure(r);
    mega_engine_options o;
    MEGA_TRY(mega_train_engine_options(&r->cfg.train, &o));
    o.team = team;
    o.world = world;
    o.no_evaluate = true;
    MEGA_TRY(gpt_engine_create(&r->engine, &r->gpt, &o));
    MEGA_TRY(mega_engine_allocate(r->engine));
    return mega_engine_initialize(r->engine, 1234);
}

static void end(runner *r)
{
    mega_engine_destroy(r->engine);
    mega_command_options_fini(&r->cfg);
}

/* Runs the steps with a profile, and prints its table. */
static mega_status run_profiled(runner *r, int steps, double *seconds, double *losses)
{
    mega_buffer text = {0};
    const mega_profile_bound bound = {.flops = mega_cpu_peak_flops(r->team, r->s.dtype)};
    MEGA_TRY(mega_profile_create((int64_t)1 << 18, &r->profile));
    mega_engine_profile(r->engine, r->profile);
    const mega_status st = run_steps(r, steps, seconds, losses);
    mega_engine_profile(r->engine, NULL);
    mega_profile_table(r->profile, &bound, &text);
    fwrite(text.data, 1, text.size, stdout);
    mega_buffer_fini(&text);
    mega_profile_destroy(r->profile);
    r->profile = NULL;
    return st;
}

/* Prints one line of the table: the median of several steps, after two warm-up steps. */
static mega_status table_line(runner *r, int steps)
{
    double seconds[MOST_STEPS], losses[MOST_STEPS];
    const shape *s = &r->s;
    MEGA_TRY(run_steps(r, 2, seconds, losses));
    MEGA_TRY((s->profile ? run_profiled : run_steps)(r, steps, seconds, losses));
    bench_sort(seconds, steps);
    const double median = seconds[steps / 2], tokens = (double)(s->batch * s->accumulate * s->seq);
    const double rate = tokens / median * bench_flops(r->engine) / (double)s->seq;
    printf("%-6s B%-3lld T%-5lld %-5s %10.1f ms/step %10.0f tokens/s %8.1f GFLOP/s %6.1f %% of peak   loss %.4f\n",
           s->name, (long long)s->batch, (long long)s->seq, mega_dtype_name(s->dtype), median * 1e3, tokens / median,
           rate / 1e9, 100.0 * rate / mega_cpu_peak_flops(r->team, s->dtype), losses[steps - 1]);
    fflush(stdout);
    return MEGA_OK;
}

static mega_status write_ids(runner *r, const char *folder, const char *name, const char *input)
{
    const int64_t seq = r->s.seq;
    mega_batch *b = mega_engine_batch(r->engine);
    bench_fill(r->engine, b, seq, r->s.vocab);
    char *path = mega_path_join(folder, name);
    FILE *f = fopen(path, "wb");
    bool good = f != NULL;
    for (int64_t i = 0; i < mega_batch_num_samples(b) && good; i++) {
        const int32_t *ids = mega_sample_i32(mega_batch_sample(b, i), input, seq);
        good = ids != NULL && fwrite(ids, sizeof *ids, (size_t)seq, f) == (size_t)seq;
    }
    good = f != NULL && fclose(f) == 0 && good;
    mega_free(path);
    return good ? MEGA_OK : MEGA_FAIL(MEGA_ERR_IO, "%s/%s: cannot be written", folder, name);
}

static mega_status export(runner *r, const char *folder)
{
    mega_model_shape described;
    mega_transformer_to_shape(&r->gpt, 0, &described);
    MEGA_TRY(mega_engine_save(
        r->engine,
        &(mega_engine_save_options){
            .folder = folder, .shape = &described, .save_dtype = MEGA_F32, .no_optim = true, .no_rng = true}));
    MEGA_TRY(write_ids(r, folder, "tokens.bin", "tokens"));
    return write_ids(r, folder, "labels.bin", "labels");
}

static mega_status obey_run(runner *r, int steps)
{
    double seconds[MOST_STEPS], losses[MOST_STEPS];
    if (steps < 1 || steps > MOST_STEPS) steps = 1;
    MEGA_TRY(run_steps(r, steps, seconds, losses));
    if (mega_world_rank(r->world) > 0) return MEGA_OK;
    printf("seconds");
    for (int i = 0; i < steps; i++) printf(" %.9g", seconds[i]);
    printf(" losses");
    for (int i = 0; i < steps; i++) printf(" %.7g", losses[i]);
    printf("\n");
    return MEGA_OK;
}

static double resident_at_most(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024.0;
}

static mega_status once(runner *r, int steps)
{
    MEGA_TRY(obey_run(r, steps));
    double most = resident_at_most(), sum = most;
    if (r->world != NULL) {
        mega_comm *all = mega_world_comm(r->world);
        MEGA_TRY(mega_comm_all_reduce(all, "memory", &most, 1, MEGA_F64, MEGA_REDUCE_MAX));
        MEGA_TRY(mega_comm_all_reduce(all, "memory", &sum, 1, MEGA_F64, MEGA_REDUCE_SUM));
    }
    if (mega_world_rank(r->world) == 0) printf("memory %.9g %.9g\n", most, sum / mega_world_size(r->world));
    return MEGA_OK;
}

static mega_status serve(runner *r)
{
    char line[1024];
    if (mega_world_rank(r->world) > 0 && freopen("/dev/null", "w", stdout) == NULL)
        return MEGA_FAIL(MEGA_ERR_IO, "/dev/null: cannot be written");
    printf("ready flops_per_token %.9g tokens %lld\n", bench_flops(r->engine) / (double)r->s.seq,
           (long long)(r->s.batch * r->s.accumulate * r->s.seq));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "quit") == 0) break;
        if (strncmp(line, "export ", 7) == 0) {
            MEGA_TRY(export(r, line + 7));
            printf("done\n");
        } else if (strncmp(line, "run ", 4) == 0) {
            MEGA_TRY(obey_run(r, atoi(line + 4)));
        } else if (strcmp(line, "peak") == 0) {
            printf("peak %.9g\n", mega_cpu_peak_flops(r->team, r->s.dtype));
        } else if (strcmp(line, "waited") == 0) {
            printf("waited %.9g\n", mega_team_waited(r->team));
        } else if (strcmp(line, "memory") == 0) {
            printf("memory %.9g\n", resident_at_most());
        } else {
            printf("unknown\n");
        }
        fflush(stdout);
    }
    return MEGA_OK;
}

static bool read_layout(shape *s, const char *word, const char *value)
{
    const struct {
        const char *name;
        int64_t *number;
    } known[] = {{"tp", &s->tp}, {"pp", &s->pp}, {"zero", &s->zero}, {"sp", &s->sp}, {"first", &s->first}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(word, known[i].name, (size_t)(value - word)) != 0 || known[i].name[value - word] != '\0') continue;
        *known[i].number = atoll(value + 1);
        return true;
    }
    return false;
}

/* Reads one word into the shape; returns false if it is not a known word. */
static bool read_word(shape *s, const char *word)
{
    const char *value = strchr(word, '=');
    if (strcmp(word, "small") == 0) *s = small;
    else if (strcmp(word, "124m") == 0)
        *s = gpt2;
    else if (strcmp(word, "bert") == 0)
        *s = bert;
    else if (strcmp(word, "t5") == 0)
        *s = t5;
    else if (strcmp(word, "llama") == 0)
        *s = llama;
    else if (strcmp(word, "f32") == 0)
        s->dtype = MEGA_F32;
    else if (strcmp(word, "bf16") == 0)
        s->dtype = MEGA_BF16;
    else if (strcmp(word, "f16") == 0)
        s->dtype = MEGA_F16;
    else if (strcmp(word, "profile") == 0)
        s->profile = true;
    else if (strcmp(word, "muon") == 0)
        s->optimizer = MEGA_OPTIMIZER_MUON;
    else if (strcmp(word, "lamb") == 0)
        s->optimizer = MEGA_OPTIMIZER_LAMB;
    else if (value == NULL)
        return false;
    else if (word[0] == 'B')
        s->batch = atoll(value + 1);
    else if (word[0] == 'T')
        s->seq = atoll(value + 1);
    else if (strncmp(word, "accumulate=", 11) == 0)
        s->accumulate = atoll(value + 1);
    else if (read_layout(s, word, value))
        return true;
    else if (strncmp(word, "dropout=", 8) == 0)
        s->dropout = atof(value + 1);
    else
        return false;
    return true;
}

typedef enum mode { TABLE, SERVE, ONCE } mode;

/* Opens PREFIX.RANK as the standard input of this rank. */
static mega_status read_lines_from(const char *prefix, int rank)
{
    char path[1024];
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    return freopen(path, "r", stdin) != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_IO, "%s: cannot be read", path);
}

/* lines: prefix of the files from which the ranks of a server read their input, or NULL. */
static mega_status one(const shape *s, mega_team *team, mode m, int steps, const char *lines)
{
    runner r = {0};
    mega_world *world = NULL;
    mega_status st = m == ONCE || lines != NULL ? mega_world_create(NULL, &world) : MEGA_OK;
    if (st == MEGA_OK && lines != NULL) st = read_lines_from(lines, mega_world_rank(world));
    if (st == MEGA_OK) st = begin(&r, s, team, world);
    if (st == MEGA_OK) st = m == SERVE ? serve(&r) : m == ONCE ? once(&r, steps) : table_line(&r, steps);
    end(&r);
    if (st != MEGA_OK) mega_world_abort(world, 1);
    mega_world_destroy(world);
    return st;
}

static mega_status table(mega_team *team, int steps)
{
    const int64_t seq[] = {0, 64, 1024};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            shape s = i == 0 ? small : gpt2;
            if (i > 0) s.seq = seq[i];
            s.dtype = k == 0 ? MEGA_F32 : MEGA_BF16;
            MEGA_TRY(one(&s, team, TABLE, steps, NULL));
        }
    return MEGA_OK;
}

int main(int argc, char **argv)
{
    shape s = {0};
    mode m = TABLE;
    const char *lines = NULL;
    int steps = 5, threads = mega_default_threads();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "serve") == 0) m = SERVE;
        else if (strcmp(argv[i], "once") == 0)
            m = ONCE;
        else if (strncmp(argv[i], "threads=", 8) == 0)
            threads = atoi(argv[i] + 8);
        else if (strncmp(argv[i], "lines=", 6) == 0)
            lines = argv[i] + 6;
        else if (strncmp(argv[i], "steps=", 6) == 0)
            steps = atoi(argv[i] + 6);
        else if (!read_word(&s, argv[i])) {
            fprintf(stderr, "bench_step: %s is not understood; bench/bench_step.c lists the words\n", argv[i]);
            return 2;
        }
    }
    if (steps < 1 || steps > MOST_STEPS) steps = 5;
    if (s.layers == 0 && (m != TABLE || s.batch != 0 || s.seq != 0)) s = gpt2;
    mega_team *team = NULL;
    mega_status st = mega_team_create(threads > 0 ? threads : 1, &team);
    if (st == MEGA_OK) st = s.layers == 0 ? table(team, steps) : one(&s, team, m, steps, lines);
    mega_team_destroy(team);
    if (st != MEGA_OK) fprintf(stderr, "bench_step: %s\n", mega_error_message());
    return st == MEGA_OK ? 0 : 1;
}
