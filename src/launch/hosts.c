/* Hosts and the ranks on each: DeepSpeed's hostfile and its filters. */
#include "launch_impl.h"
#include "megalith/streams.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS_MOST = 4096 };

static void add_host(launch_plan *p, const char *path, int line, char *typed, long slots)
{
    launch_host h = {.ranks = (int)slots, .slots = (int)slots, .line = line};
    const char *where = mega_arena_format(&p->arena, "%s:%d", path, line);
    if (where == NULL || !launch_host_read(p, where, typed, &h)) return;
    for (int i = 0; i < p->hosts; i++) {
        if (strcasecmp(p->host[i].name, h.name) != 0) continue;
        launch_mistake(p, "%s: host %s is already in line %d", where, h.name, p->host[i].line);
        return;
    }
    p->host[p->hosts++] = h;
}

/* Parses "HOST slots=N" with optional blanks around it. */
static void read_line(launch_plan *p, const char *path, int line, char *text)
{
    text[strcspn(text, "#\r")] = '\0';
    char *rest = NULL, *end = NULL;
    char *name = strtok_r(text, " \t", &rest);
    if (name == NULL) return;
    const char *slots = strtok_r(NULL, " \t", &rest), *more = strtok_r(NULL, " \t", &rest);
    if (more != NULL && strncmp(more, "max_slots=", 10) == 0) {
        launch_mistake(
            p,
            "%s:%d: found \"%s\", with which mpirun limits how many ranks may be added to a host; here a host "
            "gets the ranks of slots=N and no others: leave it out",
            path, line, more);
        return;
    }
    const long n = slots != NULL && strncmp(slots, "slots=", 6) == 0 ? strtol(slots + 6, &end, 10) : 0;
    if (more != NULL || end == NULL || *end != '\0' || n < 1 || n > SLOTS_MOST) {
        launch_mistake(p, "%s:%d: found \"%s%s%s%s%s\", expected \"HOST slots=N\" with N from 1 to %d", path, line,
                       name, slots != NULL ? " " : "", slots != NULL ? slots : "", more != NULL ? " " : "",
                       more != NULL ? more : "", SLOTS_MOST);
        return;
    }
    add_host(p, path, line, name, n);
}

void launch_hosts_read(launch_plan *p, const char *path, const char *text)
{
    char *copy = mega_arena_strdup(&p->arena, text);
    int lines = 1;
    for (const char *c = text; *c != '\0'; c++) lines += *c == '\n';
    p->host = mega_arena_alloc(&p->arena, (size_t)lines * sizeof *p->host);
    if (copy == NULL || p->host == NULL) {
        launch_mistake(p, "%s: no memory for %d lines", path, lines);
        return;
    }
    if (strncmp(copy, "\xef\xbb\xbf", 3) == 0) copy += 3; /* a byte order mark */
    for (int line = 1; copy != NULL; line++) {
        char *end = strchr(copy, '\n');
        if (end != NULL) *end = '\0';
        read_line(p, path, line, copy);
        copy = end != NULL ? end + 1 : NULL;
    }
    if (p->hosts == 0 && p->mistakes.size == 0)
        launch_mistake(p, "%s names no host; expected lines \"HOST slots=N\"", path);
}

/* The slots that a filter names. */
typedef struct chosen {
    bool *slot; /* the slots of all hosts, one after the other */
    int *first; /* index of each host's first slot */
} chosen;

/* Marks the slots "1,3" of one host; an empty list means all of them. */
static bool choose_slots(launch_plan *p, const char *option, const launch_host *h, const char *list, size_t length,
                         bool *slot)
{
    if (length == 0) {
        memset(slot, 1, (size_t)h->slots);
        return true;
    }
    const char *at = list, *end = list + length;
    while (at < end) {
        char *stop = NULL;
        const long n = isdigit((unsigned char)*at) ? strtol(at, &stop, 10) : -1;
        if (n < 0 || stop > end || (stop < end && (*stop != ',' || stop + 1 == end))) {
            launch_mistake(p, "%s: found \"%.*s\" for host %s, expected numbers of slots with commas between them",
                           option, (int)length, list, h->name);
            return false;
        }
        if (n >= h->slots) {
            launch_mistake(p, "%s: host %s has no slot %ld; it has 0 to %d", option, h->name, n, h->slots - 1);
            return false;
        }
        slot[n] = true;
        at = stop + 1;
    }
    return true;
}

/* Returns the host that the text begins with, as the hostfile has it or without its user; the longest counts, because
 * '@' also stands between two hosts. */
static const launch_host *host_at(const launch_plan *p, const char *text, size_t *out_length)
{
    const launch_host *found = NULL;
    *out_length = 0;
    for (int i = 0; i < p->hosts; i++) {
        const char *const spelling[] = {p->host[i].name, p->host[i].typed};
        for (size_t s = 0; s < 2; s++) {
            const size_t n = strlen(spelling[s]);
            if (n <= *out_length || strncmp(text, spelling[s], n) != 0 || strchr(":@", text[n]) == NULL) continue;
            *out_length = n;
            found = &p->host[i];
        }
    }
    if (found == NULL) *out_length = strcspn(text, ":@");
    return found;
}

static void hosts_choose(launch_plan *p, const char *option, const char *filter, const chosen *c)
{
    for (const char *at = filter; *at != '\0';) {
        size_t name;
        const launch_host *h = host_at(p, at, &name);
        const size_t whole = name + strcspn(at + name, "@");
        const bool has_list = at[name] == ':';
        if (h == NULL) {
            launch_mistake(p, "%s: \"%.*s\" is not a host of %s", option, (int)name, at, p->hostfile);
        } else if (has_list && whole == name + 1) {
            launch_mistake(p, "%s: \"%.*s\": numbers of slots are missing after the colon", option, (int)whole, at);
        } else {
            bool *slot = c->slot + c->first[h - p->host];
            choose_slots(p, option, h, at + name + has_list, whole - name - has_list, slot);
        }
        at += whole + (at[whole] == '@');
    }
}

static void filter_slots(launch_plan *p)
{
    const bool keeps = p->include != NULL;
    const char *option = keeps ? "--include" : "--exclude", *filter = keeps ? p->include : p->exclude;
    int total = 0;
    chosen c = {.first = mega_arena_alloc(&p->arena, (size_t)p->hosts * sizeof(int))};
    for (int i = 0; i < p->hosts && c.first != NULL; i++) {
        c.first[i] = total;
        total += p->host[i].slots;
    }
    c.slot = mega_arena_alloc(&p->arena, (size_t)total + 1);
    if (c.first == NULL || c.slot == NULL) {
        launch_mistake(p, "%s: no memory for %d slots", option, total);
        return;
    }
    hosts_choose(p, option, filter, &c);
    int left = 0;
    for (int i = 0; i < p->hosts; i++) {
        launch_host h = p->host[i];
        h.ranks = 0;
        for (int s = 0; s < h.slots; s++) h.ranks += c.slot[c.first[i] + s] == keeps;
        if (h.ranks > 0) p->host[left++] = h;
    }
    p->hosts = left;
    if (left == 0 && p->mistakes.size == 0)
        launch_mistake(p, "%s %s leaves no slot of %s", option, filter, p->hostfile);
}

void launch_hosts_filter(launch_plan *p)
{
    if (p->include != NULL || p->exclude != NULL) filter_slots(p);
    if (p->nodes > p->hosts && p->mistakes.size == 0)
        launch_mistake(p, "--nnodes %lld: %s names %d host%s", (long long)p->nodes, p->hostfile, p->hosts,
                       p->hosts == 1 ? "" : "s");
    else if (p->nodes > 0 && p->nodes < p->hosts)
        p->hosts = (int)p->nodes;
    for (int i = 0; i < p->hosts && p->nproc > 0; i++) p->host[i].ranks = (int)p->nproc;
}

/* Runs `true` on the host over ssh. Returns whether that worked, and the last line that ssh printed. */
static bool host_answers(const char *host, char *out_said, size_t size)
{
    int ends[2];
    out_said[0] = '\0';
    if (pipe(ends) != 0) return true;
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (freopen("/dev/null", "r", stdin) == NULL || !mega_streams_silence()) _exit(1);
        execlp("ssh", "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", host, "true", (char *)NULL);
        _exit(0); /* without ssh: the MPI launcher may have other means */
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    char line[512];
    while (child > 0 && said != NULL && fgets(line, sizeof line, said) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0') snprintf(out_said, size, "%s", line);
    }
    if (said != NULL) fclose(said);
    else
        close(ends[0]);
    int status = 0;
    return child < 0 || waitpid(child, &status, 0) != child || status == 0;
}

const launch_host *launch_hosts_unreachable(const launch_plan *p, char *out_said, size_t size)
{
    for (int i = 0; i < p->hosts; i++)
        if (!launch_host_is_here(&p->host[i]) && !host_answers(p->host[i].typed, out_said, size)) return &p->host[i];
    return NULL;
}

int launch_hosts_reach(launch_plan *p)
{
    int left = 0;
    char said[256];
    for (int i = 0; i < p->hosts; i++) {
        if (launch_host_is_here(&p->host[i]) || host_answers(p->host[i].typed, said, sizeof said))
            p->host[left++] = p->host[i];
        else
            fprintf(stderr, "megalith launch: host %s does not answer ssh and is left out%s%s\n", p->host[i].typed,
                    said[0] != '\0' ? ": " : "", said);
    }
    const int lost = p->hosts - left;
    p->hosts = left;
    return lost;
}
