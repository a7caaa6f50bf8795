/* A filler of a model folder, with all that it needs, for a C program. */
#include "filler.h"
#include "megalith/memory.h"

#include <string.h>

static mega_status filler_make(infer_owned *own, mega_filler **out)
{
    if (own->model.tokenizer == NULL)
        return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "model %s: it has no tokenizer, so that its mask is unknown",
                         own->model.folder);
    MEGA_TRY(mega_filler_create(&own->model, own->model.tokenizer, out));
    (*out)->owned = own;
    return MEGA_OK;
}

mega_status mega_filler_open(const mega_filler_setup *setup, mega_filler **out)
{
    static const char call[] = "mega_filler_open";
    if (setup == NULL || out == NULL) return MEGA_MISTAKE("%s: the setup or the result is NULL", call);
    const infer_setup s = {.call = call,
                           .folder = setup->folder,
                           .compute = setup->compute,
                           .texts = setup->texts,
                           .positions = setup->positions,
                           .masks = setup->masks,
                           .threads = setup->threads,
                           .tp = setup->tp,
                           .pp = setup->pp,
                           .world = setup->world,
                           .team = setup->team,
                           .encodes = true};
    infer_owned *own = NULL;
    mega_filler *f = NULL;
    MEGA_TRY(infer_owned_open(&s, &own));
    const mega_status st = mega_comm_agree(mega_world_comm(own->world), filler_make(own, &f));
    if (st == MEGA_OK) {
        *out = f;
        return MEGA_OK;
    }
    mega_error_record why;
    mega_error_get(&why);
    if (f != NULL) mega_filler_destroy(f);
    else
        infer_owned_destroy(own);
    return mega_error_restore(&why);
}

void mega_filler_destroy(mega_filler *f)
{
    if (f == NULL) return;
    MEGA_FREE(f->sample, f->logits);
    infer_owned_destroy(f->owned);
    mega_free(f);
}

mega_status mega_filler_encode(mega_filler *f, const char *text, int32_t *ids, int64_t capacity, int64_t *count)
{
    static const char call[] = "mega_filler_encode";
    if (f == NULL || f->owned == NULL || text == NULL || count == NULL)
        return MEGA_MISTAKE("%s: the filler, the text or the count is NULL", call);
    mega_ids all = {0};
    mega_status st = mega_filler_tokens(f->tokenizer, f->owned->encoder, text, strlen(text), &all);
    if (st == MEGA_OK) st = infer_copy_ids(call, &all, ids, capacity, count);
    mega_ids_fini(&all);
    return st;
}

mega_status mega_filler_decode(const mega_filler *f, const int32_t *ids, int64_t count, mega_buffer *out)
{
    static const char call[] = "mega_filler_decode";
    if (f == NULL || ids == NULL || out == NULL || count < 0)
        return MEGA_MISTAKE("%s: the filler, the ids or the result is NULL, or the count negative", call);
    MEGA_TRY(mega_tokenizer_decode(f->tokenizer, ids, count, out));
    return mega_buffer_check(out, call);
}

int32_t mega_filler_mask(const mega_filler *f)
{
    return f == NULL ? -1 : f->mask;
}

int64_t mega_filler_positions(const mega_filler *f)
{
    return f == NULL ? -1 : f->positions;
}
