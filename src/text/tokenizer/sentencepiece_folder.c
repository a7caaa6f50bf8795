/* Folders of `transformers` with a SentencePiece model and no tokenizer.json: of T5, mT5, XLM-RoBERTa, Llama and Gemma.
 * They are read as `transformers` reads them, which makes a tokenizer.json of the model's pieces. */
#include "base64.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json_cursor.h"
#include "protobuf.h"
#include "tokenizer_impl.h"
#include "tokenizer_json.h"
#include <stdio.h>
#include <string.h>

enum { PIECE_CONTROL = 3, PIECE_USER = 4, UNIGRAM = 1 };

typedef struct folder_piece {
    mega_field text;
    float score;
    uint64_t type;
} folder_piece;

typedef struct folder_model {
    const char *path;
    folder_piece *piece;
    int64_t pieces, extra_ids;
    mega_field charsmap;
    uint64_t type;
    int32_t unk, bos, eos; /* negative: none */
    bool byte_fallback;
    bool xlm_roberta;
} folder_model;

static mega_status spm_folder_read_piece(folder_model *m, mega_message spec)
{
    mega_field f;
    if (!mega_array_add(&m->piece, m->pieces, sizeof *m->piece)) return MEGA_NO_MEMORY(m->path, "its pieces");
    folder_piece *p = &m->piece[m->pieces++];
    *p = (folder_piece){.type = 1};
    while (mega_message_next(&spec, &f)) {
        if (f.number == 1 && f.wire == MEGA_WIRE_BYTES) p->text = f;
        if (f.number == 3) p->type = f.value;
        if (f.number == 2 && f.wire == MEGA_WIRE_32) memcpy(&p->score, &(uint32_t){(uint32_t)f.value}, sizeof p->score);
    }
    return spec.damaged || p->text.size == 0 ? MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found a damaged piece", m->path)
                                             : MEGA_OK;
}

static void spm_folder_read_setting(folder_model *m, const mega_field *f)
{
    if (f->number == 3) m->type = f->value;
    if (f->number == 35) m->byte_fallback = f->value != 0;
    if (f->number == 40) m->unk = (int32_t)f->value;
    if (f->number == 41) m->bos = (int32_t)f->value;
    if (f->number == 42) m->eos = (int32_t)f->value;
}

static mega_status spm_folder_read_model(folder_model *m, const char *text, size_t size)
{
    mega_message model = {.bytes = (const uint8_t *)text, .size = size};
    mega_field f, inner;
    m->type = UNIGRAM;
    while (mega_message_next(&model, &f)) {
        if (f.wire != MEGA_WIRE_BYTES) continue;
        mega_message in = mega_message_in(&f);
        if (f.number == 1) MEGA_TRY(spm_folder_read_piece(m, in));
        while ((f.number == 2 || f.number == 3) && mega_message_next(&in, &inner)) {
            if (f.number == 2) spm_folder_read_setting(m, &inner);
            if (f.number == 3 && inner.number == 2 && inner.wire == MEGA_WIRE_BYTES) m->charsmap = inner;
        }
    }
    if (model.damaged || m->pieces < 4)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found a damaged file, expected a SentencePiece model", m->path);
    return MEGA_OK;
}

static mega_status need_unigram(const folder_model *m)
{
    return m->type == UNIGRAM
               ? MEGA_OK
               : MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: its model_type is not UNIGRAM, as that of T5 and XLM-RoBERTa is",
                           m->path);
}

static void put_scored(mega_buffer *out, const char *text, size_t n, double score)
{
    mega_buffer_puts(out, out->data[out->size - 1] == '[' ? "[" : ",[");
    mega_json_quote(out, text, n);
    mega_buffer_printf(out, ",%.17g]", score);
}

static void put_added(mega_buffer *out, const char *text, size_t n, int64_t id, bool special)
{
    if (out->data[out->size - 1] != '[') mega_buffer_puts(out, ",");
    mega_json_put_added(out, text, n, id, false, special);
}

static const char *const roles[][4] = {{"<pad>", "</s>", "<unk>"}, {"<s>", "<pad>", "</s>", "<unk>"}};

/* XLM-RoBERTa has its own four tokens in place of the model's first three. */
static mega_status spm_folder_put_vocabulary(mega_buffer *out, const folder_model *m)
{
    const int own = m->xlm_roberta ? 4 : 3;
    char name[40];
    for (int i = 0; i < own; i++) {
        const mega_field *f = &m->piece[i].text;
        if (!m->xlm_roberta && (f->size != strlen(roles[0][i]) || memcmp(f->bytes, roles[0][i], f->size) != 0))
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: piece %d is '%.*s', expected %s, as in T5 and mT5", m->path, i,
                             f->size > 60 ? 60 : (int)f->size, (const char *)f->bytes, roles[0][i]);
        put_scored(out, roles[m->xlm_roberta][i], strlen(roles[m->xlm_roberta][i]), 0);
    }
    for (int64_t i = 3; i < m->pieces; i++)
        put_scored(out, (const char *)m->piece[i].text.bytes, m->piece[i].text.size, (double)m->piece[i].score);
    if (m->xlm_roberta) put_scored(out, "<mask>", 6, 0);
    for (int64_t i = m->extra_ids - 1; i >= 0 && !m->xlm_roberta; i--)
        put_scored(out, name, (size_t)snprintf(name, sizeof name, "<extra_id_%lld>", (long long)i), 0);
    return MEGA_OK;
}

static void spm_folder_put_tokens(mega_buffer *out, const folder_model *m)
{
    const int own = m->xlm_roberta ? 4 : 3;
    char name[40];
    for (int i = 0; i < own; i++) put_added(out, roles[m->xlm_roberta][i], strlen(roles[m->xlm_roberta][i]), i, true);
    for (int64_t i = 3; i < m->pieces; i++)
        if (m->piece[i].type == PIECE_CONTROL || m->piece[i].type == PIECE_USER)
            put_added(out, (const char *)m->piece[i].text.bytes, m->piece[i].text.size, i + m->xlm_roberta,
                      m->piece[i].type == PIECE_CONTROL);
    if (m->xlm_roberta) put_added(out, "<mask>", 6, m->pieces + 1, true);
    for (int64_t i = 0; i < m->extra_ids && !m->xlm_roberta; i++)
        put_added(out, name, (size_t)snprintf(name, sizeof name, "<extra_id_%lld>", (long long)i),
                  m->pieces + m->extra_ids - 1 - i, true);
}

#define METASPACE \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\",\"split\":true}"

#define TOKEN(name)     "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define ENTRY(name, id) "\"" name "\":{\"id\":\"" name "\",\"ids\":[" id "],\"tokens\":[\"" name "\"]}"
#define BEGIN           TOKEN("<s>") ","
#define END             "," TOKEN("</s>")
#define FIRST           "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define SECOND          "{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}"
#define PAIR            "],\"pair\":["
#define TOKENS          "],\"special_tokens\":{"

/* The tokens around a text, and around two: all that `tokenizers` wants to read, although one text is all that we
 * encode. */
static void put_template(mega_buffer *out, bool xlm_roberta)
{
    static const char t5[] = FIRST END PAIR FIRST END "," SECOND END TOKENS ENTRY("</s>", "1"),
                      xlm[] = BEGIN FIRST END PAIR BEGIN FIRST END END
                      "," SECOND END TOKENS ENTRY("<s>", "0") "," ENTRY("</s>", "2");
    mega_buffer_printf(out, ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s}}",
                       xlm_roberta ? xlm : t5);
}

static mega_status spm_folder_put_json(mega_buffer *out, const folder_model *m)
{
    mega_buffer_printf(out, "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"vocab\":[",
                       m->xlm_roberta ? 3 : 2);
    MEGA_TRY(mega_buffer_check(out, m->path));
    MEGA_TRY(spm_folder_put_vocabulary(out, m));
    mega_buffer_puts(out, "]},\"normalizer\":");
    if (m->charsmap.size > 0) {
        mega_buffer_puts(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        mega_base64_write(m->charsmap.bytes, m->charsmap.size, out);
        mega_buffer_puts(out, "\"}");
    } else {
        mega_buffer_puts(out, "null");
    }
    mega_buffer_puts(
        out, ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}," METASPACE
             "]},\"decoder\":" METASPACE);
    put_template(out, m->xlm_roberta);
    mega_buffer_puts(out, ",\"added_tokens\":[");
    spm_folder_put_tokens(out, m);
    mega_buffer_puts(out, "]}\n");
    return mega_buffer_check(out, m->path);
}

mega_status mega_sentencepiece_json(const char *name, const char *model, size_t size, int64_t extra_ids,
                                    mega_buffer *out)
{
    folder_model m = {.path = name, .extra_ids = extra_ids};
    mega_status st = spm_folder_read_model(&m, model, size);
    if (st == MEGA_OK) st = need_unigram(&m);
    if (st == MEGA_OK) st = spm_folder_put_json(out, &m);
    mega_free(m.piece);
    return st;
}

/* Control tokens and pieces of the user are added tokens, unless the folder lists such. */
static mega_status spm_folder_add_pieces(mega_folder_rules *r, const folder_model *m)
{
    for (int64_t i = 0; i < m->pieces && !r->has_extra; i++) {
        const folder_piece *p = &m->piece[i];
        const mega_rule_token token = {.content = (char *)(uintptr_t)p->text.bytes,
                                       .size = p->text.size,
                                       .id = -1,
                                       .special = p->type == PIECE_CONTROL};
        if (p->type == PIECE_CONTROL || p->type == PIECE_USER) MEGA_TRY(mega_rules_add(r, &token));
    }
    return MEGA_OK;
}

mega_status mega_tokenizer_read_sentencepiece_folder(const char *model, mega_folder_rules *rules, mega_tokenizer **out)
{
    folder_model m = {.path = model, .xlm_roberta = rules->class == MEGA_CLASS_XLMR, .extra_ids = rules->extra_ids};
    mega_buffer json = {0};
    char *text = NULL;
    size_t size;
    mega_status st = mega_rules_check_class(rules, MEGA_CLASS_T5, model);
    if (st == MEGA_OK && rules->class == MEGA_CLASS_ALBERT)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: %s: AlbertTokenizer is read from a tokenizer.json alone", model,
                       rules->class_source);
    if (st == MEGA_OK) st = mega_file_read_kind(model, "a model of SentencePiece", MEGA_KIND_BINARY, &text, &size);
    if (st == MEGA_OK) st = spm_folder_read_model(&m, text, size);
    if (st == MEGA_OK) st = need_unigram(&m);
    if (st == MEGA_OK) st = spm_folder_add_pieces(rules, &m);
    if (st == MEGA_OK) st = spm_folder_put_json(&json, &m);
    if (st == MEGA_OK) st = mega_tokenizer_read_json_text(model, rules, &json.data, json.size, out);
    mega_buffer_fini(&json);
    MEGA_FREE(m.piece, text);
    return st;
}

/* ---- tokenizer.model ---- */

static mega_status fill_vocabulary(mega_vocabulary *v, const folder_model *m)
{
    for (int64_t i = 0; i < m->pieces; i++) {
        const mega_field *f = &m->piece[i].text;
        const mega_status st = mega_vocabulary_add(v, (const char *)f->bytes, f->size, i, 0);
        if (st == MEGA_OK) continue;
        MEGA_CONTEXT("%s", m->path);
        return st;
    }
    return MEGA_OK;
}

/* Every division of a piece into two others is a merge, in the order of the pieces and of the left part's length. */
static void put_divisions(mega_buffer *out, const mega_vocabulary *v, const folder_model *m)
{
    for (int64_t i = 0; i < m->pieces; i++) {
        const char *text = (const char *)m->piece[i].text.bytes;
        const size_t n = m->piece[i].text.size;
        for (size_t at = 1; at < n; at++) {
            if (((uint8_t)text[at] & 0xC0) == 0x80 || mega_vocabulary_find(v, text, at, false) < 0 ||
                mega_vocabulary_find(v, text + at, n - at, false) < 0)
                continue;
            mega_buffer_puts(out, out->data[out->size - 1] == '[' ? "[" : ",[");
            mega_json_quote(out, text, at);
            mega_buffer_puts(out, ",");
            mega_json_quote(out, text + at, n - at);
            mega_buffer_puts(out, "]");
        }
    }
}

/* What `transformers` makes of a model that no class reads. */
static void put_plain_steps(mega_buffer *out, const folder_model *m)
{
    static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"%s\"},\"content\":\"%s\"}";
    static const char mark[] = "\xE2\x96\x81";
    mega_buffer_puts(out, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (m->charsmap.size > 0) {
        mega_buffer_puts(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        mega_base64_write(m->charsmap.bytes, m->charsmap.size, out);
        mega_buffer_puts(out, "\"},");
    }
    mega_buffer_printf(out, replace, " ", mark);
    mega_buffer_puts(out, "]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
    mega_buffer_printf(out, replace, mark, " ");
    mega_buffer_puts(out, m->byte_fallback ? ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}" : "]}");
}

static mega_status spm_folder_put_pieces(mega_buffer *out, const folder_model *m, const mega_folder_rules *r)
{
    mega_vocabulary v = {0};
    const bool is_plain = r->class == MEGA_CLASS_FILE;
    const mega_status st = fill_vocabulary(&v, m);
    mega_buffer_puts(out, "{\"model\":{\"type\":\"BPE\"");
    if (is_plain) {
        mega_buffer_printf(
            out, ",\"fuse_unk\":true,\"byte_fallback\":%s,\"unk_token\":", m->byte_fallback ? "true" : "false");
        mega_json_quote(out, (const char *)m->piece[m->unk].text.bytes, m->piece[m->unk].text.size);
    }
    mega_buffer_puts(out, ",\"vocab\":{");
    for (int64_t i = 0; i < m->pieces; i++) {
        mega_buffer_puts(out, i == 0 ? "" : ",");
        mega_json_quote(out, (const char *)m->piece[i].text.bytes, m->piece[i].text.size);
        mega_buffer_printf(out, ":%lld", (long long)i);
    }
    mega_buffer_puts(out, "},\"merges\":[");
    if (!out->failed) put_divisions(out, &v, m);
    mega_buffer_puts(out, "]}");
    if (is_plain) put_plain_steps(out, m);
    mega_buffer_puts(out, "}\n");
    mega_vocabulary_fini(&v);
    return st == MEGA_OK ? mega_buffer_check(out, m->path) : st;
}

static mega_status add_tokens(mega_folder_rules *r, const folder_model *m)
{
    static const char source[] = "tokenizer.model";
    const int64_t id[] = {m->bos, m->eos, m->unk};
    const mega_role role[] = {MEGA_ROLE_BOS, MEGA_ROLE_EOS, MEGA_ROLE_UNK};
    MEGA_TRY(spm_folder_add_pieces(r, m));
    for (int i = 0; i < 3 && r->class == MEGA_CLASS_FILE; i++)
        if (id[i] >= 0 && id[i] < m->pieces)
            MEGA_TRY(mega_rules_set_role(r, role[i], (const char *)m->piece[id[i]].text.bytes,
                                         m->piece[id[i]].text.size, source));
    return MEGA_OK;
}

static mega_status spm_folder_check_model(const folder_model *m, const mega_folder_rules *r)
{
    enum { BPE = 2 };
    if (r->class == MEGA_CLASS_FILE ? m->type != BPE : m->type != BPE && m->type != UNIGRAM)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s: its model_type is not BPE, which %s %s needs; save the tokenizer as "
                         "tokenizer.json",
                         m->path, r->class_source, r->class_name);
    if (m->unk < 0 || m->unk >= m->pieces)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: it has no piece for what is unknown", m->path);
    for (int i = 0; i < r->decoder.count && r->class == MEGA_CLASS_FILE && r->has_decoder; i++) {
        const mega_rule_token *t = &r->decoder.list[i];
        if (t->id >= m->pieces) continue;
        const mega_field *f = &m->piece[t->id].text;
        if (f->size != t->size || memcmp(f->bytes, t->content, t->size) != 0)
            return MEGA_FAIL(
                MEGA_ERR_UNSUPPORTED,
                "%s: added_tokens_decoder: id %lld is '%s', and another piece in tokenizer.model; save the "
                "tokenizer as tokenizer.json",
                r->config, (long long)t->id, t->content);
    }
    return MEGA_OK;
}

mega_status mega_tokenizer_read_model_folder(const char *model, mega_folder_rules *rules, mega_tokenizer **out)
{
    folder_model m = {.path = model, .bos = 1, .eos = 2};
    mega_buffer json = {0};
    char *text = NULL;
    size_t size;
    mega_status st = rules->class == MEGA_CLASS_FILE ? MEGA_OK : mega_rules_check_class(rules, MEGA_CLASS_LLAMA, model);
    if (st == MEGA_OK) st = mega_file_read_kind(model, "a model of SentencePiece", MEGA_KIND_BINARY, &text, &size);
    if (st == MEGA_OK) st = spm_folder_read_model(&m, text, size);
    if (st == MEGA_OK) st = spm_folder_check_model(&m, rules);
    if (st == MEGA_OK) st = add_tokens(rules, &m);
    if (st == MEGA_OK) st = spm_folder_put_pieces(&json, &m, rules);
    if (st == MEGA_OK) st = mega_tokenizer_read_json_text(model, rules, &json.data, json.size, out);
    mega_buffer_fini(&json);
    MEGA_FREE(m.piece, text);
    return st;
}
