/* Builds the command line and environment of the MPI launcher (mpirun, mpiexec, srun), with all the switches that users
 * would otherwise have to know. */
#include "launch_impl.h"
#include "megalith/comm.h"
#include "megalith/threads.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    MPIRUN_FOLLOWS_S = 4 /* later than the ranks themselves, which wait for a second before they query, and may be short
                          * of cores */
};

extern char **environ;

void launch_word(launch_words *w, mega_arena *arena, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (w->count + 2 > w->capacity) {
        const int capacity = 2 * w->capacity + 32;
        char **word = mega_arena_alloc(arena, (size_t)capacity * sizeof *word);
        if (word != NULL && w->count > 0) memcpy(word, w->word, (size_t)w->count * sizeof *word);
        w->word = word;
        w->capacity = word != NULL ? capacity : 0;
    }
    char *copy = n >= 0 && (size_t)n < sizeof text ? mega_arena_strdup(arena, text) : NULL;
    if (copy == NULL || w->word == NULL) {
        w->failed = true;
        return;
    }
    w->word[w->count++] = copy;
}

/* "a:2,b:4", a form that both Open MPI and Hydra accept. */
static const char *host_list(launch_plan *p)
{
    mega_buffer text = {0};
    for (int i = 0; i < p->hosts; i++)
        mega_buffer_printf(&text, "%s%s:%d", i > 0 ? "," : "", p->host[i].name, p->host[i].ranks);
    const char *list = text.failed || text.data == NULL ? NULL : mega_arena_strdup(&p->arena, text.data);
    mega_buffer_fini(&text);
    return list;
}

static void add_hosts(launch_plan *p, const char *option, launch_words *c)
{
    if (p->hosts == 0) return;
    char *list = (char *)(uintptr_t)host_list(p);
    launch_word(c, &p->arena, "%s", option);
    launch_word(c, &p->arena, "%s", "");
    if (list == NULL || c->failed) c->failed = true;
    else
        c->word[c->count - 1] = list; /* may be longer than a word that launch_word formats */
}

static int most_ranks_of_a_host(const launch_plan *p)
{
    int most = p->hosts > 0 ? 0 : p->world;
    for (int i = 0; i < p->hosts; i++) most = p->host[i].ranks > most ? p->host[i].ranks : most;
    return most;
}

/* Containers forbid reading another process's memory, and the MPI library would fail instead of finding out. */
static bool may_read_memory(void)
{
    char from = 1, to = 0;
    const struct iovec local = {&to, 1}, remote = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 || (errno != EPERM && errno != ENOSYS);
}

static void openmpi_environment(launch_plan *p, launch_words *e)
{
    mega_arena *a = &p->arena;
    const bool old = p->major < 5;
    if (most_ranks_of_a_host(p) > mega_cpu_count()) launch_word(e, a, "OMPI_MCA_mpi_yield_when_idle=1");
    if (p->hosts <= 1) launch_word(e, a, old ? "OMPI_MCA_btl=self,vader" : "OMPI_MCA_btl=self,sm");
    if (!may_read_memory())
        launch_word(e, a, old ? "OMPI_MCA_btl_vader_single_copy_mechanism=none" : "OMPI_MCA_smsc=^cma");
    for (int i = 0; i < p->hosts; i++) {
        if (strchr(p->host[i].name, '.') == NULL) continue;
        /* otherwise a.x and a.y are one host named a */
        launch_word(e, a, old ? "OMPI_MCA_orte_keep_fqdn_hostnames=1" : "PRTE_MCA_prte_keep_fqdn_hostnames=1");
        break;
    }
    const char *user = launch_hosts_user(p);
    if (user != NULL) launch_word(e, a, "%s=ssh -l %s", old ? LAUNCH_AGENT_4 : LAUNCH_AGENT_5, user);
    if (launch_hosts_are_here(p)) return;
    /* A host whose network is down is silent, so ask for keepalives. The ranks detect the loss before the MPI launcher
     * does, and report who waits for whom. */
    const char *of = old ? "OMPI" : "PRTE";
    launch_word(e, a, "%s_MCA_oob_tcp_keepalive_time=1", of);
    launch_word(e, a, "%s_MCA_oob_tcp_keepalive_intvl=1", of);
    launch_word(e, a, "%s_MCA_oob_tcp_keepalive_probes=%d", of, (int)mega_world_host_timeout() + MPIRUN_FOLLOWS_S);
}

/* UCX, which MPICH uses, kills a process when a neighbour whose memory it reads dies, and may wait forever in
 * MPI_Finalize if several transports lead to a neighbour: on one host it gets shared memory only. */
static void mpich_environment(launch_plan *p, launch_words *e)
{
    if (p->hosts <= 1) launch_word(e, &p->arena, "UCX_TLS=posix,sysv,self");
    const char *user = launch_hosts_user(p);
    if (user != NULL) launch_word(e, &p->arena, "%s=-l %s", LAUNCH_AGENT_MPICH, user);
}

/* Hydra and Slurm pass the whole environment to the ranks; Open MPI passes only the variables that it is given. */
static void openmpi_exports(launch_plan *p, launch_words *c)
{
    static const char *const prefixes[] = {"MEGA_", "OMP_", "LD_LIBRARY_PATH="};
    for (char **e = environ; *e != NULL; e++) {
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
            if (strncmp(*e, prefixes[i], strlen(prefixes[i])) != 0 || strncmp(*e, "MEGA_LAUNCH=", 12) == 0) continue;
            launch_word(c, &p->arena, "-x");
            launch_word(c, &p->arena, "%.*s", (int)strcspn(*e, "="), *e);
        }
    }
    launch_word(c, &p->arena, "-x");
    launch_word(c, &p->arena, "MEGA_LAUNCH=1");
    const int columns = p->dry_run ? 0 : launch_terminal_columns();
    if (columns > 0) {
        launch_word(c, &p->arena, "-x");
        launch_word(c, &p->arena, LAUNCH_COLUMNS "=%d", columns);
    }
}

static void openmpi_command(launch_plan *p, launch_words *c)
{
    mega_arena *a = &p->arena;
    if (geteuid() == 0) launch_word(c, a, "--allow-run-as-root");
    if (p->major >= 5) {
        launch_word(c, a, "--output");
        launch_word(c, a, "tag");
    } else {
        launch_word(c, a, "--tag-output");
    }
    launch_word(c, a, "--map-by");
    launch_word(c, a, "slot:OVERSUBSCRIBE");
    launch_word(c, a, "--bind-to");
    launch_word(c, a, "none");
    add_hosts(p, "--host", c);
    if (!launch_hosts_are_here(p)) openmpi_exports(p, c);
    launch_word(c, a, "-n");
    launch_word(c, a, "%d", p->world);
}

static void mpich_command(launch_plan *p, launch_words *c)
{
    add_hosts(p, "-hosts", c);
    launch_word(c, &p->arena, "-prepend-pattern");
    launch_word(c, &p->arena, "\036%%r\037");
    launch_word(c, &p->arena, "-n");
    launch_word(c, &p->arena, "%d", p->world);
}

/* Returns the process management interface (--mpi) that srun offers; the MPI library must support it too. */
static const char *slurm_mpi(const launch_plan *p)
{
    char *command = mega_format("'%s' --mpi=list 2>&1 </dev/null", p->mpirun);
    char text[1024] = "";
    FILE *pipe = command != NULL ? popen(command, "r") : NULL;
    if (pipe != NULL) {
        text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
        pclose(pipe);
    }
    mega_free(command);
    return strstr(text, "pmix") != NULL ? "pmix" : "pmi2";
}

static void slurm_command(launch_plan *p, launch_words *c)
{
    mega_arena *a = &p->arena;
    launch_word(c, a, "--nodes=%lld", (long long)p->nodes);
    launch_word(c, a, "--ntasks=%d", p->world);
    if (p->nproc > 0) launch_word(c, a, "--ntasks-per-node=%lld", (long long)p->nproc);
    if (p->include != NULL) launch_word(c, a, "--nodelist=%s", p->include);
    if (p->exclude != NULL) launch_word(c, a, "--exclude=%s", p->exclude);
    for (int i = 0; i < c->count; i++)
        for (char *at = strchr(c->word[i], '@'); at != NULL; at = strchr(at, '@')) *at = ',';
    launch_word(c, a, "--mpi=%s", slurm_mpi(p));
    launch_word(c, a, "--cpu-bind=none");
    launch_word(c, a, "--overcommit");
    launch_word(c, a, "--kill-on-bad-exit=1");
    launch_word(c, a, "--label");
}

mega_status launch_mpirun_command(launch_plan *p, launch_words *c, launch_words *e)
{
    mega_arena *a = &p->arena;
    *c = *e = (launch_words){0};
    if (p->kind != LAUNCH_NONE) launch_word(c, a, "%s", p->mpirun);
    if (launch_stays(p)) launch_word(e, a, "MEGA_LAUNCH=1"); /* ranks then print marks */
    const int columns = launch_stays(p) && !p->dry_run ? launch_terminal_columns() : 0;
    if (columns > 0) launch_word(e, a, LAUNCH_COLUMNS "=%d", columns);
    switch (p->kind) {
    case LAUNCH_NONE: break;
    case LAUNCH_OPENMPI:
        openmpi_command(p, c);
        openmpi_environment(p, e);
        break;
    case LAUNCH_MPICH:
        mpich_command(p, c);
        mpich_environment(p, e);
        break;
    case LAUNCH_SLURM: slurm_command(p, c); break;
    }
    launch_word(c, a, "%s", p->program);
    if (p->own != NULL) launch_program_words(p, c);
    else
        launch_word(c, a, "%s", p->command);
    for (int i = 0; i < p->args_count && !c->failed; i++) {
        launch_word(c, a, "%s", "");
        if (!c->failed) c->word[c->count - 1] = p->args[i]; /* arguments may have any length */
    }
    launch_word(e, a, "%s", "");
    if (c->failed || e->failed) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a command of %d words", c->count);
    c->word[c->count] = NULL;
    e->word[--e->count] = NULL;
    return MEGA_OK;
}
