/* The thread of the exchange: sleeps in poll until a message arrives or its rank starts to query. */
#include "megalith/threads.h"
#include "watch/exchange_impl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define LOOK_MS    100  /* while a host is queried */
#define INBOUND_MS 5000 /* while there are inbound connections, which may have died silently */
#define DEAF_S     1.0  /* pause when the system has no descriptor for another connection */

enum { STACK_BYTES = 256 << 10 };

/* ---- announcements about the whole run ---- */

wire_head exchange_head(const record_exchange *x, wire_kind kind)
{
    wire_head h = wire_head_of(kind, x->secret, x->world->rank);
    const int64_t told = atomic_load(&x->world->page->first_report_ms), ago = (int64_t)(mega_time_now() * 1e3) - told;
    h.ender = atomic_load(&x->world->page->ender);
    if (told != 0 && ago >= 0) h.first_report_age_ms = ago;
    return h;
}

/* Hosts agree on one reporter: a stall that another host has reported is not reported here, and the rank that ends the
 * run there ends it for all. */
void exchange_merge(record_exchange *x, const wire_head *head)
{
    record_page *page = x->world->page;
    int nobody = 0;
    int64_t told = atomic_load(&page->first_report_ms);
    const int64_t at = (int64_t)(mega_time_now() * 1e3) - head->first_report_age_ms;
    if (head->ender != 0) atomic_compare_exchange_strong(&page->ender, &nobody, head->ender);
    if (head->first_report_age_ms >= 0 && at > told) atomic_compare_exchange_strong(&page->first_report_ms, &told, at);
}

/* ---- the loop ---- */

/* Fills the list for poll, which skips negative descriptors. Returns its length; *num_inbound receives the number of
 * inbound connections. */
static nfds_t exchange_watch(const record_exchange *x, double now, int *num_inbound)
{
    struct pollfd *p = x->polled;
    *p++ = (struct pollfd){.fd = x->wake, .events = POLLIN};
    *p++ = (struct pollfd){.fd = now < x->deaf_until ? -1 : x->listener, .events = POLLIN};
    *num_inbound = 0;
    for (int i = 0; i < x->num_inbound; i++) {
        const exchange_inbound *g = &x->inbound[i];
        *p++ = (struct pollfd){.fd = g->fd, .events = g->size > 0 ? POLLOUT : POLLIN};
        *num_inbound += g->fd >= 0;
    }
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++) {
        const exchange_outbound *l = &x->outbound[i];
        const bool writes = l->state == OUTBOUND_CONNECTING || (l->state == OUTBOUND_ASKED && l->sent < sizeof l->ask);
        *p++ = (struct pollfd){.fd = l->fd, .events = writes ? POLLOUT : POLLIN};
    }
    return (nfds_t)(p - x->polled);
}

static void exchange_accept_all(record_exchange *x, double now)
{
    for (;;) {
        errno = 0;
        const int fd = socket_accept(x->listener);
        if (fd < 0) break;
        exchange_inbound_accept(x, fd, now);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) x->deaf_until = now + DEAF_S;
}

static void exchange_serve(record_exchange *x, double now)
{
    uint64_t times;
    const struct pollfd *wake = &x->polled[0], *listener = wake + 1, *inbound = wake + 2,
                        *outbound = inbound + x->num_inbound;
    if (wake->revents != 0 && read(x->wake, &times, sizeof times) < 0) return; /* a spurious wake-up */
    for (int i = 0; i < x->num_inbound; i++)
        if (inbound[i].revents != 0) exchange_inbound_serve(x, &x->inbound[i], now);
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++)
        if (outbound[i].revents != 0) exchange_outbound_serve(x, &x->outbound[i], now);
    if (listener->revents != 0) exchange_accept_all(x, now);
}

static void *exchange_thread_main(void *argument)
{
    record_exchange *x = argument;
    x->began = x->looked = mega_time_now();
    while (!atomic_load(&x->ending)) {
        int num_inbound;
        const bool is_busy = exchange_outbound_drive(x, mega_time_now());
        const nfds_t count = exchange_watch(x, mega_time_now(), &num_inbound);
        const bool waits = num_inbound > 0 || x->polled[1].fd < 0;
        if (poll(x->polled, count, is_busy ? LOOK_MS : waits ? INBOUND_MS : -1) > 0) exchange_serve(x, mega_time_now());
        exchange_inbound_expire(x, mega_time_now());
    }
    for (int i = 0; i < x->num_inbound; i++) exchange_inbound_close(&x->inbound[i]);
    for (int i = 0; i < EXCHANGE_OUTBOUND; i++) exchange_outbound_close(&x->outbound[i]);
    return NULL;
}

bool exchange_thread_begin(record_exchange *x)
{
    sigset_t all, before; /* block signals: the rank's own thread handles them */
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    x->has_thread = pthread_create(&x->thread, &attributes, exchange_thread_main, x) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return x->has_thread;
}

void exchange_thread_end(record_exchange *x)
{
    const uint64_t one = 1;
    atomic_store(&x->ending, true);
    if (write(x->wake, &one, sizeof one) == (ssize_t)sizeof one || errno == EAGAIN) pthread_join(x->thread, NULL);
    x->has_thread = false;
}
