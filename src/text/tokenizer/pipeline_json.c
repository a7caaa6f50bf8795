/* Reads the normalizer, pre-tokenizer, post-processor and decoder of a tokenizer.json into steps. What is not built is
 * refused by name, with its place in the file. */
#include "base64.h"
#include "megalith/json_cursor.h"
#include "tokenizer_json.h"
#include <stdio.h>
#include <string.h>

enum { DEEPEST_SEQUENCE = 8 };

static mega_status step_refuse(json_reader *r, size_t at, const char *what, const char *found, const char *known)
{
    return mega_cursor_fail(r->c, at, "%s %s is not supported; expected one of %s", what, found, known);
}

/* Reads the value of a key of the object at `at` as a string into r->text; `fallback` if it is missing or null. */
static mega_status key_string(json_reader *r, size_t at, const char *key, const char *fallback)
{
    size_t place = 0;
    r->c->at = at;
    MEGA_TRY(mega_json_members(r->c, &key, (size_t *const[]){&place}, 1));
    r->text.size = 0;
    if (place == 0) {
        mega_buffer_puts(&r->text, fallback);
        return mega_buffer_check(&r->text, r->c->name);
    }
    r->c->at = place;
    MEGA_TRY(mega_cursor_string(r->c));
    if (r->c->string.size > 0) mega_buffer_append(&r->text, r->c->string.data, r->c->string.size);
    else
        mega_buffer_puts(&r->text, "");
    return mega_buffer_check(&r->text, r->c->name);
}

static mega_status key_bool(json_reader *r, size_t at, const char *key, bool fallback, bool *out)
{
    size_t place = 0;
    *out = fallback;
    r->c->at = at;
    MEGA_TRY(mega_json_members(r->c, &key, (size_t *const[]){&place}, 1));
    if (place == 0) return MEGA_OK;
    r->c->at = place;
    return mega_cursor_bool(r->c, out);
}

static bool text_is(const json_reader *r, const char *text)
{
    return r->text.size == strlen(text) && memcmp(r->text.data, text, r->text.size) == 0;
}

mega_status mega_json_steps(json_reader *r, size_t at, const char *key, json_step *step, int depth)
{
    char type[40];
    if (at == 0) return MEGA_OK;
    r->c->at = at;
    if (mega_cursor_null(r->c)) return MEGA_OK;
    MEGA_TRY(key_string(r, at, "type", ""));
    snprintf(type, sizeof type, "%s", r->text.data);
    if (strcmp(type, "Sequence") != 0) return step(r, at, type);
    if (depth == DEEPEST_SEQUENCE) return mega_cursor_fail(r->c, at, "a Sequence is nested too deeply");
    size_t place = 0;
    r->c->at = at;
    MEGA_TRY(mega_json_members(r->c, &key, (size_t *const[]){&place}, 1));
    if (place == 0) return mega_cursor_fail(r->c, at, "a Sequence without \"%s\"", key);
    r->c->at = place;
    MEGA_TRY(mega_cursor_open(r->c, '['));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(r->c, '[', &first, &more));
        if (!more) return MEGA_OK;
        mega_cursor_peek(r->c);
        const size_t member = r->c->at;
        MEGA_TRY(mega_json_steps(r, member, key, step, depth + 1));
        r->c->at = member;
        MEGA_TRY(mega_cursor_skip(r->c));
    }
}

/* Reads {"String": …} or {"Regex": …} under "pattern"; the text is left in r->text. */
static mega_status pipeline_read_pattern(json_reader *r, size_t at, bool *is_regex)
{
    static const char *const outer[] = {"pattern"}, *const inner[] = {"String", "Regex"};
    size_t pattern = 0, string = 0, regex = 0;
    r->c->at = at;
    MEGA_TRY(mega_json_members(r->c, outer, (size_t *const[]){&pattern}, 1));
    if (pattern == 0) return mega_cursor_fail(r->c, at, "the \"pattern\" is missing");
    r->c->at = pattern;
    MEGA_TRY(mega_json_members(r->c, inner, (size_t *const[]){&string, &regex}, 2));
    if ((string == 0) == (regex == 0))
        return mega_cursor_fail(r->c, pattern, "expected a pattern with either \"String\" or \"Regex\"");
    *is_regex = regex != 0;
    MEGA_TRY(key_string(r, pattern, inner[regex != 0], ""));
    if (r->text.size > 0) return MEGA_OK;
    return mega_cursor_fail(r->c, pattern, "the \"%s\" of the \"pattern\" is empty, which is not supported",
                            inner[regex != 0]);
}

static mega_status compile_pattern(json_reader *r, size_t at, mega_regex **out)
{
    const mega_status st = mega_regex_compile(r->text.data, r->text.size, out);
    if (st == MEGA_OK || st == MEGA_ERR_MEMORY) return st;
    char why[400];
    snprintf(why, sizeof why, "%s", mega_error_message());
    return mega_cursor_fail(r->c, at, "%s", why);
}

/* The first one also says what the pre-tokenizers look at, which all of them see alike. */
static mega_status pipeline_read_bert(json_reader *r, size_t at, mega_normalize_step *s)
{
    mega_bert_rules rules = {0};
    MEGA_TRY(key_bool(r, at, "clean_text", true, &rules.clean));
    MEGA_TRY(key_bool(r, at, "handle_chinese_chars", true, &rules.chinese));
    MEGA_TRY(key_bool(r, at, "lowercase", true, &rules.lower));
    MEGA_TRY(key_bool(r, at, "strip_accents", rules.lower, &rules.strip));
    return mega_bert_create(&rules, r->pipe->bert == NULL ? &r->pipe->bert : &s->bert);
}

static mega_status read_precompiled(json_reader *r, size_t at, mega_normalize_step *s)
{
    mega_buffer bytes = {0};
    mega_charsmap *map = &r->pipe->charsmap;
    if (map->units > 0) {
        map = s->charsmap = mega_calloc(1, sizeof *map);
        if (map == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", r->c->name);
    }
    MEGA_TRY(key_string(r, at, "precompiled_charsmap", ""));
    const bool valid = mega_base64_read(r->text.data, r->text.size, &bytes);
    mega_status st = mega_buffer_check(&bytes, r->c->name);
    if (st == MEGA_OK && !valid) st = mega_cursor_fail(r->c, at, "the \"precompiled_charsmap\" is not base64");
    if (st == MEGA_OK) st = mega_charsmap_read(map, bytes.data, bytes.size);
    if (st == MEGA_ERR_FORMAT && valid) st = mega_cursor_fail(r->c, at, "%s", mega_error_message());
    mega_buffer_fini(&bytes);
    return st;
}

static mega_status read_normalizer(json_reader *r, size_t at, const char *type)
{
    static const struct {
        const char *name;
        mega_normalize kind;
    } kinds[] = {
        {"NFC", MEGA_NORMALIZE_NFC},
        {"NFD", MEGA_NORMALIZE_NFD},
        {"NFKC", MEGA_NORMALIZE_NFKC},
        {"NFKD", MEGA_NORMALIZE_NFKD},
        {"Lowercase", MEGA_NORMALIZE_LOWERCASE},
        {"Strip", MEGA_NORMALIZE_STRIP},
        {"Prepend", MEGA_NORMALIZE_PREPEND},
        {"Replace", MEGA_NORMALIZE_REPLACE},
        {"StripAccents", MEGA_NORMALIZE_STRIP_ACCENTS},
        {"BertNormalizer", MEGA_NORMALIZE_BERT},
        {"Nmt", MEGA_NORMALIZE_NMT},
        {"Precompiled", MEGA_NORMALIZE_PRECOMPILED},
    };
    mega_pipeline *p = r->pipe;
    size_t k = 0;
    while (k < sizeof kinds / sizeof kinds[0] && strcmp(kinds[k].name, type) != 0) k++;
    if (k == sizeof kinds / sizeof kinds[0])
        return step_refuse(
            r, at, "normalizer", type,
            "NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, StripAccents, BertNormalizer, Nmt, Precompiled");
    if (!mega_array_add(&p->normalize, p->num_normalize, sizeof *p->normalize))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", r->c->name);
    mega_normalize_step *s = &p->normalize[p->num_normalize++];
    *s = (mega_normalize_step){.kind = kinds[k].kind};
    if (s->kind == MEGA_NORMALIZE_NFC) return mega_nfc_create(&s->nfc);
    if (s->kind == MEGA_NORMALIZE_STRIP) {
        MEGA_TRY(key_bool(r, at, "strip_left", false, &s->left));
        return key_bool(r, at, "strip_right", false, &s->right);
    }
    if (s->kind == MEGA_NORMALIZE_PREPEND) {
        MEGA_TRY(key_string(r, at, "prepend", ""));
        return mega_text_set(&s->to, r->text.data, r->text.size);
    }
    if (s->kind == MEGA_NORMALIZE_BERT) return pipeline_read_bert(r, at, s);
    if (s->kind == MEGA_NORMALIZE_PRECOMPILED) return read_precompiled(r, at, s);
    if (s->kind != MEGA_NORMALIZE_REPLACE) return MEGA_OK;
    bool is_regex;
    MEGA_TRY(pipeline_read_pattern(r, at, &is_regex));
    MEGA_TRY(mega_text_set(&s->from, r->text.data, r->text.size));
    if (is_regex) {
        s->kind = MEGA_NORMALIZE_REPLACE_REGEX;
        MEGA_TRY(compile_pattern(r, at, &s->regex));
    }
    MEGA_TRY(key_string(r, at, "content", ""));
    return mega_text_set(&s->to, r->text.data, r->text.size);
}

static mega_status read_behavior(json_reader *r, size_t at, const char *fallback, mega_behavior *out)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    MEGA_TRY(key_string(r, at, "behavior", fallback));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!text_is(r, names[i])) continue;
        *out = (mega_behavior)i;
        return MEGA_OK;
    }
    return step_refuse(r, at, "behavior", r->text.data,
                       "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

static mega_status read_split(json_reader *r, size_t at, mega_pre_step *s)
{
    bool is_regex;
    MEGA_TRY(read_behavior(r, at, "", &s->behavior));
    MEGA_TRY(key_bool(r, at, "invert", false, &s->invert));
    MEGA_TRY(pipeline_read_pattern(r, at, &is_regex));
    MEGA_TRY(mega_text_set(&s->text, r->text.data, r->text.size));
    s->kind = is_regex ? MEGA_PRE_REGEX : MEGA_PRE_STRING;
    if (!is_regex) return MEGA_OK;
    s->split = mega_split_of(r->text.data, r->text.size);
    /* every public pattern matches everything, so that only this pair of settings has words as pieces */
    if (s->split != MEGA_SPLIT_NONE && s->behavior == MEGA_SPLIT_ISOLATED && !s->invert) {
        s->kind = MEGA_PRE_PATTERN;
        return MEGA_OK;
    }
    return compile_pattern(r, at, &s->regex);
}

/* Reads the pre-tokenizer Whitespace: words and rows of signs, without the white space between them. It counts the two
 * joiners among the characters of a word, unlike Split. */
static mega_status read_whitespace(json_reader *r, size_t at, mega_pre_step *s)
{
    *s = (mega_pre_step){.kind = MEGA_PRE_REGEX, .behavior = MEGA_SPLIT_REMOVED, .invert = true};
    r->text.size = 0;
    mega_buffer_puts(&r->text, "[\\w\\x{200C}\\x{200D}]+|[^\\w\\s\\x{200C}\\x{200D}]+");
    MEGA_TRY(mega_buffer_check(&r->text, r->c->name));
    return compile_pattern(r, at, &s->regex);
}

/* The kinds of characters; a BertNormalizer made them already. */
static mega_status need_bert(mega_pipeline *p)
{
    return p->bert != NULL ? MEGA_OK : mega_bert_create(&(mega_bert_rules){0}, &p->bert);
}

static mega_status read_metaspace(json_reader *r, size_t at, mega_pre_step *s)
{
    bool adds;
    s->kind = MEGA_PRE_METASPACE;
    MEGA_TRY(key_string(r, at, "replacement", "\xE2\x96\x81"));
    MEGA_TRY(mega_text_set(&s->text, r->text.data, r->text.size));
    MEGA_TRY(key_bool(r, at, "split", true, &s->use_pattern));
    MEGA_TRY(key_bool(r, at, "add_prefix_space", true, &adds));
    MEGA_TRY(key_string(r, at, "prepend_scheme", adds ? "always" : "never"));
    s->prepend = text_is(r, "always")  ? MEGA_PREPEND_ALWAYS
                 : text_is(r, "first") ? MEGA_PREPEND_FIRST
                                       : MEGA_PREPEND_NEVER;
    if (s->prepend == MEGA_PREPEND_NEVER && !text_is(r, "never"))
        return step_refuse(r, at, "prepend_scheme", r->text.data, "always, first, never");
    return MEGA_OK;
}

static mega_status read_pre(json_reader *r, size_t at, const char *type)
{
    static const char known[] = "ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation, "
                                "BertPreTokenizer, Sequence";
    mega_pipeline *p = r->pipe;
    if (p->byte_level)
        return mega_cursor_fail(r->c, at,
                                "pre_tokenizer %s after ByteLevel is not supported; ByteLevel must be the last", type);
    if (!mega_array_add(&p->pre, p->num_pre, sizeof *p->pre))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", r->c->name);
    mega_pre_step *s = &p->pre[p->num_pre++];
    *s = (mega_pre_step){.behavior = MEGA_SPLIT_ISOLATED};
    if (strcmp(type, "Split") == 0) return read_split(r, at, s);
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(r, at, s);
    if (strcmp(type, "Whitespace") == 0) return read_whitespace(r, at, s);
    if (strcmp(type, "Punctuation") == 0) {
        s->kind = MEGA_PRE_PUNCTUATION;
        MEGA_TRY(read_behavior(r, at, "Isolated", &s->behavior));
        return need_bert(p);
    }
    if (strcmp(type, "WhitespaceSplit") == 0) {
        *s = (mega_pre_step){.kind = MEGA_PRE_WHITE, .behavior = MEGA_SPLIT_REMOVED};
        return MEGA_OK;
    }
    if (strcmp(type, "BertPreTokenizer") == 0) {
        s->kind = MEGA_PRE_BERT;
        return need_bert(p);
    }
    if (strcmp(type, "Digits") == 0) {
        bool each;
        s->kind = MEGA_PRE_NUMBERS;
        MEGA_TRY(key_bool(r, at, "individual_digits", false, &each));
        s->behavior = each ? MEGA_SPLIT_ISOLATED : MEGA_SPLIT_CONTIGUOUS;
        return MEGA_OK;
    }
    if (strcmp(type, "ByteLevel") != 0) return step_refuse(r, at, "pre_tokenizer", type, known);
    s->kind = MEGA_PRE_BYTE_LEVEL;
    p->byte_level = true;
    MEGA_TRY(key_bool(r, at, "add_prefix_space", true, &s->prefix_blank));
    return key_bool(r, at, "use_regex", true, &s->use_pattern);
}

/* ByteLevel is two steps: blanks, then GPT-2's pattern. */
static mega_status expand_byte_level(json_reader *r)
{
    mega_pipeline *p = r->pipe;
    if (!p->byte_level || !p->pre[p->num_pre - 1].use_pattern) return MEGA_OK;
    if (!mega_array_add(&p->pre, p->num_pre, sizeof *p->pre))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", r->c->name);
    p->pre[p->num_pre++] =
        (mega_pre_step){.kind = MEGA_PRE_PATTERN, .split = MEGA_SPLIT_GPT2, .behavior = MEGA_SPLIT_ISOLATED};
    return MEGA_OK;
}

/* Recognises the steps that a single public pattern does. */
static mega_split fast_split(const mega_pipeline *p)
{
    mega_split found = MEGA_SPLIT_NONE;
    bool numbers = false;
    for (int i = 0; i < p->num_pre; i++) {
        const mega_pre_step *s = &p->pre[i];
        if (s->kind == MEGA_PRE_BYTE_LEVEL && !s->prefix_blank) continue;
        if (s->kind == MEGA_PRE_NUMBERS && s->behavior == MEGA_SPLIT_ISOLATED && !numbers && found == MEGA_SPLIT_NONE) {
            numbers = true;
            continue;
        }
        if (s->kind != MEGA_PRE_PATTERN || found != MEGA_SPLIT_NONE) return MEGA_SPLIT_NONE;
        found = s->split;
    }
    if (!numbers) return found;
    return found == MEGA_SPLIT_GPT2 ? MEGA_SPLIT_DIGITS : MEGA_SPLIT_NONE;
}

static mega_status decoder_replace(json_reader *r, size_t at, const char *from, size_t n, const char *to, size_t to_n)
{
    mega_decoder_steps *d = &r->pipe->decoder;
    if (d->replacements == (int)(sizeof d->from / sizeof d->from[0]))
        return mega_cursor_fail(r->c, at, "more than %d replacements in a decoder", d->replacements);
    const int i = d->replacements++;
    MEGA_TRY(mega_text_set(&d->from[i], from, n));
    return mega_text_set(&d->to[i], to, to_n);
}

static mega_status read_decoder_replace(json_reader *r, size_t at)
{
    bool is_regex;
    mega_text from = {0};
    MEGA_TRY(pipeline_read_pattern(r, at, &is_regex));
    if (is_regex) return mega_cursor_fail(r->c, at, "a decoder that replaces by an expression is not supported");
    mega_status st = mega_text_set(&from, r->text.data, r->text.size);
    if (st == MEGA_OK) st = key_string(r, at, "content", "");
    if (st == MEGA_OK) st = decoder_replace(r, at, from.data, from.size, r->text.data, r->text.size);
    mega_free(from.data);
    return st;
}

static mega_status read_decoder_strip(json_reader *r, size_t at)
{
    static const char *const keys[] = {"start", "stop"};
    size_t start = 0, stop = 0;
    int64_t most = 0, least = 0;
    r->c->at = at;
    MEGA_TRY(mega_json_members(r->c, keys, (size_t *const[]){&start, &stop}, 2));
    r->c->at = start;
    if (start != 0) MEGA_TRY(mega_cursor_int(r->c, &most));
    r->c->at = stop;
    if (stop != 0) MEGA_TRY(mega_cursor_int(r->c, &least));
    if (least != 0 || most < 0 || !r->fused || r->pipe->decoder.strip_most > 0)
        return mega_cursor_fail(r->c, at, "a decoder Strip is supported once, after Fuse, with \"stop\" 0");
    MEGA_TRY(key_string(r, at, "content", " "));
    if (mega_utf8_decode((const uint8_t *)r->text.data, r->text.size, &r->pipe->decoder.strip) != (int)r->text.size)
        return mega_cursor_fail(r->c, at, "a decoder Strip needs one character as \"content\"");
    r->pipe->decoder.strip_most = most;
    return MEGA_OK;
}

static mega_status pipeline_read_decoder(json_reader *r, size_t at, const char *type)
{
    static const char known[] = "ByteLevel, WordPiece, Metaspace, Replace, ByteFallback, Fuse, Strip (in this "
                                "order)";
    mega_decoder_steps *d = &r->pipe->decoder;
    const bool late = r->fused || d->byte_fallback;
    if (strcmp(type, "ByteLevel") == 0 && r->pipe->byte_level) return MEGA_OK;
    if (r->pipe->byte_level)
        return mega_cursor_fail(r->c, at, "decoder %s with a byte-level model is not supported; expected ByteLevel",
                                type);
    d->none = false;
    if (strcmp(type, "WordPiece") == 0 && !late && d->replacements == 0 && !d->wordpiece) {
        d->wordpiece = true;
        MEGA_TRY(key_bool(r, at, "cleanup", true, &d->cleanup));
        MEGA_TRY(key_string(r, at, "prefix", "##"));
        return mega_text_set(&d->prefix, r->text.data, r->text.size);
    }
    if (d->wordpiece && strcmp(type, "Fuse") != 0)
        return mega_cursor_fail(r->c, at, "decoder %s after WordPiece is not supported", type);
    if (strcmp(type, "Replace") == 0 && !late) return read_decoder_replace(r, at);
    if (strcmp(type, "ByteFallback") == 0 && !late) {
        d->byte_fallback = true;
        return MEGA_OK;
    }
    if (strcmp(type, "Fuse") == 0) {
        r->fused = true;
        return MEGA_OK;
    }
    if (strcmp(type, "Strip") == 0) return read_decoder_strip(r, at);
    if (strcmp(type, "Metaspace") == 0 && !late && d->replacements == 0) {
        bool adds;
        MEGA_TRY(key_bool(r, at, "add_prefix_space", true, &adds));
        MEGA_TRY(key_string(r, at, "prepend_scheme", adds ? "always" : "never"));
        d->metaspace = !text_is(r, "never");
        MEGA_TRY(key_string(r, at, "replacement", "\xE2\x96\x81"));
        return decoder_replace(r, at, r->text.data, r->text.size, " ", 1);
    }
    return step_refuse(r, at, "decoder", type, known);
}

mega_status mega_pipeline_read(json_reader *r)
{
    mega_pipeline *p = r->pipe;
    p->decoder.none = true;
    MEGA_TRY(mega_json_steps(r, r->layout->normalizer, "normalizers", read_normalizer, 0));
    MEGA_TRY(mega_json_steps(r, r->layout->pre_tokenizer, "pretokenizers", read_pre, 0));
    MEGA_TRY(expand_byte_level(r));
    if (p->byte_level) p->fast = fast_split(p);
    return mega_json_steps(r, r->layout->decoder, "decoders", pipeline_read_decoder, 0);
}
