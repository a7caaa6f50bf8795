/* Functions shared by all tests. */
#include "kit.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/philox.h"
#include "megalith/process.h"
#include "megalith/status.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Strings that were returned as "borrowed until the program ends". They do not come from mega_malloc, because a test
 * counts its calls and makes them fail. */
typedef struct kept_text {
    struct kept_text *previous;
    char text[];
} kept_text;
static kept_text *kept;

/* Folders to remove at exit, only in the process that created them (not in its forked children). */
static struct {
    const char *path;
    pid_t owner;
} folders[256];
static int folder_count;

static void clean_up(void)
{
    for (int i = 0; i < folder_count; i++) {
        if (folders[i].owner == getpid()) MEGA_IGNORE(mega_tree_remove(folders[i].path));
    }
    folder_count = 0;
    while (kept != NULL) {
        kept_text *previous = kept->previous;
        free(kept);
        kept = previous;
    }
}

static const char *keep(const char *folder, const char *name)
{
    static int registered;
    if (!registered) registered = atexit(clean_up) == 0;
    const size_t n = strlen(folder) + strlen(name) + 2;
    kept_text *k = malloc(sizeof *k + n);
    if (k == NULL) abort();
    k->previous = kept;
    kept = k;
    snprintf(k->text, n, "%s%s%s", folder, name[0] != '\0' ? "/" : "", name);
    return k->text;
}

void mega_kit_need(int status, const char *file, int line)
{
    if (status == MEGA_OK) return;
    print_error("%s (%s)\n", mega_error_message(), mega_error_where());
    _fail(file, line);
}

void mega_kit_need_error(int status, int expected, const char *said, const char *file, int line)
{
    if (status == expected && strstr(mega_error_message(), said) != NULL) return;
    print_error("%s, \"%s\"; expected %s with \"%s\"\n", mega_status_name((mega_status)status), mega_error_message(),
                mega_status_name((mega_status)expected), said);
    _fail(file, line);
}

void mega_kit_assert_has(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) != NULL) return;
    print_error("no \"%s\" in \"%s\"\n", part, text);
    _fail(file, line);
}

const char *mega_kit_source(const char *name)
{
    const char *source = getenv("MEGA_SOURCE");
    return keep(source != NULL ? source : ".", name);
}

const char *mega_kit_data(const char *name)
{
    const char *data = getenv("MEGA_TEST_DATA");
    const char *path = keep(data != NULL ? data : mega_kit_source("../shared/data"), name);
    return access(path, R_OK) == 0 ? path : NULL;
}

const char *mega_kit_need_data(const char *name)
{
    const char *path = mega_kit_data(name);
    if (path == NULL) mega_kit_skip("shared data %s is not there (set MEGA_TEST_DATA)", name);
    return path;
}

const char *mega_kit_temp_folder(void)
{
    const char *root = getenv("TMPDIR");
    char template[1024];
    snprintf(template, sizeof template, "%s/megalith-test-XXXXXX", root != NULL && root[0] != '\0' ? root : "/tmp");
    if (mkdtemp(template) == NULL) fail_msg("%s: cannot create a folder for the test", template);
    if (folder_count == (int)(sizeof folders / sizeof folders[0])) fail_msg("too many temporary folders");
    const char *path = keep(template, "");
    folders[folder_count].path = path;
    folders[folder_count++].owner = getpid();
    return path;
}

const char *mega_kit_path(const char *folder, const char *name)
{
    return keep(folder, name);
}

void mega_kit_write(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL) fail_msg("%s: cannot be written", path);
    const size_t n = strlen(text), done = fwrite(text, 1, n, f);
    if (fclose(f) != 0 || done != n) fail_msg("%s: cannot be written", path);
}

uint64_t mega_kit_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void mega_kit_random(float *out, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i += 4) {
        const uint64_t block = (uint64_t)i / 4;
        const mega_philox r = mega_philox4x32((mega_philox){{(uint32_t)block, (uint32_t)(block >> 32), 0, 0}}, seed, 0);
        for (int64_t j = i; j < n && j < i + 4; j++) out[j] = (float)((double)(r.v[j % 4] >> 8) / 8388608.0 - 1.0);
    }
}

void mega_kit_normal(float *out, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) out[i] = (float)mega_philox_normal(seed, 0x6b6974u, (uint64_t)i);
}

double mega_kit_relative_error_f64(const double *a, const double *b, int64_t n)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return norm == 0 ? sqrt(difference) : sqrt(difference / norm);
}

double mega_kit_relative_error(const float *a, const float *b, int64_t n)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return norm == 0 ? sqrt(difference) : sqrt(difference / norm);
}

void mega_kit_assert_close(const char *what, const float *a, const float *b, int64_t n, double tolerance)
{
    const double error = mega_kit_relative_error(a, b, n);
    if (error <= tolerance) return; /* NaN counts as an error */
    int64_t worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double here = fabs((double)a[i] - b[i]), most = fabs((double)a[worst] - b[worst]);
        if (isnan(here) || here > most) worst = i;
        if (isnan(here)) break;
    }
    fail_msg("%s: relative error %.3g, allowed %.3g; worst at %lld of %lld: %.9g, expected %.9g", what, error,
             tolerance, (long long)worst, (long long)n, (double)a[worst], (double)b[worst]);
}

void mega_kit_until_asleep(int pid, int tid)
{
    char path[64];
    mega_process_stat stat;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    while (mega_process_stat_read(path, &stat) && stat.state != 'S') sched_yield();
}

const char *mega_kit_peers(void)
{
    const char *python = getenv("MEGA_PEERS");
    return python != NULL && access(python, X_OK) == 0 ? python : NULL;
}

const char *mega_kit_need_peers(void)
{
    const char *python = mega_kit_peers();
    if (python == NULL) mega_kit_skip("no Python with the peer packages (set MEGA_PEERS to its path)");
    return python;
}

int mega_kit_fail_each_allocation(mega_kit_attempt *attempt, void *user)
{
    /* under valgrind the first ones, and of the others fewer and fewer: the other builds take them all */
    const bool is_slow = getenv("MEGA_UNDER_VALGRIND") != NULL;
    for (int n = 1;; n += is_slow && n >= 20 ? n / 10 : 1) {
        const uint64_t before = mega_alloc_count();
        mega_error_clear();
        mega_alloc_fail_at((uint64_t)n);
        const int st = attempt(user);
        mega_alloc_fail_at(0);
        const uint64_t made = mega_alloc_count() - before;
        if (made < (uint64_t)n) {
            if (st != MEGA_OK) fail_msg("with all allocations granted: %s", mega_error_message());
            return (int)made;
        }
        if (st != MEGA_ERR_MEMORY) fail_msg("allocation %d failed, and the status is \"%s\"", n, mega_status_name(st));
        if (mega_error_message()[0] == '\0') fail_msg("allocation %d failed, and the message is empty", n);
    }
}

void mega_kit_skip(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("SKIPPED: ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    skip();
    abort(); /* skip does not return, but the compiler does not know that */
}
