/* The most probable tokens of masks. A sample of a run is a text with some of its masks, as many as the program
 * shows. */
#include "encode.h"
#include "filler.h"
#include "megalith/generate.h"

#include <math.h>
#include <string.h>

/* ---- creation ---- */

static mega_status lacks(const mega_tokenizer *t, const char *token)
{
    return MEGA_MISTAKE("the tokenizer (%s) lacks %s; expected that of an encoder such as BERT", mega_tokenizer_type(t),
                        token);
}

mega_status mega_filler_find_mask(const mega_tokenizer *t, int32_t *out)
{
    *out = mega_tokenizer_role(t, MEGA_ROLE_MASK, "[MASK] <mask>");
    return *out >= 0 ? MEGA_OK : lacks(t, "[MASK] and <mask>");
}

static mega_status put_id(mega_ids *ids, int64_t at, int32_t id)
{
    MEGA_TRY(mega_ids_reserve(ids, 1));
    memmove(ids->id + at + 1, ids->id + at, (size_t)(ids->count - at) * sizeof *ids->id);
    ids->id[at] = id;
    ids->count++;
    return MEGA_OK;
}

mega_status mega_filler_tokens(const mega_tokenizer *t, mega_encoder *e, const char *text, size_t bytes, mega_ids *out)
{
    const int32_t cls = mega_tokenizer_role(t, MEGA_ROLE_CLS, "[CLS] <s>"),
                  sep = mega_tokenizer_role(t, MEGA_ROLE_SEP, "[SEP] </s>");
    const int64_t first = out->count;
    if (cls < 0 || sep < 0) return lacks(t, cls < 0 ? "[CLS]" : "[SEP]");
    MEGA_TRY(mega_encoder_encode_special(e, text, bytes, out));
    if (out->count == first || out->id[first] != cls) MEGA_TRY(put_id(out, first, cls));
    return out->id[out->count - 1] == sep ? MEGA_OK : put_id(out, out->count, sep);
}

mega_status mega_filler_create(const mega_pretrained *m, const mega_tokenizer *tokenizer, mega_filler **out)
{
    int32_t mask;
    MEGA_TRY(mega_filler_find_mask(tokenizer, &mask));
    const int64_t vocab = m->shape.vocab, pad = m->shape.net.pad;
    const int64_t samples = mega_engine_train_micro_batch_size(m->engine), masks = m->masks;
    mega_filler *f = mega_calloc(1, sizeof *f);
    if (f == NULL) return MEGA_NO_MEMORY("fill_mask", "its record");
    *f = (mega_filler){.engine = m->engine,
                       .tokenizer = tokenizer,
                       .folder = m->folder,
                       .positions = mega_engine_positions(m->engine),
                       .masks = masks,
                       .vocab = vocab,
                       .padded_vocab = m->language.padded_vocab,
                       .known = mega_pretrained_known(m, tokenizer),
                       .mask = mask,
                       .pad = pad >= 0 && pad < vocab ? (int32_t)pad : 0};
    f->sample = mega_calloc((size_t)samples, sizeof *f->sample);
    f->logits = mega_calloc((size_t)vocab, sizeof *f->logits);
    if (f->sample == NULL || f->logits == NULL) {
        mega_filler_destroy(f);
        return MEGA_NO_MEMORY("fill_mask", "the samples of a run");
    }
    *out = f;
    return MEGA_OK;
}

/* ---- samples ---- */

static bool has_mask(const mega_filler *f, const filler_place *p)
{
    for (int64_t i = p->at; i < f->texts->begin[p->text + 1]; i++)
        if (f->texts->tokens[i] == f->mask) return true;
    return false;
}

/* Goes on to the first text that has masks which are not filled yet. */
static void skip_texts(const mega_filler *f, filler_place *p)
{
    while (p->text < f->texts->count && !has_mask(f, p)) p->at = f->texts->begin[++p->text];
}

static filler_place first_place(const mega_filler *f)
{
    filler_place p = {.at = f->texts->begin[0]};
    skip_texts(f, &p);
    return p;
}

/* Moves on to the next sample. */
static void next_place(const mega_filler *f, filler_place *p)
{
    const int64_t end = f->texts->begin[p->text + 1];
    for (int64_t n = 0; p->at < end && n < f->masks; p->at++)
        if (f->texts->tokens[p->at] == f->mask) n++, p->mask++;
    p->number++;
    skip_texts(f, p);
}

static void filler_fill(void *user, int64_t number, int64_t row, mega_sample *sample)
{
    mega_filler *f = user;
    const mega_masked_texts *t = f->texts;
    filler_place *p = &f->next;
    int32_t *rows = mega_sample_i32(sample, "mask_rows", f->masks);
    const int32_t begin = (int32_t)(row * f->positions);
    while (p->text < t->count && p->number < number) next_place(f, p);
    const bool is_real = p->text < t->count;
    const int64_t first = is_real ? t->begin[p->text] : 0, end = is_real ? t->begin[p->text + 1] : 0;
    encode_fill(sample, f->positions, is_real ? t->tokens + first : NULL, end - first, f->pad);
    f->sample[row] = (filler_sample){.mask = p->mask};
    for (int64_t i = is_real ? p->at : end; i < end && f->sample[row].count < f->masks; i++) {
        if (t->tokens[i] != f->mask) continue;
        if (rows != NULL) rows[f->sample[row].count] = begin + (int32_t)(i - first);
        f->sample[row].count++;
    }
    for (int64_t i = f->sample[row].count; i < f->masks && rows != NULL; i++) rows[i] = begin;
}

/* ---- results ---- */

/* Sorts the best `top` of the logits into best, whose scores become probabilities. Of equal ones the first is taken. */
static void take_best(const mega_filler *f, const float *logits, mega_filling *best)
{
    const mega_masked_texts *t = f->texts;
    const int64_t count = t->targets != NULL ? t->num_targets : f->known;
    int64_t found = 0;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const int32_t id = t->targets != NULL ? t->targets[i] : (int32_t)i;
        int64_t at = found;
        if (found == t->top && logits[id] <= best[found - 1].score) continue;
        if (found < t->top) found++;
        else
            at--;
        for (; at > 0 && best[at - 1].score < logits[id]; at--) best[at] = best[at - 1];
        best[at] = (mega_filling){id, logits[id]};
    }
    for (int64_t v = 0; v < f->vocab; v++) most = logits[v] > most ? (double)logits[v] : most;
    for (int64_t v = 0; v < f->vocab; v++) sum += exp((double)logits[v] - most);
    for (int64_t i = 0; i < found; i++) best[i].score = (float)(exp((double)best[i].score - most) / sum);
}

/* Only ranks with the last pipeline stage have the logits. */
static void filler_take(void *user, int64_t first)
{
    mega_filler *f = user;
    const int64_t samples = mega_engine_train_micro_batch_size(f->engine), rows = samples * f->masks;
    mega_run_value all;
    (void)first;
    if (!mega_engine_run_output(f->engine, MEGA_RUN_EVALUATE, "logits", &all)) return;
    for (int64_t b = 0; b < samples; b++) {
        const filler_sample *s = &f->sample[b];
        for (int64_t i = 0; i < s->count; i++) {
            encode_logits(f->engine, &all, b * f->masks + i, rows, f->vocab, f->padded_vocab, f->logits);
            if (mega_logits_are_finite(f->logits, f->vocab))
                take_best(f, f->logits, f->out + (s->mask + i) * f->texts->top);
            else
                f->is_infinite = true;
        }
    }
}

/* ---- a run ---- */

static mega_status check_text(const mega_filler *f, const mega_masked_texts *t, int64_t i)
{
    const int64_t length = t->begin[i + 1] - t->begin[i];
    if (length < 1 || length > f->positions)
        return MEGA_MISTAKE("fill_mask: text %lld has %lld tokens; expected 1 to %lld", (long long)i, (long long)length,
                            (long long)f->positions);
    return encode_check_ids("fill_mask", "text", i, t->tokens + t->begin[i], length, f->vocab);
}

static mega_status check_run(const mega_filler *f, const mega_masked_texts *t, const mega_filling *out, int64_t room,
                             int64_t *masks)
{
    if (f == NULL || t == NULL || t->count < 0 || (t->count > 0 && (t->tokens == NULL || t->begin == NULL)))
        return MEGA_MISTAKE("mega_filler_run: the filler, the texts or their tokens are NULL");
    const int64_t most = t->targets != NULL ? t->num_targets : f->known;
    if (t->top < 1 || t->top > most)
        return MEGA_MISTAKE("fill_mask: %lld tokens are wanted for each mask; expected 1 to %lld%s", (long long)t->top,
                            (long long)most, t->targets != NULL ? ", the number of targets" : "");
    for (int64_t i = 0; t->targets != NULL && i < t->num_targets; i++)
        if (t->targets[i] < 0 || t->targets[i] >= f->known)
            return MEGA_MISTAKE("fill_mask: target %lld is %d; expected 0 to %lld", (long long)i, t->targets[i],
                                (long long)f->known - 1);
    *masks = 0;
    for (int64_t i = 0; i < t->count; i++) {
        MEGA_TRY(check_text(f, t, i));
        for (int64_t k = t->begin[i]; k < t->begin[i + 1]; k++) *masks += t->tokens[k] == f->mask;
    }
    if (*masks == 0 || (out != NULL && *masks <= room / t->top)) return MEGA_OK;
    return MEGA_MISTAKE("fill_mask: %lld masks with %lld tokens each; %lld fit", (long long)*masks, (long long)t->top,
                        out != NULL ? (long long)room : 0LL);
}

static mega_status check_finite(const mega_filler *f)
{
    if (!f->is_infinite) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_NUMERIC,
                     "fill_mask: the logits of a mask are not finite; the weights of %s have NaN or Inf, or are too "
                     "large for its computations: give another checkpoint, or float32 in place of --bf16 and --fp16",
                     f->folder);
}

mega_status mega_filler_run(mega_filler *f, const mega_masked_texts *texts, mega_filling *out, int64_t room)
{
    int64_t masks = 0;
    MEGA_TRY(check_run(f, texts, out, room, &masks));
    if (masks == 0) return MEGA_OK;
    const mega_layout *layout = mega_engine_layout(f->engine);
    const int64_t values = masks * texts->top;
    memset(out, 0, (size_t)values * sizeof *out);
    f->texts = texts;
    f->out = out;
    f->is_infinite = false;
    filler_place last = first_place(f);
    f->next = last;
    while (last.text < texts->count) next_place(f, &last);
    MEGA_TRY(encode_run(f->engine,
                        &(encode_work){.samples = last.number, .fill = filler_fill, .take = filler_take, .user = f}));
    MEGA_TRY(mega_comm_agree(layout->world.comm, check_finite(f)));
    /* the other ranks of dp have zeros, so that a sum of the bits is the value */
    MEGA_TRY(mega_comm_all_reduce(layout->dp.comm, "tokens of masks", out, 2 * values, MEGA_I32, MEGA_REDUCE_SUM));
    return mega_comm_broadcast(layout->pp.comm, "tokens of masks", out, values * (int64_t)sizeof *out,
                               layout->pp.size - 1);
}
