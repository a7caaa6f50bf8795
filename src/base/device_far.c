/* Device memory that the host cannot touch, for tests (MEGA_FAR): pages without access unless the device works. */
#include "base_impl.h"
#include "megalith/device_memory.h"

#ifdef MEGA_FAR
#include "megalith/assert.h"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_BLOCKS = 64, MOST_CALLERS = 24 };

/* Of the process, since a signal handler has no other way to it. */
static struct {
    pthread_mutex_t lock;
    int working; /* begun and not ended */
    struct {
        char *data;
        size_t bytes;
        const char *what;
    } block[MOST_BLOCKS];
} far = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void allow(int i, int access)
{
    if (far.block[i].data == NULL) return;
    const int failed = mprotect(far.block[i].data, far.block[i].bytes, access);
    MEGA_ASSERT(failed == 0, "%s: its %zu bytes cannot be opened and closed", far.block[i].what, far.block[i].bytes);
}

/* Ends the process, as an access to a page without access does, but says what was touched and by whom. */
static void touched(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    const char *at = info->si_addr;
    for (int i = 0; i < MOST_BLOCKS; i++) {
        if (far.block[i].data == NULL || at < far.block[i].data || at >= far.block[i].data + far.block[i].bytes)
            continue;
        char line[160];
        void *caller[MOST_CALLERS];
        const int n = snprintf(line, sizeof line, "the host touches device memory: byte %zu of %s; callers:\n",
                               (size_t)(at - far.block[i].data), far.block[i].what);
        const size_t length = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
        if (write(STDERR_FILENO, line, length) < 0) break;
        backtrace_symbols_fd(caller, backtrace(caller, MOST_CALLERS), STDERR_FILENO);
        break;
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* a repeated access might pass, where another thread has begun work */
}

void device_far_add(void *block, size_t bytes, const char *what)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_lock(&far.lock);
    int i = 0;
    while (i < MOST_BLOCKS && far.block[i].data != NULL) i++;
    MEGA_ASSERT(i < MOST_BLOCKS, "%s: %d blocks of device memory are the most of a test", what, MOST_BLOCKS);
    far.block[i].bytes = bytes == 0 ? page : (bytes + page - 1) / page * page;
    far.block[i].what = what;
    far.block[i].data = block;
    void *loaded[1];
    (void)backtrace(loaded, 1); /* its first call allocates, which a handler must not */
    const struct sigaction report = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &report, NULL);
    allow(i, far.working > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    pthread_mutex_unlock(&far.lock);
}

void device_far_remove(const void *block)
{
    pthread_mutex_lock(&far.lock);
    for (int i = 0; block != NULL && i < MOST_BLOCKS; i++)
        if (far.block[i].data == block) far.block[i].data = NULL;
    pthread_mutex_unlock(&far.lock);
}

bool device_far_has(const void *at)
{
    bool has = false;
    pthread_mutex_lock(&far.lock);
    for (int i = 0; i < MOST_BLOCKS && !has; i++)
        has = far.block[i].data != NULL && (const char *)at >= far.block[i].data &&
              (const char *)at < far.block[i].data + far.block[i].bytes;
    pthread_mutex_unlock(&far.lock);
    return has;
}

void mega_device_begin(void)
{
    pthread_mutex_lock(&far.lock);
    if (far.working++ == 0)
        for (int i = 0; i < MOST_BLOCKS; i++) allow(i, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&far.lock);
}

void mega_device_end(void)
{
    pthread_mutex_lock(&far.lock);
    MEGA_ASSERT(far.working > 0, "mega_device_end without a mega_device_begin");
    if (--far.working == 0)
        for (int i = 0; i < MOST_BLOCKS; i++) allow(i, PROT_NONE);
    pthread_mutex_unlock(&far.lock);
}

#else
typedef int mega_device_is_not_far; /* C has no empty file */
#endif
