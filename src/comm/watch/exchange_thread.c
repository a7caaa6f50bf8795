/* The thread of the exchange: sleeps in poll until somebody speaks, or its rank begins to ask. */
#include "megalith/threads.h"
#include "watch/exchange_impl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define LOOK_MS  100  /* while there is something to ask */
#define GUEST_MS 5000 /* while somebody is here who may have gone without a word */
#define DEAF_S   1.0  /* where the system has no descriptor for one more */

enum { STACK_BYTES = 256 << 10 };

/* ---- what hosts say of themselves as a whole ---- */

wire_head exchange_head(const record_exchange *x, wire_kind kind)
{
    wire_head h = wire_head_of(kind, x->secret, x->world->rank);
    const int64_t told = atomic_load(&x->world->page->told), ago = (int64_t)(mega_time_now() * 1e3) - told;
    h.ender = atomic_load(&x->world->page->ender);
    if (told != 0 && ago >= 0) h.told_ms = ago;
    return h;
}

/* A report that was told elsewhere needs not be told here; and who ends the run there ends it for all. */
void exchange_merge(record_exchange *x, const wire_head *head)
{
    record_page *page = x->world->page;
    int nobody = 0;
    int64_t told = atomic_load(&page->told);
    const int64_t at = (int64_t)(mega_time_now() * 1e3) - head->told_ms;
    if (head->ender != 0) atomic_compare_exchange_strong(&page->ender, &nobody, head->ender);
    if (head->told_ms >= 0 && at > told) atomic_compare_exchange_strong(&page->told, &told, at);
}

/* ---- the loop ---- */

/* A negative descriptor is passed over. Returns how many are to be looked at; *guests are here. */
static nfds_t watch(const record_exchange *x, double now, int *guests)
{
    struct pollfd *p = x->polled;
    *p++ = (struct pollfd){.fd = x->wake, .events = POLLIN};
    *p++ = (struct pollfd){.fd = now < x->deaf_until ? -1 : x->listener, .events = POLLIN};
    *guests = 0;
    for (int i = 0; i < x->guests; i++) {
        const exchange_guest *g = &x->guest[i];
        *p++ = (struct pollfd){.fd = g->fd, .events = g->size > 0 ? POLLOUT : POLLIN};
        *guests += g->fd >= 0;
    }
    for (int i = 0; i < EXCHANGE_LINKS; i++) {
        const exchange_link *l = &x->link[i];
        const bool writes = l->state == LINK_CONNECTING || (l->state == LINK_ASKED && l->sent < sizeof l->ask);
        *p++ = (struct pollfd){.fd = l->fd, .events = writes ? POLLOUT : POLLIN};
    }
    return (nfds_t)(p - x->polled);
}

static void welcome(record_exchange *x, double now)
{
    for (;;) {
        errno = 0;
        const int fd = socket_accept(x->listener);
        if (fd < 0) break;
        exchange_guest_come(x, fd, now);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) x->deaf_until = now + DEAF_S;
}

static void serve(record_exchange *x, double now)
{
    uint64_t times;
    const struct pollfd *wake = &x->polled[0], *door = wake + 1, *guest = wake + 2, *link = guest + x->guests;
    if (wake->revents != 0 && read(x->wake, &times, sizeof times) < 0) return; /* woken for nothing */
    for (int i = 0; i < x->guests; i++)
        if (guest[i].revents != 0) exchange_guest_serve(x, &x->guest[i], now);
    for (int i = 0; i < EXCHANGE_LINKS; i++)
        if (link[i].revents != 0) exchange_link_serve(x, &x->link[i], now);
    if (door->revents != 0) welcome(x, now);
}

static void *thread_main(void *argument)
{
    record_exchange *x = argument;
    x->began = x->looked = mega_time_now();
    while (!atomic_load(&x->ending)) {
        int guests;
        const bool is_busy = exchange_links_drive(x, mega_time_now());
        const nfds_t count = watch(x, mega_time_now(), &guests);
        const bool waits = guests > 0 || x->polled[1].fd < 0;
        if (poll(x->polled, count, is_busy ? LOOK_MS : waits ? GUEST_MS : -1) > 0) serve(x, mega_time_now());
        exchange_guests_tidy(x, mega_time_now());
    }
    for (int i = 0; i < x->guests; i++) exchange_guest_go(&x->guest[i]);
    for (int i = 0; i < EXCHANGE_LINKS; i++) exchange_link_close(&x->link[i]);
    return NULL;
}

bool exchange_thread_begin(record_exchange *x)
{
    sigset_t all, before; /* signals are for the rank */
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    x->has_thread = pthread_create(&x->thread, &attributes, thread_main, x) == 0;
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
