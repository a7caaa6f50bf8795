/* Reads a SentencePiece model of Unigram or byte-pair encoding. Of the latter, a pair of pieces is merged if what they
 * spell is a piece, and the piece of the highest score first; so the merges are all divisions of each piece into two
 * others, ranked by score. */
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/utf8.h"
#include "protobuf.h"
#include "tokenizer_impl.h"
#include "tokenizer_json.h"
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER, PIECE_UNUSED, PIECE_BYTE };
enum { MODEL_UNIGRAM = 1, MODEL_BPE, MODEL_WORD, MODEL_CHAR };

typedef struct scored_piece {
    float score;
    int32_t id, type;
} scored_piece;

typedef struct sp_model {
    const char *path;
    mega_tokenizer *t;
    mega_pipeline *pipe;
    scored_piece *piece; /* those that text is made of */
    int64_t pieces;
    int64_t type, bos, eos, pad;
    bool suffix, no_escape, unused;
    mega_field charsmap;
} sp_model;

static mega_status damaged(const sp_model *m, const char *what)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found %s, expected a SentencePiece model; is it the .model file?", m->path,
                     what);
}

static bool is_true(const mega_field *f)
{
    return f->value != 0;
}

static mega_status read_trainer(sp_model *m, mega_message spec)
{
    mega_field f;
    while (mega_message_next(&spec, &f)) {
        switch (f.number) {
        case 3: m->type = (int64_t)f.value; break;
        case 24: m->suffix = is_true(&f); break;
        case 35: m->pipe->byte_fallback = is_true(&f); break;
        case 41: m->bos = (int32_t)f.value; break;
        case 42: m->eos = (int32_t)f.value; break;
        case 43: m->pad = (int32_t)f.value; break;
        case 44:
            if (f.wire == MEGA_WIRE_BYTES)
                MEGA_TRY(mega_text_set(&m->pipe->decoder.unknown, (const char *)f.bytes, f.size));
            break;
        default: break;
        }
    }
    return spec.damaged ? damaged(m, "a damaged trainer_spec") : MEGA_OK;
}

static mega_status spm_read_normalizer(sp_model *m, mega_message spec)
{
    mega_field f;
    while (mega_message_next(&spec, &f)) {
        switch (f.number) {
        case 2:
            if (f.wire == MEGA_WIRE_BYTES) m->charsmap = f;
            break;
        case 3: m->pipe->dummy_prefix = is_true(&f); break;
        case 4: m->pipe->remove_extra = is_true(&f); break;
        case 5: m->no_escape = !is_true(&f); break;
        default: break;
        }
    }
    return spec.damaged ? damaged(m, "a damaged normalizer_spec") : MEGA_OK;
}

static mega_status add_scored(sp_model *m, float score, int32_t id, int32_t type)
{
    if (!mega_array_add(&m->piece, m->pieces, sizeof *m->piece)) return MEGA_NO_MEMORY(m->path, "its pieces");
    m->piece[m->pieces++] = (scored_piece){score, id, type};
    return MEGA_OK;
}

static mega_status read_piece(sp_model *m, mega_message spec)
{
    mega_field f, text = {0};
    float score = 0;
    uint64_t type = PIECE_NORMAL;
    while (mega_message_next(&spec, &f)) {
        if (f.number == 1 && f.wire == MEGA_WIRE_BYTES) text = f;
        if (f.number == 3) type = f.value;
        if (f.number == 2 && f.wire == MEGA_WIRE_32) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&score, &bits, sizeof score);
        }
    }
    if (spec.damaged || text.size == 0) return damaged(m, "a damaged piece");
    const int64_t id = m->t->vocabulary.size;
    const char *bytes = (const char *)text.bytes;
    const int n = text.size > 60 ? 60 : (int)text.size;
    if (type == 0 || type > PIECE_BYTE)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: piece %lld '%.*s' is of type unknown, which is not supported",
                         m->path, (long long)id, n, bytes);
    const bool hidden = type != PIECE_NORMAL && type != PIECE_USER;
    const mega_status st = mega_vocabulary_add(&m->t->vocabulary, bytes, text.size, id, hidden ? MEGA_TOKEN_RAW : 0);
    if (st != MEGA_OK) {
        MEGA_CONTEXT("%s", m->path);
        return st;
    }
    if (type == PIECE_CONTROL) m->t->vocabulary.token[id].flags |= MEGA_TOKEN_CONTROL | MEGA_TOKEN_SPECIAL;
    if (type == PIECE_UNKNOWN) m->pipe->unknown = (int32_t)id;
    m->unused = m->unused || type == PIECE_UNUSED;
    return hidden ? MEGA_OK : add_scored(m, score, (int32_t)id, (int32_t)type);
}

static mega_status read_model(sp_model *m, const char *text, size_t size)
{
    mega_message model = {.bytes = (const uint8_t *)text, .size = size};
    mega_field f;
    while (mega_message_next(&model, &f)) {
        if (f.wire != MEGA_WIRE_BYTES) continue;
        if (f.number == 1) MEGA_TRY(read_piece(m, mega_message_in(&f)));
        if (f.number == 2) MEGA_TRY(read_trainer(m, mega_message_in(&f)));
        if (f.number == 3) MEGA_TRY(spm_read_normalizer(m, mega_message_in(&f)));
    }
    if (model.damaged || m->t->vocabulary.size == 0) return damaged(m, "a damaged file");
    return MEGA_OK;
}

/* Refuses by name what changes ids and is not built. */
static mega_status spm_check_model(const sp_model *m)
{
    static const char *const types[] = {"", "UNIGRAM", "BPE", "WORD", "CHAR"};
    if (m->type != MODEL_BPE && m->type != MODEL_UNIGRAM)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: its model_type is %s; only models of BPE and Unigram are supported",
                         m->path, m->type >= 1 && m->type <= 4 ? types[m->type] : "unknown");
    if (m->unused && m->type == MODEL_BPE)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: a piece is of type UNUSED, which is not supported in models of BPE",
                         m->path);
    if (m->suffix || m->no_escape)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: %s is not supported", m->path,
                         m->suffix ? "treat_whitespace_as_suffix true" : "escape_whitespaces false");
    if (m->pipe->unknown < 0) return damaged(m, "no piece of type UNKNOWN");
    return MEGA_OK;
}

static int compare_scores(const void *a, const void *b)
{
    const scored_piece *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Adds every division of a piece into two others. Its characters must be pieces themselves, as those of trained models
 * are: then whatever is merged is a piece, too. */
static mega_status add_divisions(sp_model *m, int32_t id, int32_t rank)
{
    mega_tokenizer *t = m->t;
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    const char *text = mega_token_bytes(&t->vocabulary, token);
    const size_t n = token->size;
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        const int length = mega_utf8_decode((const uint8_t *)text + at, n - at, &cp);
        if (length == 0 ||
            ((size_t)length < n && mega_vocabulary_find(&t->vocabulary, text + at, (size_t)length, false) < 0))
            return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                             "%s: piece %d '%.*s' has a character that is not a piece itself, which is not supported",
                             m->path, id, n > 60 ? 60 : (int)n, text);
        at += (size_t)length;
        if (at == n) break;
        const int32_t left = mega_vocabulary_find(&t->vocabulary, text, at, false);
        const int32_t right = mega_vocabulary_find(&t->vocabulary, text + at, n - at, false);
        if (left >= 0 && right >= 0) MEGA_TRY(mega_merges_add_ranked(&t->merges, left, right, id, rank));
    }
    return MEGA_OK;
}

static mega_status add_merges(sp_model *m)
{
    int32_t rank = 0;
    if (m->pieces > 0) qsort(m->piece, (size_t)m->pieces, sizeof *m->piece, compare_scores);
    for (int64_t i = 0; i < m->pieces; i++) {
        rank += i > 0 && m->piece[i].score != m->piece[i - 1].score;
        if (m->piece[i].type == PIECE_NORMAL) MEGA_TRY(add_divisions(m, m->piece[i].id, rank));
    }
    return MEGA_OK;
}

/* Unigram: scores by id. A piece of type USER_DEFINED has one that grows with its length and nearly always wins. */
static mega_status spm_add_scores(sp_model *m)
{
    mega_pipeline *p = m->pipe;
    const int64_t size = m->t->vocabulary.size;
    float least = FLT_MAX, most = 0.1f;
    p->score = mega_calloc((size_t)size, sizeof *p->score);
    if (p->score == NULL) return MEGA_NO_MEMORY(m->path, "its scores");
    p->scores = size;
    for (int64_t i = 0; i < m->pieces; i++) {
        if (m->piece[i].type == PIECE_USER) continue;
        least = m->piece[i].score < least ? m->piece[i].score : least;
        most = m->piece[i].score > most ? m->piece[i].score : most;
    }
    for (int64_t i = 0; i < m->pieces; i++) {
        const scored_piece *s = &m->piece[i];
        const float bytes = (float)mega_vocabulary_get(&m->t->vocabulary, s->id)->size;
        p->score[s->id] = (double)(s->type == PIECE_USER ? bytes * most - 0.1f : s->score);
    }
    p->model = MEGA_MODEL_UNIGRAM;
    p->narrow = p->blank_marks = true;
    p->unknown_score = (double)(least - 10.0f);
    return mega_pipeline_build_trie(p, &m->t->vocabulary);
}

/* Pieces of type USER_DEFINED are protected from the replacements of the normalizer. BPE finds them in normalized text,
 * as added tokens. */
static mega_status protect_user_pieces(const sp_model *m)
{
    mega_pipeline *p = m->pipe;
    for (int64_t i = 0; i < m->pieces; i++) {
        if (m->piece[i].type != PIECE_USER) continue;
        const mega_vocabulary *v = &m->t->vocabulary;
        const mega_token *token = mega_vocabulary_get(v, m->piece[i].id);
        const char *text = mega_token_bytes(v, token);
        if (m->type == MODEL_BPE)
            MEGA_TRY(mega_tokenizer_add_token(m->t, text, token->size, m->piece[i].id, false, true));
        if (!mega_array_add(&p->kept, p->num_kept, sizeof *p->kept))
            return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", m->path);
        p->kept[p->num_kept++] = (mega_text){0};
        p->kept_begins[(uint8_t)text[0]] = true;
        MEGA_TRY(mega_text_set(&p->kept[p->num_kept - 1], text, token->size));
    }
    return MEGA_OK;
}

static bool printable_stays(const mega_pipeline *p)
{
    const uint8_t *kind = p->charsmap.kind;
    bool all = true;
    for (int i = ' '; i < 0x7F; i++)
        all = all && !p->kept_begins[i] && (kind[i] & (MEGA_CHAR_REPLACED | MEGA_CHAR_FOLLOWS)) == 0;
    return all;
}

static mega_status fill_pipeline(sp_model *m)
{
    mega_pipeline *p = m->pipe;
    mega_decoder_steps *d = &p->decoder;
    if (m->charsmap.size > 0) {
        const mega_status st = mega_charsmap_read(&p->charsmap, (const char *)m->charsmap.bytes, m->charsmap.size);
        if (st != MEGA_OK) {
            MEGA_CONTEXT("%s", m->path);
            return st;
        }
    }
    MEGA_TRY(mega_charsmap_note_kinds(&p->charsmap));
    if (p->blank_marks) p->charsmap.kind[0x2581] |= MEGA_CHAR_REPLACED;
    p->printable_stays = printable_stays(p);
    if (!mega_array_add(&p->normalize, 0, sizeof *p->normalize))
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", m->path);
    p->normalize[p->num_normalize++] = (mega_normalize_step){.kind = MEGA_NORMALIZE_SENTENCEPIECE};
    d->sentencepiece = true;
    d->byte_fallback = p->byte_fallback;
    d->replacements = 1;
    MEGA_TRY(mega_text_set(&d->from[0], "\xE2\x96\x81", 3));
    MEGA_TRY(mega_text_set(&d->to[0], " ", 1));
    if (d->unknown.data == NULL) MEGA_TRY(mega_text_set(&d->unknown, " \xE2\x81\x87 ", 5));
    p->fuse_unknown = true;
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        p->byte_token[b] = p->byte_fallback ? mega_vocabulary_find(&m->t->vocabulary, name, 6, true) : -1;
        if (p->byte_fallback && p->byte_token[b] < 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: byte_fallback is set, but there is no piece %s", m->path, name);
    }
    if (m->type == MODEL_BPE) p->splits_at_mark = mega_pipeline_splits_at_mark(m->t);
    return MEGA_OK;
}

/* The id of a piece, whatever its type; -1: none. */
static int32_t any_piece(const mega_tokenizer *t, const char *name)
{
    const int32_t id = mega_vocabulary_find(&t->vocabulary, name, strlen(name), false);
    return id >= 0 ? id : mega_vocabulary_find(&t->vocabulary, name, strlen(name), true);
}

static mega_status add_own(sp_model *m, const char *name)
{
    mega_tokenizer *t = m->t;
    int32_t id = any_piece(t, name);
    if (id < 0) {
        id = (int32_t)t->vocabulary.size;
        MEGA_TRY(mega_vocabulary_add(&t->vocabulary, name, strlen(name), id, MEGA_TOKEN_RAW));
    }
    return mega_tokenizer_add_token(t, name, strlen(name), id, true, false);
}

static const char *piece_or(const sp_model *m, int64_t id, const char *fallback, char *out, size_t size)
{
    const mega_token *token = mega_vocabulary_get(&m->t->vocabulary, id);
    if (token == NULL) return fallback;
    snprintf(out, size, "%.*s", (int)token->size, mega_token_bytes(&m->t->vocabulary, token));
    return out;
}

/* Megatron's SentencePieceTokenizer appends special tokens of its own, in this order, each unless it is there. */
static mega_status add_megatron_tokens(sp_model *m, int64_t extra_ids)
{
    static const char *const own[] = {"<CLS>", "<SEP>", "<EOD>", "<MASK>"};
    const struct {
        int64_t id;
        const char *fallback;
    } roles[] = {{m->pad, "<PAD>"}, {m->bos, "<BOS>"}, {m->eos, "<EOS>"}};
    char name[64];
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) MEGA_TRY(add_own(m, own[i]));
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        MEGA_TRY(add_own(m, piece_or(m, roles[i].id, roles[i].fallback, name, sizeof name)));
    for (int64_t i = 0; i < extra_ids; i++) {
        snprintf(name, sizeof name, "<extra_id_%lld>", (long long)i);
        MEGA_TRY(add_own(m, name));
    }
    m->t->eod = any_piece(m->t, "<EOD>");
    m->t->special_in_data = true;
    return MEGA_OK;
}

static mega_status spm_add_roles(sp_model *m, mega_tokenizer_kind kind, int64_t extra_ids)
{
    if (kind == MEGA_KIND_SENTENCEPIECE) return add_megatron_tokens(m, extra_ids);
    m->t->eod = mega_vocabulary_get(&m->t->vocabulary, m->eos) != NULL ? (int32_t)m->eos : -1;
    if (kind != MEGA_KIND_LLAMA2) return MEGA_OK;
    if (mega_vocabulary_get(&m->t->vocabulary, m->bos) == NULL)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s: the model has no BOS, which Llama2Tokenizer puts in front of every text; use "
                         "GPTSentencePieceTokenizer",
                         m->path);
    return mega_pipeline_add_prefix(m->pipe, (int32_t)m->bos);
}

/* `transformers` reads the model itself as it is; Megatron's own tokens are not in it. */
static mega_status keep_config(sp_model *m, mega_tokenizer_kind kind, int64_t extra_ids)
{
    char role[4][64];
    if (kind == MEGA_KIND_SENTENCEPIECE)
        return mega_tokenizer_keep_made(
            m->t, &(mega_made){.class = "PreTrainedTokenizerFast",
                               .more = "  \"add_bos_token\": false,\n  \"add_eos_token\": false,\n",
                               .role = {piece_or(m, m->pipe->unknown, NULL, role[0], sizeof role[0]), "<CLS>", "<SEP>",
                                        piece_or(m, m->pad, "<PAD>", role[1], sizeof role[1]), "<MASK>",
                                        piece_or(m, m->bos, "<BOS>", role[2], sizeof role[2]),
                                        piece_or(m, m->eos, "<EOS>", role[3], sizeof role[3])},
                               .extra_ids = extra_ids,
                               .charsmap = m->charsmap.bytes,
                               .charsmap_size = m->charsmap.size});
    mega_buffer config = {0};
    mega_buffer_printf(&config,
                       "{\n  \"add_bos_token\": %s,\n  \"add_eos_token\": false,\n  \"legacy\": true,\n"
                       "  \"tokenizer_class\": \"LlamaTokenizer\",\n  \"megalith_tokenizer_type\": \"%s\",\n"
                       "  \"megalith_extra_ids\": %lld\n}\n",
                       kind == MEGA_KIND_LLAMA2 ? "true" : "false", mega_tokenizer_type(m->t), (long long)extra_ids);
    MEGA_TRY(mega_buffer_check(&config, m->path));
    mega_tokenizer_keep(m->t, "tokenizer_config.json", config.data, config.size);
    return MEGA_OK;
}

static mega_status sp_keep(sp_model *m, mega_tokenizer_kind kind, int64_t extra_ids, char **text, size_t size)
{
    mega_pipeline *p = m->pipe;
    MEGA_TRY(keep_config(m, kind, extra_ids));
    p->fingerprint = mega_hash64(MEGA_HASH_START, *text, size);
    p->fingerprint = mega_hash64(p->fingerprint, &kind, sizeof kind);
    mega_tokenizer_keep(m->t, "tokenizer.model", *text, size);
    *text = NULL;
    return MEGA_OK;
}

static mega_status sp_read(sp_model *m, mega_tokenizer_kind kind, int64_t extra_ids, char **text, size_t size)
{
    MEGA_TRY(mega_tokenizer_begin(kind, m->path, &m->t));
    m->pipe = m->t->pipe = mega_calloc(1, sizeof *m->pipe);
    if (m->pipe == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", m->path);
    m->pipe->unknown = -1;
    m->pipe->dummy_prefix = m->pipe->remove_extra = true;
    MEGA_TRY(read_model(m, *text, size));
    MEGA_TRY(spm_check_model(m));
    MEGA_TRY(protect_user_pieces(m));
    MEGA_TRY(m->type == MODEL_UNIGRAM ? spm_add_scores(m) : add_merges(m));
    MEGA_TRY(fill_pipeline(m));
    MEGA_TRY(spm_add_roles(m, kind, extra_ids));
    MEGA_TRY(sp_keep(m, kind, extra_ids, text, size));
    return mega_tokenizer_finish(m->t);
}

mega_status mega_tokenizer_read_sentencepiece_text(const char *path, mega_tokenizer_kind kind, int64_t extra_ids,
                                                   char **text, size_t size, mega_tokenizer **out)
{
    sp_model m = {.path = path, .type = MODEL_UNIGRAM, .bos = 1, .eos = 2, .pad = -1};
    const mega_status st = sp_read(&m, kind, extra_ids, text, size);
    if (st == MEGA_OK) *out = m.t;
    else
        mega_tokenizer_destroy(m.t);
    mega_free(m.piece);
    return st;
}
