/* Runs a function on one extra thread that receives no signals sent to the process. */
#include "base_impl.h"
#include "megalith/memory.h"

#include <pthread.h>
#include <string.h>

struct mega_thread {
    pthread_t thread;
    void (*run)(void *user);
    void *user;
};

static void *single_thread_main(void *user)
{
    const mega_thread *t = user;
    t->run(t->user);
    return NULL;
}

mega_status mega_thread_start(void (*run)(void *user), void *user, mega_thread **out)
{
    sigset_t before;
    mega_thread *t = mega_malloc(sizeof *t);
    if (t == NULL) return MEGA_NO_MEMORY("thread", "its record");
    *t = (mega_thread){.run = run, .user = user};
    mega_block_signals(&before);
    const int error = pthread_create(&t->thread, NULL, single_thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        mega_free(t);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "cannot start a thread: %s; end other processes", strerror(error));
    }
    *out = t;
    return MEGA_OK;
}

bool mega_thread_is_this(const mega_thread *t)
{
    return t != NULL && pthread_equal(t->thread, pthread_self());
}

uint64_t mega_thread_id(void)
{
    return (uint64_t)pthread_self();
}

void mega_thread_join(mega_thread *t)
{
    if (t == NULL) return;
    pthread_join(t->thread, NULL);
    mega_free(t);
}
