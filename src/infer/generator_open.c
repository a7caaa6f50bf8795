/* A generator of a model folder, with all that it needs: the whole of generation for a C program. */
#include "infer_impl.h"
#include "megalith/memory.h"
#include "megalith/pretrained.h"

#include <string.h>

/* What a generator owns that mega_generator_open made. */
struct generator_owned {
    mega_pretrained model;
    mega_encoder *encoder;
    mega_team *team; /* NULL: the caller's */
    bool owns_world;
    mega_world *world;
};

static mega_status check_setup(const mega_generator_setup *s)
{
    if (s->folder == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_generator_open: folder is NULL; expected the path of a model");
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"texts", s->texts}, {"positions", s->positions},        {"threads", s->threads}, {"tp", s->tp},
                {"pp", s->pp},       {"micro_batches", s->micro_batches}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < 0 || rows[i].value > INT32_MAX)
            return MEGA_FAIL(MEGA_ERR_USAGE, "mega_generator_open: %s %lld; expected 0 or more", rows[i].name,
                             (long long)rows[i].value);
    if (s->compute != MEGA_F32 && s->compute != MEGA_BF16 && s->compute != MEGA_F16)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_generator_open: compute %d; expected MEGA_F32, MEGA_BF16 or MEGA_F16",
                         (int)s->compute);
    return MEGA_OK;
}

static mega_status load(generator_owned *own, const mega_generator_setup *s)
{
    const mega_pretrained_options o = {.compute = s->compute,
                                       .vocab_multiple = 128,
                                       .team = s->team != NULL ? s->team : own->team,
                                       .world = own->world,
                                       .layout = {.tp = s->tp, .pp = s->pp}};
    MEGA_TRY(mega_pretrained_open(s->folder, &o, &own->model));
    const int64_t most = own->model.shape.positions, positions = s->positions > 0 ? s->positions : most;
    const int64_t texts = s->texts > 0 ? s->texts : 1;
    if (positions > most)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_generator_open: positions %lld; the model has %lld",
                         (long long)positions, (long long)most);
    const mega_pretrained_sizes sizes = mega_pretrained_generation(texts, positions, s->micro_batches, 512);
    MEGA_TRY(mega_pretrained_load(&own->model, &sizes));
    return own->model.tokenizer == NULL ? MEGA_OK : mega_encoder_create(own->model.tokenizer, &own->encoder);
}

static mega_status make(generator_owned *own, const mega_generator_setup *s, mega_generator **out)
{
    if (own->world == NULL) {
        MEGA_TRY(mega_world_create(NULL, &own->world));
        own->owns_world = true;
    }
    if (s->team == NULL)
        MEGA_TRY(mega_team_create(s->threads > 0 ? (int)s->threads : mega_default_threads(), &own->team));
    MEGA_TRY(mega_comm_agree(mega_world_comm(own->world), load(own, s)));
    const mega_layout *layout = mega_engine_layout(own->model.engine);
    if (layout->dp.size > 1)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "mega_generator_open: %d ranks, and tp %d x pp %d share the model; start as many as these",
                         layout->world.size, layout->tp.size, layout->pp.size);
    const int64_t vocab = own->model.shape.vocab;
    const int64_t known = own->model.tokenizer == NULL ? vocab : mega_tokenizer_size(own->model.tokenizer);
    const mega_generator_options g = {.draw_vocab = known < vocab ? known : vocab,
                                      .no_cache = s->no_cache,
                                      .has_beams = s->has_beams,
                                      .tokenizer = own->model.tokenizer,
                                      .folder = own->model.folder};
    return mega_comm_agree(mega_world_comm(own->world),
                           mega_generator_create(own->model.engine, &own->model.language, &g, out));
}

void generator_owned_destroy(generator_owned *own)
{
    if (own == NULL) return;
    mega_encoder_destroy(own->encoder);
    mega_pretrained_fini(&own->model);
    mega_team_destroy(own->team);
    if (own->owns_world) mega_world_destroy(own->world);
    mega_free(own);
}

mega_status mega_generator_open(const mega_generator_setup *setup, mega_generator **out)
{
    if (setup == NULL || out == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "mega_generator_open: the setup or the result is NULL");
    MEGA_TRY(check_setup(setup));
    generator_owned *own = mega_calloc(1, sizeof *own);
    if (own == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "mega_generator_open: no memory");
    own->world = setup->world;
    mega_generator *g = NULL;
    const mega_status st = make(own, setup, &g);
    if (st != MEGA_OK) {
        mega_error_record why;
        mega_error_get(&why);
        generator_owned_destroy(own);
        return mega_error_restore(&why);
    }
    g->owned = own;
    *out = g;
    return MEGA_OK;
}

/* ---- text ---- */

static mega_status check_tokenizer(const mega_generator *g, const char *call, const void *given, const void *out)
{
    if (g == NULL || given == NULL || out == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the generator, its input or its result is NULL", call);
    if (g->options.tokenizer != NULL && g->owned != NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_USAGE, "%s: the folder of the model has no tokenizer; give ids", call);
}

mega_status mega_generator_encode(mega_generator *g, const char *text, int32_t *ids, int64_t capacity, int64_t *count)
{
    static const char call[] = "mega_generator_encode";
    MEGA_TRY(check_tokenizer(g, call, text, count));
    mega_ids all = {0};
    mega_status st = mega_encoder_encode_special(g->owned->encoder, text, strlen(text), &all);
    if (st == MEGA_OK) *count = all.count;
    if (st == MEGA_OK && (all.count > capacity || (ids == NULL && all.count > 0)))
        st = MEGA_FAIL(MEGA_ERR_USAGE, "%s: the text has %lld tokens; %lld fit", call, (long long)all.count,
                       (long long)capacity);
    else if (st == MEGA_OK && all.count > 0)
        memcpy(ids, all.id, (size_t)all.count * sizeof *ids);
    mega_ids_fini(&all);
    return st;
}

mega_status mega_generator_decode(const mega_generator *g, const int32_t *ids, int64_t count, mega_buffer *out)
{
    static const char call[] = "mega_generator_decode";
    MEGA_TRY(check_tokenizer(g, call, ids, out));
    if (count < 0) return MEGA_FAIL(MEGA_ERR_USAGE, "%s: count %lld; expected 0 or more", call, (long long)count);
    MEGA_TRY(mega_tokenizer_decode(g->options.tokenizer, ids, count, out));
    return mega_buffer_check(out, call);
}

int64_t mega_generator_vocab(const mega_generator *g)
{
    return g == NULL ? -1 : g->options.draw_vocab;
}

int64_t mega_generator_positions(const mega_generator *g)
{
    return g == NULL ? -1 : g->capacity;
}

int32_t mega_generator_end(const mega_generator *g)
{
    return g == NULL || g->options.tokenizer == NULL ? -1 : mega_tokenizer_eod(g->options.tokenizer);
}
