/* How much processor time other processes take, from the counters of /proc: cores in /proc/stat, processes in
 * /proc/PID/stat, affinity masks in /proc/PID/status, and the quota in the cpu.stat of the control group. All times are
 * core seconds so far. */
#include "megalith/cpu_load.h"
#include "base_impl.h"
#include "megalith/memory.h"
#include "megalith/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CORES = 8192, LINE_BYTES = 256, BEGIN = 0, NOW = 1, READINGS = 2 };

typedef struct core_times {
    int number;
    double busy[READINGS], stolen[READINGS];
} core_times;

struct mega_cpu_meter {
    const char *proc, *sys;
    int *pid, num_pids;
    core_times *core; /* in ascending order of their numbers */
    int num_cores;
    char *text; /* /proc/stat, up to the last core's line */
    size_t text_bytes;
    double at[READINGS], own[READINGS], throttled[READINGS];
};

/* The path of a file in /proc/PID; pid 0 means this process. */
static const char *proc_path(char out[512], const char *proc, int pid, const char *file)
{
    char name[16] = "self";
    if (pid != 0) snprintf(name, sizeof name, "%d", pid);
    snprintf(out, 512, "%s/%s/%s", proc, name, file);
    return out;
}

/* Adds the cores of "0-3,8" to the set. Returns false if the text is no such list. */
bool mega_cpu_list_read(const char *list, bool *set, int size)
{
    bool any = false;
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        const long first = strtol(at, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long i = first; i <= last && i < size; i++) set[i] = any = true;
        at = *end == ',' ? end + 1 : end;
    }
    return any;
}

static bool find_cores(bool *set, const char *proc, const int *pid, int num_pids)
{
    char text[16384], path[512];
    for (int i = 0; i < num_pids; i++) {
        if (!mega_system_read(text, sizeof text, proc_path(path, proc, pid[i], "status"))) return false;
        const char *list = strstr(text, "\nCpus_allowed_list:");
        if (list == NULL) return false;
        list += strlen("\nCpus_allowed_list:");
        if (!mega_cpu_list_read(list + strspn(list, " \t"), set, MOST_CORES)) return false;
    }
    return true;
}

/* Parses a line "cpu1 user nice system idle iowait irq softirq steal …" in ticks. The guest columns that follow are
 * already included in user and nice. */
static void read_core(core_times *core, const char *line)
{
    const double tick = 1 / (double)sysconf(_SC_CLK_TCK);
    unsigned long long user = 0, nice = 0, system = 0, irq = 0, softirq = 0, steal = 0;
    if (sscanf(line, "%*s %llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice, &system, &irq, &softirq, &steal) < 3)
        return;
    core->busy[NOW] = (double)(user + nice + system + irq + softirq) * tick;
    core->stolen[NOW] = (double)steal * tick;
}

/* An offline core has no line and keeps its last counters. */
static bool read_cores(mega_cpu_meter *m)
{
    char path[512];
    int found = 0, k = 0;
    snprintf(path, sizeof path, "%s/stat", m->proc);
    if (!mega_system_read(m->text, m->text_bytes, path)) return false;
    for (const char *line = m->text; line != NULL && strncmp(line, "cpu", 3) == 0;) {
        const bool of_all = line[3] == ' ';
        const int number = of_all ? -1 : (int)strtol(line + 3, NULL, 10);
        while (k < m->num_cores && m->core[k].number < number) k++;
        if (k < m->num_cores && m->core[k].number == number) {
            read_core(&m->core[k], line);
            found++;
        }
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return found > 0;
}

static bool meter_read_own(const mega_cpu_meter *m, double *out)
{
    uint64_t ticks = 0;
    for (int i = 0; i < m->num_pids; i++) {
        char path[512];
        mega_process_stat stat;
        if (!mega_process_stat_read(proc_path(path, m->proc, m->pid[i], "stat"), &stat)) return false;
        ticks += stat.user + stat.system;
    }
    *out = (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static bool meter_read_all(mega_cpu_meter *m, double now)
{
    m->at[NOW] = now;
    m->throttled[NOW] = mega_cgroup_throttled(m->proc, m->sys);
    return read_cores(m) && meter_read_own(m, &m->own[NOW]);
}

static mega_cpu_meter *new_meter(const bool *set, const int *pid, int num_pids)
{
    int cores = 0, highest = 0;
    for (int i = 0; i < MOST_CORES; i++) {
        cores += set[i];
        if (set[i]) highest = i;
    }
    mega_cpu_meter *m = mega_calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    m->text_bytes = (size_t)(highest + 2) * LINE_BYTES;
    m->text = mega_malloc(m->text_bytes);
    m->core = mega_calloc((size_t)cores, sizeof *m->core);
    m->pid = mega_calloc((size_t)num_pids, sizeof *m->pid);
    if (m->text == NULL || m->core == NULL || m->pid == NULL) {
        mega_cpu_meter_destroy(m);
        return NULL;
    }
    for (int i = 0; i < MOST_CORES; i++)
        if (set[i]) m->core[m->num_cores++].number = i;
    for (int i = 0; i < num_pids; i++) m->pid[m->num_pids++] = pid[i];
    return m;
}

mega_status mega_cpu_meter_create_at(const char *proc, const char *sys, const int *pids, int count, double now,
                                     mega_cpu_meter **out)
{
    bool set[MOST_CORES] = {false};
    *out = NULL;
    if (!find_cores(set, proc, pids, count)) return MEGA_OK;
    mega_cpu_meter *m = new_meter(set, pids, count);
    if (m == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the meter of processor load");
    m->proc = proc;
    m->sys = sys;
    if (meter_read_all(m, now)) {
        mega_cpu_meter_begin(m);
        *out = m;
    } else
        mega_cpu_meter_destroy(m);
    return MEGA_OK;
}

mega_status mega_cpu_meter_create(const int *pids, int count, mega_cpu_meter **out)
{
    static const int self = 0;
    return mega_cpu_meter_create_at("/proc", "/sys/fs/cgroup", count > 0 ? pids : &self, count > 0 ? count : 1,
                                    mega_time_now(), out);
}

void mega_cpu_meter_destroy(mega_cpu_meter *m)
{
    if (m == NULL) return;
    MEGA_FREE(m->pid, m->core, m->text, m);
}

static double load_fraction(double part, double whole)
{
    if (part <= 0 || whole <= 0) return 0;
    return part < whole ? part / whole : 1;
}

bool mega_cpu_meter_read_at(mega_cpu_meter *m, double now, double least_s, mega_cpu_load *out)
{
    *out = (mega_cpu_load){0};
    if (m == NULL || now - m->at[BEGIN] < least_s || !meter_read_all(m, now)) return false;
    double busy = 0, stolen = 0;
    for (int i = 0; i < m->num_cores; i++) {
        busy += m->core[i].busy[NOW] - m->core[i].busy[BEGIN];
        stolen += m->core[i].stolen[NOW] - m->core[i].stolen[BEGIN];
    }
    const double seconds = m->at[NOW] - m->at[BEGIN], all = seconds * m->num_cores;
    const double own = m->own[NOW] - m->own[BEGIN];
    *out = (mega_cpu_load){.seconds = seconds,
                           .cores = m->num_cores,
                           .own = load_fraction(own, all),
                           .stolen = load_fraction(stolen, all),
                           .throttled = load_fraction(m->throttled[NOW] - m->throttled[BEGIN], all)};
    /* While the quota stops the run, other processes use its cores: count that time as the quota's, and not as theirs
     * too. */
    const double others = load_fraction(busy - own, all), left = 1 - out->own - out->stolen - out->throttled;
    out->others = others < left ? others : left > 0 ? left : 0;
    return true;
}

bool mega_cpu_meter_read(mega_cpu_meter *m, double least_s, mega_cpu_load *out)
{
    return mega_cpu_meter_read_at(m, mega_time_now(), least_s, out);
}

void mega_cpu_meter_begin(mega_cpu_meter *m)
{
    if (m == NULL) return;
    m->at[BEGIN] = m->at[NOW];
    m->own[BEGIN] = m->own[NOW];
    m->throttled[BEGIN] = m->throttled[NOW];
    for (int i = 0; i < m->num_cores; i++) {
        m->core[i].busy[BEGIN] = m->core[i].busy[NOW];
        m->core[i].stolen[BEGIN] = m->core[i].stolen[NOW];
    }
}

int mega_cpu_meter_cores(const mega_cpu_meter *m)
{
    return m != NULL ? m->num_cores : 0;
}

mega_cpu_core_load mega_cpu_meter_core(const mega_cpu_meter *m, int i)
{
    const core_times *c = &m->core[i];
    const double seconds = m->at[NOW] - m->at[BEGIN];
    return (mega_cpu_core_load){.number = c->number,
                                .busy = load_fraction(c->busy[NOW] - c->busy[BEGIN], seconds),
                                .stolen = load_fraction(c->stolen[NOW] - c->stolen[BEGIN], seconds)};
}

double mega_cpu_load_missed(const mega_cpu_load *l, int threads)
{
    if (l->cores == 0) return 0;
    const double spare = threads < l->cores ? 1 - (double)threads / l->cores : 0;
    const double taken = l->others + l->stolen - spare;
    return (taken > 0 ? taken : 0) + l->throttled;
}

const char *mega_cpu_load_text(char *out, int size, const mega_cpu_load *l)
{
    static const char *const who[] = {"others", "the hypervisor", "the quota"};
    const double part[] = {l->others, l->stolen, l->throttled};
    int used = 0;
    for (int i = 0; i < 3; i++) {
        if (part[i] < 0.01 || used >= size) continue;
        const bool is_first = used == 0;
        used += snprintf(out + used, (size_t)(size - used), "%s%s%s %.0f %%", is_first ? "" : ", ", who[i],
                         is_first ? " took" : "", 100 * part[i]);
    }
    if (used > 0 && used < size) snprintf(out + used, (size_t)(size - used), " of the cores");
    return used > 0 ? out : NULL;
}
