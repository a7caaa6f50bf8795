/* Launches: blocks in any order, on one thread of the process or on several; and the sites that may be left out. */
#include "runner_impl.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static struct device_settings {
    uint64_t random, switches;
    int threads; /* of the process, 0 as 1 */
    const device_observer *observer;
    device_site omitted; /* line 0: none */
    device_site *sites;  /* NULL: they are not noted */
    int num_sites;
    device_runner *runners[DEVICE_MOST_RUNNERS];
    char error[400];
} settings = {.random = 88172645463325252u};

static uint32_t draw(void)
{
    settings.random ^= settings.random << 13;
    settings.random ^= settings.random >> 7;
    settings.random ^= settings.random << 17;
    return (uint32_t)(settings.random >> 32);
}

void device_seed(uint64_t seed)
{
    settings.random = (seed + 1) * 0x9E3779B97F4A7C15u | 1;
    for (int i = 0; i < 4; i++) draw();
}

void device_threads(int threads)
{
    settings.threads = threads < DEVICE_MOST_RUNNERS ? threads : DEVICE_MOST_RUNNERS;
}

uint64_t device_switches(void)
{
    return settings.switches;
}

void device_observe(const device_observer *observer)
{
    settings.observer = observer;
}

/* ---- sites ---- */

void device_site_omit(const device_site *site)
{
    settings.omitted = site != NULL ? *site : (device_site){.line = 0};
}

void device_sites_note(void)
{
    if (settings.sites == NULL && (settings.sites = calloc(MOST_SITES, sizeof *settings.sites)) == NULL) abort();
}

const device_site *device_sites(int *count)
{
    *count = settings.num_sites;
    return settings.sites;
}

static bool is_site(const device_site *s, const char *op, int line)
{
    return s->line == line && strcmp(s->op, op) == 0 && strcmp(s->kernel, runner->place.kernel) == 0;
}

static void site_note(const char *op, int line)
{
    for (int i = settings.num_sites - 1; i >= 0; i--)
        if (is_site(&settings.sites[i], op, line)) return;
    if (settings.num_sites == MOST_SITES) return;
    device_site *s = &settings.sites[settings.num_sites++];
    snprintf(s->kernel, sizeof s->kernel, "%s", runner->place.kernel);
    snprintf(s->op, sizeof s->op, "%s", op);
    s->line = line;
}

bool runner_omits(const char *op, int line)
{
    if (settings.omitted.line == line && is_site(&settings.omitted, op, line)) return true;
    if (settings.sites != NULL) site_note(op, line);
    return false;
}

/* ---- a launch ---- */

static device_runner *runner_get(int i)
{
    device_runner **r = &settings.runners[i];
    if (*r == NULL && (*r = calloc(1, sizeof **r)) == NULL) abort();
    (*r)->observer = settings.observer;
    return *r;
}

/* A runner's part of the launch: blocks as long as there are some. */
static void blocks_run(device_runner *r, device_team *team)
{
    runner_launch_begin(r, team);
    for (uint64_t n; !atomic_load(&team->has_failed) && (n = atomic_fetch_add(&team->next, 1)) < team->blocks;)
        runner_block_run(n);
    runner_launch_end();
}

typedef struct runner_part {
    device_runner *r;
    device_team *team;
    pthread_t thread;
} runner_part;

static void *part_main(void *user)
{
    const runner_part *p = user;
    blocks_run(p->r, p->team);
    return NULL;
}

/* Other threads take no signals of the program, but faults. */
static void parts_run(device_team *team, int count)
{
    runner_part part[DEVICE_MOST_RUNNERS];
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < count; i++) {
        part[i] = (runner_part){.r = runner_get(i), .team = team};
        if (pthread_create(&part[i].thread, NULL, part_main, &part[i]) != 0) abort();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    blocks_run(runner_get(0), team);
    for (int i = 1; i < count; i++) pthread_join(part[i].thread, NULL);
}

/* The watch and the list of sites are for one thread. */
static int runners_for(uint64_t blocks)
{
    if (settings.observer != NULL || settings.sites != NULL || settings.threads < 1) return 1;
    return blocks < (uint64_t)settings.threads ? (int)blocks : settings.threads;
}

/* Returns the error of the first block in order that has one, or NULL. */
static const char *launch_end(int count)
{
    const device_runner *first = NULL;
    for (int i = 0; i < count; i++) {
        const device_runner *r = settings.runners[i];
        settings.switches += r->switches;
        if (r->error[0] != 0 && (first == NULL || r->order < first->order)) first = r;
    }
    if (settings.observer != NULL) settings.observer->shared_end();
    if (first == NULL) return NULL;
    memcpy(settings.error, first->error, sizeof settings.error);
    return settings.error;
}

const char *device_run(const device_launch *launch)
{
    const device_kernel *k = launch->kernel;
    device_team team = {.launch = launch};
    team.blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (team.blocks == 0) return NULL;
    if (k->threads == 0 || k->threads % WARP != 0 || k->threads > DEVICE_MOST_THREADS) {
        snprintf(settings.error, sizeof settings.error, "kernel %s: %u threads, expected a multiple of %d up to %d",
                 k->name, k->threads, WARP, DEVICE_MOST_THREADS);
        return settings.error;
    }
    team.seed = (uint64_t)draw() << 32 | draw();
    team.start = draw() % team.blocks; /* blocks have no order: any may be the first */
    const int count = runners_for(team.blocks);
    if (count > 1) parts_run(&team, count);
    else
        blocks_run(runner_get(0), &team);
    return launch_end(count);
}
