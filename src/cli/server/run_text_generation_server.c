/* megalith run_text_generation_server: answers prompts over HTTP, one request at a time, in their order. The first rank
 * talks to clients; all ranks generate. */
#include "cli.h"
#include "commands.h"
#include "megalith/memory.h"
#include "megalith/signals.h"
#include "server.h"

#include <stdlib.h>

enum { IDLE_SECONDS = 30, MOST_CONNECTIONS = 512 };

static bool server_is_first_rank(const server *s)
{
    return mega_world_rank(s->world) == 0;
}

static mega_status server_check_ranks(const server *s)
{
    const mega_layout *l = mega_engine_layout(s->loaded.model.engine);
    if (l->edp.size == 1) return MEGA_OK;
    return MEGA_MISTAKE(
        "%d copies of the model were started, and one request is answered at a time; start one copy, of %d rank%s",
        l->edp.size, l->world.size / l->edp.size, l->world.size > l->edp.size ? "s" : "");
}

static mega_status open_model(server *s)
{
    const mega_generate_options *o = &s->cfg->generate;
    MEGA_TRY(mega_loaded_open(s->cfg, s->world, &s->loaded));
    MEGA_TRY(mega_loaded_need_decoder(&s->loaded, "the server"));
    MEGA_TRY(mega_loaded_need_tokenizer(&s->loaded));
    mega_team_stop_on(s->loaded.team, NULL); /* a signal ends the server after the request in progress */
    s->positions = s->loaded.model.shape.positions;
    s->batch = o->batch > o->num_beams ? o->batch : o->num_beams;
    const mega_pretrained_sizes sizes = mega_pretrained_generation(s->batch, s->positions, o->inference_micro_batches,
                                                                   o->inference_batch_times_seqlen_threshold);
    MEGA_TRY(mega_pretrained_load(&s->loaded.model, &sizes));
    MEGA_TRY(server_check_ranks(s));
    const mega_generator_options g = {.draw_vocab = mega_pretrained_known(&s->loaded.model, s->loaded.tokenizer),
                                      .no_cache = o->recompute,
                                      .has_beams = true,
                                      .tokenizer = s->loaded.tokenizer,
                                      .folder = s->loaded.model.folder};
    return mega_generator_create(s->loaded.model.engine, &s->loaded.model.language, &g, &s->generator);
}

static mega_status open_http(const server *s, server_http **out)
{
    const mega_server_options *o = &s->cfg->server;
    const server_http_options http = {.host = o->host,
                                      .port = (int)o->port,
                                      .most_bytes = (size_t)o->max_request_bytes,
                                      .most_waiting = (int)o->max_waiting_requests,
                                      .most_connections = MOST_CONNECTIONS,
                                      .idle_seconds = IDLE_SECONDS,
                                      .most_seconds = (int)o->max_receive_seconds,
                                      .least_rate = o->min_receive_rate};
    if (!server_is_first_rank(s)) return MEGA_OK;
    MEGA_TRY(server_http_open(&http, out));
    printf("listening on http://%s:%d/ (PUT /api; Ctrl-C or SIGTERM ends it)\n", o->host, server_http_port(*out));
    fflush(stdout);
    return MEGA_OK;
}

/* What the first rank tells the others: a request, nothing yet, or the end. Without a word now and then, ranks would
 * take a server without clients for one that hangs. */
enum { STOP = -2, NOTHING = -1 };

typedef struct request_body {
    char *own; /* on ranks other than the first */
    const char *text;
    int64_t bytes;
} request_body;

static mega_status next_body(const server *s, server_http *http, request_body *b)
{
    mega_comm *all = mega_world_comm(s->world);
    size_t size = 0;
    if (server_is_first_rank(s)) {
        const bool stops = *mega_signals_stop() != 0;
        b->text = stops ? NULL : server_http_next(http, &size);
        b->bytes = stops ? STOP : b->text == NULL ? NOTHING : (int64_t)size;
    }
    MEGA_TRY(mega_comm_broadcast(all, "size of a request", &b->bytes, (int64_t)sizeof b->bytes, 0));
    if (b->bytes < 0 || mega_world_size(s->world) == 1) return MEGA_OK;
    if (!server_is_first_rank(s)) {
        char *grown = mega_realloc(b->own, (size_t)b->bytes + 1);
        if (grown == NULL) return MEGA_NO_MEMORY("server", "a request");
        b->own = grown;
        b->text = grown;
    }
    if (b->bytes == 0) return MEGA_OK;
    return mega_comm_broadcast(all, "request", (void *)(uintptr_t)b->text, b->bytes, 0);
}

static mega_status answer_one(server *s, server_http *http, const request_body *b)
{
    const double start = mega_time_now();
    const int64_t before = s->tokens;
    char *json = NULL;
    int status = 500;
    MEGA_TRY(mega_cli_agree(s->world, server_answer(s, b->text, (size_t)b->bytes, &json, &status)));
    if (server_is_first_rank(s)) server_http_answer(http, status, json);
    else
        free(json);
    s->requests++;
    if (s->is_quiet) return MEGA_OK;
    mega_info("request %lld: status %d, %lld new tokens, %.3f s", (long long)s->requests, status,
              (long long)(s->tokens - before), mega_time_now() - start);
    return MEGA_OK;
}

static mega_status serve(server *s, server_http *http)
{
    request_body b = {0};
    mega_status st = MEGA_OK;
    while (st == MEGA_OK && b.bytes != STOP) {
        st = next_body(s, http, &b);
        if (st == MEGA_OK && b.bytes >= 0) st = answer_one(s, http, &b);
    }
    mega_free(b.own);
    return st;
}

static mega_status server_run(server *s)
{
    server_http *http = NULL;
    MEGA_TRY(mega_cli_agree(s->world, open_model(s)));
    if (s->cfg->train.dry_run) {
        mega_cli_dry_run("%s would answer requests", s->loaded.model.folder);
        return MEGA_OK;
    }
    mega_status st = mega_cli_agree(s->world, open_http(s, &http));
    if (st == MEGA_OK) st = serve(s, http);
    server_http_close(http);
    MEGA_TRY(st);
    mega_info("the server has answered %lld requests", (long long)s->requests);
    return MEGA_OK;
}

static mega_status server_run_on(mega_world *world, mega_command_options *cfg)
{
    server s = {.cfg = cfg, .world = world};
    const mega_status st = server_run(&s);
    mega_generator_destroy(s.generator);
    mega_loaded_close(&s.loaded);
    return st;
}

int mega_command_run_text_generation_server(int argc, char **argv)
{
    return mega_cli_on_ranks("run_text_generation_server",
                             "the server ends after the request under way; others that wait are refused", argc, argv,
                             server_run_on);
}
