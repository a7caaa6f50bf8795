/* Checks that all ranks save to and load from the same folder, before a run has computed anything. */
#include "checkpoint_impl.h"
#include "megalith/process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A note that the first rank writes, and its path. */
typedef struct note {
    char path[PATH_MAX], token[MEGA_TOKEN_BYTES], host[MEGA_HOST_BYTES];
} note;

/* The note has a temporary name, so that the next save removes it if this run dies. */
static mega_status write_note(note *n, const char *save)
{
    MEGA_TRY(mega_checkpoint_prepare(save));
    mega_host_name(n->host);
    mega_token_make(n->token);
    char *tracker = mega_path_join(save, MEGA_TRACKER), *path = tracker != NULL ? mega_temporary_path(tracker) : NULL;
    mega_status st = MEGA_OK;
    if (path == NULL || snprintf(n->path, sizeof n->path, "%s", path) >= (int)sizeof n->path)
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "--save %s: no memory for a path", save);
    MEGA_FREE(tracker, path);
    mega_writer *w = NULL;
    if (st == MEGA_OK) st = mega_writer_create(n->path, &w);
    if (st == MEGA_OK) {
        MEGA_IGNORE(mega_writer_write(w, n->token, strlen(n->token))); /* close returns its error */
        st = mega_writer_close(w, true);
    }
    if (st == MEGA_OK) return st;
    mega_error_prepend("--save %s: cannot write a checkpoint there", save);
    if (n->path[0] != '\0') mega_file_discard(n->path);
    n->path[0] = '\0';
    return st;
}

static mega_status find_note(const note *n, const char *save, const mega_comm *ranks)
{
    char host[MEGA_HOST_BYTES], *text = NULL;
    const mega_status st = mega_file_read(n->path, &text, NULL);
    const bool found = st == MEGA_OK && strcmp(text, n->token) == 0;
    mega_free(text);
    mega_host_name(host);
    if (!found)
        return MEGA_MISTAKE(
            "--save %s: rank %d on host %s does not find there what rank 0 on host %s wrote: for them it is "
            "not the same folder; expected the full path of a folder that all ranks share, on a file "
            "system that every host mounts",
            save, mega_comm_rank(ranks), host, n->host);
    if (access(save, W_OK | X_OK) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_IO,
                     "--save %s: rank %d on host %s cannot write there: %s; change the permissions of the folder", save,
                     mega_comm_rank(ranks), host, strerror(errno));
}

mega_status mega_checkpoint_prepare_shared(const char *save, mega_comm *ranks)
{
    note n = {.path = ""};
    const bool first = mega_comm_rank(ranks) == 0;
    mega_status st = first ? write_note(&n, save) : MEGA_OK;
    MEGA_TRY(mega_comm_broadcast(ranks, "place of a checkpoint", &n, sizeof n, 0));
    if (!first && n.path[0] != '\0') st = find_note(&n, save, ranks);
    MEGA_TRY(mega_comm_barrier(ranks, "place of a checkpoint"));
    if (first && n.path[0] != '\0') mega_file_discard(n.path);
    return mega_comm_agree(ranks, st);
}

/* Identifies a checkpoint, for comparing it between ranks. */
typedef struct mark {
    int64_t iteration; /* -1: no checkpoint */
    uint64_t content;
    char host[MEGA_HOST_BYTES];
} mark;

static mark mark_of(const mega_checkpoint *c)
{
    mark m = {.iteration = -1};
    mega_host_name(m.host);
    if (c == NULL) return m;
    m.iteration = c->iteration;
    m.content = c->sums_hash;
    for (size_t i = 0; i < c->weights.count; i++) {
        for (size_t k = 0; k < mega_safetensors_count(c->weights.file[i]); k++) {
            const mega_safetensor *t = mega_safetensors_get(c->weights.file[i], k);
            const uint64_t place[2] = {t->begin, t->end};
            m.content = mega_hash64(mega_hash64(m.content, t->name, strlen(t->name)), place, sizeof place);
        }
    }
    return m;
}

static const char *shared_said(char *out, size_t size, const mark *m)
{
    if (m->iteration < 0) return "no checkpoint";
    snprintf(out, size, "one of iteration %lld", (long long)m->iteration);
    return out;
}

mega_status mega_checkpoint_check_shared(const mega_checkpoint *c, const char *load, mega_comm *ranks)
{
    const mark mine = mark_of(c);
    mark first = mine;
    MEGA_TRY(mega_comm_broadcast(ranks, "mark of a checkpoint", &first, sizeof first, 0));
    mega_status st = MEGA_OK;
    if (first.iteration != mine.iteration || first.content != mine.content) {
        char here[48], there[48];
        st = MEGA_MISTAKE(
            "--load %s: rank %d on host %s finds %s, rank 0 on host %s %s%s; expected the same folder in all "
            "ranks, or a copy of it",
            load, mega_comm_rank(ranks), mine.host, shared_said(here, sizeof here, &mine), first.host,
            shared_said(there, sizeof there, &first),
            first.iteration == mine.iteration ? " with different content" : "");
    }
    return mega_comm_agree(ranks, st);
}
