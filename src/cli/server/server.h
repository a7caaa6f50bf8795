/* Shared by the files of run_text_generation_server: HTTP, requests, answers. */
#ifndef MEGA_CLI_SERVER_H
#define MEGA_CLI_SERVER_H

#include "loaded.h"
#include "megalith/generate.h"

/* ---- server_http.c: connections; each request waits in a queue until the caller answers it ---- */

typedef struct server_http server_http;

typedef struct server_http_options {
    const char *host;
    int port;          /* 0: any free one */
    size_t most_bytes; /* of the body of a request */
    int most_waiting;  /* requests in the queue */
    int most_connections;
    int idle_seconds;   /* a connection that sends nothing for so long is closed */
    int most_seconds;   /* in which a request arrives, from its first byte on */
    int64_t least_rate; /* at which it arrives, in bytes a second */
} server_http_options;

mega_status server_http_open(const server_http_options *o, server_http **out);
int server_http_port(const server_http *h);
/* Waits up to a second for the next request. Returns its body, which is valid until it is answered, or NULL if there is
 * none; *size: its bytes. */
const char *server_http_next(server_http *h, size_t *size);
/* Answers the request that server_http_next returned. Takes the text, which was allocated with malloc. */
void server_http_answer(server_http *h, int status, char *json);
/* Refuses requests that wait, ends all connections, and frees h. NULL is allowed. */
void server_http_close(server_http *h);

extern const char server_page[]; /* server_page.c: the page at / */

/* ---- server_request.c: the fields of a request ---- */

enum { SERVER_PROMPTS = 128 };

typedef struct server_request {
    const char *prompt[SERVER_PROMPTS]; /* borrowed from the JSON */
    int prompts;
    int64_t tokens_to_generate;
    bool logprobs, add_bos, stop_on_eol, stop_on_double_eol, prevent_newline_after_colon, no_log;
    double temperature, top_p, top_p_decay, top_p_bound, length_penalty;
    int64_t top_k, random_seed; /* -1: the server's own numbers */
    int64_t beam_width;         /* 0: no beam search */
    int64_t stop_token;         /* of a beam search; -1: the tokenizer's end of document */
} server_request;

/* Reads a request. Returns NULL, or a message for the client; *http then is the status of the answer (Megatron's: 400
 * for a request that is none, 200 for a value that is refused; 400 too for a field that is none or has no effect). The
 * message has space for `bytes`. */
struct json_t;
const char *server_request_read(const struct json_t *body, server_request *out, int *http, char *message, size_t bytes);

/* ---- server_answer.c: generation ---- */

typedef struct server {
    mega_command_options *cfg;
    mega_world *world;
    mega_loaded loaded;
    mega_generator *generator;
    int64_t batch, positions;
    uint64_t next_index; /* number of the next text without a seed of its own */
    /* the request in progress */
    double ends_at;           /* time at which it is given up */
    int64_t sunk;             /* tokens so far */
    bool is_late, is_quiet;   /* took too long; asked for no line in the log */
    int64_t requests, tokens; /* answered so far */
} server;

/* Collective over the world: every rank has the same body. Returns the answer (malloc) and its HTTP status; only a
 * failure that ends the server is an error. */
mega_status server_answer(server *s, const char *body, size_t bytes, char **json, int *http);

#endif
