/* Reads the vocabulary of BERT, one token a line, as Megatron's BertWordPiece* and as the folders of `transformers`
 * that have nothing else. */
#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json_cursor.h"
#include "megalith/utf8.h"
#include "tokenizer_impl.h"
#include "tokenizer_json.h"
#include "unicode/unicode.h"
#include <stdio.h>
#include <string.h>

typedef struct vocab_lines {
    const char *text;
    size_t size, at;
    bool megatron;    /* as Python reads and strips lines, else as `tokenizers` */
    const char *line; /* without the white space around it, or after it */
    size_t n;
} vocab_lines;

static bool is_white(const vocab_lines *l, uint32_t cp)
{
    return unicode_class(cp) == MEGA_CLASS_SPACE || (l->megatron && cp >= 0x1C && cp <= 0x1F);
}

static bool bert_next_line(vocab_lines *l)
{
    if (l->at >= l->size) return false;
    const char *begin = l->text + l->at, *end = begin, *const last = l->text + l->size;
    while (end < last && *end != '\n' && (*end != '\r' || !l->megatron)) end++;
    l->at += (size_t)(end - begin) + (end + 1 < last && end[0] == '\r' && end[1] == '\n' ? 2 : 1);
    for (size_t size; end > begin; end -= size) {
        uint32_t cp = 0;
        for (size = 1; (size_t)(end - begin) > size && size < 4 && ((uint8_t) * (end - size) & 0xC0) == 0x80;) size++;
        if (mega_utf8_decode((const uint8_t *)end - size, size, &cp) != (int)size || !is_white(l, cp)) break;
    }
    while (l->megatron && begin < end) {
        uint32_t cp = 0;
        const int size = mega_utf8_decode((const uint8_t *)begin, (size_t)(end - begin), &cp);
        if (size == 0 || !is_white(l, cp)) break;
        begin += size;
    }
    l->line = begin;
    l->n = (size_t)(end - begin);
    return true;
}

static mega_status check_utf8(const char *path, const char *text, size_t size)
{
    const size_t valid = mega_utf8_valid_bytes(text, size);
    if (valid == size && size > 0) return MEGA_OK;
    if (size == 0) return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: it is empty; expected one token a line", path);
    int64_t line = 1;
    for (size_t i = 0; i < valid; i++) line += text[i] == '\n';
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s line %lld: it is not UTF-8; expected a vocabulary with one token a line",
                     path, (long long)line);
}

/* Adds the tokens of the lines from the last to the first: of equal ones the last counts, as in both originals, and the
 * numbers of the others are gaps. */
static mega_status add_lines(mega_vocabulary *v, const char *path, const mega_span *line, int64_t count)
{
    for (int64_t id = count - 1; id >= 0; id--) {
        const char *text = (const char *)line[id].text;
        if (mega_vocabulary_find(v, text, line[id].n, false) >= 0) continue;
        const mega_status st = mega_vocabulary_add(v, text, line[id].n, id, 0);
        if (st == MEGA_OK) continue;
        MEGA_CONTEXT("%s line %lld", path, (long long)id + 1);
        return st;
    }
    return MEGA_OK;
}

static mega_status bert_read_lines(mega_vocabulary *v, const char *path, const char *text, size_t size, bool megatron)
{
    vocab_lines l = {.text = text, .size = size, .megatron = megatron};
    mega_span *line = NULL;
    int64_t count = 0, capacity = 0;
    MEGA_TRY(check_utf8(path, text, size));
    MEGA_TRY(mega_encoding_refuse_mark(path, text, size));
    while (bert_next_line(&l)) {
        if (!mega_array_reserve(&line, &capacity, count + 1, sizeof *line)) {
            mega_free(line);
            return MEGA_NO_MEMORY(path, "its lines");
        }
        line[count++] = (mega_span){(const uint8_t *)l.line, l.n};
    }
    const mega_status st = add_lines(v, path, line, count);
    mega_free(line);
    return st;
}

/* Adds a special token; one that the file does not have gets the next id. */
static mega_status add_role(mega_tokenizer *t, const char *name)
{
    int32_t id = mega_vocabulary_find(&t->vocabulary, name, strlen(name), false);
    if (id < 0) {
        id = (int32_t)t->vocabulary.size;
        MEGA_TRY(mega_vocabulary_add(&t->vocabulary, name, strlen(name), id, 0));
    }
    return mega_tokenizer_add_token(t, name, strlen(name), id, true, false);
}

static mega_status add_roles(mega_tokenizer *t, const char *path, int64_t extra_ids)
{
    static const char *const roles[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[BOS]", "[EOS]"};
    enum { NEEDED = 5 };
    char name[40];
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (i < NEEDED && mega_vocabulary_find(&t->vocabulary, roles[i], strlen(roles[i]), false) < 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT,
                             "%s: it has no token %s; expected the vocabulary of BERT, one token a line, with [UNK], "
                             "[CLS], [SEP], [PAD] and [MASK]",
                             path, roles[i]);
        MEGA_TRY(add_role(t, roles[i]));
    }
    for (int64_t i = 0; i < extra_ids; i++) {
        snprintf(name, sizeof name, "<extra_id_%lld>", (long long)i);
        MEGA_TRY(add_role(t, name));
    }
    return MEGA_OK;
}

static mega_status make_steps(mega_pipeline *p, bool lower)
{
    const mega_bert_rules rules = {.clean = true, .chinese = true, .strip = lower, .lower = lower, .megatron = true};
    if (!mega_array_add(&p->normalize, 0, sizeof *p->normalize) || !mega_array_add(&p->pre, 0, sizeof *p->pre))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "BERT's tokenizer: no memory");
    p->normalize[p->num_normalize++] = (mega_normalize_step){.kind = MEGA_NORMALIZE_BERT};
    p->pre[p->num_pre++] = (mega_pre_step){.kind = MEGA_PRE_BERT};
    p->decoder.wordpiece = p->decoder.cleanup = p->decoder.whole = true;
    MEGA_TRY(mega_text_set(&p->inner, "##", 2));
    MEGA_TRY(mega_text_set(&p->decoder.prefix, "##", 2));
    return mega_bert_create(&rules, &p->bert);
}

/* `<extra_id_N>` are those of a T5, whose texts have nothing around them. */
static mega_status bert_keep_text(mega_tokenizer *t, int64_t extra_ids, char **text, size_t size)
{
    const bool t5 = extra_ids > 0;
    const mega_made made = {.class = t5 ? "PreTrainedTokenizerFast" : "BertTokenizer",
                            .more = t->pipe->bert->rules.lower ? "  \"do_lower_case\": true,\n"
                                                               : "  \"do_lower_case\": false,\n",
                            .role = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[BOS]", "[EOS]"},
                            .extra_ids = extra_ids,
                            .around = !t5};
    MEGA_TRY(mega_tokenizer_keep_made(t, &made));
    mega_tokenizer_keep(t, "vocab.txt", *text, size);
    *text = NULL;
    return MEGA_OK;
}

static mega_status bert_fill_vocabulary(mega_tokenizer *t, const char *path, int64_t extra_ids, char **text,
                                        size_t size)
{
    enum { LONGEST_WORD = 200 };
    mega_pipeline *p = t->pipe = mega_calloc(1, sizeof *p);
    if (p == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", path);
    p->model = MEGA_MODEL_WORDPIECE;
    p->longest_word = LONGEST_WORD;
    MEGA_TRY(make_steps(p, t->kind == MEGA_KIND_BERT_LOWER));
    MEGA_TRY(bert_read_lines(&t->vocabulary, path, *text, size, true));
    MEGA_TRY(mega_pipeline_build_trie(p, &t->vocabulary));
    MEGA_TRY(add_roles(t, path, extra_ids));
    p->unknown = mega_vocabulary_find(&t->vocabulary, "[UNK]", 5, false);
    MEGA_TRY(bert_keep_text(t, extra_ids, text, size));
    return mega_tokenizer_finish(t);
}

mega_status mega_tokenizer_read_bert_text(const char *path, mega_tokenizer_kind kind, int64_t extra_ids, char **text,
                                          size_t size, mega_tokenizer **out)
{
    mega_tokenizer *t = NULL;
    mega_status st = mega_tokenizer_begin(kind, path, &t);
    if (st == MEGA_OK) st = bert_fill_vocabulary(t, path, extra_ids, text, size);
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    return st;
}

/* What a folder says of its tokenizer; `transformers` has these defaults. */
typedef struct bert_config {
    const char *text[5]; /* by role */
    bool lower, chinese;
    int strip; /* -1: as lower */
} bert_config;

static const char *const role_keys[] = {"unk_token", "cls_token", "sep_token", "pad_token", "mask_token"};
enum { UNK, CLS, SEP, ROLES = 5 };

static void bert_put_text(mega_buffer *out, const char *before, const char *text, const char *after)
{
    mega_buffer_puts(out, before);
    mega_json_quote(out, text, strlen(text));
    mega_buffer_puts(out, after);
}

/* Writes the vocabulary; of equal lines the last counts. Finds the ids of the roles. */
static mega_status put_vocabulary(mega_buffer *out, const char *path, const char *text, size_t size,
                                  const bert_config *config, int64_t id_of[ROLES])
{
    mega_vocabulary v = {0};
    const mega_status st = bert_read_lines(&v, path, text, size, false);
    const char *between = "";
    for (int64_t id = 0; id < v.size && st == MEGA_OK; id++) {
        const mega_token *token = mega_vocabulary_get(&v, id);
        if (token == NULL) continue;
        mega_buffer_puts(out, between);
        mega_json_quote(out, mega_token_bytes(&v, token), token->size);
        mega_buffer_printf(out, ":%lld", (long long)id);
        between = ",";
    }
    for (int i = 0; i < ROLES && st == MEGA_OK; i++)
        id_of[i] = mega_vocabulary_find(&v, config->text[i], strlen(config->text[i]), false);
    mega_vocabulary_fini(&v);
    return st;
}

/* Writes what `transformers` makes of such a folder as a tokenizer.json. */
static mega_status put_json(mega_buffer *out, const char *path, const char *text, size_t size, const bert_config *c)
{
    int64_t id_of[ROLES] = {-1, -1, -1, -1, -1};
    bert_put_text(out, "{\"version\":\"1.0\",\"model\":{\"type\":\"WordPiece\",\"unk_token\":", c->text[UNK],
                  ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{");
    MEGA_TRY(put_vocabulary(out, path, text, size, c, id_of));
    mega_buffer_printf(out,
                       "}},\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":%s,"
                       "\"strip_accents\":%s,\"lowercase\":%s},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
                       "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"added_tokens\":[",
                       c->chinese ? "true" : "false",
                       c->strip < 0   ? "null"
                       : c->strip > 0 ? "true"
                                      : "false",
                       c->lower ? "true" : "false");
    for (int i = 0; i < ROLES; i++) {
        if (id_of[i] < 0)
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "%s: it has no token %s, which is the %s; expected the vocabulary of BERT, one token a line", path,
                c->text[i], role_keys[i]);
        if (i > 0) mega_buffer_puts(out, ",");
        mega_json_put_added(out, c->text[i], strlen(c->text[i]), id_of[i], false, true);
    }
    mega_buffer_puts(out, "],\"post_processor\":{\"type\":\"BertProcessing\",");
    bert_put_text(out, "\"cls\":[", c->text[CLS], "");
    mega_buffer_printf(out, ",%lld],", (long long)id_of[CLS]);
    bert_put_text(out, "\"sep\":[", c->text[SEP], "");
    mega_buffer_printf(out, ",%lld]}}\n", (long long)id_of[SEP]);
    return mega_buffer_check(out, path);
}

mega_status mega_bert_json(const char *path, bool lower, const char *text, size_t size, mega_buffer *out)
{
    const bert_config c = {
        .text = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"}, .lower = lower, .chinese = true, .strip = -1};
    return put_json(out, path, text, size, &c);
}

static mega_status bert_read_folder(const char *vocab, const mega_folder_rules *rules, mega_buffer *out)
{
    static const mega_role roles[ROLES] = {MEGA_ROLE_UNK, MEGA_ROLE_CLS, MEGA_ROLE_SEP, MEGA_ROLE_PAD, MEGA_ROLE_MASK};
    bert_config c = {.lower = rules->lower != 0, .chinese = rules->chinese != 0, .strip = rules->strip};
    char *text = NULL;
    size_t size;
    for (int i = 0; i < ROLES; i++) {
        c.text[i] = rules->role[roles[i]].token.content;
        if (c.text[i] == NULL)
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: %s: a BERT without this token is not supported",
                             rules->role[roles[i]].source, role_keys[i]);
    }
    MEGA_TRY(mega_file_read_kind(vocab, "a vocabulary", 0, &text, &size));
    const mega_status st = put_json(out, vocab, text, size, &c);
    mega_free(text);
    return st;
}

mega_status mega_tokenizer_read_bert_folder(const char *vocab, const mega_folder_rules *rules, mega_tokenizer **out)
{
    mega_buffer json = {0};
    mega_status st = mega_rules_check_class(rules, MEGA_CLASS_BERT, vocab);
    if (st == MEGA_OK) st = bert_read_folder(vocab, rules, &json);
    if (st == MEGA_OK) st = mega_tokenizer_read_json_text(vocab, rules, &json.data, json.size, out);
    mega_buffer_fini(&json);
    return st;
}
