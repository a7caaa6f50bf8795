/* Writes to pipes and terminals that may not be read. A descriptor is shared with other programs, which O_NONBLOCK
 * would confuse, so pipes and terminals are reopened for this program only. */
#include "megalith/streams.h"
#include "megalith/threads.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_S 0.5 /* total wait after a signal */
#define LOOK_MS    100 /* interval between checks for a signal */

typedef struct output {
    int fd;
    bool is_own;  /* reopened: its writes do not block */
    bool is_lost; /* waited in vain: drop what cannot be written at once */
    double waited;
    size_t dropped;
} output;

/* The streams exist until the process ends, and the signal handler writes to one of them. */
static output out = {.fd = STDOUT_FILENO}, error = {.fd = STDERR_FILENO};
static const volatile sig_atomic_t *stop_asked;

/* Returns false if the output must be dropped. */
static bool wait_for_reader(output *o)
{
    struct pollfd to = {.fd = o->fd, .events = POLLOUT};
    for (;;) {
        const bool is_stopping = *stop_asked != 0;
        const double asked = mega_time_now();
        if (poll(&to, 1, is_stopping && o->is_lost ? 0 : LOOK_MS) > 0) return true;
        if (!is_stopping) continue;
        o->waited += mega_time_now() - asked;
        o->is_lost = o->is_lost || o->waited > PATIENCE_S;
        if (o->is_lost) return false;
    }
}

/* The write function of fopencookie: returns the number of bytes accepted, 0 on error. A piece that fits into a pipe is
 * written whole. */
static ssize_t streams_take(void *user, const char *bytes, size_t count)
{
    output *o = user;
    size_t done = 0;
    while (done < count) {
        const size_t left = count - done, most = o->is_own || left < PIPE_BUF ? left : PIPE_BUF;
        if (!wait_for_reader(o)) {
            o->dropped += left;
            return (ssize_t)count;
        }
        const ssize_t n = write(o->fd, bytes + done, most);
        if (n > 0) done += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return (ssize_t)done;
    }
    return (ssize_t)count;
}

#ifdef __GLIBC__
static bool may_block(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISSOCK(s.st_mode) || isatty(fd));
}

/* Returns a stream that replaces standard output or error; `before` if it needs no replacement. */
static FILE *streams_guarded(output *o, FILE *before, const char *path)
{
    if (!may_block(o->fd)) return before;
    const int buffering = o == &error ? _IONBF : isatty(o->fd) ? _IOLBF : _IOFBF;
    fflush(before);
    const int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    o->is_own = own >= 0; /* impossible for sockets and for pipes of other users: only poll keeps those from blocking */
    if (o->is_own) o->fd = own;
    FILE *stream = fopencookie(o, "w", (cookie_io_functions_t){.write = streams_take});
    if (stream == NULL || setvbuf(stream, NULL, buffering, buffering == _IONBF ? 0 : BUFSIZ) != 0) return before;
    return stream;
}

void mega_streams_guard(const volatile sig_atomic_t *stop)
{
    if (stop_asked != NULL) return;
    stop_asked = stop;
    stdout = streams_guarded(&out, stdout, "/proc/self/fd/1");
    stderr = streams_guarded(&error, stderr, "/proc/self/fd/2");
}
#else
/* stdout and stderr are constants in some C libraries. */
void mega_streams_guard(const volatile sig_atomic_t *stop)
{
    (void)stop;
    (void)take;
}
#endif

void mega_streams_end(void)
{
    fflush(stdout);
    if (out.dropped > 0)
        fprintf(stderr, "warning: nobody read standard output after the signal: %zu bytes were dropped\n", out.dropped);
}

int mega_streams_error_fd(void)
{
    return error.fd;
}

bool mega_streams_silence(void)
{
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0) return false;
    fflush(stdout);
    const bool done = dup2(nowhere, STDOUT_FILENO) >= 0 && (!out.is_own || dup2(nowhere, out.fd) >= 0);
    close(nowhere);
    return done;
}
