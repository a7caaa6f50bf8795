/* Gives each sample of a generation the key-value cache of another one, as a beam search needs. */
#include "engine_build.h"
#include "engine_calls.h"
#include "megalith/device_memory.h"

#include <string.h>

/* A cache of one chunk: for each micro-batch [samples, positions, bytes of a position]. */
typedef struct cache {
    char *data;
    int64_t positions, samples;   /* samples: of a micro-batch */
    size_t bytes, to_micro_batch; /* to_micro_batch: bytes from a micro-batch to the next */
} cache;

/* What attention keeps of a source is [samples * positions, C]: not a cache, also where a source has one position. */
static bool cache_of(const mega_engine *e, mega_program *p, int number, cache *out, bool *is_cache)
{
    mega_program_named t;
    if (!mega_program_named_get(p, number, &t)) return false;
    *is_cache = t.role == MEGA_PROGRAM_STATE && t.num_dims == 3 && t.dim[0] == e->options.micro_batch;
    if (!*is_cache) return true;
    const size_t bytes = mega_dtype_size(t.dtype) * (size_t)t.dim[2];
    *out =
        (cache){.data = mega_program_tensor(p, t.name, 0), .positions = t.dim[1], .samples = t.dim[0], .bytes = bytes};
    if (e->options.micro_batches > 1)
        out->to_micro_batch = (size_t)((char *)mega_program_tensor(p, t.name, 1) - out->data);
    return true;
}

/* ---- the order of the copies ---- */

enum { IN_SPACE = -1 }; /* in place of a sample: runs.space, which has the positions of one */

static void add_move(engine_runs *r, int32_t to, int32_t from)
{
    r->move[r->moves++] = (engine_move){to, from};
}

/* Copies whose target no other sample needs any longer, from sample b along the sources. */
static void moves_of_chain(engine_runs *r, const int32_t *source, int32_t b)
{
    while (r->users[b] == 0 && source[b] != b && !r->has_moved[b]) {
        add_move(r, b, source[b]);
        r->has_moved[b] = true;
        r->users[source[b]]--;
        b = source[b];
    }
}

/* Samples that change places: the first one's numbers wait in the space. */
static void moves_of_cycle(engine_runs *r, const int32_t *source, int32_t b)
{
    int32_t to = b;
    add_move(r, IN_SPACE, b);
    for (; source[to] != b; to = source[to]) {
        add_move(r, to, source[to]);
        r->has_moved[to] = true;
    }
    add_move(r, to, IN_SPACE);
    r->has_moved[to] = true;
}

/* Orders the copies so that no sample is overwritten before those that need it have it. */
static void find_moves(engine_runs *r, const int32_t *source, int64_t samples)
{
    r->moves = 0;
    memset(r->users, 0, (size_t)samples * sizeof *r->users);
    memset(r->has_moved, 0, (size_t)samples * sizeof *r->has_moved);
    for (int64_t b = 0; b < samples; b++) r->users[source[b]] += source[b] != b;
    for (int64_t b = 0; b < samples; b++) moves_of_chain(r, source, (int32_t)b);
    for (int64_t b = 0; b < samples; b++)
        if (source[b] != b && !r->has_moved[b]) moves_of_cycle(r, source, (int32_t)b);
}

/* ---- a cache ---- */

static char *cache_place(const engine_runs *r, const cache *c, int32_t sample, int64_t position)
{
    if (sample == IN_SPACE) return r->space;
    return c->data + (size_t)(sample / c->samples) * c->to_micro_batch +
           (size_t)(sample % c->samples * c->positions + position) * c->bytes;
}

/* Positions of a sequence longer than the cache are in it as in a ring; then all of its positions are copied. */
static void select_cache(const engine_runs *r, const cache *c, const int64_t range[2])
{
    const bool is_ring = range[1] > c->positions;
    const int64_t first = is_ring ? 0 : range[0], end = is_ring ? c->positions : range[1];
    for (int64_t i = 0; i < r->moves; i++)
        mega_device_copy(cache_place(r, c, r->move[i].to, first), cache_place(r, c, r->move[i].from, first),
                         (size_t)(end - first) * c->bytes);
}

static mega_status check_selection(const mega_engine *e, const int32_t *source, int64_t first, int64_t end)
{
    static const char call[] = "mega_engine_select_caches";
    MEGA_TRY(engine_check_given(e, call, "e", e));
    MEGA_TRY(engine_check_allocated(e, call));
    MEGA_TRY(engine_check_given(e, call, "source", source));
    if (!e->options.generate)
        return MEGA_MISTAKE("%s: the engine has no caches; create one in mode MEGA_GENERATE", call);
    if (first < 0 || end < first || end > e->options.seq)
        return MEGA_MISTAKE("%s: positions %lld to %lld; expected a range within 0 to %lld", call, (long long)first,
                            (long long)end, (long long)e->options.seq);
    for (int64_t b = 0; b < engine_run_samples(e); b++)
        if (source[b] < 0 || source[b] >= engine_run_samples(e))
            return MEGA_MISTAKE("%s: sample %lld is to get the cache of sample %d; expected 0 to %lld", call,
                                (long long)b, source[b], (long long)engine_run_samples(e) - 1);
    return MEGA_OK;
}

static mega_status select_caches(mega_engine *e, const int32_t *source, int64_t first, int64_t end)
{
    MEGA_TRY(check_selection(e, source, first, end));
    const int64_t range[2] = {first, end};
    find_moves(&e->runs, source, engine_run_samples(e));
    for (int c = 0; c < e->programs.chunks; c++) {
        cache found;
        bool is_cache;
        mega_program *p = engine_program_of(&e->programs.chunk[c], ENGINE_DECODE);
        for (int i = 0; cache_of(e, p, i, &found, &is_cache); i++)
            if (is_cache) select_cache(&e->runs, &found, range);
    }
    return MEGA_OK;
}

mega_status mega_engine_select_caches(mega_engine *e, const int32_t *source, int64_t first, int64_t end)
{
    MEGA_TRY(engine_enter(e, "mega_engine_select_caches"));
    return engine_leave(e, select_caches(e, source, first, end));
}

mega_status engine_open_caches(mega_engine *e)
{
    engine_runs *r = &e->runs;
    const size_t samples = (size_t)engine_run_samples(e);
    size_t most = 1;
    for (int c = 0; c < e->programs.chunks; c++) {
        cache found;
        bool is_cache;
        mega_program *p = engine_program_of(&e->programs.chunk[c], ENGINE_DECODE);
        for (int i = 0; cache_of(e, p, i, &found, &is_cache); i++) {
            const size_t bytes = is_cache ? (size_t)found.positions * found.bytes : 0;
            if (bytes > most) most = bytes;
        }
    }
    r->users = mega_calloc(samples, sizeof *r->users);
    r->has_moved = mega_calloc(samples, sizeof *r->has_moved);
    r->move = mega_calloc(2 * samples, sizeof *r->move); /* the most: samples that change places two by two */
    if (r->users == NULL || r->has_moved == NULL || r->move == NULL)
        return MEGA_NO_MEMORY("engine", "the moves of caches between samples");
    r->space_bytes = most;
    return mega_device_alloc(e->memory.device, &r->space, r->space_bytes, "moves of caches between samples");
}
