/* Reads what a tokenizer.json says of its model and its template, and derives what encoding needs. */
#include "megalith/hash.h"
#include "tokenizer_json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Settings that a BPE model may not have, and what they are without effect. */
static mega_status check_setting(mega_cursor *c, const char *key)
{
    const bool text = strcmp(key, "dropout") != 0;
    const size_t at = c->at;
    if (mega_cursor_null(c)) return MEGA_OK;
    MEGA_TRY(mega_cursor_skip(c));
    const char *value = c->text + at;
    const size_t n = c->at - at;
    if (text ? c->string.size == 0 && value[0] == '"' : strspn(value, "0.") >= n) return MEGA_OK;
    return mega_cursor_fail(c, at, "model has %s %.*s, which is not supported; expected null", key,
                            n > 40 ? 40 : (int)n, value);
}

/* "unk_token", "continuing_subword_prefix", "max_input_chars_per_word" */
static mega_status read_wordpiece(json_reader *r)
{
    static const char *const keys[] = {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"};
    mega_pipeline *p = r->pipe;
    mega_text *const text[] = {&p->decoder.unknown, &p->inner};
    size_t at[3] = {0};
    r->c->at = r->layout->settings;
    MEGA_TRY(mega_json_members(r->c, keys, (size_t *const[]){&at[0], &at[1], &at[2]}, 3));
    for (int i = 0; i < 3; i++)
        if (at[i] == 0)
            return mega_cursor_fail(r->c, r->layout->model, "the model is of type WordPiece, but has no \"%s\"",
                                    keys[i]);
    for (int i = 0; i < 2; i++) {
        r->c->at = at[i];
        MEGA_TRY(mega_cursor_string(r->c));
        MEGA_TRY(mega_text_set(text[i], r->c->string.data, r->c->string.size));
    }
    r->c->at = at[2];
    MEGA_TRY(mega_cursor_int(r->c, &p->longest_word));
    if (p->longest_word >= 0) return MEGA_OK;
    return mega_cursor_fail(r->c, at[2], "\"%s\" is %lld; expected 0 or more", keys[2], (long long)p->longest_word);
}

/* ["token", -2.5] */
static mega_status read_scored(json_reader *r, double *score)
{
    bool first = true, more = false;
    MEGA_TRY(mega_cursor_open(r->c, '['));
    MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
    if (more) MEGA_TRY(mega_cursor_string(r->c));
    if (more) MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
    mega_cursor_peek(r->c);
    const size_t at = r->c->at;
    char *end = NULL;
    if (more) *score = strtod(r->c->text + at, &end);
    if (!more || end == r->c->text + at || !isfinite(*score))
        return mega_cursor_fail(r->c, at, "expected a token and its score, as in [\"the\", -3.5]");
    MEGA_TRY(mega_cursor_skip(r->c));
    MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
    return more ? mega_cursor_fail(r->c, at, "expected two items, a token and its score") : MEGA_OK;
}

/* "unk_id", "byte_fallback"; the vocabulary is a list of tokens and scores. */
static mega_status read_unigram(json_reader *r)
{
    static const char *const keys[] = {"unk_id", "byte_fallback"};
    mega_pipeline *p = r->pipe;
    size_t at[2] = {0};
    int64_t id = -1, capacity = 0;
    double least = INFINITY;
    r->c->at = r->layout->settings;
    MEGA_TRY(mega_json_members(r->c, keys, (size_t *const[]){&at[0], &at[1]}, 2));
    r->c->at = at[1];
    if (at[1] != 0) MEGA_TRY(mega_cursor_bool(r->c, &p->byte_fallback));
    r->c->at = r->layout->vocab;
    MEGA_TRY(mega_cursor_open(r->c, '['));
    for (bool first = true, more;;) {
        double score = 0;
        mega_vocabulary *v = &r->t->vocabulary;
        MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
        if (!more) break;
        mega_cursor_peek(r->c);
        const size_t place = r->c->at;
        MEGA_TRY(read_scored(r, &score));
        const mega_status st = mega_vocabulary_add(v, r->c->string.data, r->c->string.size, v->size, 0);
        if (st == MEGA_ERR_FORMAT) return mega_cursor_fail(r->c, place, "%s", mega_error_message());
        MEGA_TRY(st);
        if (!mega_array_reserve(&p->score, &capacity, v->size, sizeof *p->score))
            return MEGA_NO_MEMORY(r->c->name, "its scores");
        p->score[v->size - 1] = score;
        p->scores = v->size;
        least = score < least ? score : least;
    }
    if (p->scores == 0) return mega_cursor_fail(r->c, r->layout->vocab, "the vocabulary is empty");
    r->c->at = at[0];
    if (at[0] != 0) MEGA_TRY(mega_cursor_int(r->c, &id));
    if (at[0] != 0 && mega_vocabulary_get(&r->t->vocabulary, id) == NULL)
        return mega_cursor_fail(r->c, at[0], "unk_id %lld is not in the vocabulary", (long long)id);
    p->unknown = (int32_t)id;
    p->unknown_score = least - 10;
    return MEGA_OK;
}

mega_status mega_pipeline_read_model(json_reader *r)
{
    static const char *const keys[] = {
        "dropout",  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
        "unk_token"};
    mega_pipeline *p = r->pipe;
    if (p->model != MEGA_MODEL_BPE && p->byte_level)
        return mega_cursor_fail(r->c, r->layout->pre_tokenizer,
                                "pre_tokenizer ByteLevel with a model of type %s is not "
                                "supported",
                                r->layout->model_type);
    if (p->model == MEGA_MODEL_WORDPIECE) return read_wordpiece(r);
    if (p->model == MEGA_MODEL_UNIGRAM) return read_unigram(r);
    size_t at[7] = {0};
    bool *const flag[] = {&p->fuse_unknown, &p->byte_fallback, &p->ignore_merges};
    r->c->at = r->layout->settings;
    MEGA_TRY(
        mega_json_members(r->c, keys, (size_t *const[]){&at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6]}, 7));
    for (int i = 0; i < 3; i++) {
        r->c->at = at[i];
        if (at[i] != 0) MEGA_TRY(check_setting(r->c, keys[i]));
    }
    for (int i = 0; i < 3; i++) {
        r->c->at = at[3 + i];
        if (at[3 + i] != 0) MEGA_TRY(mega_cursor_bool(r->c, flag[i]));
    }
    r->text.size = 0;
    if (at[6] == 0) return MEGA_OK;
    r->c->at = at[6];
    MEGA_TRY(mega_cursor_string(r->c));
    return mega_text_set(&p->decoder.unknown, r->c->string.data, r->c->string.size);
}

static mega_status add_around(json_reader *r, size_t at, bool before, int64_t id)
{
    if (mega_vocabulary_get(&r->t->vocabulary, id) == NULL)
        return mega_cursor_fail(r->c, at, "a token of the template has id %lld, which no token has", (long long)id);
    return before ? mega_pipeline_add_prefix(r->pipe, (int32_t)id) : mega_pipeline_add_suffix(r->pipe, (int32_t)id);
}

/* Adds the ids of a special token of a template; its name is the last string that was read. */
static mega_status add_special(json_reader *r, size_t at, size_t table, bool before)
{
    static const char *const keys[] = {"ids"};
    size_t token = 0, ids = 0;
    r->text.size = 0;
    mega_buffer_append(&r->text, r->c->string.data, r->c->string.size);
    MEGA_TRY(mega_buffer_check(&r->text, r->c->name));
    if (table == 0) return mega_cursor_fail(r->c, at, "the template has no \"special_tokens\"");
    r->c->at = table;
    MEGA_TRY(mega_cursor_open(r->c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(r->c, '{', &first, &more));
        if (!more) break;
        MEGA_TRY(mega_cursor_key(r->c));
        mega_cursor_peek(r->c);
        if (r->c->string.size == r->text.size && memcmp(r->c->string.data, r->text.data, r->text.size) == 0)
            token = r->c->at;
        MEGA_TRY(mega_cursor_skip(r->c));
    }
    r->c->at = token;
    if (token != 0) MEGA_TRY(mega_json_members(r->c, keys, (size_t *const[]){&ids}, 1));
    if (ids == 0)
        return mega_cursor_fail(r->c, at, "the template's token '%s' is not in its \"special_tokens\"", r->text.data);
    r->c->at = ids;
    MEGA_TRY(mega_cursor_open(r->c, '['));
    for (bool first = true, more;;) {
        int64_t id;
        MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
        if (!more) return MEGA_OK;
        MEGA_TRY(mega_cursor_int(r->c, &id));
        MEGA_TRY(add_around(r, at, before, id));
    }
}

/* One item of a template: the text, or a special token before or after it. */
static mega_status read_item(json_reader *r, size_t table, bool *before)
{
    static const char *const keys[] = {"Sequence", "SpecialToken"}, *const inner[] = {"id"};
    size_t place[2] = {0}, id = 0;
    mega_cursor_peek(r->c);
    const size_t at = r->c->at;
    MEGA_TRY(mega_json_members(r->c, keys, (size_t *const[]){&place[0], &place[1]}, 2));
    const size_t end = r->c->at;
    r->c->at = place[0] != 0 ? place[0] : place[1];
    if (r->c->at == 0) return mega_cursor_fail(r->c, at, "expected \"Sequence\" or \"SpecialToken\" in a template");
    MEGA_TRY(mega_json_members(r->c, inner, (size_t *const[]){&id}, 1));
    if (id == 0) return mega_cursor_fail(r->c, at, "an item of a template has no \"id\"");
    r->c->at = id;
    MEGA_TRY(mega_cursor_string(r->c));
    if (place[1] != 0) {
        MEGA_TRY(add_special(r, at, table, *before));
    } else {
        if (!*before || !mega_cursor_string_is(r->c, "A"))
            return mega_cursor_fail(r->c, at, "a template for one text holds the text once, as \"A\"");
        *before = false;
    }
    r->c->at = end;
    return MEGA_OK;
}

static mega_status read_single(json_reader *r, size_t at)
{
    static const char *const keys[] = {"single", "special_tokens"};
    size_t single = 0, table = 0;
    bool before = true;
    r->c->at = at;
    MEGA_TRY(mega_json_members(r->c, keys, (size_t *const[]){&single, &table}, 2));
    if (single == 0) return mega_cursor_fail(r->c, at, "TemplateProcessing without \"single\"");
    r->c->at = single;
    if (mega_cursor_peek(r->c) != '[')
        return mega_cursor_fail(r->c, single, "expected the template as a list of \"Sequence\" and \"SpecialToken\"");
    MEGA_TRY(mega_cursor_open(r->c, '['));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
        if (!more) break;
        MEGA_TRY(read_item(r, table, &before));
    }
    return before ? mega_cursor_fail(r->c, single, "the template does not hold the text") : MEGA_OK;
}

/* ["</s>", 2] */
static mega_status read_pair(json_reader *r, size_t at, const char *key, bool before)
{
    size_t place = 0;
    bool first = true, more = false;
    int64_t id = -1;
    r->c->at = at;
    MEGA_TRY(mega_json_members(r->c, &key, (size_t *const[]){&place}, 1));
    if (place == 0) return mega_cursor_fail(r->c, at, "\"%s\" is missing", key);
    r->c->at = place;
    MEGA_TRY(mega_cursor_open(r->c, '['));
    MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
    if (more) MEGA_TRY(mega_cursor_string(r->c));
    if (more) MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
    if (more) MEGA_TRY(mega_cursor_int(r->c, &id));
    return add_around(r, place, before, id);
}

static mega_status read_post(json_reader *r, size_t at, const char *type)
{
    const mega_pipeline *p = r->pipe;
    if (strcmp(type, "ByteLevel") == 0) return MEGA_OK; /* it changes offsets only */
    if (p->num_prefix + p->num_suffix > 0)
        return mega_cursor_fail(r->c, at, "a second post_processor that adds tokens is not supported");
    if (strcmp(type, "TemplateProcessing") == 0) return read_single(r, at);
    if (strcmp(type, "RobertaProcessing") != 0 && strcmp(type, "BertProcessing") != 0)
        return mega_cursor_fail(r->c, at,
                                "post_processor %s is not supported; expected one of ByteLevel, TemplateProcessing, "
                                "RobertaProcessing, BertProcessing, Sequence",
                                type);
    MEGA_TRY(read_pair(r, at, "cls", true));
    return read_pair(r, at, "sep", false);
}

mega_status mega_pipeline_read_template(json_reader *r)
{
    if (r->says_around) {
        const int32_t before = r->before == MEGA_ROLES ? -1 : r->t->role[r->before];
        const int32_t after = r->after == MEGA_ROLES ? -1 : r->t->role[r->after];
        if (before >= 0) MEGA_TRY(mega_pipeline_add_prefix(r->pipe, before));
        return after < 0 ? MEGA_OK : mega_pipeline_add_suffix(r->pipe, after);
    }
    return mega_json_steps(r, r->layout->post_processor, "processors", read_post, 0);
}

/* Whether U+2581 follows another character in a token. */
static bool crosses_mark(const mega_vocabulary *v, int64_t id)
{
    static const char mark[] = "\xE2\x96\x81";
    const mega_token *token = mega_vocabulary_get(v, id);
    if (token == NULL) return false;
    const char *text = mega_token_bytes(v, token);
    size_t at = 0;
    while (token->size - at >= 3 && memcmp(text + at, mark, 3) == 0) at += 3;
    return memmem(text + at, token->size - at, mark, 3) != NULL;
}

static void note_neighbours(mega_pipeline *p, const uint8_t *token, size_t n)
{
    for (size_t i = 1; i < n; i++) p->joined[4 * token[i - 1] + token[i] / 64] |= UINT64_C(1) << token[i] % 64;
}

/* Writes a token with a blank for each mark; returns its size. */
static uint32_t pipeline_put_blanks(const char *token, size_t n, char *to)
{
    uint32_t size = 0;
    for (size_t i = 0; i < n; i++) {
        const bool mark = n - i >= 3 && memcmp(token + i, "\xE2\x96\x81", 3) == 0;
        to[size++] = (char)(mark ? ' ' : token[i]);
        i += mark ? 2 : 0;
    }
    return size;
}

/* The keys of the trie. With blanks for marks they are in `blanks`; a token that has a blank already is in no text
 * then. */
static int64_t find_keys(mega_pipeline *p, const mega_vocabulary *v, mega_trie_key *key, char *blanks)
{
    int64_t count = 0;
    for (int64_t id = 0; id < v->size; id++) {
        const mega_token *token = mega_vocabulary_get(v, id);
        if (token == NULL || (token->flags & MEGA_TOKEN_RAW) != 0 || token->size == 0) continue;
        mega_trie_key k = {mega_token_bytes(v, token), token->size, (int32_t)id};
        if (p->blank_marks) {
            if (memchr(k.bytes, ' ', k.size) != NULL) continue;
            k = (mega_trie_key){blanks, pipeline_put_blanks(k.bytes, k.size, blanks), (int32_t)id};
            blanks += k.size;
        }
        note_neighbours(p, (const uint8_t *)k.bytes, k.size);
        key[count++] = k;
    }
    return count;
}

mega_status mega_pipeline_build_trie(mega_pipeline *p, const mega_vocabulary *v)
{
    bool crosses = false;
    size_t bytes = 1;
    for (int64_t id = 0; id < v->size; id++) {
        const mega_token *token = mega_vocabulary_get(v, id);
        if (token == NULL || (token->flags & MEGA_TOKEN_RAW) != 0) continue;
        crosses = crosses || crosses_mark(v, id);
        bytes += p->blank_marks ? token->size : 0;
    }
    mega_trie_key *key = mega_malloc(((size_t)v->size + 1) * sizeof *key);
    char *blanks = mega_malloc(bytes);
    mega_status st = MEGA_OK;
    if (key == NULL || blanks == NULL)
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a vocabulary of %lld tokens", (long long)v->size);
    const int64_t count = st == MEGA_OK ? find_keys(p, v, key, blanks) : 0;
    if (st == MEGA_OK) st = mega_trie_build(&p->trie, key, count);
    if (st == MEGA_OK && p->model == MEGA_MODEL_UNIGRAM) st = mega_unigram_prepare(p, key, count);
    MEGA_FREE(key, blanks);
    MEGA_TRY(st);
    if (p->model == MEGA_MODEL_UNIGRAM) {
        p->splits_at_mark = !crosses && mega_vocabulary_find(v, "\xE2\x96\x81", 3, false) >= 0;
        return MEGA_OK;
    }
    p->continued = MEGA_TRIE_ROOT;
    for (size_t i = 0; i < p->inner.size && p->continued != MEGA_TRIE_NONE; i++)
        if (!mega_trie_step(&p->trie, &p->continued, (uint8_t)p->inner.data[i])) p->continued = MEGA_TRIE_NONE;
    return MEGA_OK;
}

bool mega_pipeline_splits_at_mark(const mega_tokenizer *t)
{
    static const char mark[] = "\xE2\x96\x81";
    if (mega_vocabulary_find(&t->vocabulary, mark, 3, false) < 0) return false;
    for (int64_t i = 0; i < t->merges.count; i++)
        if (crosses_mark(&t->vocabulary, t->merges.list[i].id)) return false;
    return true;
}

bool mega_pipeline_find_bytes(const mega_tokenizer *t, mega_pipeline *p)
{
    bool all = true;
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        p->byte_token[b] = mega_vocabulary_find(&t->vocabulary, name, 6, false);
        all = all && p->byte_token[b] >= 0;
    }
    return all;
}

/* Hashes a value of the file without the white space between its parts. */
static mega_status hash_value(mega_cursor *c, size_t at, uint64_t *hash)
{
    if (at == 0) return MEGA_OK;
    c->at = at;
    MEGA_TRY(mega_cursor_skip(c));
    bool in_string = false;
    for (size_t i = at; i < c->at; i++) {
        const char b = c->text[i];
        if (!in_string && (b == ' ' || b == '\n' || b == '\r' || b == '\t')) continue;
        if (in_string && b == '\\') *hash = mega_hash64(*hash, c->text + i++, 1);
        else if (b == '"')
            in_string = !in_string;
        *hash = mega_hash64(*hash, c->text + i, 1);
    }
    return MEGA_OK;
}

/* What ids of WordPiece and Unigram depend on besides the tokens. */
static uint64_t hash_model(const mega_pipeline *p, uint64_t hash)
{
    const int64_t numbers[] = {p->model, p->longest_word};
    hash = mega_hash64(hash, numbers, sizeof numbers);
    if (p->inner.size > 0) hash = mega_hash64(hash, p->inner.data, p->inner.size);
    return p->scores > 0 ? mega_hash64(hash, p->score, (size_t)p->scores * sizeof *p->score) : hash;
}

/* Added tokens that are `normalized` are searched for in normal form. */
static mega_status normalize_added(json_reader *r)
{
    mega_tokenizer *t = r->t;
    mega_buffer buffers[2] = {{0}, {0}};
    mega_regex_match *match = NULL;
    mega_status st = mega_regex_match_create(&match);
    for (int i = 0; i < t->num_added && st == MEGA_OK; i++) {
        mega_added_token *a = &t->added[i];
        mega_span normal;
        if (!a->normalized) continue;
        st = mega_pipeline_normalize(r->pipe, match, (mega_span){(const uint8_t *)a->content, a->size}, buffers,
                                     &normal);
        if (st != MEGA_OK || (normal.n == a->size && memcmp(normal.text, a->content, a->size) == 0)) continue;
        st = mega_text_set(&a->pattern, (const char *)normal.text, normal.n);
        if (st == MEGA_OK && normal.n > 0) t->added_begins[1][normal.text[0]] = true;
    }
    mega_regex_match_destroy(match);
    mega_buffer_fini(&buffers[0]);
    mega_buffer_fini(&buffers[1]);
    return st;
}

mega_status mega_pipeline_finish(json_reader *r)
{
    mega_tokenizer *t = r->t;
    mega_pipeline *p = r->pipe;
    if (p->model != MEGA_MODEL_UNIGRAM) p->unknown = -1;
    if (p->num_normalize > 0) MEGA_TRY(normalize_added(r));
    if (!p->byte_level && p->model != MEGA_MODEL_UNIGRAM) {
        const mega_text *name = &p->decoder.unknown;
        if (name->data != NULL) p->unknown = mega_vocabulary_find(&t->vocabulary, name->data, name->size, false);
        if (name->data != NULL && p->unknown < 0)
            return mega_cursor_fail(r->c, r->layout->model, "unk_token '%s' is not in the vocabulary", name->data);
        if (p->model == MEGA_MODEL_BPE) p->splits_at_mark = mega_pipeline_splits_at_mark(t);
    }
    if (!p->byte_level) mega_pipeline_find_bytes(t, p);
    uint64_t hash = MEGA_HASH_START;
    const uint8_t flags[] = {p->byte_level, p->ignore_merges, p->byte_fallback, p->fuse_unknown};
    MEGA_TRY(hash_value(r->c, r->layout->normalizer, &hash));
    MEGA_TRY(hash_value(r->c, r->layout->pre_tokenizer, &hash));
    MEGA_TRY(hash_value(r->c, r->layout->post_processor, &hash));
    if (r->says_around && r->layout->post_processor == 0) {
        if (p->num_prefix > 0) hash = mega_hash64(hash, p->prefix, (size_t)p->num_prefix * sizeof *p->prefix);
        if (p->num_suffix > 0) hash = mega_hash64(hash, p->suffix, (size_t)p->num_suffix * sizeof *p->suffix);
    }
    hash = mega_hash64(hash, flags, sizeof flags);
    if (p->model != MEGA_MODEL_BPE) hash = hash_model(p, hash);
    hash = mega_hash64(hash, &p->unknown, sizeof p->unknown);
    for (int i = 0; i < t->num_added; i++) {
        const mega_added_token *a = &t->added[i];
        const uint8_t of[] = {a->normalized, a->lstrip, a->rstrip, a->single_word};
        hash = mega_hash64(mega_hash64(hash, of, sizeof of), a->content, a->size);
    }
    if (t->splits_special) hash = mega_hash64(hash, "split", 5);
    p->fingerprint = hash;
    return MEGA_OK;
}
