/* Writes tokenizer.json and tokenizer_config.json for a plain file of another library (vocab.txt, a SentencePiece
 * model) and the tokens that Megatron's classes append to it: `transformers` would take the file alone, without these
 * tokens and their roles. */
#include "base64.h"
#include "megalith/json_cursor.h"
#include "tokenizer_impl.h"
#include "tokenizer_json.h"
#include <string.h>

static const char *const role_keys[MEGA_MADE_ROLES] = {"unk_token",  "cls_token", "sep_token", "pad_token",
                                                       "mask_token", "bos_token", "eos_token"};

static void put_token(mega_buffer *out, const mega_tokenizer *t, int64_t id)
{
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    mega_json_quote(out, mega_token_bytes(&t->vocabulary, token), token->size);
}

static int32_t role_id(const mega_tokenizer *t, const char *name)
{
    const int32_t id = name == NULL ? -1 : mega_vocabulary_find(&t->vocabulary, name, strlen(name), false);
    return id >= 0 || name == NULL ? id : mega_vocabulary_find(&t->vocabulary, name, strlen(name), true);
}

/* A T5 takes no types of tokens. */
static void put_config(mega_buffer *out, const mega_tokenizer *t, const mega_made *m)
{
    mega_buffer_printf(out, "{\n%s  \"tokenizer_class\": \"%s\",\n", m->more, m->class);
    for (int i = 0; i < MEGA_MADE_ROLES; i++) {
        const int32_t id = role_id(t, m->role[i]);
        if (id < 0) continue;
        mega_buffer_printf(out, "  \"%s\": ", role_keys[i]);
        put_token(out, t, id);
        mega_buffer_puts(out, ",\n");
    }
    for (int64_t i = 0; i < m->extra_ids; i++)
        mega_buffer_printf(out, "%s\"<extra_id_%lld>\"%s", i == 0 ? "  \"additional_special_tokens\": [" : ", ",
                           (long long)i, i + 1 == m->extra_ids ? "],\n" : "");
    if (!m->around) mega_buffer_puts(out, "  \"model_input_names\": [\"input_ids\", \"attention_mask\"],\n");
    mega_buffer_printf(out, "  \"megalith_tokenizer_type\": \"%s\",\n  \"megalith_extra_ids\": %lld\n}\n",
                       mega_tokenizer_type(t), (long long)m->extra_ids);
}

static void made_put_added(mega_buffer *out, const mega_tokenizer *t)
{
    const char *between = "";
    for (int i = 0; i < t->num_added; i++) {
        const mega_added_token *a = &t->added[i];
        int first = 0;
        while (t->added[first].id != a->id) first++;
        if (first < i) continue;
        mega_buffer_puts(out, between);
        mega_json_put_added(out, a->content, a->size, a->id, false, a->special);
        between = ",";
    }
}

#define MARK          "\xE2\x96\x81"
#define REGEX(from)   "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" from "\"},\"content\":"
#define STRING(from)  "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":"
#define WORDS_DECODER "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"

static void put_bert_steps(mega_buffer *out, const mega_tokenizer *t, const mega_made *m)
{
    const char *lower = t->pipe->bert->rules.lower ? "true" : "false";
    mega_buffer_printf(
        out,
        "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
        "\"strip_accents\":%s,\"lowercase\":%s},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}," WORDS_DECODER
        "\"post_processor\":",
        lower, lower);
    if (!m->around) {
        mega_buffer_puts(out, "null,");
        return;
    }
    mega_buffer_puts(out, "{\"type\":\"BertProcessing\",\"cls\":[");
    put_token(out, t, role_id(t, m->role[MEGA_MADE_CLS]));
    mega_buffer_printf(out, ",%d],\"sep\":[", role_id(t, m->role[MEGA_MADE_SEP]));
    put_token(out, t, role_id(t, m->role[MEGA_MADE_SEP]));
    mega_buffer_printf(out, ",%d]},", role_id(t, m->role[MEGA_MADE_SEP]));
}

/* \A and \z: for `tokenizers`, ^ and $ are the ends of a line. */
static void put_piece_steps(mega_buffer *out, const mega_pipeline *p, const mega_made *m)
{
    mega_buffer_puts(out, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (m->charsmap_size > 0) {
        mega_buffer_puts(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        mega_base64_write(m->charsmap, m->charsmap_size, out);
        mega_buffer_puts(out, "\"},");
    }
    if (p->remove_extra) mega_buffer_puts(out, REGEX("\\\\A +| +\\\\z") "\"\"}," REGEX(" {2,}") "\" \"},");
    if (p->dummy_prefix) mega_buffer_puts(out, "{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},");
    mega_buffer_puts(out, STRING(" ") "\"" MARK "\"}]},\"pre_tokenizer\":null,\"post_processor\":null,"
                                      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" STRING(MARK) "\" \"},");
    if (p->byte_fallback) mega_buffer_puts(out, "{\"type\":\"ByteFallback\"},");
    mega_buffer_puts(out, "{\"type\":\"Fuse\"}");
    if (p->dummy_prefix) mega_buffer_puts(out, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    mega_buffer_puts(out, "]},");
}

/* Unigram has a list of pairs, the others have an object. */
static void made_put_vocabulary(mega_buffer *out, const mega_tokenizer *t)
{
    const mega_pipeline *p = t->pipe;
    const bool list = p->model == MEGA_MODEL_UNIGRAM;
    const char *between = list ? "[" : "";
    mega_buffer_puts(out, list ? "\"vocab\":[" : "\"vocab\":{");
    for (int64_t id = 0; id < t->vocabulary.size; id++) {
        if (mega_vocabulary_get(&t->vocabulary, id) == NULL) continue;
        mega_buffer_puts(out, between);
        put_token(out, t, id);
        if (list) mega_buffer_printf(out, ",%.17g]", id < p->scores ? p->score[id] : 0.0);
        else
            mega_buffer_printf(out, ":%lld", (long long)id);
        between = list ? ",[" : ",";
    }
    mega_buffer_puts(out, list ? "]" : "}");
}

/* Megatron's BPE has no dropout; what spells no piece is one unknown token for all of it. */
static void put_model(mega_buffer *out, const mega_tokenizer *t)
{
    const mega_pipeline *p = t->pipe;
    const char *fallback = p->byte_fallback ? "true" : "false";
    if (p->model == MEGA_MODEL_UNIGRAM) {
        mega_buffer_printf(out, "\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"byte_fallback\":%s,", p->unknown,
                           fallback);
        made_put_vocabulary(out, t);
        mega_buffer_puts(out, "}");
        return;
    }
    mega_buffer_printf(
        out, "\"model\":{\"type\":\"%s\",\"unk_token\":", p->model == MEGA_MODEL_WORDPIECE ? "WordPiece" : "BPE");
    put_token(out, t, p->unknown);
    if (p->model == MEGA_MODEL_WORDPIECE)
        mega_buffer_printf(out, ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":%lld,",
                           (long long)p->longest_word);
    else
        mega_buffer_printf(out,
                           ",\"dropout\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                           "\"fuse_unk\":true,\"byte_fallback\":%s,\"ignore_merges\":false,",
                           fallback);
    made_put_vocabulary(out, t);
    for (int64_t i = 0; i < t->merges.count && p->model == MEGA_MODEL_BPE; i++) {
        mega_buffer_puts(out, i == 0 ? ",\"merges\":[[" : ",[");
        put_token(out, t, t->merges.list[i].left);
        mega_buffer_puts(out, ",");
        put_token(out, t, t->merges.list[i].right);
        mega_buffer_puts(out, i + 1 == t->merges.count ? "]]" : "]");
    }
    if (p->model == MEGA_MODEL_BPE && t->merges.count == 0) mega_buffer_puts(out, ",\"merges\":[]");
    mega_buffer_puts(out, "}");
}

mega_status mega_tokenizer_keep_made(mega_tokenizer *t, const mega_made *m)
{
    mega_buffer config = {0}, json = {0};
    put_config(&config, t, m);
    mega_buffer_puts(&json, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
    made_put_added(&json, t);
    mega_buffer_puts(&json, "],");
    if (t->pipe->model == MEGA_MODEL_WORDPIECE) put_bert_steps(&json, t, m);
    else
        put_piece_steps(&json, t->pipe, m);
    put_model(&json, t);
    mega_buffer_puts(&json, "}\n");
    mega_status st = mega_buffer_check(&config, t->name);
    if (st == MEGA_OK) st = mega_buffer_check(&json, t->name);
    if (st != MEGA_OK) {
        mega_buffer_fini(&config);
        mega_buffer_fini(&json);
        return st;
    }
    mega_tokenizer_keep(t, "tokenizer_config.json", config.data, config.size);
    mega_tokenizer_keep(t, "tokenizer.json", json.data, json.size);
    return MEGA_OK;
}
