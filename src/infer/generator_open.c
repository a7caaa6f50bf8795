/* A generator of a model folder, with all that it needs: the whole of generation for a C program. */
#include "infer_impl.h"
#include "megalith/memory.h"
#include "owned.h"

#include <string.h>

mega_status mega_generator_open(const mega_generator_setup *setup, mega_generator **out)
{
    static const char call[] = "mega_generator_open";
    if (setup == NULL || out == NULL) return MEGA_MISTAKE("%s: the setup or the result is NULL", call);
    const infer_setup s = {.call = call,
                           .folder = setup->folder,
                           .compute = setup->compute,
                           .texts = setup->texts,
                           .positions = setup->positions,
                           .micro_batches = setup->micro_batches,
                           .threads = setup->threads,
                           .tp = setup->tp,
                           .pp = setup->pp,
                           .ep = setup->ep,
                           .world = setup->world,
                           .team = setup->team};
    infer_owned *own = NULL;
    mega_generator *g = NULL;
    MEGA_TRY(infer_owned_open(&s, &own));
    const mega_generator_options o = {.draw_vocab = mega_pretrained_known(&own->model, own->model.tokenizer),
                                      .no_cache = setup->no_cache,
                                      .has_beams = setup->has_beams,
                                      .tokenizer = own->model.tokenizer,
                                      .folder = own->model.folder};
    const mega_status st = mega_comm_agree(mega_world_comm(own->world),
                                           mega_generator_create(own->model.engine, &own->model.language, &o, &g));
    if (st != MEGA_OK) {
        mega_error_record why;
        mega_error_get(&why);
        mega_generator_destroy(g); /* made here, while another rank had no memory */
        infer_owned_destroy(own);
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
        return MEGA_MISTAKE("%s: the generator, its input or its result is NULL", call);
    if (g->options.tokenizer != NULL && g->owned != NULL) return MEGA_OK;
    return MEGA_MISTAKE("%s: the folder of the model has no tokenizer; give ids", call);
}

mega_status mega_generator_encode(mega_generator *g, const char *text, int32_t *ids, int64_t capacity, int64_t *count)
{
    static const char call[] = "mega_generator_encode";
    MEGA_TRY(check_tokenizer(g, call, text, count));
    mega_ids all = {0};
    mega_status st = mega_encoder_encode_special(g->owned->encoder, text, strlen(text), &all);
    if (st == MEGA_OK) st = infer_copy_ids(call, &all, ids, capacity, count);
    mega_ids_fini(&all);
    return st;
}

mega_status mega_generator_decode(const mega_generator *g, const int32_t *ids, int64_t count, mega_buffer *out)
{
    static const char call[] = "mega_generator_decode";
    MEGA_TRY(check_tokenizer(g, call, ids, out));
    if (count < 0) return MEGA_MISTAKE("%s: count %lld; expected 0 or more", call, (long long)count);
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
