/* megalith data show | info | verify | merge: inspects indexed datasets and merges them. */
#include "cli.h"
#include "commands.h"
#include "data_show.h"
#include "megalith/file.h"
#include "megalith/indexed.h"
#include "megalith/indexed_tokenizer.h"
#include "megalith/memory.h"
#include "megalith/progress.h"
#include "megalith/tokenizer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char command[] = "data";

/* ---- info ---- */

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t mega_data_document_tokens(const mega_indexed *ix, int64_t document)
{
    int64_t tokens = 0;
    const int64_t end = mega_indexed_document(ix, document + 1);
    for (int64_t s = mega_indexed_document(ix, document); s < end; s++) tokens += mega_indexed_size(ix, s);
    return tokens;
}

static mega_status show_lengths(const mega_indexed *ix)
{
    const int64_t n = mega_indexed_documents(ix);
    if (n == 0) return MEGA_OK;
    int64_t *length = mega_malloc((size_t)n * sizeof *length), empty = 0;
    if (length == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for the lengths of %" PRId64 " documents", n);
    for (int64_t d = 0; d < n; d++) {
        length[d] = mega_data_document_tokens(ix, d);
        empty += length[d] == 0;
    }
    qsort(length, (size_t)n, sizeof *length, by_size);
    printf("  tokens a document  mean %.1f, shortest %" PRId64 ", median %" PRId64 ", longest %" PRId64 "\n",
           (double)mega_indexed_tokens(ix) / (double)n, length[0], length[n / 2], length[n - 1]);
    if (empty > 0) printf("  empty documents    %" PRId64 "\n", empty);
    mega_free(length);
    return MEGA_OK;
}

static mega_status info(const mega_command_options *cfg, const char *prefix)
{
    mega_indexed *ix;
    MEGA_TRY(mega_indexed_open(prefix, &ix));
    const size_t element = mega_dtype_size(mega_indexed_dtype(ix));
    const int64_t tokens = mega_indexed_tokens(ix);
    printf("%s\n", prefix);
    printf("  documents          %" PRId64 "\n", mega_indexed_documents(ix));
    if (mega_indexed_sequences(ix) != mega_indexed_documents(ix))
        printf("  sequences          %" PRId64 "\n", mega_indexed_sequences(ix));
    printf("  tokens             %" PRId64 ", %zu bytes each (%s), %.1f MB\n", tokens, element,
           mega_dtype_name(mega_indexed_dtype(ix)), (double)tokens * (double)element * 1e-6);
    if (cfg->train.seq_length > 0)
        printf("  samples            %" PRId64 " of %" PRId64 " tokens in an epoch over all of it\n",
               (tokens - 1) / cfg->train.seq_length, cfg->train.seq_length);
    printf("  index hash         %016" PRIx64 "\n", mega_indexed_hash(ix));
    const mega_status st = show_lengths(ix);
    mega_indexed_close(ix);
    return st;
}

/* ---- verify ---- */

static mega_status verify(const mega_command_options *cfg, const char *prefix)
{
    mega_tokenizer *tokenizer = NULL;
    MEGA_TRY(mega_data_tokenizer(cfg, &tokenizer));
    const int64_t vocab_size = tokenizer != NULL ? mega_tokenizer_size(tokenizer) : 0;
    mega_indexed_compare_tokenizer(prefix, tokenizer);
    mega_tokenizer_destroy(tokenizer);
    mega_indexed *ix;
    MEGA_TRY(mega_indexed_open(prefix, &ix));
    const mega_status st = mega_indexed_verify(ix, vocab_size);
    if (st == MEGA_OK)
        printf("%s: whole, %" PRId64 " document%s, %" PRId64 " tokens%s\n", prefix, mega_indexed_documents(ix),
               mega_indexed_documents(ix) == 1 ? "" : "s", mega_indexed_tokens(ix),
               vocab_size > 0 ? ", all in the vocabulary" : "");
    mega_indexed_close(ix);
    return st;
}

/* ---- merge ---- */

typedef struct prefix_list {
    char **item;
    int64_t count;
} prefix_list;

static void prefix_list_fini(prefix_list *l)
{
    for (int64_t i = 0; i < l->count; i++) mega_free(l->item[i]);
    mega_free(l->item);
}

static mega_status prefix_list_add(prefix_list *l, const char *text, size_t bytes)
{
    char *copy = mega_strndup(text, bytes);
    if (copy == NULL || !mega_array_add(&l->item, l->count, sizeof *l->item)) {
        mega_free(copy);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a list of data sets");
    }
    l->item[l->count++] = copy;
    return MEGA_OK;
}

/* Whether a file PREFIX.tokenizer is beside a pair (megalith/indexed_tokenizer.h). */
static bool is_of_pair(const char *path)
{
    static const char ending[] = ".tokenizer";
    if (!mega_path_ends_with(path, ending)) return false;
    char *idx = mega_format("%.*s.idx", (int)(strlen(path) + 1 - sizeof ending), path);
    const bool is_there = idx != NULL && mega_file_exists(idx);
    mega_free(idx);
    return is_there;
}

/* Adds the pairs of a folder, sorted by name. Every file in it must belong to a pair, as in Megatron's
 * merge_datasets. */
static mega_status add_folder(prefix_list *l, const char *folder)
{
    mega_names names;
    MEGA_TRY(mega_folder_list(folder, &names));
    mega_status st = MEGA_OK;
    for (size_t i = 0; st == MEGA_OK && i < names.count; i++) {
        char *path = mega_path_join(folder, names.name[i]);
        const size_t n = path != NULL ? strlen(path) : 0;
        const bool bin = n > 4 && strcmp(path + n - 4, ".bin") == 0, idx = n > 4 && strcmp(path + n - 4, ".idx") == 0;
        if (path == NULL) {
            st = MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for a file name");
        } else if (!bin && !idx && mega_file_exists(path) && !is_of_pair(path)) {
            st = MEGA_MISTAKE("--input %s: found %s, expected nothing but .bin and .idx files; name the data "
                              "sets one by one",
                              folder, names.name[i]);
        } else if (bin || idx) {
            memcpy(path + n - 4, bin ? ".idx" : ".bin", 4);
            if (!mega_file_exists(path)) {
                st = MEGA_FAIL(MEGA_ERR_NOT_FOUND, "--input %s: %s has no %s beside it; expected pairs", folder,
                               names.name[i], bin ? ".idx" : ".bin");
            } else if (idx) {
                st = prefix_list_add(l, path, n - 4);
            }
        }
        mega_free(path);
    }
    mega_names_fini(&names);
    return st;
}

/* Checks that the output is none of the inputs, also through links: it would replace a file that has not been read
 * yet. */
static mega_status check_not_output(const char *input, const char *output)
{
    static const char *const endings[] = {".bin", ".idx"};
    bool same = false;
    for (size_t i = 0; i < 2; i++) {
        char *a = mega_format("%s%s", input, endings[i]), *b = mega_format("%s%s", output, endings[i]);
        const bool known = a != NULL && b != NULL;
        same |= known && mega_file_same(a, b);
        mega_free(a);
        mega_free(b);
        if (!known) return MEGA_NO_MEMORY("merge", "a path");
    }
    if (!same) return MEGA_OK;
    return MEGA_MISTAKE("--output-prefix %s is one of the data sets to merge (%s); give it another name", output,
                        input);
}

static mega_status data_collect(prefix_list *l, const mega_command_options *cfg)
{
    for (size_t i = 1; i < mega_options_positional(cfg->train.engine.options)->count; i++)
        MEGA_TRY(prefix_list_add(l, mega_options_positional(cfg->train.engine.options)->item[i],
                                 strlen(mega_options_positional(cfg->train.engine.options)->item[i])));
    for (size_t i = 0; i < cfg->data.input.count; i++) {
        const char *item = cfg->data.input.item[i];
        MEGA_TRY(mega_folder_exists(item) ? add_folder(l, item) : prefix_list_add(l, item, strlen(item)));
    }
    for (int64_t i = 0; i < l->count; i++) MEGA_TRY(check_not_output(l->item[i], cfg->data.output_prefix));
    if (l->count == 0)
        return MEGA_MISTAKE("merge: found no data set, expected --input FOLDER, or --input PREFIX PREFIX …");
    return MEGA_OK;
}

static void check_merge(mega_command_options *cfg, const prefix_list *l)
{
    for (int64_t i = 0; i < l->count; i++) {
        mega_indexed *ix = NULL;
        mega_options_add_mistake(cfg->train.engine.options, mega_indexed_open(l->item[i], &ix));
        mega_indexed_close(ix);
    }
}

static mega_status merge_all(mega_indexed_writer **w, const prefix_list *l, const char *output)
{
    mega_progress progress;
    mega_progress_begin(&progress, "merging", "data sets", 0, (uint64_t)l->count);
    for (int64_t i = 0; i < l->count; i++) {
        mega_indexed *ix;
        MEGA_TRY(mega_indexed_open(l->item[i], &ix));
        mega_status st = *w != NULL ? MEGA_OK : mega_indexed_writer_create(output, mega_indexed_dtype(ix), w);
        if (st == MEGA_OK) st = mega_indexed_writer_merge(*w, ix);
        mega_indexed_close(ix);
        MEGA_TRY(st);
        mega_progress_update(&progress, 0, (uint64_t)i + 1);
    }
    mega_progress_end(&progress, 0, (uint64_t)l->count);
    return MEGA_OK;
}

static mega_status merge(const mega_command_options *cfg)
{
    if (cfg->data.output_prefix == NULL) return MEGA_MISTAKE("merge: missing: --output-prefix PREFIX, of the new pair");
    prefix_list l = {0};
    mega_indexed_writer *w = NULL;
    mega_status st = data_collect(&l, cfg);
    if (st == MEGA_OK && cfg->train.dry_run) {
        mega_cli_dry_run("%" PRId64 " data sets would be joined in %s.bin and .idx", l.count, cfg->data.output_prefix);
        prefix_list_fini(&l);
        return st;
    }
    if (st == MEGA_OK) st = merge_all(&w, &l, cfg->data.output_prefix);
    if (st == MEGA_OK) {
        const int64_t documents = mega_indexed_writer_documents(w), tokens = mega_indexed_writer_tokens(w);
        st = mega_indexed_put_tokenizer(cfg->data.output_prefix, NULL);
        if (st == MEGA_OK) {
            st = mega_indexed_writer_finish(w);
            w = NULL;
        }
        if (st == MEGA_OK)
            st = mega_indexed_join_tokenizers((const char *const *)l.item, l.count, cfg->data.output_prefix);
        if (st == MEGA_OK)
            printf("written: %s.bin and .idx, %" PRId64 " document%s, %" PRId64 " tokens of %" PRId64 " data sets\n",
                   cfg->data.output_prefix, documents, documents == 1 ? "" : "s", tokens, l.count);
    }
    mega_indexed_writer_abandon(w);
    prefix_list_fini(&l);
    return st;
}

/* ---- the command ---- */

/* Handles each prefix separately, so that a broken one does not hide results for the others. */
static int for_each(const mega_command_options *cfg,
                    mega_status (*look)(const mega_command_options *cfg, const char *prefix))
{
    int exit_status = 0;
    for (size_t i = 1; i < mega_options_positional(cfg->train.engine.options)->count; i++) {
        const mega_status st = look(cfg, mega_options_positional(cfg->train.engine.options)->item[i]);
        if (st != MEGA_OK) exit_status = mega_cli_fail(command, st);
    }
    return exit_status;
}

static int data_run(const mega_command_options *cfg)
{
    static const struct {
        const char *name;
        mega_status (*look)(const mega_command_options *cfg, const char *prefix);
    } verbs[] = {{"show", mega_data_show}, {"info", info}, {"verify", verify}};
    const char *verb = mega_options_positional(cfg->train.engine.options)->count > 0
                           ? mega_options_positional(cfg->train.engine.options)->item[0]
                           : "";
    if (strcmp(verb, "merge") == 0) {
        const mega_status st = merge(cfg);
        return st == MEGA_OK ? 0 : mega_cli_fail(command, st);
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verb, verbs[i].name) != 0) continue;
        if (mega_options_positional(cfg->train.engine.options)->count > 1) return for_each(cfg, verbs[i].look);
        return mega_cli_fail(command,
                             MEGA_MISTAKE("%s: missing: PREFIX, the common name of a .bin and an .idx file", verb));
    }
    return mega_cli_fail(command, MEGA_MISTAKE("found \"%s\", expected show, info, verify or merge", verb));
}

static void data_check(mega_command_options *cfg)
{
    prefix_list l = {0};
    if (mega_options_positional(cfg->train.engine.options)->count == 0 ||
        strcmp(mega_options_positional(cfg->train.engine.options)->item[0], "merge") != 0)
        return;
    if (cfg->data.output_prefix == NULL) return; /* reported by merge */
    const mega_status st = data_collect(&l, cfg);
    mega_options_add_mistake(cfg->train.engine.options, st);
    if (st == MEGA_OK) check_merge(cfg, &l);
    prefix_list_fini(&l);
}

int mega_command_data(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse_checked(&cfg, command, argc, argv, data_check, &exit_status)) return exit_status;
    exit_status = data_run(&cfg);
    mega_command_options_fini(&cfg);
    return exit_status;
}
