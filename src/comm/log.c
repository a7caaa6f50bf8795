/* Counts exchanges, and writes them in the form of DeepSpeed's comms logger. */
#include "megalith/log.h"
#include "log_lines.h"
#include "megalith/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A status that ranks agree on is a reduction of one number. */
static comm_kind counted_as(comm_kind kind)
{
    return kind == COMM_AGREE ? COMM_ALL_REDUCE : kind;
}

/* "recv", "irecv" and "receive" are one kind; so are all names that begin with the kind's. */
static bool is_named(const char *wanted, comm_kind kind)
{
    const char *name = kind == COMM_RECEIVE ? "recv" : comm_kind_name(kind);
    if ((kind == COMM_SEND || kind == COMM_RECEIVE) && wanted[0] == 'i') wanted++;
    return strncmp(wanted, name, strlen(name)) == 0;
}

static bool is_wanted(const struct comm_log *l, comm_kind kind)
{
    for (size_t i = 0; i < l->options.ops; i++)
        if (is_named(l->options.op[i], kind)) return true;
    return l->options.ops == 0;
}

mega_status mega_comm_log_start(mega_world *world, const mega_comm_log_options *o)
{
    if (world == NULL || world->size == 1) return MEGA_OK;
    mega_comm_log_stop(world);
    struct comm_log *l = mega_calloc(1, sizeof *l);
    if (l != NULL) l->line = mega_calloc(COMM_LOG_LINES, sizeof *l->line);
    if (l == NULL || l->line == NULL) {
        mega_free(l);
        return MEGA_NO_MEMORY("comms logger", "its counts");
    }
    l->options = *o;
    world->log = l;
    return MEGA_OK;
}

void mega_comm_log_stop(mega_world *world)
{
    if (world == NULL || world->log == NULL) return;
    mega_free(world->log->line);
    mega_free(world->log);
    world->log = NULL;
}

/* Speeds in Gbit/s, where `bytes` are those of this rank's own tensor. */
typedef struct log_speed {
    double algorithm, bus;
} log_speed;

static log_speed speed_of(comm_kind kind, int64_t bytes, int ranks, double seconds)
{
    const double n = ranks, gbit = seconds > 0 ? (double)bytes * 8e-9 / seconds : 0;
    switch (kind) {
    case COMM_ALL_REDUCE: return (log_speed){2 * gbit, gbit * 2 * (n - 1) / n};
    case COMM_ALL_GATHER:
    case COMM_REDUCE_SCATTER: return (log_speed){gbit * n, gbit * (n - 1)};
    case COMM_ALL_TO_ALL: return (log_speed){gbit, gbit * (n - 1) / n};
    default: return (log_speed){gbit, gbit};
    }
}

const char *comm_log_size_text(char out[24], int64_t bytes)
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB"};
    double x = (double)bytes;
    int k = 0;
    for (; x >= 1024 && k < 4; k++) x /= 1024;
    snprintf(out, 24, "%.*f %s", k > 0 ? 2 : 0, x, unit[k]);
    return out;
}

static comm_log_line *find_line(struct comm_log *l, comm_kind kind, const comm_op *op, int64_t bytes)
{
    const char *name = l->options.named ? op->name : NULL;
    for (int i = 0; i < l->lines; i++) {
        comm_log_line *x = &l->line[i];
        const bool is_same = x->kind == kind && x->bytes == bytes && x->comm == op->comm;
        if (is_same && (name == NULL || strcmp(x->name, name) == 0)) return x;
    }
    if (l->lines == COMM_LOG_LINES) return NULL;
    comm_log_line *x = &l->line[l->lines++];
    *x = (comm_log_line){.kind = kind, .bytes = bytes, .comm = op->comm, .ranks = op->comm->size, .name = name};
    memcpy(x->group, op->comm->name, sizeof x->group);
    return x;
}

const char *comm_log_kind_text(char out[80], comm_kind kind, const char *name)
{
    const char *text = kind == COMM_RECEIVE ? "recv" : comm_kind_name(kind);
    if (name == NULL) snprintf(out, 80, "%s", text);
    else
        snprintf(out, 80, "%s | [%s]", text, name);
    return out;
}

void comm_log_add(const comm_op *op, double waited)
{
    struct comm_log *l = op->comm->world->log;
    const comm_kind kind = counted_as(op->kind);
    const int64_t bytes = op->count * (int64_t)mega_dtype_size(op->dtype);
    const double seconds = op->moved > op->began ? op->moved - op->began : 0;
    char size[24], what[80];
    if (op->began == 0 || !is_wanted(l, kind)) return; /* 0: it was started before counting */
    comm_log_line *x = find_line(l, kind, op, bytes);
    if (x == NULL) {
        l->lost++;
        return;
    }
    x->recent_s[x->count++ % COMM_LOG_RECENT] = (float)seconds;
    x->total_s += seconds;
    x->exposed_s += waited;
    if (!l->options.verbose || op->comm->world->rank != 0) return;
    const log_speed v = speed_of(kind, bytes, x->ranks, seconds);
    mega_info("comm op: %s | time (ms): %.2f | msg size: %s | algbw (Gbps): %.2f | busbw (Gbps): %.2f",
              comm_log_kind_text(what, kind, x->name), seconds * 1e3, comm_log_size_text(size, bytes), v.algorithm,
              v.bus);
}

/* ---- the table ---- */

static int by_time(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double comm_log_trimmed_mean(const float *value, int count)
{
    float sorted[COMM_LOG_RECENT];
    const int cut = (int)lround(count * 0.1);
    double sum = 0;
    memcpy(sorted, value, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_time);
    for (int i = cut; i < count - cut; i++) sum += (double)sorted[i];
    return sum / (count - 2 * cut);
}

int comm_log_recent(const comm_log_line *x)
{
    return (int)(x->count < COMM_LOG_RECENT ? x->count : COMM_LOG_RECENT);
}

static int by_kind_and_size(const void *a, const void *b)
{
    const comm_log_line *x = *(const comm_log_line *const *)a, *y = *(const comm_log_line *const *)b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    const int names = x->name != NULL && y->name != NULL ? strcmp(x->name, y->name) : 0;
    if (names != 0) return names;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->group, y->group);
}

void comm_log_sorted(const struct comm_log *l, const comm_log_line *out[COMM_LOG_LINES])
{
    for (int i = 0; i < l->lines; i++) out[i] = &l->line[i];
    qsort(out, (size_t)l->lines, sizeof *out, by_kind_and_size);
}

void comm_log_put_kind(const comm_log_line *x, const comm_log_line *before, mega_buffer *out)
{
    char what[80];
    const bool is_new =
        before == NULL || before->kind != x->kind || (x->name != NULL && strcmp(before->name, x->name) != 0);
    if (is_new) mega_buffer_printf(out, "%s\n", comm_log_kind_text(what, x->kind, x->name));
}

static void put_line(const comm_log_line *x, mega_buffer *out)
{
    char size[24];
    const double mean = comm_log_trimmed_mean(x->recent_s, comm_log_recent(x));
    const log_speed v = speed_of(x->kind, x->bytes, x->ranks, mean);
    mega_buffer_printf(out, "  %-18.17s%-20s%-20lld%-20.2f%-20.2f%-20.2f%-20.2f%-20.2f\n", x->group,
                       comm_log_size_text(size, x->bytes), (long long)x->count, x->total_s * 1e3, mean * 1e3,
                       v.algorithm, v.bus, x->exposed_s * 1e3);
}

void mega_comm_log_table(const mega_world *world, mega_buffer *out)
{
    const struct comm_log *l = world != NULL ? world->log : NULL;
    const comm_log_line *sorted[COMM_LOG_LINES];
    if (l == NULL || l->lines == 0) return;
    comm_log_sorted(l, sorted);
    mega_buffer_printf(out, "%-20s%-20s%-20s%-20s%-20s%-20s%-20s%-20s\n", "Comm. Op", "Message Size", "Count",
                       "Total Latency(ms)", "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)", "Exposed(ms)");
    for (int i = 0; i < l->lines; i++) {
        comm_log_put_kind(sorted[i], i > 0 ? sorted[i - 1] : NULL, out);
        put_line(sorted[i], out);
    }
    const mega_comm_staged staged = mega_comm_staged_get(world);
    if (staged.copies > 0)
        mega_buffer_printf(out,
                           "through memory of the host, of which %.6g MB are held: %lld copies of %.6g MB in all "
                           "between it and the device\n",
                           (double)staged.held * 1e-6, (long long)staged.copies, (double)staged.bytes * 1e-6);
    if (l->lost > 0)
        mega_buffer_printf(out, "%lld exchanges of other kinds and sizes were not counted\n", (long long)l->lost);
}
