/* What ends a text: ids in a row, or bytes of the text that was generated. */
#include "infer_impl.h"
#include "megalith/memory.h"

#include <string.h>

enum { TAIL_BYTES = 4 * MEGA_LONGEST_STOP }; /* the tail, and the text of one more token, unless that is a long one */

static mega_status check_rules(const mega_generator *g)
{
    const mega_generation_rules *r = g->rules;
    if (r->num_stops > 0 && g->options.tokenizer == NULL)
        return MEGA_MISTAKE("generation: texts that end a text (stop) need a tokenizer, which this generator has not");
    if ((r->num_stops != 0 && r->stop == NULL) || (r->num_ends != 0 && r->end == NULL) || r->num_stops < 0 ||
        r->num_ends < 0)
        return MEGA_MISTAKE("generation: %d sequences and %d texts that end a text, and a list is NULL", r->num_ends,
                            r->num_stops);
    for (int i = 0; i < r->num_stops; i++)
        if (r->stop[i][0] == '\0' || strlen(r->stop[i]) > MEGA_LONGEST_STOP)
            return MEGA_MISTAKE("generation: text %d of those that end a text has %zu bytes; expected 1 to %d", i,
                                strlen(r->stop[i]), (int)MEGA_LONGEST_STOP);
    for (int i = 0; i < r->num_ends; i++)
        if (r->end[i].count < 1) return MEGA_MISTAKE("generation: sequence %d of ids that end a text is empty", i);
    return MEGA_OK;
}

mega_status generator_ends_begin(mega_generator *g)
{
    MEGA_TRY(check_rules(g));
    for (int b = 0; b < g->count && g->rules->num_stops > 0; b++) {
        g->tail[b].size = 0;
        if (!mega_buffer_reserve(&g->tail[b], TAIL_BYTES)) return mega_buffer_check(&g->tail[b], "a generated text");
    }
    return MEGA_OK;
}

/* Only ids that were drawn count, not those of the prompt. */
static bool ends_by_ids(const mega_generation *s, const mega_id_sequence *end)
{
    if (s->count < end->count) return false;
    return memcmp(s->tokens + s->count - end->count, end->id, (size_t)end->count * sizeof *end->id) == 0;
}

/* Appends the bytes of the last token to the tail, and keeps of it only what a longer text may still match. */
static mega_status ends_by_text(mega_generator *g, int b, bool *out)
{
    const mega_generation_rules *r = g->rules;
    const mega_generation *s = &g->text[b];
    mega_buffer *tail = &g->tail[b];
    MEGA_TRY(mega_tokenizer_piece(g->options.tokenizer, s->tokens[s->count - 1], tail));
    size_t longest = 0;
    for (int i = 0; i < r->num_stops; i++) {
        const size_t n = strlen(r->stop[i]);
        longest = n > longest ? n : longest;
        *out = *out || (tail->size >= n && memmem(tail->data, tail->size, r->stop[i], n) != NULL);
    }
    const size_t kept = tail->size < longest - 1 ? tail->size : longest - 1;
    if (kept > 0) memmove(tail->data, tail->data + tail->size - kept, kept);
    tail->size = kept;
    return MEGA_OK;
}

mega_status generator_ends(mega_generator *g, int b, bool *out)
{
    const mega_generation_rules *r = g->rules;
    *out = false;
    for (int i = 0; i < r->num_ends; i++) *out = *out || ends_by_ids(&g->text[b], &r->end[i]);
    return *out || r->num_stops == 0 ? MEGA_OK : ends_by_text(g, b, out);
}
