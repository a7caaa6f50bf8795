/* Measures tokenizing on one thread, in MB of text per second of its CPU time. The texts are whole documents, one after
 * another. Each repeat uses a new encoder with an empty cache; the time to create it is not counted. Run by `make bench
 * only=tokenizer`. With MEGA_TOKENIZERS=FOLDER it measures the tokenizers in the folders of FOLDER, which
 * tools/make_tokenizers.py makes; bench/tokenizers.sh does that, and measures the packages beside them. The texts and
 * GPT-2's vocabulary come from the shared data (MEGA_TEST_DATA, else ../shared/data), the code from the Python standard
 * library (MEGA_PYTHON_LIB, else the newest below /usr/lib and /usr/local/lib). */
#include "bench_kit.h"
#include "megalith/documents.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "megalith/tokenizer.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 7 };

typedef struct corpus {
    mega_buffer text;
    size_t *end; /* end of each document */
    int64_t documents, capacity;
} corpus;

static char *data_path(const char *name)
{
    const char *folder = getenv("MEGA_TEST_DATA");
    return mega_path_join(folder != NULL ? folder : "../shared/data", name);
}

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static mega_status add_document(corpus *c, const char *text, size_t n)
{
    if (c->documents == c->capacity) {
        const int64_t capacity = c->capacity == 0 ? 1024 : c->capacity * 2;
        size_t *end = mega_realloc(c->end, (size_t)capacity * sizeof *end);
        if (end == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %lld documents", (long long)capacity);
        c->end = end;
        c->capacity = capacity;
    }
    mega_buffer_append(&c->text, text, n);
    c->end[c->documents++] = c->text.size;
    return mega_buffer_check(&c->text, "the corpus");
}

static mega_status read_documents(corpus *c, const char *const *inputs, int count)
{
    static const char *const keys[] = {"text"};
    const mega_documents_options o = {.inputs = inputs, .num_inputs = count};
    mega_documents *d;
    mega_document_chunk chunk = {0};
    mega_buffer text = {0};
    mega_document_fault fault;
    MEGA_TRY(mega_documents_open(&o, &d));
    mega_status st = mega_documents_read(d, &chunk);
    while (st == MEGA_OK && chunk.count > 0) {
        for (int64_t i = 0; i < chunk.count && st == MEGA_OK; i++)
            if (mega_document_texts(&chunk, i, keys, 1, &text, &fault)) st = add_document(c, text.data, text.size);
        if (st == MEGA_OK) st = mega_documents_read(d, &chunk);
    }
    mega_documents_close(d);
    mega_document_chunk_fini(&chunk);
    mega_buffer_fini(&text);
    return st;
}

static mega_status encode_all(mega_encoder *e, const corpus *c, mega_ids *ids)
{
    size_t at = 0;
    ids->count = 0;
    for (int64_t i = 0; i < c->documents; at = c->end[i++])
        MEGA_TRY(mega_encoder_encode(e, c->text.data + at, c->end[i] - at, ids));
    return MEGA_OK;
}

/* The seconds of a new encoder on all documents; `of` may be NULL. */
static mega_status measure_once(const mega_tokenizer *of, const corpus *c, double *out)
{
    mega_encoder *e;
    mega_ids ids = {0};
    if (of == NULL) return MEGA_OK;
    MEGA_TRY(mega_encoder_create(of, &e));
    const double begin = cpu_now();
    const mega_status st = encode_all(e, c, &ids);
    *out = cpu_now() - begin;
    mega_encoder_destroy(e);
    mega_ids_fini(&ids);
    return st;
}

/* Measures a tokenizer, and in turn with it `beside`, if it is not NULL. */
static mega_status measure(const mega_tokenizer *t, const mega_tokenizer *beside, const char *name, const corpus *c)
{
    double cold[REPEATS], wall[REPEATS], warm[REPEATS], create[REPEATS], other[REPEATS] = {0};
    mega_ids ids = {0};
    if (c->documents == 0) {
        printf("# %s: no documents\n", name);
        return MEGA_OK;
    }
    for (int i = 0; i < REPEATS; i++) {
        mega_encoder *e;
        double begin = cpu_now();
        MEGA_TRY(mega_encoder_create(t, &e));
        create[i] = cpu_now() - begin;
        begin = cpu_now();
        const double begin_wall = mega_time_now();
        MEGA_TRY(encode_all(e, c, &ids));
        cold[i] = cpu_now() - begin;
        wall[i] = mega_time_now() - begin_wall;
        begin = cpu_now();
        MEGA_TRY(encode_all(e, c, &ids));
        warm[i] = cpu_now() - begin;
        mega_encoder_destroy(e);
        MEGA_TRY(measure_once(beside, c, &other[i]));
    }
    bench_sort(other, REPEATS);
    bench_sort(cold, REPEATS);
    bench_sort(wall, REPEATS);
    bench_sort(warm, REPEATS);
    bench_sort(create, REPEATS);
    const double mb = (double)c->text.size * 1e-6;
    const int middle = REPEATS / 2;
    printf("RESULT %s %.1f MB/s %.2f MB in %lld documents, %lld ids (%016llx), one thread, cold cache, median of %d; "
           "wall %.1f, least %.1f, again %.1f MB/s; encoder made in %.1f ms\n",
           name, mb / cold[middle], mb, (long long)c->documents, (long long)ids.count,
           (unsigned long long)mega_hash64(MEGA_HASH_START, ids.id, (size_t)ids.count * sizeof *ids.id), REPEATS,
           mb / wall[middle], mb / cold[0], mb / warm[middle], 1e3 * create[middle]);
    if (beside != NULL)
        printf("RESULT %s_of_gpt2 %.2f of GPT-2's own rate, measured in turn: medians; %.2f least against least\n",
               name, other[middle] / cold[middle], other[0] / cold[0]);
    fflush(stdout);
    mega_ids_fini(&ids);
    return MEGA_OK;
}

static mega_status measure_file(const mega_tokenizer *t, const mega_tokenizer *beside, const char *name,
                                const char *file)
{
    corpus c = {0};
    char *path = data_path(file);
    const char *const inputs[] = {path};
    mega_status st = read_documents(&c, inputs, 1);
    if (st == MEGA_OK) st = measure(t, beside, name, &c);
    mega_free(path);
    mega_buffer_fini(&c.text);
    mega_free(c.end);
    return st;
}

/* Measures every .py file of the library, one document each. */
static mega_status measure_code(const mega_tokenizer *t, const char *name)
{
    const char *folder = getenv("MEGA_PYTHON_LIB");
    glob_t found = {0};
    if (folder == NULL) {
        static const char *const places[] = {"/usr/lib/python3.[0-9]*/os.py", "/usr/local/lib/python3.[0-9]*/os.py"};
        for (int i = 0; i < 2; i++) glob(places[i], i > 0 ? GLOB_APPEND : 0, NULL, &found);
        if (found.gl_pathc == 0) {
            printf("# %s: no Python standard library found; MEGA_PYTHON_LIB names one\n", name);
            globfree(&found);
            return MEGA_OK;
        }
        found.gl_pathv[found.gl_pathc - 1][strlen(found.gl_pathv[found.gl_pathc - 1]) - strlen("/os.py")] = 0;
        folder = found.gl_pathv[found.gl_pathc - 1];
    }
    corpus c = {0};
    glob_t files = {0};
    static const char *const below[] = {"*.py", "*/*.py", "*/*/*.py"};
    for (int i = 0; i < 3; i++) {
        char *pattern = mega_path_join(folder, below[i]);
        if (pattern != NULL) glob(pattern, i > 0 ? GLOB_APPEND : 0, NULL, &files);
        mega_free(pattern);
    }
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < files.gl_pathc && st == MEGA_OK; i++) {
        char *text;
        size_t size;
        if (strstr(files.gl_pathv[i], "-packages/") != NULL) continue;
        st = mega_file_read(files.gl_pathv[i], &text, &size);
        if (st == MEGA_OK) st = add_document(&c, text, size);
        if (st == MEGA_OK) mega_free(text);
    }
    if (st == MEGA_OK) st = measure(t, NULL, name, &c);
    globfree(&files);
    globfree(&found);
    mega_buffer_fini(&c.text);
    mega_free(c.end);
    return st;
}

static mega_status measure_load(const char *vocab, const char *merges, const char *json)
{
    double files[REPEATS], one[REPEATS];
    const mega_tokenizer_options o = {.type = "GPT2BPETokenizer", .vocab_file = vocab, .merge_file = merges};
    for (int i = 0; i < REPEATS; i++) {
        mega_tokenizer *t;
        double begin = cpu_now();
        MEGA_TRY(mega_tokenizer_create(&o, &t));
        files[i] = cpu_now() - begin;
        mega_tokenizer_destroy(t);
        begin = cpu_now();
        MEGA_TRY(mega_tokenizer_load(json, &t));
        one[i] = cpu_now() - begin;
        mega_tokenizer_destroy(t);
    }
    bench_sort(files, REPEATS);
    bench_sort(one, REPEATS);
    printf("RESULT tokenizer_load_ms %.1f ms vocab.json and merges.txt; tokenizer.json %.1f ms\n",
           1e3 * files[REPEATS / 2], 1e3 * one[REPEATS / 2]);
    return MEGA_OK;
}

/* Measures every tokenizer.json and tokenizer.model one folder below `folder`. */
static mega_status measure_folders(const char *folder, const mega_tokenizer *gpt2)
{
    static const char *const below[] = {"*/tokenizer.json", "*/tokenizer.model"};
    static const char *const files[] = {"corpus/openwebtext-1000.jsonl", "corpus/multilingual.jsonl"};
    glob_t found = {0};
    for (int i = 0; i < 2; i++) {
        char *pattern = mega_path_join(folder, below[i]);
        if (pattern != NULL) glob(pattern, i > 0 ? GLOB_APPEND : 0, NULL, &found);
        mega_free(pattern);
    }
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < found.gl_pathc && st == MEGA_OK; i++) {
        char name[96];
        mega_tokenizer *t = NULL;
        char *end = strrchr(found.gl_pathv[i], '/');
        *end = 0;
        const char *begin = strrchr(found.gl_pathv[i], '/');
        st = mega_tokenizer_load(found.gl_pathv[i], &t);
        for (int k = 0; k < 2 && st == MEGA_OK; k++) {
            snprintf(name, sizeof name, "tokenize_%s_%s_mb_s", begin != NULL ? begin + 1 : found.gl_pathv[i],
                     k == 0 ? "english" : "multilingual");
            st = measure_file(t, gpt2, name, files[k]);
        }
        mega_tokenizer_destroy(t);
    }
    globfree(&found);
    return st;
}

int main(void)
{
    char *vocab = data_path("gpt2/vocab.json"), *merges = data_path("gpt2/merges.txt");
    char *json = data_path("gpt2/tokenizer.json");
    mega_tokenizer *t = NULL;
    mega_status st = measure_load(vocab, merges, json);
    if (st == MEGA_OK) st = mega_tokenizer_load(json, &t);
    if (st == MEGA_OK) st = measure_file(t, NULL, "tokenize_english_mb_s", "corpus/openwebtext-1000.jsonl");
    if (st == MEGA_OK) st = measure_file(t, NULL, "tokenize_multilingual_mb_s", "corpus/multilingual.jsonl");
    if (st == MEGA_OK) st = measure_code(t, "tokenize_code_mb_s");
    if (st == MEGA_OK && getenv("MEGA_TOKENIZERS") != NULL) st = measure_folders(getenv("MEGA_TOKENIZERS"), t);
    if (st != MEGA_OK) fprintf(stderr, "%s\n", mega_error_message());
    mega_tokenizer_destroy(t);
    mega_free(vocab);
    mega_free(merges);
    mega_free(json);
    return st == MEGA_OK ? 0 : 1;
}
