/* Kinds of cores in one processor (performance and efficiency cores). Intel lists each kind by name; elsewhere kinds
 * differ in the capacity that the scheduler uses (ARM) or in their highest clock. */
#include "base_impl.h"
#include "megalith/cpu_load.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_CORES = 8192, MOST_KINDS = 4 };

/* Cores whose speeds differ by less than this factor are of one kind: a processor's favoured cores clock a few percent
 * higher than the others. */
#define ALIKE 0.9

typedef struct kind {
    double speed; /* the highest of its cores' speeds */
    int count;
} kind;

typedef struct writer {
    char *out;
    int size, used;
} writer;

static void kinds_put(writer *w, const char *text)
{
    if (w->used < w->size) w->used += snprintf(w->out + w->used, (size_t)(w->size - w->used), "%s", text);
}

/* Appends the cores of one kind, as " (0-3,8)". */
static void put_cores(writer *w, const int *core, const int *kind_of, int count, int kind_number)
{
    const char *before = " (";
    for (int i = 0; i < count; i++) {
        if (kind_of[i] != kind_number) continue;
        int last = i;
        while (last + 1 < count && kind_of[last + 1] == kind_number && core[last + 1] == core[last] + 1) last++;
        char text[48];
        if (last > i) snprintf(text, sizeof text, "%s%d-%d", before, core[i], core[last]);
        else
            snprintf(text, sizeof text, "%s%d", before, core[i]);
        kinds_put(w, text);
        before = ",";
        i = last;
    }
    kinds_put(w, ")");
}

/* Reads a speed for each core. Returns false if a core has none. */
static bool read_speeds(double *speed, const char *devices, const char *file, const int *core, int count)
{
    for (int i = 0; i < count; i++) {
        char path[512], text[64];
        snprintf(path, sizeof path, "%s/system/cpu/cpu%d/%s", devices, core[i], file);
        speed[i] = mega_system_read(text, sizeof text, path) ? strtod(text, NULL) : 0;
        if (speed[i] <= 0) return false;
    }
    return true;
}

/* Sorts the cores into kinds, the fastest first. If there are more kinds than the array holds, the last one takes the
 * rest. */
static int sort_kinds(kind *k, int *kind_of, const double *speed, int count)
{
    int kinds = 0, left = count;
    for (int i = 0; i < count; i++) kind_of[i] = -1;
    while (left > 0) {
        double most = 0;
        for (int i = 0; i < count; i++)
            if (kind_of[i] < 0 && speed[i] > most) most = speed[i];
        const int n = kinds < MOST_KINDS ? kinds++ : MOST_KINDS - 1;
        if (k[n].count == 0) k[n].speed = most;
        for (int i = 0; i < count; i++) {
            if (kind_of[i] >= 0 || speed[i] < ALIKE * most) continue;
            kind_of[i] = n;
            k[n].count++;
            left--;
        }
    }
    return kinds;
}

static bool kinds_by_speed(writer *w, const char *devices, const char *file, const char *what, const int *core,
                           int count)
{
    double speed[MOST_CORES];
    int kind_of[MOST_CORES];
    kind k[MOST_KINDS] = {{0, 0}};
    if (!read_speeds(speed, devices, file, core, count)) return false;
    const int kinds = sort_kinds(k, kind_of, speed, count);
    for (int n = 0; n < kinds && kinds > 1; n++) {
        char text[96];
        if (n == 0) snprintf(text, sizeof text, "%d cores", k[n].count);
        else
            snprintf(text, sizeof text, ", %d of %.0f %% of their %s", k[n].count, 100 * k[n].speed / k[0].speed, what);
        kinds_put(w, text);
        put_cores(w, core, kind_of, count, n);
    }
    return true;
}

/* Reads the kinds from /sys/devices/cpu_core/cpus and cpu_atom/cpus. */
static bool kinds_by_name(writer *w, const char *devices, const int *core, int count)
{
    static const char *const folder[2] = {"cpu_core", "cpu_atom"}, *const name[2] = {"performance", "efficiency"};
    int kind_of[MOST_CORES], members[2] = {0, 0};
    for (int i = 0; i < count; i++) kind_of[i] = -1;
    for (int n = 0; n < 2; n++) {
        bool set[MOST_CORES] = {false};
        char path[512], list[4096];
        snprintf(path, sizeof path, "%s/%s/cpus", devices, folder[n]);
        if (!mega_system_read(list, sizeof list, path) || !mega_cpu_list_read(list, set, MOST_CORES)) return false;
        for (int i = 0; i < count; i++) {
            if (!set[core[i]]) continue;
            kind_of[i] = n;
            members[n]++;
        }
    }
    for (int n = 0; n < 2 && members[0] > 0 && members[1] > 0; n++) {
        char text[64];
        snprintf(text, sizeof text, "%s%d %s cores", n > 0 ? ", " : "", members[n], name[n]);
        kinds_put(w, text);
        put_cores(w, core, kind_of, count, n);
    }
    return true;
}

const char *mega_cpu_kinds_at(char *out, int size, const char *devices, const int *core, int count)
{
    writer w = {out, size, 0};
    if (count < 2 || count > MOST_CORES || core[count - 1] >= MOST_CORES) return NULL;
    *out = '\0';
    if (!kinds_by_name(&w, devices, core, count) &&
        !kinds_by_speed(&w, devices, "cpu_capacity", "capacity", core, count))
        kinds_by_speed(&w, devices, "cpufreq/cpuinfo_max_freq", "clock", core, count);
    return w.used > 0 ? out : NULL;
}

const char *mega_cpu_kinds(char *out, int size, const int *core, int count)
{
    return mega_cpu_kinds_at(out, size, "/sys/devices", core, count);
}
