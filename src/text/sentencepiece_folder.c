/* Folders of `transformers` with a SentencePiece model and no tokenizer.json: of T5, mT5 and XLM-RoBERTa. They are read as
 * `transformers` reads them, which makes a tokenizer.json of the model's pieces. */
#include "base64.h"
#include "json_cursor.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
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
    bool xlm_roberta;
    char class[64]; /* of tokenizer_config.json */
} folder_model;

static mega_status read_piece(folder_model *m, mega_message spec)
{
    mega_field f;
    if (!mega_array_add(&m->piece, m->pieces, sizeof *m->piece))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for its pieces", m->path);
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

static mega_status read_model(folder_model *m, const char *text, size_t size)
{
    mega_message model = {.bytes = (const uint8_t *)text, .size = size};
    mega_field f, inner;
    m->type = UNIGRAM;
    while (mega_message_next(&model, &f)) {
        if (f.wire != MEGA_WIRE_BYTES) continue;
        mega_message in = mega_message_in(&f);
        if (f.number == 1) MEGA_TRY(read_piece(m, in));
        while ((f.number == 2 || f.number == 3) && mega_message_next(&in, &inner)) {
            if (f.number == 2 && inner.number == 3) m->type = inner.value;
            if (f.number == 3 && inner.number == 2 && inner.wire == MEGA_WIRE_BYTES) m->charsmap = inner;
        }
    }
    if (model.damaged || m->pieces < 4)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found a damaged file, expected a SentencePiece model", m->path);
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
static mega_status put_vocabulary(mega_buffer *out, const folder_model *m)
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

static void put_tokens(mega_buffer *out, const folder_model *m)
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

/* The tokens around a text, and around two: all that `tokenizers` wants to read, although one text is all that we encode. */
static void put_template(mega_buffer *out, bool xlm_roberta)
{
    static const char t5[] = FIRST END PAIR FIRST END "," SECOND END TOKENS ENTRY("</s>", "1"),
                      xlm[] = BEGIN FIRST END PAIR BEGIN FIRST END END
                      "," SECOND END TOKENS ENTRY("<s>", "0") "," ENTRY("</s>", "2");
    mega_buffer_printf(out, ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s}}",
                       xlm_roberta ? xlm : t5);
}

static mega_status put_json(mega_buffer *out, const folder_model *m)
{
    mega_buffer_printf(out, "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"vocab\":[",
                       m->xlm_roberta ? 3 : 2);
    MEGA_TRY(mega_buffer_check(out, m->path));
    MEGA_TRY(put_vocabulary(out, m));
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
    put_tokens(out, m);
    mega_buffer_puts(out, "]}\n");
    return mega_buffer_check(out, m->path);
}

static mega_status read_config(folder_model *m, const char *path)
{
    static const char *const keys[] = {"tokenizer_class", "extra_ids"};
    char *text;
    size_t size, class = 0, extra = 0;
    m->extra_ids = 100;
    if (!mega_file_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_file_read_kind(path, "a file of a tokenizer", MEGA_KIND_BINARY, &text, &size));
    mega_cursor c;
    mega_cursor_init(&c, path, text, size);
    mega_status st = mega_json_members(&c, keys, (size_t *const[]){&class, &extra}, 2);
    c.at = class;
    if (st == MEGA_OK && class != 0) st = mega_cursor_string(&c);
    if (st == MEGA_OK && class != 0) snprintf(m->class, sizeof m->class, "%s", c.string.size > 0 ? c.string.data : "");
    c.at = extra;
    if (st == MEGA_OK && extra != 0) st = mega_cursor_int(&c, &m->extra_ids);
    mega_cursor_fini(&c);
    mega_free(text);
    m->xlm_roberta = strncmp(m->class, "XLMRobertaTokenizer", 19) == 0;
    if (st == MEGA_OK && m->class[0] != '\0' && !m->xlm_roberta && strncmp(m->class, "T5Tokenizer", 11) != 0 &&
        strncmp(m->class, "MT5Tokenizer", 12) != 0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s: its tokenizer_class is %s; a SentencePiece model is read for T5Tokenizer and "
                         "XLMRobertaTokenizer; save the tokenizer as tokenizer.json",
                         path, m->class);
    return st;
}

mega_status mega_sentencepiece_json(const char *name, const char *model, size_t size, int64_t extra_ids,
                                    mega_buffer *out)
{
    folder_model m = {.path = name, .extra_ids = extra_ids};
    mega_status st = read_model(&m, model, size);
    if (st == MEGA_OK) st = put_json(out, &m);
    mega_free(m.piece);
    return st;
}

mega_status mega_tokenizer_read_sentencepiece_folder(const char *model, const char *config, mega_tokenizer **out)
{
    folder_model m = {.path = model};
    mega_buffer json = {0};
    char *text = NULL;
    size_t size;
    mega_status st = read_config(&m, config);
    if (st == MEGA_OK) st = mega_file_read_kind(model, "a model of SentencePiece", MEGA_KIND_BINARY, &text, &size);
    if (st == MEGA_OK) st = read_model(&m, text, size);
    if (st == MEGA_OK) st = put_json(&json, &m);
    if (st == MEGA_OK) st = mega_tokenizer_read_json_text(model, &json.data, json.size, out);
    mega_buffer_fini(&json);
    mega_free(m.piece);
    mega_free(text);
    return st;
}
