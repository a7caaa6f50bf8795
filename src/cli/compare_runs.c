/* Starts the trainings and plans of compare_configurations as processes, and reads what they wrote. */
#include "compare_runs.h"
#include "megalith/indexed.h"
#include "megalith/philox.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = COMPARE_WORDS + 64, DOCUMENTS = 64, DOCUMENT_TOKENS = 1024 };

/* ---- the folder and its data ---- */

/* Returns what follows "--data-path", "--data_path", or "--data-path=" in the same word; NULL: it is not there. */
static const char *word_after(const comparison *c, const char *name)
{
    for (int i = 0; i < c->words; i++) {
        size_t at = 0;
        while (name[at] != '\0' && name[at] == (c->word[i][at] == '_' ? '-' : c->word[i][at])) at++;
        if (name[at] != '\0') continue;
        if (c->word[i][at] == '=') return c->word[i] + at + 1;
        if (c->word[i][at] == '\0' && i + 1 < c->words) return c->word[i + 1];
    }
    return NULL;
}

static mega_status write_random_data(const comparison *c)
{
    char prefix[128];
    int32_t token[DOCUMENT_TOKENS];
    mega_indexed_writer *w = NULL;
    const long vocab = strtol(c->vocab_size, NULL, 10);
    snprintf(prefix, sizeof prefix, "%s/random", c->folder);
    if (vocab < 1 || vocab > INT32_MAX) return MEGA_OK; /* the training reports it */
    MEGA_TRY(mega_indexed_writer_create(prefix, MEGA_I32, &w));
    for (uint32_t d = 0; d < DOCUMENTS; d++) {
        for (uint32_t i = 0; i < DOCUMENT_TOKENS; i++)
            token[i] = (int32_t)(mega_philox4x32((mega_philox){{i, d, 0, 0}}, 1, 2).v[0] % (uint32_t)vocab);
        const mega_status st = mega_indexed_writer_add(w, token, DOCUMENT_TOKENS);
        if (st == MEGA_OK) continue;
        mega_indexed_writer_abandon(w);
        return st;
    }
    return mega_indexed_writer_finish(w);
}

mega_status compare_open(comparison *c)
{
    const char *parent = getenv("TMPDIR");
    const ssize_t n = readlink("/proc/self/exe", c->program, sizeof c->program - 1);
    if (n <= 0) return MEGA_FAIL(MEGA_ERR_IO, "/proc/self/exe: %s", strerror(errno));
    c->program[n] = '\0';
    if (parent == NULL || strlen(parent) > 30) parent = "/tmp";
    snprintf(c->folder, sizeof c->folder, "%s/megalith-compare-XXXXXX", parent);
    if (mkdtemp(c->folder) == NULL) {
        const int why = errno;
        c->folder[0] = '\0';
        return MEGA_FAIL(MEGA_ERR_IO, "%s: no temporary folder can be created: %s; set TMPDIR", parent, strerror(why));
    }
    snprintf(c->flops, sizeof c->flops, "%s/flops.txt", c->folder);
    if (word_after(c, "--data-path") != NULL || word_after(c, "--train-data-path") != NULL) return MEGA_OK;
    c->vocab_size = word_after(c, "--vocab-size");
    if (c->vocab_size == NULL) c->vocab_size = "50257";
    return write_random_data(c);
}

/* ---- processes ---- */

typedef struct command_line {
    const char *word[MOST_WORDS + 1];
    int count;
} command_line;

static void add_word(command_line *l, const char *word)
{
    if (l->count < MOST_WORDS) l->word[l->count++] = word;
    l->word[l->count] = NULL;
}

static void add_words(command_line *l, const comparison *c)
{
    for (int i = 0; i < c->words; i++) add_word(l, c->word[i]);
}

static void run_in_child(char **words, const char *log)
{
    const int in = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    signal(SIGINT, SIG_DFL);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(127);
    execv(words[0], words);
    _exit(127);
}

/* Runs a program to its end, with its output in `log`. *out_held: bytes, the largest resident set of it and of the
 * processes that it waited for. */
static mega_status run_process(const command_line *l, const char *log, int *out_exit, double *out_held)
{
    struct rusage used;
    int state = 0;
    char *words[MOST_WORDS + 1];
    for (int i = 0; i <= l->count; i++) words[i] = (char *)(uintptr_t)l->word[i]; /* execv changes none of them */
    void (*before)(int) = signal(SIGINT, SIG_IGN); /* the child receives it too, and the folder is to be removed */
    const pid_t child = fork();
    if (child == 0) run_in_child(words, log);
    while (child > 0 && wait4(child, &state, 0, &used) < 0 && errno == EINTR) {
    }
    signal(SIGINT, before);
    if (child < 0) return MEGA_FAIL(MEGA_ERR_IO, "%s: cannot be started: %s", l->word[0], strerror(errno));
    *out_exit = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    *out_held = (double)used.ru_maxrss * 1024;
    if (*out_exit == 128 + SIGINT) return MEGA_FAIL(MEGA_ERR_INTERRUPTED, "interrupted");
    return MEGA_OK;
}

/* Writes the last error in a log to `out`, with the lines that belong to it: they are indented. */
static void find_error(const char *log, int exit_status, char *out, size_t size)
{
    char line[2048];
    FILE *f = fopen(log, "r");
    snprintf(out, size, "it ended with exit status %d and no message", exit_status);
    for (bool is_open = false; f != NULL && fgets(line, sizeof line, f) != NULL;) {
        const char *at = strstr(line, "error: "), *text = line;
        const size_t used = strlen(out);
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '[' && strstr(line, "] ") != NULL) text = strstr(line, "] ") + 2; /* what a rank printed */
        is_open = at != NULL || (is_open && text[0] == ' ');
        if (at != NULL) snprintf(out, size, "%.*s", (int)size - 1, at + strlen("error: "));
        else if (is_open)
            snprintf(out + used, size - used, "%s%.*s", out[used - 1] == ':' ? "" : ";", (int)(size - used), text + 1);
    }
    if (f != NULL) fclose(f);
}

/* ---- a training ---- */

/* Sums the rows of the measured steps. */
static void read_speed(const char *metrics, outcome *out)
{
    char line[4096];
    double samples = 0, tokens = 0, seconds = 0;
    FILE *f = fopen(metrics, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        json_t *row = json_loads(line, 0, NULL);
        const json_t *time = json_object_get(row, "iteration_time_ms");
        if (time != NULL && json_integer_value(json_object_get(row, "iteration")) > COMPARE_WARM) {
            const double s = json_number_value(time) * 1e-3;
            samples += json_number_value(json_object_get(row, "global_batch_size"));
            tokens += json_number_value(json_object_get(row, "tokens_per_second")) * s;
            seconds += s;
        }
        json_decref(row);
    }
    if (f != NULL) fclose(f);
    if (seconds > 0) out->samples = samples / seconds, out->tokens = tokens / seconds;
    else
        snprintf(out->error, sizeof out->error, "it ended before its step %d", COMPARE_WARM + 1);
}

static void read_plan(const char *description, outcome *out)
{
    json_t *run = json_load_file(description, 0, NULL);
    const json_t *memory = json_object_get(run, "memory"), *held = json_object_get(memory, "held_bytes");
    /* as the memory held, that of the process that takes most: of the largest pipeline stage */
    out->planned = json_number_value(json_object_get(memory, "largest_rank_bytes"));
    if (held != NULL) out->held = json_number_value(held);
    json_decref(run);
}

/* Adds what trainings and plans have in common. Files that a JSON asks for are written in the temporary folder, so that
 * those of the user's runs stay as they are. */
static void add_training(command_line *l, const comparison *c, int file)
{
    const char *const own[] = {"--deepspeed", "--deepspeed_config",      c->file[file], "--monitor-tensorboard-path",
                               c->folder,     "--monitor-csv-path",      c->folder,     "--monitor-wandb-path",
                               c->folder,     "--flops-profiler-output", c->flops};
    add_words(l, c);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) add_word(l, own[i]);
    if (word_after(c, "--data-cache-path") != NULL) return;
    add_word(l, "--data-cache-path");
    add_word(l, c->folder);
}

static mega_status train(const comparison *c, int file, outcome *out)
{
    char ranks[16], steps[16], data[128], metrics[128], description[160], log[128];
    int exit_status = 0;
    command_line l = {.count = 0};
    snprintf(ranks, sizeof ranks, "%d", c->ranks);
    snprintf(steps, sizeof steps, "%d", c->steps + COMPARE_WARM);
    snprintf(data, sizeof data, "%s/random", c->folder);
    snprintf(metrics, sizeof metrics, "%s/%d.jsonl", c->folder, file);
    snprintf(description, sizeof description, "%s.run.json", metrics);
    snprintf(log, sizeof log, "%s/%d.log", c->folder, file);
    const char *const launch[] = {c->program, "launch", "--nproc_per_node", ranks};
    for (size_t i = 0; i < (c->ranks > 1 ? sizeof launch / sizeof *launch : 1); i++) add_word(&l, launch[i]);
    add_word(&l, "pretrain_gpt");
    add_training(&l, c, file);
    const char *const own_data[] = {"--data-path",   data,           "--tokenizer-type",
                                    "NullTokenizer", "--vocab-size", c->vocab_size};
    for (size_t i = 0; c->vocab_size != NULL && i < sizeof own_data / sizeof *own_data; i++) add_word(&l, own_data[i]);
    const char *const length[] = {"--train-iters", steps,     "--eval-iters",   "0",    "--log-interval", "1",
                                  "--split",       "100,0,0", "--metrics-file", metrics};
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) add_word(&l, length[i]);
    MEGA_TRY(run_process(&l, log, &exit_status, &out->held));
    if (exit_status != 0) {
        find_error(log, exit_status, out->error, sizeof out->error);
        return MEGA_OK;
    }
    read_speed(metrics, out);
    read_plan(description, out);
    return MEGA_OK;
}

/* ---- the largest model ---- */

/* What a plan says. */
typedef struct planned {
    int layers;
    bool is_whole, fits; /* is_whole: it got as far as the table of memory */
    double total, limit; /* bytes of a rank, with three digits; limit: what it may use */
    char parameters[32];
} planned;

static double compared_run_bytes(double number, const char *unit)
{
    static const char *const known[] = {"bytes", "kB", "MB", "GB", "TB"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++, number *= 1000)
        if (strcmp(known[i], unit) == 0) return number;
    return 0;
}

static void read_plan_text(const char *log, planned *p)
{
    char line[512], unit[8];
    double number;
    FILE *f = fopen(log, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        (void)sscanf(line, "parameters %31[0-9,]", p->parameters);
        if (sscanf(line, " total %lf %7s", &number, unit) == 2) p->total = compared_run_bytes(number, unit);
        else if (sscanf(line, " may use %lf %7s", &number, unit) == 2)
            p->limit = compared_run_bytes(number, unit);
    }
    if (f != NULL) fclose(f);
    p->is_whole = p->total > 0 && p->limit > 0;
}

/* Plans the model with out->layers layers. It fits if no rank needs more memory than --largest-in. */
static mega_status plan_layers(const comparison *c, const char *log, int file, planned *out)
{
    char world[16], depth[16];
    int exit_status = 0;
    double held;
    command_line l = {.count = 0};
    snprintf(world, sizeof world, "%d", c->ranks);
    snprintf(depth, sizeof depth, "%d", out->layers);
    add_word(&l, c->program);
    add_word(&l, "plan");
    add_training(&l, c, file);
    const char *const own[] = {"--no-suggestions", "--world-size", world, "--memory-limit",
                               c->memory,          "--num-layers", depth};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) add_word(&l, own[i]);
    const char *const vocabulary[] = {"--tokenizer-type", "NullTokenizer", "--vocab-size", c->vocab_size};
    for (size_t i = 0; c->vocab_size != NULL && i < sizeof vocabulary / sizeof *vocabulary; i++)
        add_word(&l, vocabulary[i]);
    MEGA_TRY(run_process(&l, log, &exit_status, &held));
    read_plan_text(log, out);
    out->fits = exit_status == 0;
    return MEGA_OK;
}

/* Numbers of layers between which the largest model is: `low` fits and `high` does not; both in steps. */
typedef struct bracket {
    int low, high;
    planned last[2]; /* the two newest plans with a table of memory; layers 0: none yet */
} bracket;

/* Memory grows evenly with the layers, so that a line through two plans leads close to the limit. Every third look
 * halves what is left, for memory that does not. */
static int next_look(const bracket *b, int step, int looks)
{
    const planned *x = &b->last[0], *y = &b->last[1];
    double next = b->low + (b->high - b->low) / 2;
    if (b->low <= 1) next = b->low + 1;
    else if (looks % 3 != 2 && x->layers > 0 && (y->total - x->total) * (y->layers - x->layers) > 0)
        next = (y->layers + (y->limit - y->total) * (y->layers - x->layers) / (y->total - x->total)) / step;
    if (next > 16.0 * b->low + 1) next = 16.0 * b->low + 1; /* a line through two small models is not exact */
    if (next >= b->high) return b->high - 1;
    return next <= b->low ? b->low + 1 : (int)next;
}

/* Layers are added in multiples of the pipeline stages, which divide them. */
static mega_status find_largest(const comparison *c, int file, outcome *out)
{
    const char *said = word_after(c, "--pipeline-model-parallel-size");
    const long stages = said != NULL ? strtol(said, NULL, 10) : 1;
    const int step = stages > 1 && stages < COMPARE_LAYERS ? (int)stages : 1;
    char log[128];
    bracket b = {.low = 0, .high = COMPARE_LAYERS / step + 1};
    snprintf(log, sizeof log, "%s/%d.plan", c->folder, file);
    for (int looks = 0; b.low + 1 < b.high; looks++) {
        planned p = {.layers = next_look(&b, step, looks) * step};
        MEGA_TRY(plan_layers(c, log, file, &p));
        if (p.fits) {
            out->layers = p.layers;
            snprintf(out->parameters, sizeof out->parameters, "%s", p.parameters);
        } else if (!p.is_whole) { /* it is not the memory */
            find_error(log, 1, out->error, sizeof out->error);
            return MEGA_OK;
        }
        *(p.fits ? &b.low : &b.high) = p.layers / step;
        b.last[0] = b.last[1];
        b.last[1] = p;
    }
    return MEGA_OK;
}

mega_status compare_run(const comparison *c, int file, outcome *out)
{
    MEGA_TRY(train(c, file, out));
    return c->memory != NULL && out->error[0] == '\0' ? find_largest(c, file, out) : MEGA_OK;
}

/* ---- end ---- */

void compare_close(comparison *c)
{
    command_line l = {.count = 0};
    int exit_status;
    double held;
    if (c->folder[0] == '\0') return;
    const char *const words[] = {"/bin/rm", "-rf", "--", c->folder};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add_word(&l, words[i]);
    (void)run_process(&l, "/dev/null", &exit_status, &held);
    c->folder[0] = '\0';
}
