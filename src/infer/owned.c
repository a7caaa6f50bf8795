/* Opens a model folder for C programs, with all that its use needs. */
#include "owned.h"
#include "megalith/memory.h"

#include <string.h>

static mega_status check_setup(const infer_setup *s)
{
    if (s->folder == NULL) return MEGA_MISTAKE("%s: folder is NULL; expected the path of a model", s->call);
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"texts", s->texts}, {"positions", s->positions},
                {"masks", s->masks}, {"threads", s->threads},
                {"tp", s->tp},       {"pp", s->pp},
                {"ep", s->ep},       {"micro_batches", s->micro_batches}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < 0 || rows[i].value > INT32_MAX)
            return MEGA_MISTAKE("%s: %s %lld; expected 0 or more", s->call, rows[i].name, (long long)rows[i].value);
    if (s->compute != MEGA_F32 && s->compute != MEGA_BF16 && s->compute != MEGA_F16)
        return MEGA_MISTAKE("%s: compute %d; expected MEGA_F32, MEGA_BF16 or MEGA_F16", s->call, (int)s->compute);
    return MEGA_OK;
}

static mega_status owned_load(infer_owned *own, const infer_setup *s)
{
    if (s->team == NULL)
        MEGA_TRY(mega_team_create(s->threads > 0 ? (int)s->threads : mega_default_threads(), &own->team));
    const mega_pretrained_options o = {.compute = s->compute,
                                       .vocab_multiple = 128,
                                       .team = s->team != NULL ? s->team : own->team,
                                       .world = own->world,
                                       .layout = {.tp = (int)s->tp, .pp = (int)s->pp, .ep = (int)s->ep},
                                       .encodes = s->encodes};
    MEGA_TRY(mega_pretrained_open(s->folder, &o, &own->model));
    const int64_t most = own->model.shape.positions, positions = s->positions > 0 ? s->positions : most;
    const int64_t texts = s->texts > 0 ? s->texts : 1;
    if (positions > most)
        return MEGA_MISTAKE("%s: positions %lld; the model has %lld", s->call, (long long)positions, (long long)most);
    const mega_pretrained_sizes fills = {
        .mode = MEGA_EVAL, .samples = texts, .positions = positions, .masks = s->masks > 0 ? s->masks : 1};
    const mega_pretrained_sizes generates = mega_pretrained_generation(texts, positions, s->micro_batches, 512);
    MEGA_TRY(mega_pretrained_load(&own->model, s->encodes ? &fills : &generates));
    return own->model.tokenizer == NULL ? MEGA_OK : mega_encoder_create(own->model.tokenizer, &own->encoder);
}

static mega_status owned_make(infer_owned *own, const infer_setup *s)
{
    if (own->world == NULL) {
        MEGA_TRY(mega_world_create(NULL, &own->world));
        own->owns_world = true;
    }
    MEGA_TRY(mega_comm_agree(mega_world_comm(own->world), owned_load(own, s)));
    const mega_layout *layout = mega_engine_layout(own->model.engine);
    if (layout->edp.size == 1) return MEGA_OK;
    return MEGA_MISTAKE("%s: %d ranks, and tp %d x pp %d x ep %d share the model; start as many as these", s->call,
                        layout->world.size, layout->tp.size, layout->pp.size, layout->ep.size);
}

mega_status infer_owned_open(const infer_setup *setup, infer_owned **out)
{
    MEGA_TRY(check_setup(setup));
    infer_owned *own = mega_calloc(1, sizeof *own);
    if (own == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", setup->call);
    own->world = setup->world;
    const mega_status st = owned_make(own, setup);
    if (st == MEGA_OK) {
        *out = own;
        return MEGA_OK;
    }
    mega_error_record why;
    mega_error_get(&why);
    infer_owned_destroy(own);
    return mega_error_restore(&why);
}

void infer_owned_destroy(infer_owned *own)
{
    if (own == NULL) return;
    mega_encoder_destroy(own->encoder);
    mega_pretrained_fini(&own->model);
    mega_team_destroy(own->team);
    if (own->owns_world) mega_world_destroy(own->world);
    mega_free(own);
}

mega_status infer_copy_ids(const char *call, const mega_ids *all, int32_t *ids, int64_t capacity, int64_t *count)
{
    *count = all->count;
    if (all->count > capacity || (ids == NULL && all->count > 0))
        return MEGA_MISTAKE("%s: the text has %lld tokens; %lld fit", call, (long long)all->count, (long long)capacity);
    if (all->count > 0) memcpy(ids, all->id, (size_t)all->count * sizeof *ids);
    return MEGA_OK;
}
