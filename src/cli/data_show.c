/* megalith data show: prints documents as text, and samples row by row as the model will see them. */
#include "data_show.h"
#include "cli.h"
#include "cli_tokenizer.h"
#include "megalith/documents.h"
#include "megalith/gpt_data.h"
#include "megalith/indexed_tokenizer.h"
#include "megalith/memory.h"
#include "megalith/tokenizer.h"
#include "megalith/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DOCUMENTS_DEFAULT = 3, SAMPLES_DEFAULT = 1, TOKENS_SHOWN = 1000 };

mega_status mega_data_tokenizer(const mega_command_options *cfg, mega_tokenizer **out)
{
    const bool named =
        cfg->train.text.vocab_file != NULL || strcmp(cfg->train.text.tokenizer_type, "GPT2BPETokenizer") != 0;
    *out = NULL;
    return named ? mega_cli_tokenizer(cfg, out) : MEGA_OK;
}

typedef struct viewer {
    const mega_command_options *cfg;
    const char *prefix;
    mega_indexed *ix;
    mega_tokenizer *tokenizer; /* NULL: ids are printed */
} viewer;

static mega_status print_tokens(const viewer *v, const int32_t *tokens, int64_t n)
{
    if (v->tokenizer == NULL) {
        for (int64_t i = 0; i < n; i++) printf("%s%d", i > 0 ? " " : "", tokens[i]);
        return MEGA_OK;
    }
    mega_buffer text = {0};
    const mega_status st = mega_tokenizer_decode(v->tokenizer, tokens, n, &text);
    if (st == MEGA_OK && text.size > 0) fwrite(text.data, 1, text.size, stdout);
    mega_buffer_fini(&text);
    return st;
}

static mega_status show_sequence(const viewer *v, int64_t sequence, int64_t limit)
{
    const int64_t size = mega_indexed_size(v->ix, sequence), n = size < limit ? size : limit;
    int32_t *tokens = mega_malloc((size_t)(n > 0 ? n : 1) * sizeof *tokens);
    if (tokens == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a document of %" PRId64 " tokens", size);
    mega_indexed_get(v->ix, sequence, 0, n, tokens);
    mega_status st = print_tokens(v, tokens, n);
    mega_free(tokens);
    if (st == MEGA_OK) printf("\n");
    if (st == MEGA_OK && n < size)
        printf("… %" PRId64 " more tokens; --num-documents N shows documents whole\n", size - n);
    return st;
}

static mega_status show_documents(const viewer *v, int64_t count, bool whole)
{
    const int64_t all = mega_indexed_documents(v->ix), first = v->cfg->data.first;
    if (count > 0 && first >= all)
        return MEGA_MISTAKE("--first %" PRId64 ": %s has %" PRId64 " documents, expected 0 to %" PRId64, first,
                            v->prefix, all, all - 1);
    for (int64_t d = first; d < all && d - first < count; d++) {
        printf("--- document %" PRId64 " of %" PRId64 ", %" PRId64 " tokens\n", d, all,
               mega_data_document_tokens(v->ix, d));
        const int64_t end = mega_indexed_document(v->ix, d + 1);
        for (int64_t s = mega_indexed_document(v->ix, d); s < end; s++) {
            const mega_status st = show_sequence(v, s, whole ? INT64_MAX : TOKENS_SHOWN);
            if (st == MEGA_OK) continue;
            MEGA_CONTEXT("document %" PRId64, d);
            return st;
        }
    }
    return MEGA_OK;
}

mega_status mega_data_print_piece(const mega_tokenizer *t, int32_t id)
{
    mega_buffer piece = {0}, shown = {0};
    if (t != NULL) {
        const mega_status st = mega_tokenizer_piece(t, id, &piece);
        if (st != MEGA_OK) {
            mega_buffer_fini(&piece);
            return st;
        }
    }
    /* A token may contain only a part of a character. */
    const bool whole = mega_utf8_valid_bytes(piece.data, piece.size) == piece.size;
    int columns = 2;
    mega_buffer_puts(&shown, "\"");
    for (size_t i = 0; i < piece.size; i++) {
        const unsigned char c = (unsigned char)piece.data[i];
        if (c == '\n' || c == '\t' || c == '"' || c == '\\') {
            mega_buffer_printf(&shown, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : c);
            columns += 2;
        } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !whole)) {
            mega_buffer_printf(&shown, "\\x%02x", c);
            columns += 4;
        } else {
            mega_buffer_append(&shown, &c, 1);
            columns += (c & 0xc0) != 0x80;
        }
    }
    mega_buffer_puts(&shown, "\"");
    const mega_status st = mega_buffer_check(&shown, "a token");
    if (st == MEGA_OK) {
        printf("%7d", id);
        if (t != NULL)
            printf(" %s%*s", shown.data, columns < MEGA_DATA_PIECE_WIDTH ? MEGA_DATA_PIECE_WIDTH - columns : 0, "");
    }
    mega_buffer_fini(&piece);
    mega_buffer_fini(&shown);
    return st;
}

typedef struct row_arrays {
    int32_t *tokens, *input, *label, *position, *start;
    float *mask;
} row_arrays;

static mega_ltor_options data_show_ltor_options(const viewer *v)
{
    return (mega_ltor_options){.eod = v->tokenizer != NULL ? mega_tokenizer_eod(v->tokenizer) : -1,
                               .reset_position_ids = v->cfg->train.data.reset_position_ids,
                               .reset_attention_mask = v->cfg->train.data.reset_attention_mask,
                               .eod_mask_loss = v->cfg->train.data.eod_mask_loss};
}

static mega_status show_sample(const viewer *v, const mega_gpt_data *d, int64_t index, const row_arrays *a)
{
    const int64_t L = mega_gpt_data_seq_length(d);
    const mega_ltor_options o = data_show_ltor_options(v);
    MEGA_TRY(mega_gpt_data_sample(d, index, a->tokens));
    mega_ltor_row(a->tokens, L, &o, a->input, a->label, a->mask, a->position, a->start);
    printf("--- sample %" PRId64 " of %" PRId64 ", %" PRId64 " tokens\n", index, mega_gpt_data_samples(d), L);
    printf("      i position sees-from loss   input%*s   label\n", v->tokenizer != NULL ? MEGA_DATA_PIECE_WIDTH : 0,
           "");
    for (int64_t i = 0; i < L; i++) {
        printf("%7" PRId64 " %8d %9d %4.0f ", i, a->position[i], a->start[i], (double)a->mask[i]);
        MEGA_TRY(mega_data_print_piece(v->tokenizer, a->input[i]));
        printf(" ");
        MEGA_TRY(mega_data_print_piece(v->tokenizer, a->label[i]));
        printf("\n");
    }
    return MEGA_OK;
}

static mega_status show_built(const viewer *v, const mega_gpt_data *d, int64_t count)
{
    const int64_t L = mega_gpt_data_seq_length(d), first = v->cfg->data.first;
    int32_t *block = mega_malloc((size_t)(6 * L + 1) * 4);
    if (block == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a sample of %" PRId64 " tokens", L);
    const row_arrays a = {
        block, block + L + 1, block + 2 * L + 1, block + 3 * L + 1, block + 4 * L + 1, (float *)(block + 5 * L + 1)};
    mega_status st = MEGA_OK;
    for (int64_t i = first; st == MEGA_OK && i < mega_gpt_data_samples(d) && i - first < count; i++)
        st = show_sample(v, d, i, &a);
    mega_free(block);
    return st;
}

void mega_data_note_unread(const mega_command_options *cfg, const char *const *dest, const char *why)
{
    mega_options *o = cfg->train.engine.options;
    for (; *dest != NULL; dest++)
        if (mega_options_is_given(o, *dest))
            mega_options_warn(o, "%s has no effect: %s", mega_options_origin(o, *dest), why);
}

static bool has_sentences(const mega_indexed *ix)
{
    return mega_indexed_sequences(ix) > mega_indexed_documents(ix);
}

/* Shows samples of the training split, in the order of a run that reads only as many samples as are shown, which is
 * also the order of every run of one epoch. */
static mega_status show_samples(const viewer *v, int64_t count)
{
    static const char *const of_sentences[] = {"mask_prob", "short_seq_prob",     "bert_binary_head",
                                               "bert_nsp",  "decoder_seq_length", NULL};
    if (count == 0) return MEGA_OK;
    if (v->cfg->train.seq_length <= 0)
        return MEGA_MISTAKE("--num-samples: missing: --seq-length N, that of the training");
    if (has_sentences(v->ix)) return mega_data_show_sentences(v->cfg, v->prefix, v->tokenizer, count);
    mega_data_note_unread(v->cfg, of_sentences,
                          "the samples are a GPT's, as the data have no sentences (--split-sentences)");
    const mega_ltor_options ends = data_show_ltor_options(v);
    MEGA_TRY(mega_ltor_check(&ends, v->tokenizer != NULL ? mega_tokenizer_type(v->tokenizer) : NULL));
    const mega_gpt_data_options o = {.data_path = &v->prefix,
                                     .num_data_path = 1,
                                     .split = v->cfg->train.data.split,
                                     .in_memory = true,
                                     .seq_length = v->cfg->train.seq_length,
                                     .seed = (uint32_t)v->cfg->train.engine.seed,
                                     .num_samples = {v->cfg->data.first + count, 0, 0}};
    mega_gpt_data *built[MEGA_SPLIT_COUNT];
    MEGA_TRY(mega_gpt_data_build(&o, built));
    if (built[MEGA_SPLIT_TRAIN] == NULL)
        return MEGA_MISTAKE("--split %s: leaves none of the %" PRId64 " documents for training",
                            v->cfg->train.data.split, mega_indexed_documents(v->ix));
    const mega_status st = show_built(v, built[MEGA_SPLIT_TRAIN], count);
    mega_gpt_data_destroy(built[MEGA_SPLIT_TRAIN]);
    return st;
}

mega_status mega_data_show(const mega_command_options *cfg, const char *prefix)
{
    const bool documents_given = mega_options_was_set(cfg->train.engine.options, "num_documents");
    const bool samples_given = mega_options_was_set(cfg->train.engine.options, "num_samples");
    const bool neither = !documents_given && !samples_given;
    viewer v = {.cfg = cfg, .prefix = prefix};
    MEGA_TRY(mega_data_tokenizer(cfg, &v.tokenizer));
    mega_status st = mega_indexed_open(prefix, &v.ix);
    if (st == MEGA_OK) mega_indexed_compare_tokenizer(prefix, v.tokenizer);
    if (st == MEGA_OK && v.tokenizer == NULL)
        printf("ids alone: --vocab-file and --merge-file (or --tokenizer-type) of the data show text\n");
    if (st == MEGA_OK) st = show_documents(&v, neither ? DOCUMENTS_DEFAULT : cfg->data.num_documents, documents_given);
    if (st == MEGA_OK)
        st = show_samples(&v, neither && cfg->train.seq_length > 0 && !has_sentences(v.ix) ? SAMPLES_DEFAULT
                                                                                           : cfg->data.num_samples);
    mega_indexed_close(v.ix);
    mega_tokenizer_destroy(v.tokenizer);
    return st;
}
