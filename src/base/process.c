/* Processes, by /proc. */
#include "megalith/process.h"
#include "base_impl.h"
#include "megalith/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
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
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) { /* kernels before 3.17 */
        struct timespec now;
        mega_process self;
        mega_process_self(&self);
        clock_gettime(CLOCK_REALTIME, &now);
        number = mega_hash64(mega_hash64(MEGA_HASH_START, &now, sizeof now), &self, sizeof self);
    }
    snprintf(out, MEGA_TOKEN_BYTES, "%016" PRIx64, number);
}

/* Boot id and PID namespace in one word: two processes with the same word see each other's process ids. */
static void kernel_name(char *out, size_t size)
{
    char boot[64], space[48] = "";
    *out = '\0';
    if (!mega_system_read(boot, sizeof boot, "/proc/sys/kernel/random/boot_id")) return;
    boot[strcspn(boot, " \n")] = '\0';
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) <= 0) return;
    snprintf(out, size, "%s/%s", boot, space);
}

/* Fields 3 and 22 of /proc/PID/stat. The name before them may hold blanks and brackets. */
static bool read_stat(long pid, char *state, uint64_t *start)
{
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!mega_system_read(text, sizeof text, path)) return false;
    const char *at = strrchr(text, ')');
    if (at == NULL || sscanf(at + 1, " %c", state) != 1) return false;
    for (int field = 2; field < 22 && at != NULL; field++) at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, " %" SCNu64, start) == 1;
}

void mega_process_self(mega_process *out)
{
    char state;
    memset(out, 0, sizeof *out);
    mega_host_name(out->host);
    kernel_name(out->kernel, sizeof out->kernel);
    out->pid = (long)getpid();
    if (!read_stat(out->pid, &state, &out->start)) out->start = 0;
}

mega_process_state mega_process_look(const mega_process *p)
{
    mega_process self;
    char state;
    uint64_t start;
    mega_process_self(&self);
    if (strcmp(p->host, self.host) != 0 || strcmp(p->kernel, self.kernel) != 0) return MEGA_PROCESS_ELSEWHERE;
    if (p->pid <= 0 || (kill((pid_t)p->pid, 0) != 0 && errno == ESRCH)) return MEGA_PROCESS_DEAD;
    if (p->start == 0 || !read_stat(p->pid, &state, &start)) return MEGA_PROCESS_ALIVE;
    return start != p->start || state == 'Z' || state == 'X' ? MEGA_PROCESS_DEAD : MEGA_PROCESS_ALIVE;
}
