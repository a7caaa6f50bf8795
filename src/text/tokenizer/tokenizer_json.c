/* Reads tokenizer.json of Hugging Face `tokenizers`, if it describes one of our kinds:
 *   model BPE       + pre_tokenizer ByteLevel        GPT2BPETokenizer, ByteTokenizer
 *   model BPE       + anything of pipeline_json.c    HuggingFaceTokenizer
 *   model WordPiece, Unigram + the same              HuggingFaceTokenizer
 *   model WordLevel + pre_tokenizer Split [\s\S]     CharTokenizer
 *   model WordLevel + pre_tokenizer WhitespaceSplit  NullTokenizer
 * Any other setting that would change ids is refused with a message that names it. Truncation and padding describe
 * batches, not text, and are ignored. */
#include "tokenizer_json.h"
#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include <stdio.h>
#include <string.h>

#define CHAR_PATTERN "[\\s\\S]"

/* A normalizer, pre-tokenizer, post-processor or decoder, reduced to the properties that matter here. */
typedef struct json_component {
    char type[32]; /* "null" if it is null or missing */
    bool add_prefix_space, use_regex, invert;
    bool adds_tokens; /* a template that adds special tokens around a text */
    char regex[32], behavior[32];
} json_component;

static void keep_string(const mega_cursor *c, char *out, size_t size)
{
    snprintf(out, size, "%s", c->string.size == 0 ? "" : c->string.data);
}

static mega_status tokenizer_json_read_pattern(mega_cursor *c, json_component *out)
{
    if (mega_cursor_peek(c) != '{') return mega_cursor_skip(c);
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) return MEGA_OK;
        MEGA_TRY(mega_cursor_key(c));
        const bool regex = mega_cursor_string_is(c, "Regex");
        MEGA_TRY(mega_cursor_skip(c));
        if (regex) keep_string(c, out->regex, sizeof out->regex);
    }
}

/* [{"Sequence": …}, {"SpecialToken": …}, …] */
static mega_status read_template(mega_cursor *c, json_component *out)
{
    bool first = true, more = true;
    MEGA_TRY(mega_cursor_open(c, '['));
    for (;;) {
        MEGA_TRY(mega_cursor_more(c, '[', &first, &more));
        if (!more) return MEGA_OK;
        bool first_key = true;
        MEGA_TRY(mega_cursor_open(c, '{'));
        for (;;) {
            MEGA_TRY(mega_cursor_more(c, '{', &first_key, &more));
            if (!more) break;
            MEGA_TRY(mega_cursor_key(c));
            if (!mega_cursor_string_is(c, "Sequence")) out->adds_tokens = true;
            MEGA_TRY(mega_cursor_skip(c));
        }
    }
}

static mega_status read_component(mega_cursor *c, size_t at, json_component *out)
{
    *out = (json_component){.type = "null", .use_regex = true};
    c->at = at;
    if (at == 0 || mega_cursor_null(c)) return MEGA_OK;
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) return MEGA_OK;
        MEGA_TRY(mega_cursor_key(c));
        if (mega_cursor_string_is(c, "type")) {
            MEGA_TRY(mega_cursor_string(c));
            keep_string(c, out->type, sizeof out->type);
        } else if (mega_cursor_string_is(c, "behavior")) {
            MEGA_TRY(mega_cursor_string(c));
            keep_string(c, out->behavior, sizeof out->behavior);
        } else if (mega_cursor_string_is(c, "add_prefix_space")) {
            MEGA_TRY(mega_cursor_bool(c, &out->add_prefix_space));
        } else if (mega_cursor_string_is(c, "use_regex")) {
            MEGA_TRY(mega_cursor_bool(c, &out->use_regex));
        } else if (mega_cursor_string_is(c, "invert")) {
            MEGA_TRY(mega_cursor_bool(c, &out->invert));
        } else if (mega_cursor_string_is(c, "single") && mega_cursor_peek(c) == '[') {
            MEGA_TRY(read_template(c, out));
        } else if (mega_cursor_string_is(c, "pattern")) {
            MEGA_TRY(tokenizer_json_read_pattern(c, out));
        } else {
            MEGA_TRY(mega_cursor_skip(c));
        }
    }
}

mega_status mega_json_members(mega_cursor *c, const char *const *keys, size_t *const *places, int count)
{
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) return MEGA_OK;
        MEGA_TRY(mega_cursor_key(c));
        int k = 0;
        while (k < count && !mega_cursor_string_is(c, keys[k])) k++;
        const char kind = mega_cursor_peek(c);
        if (k < count && kind != 'n') *places[k] = c->at;
        MEGA_TRY(mega_cursor_skip(c));
    }
}

/* Whether the settings of a model that change ids have the values with which BPE is GPT-2's. */
static mega_status has_plain_settings(mega_cursor *c, size_t model, bool *plain)
{
    static const struct {
        const char *key, *neutral; /* neutral: the accepted value besides null and "" */
    } setting[] = {{"dropout", "0"},
                   {"continuing_subword_prefix", ""},
                   {"end_of_word_suffix", ""},
                   {"byte_fallback", "false"},
                   {"ignore_merges", "false"}};
    c->at = model;
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) return MEGA_OK;
        MEGA_TRY(mega_cursor_key(c));
        const char *neutral = NULL;
        for (size_t i = 0; i < sizeof setting / sizeof setting[0]; i++)
            if (mega_cursor_string_is(c, setting[i].key)) neutral = setting[i].neutral;
        mega_cursor_peek(c);
        const size_t begin = c->at;
        MEGA_TRY(mega_cursor_skip(c));
        const size_t n = c->at - begin;
        const char *value = c->text + begin;
        if (neutral == NULL || (n == 4 && memcmp(value, "null", 4) == 0) || (n == 2 && memcmp(value, "\"\"", 2) == 0) ||
            (n >= strlen(neutral) && strlen(neutral) > 0 && memcmp(value, neutral, strlen(neutral)) == 0 &&
             strspn(value + strlen(neutral), ".0") >= n - strlen(neutral)))
            continue;
        *plain = false;
    }
}

static mega_status read_layout(mega_cursor *c, json_layout *l)
{
    static const char *const top[] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                      "post_processor", "decoder",    "model"};
    size_t *const top_place[] = {&l->added_tokens,   &l->normalizer, &l->pre_tokenizer,
                                 &l->post_processor, &l->decoder,    &l->model};
    *l = (json_layout){0};
    MEGA_TRY(mega_json_members(c, top, top_place, 6));
    MEGA_TRY(mega_cursor_end(c));
    if (l->model == 0) return mega_cursor_fail(c, 0, "found no \"model\": this is not a tokenizer.json");
    size_t type = 0;
    size_t longest = 0, prefix = 0;
    static const char *const inner[] = {"type", "vocab", "merges", "max_input_chars_per_word",
                                        "continuing_subword_prefix"};
    size_t *const inner_place[] = {&type, &l->vocab, &l->merges, &longest, &prefix};
    c->at = l->model;
    MEGA_TRY(mega_json_members(c, inner, inner_place, 5));
    if (type != 0) {
        c->at = type;
        MEGA_TRY(mega_cursor_string(c));
        keep_string(c, l->model_type, sizeof l->model_type);
    } else {
        /* old files have no type */
        strcpy(l->model_type, l->merges != 0                              ? "BPE"
                              : longest != 0 || prefix != 0               ? "WordPiece"
                              : l->vocab != 0 && c->text[l->vocab] == '[' ? "Unigram"
                                                                          : "");
    }
    l->settings = l->model;
    if (l->vocab == 0) return mega_cursor_fail(c, l->model, "the model has no \"vocab\"");
    return MEGA_OK;
}

static mega_status json_refuse(mega_cursor *c, size_t at, const char *what, const json_component *found,
                               const char *wanted)
{
    return mega_cursor_fail(c, at, "%s is %s%s%s%s; with this model %s is supported", what, found->type,
                            found->adds_tokens ? " that puts special tokens around a text" : "",
                            found->add_prefix_space ? " with add_prefix_space true" : "",
                            found->use_regex ? "" : " with use_regex false", wanted);
}

/* Whether added tokens are matched exactly, with no setting that changes what they take. */
static bool has_plain_added(const mega_rule_tokens *tokens)
{
    bool plain = true;
    for (int i = 0; i < tokens->count; i++)
        plain = plain && !tokens->list[i].lstrip && !tokens->list[i].rstrip && !tokens->list[i].single_word;
    return plain;
}

/* Whether a BPE file is GPT-2's kind: bytes, its pattern, and nothing else that changes ids. */
static mega_status tokenizer_is_gpt2(const json_reader *r, bool *plain)
{
    mega_cursor *c = r->c;
    const json_layout *l = r->layout;
    json_component normalizer, pre, post, decoder;
    MEGA_TRY(read_component(c, l->normalizer, &normalizer));
    MEGA_TRY(read_component(c, l->pre_tokenizer, &pre));
    MEGA_TRY(read_component(c, l->post_processor, &post));
    MEGA_TRY(read_component(c, l->decoder, &decoder));
    /* transformers 5 writes a template that adds no tokens */
    const bool plain_post = r->says_around ? r->before == MEGA_ROLES && r->after == MEGA_ROLES
                                           : strcmp(post.type, "null") == 0 || strcmp(post.type, "ByteLevel") == 0 ||
                                                 (strcmp(post.type, "TemplateProcessing") == 0 && !post.adds_tokens);
    *plain = strcmp(normalizer.type, "null") == 0 && strcmp(pre.type, "ByteLevel") == 0 && !pre.add_prefix_space &&
             pre.use_regex && plain_post &&
             (strcmp(decoder.type, "null") == 0 || strcmp(decoder.type, "ByteLevel") == 0);
    MEGA_TRY(has_plain_settings(c, l->settings, plain));
    *plain =
        *plain && has_plain_added(&r->tokens) && !(r->rules != NULL && r->rules->clean_up_bpe && r->rules->clean_up);
    return MEGA_OK;
}

static bool is_model(const json_layout *l, const char *type)
{
    return strcmp(l->model_type, type) == 0;
}

/* Determines the kind from model and pre-tokenizer. */
static mega_status choose_kind(const json_reader *r, mega_tokenizer_kind *kind)
{
    mega_cursor *c = r->c;
    const json_layout *l = r->layout;
    json_component normalizer, pre, post, decoder;
    if (is_model(l, "BPE")) {
        bool plain;
        MEGA_TRY(tokenizer_is_gpt2(r, &plain));
        *kind = plain ? MEGA_KIND_BPE : MEGA_KIND_HUGGINGFACE;
        return MEGA_OK;
    }
    if (is_model(l, "WordPiece") || is_model(l, "Unigram")) {
        *kind = MEGA_KIND_HUGGINGFACE;
        return MEGA_OK;
    }
    MEGA_TRY(read_component(c, l->normalizer, &normalizer));
    MEGA_TRY(read_component(c, l->pre_tokenizer, &pre));
    MEGA_TRY(read_component(c, l->post_processor, &post));
    MEGA_TRY(read_component(c, l->decoder, &decoder));
    if (!is_model(l, "WordLevel"))
        return mega_cursor_fail(
            c, l->model, "the model is of type %s; expected BPE, WordPiece, Unigram or WordLevel (of characters)",
            l->model_type[0] == '\0' ? "unknown" : l->model_type);
    if (strcmp(normalizer.type, "null") != 0)
        return json_refuse(c, l->normalizer, "normalizer", &normalizer, "only null");
    if (strcmp(pre.type, "Split") == 0 && strcmp(pre.regex, CHAR_PATTERN) == 0 && !pre.invert &&
        strcmp(pre.behavior, "Isolated") == 0) {
        *kind = MEGA_KIND_CHAR;
    } else if (strcmp(pre.type, "WhitespaceSplit") == 0) {
        *kind = MEGA_KIND_NULL;
    } else {
        return json_refuse(c, l->pre_tokenizer, "pre_tokenizer", &pre,
                           "only Split by " CHAR_PATTERN " or WhitespaceSplit");
    }
    const bool plain_template = strcmp(post.type, "TemplateProcessing") == 0 && !post.adds_tokens;
    if (strcmp(post.type, "null") != 0 && strcmp(post.type, "ByteLevel") != 0 && !plain_template)
        return json_refuse(c, l->post_processor, "post_processor", &post, "only one that adds no tokens");
    const char *plain = *kind == MEGA_KIND_CHAR ? "Fuse" : "null";
    if (strcmp(decoder.type, "null") != 0 && strcmp(decoder.type, plain) != 0)
        return json_refuse(c, l->decoder, "decoder", &decoder, plain);
    return MEGA_OK;
}

static mega_status json_read_vocab(mega_tokenizer *t, mega_cursor *c, size_t place, mega_buffer *scratch)
{
    c->at = place;
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) return MEGA_OK;
        mega_cursor_peek(c);
        const size_t at = c->at;
        int64_t id;
        MEGA_TRY(mega_cursor_key(c));
        MEGA_TRY(mega_cursor_int(c, &id));
        const mega_status st = mega_tokenizer_add_symbols(t, scratch, c->string.data, c->string.size, id);
        if (st == MEGA_ERR_FORMAT) return mega_cursor_fail(c, at, "%s", mega_error_message());
        MEGA_TRY(st);
    }
}

/* Reads "left right", or ["left", "right"] as tokenizers writes it since 0.20. */
static mega_status read_merge(mega_tokenizer *t, mega_cursor *c, mega_buffer *scratch, mega_buffer *left)
{
    const bool is_pair = mega_cursor_peek(c) == '[';
    const size_t at = c->at;
    bool first = true, more = true;
    mega_status st;
    if (is_pair) {
        MEGA_TRY(mega_cursor_open(c, '['));
        MEGA_TRY(mega_cursor_more(c, '[', &first, &more));
        if (more) MEGA_TRY(mega_cursor_string(c));
        left->size = 0;
        mega_buffer_append(left, c->string.data, more ? c->string.size : 0);
        if (more) MEGA_TRY(mega_cursor_more(c, '[', &first, &more));
        if (more) MEGA_TRY(mega_cursor_string(c));
        if (!more) return mega_cursor_fail(c, at, "a merge must be two tokens");
        MEGA_TRY(mega_cursor_more(c, '[', &first, &more));
        if (more) return mega_cursor_fail(c, at, "a merge must be two tokens");
        st = mega_tokenizer_add_merge(t, scratch, left->data, left->size, c->string.data, c->string.size);
    } else {
        MEGA_TRY(mega_cursor_string(c));
        const char *text = c->string.data, *blank = c->string.size == 0 ? NULL : memchr(text, ' ', c->string.size);
        if (blank == NULL) return mega_cursor_fail(c, at, "a merge must be two tokens with a blank between them");
        const size_t n = (size_t)(blank - text);
        st = mega_tokenizer_add_merge(t, scratch, text, n, blank + 1, c->string.size - n - 1);
    }
    if (st == MEGA_ERR_FORMAT) return mega_cursor_fail(c, at, "%s", mega_error_message());
    return st;
}

static mega_status json_read_merges(mega_tokenizer *t, mega_cursor *c, size_t place, mega_buffer *scratch)
{
    if (place == 0) return MEGA_OK;
    mega_buffer left = {0};
    c->at = place;
    bool first = true, more = true;
    mega_status st = mega_cursor_open(c, '[');
    while (st == MEGA_OK) {
        st = mega_cursor_more(c, '[', &first, &more);
        if (st != MEGA_OK || !more) break;
        st = read_merge(t, c, scratch, &left);
    }
    mega_buffer_fini(&left);
    return st;
}

/* Reads one added token; its text is left in `content`. */
static mega_status tokenizer_json_read_added(mega_cursor *c, mega_rule_token *out, mega_buffer *content)
{
    *out = (mega_rule_token){.id = -1};
    content->size = 0;
    mega_cursor_peek(c);
    out->at = c->at;
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) return mega_buffer_check(content, c->name);
        MEGA_TRY(mega_cursor_key(c));
        if (mega_cursor_string_is(c, "id")) {
            const size_t at = c->at;
            MEGA_TRY(mega_cursor_int(c, &out->id));
            if (out->id < 0)
                return mega_cursor_fail(c, at, "\"id\" of an added token is %lld; expected 0 or more",
                                        (long long)out->id);
        } else if (mega_cursor_string_is(c, "content")) {
            MEGA_TRY(mega_cursor_string(c));
            mega_buffer_append(content, c->string.data, c->string.size);
        } else if (mega_cursor_string_is(c, "special")) {
            MEGA_TRY(mega_cursor_bool(c, &out->special));
        } else if (mega_cursor_string_is(c, "normalized")) {
            MEGA_TRY(mega_cursor_bool(c, &out->normalized));
        } else if (mega_cursor_string_is(c, "lstrip")) {
            MEGA_TRY(mega_cursor_bool(c, &out->lstrip));
        } else if (mega_cursor_string_is(c, "rstrip")) {
            MEGA_TRY(mega_cursor_bool(c, &out->rstrip));
        } else if (mega_cursor_string_is(c, "single_word")) {
            MEGA_TRY(mega_cursor_bool(c, &out->single_word));
        } else {
            MEGA_TRY(mega_cursor_skip(c));
        }
    }
}

static mega_status read_added_tokens(mega_cursor *c, size_t place, mega_rule_tokens *out)
{
    if (place == 0) return MEGA_OK;
    mega_buffer content = {0};
    bool first = true, more = true;
    c->at = place;
    mega_status st = mega_cursor_open(c, '[');
    while (st == MEGA_OK) {
        st = mega_cursor_more(c, '[', &first, &more);
        if (st != MEGA_OK || !more) break;
        mega_rule_token a;
        st = tokenizer_json_read_added(c, &a, &content);
        a.content = content.data;
        a.size = content.size;
        if (st == MEGA_OK && a.size > 0) st = mega_rule_tokens_append(out, &a);
    }
    mega_buffer_fini(&content);
    return st;
}

/* A token of the vocabulary keeps its id there; any other gets the next free one, which must agree with the file. */
static mega_status enter_added(mega_tokenizer *t, mega_cursor *c, const mega_rule_token *a, mega_buffer *scratch)
{
    const int n = a->size > 60 ? 60 : (int)a->size;
    int32_t id = mega_tokenizer_find_symbols(t, scratch, a->content, a->size);
    if (id < 0) {
        id = (int32_t)t->vocabulary.size;
        MEGA_TRY(mega_tokenizer_add_symbols(t, scratch, a->content, a->size, id));
    }
    if (a->id >= 0 && a->id != id)
        return mega_cursor_fail(c, a->at,
                                "added token '%.*s' has id %lld; `tokenizers` would give it %d (the vocabulary's id or "
                                "the next free one); correct the file",
                                n, a->content, (long long)a->id, id);
    MEGA_TRY(mega_tokenizer_add_token(t, a->content, a->size, id, a->special, a->normalized));
    mega_added_token *made = &t->added[t->num_added - 1];
    made->lstrip = a->lstrip;
    made->rstrip = a->rstrip;
    made->single_word = a->single_word;
    if (strcmp(a->content, MEGA_END_OF_TEXT) == 0) t->eod = id;
    return MEGA_OK;
}

static mega_status enter_tokens(json_reader *r, mega_buffer *scratch)
{
    for (int i = 0; i < r->tokens.count; i++) MEGA_TRY(enter_added(r->t, r->c, &r->tokens.list[i], scratch));
    return MEGA_OK;
}

/* What the folder names as the end of a text ends a document. Where it names nothing, the usual token does. */
static void find_end(mega_tokenizer *t, const mega_folder_rules *rules)
{
    if (rules != NULL) mega_tokenizer_set_roles(t, rules);
    if (rules != NULL && rules->role[MEGA_ROLE_EOS].source != NULL) t->eod = t->role[MEGA_ROLE_EOS];
    else if (t->eod < 0 && t->pipe != NULL)
        t->eod = mega_tokenizer_find(t, "</s>", 4);
}

static bool is_byte_tokenizer(const mega_tokenizer *t)
{
    if (t->merges.count != 0 || t->vocabulary.size != 257 || t->eod != 256) return false;
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        if (mega_vocabulary_find(&t->vocabulary, &byte, 1, false) != b) return false;
    }
    return true;
}

/* The vocabulary of a NullTokenizer consists of the numbers themselves. */
static mega_status tokenizer_json_check_ids(mega_tokenizer *t, mega_cursor *c, const json_layout *l)
{
    for (int64_t id = 0; id < t->vocabulary.size; id++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)id);
        if (mega_vocabulary_find(&t->vocabulary, text, strlen(text), false) != id)
            return mega_cursor_fail(c, l->vocab,
                                    "a WordLevel model of words; only those of characters or numbers are supported");
    }
    t->size = t->vocabulary.size;
    t->eod = (int32_t)(t->size - 1);
    mega_vocabulary_fini(&t->vocabulary);
    return MEGA_OK;
}

static mega_status json_fill(json_reader *r)
{
    mega_tokenizer *t = r->t;
    const json_layout *l = r->layout;
    mega_buffer scratch = {0};
    if (is_model(l, "WordPiece")) r->pipe->model = MEGA_MODEL_WORDPIECE;
    if (is_model(l, "Unigram")) r->pipe->model = MEGA_MODEL_UNIGRAM;
    const mega_model model = r->pipe != NULL ? r->pipe->model : MEGA_MODEL_BPE;
    mega_status st = r->pipe != NULL ? mega_pipeline_read(r) : MEGA_OK;
    if (st == MEGA_OK && r->pipe != NULL) st = mega_pipeline_read_model(r);
    if (st == MEGA_OK && model != MEGA_MODEL_UNIGRAM) st = json_read_vocab(t, r->c, l->vocab, &scratch);
    if (st == MEGA_OK && model != MEGA_MODEL_BPE) st = mega_pipeline_build_trie(r->pipe, &t->vocabulary);
    if (st == MEGA_OK) st = json_read_merges(t, r->c, l->merges, &scratch);
    if (st == MEGA_OK) st = enter_tokens(r, &scratch);
    if (st == MEGA_OK && t->kind != MEGA_KIND_NULL) find_end(t, r->rules);
    if (st == MEGA_OK && r->pipe != NULL) st = mega_pipeline_read_template(r);
    if (st == MEGA_OK && r->pipe != NULL) st = mega_pipeline_finish(r);
    mega_buffer_fini(&scratch);
    if (st == MEGA_OK && t->kind == MEGA_KIND_NULL) st = tokenizer_json_check_ids(t, r->c, l);
    if (st == MEGA_OK && t->kind == MEGA_KIND_BPE && is_byte_tokenizer(t)) t->kind = MEGA_KIND_BYTE;
    return st == MEGA_OK ? mega_tokenizer_finish(t) : st;
}

/* Takes over the text of the file, and reads those that belong to it. */
static mega_status keep_files(mega_tokenizer *t, const char *path, bool is_file, char **text, size_t size)
{
    char *folder = mega_path_folder(path);
    if (folder == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", path);
    if (is_file) {
        mega_tokenizer_keep(t, "tokenizer.json", *text, size);
        *text = NULL;
    }
    const mega_status st = mega_tokenizer_keep_folder(t, folder, "tokenizer.json");
    mega_free(folder);
    return st;
}

static mega_status json_read(json_reader *r, mega_tokenizer_kind kind, const char *path)
{
    MEGA_TRY(mega_tokenizer_begin(kind, path, &r->t));
    mega_vocabulary_bound(&r->t->vocabulary, r->c->size);
    if (r->rules != NULL) {
        const bool is_bpe = is_model(r->layout, "BPE");
        r->t->splits_special = r->rules->split_special;
        r->t->cleans_up = r->rules->clean_up && (!is_bpe || r->rules->clean_up_bpe);
    }
    if (kind == MEGA_KIND_HUGGINGFACE) {
        r->pipe = r->t->pipe = mega_calloc(1, sizeof *r->pipe);
        if (r->pipe == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", path);
        r->t->special_in_data = true;
    }
    return json_fill(r);
}

/* Adds the tokens of the folder to those of the file, and finds the rules for what is around a text. */
static mega_status plan_tokens(json_reader *r)
{
    mega_rule_tokens own = {0};
    mega_status st = read_added_tokens(r->c, r->layout->added_tokens, r->rules == NULL ? &r->tokens : &own);
    /* without a file of its own the text is ours: roles and lists say what is added */
    if (r->rules != NULL && !r->rules->has_json) mega_rule_tokens_fini(&own);
    if (st == MEGA_OK && r->rules != NULL) st = mega_rules_tokens(r->rules, &own, &r->tokens);
    mega_rule_tokens_fini(&own);
    size_t post = r->layout->post_processor;
    r->says_around = r->rules != NULL && mega_rules_around(r->rules, post != 0, &r->before, &r->after);
    if (st == MEGA_OK && r->says_around) st = mega_rules_need(r->rules, r->before);
    return st == MEGA_OK && r->says_around ? mega_rules_need(r->rules, r->after) : st;
}

/* `rules`: those of the folder; NULL: it has none. */
mega_status mega_tokenizer_read_json_text(const char *path, const mega_folder_rules *rules, char **text, size_t size,
                                          mega_tokenizer **out)
{
    mega_cursor c;
    json_layout layout;
    json_reader r = {.c = &c, .layout = &layout, .rules = rules, .before = MEGA_ROLES, .after = MEGA_ROLES};
    mega_tokenizer_kind kind = MEGA_KIND_BPE;
    mega_cursor_init(&c, path, *text, size);
    if (rules != NULL) {
        c.part = rules->merges_file;
        c.part_at = rules->merges_at;
        c.part_end = rules->merges_end;
    }
    mega_status st = mega_encoding_refuse_mark(path, *text, size);
    if (st == MEGA_OK) st = read_layout(&c, &layout);
    if (st == MEGA_OK) st = plan_tokens(&r);
    if (st == MEGA_OK && rules != NULL) st = mega_json_replace_steps(&r, &layout);
    if (st == MEGA_OK) st = choose_kind(&r, &kind);
    if (st == MEGA_OK) st = json_read(&r, kind, path);
    if (st == MEGA_ERR_FORMAT && rules != NULL && rules->class != MEGA_CLASS_FILE)
        MEGA_CONTEXT("read by the rules of %s %s", rules->class_source, rules->class_name);
    if (st == MEGA_OK) st = keep_files(r.t, path, rules == NULL || rules->has_json, text, size);
    if (st == MEGA_OK) *out = r.t;
    else
        mega_tokenizer_destroy(r.t);
    mega_rule_tokens_fini(&r.tokens);
    mega_buffer_fini(&r.whole);
    mega_buffer_fini(&r.text);
    mega_cursor_fini(&c);
    return st;
}

mega_status mega_tokenizer_read_json(const char *path, mega_tokenizer **out)
{
    char *text;
    size_t size;
    mega_folder_rules rules;
    MEGA_TRY(mega_rules_read(path, MEGA_CLASS_FILE, false, &rules));
    mega_status st = mega_file_read_kind(path, "a file of a tokenizer", 0, &text, &size);
    if (st == MEGA_OK) {
        st = mega_tokenizer_read_json_text(path, &rules, &text, size, out);
        mega_free(text);
    }
    if (st == MEGA_OK && (st = mega_rules_keep(&rules, *out)) != MEGA_OK) {
        mega_tokenizer_destroy(*out);
        *out = NULL;
    }
    mega_rules_fini(&rules);
    return st;
}
