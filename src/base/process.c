/* Identifies processes through /proc. */
#include "megalith/process.h"
#include "base_impl.h"
#include "megalith/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

void mega_host_name(char out[MEGA_HOST_BYTES])
{
    memset(out, 0, MEGA_HOST_BYTES);
    if (gethostname(out, MEGA_HOST_BYTES - 1) != 0) memcpy(out, "host", 5);
}

void mega_token_make(char out[MEGA_TOKEN_BYTES])
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) { /* kernels before 3.17 have no getrandom */
        struct timespec now;
        mega_process self;
        mega_process_self(&self);
        clock_gettime(CLOCK_REALTIME, &now);
        number = mega_hash64(mega_hash64(MEGA_HASH_START, &now, sizeof now), &self, sizeof self);
    }
    snprintf(out, MEGA_TOKEN_BYTES, "%016" PRIx64, number);
}

/* Boot id and PID namespace as one text: two processes with the same text see each other's process ids. */
static void kernel_name(char *out, size_t size)
{
    char boot[40], space[48] = "";
    *out = '\0';
    if (!mega_system_read(boot, sizeof boot, "/proc/sys/kernel/random/boot_id")) return;
    boot[strcspn(boot, " \n")] = '\0';
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) <= 0) return;
    snprintf(out, size, "%s/%s", boot, space);
}

/* The third and later fields follow the process name, which may contain blanks and brackets. */
bool mega_process_stat_read(const char *path, mega_process_stat *out)
{
    char text[1024];
    if (!mega_system_read(text, sizeof text, path)) return false;
    const char *at = strrchr(text, ')');
    int used = 0;
    if (at == NULL ||
        sscanf(at,
               ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %*d %*d %*d %*d %ld %*d %" SCNu64
               "%n",
               &out->state, &out->parent, &out->user, &out->system, &out->threads, &out->start, &used) != 6)
        return false;
    enum { START = 22, PROCESSOR = 39 };
    at += used;
    for (int field = START + 1; field < PROCESSOR && at != NULL; field++) at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, " %d", &out->core) == 1;
}

static bool read_stat(long pid, mega_process_stat *out)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    return mega_process_stat_read(path, out);
}

/* The first thread of a killed process may be gone while another is still inside a write call. */
static bool has_ended(const mega_process_stat *s)
{
    return (s->state == 'Z' && s->threads <= 1) || s->state == 'X';
}

/* Returns false in a PID namespace without its own /proc: the ids shown belong to another namespace. */
static bool proc_is_of_our_namespace(long pid)
{
    char text[24] = "";
    return readlink("/proc/self", text, sizeof text - 1) > 0 && strtol(text, NULL, 10) == pid;
}

void mega_process_self(mega_process *out)
{
    mega_process_stat s;
    memset(out, 0, sizeof *out);
    mega_host_name(out->host);
    kernel_name(out->kernel, sizeof out->kernel);
    out->pid = (long)getpid();
    if (proc_is_of_our_namespace(out->pid) && read_stat(out->pid, &s)) out->start = s.start;
}

mega_process_state mega_process_look(const mega_process *p)
{
    mega_process self;
    mega_process_stat s;
    mega_process_self(&self);
    if (self.kernel[0] == '\0') return MEGA_PROCESS_ELSEWHERE;
    if (strcmp(p->host, self.host) != 0 || strcmp(p->kernel, self.kernel) != 0) return MEGA_PROCESS_ELSEWHERE;
    if (p->pid <= 0 || (kill((pid_t)p->pid, 0) != 0 && errno == ESRCH)) return MEGA_PROCESS_DEAD;
    if (self.start == 0 || !read_stat(p->pid, &s)) return MEGA_PROCESS_ALIVE;
    const bool is_another = p->start != 0 && p->start != s.start;
    return is_another || has_ended(&s) ? MEGA_PROCESS_DEAD : MEGA_PROCESS_ALIVE;
}
