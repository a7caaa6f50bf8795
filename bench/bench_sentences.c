/* Measures how fast sentences are cut, on one thread, for bench/sentences.sh:
 *   bench_sentences LANGUAGE PARAMETERS FILE
 * FILE has documents with a NUL after each. Prints the sentences and the least CPU seconds of several passes. */
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/punkt.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 7 };

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static mega_status cut_all(const mega_punkt *p, const char *data, size_t size, int64_t *sentences)
{
    mega_sentence_spans spans = {0};
    *sentences = 0;
    for (size_t at = 0; at < size; at += strlen(data + at) + 1) {
        MEGA_TRY(mega_punkt_cut(p, data + at, strlen(data + at), false, &spans));
        *sentences += spans.count;
    }
    mega_sentence_spans_fini(&spans);
    return MEGA_OK;
}

static mega_status measure(const char *language, const char *parameters, const char *file)
{
    mega_punkt *p;
    char *data;
    size_t size;
    int64_t sentences = 0;
    double least = 1e9;
    MEGA_TRY(mega_punkt_create(language, &p));
    MEGA_TRY(mega_punkt_read(p, parameters));
    MEGA_TRY(mega_file_read(file, &data, &size));
    for (int i = 0; i < REPEATS; i++) {
        const double begin = cpu_now();
        MEGA_TRY(cut_all(p, data, size, &sentences));
        if (cpu_now() - begin < least) least = cpu_now() - begin;
    }
    printf("%lld %.6f\n", (long long)sentences, least);
    mega_free(data);
    mega_punkt_destroy(p);
    return MEGA_OK;
}

int main(int argc, char **argv)
{
    if (argc == 4 && measure(argv[1], argv[2], argv[3]) == MEGA_OK) return 0;
    fprintf(stderr, "bench_sentences: %s\n", argc == 4 ? mega_error_message() : "LANGUAGE PARAMETERS FILE");
    return 1;
}
