/* The HTTP side of the server, with libmicrohttpd: one thread reads and writes all connections. A request whose body is
 * complete is suspended and waits in a queue; the caller's thread answers one after the other. */
#include "megalith/memory.h"
#include "server.h"
#include "server_slow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* A request, from its first line until its answer has been sent or its client has gone. */
typedef struct exchange {
    struct MHD_Connection *connection;
    struct exchange *next; /* in the queue */
    char *body;
    size_t size, capacity;
    bool is_waiting; /* in the queue, or being answered: suspended */
    char *answer;    /* malloc; NULL: none yet */
    int status;
} exchange;

struct server_http {
    struct MHD_Daemon *daemon;
    server_slow *slow;
    server_http_options options;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    exchange *first, *last; /* the queue */
    int waiting;
    exchange *current; /* being answered */
    bool is_closing;
};

/* ---- answers ---- */

static enum MHD_Result count_length(void *user, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    (void)value;
    *(int *)user += strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    return MHD_YES;
}

/* Where a request gives its length twice, or a length and chunks, a proxy in front may see another end of it than we
 * do. */
static bool has_two_lengths(struct MHD_Connection *c)
{
    int lengths = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
    MHD_get_connection_values(c, MHD_HEADER_KIND, count_length, &lengths);
    return lengths > 1;
}

static enum MHD_Result send_text(const server_http *h, struct MHD_Connection *c, int status, const char *type,
                                 const char *text, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, mode);
    if (r == NULL) {
        if (mode == MHD_RESPMEM_MUST_FREE) free((void *)(uintptr_t)text);
        return MHD_NO;
    }
    MHD_add_response_header(r, "Content-Type", type);
    if (has_two_lengths(c) || server_slow_is_short(h->slow)) MHD_add_response_header(r, "Connection", "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(r, "Allow", "PUT, POST");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE) MHD_add_response_header(r, "Retry-After", "5");
    const enum MHD_Result sent = MHD_queue_response(c, (unsigned)status, r);
    MHD_destroy_response(r);
    return sent;
}

static enum MHD_Result send_json(const server_http *h, struct MHD_Connection *c, int status, const char *text)
{
    return send_text(h, c, status, "application/json", text, MHD_RESPMEM_PERSISTENT);
}

/* ---- the thread of libmicrohttpd ---- */

static enum MHD_Result answer_other(const server_http *h, struct MHD_Connection *c, const char *url, const char *method)
{
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (strcmp(url, "/api") == 0) return send_json(h, c, MHD_HTTP_METHOD_NOT_ALLOWED, "\"expected PUT /api\"\n");
    if (strcmp(url, "/") == 0 && reads)
        return send_text(h, c, MHD_HTTP_OK, "text/html; charset=utf-8", server_page, MHD_RESPMEM_PERSISTENT);
    return send_json(h, c, MHD_HTTP_NOT_FOUND, "\"expected PUT /api, or GET / in a browser\"\n");
}

static bool is_request(const char *url, const char *method)
{
    return strcmp(url, "/api") == 0 && (strcmp(method, "PUT") == 0 || strcmp(method, "POST") == 0);
}

static server_slow_link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void on_connection(void *user, struct MHD_Connection *c, void **own, enum MHD_ConnectionNotificationCode what)
{
    server_http *h = user;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) *own = info != NULL ? server_slow_add(h->slow, info->connect_fd) : NULL;
    else
        server_slow_remove(h->slow, *own);
}

/* Appends a part of the body. Bytes beyond the limit are read and dropped, so that the client gets the answer. */
static bool take_body(const server_http *h, exchange *x, const char *data, size_t size)
{
    if (x->size > h->options.most_bytes) return true;
    if (x->size + size + 1 > x->capacity) {
        const size_t capacity = 2 * x->capacity + size + 1;
        char *grown = realloc(x->body, capacity);
        if (grown == NULL) return false;
        x->body = grown;
        x->capacity = capacity;
    }
    memcpy(x->body + x->size, data, size);
    x->size += size;
    return true;
}

/* Puts a request with its whole body into the queue. Returns its HTTP status if it is refused, else 0. */
static int enqueue(server_http *h, exchange *x)
{
    if (x->size > h->options.most_bytes) return MHD_HTTP_CONTENT_TOO_LARGE;
    pthread_mutex_lock(&h->lock);
    const bool is_full = h->is_closing || h->waiting >= h->options.most_waiting;
    if (!is_full) {
        MHD_suspend_connection(x->connection);
        x->is_waiting = true;
        x->next = NULL;
        if (h->last != NULL) h->last->next = x;
        else
            h->first = x;
        h->last = x;
        h->waiting++;
        pthread_cond_signal(&h->arrived);
    }
    pthread_mutex_unlock(&h->lock);
    return is_full ? MHD_HTTP_SERVICE_UNAVAILABLE : 0;
}

/* A request that announces a body over the limit is refused before it is sent. */
static bool announces_too_much(const server_http *h, struct MHD_Connection *c)
{
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length != NULL && strtoull(length, NULL, 10) > h->options.most_bytes;
}

static enum MHD_Result http_refuse(const server_http *h, struct MHD_Connection *c, int status)
{
    return send_json(h, c, status,
                     status == MHD_HTTP_BAD_REQUEST
                         ? "\"the request has more than one length; expected one Content-Length\"\n"
                     : status == MHD_HTTP_CONTENT_TOO_LARGE ? "\"the request is too large (--max-request-bytes)\"\n"
                                                            : "\"too many requests wait; try again later\"\n");
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **own)
{
    server_http *h = user;
    exchange *x = *own;
    (void)version;
    if (x == NULL) { /* the header alone */
        x = calloc(1, sizeof *x);
        if (x == NULL) return MHD_NO;
        *own = x;
        x->connection = c;
        if (has_two_lengths(c)) return http_refuse(h, c, MHD_HTTP_BAD_REQUEST);
        if (is_request(url, method) && MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, NULL, NULL) > 0)
            return send_json(h, c, MHD_HTTP_BAD_REQUEST,
                             "\"fields belong into the JSON of the request; expected no ? after /api\"\n");
        return is_request(url, method) && announces_too_much(h, c) ? http_refuse(h, c, MHD_HTTP_CONTENT_TOO_LARGE)
                                                                   : MHD_YES;
    }
    if (*size > 0) {
        const bool is_taken = !is_request(url, method) || take_body(h, x, data, *size);
        *size = 0;
        return is_taken ? MHD_YES : MHD_NO;
    }
    server_slow_arrived(h->slow, link_of(c));
    if (!is_request(url, method)) return answer_other(h, c, url, method);
    if (x->answer != NULL) {
        char *text = x->answer;
        x->answer = NULL;
        return send_text(h, c, x->status, "application/json", text, MHD_RESPMEM_MUST_FREE);
    }
    const int refused = enqueue(h, x);
    return refused != 0 ? http_refuse(h, c, refused) : MHD_YES;
}

static void on_end(void *user, struct MHD_Connection *c, void **own, enum MHD_RequestTerminationCode why)
{
    exchange *x = *own;
    server_http *h = user;
    (void)why;
    server_slow_answered(h->slow, link_of(c));
    if (x == NULL) return;
    free(x->body);
    free(x->answer);
    free(x);
    *own = NULL;
}

/* ---- the caller's thread ---- */

static mega_status listen_address(const server_http_options *o, struct sockaddr_in *out)
{
    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    const char *host = strcmp(o->host, "localhost") == 0 ? "127.0.0.1" : o->host;
    if (inet_pton(AF_INET, host, &out->sin_addr) == 1) return MEGA_OK;
    return MEGA_MISTAKE("--host %s: expected an IPv4 address of this machine, such as 127.0.0.1 or 0.0.0.0", o->host);
}

mega_status server_http_open(const server_http_options *o, server_http **out)
{
    struct sockaddr_in address;
    MEGA_TRY(listen_address(o, &address));
    server_http *h = mega_calloc(1, sizeof *h);
    if (h == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "server: no memory");
    h->options = *o;
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&h->arrived, &attributes);
    pthread_condattr_destroy(&attributes);
    const mega_status watched = server_slow_open(o->most_seconds, o->least_rate, o->most_connections, &h->slow);
    if (watched != MEGA_OK) {
        server_http_close(h);
        return watched;
    }
    errno = 0;
    h->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_AUTO, 0, NULL, NULL, on_request, h,
        MHD_OPTION_NOTIFY_COMPLETED, on_end, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_SOCK_ADDR,
        (struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->most_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->idle_seconds, MHD_OPTION_END);
    if (h->daemon == NULL) {
        const mega_status st = MEGA_FAIL(
            MEGA_ERR_IO, "--host %s --port %d: cannot be listened on (%m); choose another --port, or 0 for any",
            o->host, o->port);
        server_http_close(h);
        return st;
    }
    *out = h;
    return MEGA_OK;
}

int server_http_port(const server_http *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info != NULL ? info->port : h->options.port;
}

const char *server_http_next(server_http *h, size_t *size)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&h->lock);
    while (h->first == NULL && pthread_cond_timedwait(&h->arrived, &h->lock, &until) != ETIMEDOUT) {
    }
    exchange *x = h->first;
    if (x != NULL) {
        h->first = x->next;
        if (h->first == NULL) h->last = NULL;
        h->waiting--;
    }
    h->current = x;
    pthread_mutex_unlock(&h->lock);
    if (x == NULL) return NULL;
    *size = x->size;
    return x->size > 0 ? x->body : "";
}

/* From the resumption on, the exchange belongs to the other thread, which may free it at once. */
static void resume(exchange *x, int status, char *json)
{
    x->answer = json;
    x->status = status;
    x->is_waiting = false;
    MHD_resume_connection(x->connection);
}

void server_http_answer(server_http *h, int status, char *json)
{
    exchange *x = h->current;
    h->current = NULL;
    resume(x, status, json);
}

void server_http_close(server_http *h)
{
    if (h == NULL) return;
    if (h->daemon != NULL) {
        /* connections in progress end, and all that wait are told so */
        pthread_mutex_lock(&h->lock);
        h->is_closing = true;
        exchange *x = h->first;
        h->first = h->last = NULL;
        pthread_mutex_unlock(&h->lock);
        while (x != NULL) {
            exchange *next = x->next;
            resume(x, MHD_HTTP_SERVICE_UNAVAILABLE, strdup("\"the server stops\"\n"));
            x = next;
        }
        if (h->current != NULL)
            server_http_answer(h, MHD_HTTP_INTERNAL_SERVER_ERROR, strdup("\"the server has failed\"\n"));
        const struct timespec moment = {.tv_nsec = 200000000}; /* for the answers to be sent */
        const MHD_socket listening = MHD_quiesce_daemon(h->daemon);
        nanosleep(&moment, NULL);
        MHD_stop_daemon(h->daemon);
        if (listening != MHD_INVALID_SOCKET) close(listening);
    }
    server_slow_close(h->slow);
    pthread_cond_destroy(&h->arrived);
    pthread_mutex_destroy(&h->lock);
    mega_free(h);
}
