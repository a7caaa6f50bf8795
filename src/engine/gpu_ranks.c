/* Which GPUs the ranks of a world have, and who shares one; --device auto of several ranks. */
#include "megalith/gpu_ranks.h"
#include "megalith/cuda.h"
#include "megalith/engine_settings.h"
#include "megalith/memory.h"
#include "megalith/process.h"

#include <stdio.h>
#include <string.h>

/* What a rank tells the others. */
typedef struct gpu_place {
    int32_t host_first; /* the host's lowest rank */
    bool has;
    unsigned char uuid[16];
    char host[MEGA_HOST_BYTES], why[192]; /* it has none */
} gpu_place;

static gpu_place gpu_place_of(const mega_world *world, int64_t ordinal)
{
    gpu_place own = {.host_first = mega_world_host_first(world), .why = "it does not ask for one"};
    mega_cuda_info gpu;
    mega_host_name(own.host);
    if (ordinal < 0) return own;
    own.has = mega_cuda_info_get(ordinal, &gpu) == MEGA_OK;
    if (own.has) memcpy(own.uuid, gpu.uuid, sizeof own.uuid);
    else
        snprintf(own.why, sizeof own.why, "%s", mega_error_message());
    return own;
}

static bool is_same(const gpu_place *a, const gpu_place *b)
{
    return a->has && b->has && a->host_first == b->host_first && memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
}

/* How many of the ranks before `r` are on its GPU. */
static int count_before(const gpu_place *all, int r)
{
    int count = 0;
    for (int i = 0; i < r; i++) count += is_same(&all[i], &all[r]);
    return count;
}

static void compare_places(const gpu_place *all, int ranks, int own, mega_gpu_ranks *out)
{
    *out = (mega_gpu_ranks){.may_take = out->may_take, .is_known = true, .each_has_own = true};
    for (int r = 0; r < ranks; r++) {
        const bool is_first = all[r].has && count_before(all, r) == 0;
        out->sharers += is_same(&all[r], &all[own]);
        out->gpus += is_first && all[r].host_first == all[own].host_first;
        out->each_has_own = out->each_has_own && is_first;
        if (all[r].has || out->missing[0] != '\0') continue;
        if (ranks > 1)
            snprintf(out->missing, sizeof out->missing, "rank %d on host %s has no GPU that can: %s", r, all[r].host,
                     all[r].why);
        else
            snprintf(out->missing, sizeof out->missing, "%s", all[r].why);
    }
}

mega_status mega_gpu_ranks_compare(mega_world *world, int64_t ordinal, mega_gpu_ranks *out)
{
    const gpu_place own = gpu_place_of(world, ordinal);
    const int ranks = mega_world_size(world);
    if (ranks == 1) {
        compare_places(&own, 1, 0, out);
        return MEGA_OK;
    }
    mega_comm *comm = mega_world_comm(world);
    gpu_place *all = mega_calloc((size_t)ranks, sizeof *all);
    mega_status st = mega_comm_agree(comm, all != NULL ? MEGA_OK : MEGA_NO_MEMORY("engine", "the GPUs of the ranks"));
    if (st == MEGA_OK) st = mega_comm_all_gather(comm, "GPUs of the ranks", all, &own, sizeof own, MEGA_U8);
    if (st == MEGA_OK) compare_places(all, ranks, mega_world_rank(world), out);
    mega_free(all);
    return st;
}

mega_status mega_engine_agree_device(mega_engine_settings *s, mega_world *world)
{
    mega_backend_options *b = &s->backend;
    const bool wants = s->gpus.may_take || b->backend == MEGA_BACKEND_CUDA;
    int32_t any = wants;
    if (mega_world_size(world) > 1)
        MEGA_TRY(mega_comm_all_reduce(mega_world_comm(world), "whether a rank asks for a GPU", &any, 1, MEGA_I32,
                                      MEGA_REDUCE_MAX));
    else
        any = s->gpus.may_take;
    if (any == 0) return MEGA_OK; /* no driver is loaded */
    MEGA_TRY(mega_gpu_ranks_compare(world, wants ? b->gpu : -1, &s->gpus));
    if (s->gpus.may_take && s->gpus.missing[0] == '\0') b->backend = MEGA_BACKEND_CUDA;
    s->gpus.may_take = false;
    return MEGA_OK;
}
