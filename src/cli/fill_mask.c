/* megalith fill_mask: the tokens that a text may have where it has its mask, by an encoder, as JSON lines. */
#include "cli.h"
#include "commands.h"
#include "generate.h"
#include "megalith/encoding.h"
#include "megalith/file_kind.h"
#include "megalith/filler.h"
#include "megalith/line.h"
#include "megalith/log.h"

#include <stdio.h>
#include <string.h>

typedef struct fill_session {
    mega_command_options *cfg;
    mega_world *world;
    mega_loaded loaded;
    int32_t mask;
    mega_buffer text; /* the texts, each ended by a zero */
    mega_ids ids;     /* their tokens */
    int64_t *begin;   /* [count + 1] */
    int64_t count, room, masks;
    int64_t longest, most; /* of a text: tokens, masks */
    mega_ids targets;
    int64_t top;
} fill_session;

/* ---- texts ---- */

static mega_status take_text(fill_session *s, const char *text, size_t bytes)
{
    const bool is_said = mega_options_was_set(s->cfg->train.engine.options, "seq_length");
    const int64_t positions = is_said ? s->cfg->train.seq_length : s->loaded.model.shape.positions;
    const int64_t first = s->ids.count;
    const int shown = bytes < 60 ? (int)bytes : 60;
    if (!mega_array_reserve(&s->begin, &s->room, s->count + 2, sizeof *s->begin))
        return MEGA_NO_MEMORY("fill_mask", "the list of its texts");
    if (memchr(text, '\0', bytes) != NULL)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "\"%.60s\": a zero byte follows; remove it", text);
    MEGA_TRY(mega_filler_tokens(s->loaded.tokenizer, s->loaded.encoder, text, bytes, &s->ids));
    int64_t masks = 0, length = s->ids.count - first;
    for (int64_t i = first; i < s->ids.count; i++) masks += s->ids.id[i] == s->mask;
    if (masks == 0) {
        mega_buffer name = {0};
        mega_status st = mega_tokenizer_decode(s->loaded.tokenizer, &s->mask, 1, &name);
        if (st == MEGA_OK)
            st = MEGA_MISTAKE("\"%.*s\": it has no %.*s, the mask of this model; write one where a token is wanted",
                              shown, text, (int)name.size, name.data);
        mega_buffer_fini(&name);
        return st;
    }
    if (length > positions)
        return MEGA_MISTAKE("\"%.*s…\": it has %lld tokens, and %lld fit, the %s; shorten it", shown, text,
                            (long long)length, (long long)positions, is_said ? "--seq-length" : "model's positions");
    s->masks += masks;
    s->longest = length > s->longest ? length : s->longest;
    s->most = masks > s->most ? masks : s->most;
    s->begin[s->count] = first;
    s->begin[++s->count] = s->ids.count;
    mega_buffer_append(&s->text, text, bytes);
    mega_buffer_append(&s->text, "", 1);
    return mega_buffer_check(&s->text, "the texts of fill_mask");
}

static mega_status take_lines(fill_session *s, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    MEGA_TRY(mega_file_read_kind(path, "text in UTF-8", 0, &text, &bytes));
    mega_line line = {.rest = text, .left = bytes};
    while (mega_line_next(&line)) {
        mega_status st = mega_encoding_check_line(path, line.number, line.text, line.bytes);
        if (st != MEGA_OK) {
            mega_options_add_mistake(s->cfg->train.engine.options, st);
            break;
        }
        st = line.bytes > 0 ? take_text(s, line.text, line.bytes) : MEGA_OK;
        if (st != MEGA_OK) mega_error_prepend("--input %s:%lld", path, (long long)line.number);
        mega_options_add_mistake(s->cfg->train.engine.options, st);
    }
    mega_free(text);
    return s->count > 0 || line.number > 0 ? MEGA_OK : MEGA_FAIL(MEGA_ERR_FORMAT, "--input %s: it holds no text", path);
}

/* A target that is no token is replaced by the first one of its text, as transformers does. */
static mega_status take_target(fill_session *s, const char *target)
{
    mega_ids ids = {0};
    mega_buffer piece = {0};
    int32_t id = mega_tokenizer_find(s->loaded.tokenizer, target, strlen(target));
    mega_status st = MEGA_OK;
    if (id < 0) {
        st = mega_encoder_encode_part(s->loaded.encoder, target, strlen(target), &ids);
        if (st == MEGA_OK && ids.count == 0) st = MEGA_MISTAKE("--targets \"%s\": it is no token and has none", target);
        if (st == MEGA_OK) id = ids.id[0];
        if (st == MEGA_OK) st = mega_tokenizer_decode(s->loaded.tokenizer, &id, 1, &piece);
        const bool is_unknown = st == MEGA_OK && mega_tokenizer_is_special(s->loaded.tokenizer, id);
        if (st == MEGA_OK && (is_unknown || ids.count > 1))
            mega_warn("--targets \"%s\": it is %s; \"%.*s\" is taken", target,
                      is_unknown ? "not in the vocabulary" : "no single token", (int)piece.size, piece.data);
    }
    for (int64_t i = 0; i < s->targets.count && st == MEGA_OK; i++)
        if (s->targets.id[i] == id) id = -1; /* given twice */
    if (st == MEGA_OK && id >= 0) st = mega_ids_reserve(&s->targets, 1);
    if (st == MEGA_OK && id >= 0) s->targets.id[s->targets.count++] = id;
    mega_ids_fini(&ids);
    mega_buffer_fini(&piece);
    return st;
}

static mega_status take_all(fill_session *s)
{
    const mega_embed_options *o = &s->cfg->embed;
    mega_options *options = s->cfg->train.engine.options;
    for (size_t i = 0; i < o->text.count; i++) {
        const mega_status st = take_text(s, o->text.item[i], strlen(o->text.item[i]));
        if (st != MEGA_OK) mega_error_prepend("--text");
        mega_options_add_mistake(options, st);
    }
    if (o->input != NULL) mega_options_add_mistake(options, take_lines(s, o->input));
    for (size_t i = 0; i < o->targets.count; i++) mega_options_add_mistake(options, take_target(s, o->targets.item[i]));
    const int64_t most =
        s->targets.count > 0 ? s->targets.count : mega_pretrained_known(&s->loaded.model, s->loaded.tokenizer);
    s->top = o->top_k < most ? o->top_k : most;
    return mega_options_report(options);
}

/* ---- results ---- */

/* The text as a JSON string: bytes that are no UTF-8 as U+FFFD. A vocabulary of bytes has the zero, too. */
static mega_status put_string(const char *text, size_t bytes, mega_buffer *line)
{
    mega_buffer valid = {0}, part = {0};
    mega_status st = generate_append_utf8(&valid, text, bytes);
    mega_buffer_append(&valid, "", 1);
    mega_buffer_puts(line, "\"");
    for (size_t at = 0; at < valid.size && !valid.failed; at += strlen(valid.data + at) + 1) {
        part.size = 0;
        mega_buffer_json_string(&part, valid.data + at);
        if (at > 0) mega_buffer_puts(line, "\\u0000");
        mega_buffer_append(line, part.data + 1, part.size - 2);
        line->failed = line->failed || part.failed;
    }
    mega_buffer_puts(line, "\"");
    if (st == MEGA_OK) st = mega_buffer_check(&valid, "a line of fill_mask");
    mega_buffer_fini(&valid);
    mega_buffer_fini(&part);
    return st;
}

/* The text of ids; with `skips` without special tokens. */
static mega_status put_text(const fill_session *s, const int32_t *ids, int64_t count, bool skips, mega_buffer *line)
{
    const mega_tokenizer *t = s->loaded.tokenizer;
    const int32_t pad = mega_tokenizer_named(t, MEGA_ROLE_PAD);
    mega_ids kept = {0};
    mega_buffer bytes = {0};
    mega_status st = mega_ids_reserve(&kept, count);
    for (int64_t i = 0; i < count && st == MEGA_OK; i++)
        if (count == 1 || (ids[i] != pad && (!skips || !mega_tokenizer_is_special(t, ids[i]))))
            kept.id[kept.count++] = ids[i];
    if (st == MEGA_OK) st = mega_tokenizer_decode(t, kept.id, kept.count, &bytes);
    if (st == MEGA_OK) st = put_string(bytes.data, bytes.size, line);
    mega_ids_fini(&kept);
    mega_buffer_fini(&bytes);
    return st;
}

/* The tokens of one mask, each with the text that it gives; the text of several masks keeps its special tokens. */
static mega_status put_mask(fill_session *s, int64_t text, int64_t at, bool is_only, const mega_filling *best,
                            mega_buffer *line)
{
    const int64_t length = s->begin[text + 1] - s->begin[text];
    for (int64_t k = 0; k < s->top; k++) {
        mega_buffer_puts(line, k > 0 ? ",{\"score\":" : "{\"score\":");
        mega_buffer_json_float(line, best[k].score);
        mega_buffer_printf(line, ",\"token\":%d,\"token_str\":", best[k].token);
        MEGA_TRY(put_text(s, &best[k].token, 1, false, line));
        mega_buffer_puts(line, ",\"sequence\":");
        s->ids.id[at] = best[k].token;
        const mega_status st = put_text(s, s->ids.id + s->begin[text], length, is_only, line);
        s->ids.id[at] = s->mask;
        MEGA_TRY(st);
        mega_buffer_puts(line, "}");
    }
    return MEGA_OK;
}

static mega_status fill_print(fill_session *s, const mega_filling *best)
{
    const char *text = s->text.data;
    mega_buffer line = {0};
    mega_status st = MEGA_OK;
    for (int64_t i = 0; i < s->count && st == MEGA_OK; i++, text += strlen(text) + 1) {
        int64_t masks = 0, done = 0;
        for (int64_t k = s->begin[i]; k < s->begin[i + 1]; k++) masks += s->ids.id[k] == s->mask;
        line.size = 0;
        mega_buffer_puts(&line, "{\"text\":");
        st = put_string(text, strlen(text), &line);
        mega_buffer_puts(&line, ",\"masks\":[");
        for (int64_t k = s->begin[i]; k < s->begin[i + 1] && st == MEGA_OK; k++) {
            if (s->ids.id[k] != s->mask) continue;
            mega_buffer_puts(&line, done++ > 0 ? ",[" : "[");
            st = put_mask(s, i, k, masks == 1, best, &line);
            mega_buffer_puts(&line, "]");
            best += s->top;
        }
        if (st == MEGA_OK) st = mega_buffer_check(&line, "a line of fill_mask");
        if (st == MEGA_OK) printf("%s]}\n", line.data);
    }
    mega_buffer_fini(&line);
    return st;
}

/* ---- the command ---- */

static mega_status fill_load(fill_session *s)
{
    enum { TEXTS = 8, MASKS = 8 };
    const int64_t given = s->cfg->train.engine.optim.micro_batch_size, texts = given > 0 ? given : TEXTS;
    const mega_pretrained_sizes sizes = {.mode = MEGA_EVAL,
                                         .samples = texts < s->count ? texts : s->count,
                                         .positions = s->longest,
                                         .masks = s->most < MASKS ? s->most : MASKS};
    return mega_pretrained_load(&s->loaded.model, &sizes);
}

static mega_status fill_all(fill_session *s)
{
    const mega_masked_texts texts = {.tokens = s->ids.id,
                                     .begin = s->begin,
                                     .count = s->count,
                                     .top = s->top,
                                     .targets = s->targets.count > 0 ? s->targets.id : NULL,
                                     .num_targets = s->targets.count};
    mega_filler *f = NULL;
    mega_filling *best = mega_calloc((size_t)(s->masks * s->top), sizeof *best);
    mega_status st = best != NULL ? MEGA_OK : MEGA_NO_MEMORY("fill_mask", "the tokens of its masks");
    if (st == MEGA_OK) st = mega_filler_create(&s->loaded.model, s->loaded.tokenizer, &f);
    st = mega_cli_agree(s->world, st);
    if (st == MEGA_OK) st = mega_filler_run(f, &texts, best, s->masks * s->top);
    if (st == MEGA_OK) st = fill_print(s, best);
    mega_filler_destroy(f);
    mega_free(best);
    return st;
}

static mega_status fill_run(fill_session *s)
{
    MEGA_TRY(mega_loaded_open(s->cfg, s->world, &s->loaded));
    mega_status st = mega_loaded_need_tokenizer(&s->loaded);
    if (st == MEGA_OK) st = mega_filler_find_mask(s->loaded.tokenizer, &s->mask);
    if (st == MEGA_OK) st = take_all(s);
    MEGA_TRY(mega_cli_agree(s->world, st));
    if (s->count == 0) return MEGA_FAIL(MEGA_ERR_FORMAT, "--input %s: it holds no text", s->cfg->embed.input);
    if (s->cfg->train.dry_run) {
        mega_cli_dry_run("%lld texts would be filled by %s", (long long)s->count, s->loaded.model.folder);
        return MEGA_OK;
    }
    MEGA_TRY(fill_load(s));
    return mega_cli_agree(s->world, fill_all(s));
}

static mega_status fill_run_on(mega_world *world, mega_command_options *cfg)
{
    fill_session s = {.cfg = cfg, .world = world};
    const mega_status st = mega_cli_agree(world, fill_run(&s));
    mega_loaded_close(&s.loaded);
    mega_buffer_fini(&s.text);
    mega_ids_fini(&s.ids);
    mega_ids_fini(&s.targets);
    mega_free(s.begin);
    return st;
}

int mega_command_fill_mask(int argc, char **argv)
{
    return mega_cli_on_ranks("fill_mask", "the command ends after the instruction under way, without a result", argc,
                             argv, fill_run_on);
}
