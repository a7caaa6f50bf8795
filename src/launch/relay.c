/* Reassembles the lines of ranks. The MPI launcher labels each piece of output with its rank and passes pieces on as
 * they arrive; the relay joins them, so that a line on the terminal is one rank's whole line. */
#include "launch_impl.h"
#include "megalith/file.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define OUTSIDE (-1) /* text of the MPI launcher itself */

enum { CAUSE_MOST = 4096 };

typedef struct relay_stream {
    int rank;            /* the rank whose text comes next */
    mega_buffer pending; /* what may be the beginning of a mark */
    mega_buffer *line;   /* one for each rank; the last is the MPI launcher's */
} relay_stream;

struct launch_relay {
    const launch_plan *plan;
    relay_stream stream[2];
    FILE **log; /* one for each rank; NULL: not open */
    char *cause;
    int cause_rank;
    bool cause_is_last; /* nothing has been shown since the cause */
    bool is_drawn;      /* a status line is on the terminal */
    bool is_ready, has_trained, has_lost_host, is_stopped, mpirun_complains;
    bool *aborts;      /* by rank: its further standard error comes from the MPI library */
    mega_buffer block; /* the MPI launcher's lines between two rules */
    bool in_block;
    mega_buffer held;     /* the MPI launcher's lines since the ranks were ready */
    mega_buffer internal; /* what it calls an error of its own */
    char death[256];
    char host[96];
    int pid, death_rank, death_signal;
    bool has_rank_line;   /* some rank has printed */
    bool has_failed_rank; /* in a run of the user's own program: some rank ended with an error */
    /* the signal that a rank received; SIGTERM only if there was no other, because MPI launchers end ranks with it */
    int signal;
};

/* Opens a file for each rank; a restart appends to it. */
static mega_status open_logs(launch_relay *r)
{
    const char *folder = r->plan->log_dir;
    struct rlimit files;
    if (folder == NULL) return MEGA_OK;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int i = 0; i < r->plan->world; i++) {
        char *path = mega_format("%s/rank_%d.log", folder, i);
        r->log[i] = path != NULL ? fopen(path, "ae") : NULL;
        mega_free(path);
        if (r->log[i] == NULL)
            return MEGA_FAIL(MEGA_ERR_IO, "--log_dir: %s/rank_%d.log: %s", folder, i, strerror(errno));
    }
    return MEGA_OK;
}

mega_status launch_relay_create(launch_relay **out, const launch_plan *p)
{
    launch_relay *r = mega_calloc(1, sizeof *r);
    const size_t ranks = (size_t)p->world;
    bool ok = r != NULL;
    for (int s = 0; s < 2 && ok; s++) {
        r->stream[s].rank = p->kind == LAUNCH_NONE ? 0 : OUTSIDE;
        r->stream[s].line = mega_calloc(ranks + 1, sizeof(mega_buffer));
        ok = r->stream[s].line != NULL;
    }
    if (ok) r->log = mega_calloc(ranks, sizeof *r->log);
    if (ok) r->aborts = mega_calloc(ranks, sizeof *r->aborts);
    if (!ok || r->log == NULL || r->aborts == NULL) {
        launch_relay_destroy(r);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the lines of %d ranks", p->world);
    }
    r->plan = p;
    r->death_rank = OUTSIDE;
    const mega_status st = open_logs(r);
    if (st != MEGA_OK) {
        launch_relay_destroy(r);
        return st;
    }
    *out = r;
    return MEGA_OK;
}

void launch_relay_destroy(launch_relay *r)
{
    if (r == NULL) return;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; r->stream[s].line != NULL && r->plan != NULL && i <= r->plan->world; i++)
            mega_buffer_fini(&r->stream[s].line[i]);
        mega_free(r->stream[s].line);
        mega_buffer_fini(&r->stream[s].pending);
    }
    for (int i = 0; r->log != NULL && r->plan != NULL && i < r->plan->world; i++)
        if (r->log[i] != NULL) fclose(r->log[i]);
    mega_free(r->log);
    mega_free(r->cause);
    mega_free(r->aborts);
    mega_buffer_fini(&r->block);
    mega_buffer_fini(&r->held);
    mega_buffer_fini(&r->internal);
    mega_free(r);
}

static void write_log(launch_relay *r, int rank, const char *line)
{
    if (r->plan->log_dir == NULL) return;
    fprintf(r->log[rank], "%s\n", line);
    fflush(r->log[rank]);
}

static bool is_passed(int mark)
{
    return mark > MEGA_MARK_PASSED && mark <= MEGA_MARK_PASSED + SIGTERM;
}

/* Removes a mark from a rank's line and returns it; 0: none. Marks on standard output come from rank 0 and are whole
 * lines. */
static int take_mark(bool is_error, int rank, char *line)
{
    char *at = strchr(line, LAUNCH_MARK);
    const int mark = at != NULL ? at[1] : '\0';
    const bool is_begin = at == line && (mark == MEGA_MARK_STATUS || is_passed(mark));
    const bool is_line = is_begin || (at == line && mark != '\0' && at[2] == '\0');
    const bool is_mark = mark != '\0' && (strchr(LAUNCH_MARKS, mark) != NULL || mark >= MEGA_MARK_SIGNAL);
    if (!(is_mark || is_passed(mark)) || (!is_error && (rank != 0 || !is_line))) return 0;
    memmove(at, at + 2, strlen(at + 2) + 1);
    return mark;
}

/* Keeps why the first rank to fail ended, with the lines that this rank prints next. */
static void note_cause(launch_relay *r, int rank, const char *line, const char *cause)
{
    if (r->cause == NULL) {
        if (cause == NULL) return;
        r->cause = mega_strdup(cause);
        r->cause_rank = rank;
        r->cause_is_last = true;
    } else if (rank == r->cause_rank && r->cause_is_last && strlen(r->cause) + strlen(line) < CAUSE_MOST) {
        char *longer = mega_format("%s\n%s", r->cause, line);
        if (longer == NULL) return;
        mega_free(r->cause);
        r->cause = longer;
    }
}

int launch_terminal_columns(void)
{
    enum { PREFIX = 4 }; /* "[0] " before lines of rank 0, among them a plot as wide as this says */
    struct winsize size;
    if (isatty(STDOUT_FILENO) != 1) return 0;
    const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 2 * PREFIX;
    return (is_known ? size.ws_col : 80) - PREFIX;
}

/* Rank 0's status line stays below all other lines. */
static void draw_status(launch_relay *r, const char *text)
{
    if (text[0] != '\0' || r->is_drawn) printf("\r\033[K%s", text);
    fflush(stdout);
    r->is_drawn = text[0] != '\0';
}

/* Returns false if the line is not to be shown. */
static bool heed_mark(launch_relay *r, int mark, int rank)
{
    switch (mark) {
    case MEGA_MARK_READY: r->is_ready = true; return false;
    case MEGA_MARK_TRAINING: r->has_trained = true; return false;
    case MEGA_MARK_ABORTS: r->aborts[rank] = true; return false;
    case MEGA_MARK_STOPPED: r->is_stopped = r->is_stopped || r->cause == NULL; return true;
    case MEGA_MARK_LOST: r->has_lost_host = r->has_lost_host || r->cause == NULL; return true;
    default:
        if (mark > MEGA_MARK_SIGNAL && (r->signal == 0 || r->signal == SIGTERM)) r->signal = mark - MEGA_MARK_SIGNAL;
        return true;
    }
}

/* A rank names the signal that the MPI launcher handed to it: that by which launch passed on the one that it received,
 * unless the user sent it to the MPI launcher. Returns the line with the name of what the user sent, NULL if it is that
 * already. */
static char *name_what_was_sent(launch_relay *r, int number, const char *line)
{
    const int own = launch_asked();
    const bool is_own = own != 0 && (number == SIGTERM || mega_signal_passed_on(r->plan->kind, own) == number);
    const int sent = is_own ? own : number, named = number == SIGTERM ? LAUNCH_SIGTERM : number;
    if (r->signal == 0 || r->signal == SIGTERM) r->signal = sent;
    for (int is_line = 0; is_own && is_line < 2; is_line++) {
        const char *words = mega_signal_words(named, is_line != 0), *at = strstr(line, words);
        if (at != NULL)
            return mega_format("%.*s%s%s", (int)(at - line), line, mega_signal_words(sent, is_line != 0),
                               at + strlen(words));
    }
    return NULL;
}

static void relay_print(launch_relay *r, bool is_error, int rank, const char *line)
{
    const int last = r->plan->world - 1;
    if (rank == OUTSIDE || rank != r->cause_rank || !is_error) r->cause_is_last = false;
    if (rank != OUTSIDE) write_log(r, rank, line);
    if (rank != OUTSIDE && r->plan->log_dir != NULL && rank != 0 && rank != last && !is_error) return;
    FILE *to = is_error ? stderr : stdout;
    draw_status(r, "");
    if (rank != OUTSIDE && r->plan->world > 1) fprintf(to, "[%d] %s\n", rank, line);
    else
        fprintf(to, "%s\n", line);
    fflush(to);
}

/* Changes `line` if it contains a mark. */
static void show_line(launch_relay *r, bool is_error, int rank, char *line)
{
    char *named = NULL;
    if (rank != OUTSIDE) {
        r->has_rank_line = true;
        if (is_error && r->aborts[rank]) return;
        const char *behind = strchr(line, LAUNCH_MARK);
        const int mark = take_mark(is_error, rank, line);
        if (mark == MEGA_MARK_STATUS) draw_status(r, line);
        if (mark == MEGA_MARK_STATUS || !heed_mark(r, mark, rank)) return;
        const bool is_cause = mark == MEGA_MARK_FAILED || mark == MEGA_MARK_LOST || mark == MEGA_MARK_STOPPED;
        if (is_error) note_cause(r, rank, line, is_cause ? behind : NULL);
        if (is_passed(mark)) named = name_what_was_sent(r, mark - MEGA_MARK_PASSED, line);
    }
    relay_print(r, is_error, rank, named != NULL ? named : line);
    mega_free(named);
}

/* ---- messages of the MPI launcher itself ---- */

/* Extracts which rank died from the MPI launcher's message, for the last line that the user sees. No decision depends
 * on it. */
static void note_death(launch_relay *r, const char *line)
{
    int rank = 0, number = 0, pid = 0, signal_number = 0;
    char host[96] = "", how[64] = "";
    const char *at;
    /* Open MPI says no more than this of some ranks that end with an error, which have printed it themselves. */
    if (strstr(line, "Primary job  terminated normally, but") != NULL) r->has_failed_rank = r->plan->own != NULL;
    if ((at = strstr(line, "process rank ")) != NULL && strstr(line, "exited on signal") != NULL &&
        sscanf(at, "process rank %d with PID %*s on node %95s exited on signal %d", &rank, host, &signal_number) == 3) {
        snprintf(r->death, sizeof r->death, "rank %d on host %s was ended by signal %d (%s)", rank, host, signal_number,
                 strsignal(signal_number));
        r->death_signal = signal_number;
    } else if ((at = strstr(line, "PID ")) != NULL && sscanf(at, "PID %d RUNNING AT %95s", &pid, host) == 2) {
        r->pid = pid;
        memcpy(r->host, host, sizeof host);
    } else if ((at = strstr(line, "(signal ")) != NULL && strstr(line, "EXIT STRING") != NULL) {
        signal_number = atoi(at + 8);
        snprintf(r->death, sizeof r->death, "a rank on host %s (process %d) was ended by signal %d (%s)", r->host,
                 r->pid, signal_number, strsignal(signal_number));
        r->death_signal = signal_number;
    } else if ((at = strstr(line, "EXIT CODE: ")) != NULL && r->plan->own != NULL && r->death[0] == '\0') {
        snprintf(r->death, sizeof r->death, "a rank on host %s (process %d) ended with exit status %d", r->host, r->pid,
                 atoi(at + 11));
    } else if ((at = strstr(line, "MPI_ABORT was invoked on rank ")) != NULL && r->plan->own != NULL) {
        snprintf(r->death, sizeof r->death, "rank %d ended all ranks (MPI_Abort)", atoi(at + 30));
    } else if ((at = strstr(line, "Process name: [[")) != NULL && (at = strstr(at, "],")) != NULL) {
        r->death_rank = atoi(at + 2);
    } else if ((at = strstr(line, "Exit code:")) != NULL && r->death_rank != OUTSIDE && r->death[0] == '\0') {
        number = atoi(at + 10);
        snprintf(r->death, sizeof r->death, "rank %d ended with exit status %d", r->death_rank, number);
    } else if ((at = strstr(line, "Remote daemon: ")) != NULL &&
               sscanf(at, "Remote daemon: %*s on node %95s", host) == 1) {
        snprintf(r->death, sizeof r->death, "the connection to host %s was lost", host);
    } else if (sscanf(line, "srun: error: %95[^:]: task %d: %63[^\n]", host, &rank, how) == 3 && r->death[0] == '\0') {
        snprintf(r->death, sizeof r->death, "rank %d on host %s: %s", rank, host, how);
    }
}

static bool is_rule(const char *line)
{
    const size_t n = strlen(line);
    return n >= 60 && (strspn(line, "-") == n || strspn(line, "=") == n);
}

/* Once the ranks are ready, the MPI launcher prints little but banners about the end of a rank: they are held back, and
 * shown at the end if neither a rank nor the launcher has named the cause. */
static void relay_hold(launch_relay *r, bool is_error, char *text)
{
    const bool is_started =
        r->is_ready || (r->plan->own != NULL && (r->has_rank_line || r->has_failed_rank || r->death[0] != '\0'));
    if (!is_started || !mega_buffer_printf(&r->held, "%s\n", text)) show_line(r, is_error, OUTSIDE, text);
}

static void show_held(launch_relay *r)
{
    const bool is_explained = r->cause != NULL || r->death[0] != '\0' || r->has_failed_rank;
    if (r->held.data != NULL && !is_explained) {
        r->held.data[r->held.size - 1] = '\0'; /* drop the last newline */
        show_line(r, true, OUTSIDE, r->held.data);
    }
    mega_buffer_fini(&r->held);
}

/* Open MPI asks its users to report an "internal programming error" where a host or its network is down. */
static bool is_internal(const char *block)
{
    return strstr(block, "internal programming error") != NULL ||
           strstr(block, "An internal error has occurred") != NULL;
}

static void show_block(launch_relay *r)
{
    if (r->block.data != NULL && is_internal(r->block.data)) {
        mega_buffer_puts(&r->internal, r->block.data);
    } else if (r->block.data != NULL) {
        r->block.data[r->block.size - 1] = '\0';
        relay_hold(r, true, r->block.data);
    }
    mega_buffer_fini(&r->block);
    r->in_block = false;
}

/* Ranks are asked to stop by a signal of the launcher's choice: its number would be one more name of the Ctrl-C that
 * the user pressed. */
static bool is_forwarding(const char *line)
{
    return strncmp(line, "mpirun: Forwarding signal ", 26) == 0;
}

static void mpirun_line(launch_relay *r, bool is_error, char *line)
{
    if (is_forwarding(line)) return;
    note_death(r, line);
    r->mpirun_complains = r->mpirun_complains || (is_error && line[0] != '\0');
    if (is_rule(line)) {
        if (r->in_block) show_block(r);
        else
            r->in_block = true;
    } else if (r->in_block) {
        mega_buffer_printf(&r->block, "%s\n", line);
    } else if (line[0] != '\0') {
        relay_hold(r, is_error, line);
    }
}

/* ---- pieces of output ---- */

static void line_ends(launch_relay *r, relay_stream *s)
{
    const int rank = s->rank;
    mega_buffer *line = &s->line[rank == OUTSIDE ? r->plan->world : rank];
    mega_buffer_append(line, "", 1);
    char nothing[1] = "", *text = line->data != NULL ? line->data : nothing;
    const bool is_error = s == &r->stream[1];
    if (rank == OUTSIDE) mpirun_line(r, is_error, text);
    else
        show_line(r, is_error, rank, text);
    line->size = 0;
    line->failed = false;
    if (r->plan->kind != LAUNCH_NONE) s->rank = OUTSIDE;
}

void launch_relay_take(launch_relay *r, bool is_error, const char *bytes, size_t count)
{
    relay_stream *s = &r->stream[is_error];
    mega_buffer_append(&s->pending, bytes, count);
    const char *text = s->pending.data;
    const size_t size = text != NULL ? s->pending.size : 0;
    size_t at = 0;
    while (at < size) {
        int rank = 0;
        const int mark = launch_mark(r->plan, s->rank != OUTSIDE, text + at, size - at, &rank);
        if (mark < 0 && count > 0) break; /* at the end of the output, an incomplete mark is text */
        if (mark > 0) {
            s->rank = rank;
            at += (size_t)mark;
            continue;
        }
        if (text[at] == '\n') line_ends(r, s);
        else
            mega_buffer_append(&s->line[s->rank == OUTSIDE ? r->plan->world : s->rank], text + at, 1);
        at++;
    }
    if (at > 0 && text != NULL) memmove(s->pending.data, text + at, size - at);
    s->pending.size = size - at;
}

void launch_relay_end(launch_relay *r)
{
    draw_status(r, "");
    for (int s = 0; s < 2; s++) {
        launch_relay_take(r, s == 1, "", 0);
        for (int i = 0; i <= r->plan->world; i++) {
            if (r->stream[s].line[i].size == 0) continue;
            r->stream[s].rank = i == r->plan->world ? OUTSIDE : i;
            line_ends(r, &r->stream[s]);
        }
        r->stream[s].rank = r->plan->kind == LAUNCH_NONE ? 0 : OUTSIDE;
    }
    if (r->in_block) show_block(r);
    show_held(r);
}

const char *launch_relay_cause(const launch_relay *r, int *out_rank)
{
    *out_rank = r->cause_rank;
    return r->cause;
}

bool launch_relay_cause_is_last(const launch_relay *r)
{
    return r->cause != NULL && r->cause_is_last;
}

bool launch_relay_has_lost_host(const launch_relay *r)
{
    return r->has_lost_host;
}

const char *launch_relay_internal(const launch_relay *r)
{
    return r->internal.data != NULL ? r->internal.data : "";
}

const char *launch_relay_death(const launch_relay *r)
{
    return r->death;
}

int launch_relay_death_signal(const launch_relay *r)
{
    return r->death_signal;
}

bool launch_relay_is_ready(const launch_relay *r)
{
    return r->is_ready;
}

bool launch_relay_has_trained(const launch_relay *r)
{
    return r->has_trained;
}

bool launch_relay_is_stopped(const launch_relay *r)
{
    return r->is_stopped;
}

int launch_relay_signal(const launch_relay *r)
{
    return r->signal;
}

bool launch_relay_mpirun_complains(const launch_relay *r)
{
    return r->mpirun_complains;
}
