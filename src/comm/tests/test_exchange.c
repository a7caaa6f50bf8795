/* The exchange of records between two hosts of two ranks each, simulated in one process: each world has its page and
 * its thread. */
#include "kit.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "watch/exchange_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* LIMIT_S: enough for a busy machine, and less than a connection that sends nothing is kept. */
enum { RANKS = 4, HOSTS = 2, CROWD = 60, LIMIT_S = 20 };

typedef struct bench {
    record_page *page[HOSTS];
    mega_world world[RANKS];
    exchange_place place[RANKS];
} bench;

static uint64_t own_start(void)
{
    char text[512];
    FILE *f = fopen("/proc/self/stat", "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    char *at = strrchr(text, ')');
    for (int field = 2; field < 22; field++) at = strchr(at + 1, ' ');
    return strtoull(at, NULL, 10);
}

static void set_up_rank(bench *b, int r)
{
    mega_world *w = &b->world[r];
    uint16_t port;
    *w = (mega_world){.rank = r, .size = RANKS, .local_size = 2, .local_rank = r % 2, .shares_page = true};
    w->page = b->page[r / 2];
    w->record = &w->page->slot[r % 2];
    *w->record = (struct mega_record){.step = 40 + r, .kind = COMM_ALL_REDUCE, .number = 7, .started = own_start()};
    strcpy(w->record->phase, "backward");
    strcpy(w->record->group, "dp");
    w->record->missing[0] = 0;
    w->record->num_missing = 1;
    w->record->since = mega_time_now();
    atomic_store(&w->record->pid, (int)getpid());
    atomic_store(&w->record->rank, r);
    atomic_store(&w->record->state, RECORD_WAITS);
    w->exchange = exchange_create(w, &port);
    assert_non_null(w->exchange);
    b->place[r] = (exchange_place){.leader = r / 2 * 2, .port = port};
    snprintf(b->place[r].host, EXCHANGE_HOST, "node%d", r / 2);
    b->place[r].addresses = (uint16_t)socket_addresses(b->place[r].address, EXCHANGE_ADDRESSES, true);
    memset(b->place[r].secret, 5, WIRE_SECRET);
}

/* Simulates a machine whose addresses are all of this family. */
static void keep_family(exchange_place *p, int family)
{
    int kept = 0;
    for (int i = 0; i < p->addresses; i++)
        if (p->address[i].family == family) p->address[kept++] = p->address[i];
    p->addresses = (uint16_t)kept;
}

static int begin_with(void **state, int family)
{
    bench *b = mega_calloc(1, sizeof *b);
    for (int h = 0; h < HOSTS; h++)
        assert_int_equal(posix_memalign((void **)&b->page[h], 64, sizeof(record_page) + 2 * sizeof(struct mega_record)),
                         0);
    for (int h = 0; h < HOSTS; h++) memset(b->page[h], 0, sizeof(record_page) + 2 * sizeof(struct mega_record));
    for (int r = 0; r < RANKS; r++) set_up_rank(b, r);
    for (int r = 0; r < RANKS && family != 0; r++) keep_family(&b->place[r], family);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(exchange_hosts(b->world[r].exchange, b->place), MEGA_OK);
        assert_true(exchange_thread_begin(b->world[r].exchange));
    }
    *state = b;
    return 0;
}

static int begin(void **state)
{
    return begin_with(state, 0);
}

static int begin_v6(void **state)
{
    return begin_with(state, 6);
}

static int end(void **state)
{
    bench *b = *state;
    for (int r = 0; r < RANKS; r++) exchange_close(&b->world[r]);
    for (int h = 0; h < HOSTS; h++) free(b->page[h]);
    mega_free(b);
    return 0;
}

/* Between two looks of a loop that ends by what it sees: a longer rest only makes the test longer. The threads of
 * the exchange signal nobody. */
static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* Waits until `is` holds for the host of this rank, as rank 0 sees it. */
static host_status wait_until(mega_world *w, int rank, bool (*is)(const host_status *))
{
    host_status h = {0};
    for (int i = 0; i < 100 * LIMIT_S; i++) {
        assert_true(exchange_host(w, rank, &h));
        if (is(&h)) return h;
        rest();
    }
    fail_msg("not within 20 s: reached %d, silent %g, refusing %g, dead %d", h.reached, h.silent, h.refusing, h.dead);
    return h;
}

static bool is_reached(const host_status *h)
{
    return h->reached;
}

static bool has_dead(const host_status *h)
{
    return h->dead >= 0;
}

/* A refusal is a sign of life. A thread that did not run counts that time as silence until the next refusal. */
static bool refuses(const host_status *h)
{
    return h->refusing > 0.5 && h->silent < 1;
}

/* Waits until every rank has heard of the other host: from then on, no rank that does not ask opens a connection. */
static void wait_for_greetings(bench *b)
{
    for (int r = 0; r < RANKS; r++) wait_until(&b->world[r], r < 2 ? 2 : 0, is_reached);
}

static void wait_for_record(mega_world *w, int rank, record_view *v)
{
    double stale;
    for (int i = 0; !exchange_read(w, rank, mega_time_now(), v, &stale); i++) {
        assert_true(i < 100 * LIMIT_S);
        rest();
    }
}

static void a_rank_of_another_host_is_read(void **state)
{
    bench *b = *state;
    mega_world *w = &b->world[0];
    record_view v;
    double stale;
    const int wanted[] = {1, 3};
    host_status h = wait_until(w, 2, is_reached); /* the initial contact of each host */
    assert_string_equal(h.name, "node1");
    assert_int_equal(h.ranks, 2);
    assert_int_equal(h.rank[0], 2);
    assert_false(exchange_host(w, 1, &h));
    assert_false(exchange_read(w, 3, mega_time_now(), &v, &stale)); /* no rank has asked about rank 3 */
    exchange_query_start(w, wanted, 2);
    wait_for_record(w, 3, &v);
    assert_int_equal(v.rank, 3);
    assert_int_equal(v.step, 43);
    assert_int_equal(v.number, 7);
    assert_int_equal(v.state, RECORD_WAITS);
    assert_int_equal(v.process, PROCESS_RUNS);
    assert_int_equal(v.num_missing, 1);
    assert_string_equal(v.phase, "backward");
    assert_string_equal(v.group, "dp");
    assert_int_equal(exchange_find(w, has_dead), -1);
    exchange_query_stop(w);
    assert_int_equal(exchange_find(w, is_reached), -1);
}

static void hosts_may_speak_over_v6_alone(void **state)
{
    bench *b = *state;
    record_view v;
    if (b->place[2].addresses == 0) skip(); /* this machine has no IPv6 */
    exchange_query_start(&b->world[1], (const int[]){2}, 1);
    wait_for_record(&b->world[1], 2, &v);
    assert_int_equal(v.step, 42);
}

static void a_dead_rank_and_who_tells_are_heard_of(void **state)
{
    bench *b = *state;
    mega_world *w = &b->world[1];
    record_view v;
    wait_for_greetings(b);
    atomic_store(&b->page[1]->ender, 3);
    atomic_store(&b->page[0]->first_report_ms, (int64_t)(mega_time_now() * 1e3) - 100);
    b->world[3].record->started = 1; /* pretends that another process has its process id now */
    exchange_query_start(w, (const int[]){2}, 1);
    const host_status h = wait_until(w, 2, has_dead);
    assert_int_equal(h.dead, 3);
    assert_int_equal(exchange_find(w, has_dead), 2);
    wait_for_record(w, 3, &v); /* its record comes with the answer */
    assert_int_equal(v.process, PROCESS_DEAD);
    assert_int_equal(atomic_load(&b->page[0]->ender), 3);
    assert_true(llabs(atomic_load(&b->page[1]->first_report_ms) - atomic_load(&b->page[0]->first_report_ms)) <
                1000 * LIMIT_S);
}

static void a_host_whose_ranks_are_gone_refuses(void **state)
{
    bench *b = *state;
    mega_world *w = &b->world[0];
    wait_until(w, 2, is_reached);
    exchange_query_start(w, (const int[]){2}, 1);
    exchange_close(&b->world[2]);
    exchange_close(&b->world[3]);
    wait_until(w, 2, refuses);
}

/* ---- invalid requests ---- */

static int knock(const bench *b, int rank)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(b->place[rank].port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = LIMIT_S};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The connection must be closed without an answer. */
static void assert_refused(const bench *b, const void *bytes, size_t size)
{
    const int fd = knock(b, 2);
    char answer;
    for (size_t done = 0; done < size;) {
        const ssize_t n = send(fd, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
        if (n <= 0) break; /* it may close before it has read everything */
        done += (size_t)n;
    }
    const ssize_t n = recv(fd, &answer, 1, 0);
    assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
    close(fd);
}

static void strangers_are_not_answered(void **state)
{
    bench *b = *state;
    static char garbage[1 << 20];
    unsigned char secret[WIRE_SECRET];
    wait_for_greetings(b); /* rank 2 has four places: a greeting could take that of the query below */
    memset(secret, 5, sizeof secret);
    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (char)(i * 2654435761u >> 13);
    wire_ask ask = {.head = wire_head_of(WIRE_ASK, secret, 0)};
    assert_refused(b, garbage, sizeof garbage);
    ask.head.secret[7] ^= 1;
    assert_refused(b, &ask, sizeof ask);
    ask.head.secret[7] ^= 1;
    ask.head.count = WIRE_RANKS + 1;
    assert_refused(b, &ask, sizeof ask);
    ask.head.count = 1;
    ask.rank[0] = RANKS;
    assert_refused(b, &ask, sizeof ask);
    int crowd[2 * CROWD]; /* connections that send nothing */
    for (int i = 0; i < 2 * CROWD; i++) crowd[i] = knock(b, 2);
    ask.rank[0] = 3;
    wire_answer answer;
    const size_t size = sizeof answer.head + sizeof answer.view[0];
    const int fd = knock(b, 2);
    assert_int_equal(send(fd, &ask, sizeof ask, MSG_NOSIGNAL), sizeof ask);
    assert_int_equal(recv(fd, &answer, size, MSG_WAITALL), size);
    assert_int_equal(answer.view[0].step, 43);
    close(fd);
    for (int i = 0; i < 2 * CROWD; i++) close(crowd[i]);
}

/* All at the same time, as when the thread finds a crowd in its queue: the last to arrive must stay, since its query
 * may not have been read yet. */
static void the_last_of_a_crowd_stays(void **state)
{
    uint16_t port;
    const mega_world w = {.size = RANKS, .local_size = 2};
    record_exchange *x = exchange_create(&w, &port);
    (void)state;
    assert_non_null(x);
    for (int i = 0, last = -1; i < 3 * RANKS; i++) {
        const int fd = dup(x->wake);
        bool is_there = false, is_last_there = last < 0;
        exchange_inbound_accept(x, fd, 1.0);
        for (int k = 0; k < RANKS; k++) {
            is_there |= x->inbound[k].fd == fd;
            is_last_there |= x->inbound[k].fd == last;
        }
        assert_true(is_there && is_last_there);
        last = fd;
    }
    for (int k = 0; k < RANKS; k++) exchange_inbound_close(&x->inbound[k]);
    exchange_destroy(x);
}

static void records_are_looked_at(void **state)
{
    (void)state;
    const record_view good = {.rank = 1, .kind = -1, .state = RECORD_RUNS, .num_missing = 1};
    record_view v = good;
    assert_true(wire_view_is_good(&v, RANKS));
    memset(v.phase, 'x', sizeof v.phase);
    v.name[0] = '\033';
    assert_true(wire_view_is_good(&v, RANKS));
    assert_int_equal(v.phase[sizeof v.phase - 1], '\0');
    assert_string_equal(v.name, "?");
    v = good, v.rank = RANKS;
    assert_false(wire_view_is_good(&v, RANKS));
    v = good, v.missing[0] = -1;
    assert_false(wire_view_is_good(&v, RANKS));
    v = good, v.num_missing = RECORD_MISSING + 1;
    assert_false(wire_view_is_good(&v, RANKS));
    v = good, v.kind = 100;
    assert_false(wire_view_is_good(&v, RANKS));
    v = good, v.age = 0.0 / (v.num_missing - 1.0);
    assert_false(wire_view_is_good(&v, RANKS));
    v = good, v.process = 9;
    assert_false(wire_view_is_good(&v, RANKS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_rank_of_another_host_is_read, begin, end),
        cmocka_unit_test_setup_teardown(hosts_may_speak_over_v6_alone, begin_v6, end),
        cmocka_unit_test_setup_teardown(a_dead_rank_and_who_tells_are_heard_of, begin, end),
        cmocka_unit_test_setup_teardown(a_host_whose_ranks_are_gone_refuses, begin, end),
        cmocka_unit_test_setup_teardown(strangers_are_not_answered, begin, end),
        cmocka_unit_test(the_last_of_a_crowd_stays),
        cmocka_unit_test(records_are_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
