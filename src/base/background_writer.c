/* A background thread that writes one block at a time (background_writer.h). */
#include "background_writer.h"
#include "base_impl.h"
#include "megalith/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct mega_background_writer {
    int fd, error;
    const uint8_t *bytes; /* NULL: no block since the last wait */
    size_t n, done;
    bool is_busy, stop;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

/* Writes bytes [done, n). No lock is needed: between start and wait only this thread touches these fields. */
static void background_write_all(mega_background_writer *f)
{
    while (f->done < f->n) {
        const ssize_t done = write(f->fd, f->bytes + f->done, f->n - f->done);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            f->error = errno;
            return;
        }
        f->done += (size_t)done;
    }
}

static void *background_main(void *argument)
{
    mega_background_writer *f = argument;
    pthread_mutex_lock(&f->mutex);
    while (!f->stop) {
        if (f->is_busy) {
            pthread_mutex_unlock(&f->mutex);
            background_write_all(f);
            pthread_mutex_lock(&f->mutex);
            f->is_busy = false;
            pthread_cond_broadcast(&f->changed);
        } else {
            pthread_cond_wait(&f->changed, &f->mutex);
        }
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

mega_background_writer *mega_background_writer_create(int fd)
{
    mega_background_writer *f = mega_calloc(1, sizeof *f);
    if (f == NULL) return NULL;
    f->fd = fd;
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    sigset_t before;
    mega_block_signals(&before);
    const int rc = pthread_create(&f->thread, NULL, background_main, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) return f;
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mutex);
    mega_free(f);
    return NULL;
}

void mega_background_writer_start(mega_background_writer *f, const uint8_t *bytes, size_t n)
{
    pthread_mutex_lock(&f->mutex);
    f->bytes = bytes;
    f->n = n;
    f->done = 0;
    f->error = 0;
    f->is_busy = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

int mega_background_writer_wait(mega_background_writer *f, const uint8_t **bytes, size_t *n, size_t *done)
{
    pthread_mutex_lock(&f->mutex);
    while (f->is_busy) pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    *bytes = f->bytes;
    *n = f->bytes != NULL ? f->n : 0;
    *done = f->bytes != NULL ? f->done : 0;
    const int error = f->bytes != NULL ? f->error : 0;
    f->bytes = NULL;
    return error;
}

void mega_background_writer_destroy(mega_background_writer *f)
{
    if (f == NULL) return;
    const uint8_t *bytes;
    size_t n, done;
    mega_background_writer_wait(f, &bytes, &n, &done);
    pthread_mutex_lock(&f->mutex);
    f->stop = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
    pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mutex);
    mega_free(f);
}
