/* --profile-trace: writes one Chrome trace in which each rank is a process. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/profile.h"
#include "megalith/threads.h"
#include "train_impl.h"

/* Returns the start time of the trace, the earliest of all ranks. On one host all ranks read the same clock. On
 * several hosts, each rank's time is relative to when it left a barrier, so that the clocks are aligned. */
static mega_status common_start(const trainer *t, double *start)
{
    double base = 0, first = mega_profile_begin(t->profile.events);
    if (t->world == NULL) {
        *start = first;
        return MEGA_OK;
    }
    mega_comm *all = mega_world_comm(t->world);
    int64_t here = mega_world_local_size(t->world);
    MEGA_TRY(mega_comm_all_reduce(all, "ranks of a host", &here, 1, MEGA_I64, MEGA_REDUCE_MIN));
    MEGA_TRY(mega_comm_barrier(all, "trace"));
    if (here < mega_world_size(t->world)) base = mega_time_now();
    first -= base;
    MEGA_TRY(mega_comm_all_reduce(all, "trace", &first, 1, MEGA_F64, MEGA_REDUCE_MIN));
    *start = first + base;
    return MEGA_OK;
}

/* The first rank appends the traces of the other ranks, in rank order. */
static mega_status gather(const trainer *t, const mega_buffer *mine, mega_buffer *whole)
{
    mega_comm *all = mega_world_comm(t->world);
    const int size = mega_world_size(t->world), rank = mega_world_rank(t->world);
    for (int r = 1; r < size; r++) {
        int64_t bytes = r == rank ? (int64_t)mine->size : 0;
        mega_request request = {0};
        MEGA_TRY(mega_comm_all_reduce(all, "size of a trace", &bytes, 1, MEGA_I64, MEGA_REDUCE_MAX));
        if (rank == r) MEGA_TRY(mega_comm_send_start(all, "trace", 0, mine->data, bytes, &request));
        char *text = rank == 0 ? mega_malloc((size_t)bytes + 1) : NULL;
        mega_status st = rank == 0 && text == NULL
                             ? MEGA_FAIL(MEGA_ERR_MEMORY, "profile: no memory for the trace of rank %d", r)
                             : MEGA_OK;
        if (rank == 0 && st == MEGA_OK) st = mega_comm_receive_start(all, "trace", r, text, bytes, &request);
        if (st == MEGA_OK) st = mega_comm_wait(&request);
        if (rank == 0 && st == MEGA_OK) {
            text[bytes] = '\0';
            mega_buffer_puts(whole, text);
        }
        mega_free(text);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}

void train_trace_retry(trainer *t, bool is_last)
{
    const char *path = t->cfg->profile_trace;
    if (t->profile.trace.size == 0) return;
    mega_status st = mega_folder_create_for(path);
    if (st == MEGA_OK) st = mega_file_write_atomic(path, t->profile.trace.data, t->profile.trace.size);
    if (st == MEGA_OK) train_line(t, "profile: %s; chrome://tracing or ui.perfetto.dev shows it", path);
    else if (is_last)
        mega_warn("--profile-trace %s: the trace is missing: %s", path, mega_error_message());
    else if (!t->profile.trace_failed)
        mega_warn(
            "--profile-trace: %s; the training continues, and the trace is tried again with each checkpoint and at "
            "the end",
            mega_error_message());
    t->profile.trace_failed = st != MEGA_OK;
    if (st == MEGA_OK || is_last) mega_buffer_fini(&t->profile.trace);
}

static mega_status trace_write_file(trainer *t, mega_buffer *whole)
{
    MEGA_TRY(mega_buffer_check(whole, "the trace; profile fewer steps"));
    t->profile.trace = *whole;
    *whole = (mega_buffer){0};
    train_trace_retry(t, false);
    return MEGA_OK;
}

mega_status train_trace_write(trainer *t)
{
    mega_buffer mine = {0}, whole = {0};
    mega_profile_rank rank = {.rank = mega_world_rank(t->world), .threads = mega_team_size(t->team)};
    MEGA_TRY(common_start(t, &rank.start));
    mega_profile_trace_events(t->profile.events, &rank, &mine);
    mega_status st = train_agree(t, mega_buffer_check(&mine, "the trace of a rank; profile fewer steps"));
    mega_profile_trace_head(&whole);
    if (st == MEGA_OK) mega_buffer_puts(&whole, mine.data);
    if (st == MEGA_OK && t->world != NULL) st = gather(t, &mine, &whole);
    mega_profile_trace_tail(&whole);
    if (st == MEGA_OK && train_is_first(t)) st = trace_write_file(t, &whole);
    mega_buffer_fini(&mine);
    mega_buffer_fini(&whole);
    return train_agree(t, st);
}
