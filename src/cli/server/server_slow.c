/* Ends connections whose requests arrive too slowly. libmicrohttpd closes one only when nothing comes at all, so that a
 * client which sends a byte now and then would hold its place for ever, and many of them all places. The system counts
 * the bytes that a connection has received, so a request is known from its first byte on, before libmicrohttpd has read
 * the end of its header. A connection that is kept open after its answer gives way when places are short. */
#include "server_slow.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { LOOKS_A_SECOND = 10, GRACE_SECONDS = 5, SPARE_PLACES = 16 };

typedef enum slow_state {
    SLOW_SILENT,  /* its last request is answered, and no byte of another has arrived */
    SLOW_ARRIVES, /* a request is arriving; also the state of a new connection */
    SLOW_WAITS    /* the whole request has arrived */
} slow_state;

struct server_slow_link {
    struct server_slow_link *next, *previous;
    int socket;
    slow_state state;
    double since;       /* SLOW_ARRIVES: when it began; SLOW_SILENT: when it was answered */
    int64_t bytes_then; /* received before the request; SLOW_SILENT: so far */
    bool is_ended;
};

struct server_slow {
    int seconds;
    int64_t rate;
    pthread_mutex_t lock;
    pthread_cond_t ends_now;
    server_slow_link *first;
    int places, taken; /* by connections that are not ended */
    mega_thread *thread;
    bool ends;
};

/* Returns the bytes that a connection has received; -1 if the system does not say. */
static int64_t received(int socket)
{
    struct tcp_info info = {.tcpi_state = 0};
    socklen_t size = sizeof info;
    const size_t needed = offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < needed) return -1;
    return (int64_t)info.tcpi_bytes_received;
}

/* Where the system does not count, the time of the whole request is the only limit. */
static bool is_too_slow(const server_slow *s, const server_slow_link *l, int64_t bytes, double now)
{
    const double elapsed = now - l->since;
    if (elapsed > s->seconds) return true;
    const double due = (elapsed - GRACE_SECONDS) * (double)s->rate;
    return bytes >= 0 && (double)(bytes - l->bytes_then) < due;
}

/* Ends the connection for both sides; libmicrohttpd then sees its end and closes it. This and the functions below are
 * called with the lock held. */
static void end_link(server_slow *s, server_slow_link *l)
{
    l->is_ended = true;
    s->taken--;
    shutdown(l->socket, SHUT_RDWR);
}

static void look(server_slow *s, server_slow_link *l, double now)
{
    if (l->state == SLOW_WAITS || l->is_ended) return;
    const int64_t bytes = received(l->socket);
    if (l->state == SLOW_SILENT && (bytes < 0 || bytes > l->bytes_then)) {
        l->state = SLOW_ARRIVES;
        l->since = now;
    }
    if (l->state != SLOW_ARRIVES || !is_too_slow(s, l, bytes, now)) return;
    end_link(s, l);
}

static bool is_short(const server_slow *s)
{
    return s->taken > s->places - SPARE_PLACES;
}

static void make_place(server_slow *s)
{
    const double now = mega_time_now();
    server_slow_link *longest = NULL;
    for (server_slow_link *l = s->first; l != NULL; l = l->next) {
        look(s, l, now); /* its next request may have begun */
        if (l->state != SLOW_SILENT || l->is_ended) continue;
        if (longest == NULL || l->since < longest->since) longest = l;
    }
    if (longest != NULL) end_link(s, longest);
}

/* ---- the thread ---- */

static void slow_main(void *user)
{
    server_slow *s = user;
    pthread_mutex_lock(&s->lock);
    while (!s->ends) {
        struct timespec until;
        const double now = mega_time_now();
        for (server_slow_link *l = s->first; l != NULL; l = l->next) look(s, l, now);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 1000000000 / LOOKS_A_SECOND;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->ends_now, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
}

mega_status server_slow_open(int seconds, int64_t rate, int places, server_slow **out)
{
    pthread_condattr_t attributes;
    server_slow *s = mega_calloc(1, sizeof *s);
    if (s == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "server: no memory");
    s->seconds = seconds;
    s->rate = rate;
    s->places = places;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->ends_now, &attributes);
    pthread_condattr_destroy(&attributes);
    const mega_status st = mega_thread_start(slow_main, s, &s->thread);
    if (st == MEGA_OK) *out = s;
    else
        server_slow_close(s);
    return st;
}

void server_slow_close(server_slow *s)
{
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_signal(&s->ends_now);
    pthread_mutex_unlock(&s->lock);
    mega_thread_join(s->thread);
    pthread_cond_destroy(&s->ends_now);
    pthread_mutex_destroy(&s->lock);
    mega_free(s);
}

server_slow_link *server_slow_add(server_slow *s, int socket)
{
    server_slow_link *l = calloc(1, sizeof *l);
    if (l == NULL) return NULL;
    *l = (server_slow_link){.socket = socket, .state = SLOW_ARRIVES, .since = mega_time_now()};
    pthread_mutex_lock(&s->lock);
    l->next = s->first;
    if (l->next != NULL) l->next->previous = l;
    s->first = l;
    s->taken++;
    if (is_short(s)) make_place(s);
    pthread_mutex_unlock(&s->lock);
    return l;
}

void server_slow_remove(server_slow *s, server_slow_link *l)
{
    if (l == NULL) return;
    pthread_mutex_lock(&s->lock);
    if (l->previous != NULL) l->previous->next = l->next;
    else
        s->first = l->next;
    if (l->next != NULL) l->next->previous = l->previous;
    s->taken -= !l->is_ended;
    pthread_mutex_unlock(&s->lock);
    free(l);
}

bool server_slow_is_short(server_slow *s)
{
    pthread_mutex_lock(&s->lock);
    const bool answer = is_short(s);
    pthread_mutex_unlock(&s->lock);
    return answer;
}

void server_slow_arrived(server_slow *s, server_slow_link *l)
{
    if (l == NULL) return;
    pthread_mutex_lock(&s->lock);
    l->state = SLOW_WAITS;
    pthread_mutex_unlock(&s->lock);
}

void server_slow_answered(server_slow *s, server_slow_link *l)
{
    if (l == NULL) return;
    pthread_mutex_lock(&s->lock);
    l->state = SLOW_SILENT;
    l->since = mega_time_now();
    l->bytes_then = received(l->socket);
    pthread_mutex_unlock(&s->lock);
}
