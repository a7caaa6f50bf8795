#include "watch.h"
#include "runner.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MOST_REGIONS = 4096, MOST_SHARED_PARTS = 8, SHOWN = 3, GRANULE = 2, OLDER = 3 };
#define BY_HOST UINT32_MAX /* written before any work */

/* Who accessed two bytes last. A write: its thread. Reads of the newest launch that read: the last thread, and of the
 * other threads since the same block barrier, which are in the way of a write: whether they are of one warp, and their
 * latest warp barrier. */
typedef struct granule {
    uint32_t wrote_work, wrote_block, wrote_barriers, wrote_warp_barriers;
    uint32_t read_work, older_reads[OLDER]; /* works that read it too, which read_work is not known to come after */
    uint32_t read_block, read_barriers, read_warp_barriers, others_warp_barriers;
    uint16_t wrote_thread, read_thread;
    bool has_others, has_warps, has_blocks;
} granule;

typedef struct region {
    const char *begin, *end;
    granule *g;
    size_t map_bytes; /* of g */
    int number;       /* of allocations, -1 of shared memory */
} region;

typedef struct work_order {
    const char *name;
    int lane;
    uint32_t number;
    watch_clock after;
} work_order;

static struct watch {
    region regions[MOST_REGIONS];
    int num_regions, last_region, allocations;
    region shared[MOST_SHARED_PARTS];
    int num_shared;
    work_order *works; /* by number, from 1 */
    uint32_t num_works, cap_works;
    const watch_operand *operands;
    int num_operands;
    uint64_t reports, accesses;
    bool is_quiet;
    char first[500];
} watch;

uint64_t watch_reports(void)
{
    return watch.reports;
}
uint64_t watch_accesses(void)
{
    return watch.accesses;
}
const char *watch_first_report(void)
{
    return watch.first;
}

/* ---- memory ---- */

static size_t granules_of(size_t bytes)
{
    return bytes / GRANULE + 1;
}

/* Untouched memory of the map costs nothing, so that allocations may be large. */
static region region_make(const void *at, size_t bytes)
{
    region r = {at, (const char *)at + bytes, NULL, granules_of(bytes) * sizeof(granule), -1};
    r.g = mmap(NULL, r.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r.g == MAP_FAILED) abort();
    return r;
}

void watch_memory_add(const void *at, size_t bytes, bool is_written)
{
    if (watch.num_regions == MOST_REGIONS) abort();
    region r = region_make(at, bytes);
    r.number = watch.allocations++;
    for (size_t i = 0; is_written && i < granules_of(bytes); i++) r.g[i].wrote_work = BY_HOST;
    watch.regions[watch.num_regions++] = r;
}

void watch_memory_remove(const void *at)
{
    for (int i = 0; i < watch.num_regions; i++) {
        if (watch.regions[i].begin != at) continue;
        munmap(watch.regions[i].g, watch.regions[i].map_bytes);
        watch.regions[i] = watch.regions[--watch.num_regions];
        watch.last_region = 0;
        return;
    }
}

static bool region_has(const region *r, const char *p)
{
    return p >= r->begin && p < r->end;
}

static region *region_of(const char *p)
{
    for (int i = 0; i < watch.num_shared; i++)
        if (region_has(&watch.shared[i], p)) return &watch.shared[i];
    if (watch.last_region < watch.num_regions && region_has(&watch.regions[watch.last_region], p))
        return &watch.regions[watch.last_region];
    for (int i = 0; i < watch.num_regions; i++)
        if (region_has(&watch.regions[i], p)) return &watch.regions[watch.last_region = i];
    return NULL;
}

static void shared_note(const void *at, size_t bytes)
{
    for (int i = 0; i < watch.num_shared; i++)
        if (watch.shared[i].begin == at) {
            memset(watch.shared[i].g, 0, watch.shared[i].map_bytes);
            return;
        }
    if (watch.num_shared == MOST_SHARED_PARTS) abort();
    watch.shared[watch.num_shared++] = region_make(at, bytes);
}

static void shared_end(void)
{
    for (int i = 0; i < watch.num_shared; i++) munmap(watch.shared[i].g, watch.shared[i].map_bytes);
    watch.num_shared = 0;
}

/* ---- work and its order ---- */

void watch_work_begin(const watch_work *work)
{
    if (watch.num_works == 0) watch.num_works = 1; /* number 0: none */
    if (watch.num_works == watch.cap_works || watch.works == NULL) {
        watch.cap_works = 2 * watch.cap_works + 64;
        watch.works = realloc(watch.works, watch.cap_works * sizeof *watch.works);
        if (watch.works == NULL) abort();
    }
    watch.works[watch.num_works++] = (work_order){work->name, work->lane, work->number, work->after};
    watch.operands = work->operands;
    watch.num_operands = work->num_operands;
}

static uint32_t work_now(void)
{
    return watch.num_works > 0 ? watch.num_works - 1 : 0;
}

/* Whether work x, which is not the present one, has surely ended before it. */
static bool is_after(uint32_t x)
{
    if (x == 0 || x == BY_HOST) return true;
    const work_order *was = &watch.works[x], *now = &watch.works[work_now()];
    if (was->lane < 0 || now->lane < 0) return true;
    return now->after.at[was->lane] >= was->number;
}

/* ---- reports ---- */

typedef struct access {
    const char *at;
    size_t bytes;
    bool is_write;
    const void *code;
    const device_place *place; /* NULL: a copy or a fill */
    bool is_reported;          /* nothing more is said of it */
} access;

static void report(const access *a, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void report(const access *a, const char *what, const char *format, ...)
{
    char text[sizeof watch.first];
    Dl_info code;
    va_list list;
    if (a->is_reported || watch.reports++ >= SHOWN) return;
    int n = snprintf(text, sizeof text, "%s: %s", what, work_now() > 0 ? watch.works[work_now()].name : "kernel");
    if (a->place != NULL)
        n += snprintf(text + n, sizeof text - (size_t)n, ", block %u, thread %u", a->place->block, a->place->thread);
    n += snprintf(text + n, sizeof text - (size_t)n, ", %s of %zu bytes at ", a->is_write ? "write" : "read", a->bytes);
    const region *r = region_of(a->at);
    if (r == NULL) n += snprintf(text + n, sizeof text - (size_t)n, "%p", (const void *)a->at);
    else
        n += snprintf(text + n, sizeof text - (size_t)n, "byte %zu of %s %d (%zu bytes)", (size_t)(a->at - r->begin),
                      r->number < 0 ? "shared memory" : "allocation",
                      r->number < 0 ? (int)(r - watch.shared) : r->number, (size_t)(r->end - r->begin));
    va_start(list, format);
    n += vsnprintf(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    if (a->code != NULL && dladdr(a->code, &code) != 0 && n < (int)sizeof text) /* for addr2line */
        snprintf(text + n, sizeof text - (size_t)n, "; code %s+0x%zx", code.dli_fname,
                 (size_t)((const char *)a->code - (const char *)code.dli_fbase));
    if (watch.first[0] == 0) memcpy(watch.first, text, sizeof text);
    if (!watch.is_quiet) fprintf(stderr, "software device: %s\n", text);
}

static void report_other(const access *a, const char *what, uint32_t work, uint32_t block, int thread)
{
    const char *name = work < watch.num_works ? watch.works[work].name : "the host";
    if (thread < 0) report(a, what, "; the other: %s, work %u, several threads", name, work);
    else
        report(a, what, "; the other: %s, work %u, block %u, thread %d", name, work, block, thread);
}

/* ---- rules 3 to 5, for two bytes ---- */

static bool is_ordered_write(const granule *g, const device_place *p)
{
    if (g->wrote_work != work_now()) return is_after(g->wrote_work);
    if (p == NULL) return true; /* a copy within one piece of work */
    if (g->wrote_block != p->block) return false;
    if (g->wrote_barriers < p->barriers || g->wrote_thread == p->thread) return true;
    return g->wrote_thread / 32 == p->thread / 32 && g->wrote_warp_barriers < p->warp_barriers;
}

/* Returns an older reader after which the present work does not come, or 0. */
static uint32_t older_read(const granule *g)
{
    for (int i = 0; i < OLDER; i++)
        if (!is_after(g->older_reads[i])) return g->older_reads[i];
    return 0;
}

/* The last reader becomes an older one: in the place of one that no longer matters, or of the first. */
static void note_older(granule *g)
{
    int place = 0;
    for (int i = OLDER - 1; i >= 0; i--)
        if (is_after(g->older_reads[i])) {
            g->older_reads[i] = 0;
            place = i;
        }
    if (!is_after(g->read_work)) g->older_reads[place] = g->read_work;
}

static bool is_ordered_read(const granule *g, const device_place *p)
{
    if (older_read(g) != 0) return false;
    if (g->read_work != work_now()) return is_after(g->read_work);
    if (p == NULL) return true;
    if (g->has_blocks || g->read_block != p->block) return false;
    if (g->read_barriers < p->barriers) return true;
    if (g->has_warps) return false;
    const bool is_warp = g->read_thread / 32 == p->thread / 32;
    if (g->has_others && !(is_warp && g->others_warp_barriers < p->warp_barriers)) return false;
    return g->read_thread == p->thread || (is_warp && g->read_warp_barriers < p->warp_barriers);
}

static void note_read(granule *g, const device_place *p)
{
    const uint32_t now = work_now();
    if (g->read_work != now) {
        note_older(g);
        g->has_others = g->has_warps = g->has_blocks = false;
    } else if (p == NULL) {
        return;
    } else if (g->read_block != p->block) {
        g->has_blocks = true;
    } else if (g->read_barriers < p->barriers) {
        g->has_others = g->has_warps = false;
    } else if (g->read_thread != p->thread) {
        if (g->read_thread / 32 != p->thread / 32) g->has_warps = true;
        if (!g->has_others || g->others_warp_barriers < g->read_warp_barriers)
            g->others_warp_barriers = g->read_warp_barriers;
        g->has_others = true;
    }
    g->read_work = now;
    if (p == NULL) return;
    g->read_block = p->block;
    g->read_thread = (uint16_t)p->thread;
    g->read_barriers = p->barriers;
    g->read_warp_barriers = p->warp_barriers;
}

static void note_write(granule *g, const device_place *p)
{
    *g = (granule){.wrote_work = work_now()};
    if (p == NULL) return;
    g->wrote_block = p->block;
    g->wrote_thread = (uint16_t)p->thread;
    g->wrote_barriers = p->barriers;
    g->wrote_warp_barriers = p->warp_barriers;
}

/* Single bytes share a granule, so that only rule 3 can be asked of them. Returns whether it has reported. */
static bool touch(granule *g, const access *a)
{
    const device_place *p = a->place;
    bool has_reported = true;
    if (!a->is_write && g->wrote_work == 0) report(a, "memory that was never written is read", "%s", "");
    else if (a->bytes > 1 && !is_ordered_write(g, p))
        report_other(a, g->wrote_work == work_now() ? "race with a write" : "no event orders it after a write",
                     g->wrote_work, g->wrote_block, g->wrote_thread);
    else if (a->bytes > 1 && a->is_write && !is_ordered_read(g, p)) {
        const uint32_t older = older_read(g), work = older != 0 ? older : g->read_work;
        report_other(a, work == work_now() ? "race with a read" : "no event orders it after a read", work,
                     g->read_block, older != 0 || g->has_others || g->has_blocks ? -1 : g->read_thread);
    } else
        has_reported = false;
    if (a->is_write) note_write(g, p);
    else
        note_read(g, p);
    return has_reported;
}

/* ---- rules 1 and 2 ---- */

static bool is_declared(const access *a, const region *r)
{
    if (watch.num_operands == 0 || r->number < 0) return true;
    bool is_output = false;
    for (int i = 0; i < watch.num_operands; i++) {
        const watch_operand *o = &watch.operands[i];
        if (a->at < o->at || a->at + a->bytes > o->at + o->bytes) continue;
        if (o->use & (a->is_write ? WATCH_WRITES : WATCH_READS)) return true;
        is_output = is_output || (o->use & WATCH_WRITES);
    }
    /* A kernel may read again what it has written itself. */
    return is_output && !a->is_write && r->g[(a->at - r->begin) / GRANULE].wrote_work == work_now();
}

static void watch_access(const access *a)
{
    region *r = region_of(a->at);
    watch.accesses++;
    if (a->bytes == 0) return;
    if (r == NULL || a->at + a->bytes > r->end) {
        report(a, "outside of device memory", "%s", "");
        return;
    }
    if (!is_declared(a, r)) report(a, "outside of the operands that the launch declares", "%s", "");
    const size_t first = (size_t)(a->at - r->begin) / GRANULE;
    const size_t last = ((size_t)(a->at - r->begin) + a->bytes - 1) / GRANULE;
    access part = *a;
    for (size_t i = first; i <= last; i++) /* one report of an access is enough */
        if (touch(&r->g[i], &part)) part.is_reported = true;
}

void watch_range(const void *at, size_t bytes, bool is_write)
{
    watch_access(&(access){.at = at, .bytes = bytes, .is_write = is_write});
}

static void observe(const void *at, size_t bytes, bool is_write, const void *code)
{
    const device_place *p = device_place_now();
    const char *c = at;
    if (p == NULL) return;
    if ((c >= p->stack && c < p->stack_end) || (c >= p->args && c < p->args_end)) return;
    watch_access(&(access){c, bytes, is_write, code, p, false});
}

void watch_begin(void)
{
    static const device_observer observer = {observe, shared_note, shared_end};
    device_observe(&observer);
}

void watch_forget(bool is_quiet)
{
    shared_end();
    while (watch.num_regions > 0) watch_memory_remove(watch.regions[0].begin);
    watch.num_works = 0;
    watch.num_operands = watch.allocations = 0;
    watch.reports = watch.accesses = 0;
    watch.first[0] = 0;
    watch.is_quiet = is_quiet;
}

/* ---- the calls of -fsanitize=thread, which the compiler puts before each access ---- */

static void check_aligned(const void *p, size_t n, bool is_write, const void *code)
{
    const device_place *place = device_place_now();
    if (place != NULL && (uintptr_t)p % n != 0)
        report(&(access){p, n, is_write, code, place, false}, "address that is no multiple of the size", "%s", "");
}

#define HOOK(n)                                                  \
    void __tsan_read##n(void *p);                                \
    void __tsan_read##n(void *p)                                 \
    {                                                            \
        check_aligned(p, n, false, __builtin_return_address(0)); \
        observe(p, n, false, __builtin_return_address(0));       \
    }                                                            \
    void __tsan_write##n(void *p);                               \
    void __tsan_write##n(void *p)                                \
    {                                                            \
        check_aligned(p, n, true, __builtin_return_address(0));  \
        observe(p, n, true, __builtin_return_address(0));        \
    }                                                            \
    void __tsan_unaligned_read##n(void *p);                      \
    void __tsan_unaligned_read##n(void *p)                       \
    {                                                            \
        observe(p, n, false, __builtin_return_address(0));       \
    }                                                            \
    void __tsan_unaligned_write##n(void *p);                     \
    void __tsan_unaligned_write##n(void *p)                      \
    {                                                            \
        observe(p, n, true, __builtin_return_address(0));        \
    }
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)

void __tsan_read_range(void *p, size_t n);
void __tsan_read_range(void *p, size_t n)
{
    observe(p, n, false, __builtin_return_address(0));
}
void __tsan_write_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n)
{
    observe(p, n, true, __builtin_return_address(0));
}
void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    observe(from, n, false, __builtin_return_address(0));
    observe(to, n, true, __builtin_return_address(0));
    return memcpy(to, from, n);
}
void *__tsan_memset(void *to, int value, size_t n);
void *__tsan_memset(void *to, int value, size_t n)
{
    observe(to, n, true, __builtin_return_address(0));
    return memset(to, value, n);
}
void __tsan_init(void);
void __tsan_init(void)
{
}
void __tsan_func_entry(void *code);
void __tsan_func_entry(void *code)
{
    (void)code;
}
void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
