/* Watches the start of the ranks. Until rank 0 has reported that all have joined, an MPI launcher that met an error may
 * wait forever for ranks that it never started, or that have ended: the processes below it on this host show that. */
#include "launch_impl.h"
#include "megalith/process.h"
#include "megalith/threads.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_S 30.0 /* seconds until a message says what the launcher waits for; MEGA_START_TIMEOUT changes it */
/* Fractions of that time: between looks at the processes; without any rank that could become ready. A launcher that is
 * about to end needs far less. */
#define LOOK     (1.0 / 30)
#define HOPELESS (1.0 / 3)

typedef struct process {
    pid_t id, parent;
    bool is_below; /* the process is a descendant of the MPI launcher */
} process;

static bool watch_read_process(const char *name, process *out)
{
    char path[64];
    mega_process_stat stat;
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    if (!mega_process_stat_read(path, &stat)) return false;
    *out = (process){.id = (pid_t)atoi(name), .parent = (pid_t)stat.parent};
    return true;
}

/* Lists all processes, in the order of /proc. */
static size_t read_processes(mega_buffer *out)
{
    DIR *folder = opendir("/proc");
    process one;
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;)
        if (isdigit((unsigned char)e->d_name[0]) && watch_read_process(e->d_name, &one))
            mega_buffer_append(out, &one, sizeof one);
    if (folder != NULL) closedir(folder);
    return out->failed ? 0 : out->size / sizeof one;
}

static int by_process_id(const void *a, const void *b)
{
    const pid_t x = ((const process *)a)->id, y = ((const process *)b)->id;
    return (x > y) - (x < y);
}

/* Marks the launcher's descendants. */
static void mark_below(process *all, size_t n, pid_t mpirun)
{
    if (n > 0) qsort(all, n, sizeof *all, by_process_id);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < n; i++) {
            const process key = {.id = all[i].parent};
            const process *parent = all[i].is_below ? NULL : bsearch(&key, all, n, sizeof *all, by_process_id);
            if (parent == NULL || (parent->id != mpirun && !parent->is_below)) continue;
            all[i].is_below = changed = true;
        }
    }
}

static size_t read_command(pid_t id, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)id);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* A rank has this program's name as a word of its command line; a tool such as valgrind may precede it. A process that
 * was forked but has not executed its program yet still has the command line of its parent. */
static bool is_rank(const process *it, const char *program)
{
    char text[8192], above[8192];
    const size_t n = read_command(it->id, text, sizeof text);
    if (read_command(it->parent, above, sizeof above) == n && memcmp(text, above, n) == 0) return false;
    for (const char *word = text; word < text + n; word += strlen(word) + 1)
        if (strcmp(word, program) == 0) return true;
    return false;
}

/* Returns the number of ranks running on this host. If `number` is not 0, sends that signal to each; if program is
 * NULL, to every process below the MPI launcher. */
static int look_below(pid_t mpirun, const char *program, int number)
{
    mega_buffer list = {0};
    const size_t n = read_processes(&list);
    process *all = (process *)(void *)list.data;
    int ranks = 0;
    mark_below(all, n, mpirun);
    for (size_t i = 0; i < n; i++) {
        if (!all[i].is_below) continue;
        const bool is_meant = program == NULL || is_rank(&all[i], program);
        if (is_meant && number != 0) kill(all[i].id, number);
        ranks += is_meant;
    }
    mega_buffer_fini(&list);
    return ranks;
}

void launch_watch_end(pid_t mpirun, int number)
{
    look_below(mpirun, NULL, SIGKILL);
    kill(-mpirun, number);
}

static bool is_at_depth(const process *all, size_t n, const process *it, pid_t mpirun, int depth)
{
    for (; it != NULL && depth > 1; depth--) {
        const process key = {.id = it->parent};
        it = bsearch(&key, all, n, sizeof *all, by_process_id);
    }
    return it != NULL && it->parent == mpirun;
}

/* Ranks are children of mpirun and of Hydra's proxies. They are identified by that, because behind a wrapper (`env`,
 * `nice`, a script that ends in exec) the command line of a rank does not name the program that was started. */
void launch_watch_signal(pid_t mpirun, const launch_plan *p, int number)
{
    mega_buffer list = {0};
    const size_t n = read_processes(&list);
    process *all = (process *)(void *)list.data;
    if (n > 0) qsort(all, n, sizeof *all, by_process_id);
    for (size_t i = 0; i < n; i++)
        if (is_at_depth(all, n, &all[i], mpirun, p->kind == LAUNCH_MPICH ? 2 : 1)) kill(all[i].id, number);
    mega_buffer_fini(&list);
}

static double start_timeout(void)
{
    const char *value = getenv("MEGA_START_TIMEOUT");
    const double seconds = value != NULL ? atof(value) : 0;
    return seconds > 0 ? seconds : START_S;
}

static void tell_waiting(const launch_watch *w, const launch_plan *p, bool sees_ranks)
{
    char running[64] = "";
    if (sees_ranks) snprintf(running, sizeof running, " (%d of %d run)", w->ranks, p->world);
    fprintf(stderr,
            "megalith launch: %g s after the start not all ranks have joined in MPI_Init%s; still waiting. Ctrl-C ends "
            "the run\n",
            w->timeout, running);
}

bool launch_watch_gives_up(launch_watch *w, const launch_plan *p, const launch_relay *relay, pid_t mpirun)
{
    const double now = mega_time_now();
    const bool sees_ranks = launch_hosts_are_here(p) && p->kind != LAUNCH_SLURM; /* otherwise they run on other hosts */
    if (w->began == 0) {
        w->began = w->looked = now;
        w->timeout = start_timeout();
    }
    if (now - w->looked < LOOK * w->timeout) return false;
    w->looked = now;
    if (sees_ranks) w->ranks = look_below(mpirun, p->program, 0);
    if (w->ranks > w->most) w->most = w->ranks;
    if (now - w->began > w->timeout && !w->has_told) {
        tell_waiting(w, p, sees_ranks);
        w->has_told = true;
    }
    const bool is_hopeless = w->ranks < w->most || (w->ranks == 0 && launch_relay_mpirun_complains(relay));
    if (!sees_ranks || !is_hopeless) w->hopeless_since = 0;
    else if (w->hopeless_since == 0)
        w->hopeless_since = now;
    return w->hopeless_since > 0 && now - w->hopeless_since > HOPELESS * w->timeout;
}
