/* megalith tasks: evaluates a trained model on text. LM_LOSS and WIKITEXT103 are here, LAMBADA is in
 * tasks_lambada.c; the tasks with labels are runs of train/. */
#include "tasks.h"
#include "cli.h"
#include "commands.h"
#include "megalith/detokenize.h"
#include "megalith/encoding.h"
#include "megalith/evaluate.h"
#include "megalith/generate.h"
#include "megalith/interval.h"
#include "megalith/progress.h"
#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A text as the model reads it. */
typedef struct reading {
    mega_ids ids;
    size_t bytes;
    int64_t words; /* number of words in the original file: runs between single spaces, WikiText's original tokens */
    int64_t documents;
} reading;

static void show_progress(void *user, int64_t windows, int64_t total)
{
    mega_progress *p = user;
    (void)total;
    mega_progress_update(p, 0, (uint64_t)windows);
}

/* Computes the perplexity exp(entropy) of the targets' frequencies: what a model reaches that knows only how frequent
 * each token is. */
static mega_status unigram_perplexity(const mega_ids *ids, int64_t vocab, double *out)
{
    int64_t *seen = mega_calloc((size_t)vocab, sizeof *seen);
    if (seen == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tasks: no memory to count %lld tokens", (long long)vocab);
    for (int64_t i = 1; i < ids->count; i++) seen[ids->id[i]]++;
    const double targets = (double)(ids->count - 1);
    double entropy = 0.0;
    for (int64_t v = 0; v < vocab; v++) {
        if (seen[v] > 0) entropy -= (double)seen[v] / targets * log((double)seen[v] / targets);
    }
    mega_free(seen);
    *out = exp(entropy);
    return MEGA_OK;
}

static int64_t tasks_count_words(const char *text, size_t bytes)
{
    while (bytes > 0 && strchr(" \n\t\r", text[0]) != NULL) text++, bytes--;
    while (bytes > 0 && strchr(" \n\t\r", text[bytes - 1]) != NULL) bytes--;
    int64_t words = bytes > 0;
    for (size_t i = 0; i < bytes; i++) words += text[i] == ' ';
    return words;
}

static mega_status check_ids(const mega_loaded *l, const char *path, const reading *r)
{
    if (r->ids.count < 2)
        return MEGA_MISTAKE("--valid-data %s: %zu bytes, %lld tokens; at least 2 tokens are needed, for the first has "
                            "nothing before it; give a longer text",
                            path, r->bytes, (long long)r->ids.count);
    for (int64_t i = 0; i < r->ids.count; i++) {
        if (r->ids.id[i] < l->model.shape.vocab) continue;
        return MEGA_MISTAKE("--valid-data %s: token %lld has id %d, the model's vocabulary has %lld; this is not the "
                            "tokenizer the model was trained with",
                            path, (long long)i, r->ids.id[i], (long long)l->model.shape.vocab);
    }
    return MEGA_OK;
}

mega_status mega_task_open(const mega_command_options *cfg, const char *path, bool json_lines, mega_documents **out)
{
    if (json_lines && cfg->tasks.input_format == MEGA_INPUT_TEXT)
        return MEGA_MISTAKE("--input-format text: %s reads JSON lines alone; leave it out", cfg->train.classify.task);
    const mega_document_format format =
        json_lines ? MEGA_DOCUMENT_JSON_LINES : (mega_document_format)cfg->tasks.input_format;
    const mega_documents_options files = {.inputs = &path, .num_inputs = 1, .format = format};
    MEGA_TRY(mega_documents_open(&files, out));
    if (json_lines) mega_documents_take_kinds(*out, 0); /* the task says so, not the user */
    return MEGA_OK;
}

mega_status mega_task_text(const mega_command_options *cfg, const mega_document_chunk *chunk, int64_t record,
                           mega_buffer *space, mega_document_text *out)
{
    mega_document_fault fault;
    if (chunk->format == MEGA_DOCUMENT_TEXT) {
        *out = (mega_document_text){chunk->bytes.data + chunk->record[record].begin, chunk->record[record].size};
        return mega_encoding_check_text(chunk->path, chunk->record[record].line, out->text, out->bytes);
    }
    const bool is_read = mega_document_views(chunk, record, &cfg->tasks.json_key, 1, space, out, &fault);
    if (is_read) {
        const bool has_zero = out->bytes > 0 && memchr(out->text, '\0', out->bytes) != NULL;
        if (!has_zero && !fault.is_repeated) return MEGA_OK;
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld: %s; expected JSON lines with the key %s (--json-key)", chunk->path,
                         (long long)chunk->record[record].line,
                         has_zero ? "a zero character (\\u0000) in the text" : "the object has the key twice",
                         cfg->tasks.json_key);
    }
    if (space->failed) return MEGA_FAIL(MEGA_ERR_MEMORY, "--valid-data %s: no memory for a document", chunk->path);
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld:%lld: %s; expected JSON lines with the key %s (--json-key)", chunk->path,
                     (long long)fault.line, (long long)fault.column, fault.what, cfg->tasks.json_key);
}

/* Appends a document. As in training data, the end-of-document id separates documents. */
static mega_status add_document(const mega_loaded *l, bool wikitext, const mega_document_text *text, reading *out)
{
    const int32_t eod = mega_tokenizer_eod(l->tokenizer);
    mega_buffer plain = {0};
    if (text->bytes == 0) return MEGA_OK;
    if (out->documents++ > 0 && eod >= 0) {
        MEGA_TRY(mega_ids_reserve(&out->ids, 1));
        out->ids.id[out->ids.count++] = eod;
    }
    out->words += tasks_count_words(text->text, text->bytes);
    mega_status st = wikitext ? mega_detokenize_wikitext(text->text, text->bytes, &plain) : MEGA_OK;
    const mega_document_text read = wikitext ? (mega_document_text){plain.data, plain.size} : *text;
    if (st == MEGA_OK) st = mega_encoder_encode(l->encoder, read.text, read.bytes, &out->ids);
    out->bytes += read.bytes;
    mega_buffer_fini(&plain);
    return st;
}

static mega_status add_chunk(const mega_loaded *l, const mega_command_options *cfg, bool wikitext,
                             const mega_document_chunk *chunk, mega_buffer *space, reading *out)
{
    for (int64_t i = 0; i < chunk->count; i++) {
        mega_document_text text;
        MEGA_TRY(mega_task_text(cfg, chunk, i, space, &text));
        MEGA_TRY(add_document(l, wikitext, &text, out));
    }
    return MEGA_OK;
}

static mega_status tasks_read_text(const mega_loaded *l, const mega_command_options *cfg, const char *path,
                                   bool wikitext, reading *out)
{
    mega_documents *documents = NULL;
    mega_document_chunk chunk = {0};
    mega_buffer space = {0};
    mega_status st = mega_task_open(cfg, path, false, &documents);
    if (st == MEGA_OK) st = mega_documents_read(documents, &chunk);
    while (st == MEGA_OK && chunk.count > 0) {
        st = add_chunk(l, cfg, wikitext, &chunk, &space, out);
        if (st == MEGA_OK) st = mega_documents_read(documents, &chunk);
    }
    mega_buffer_fini(&space);
    mega_document_chunk_fini(&chunk);
    mega_documents_close(documents);
    return st == MEGA_OK ? check_ids(l, path, out) : st;
}

/* Megatron's line stays as it is; the interval of 95 % comes in a line of its own. most: the loss of the largest
 * perplexity, which Megatron cuts. */
static void print_interval(const mega_evaluation *e, double ratio, double most)
{
    const double loss = e->loss_sum / (double)e->targets, half = MEGA_NORMAL_95 * e->error;
    if (!isfinite(half)) return; /* a single window */
    printf("   95 %% confidence interval: avg loss: %.4E to %.4E | ppl: %.4E to %.4E", loss - half, loss + half,
           exp(fmin(loss - half, most)), exp(fmin(loss + half, most)));
    if (ratio > 0)
        printf(" | adjusted ppl: %.4E to %.4E", exp(fmin((loss - half) * ratio, most)),
               exp(fmin((loss + half) * ratio, most)));
    printf(" |\n");
}

static mega_status print_lm_loss(const mega_loaded *l, const char *path, const reading *r, const mega_evaluation *e)
{
    mega_buffer first = {0};
    double unigram = 0.0;
    MEGA_TRY(mega_tokenizer_piece(l->tokenizer, r->ids.id[0], &first));
    const double bytes = (double)(r->bytes - first.size); /* the first token has no context and is not a target */
    mega_buffer_fini(&first);
    MEGA_TRY(unigram_perplexity(&r->ids, l->model.shape.vocab, &unigram));
    const double loss = e->loss_sum / (double)e->targets;
    printf(
        " validation results on LM_LOSS | file: %s | tokens: %lld | avg loss: %.6E | ppl: %.6E | bits per byte: %.6f | "
        "unigram ppl: %.6E |\n",
        path, (long long)e->targets, loss, exp(loss), e->loss_sum / log(2.0) / bytes, unigram);
    print_interval(e, 0, INFINITY);
    return MEGA_OK;
}

static void print_wikitext(const reading *r, const mega_evaluation *e)
{
    const double loss = e->loss_sum / (double)e->targets;
    const double ratio = (double)e->targets / (double)(r->words - 1), most = 20;
    printf(
        " validation results on WIKITEXT103 | avg loss: %.4E | ppl: %.4E | adjusted ppl: %.4E | token ratio: %.17g |\n",
        loss, exp(fmin(loss, most)), exp(fmin(loss * ratio, most)), ratio);
    print_interval(e, ratio, most);
}

static bool is_lambada(const mega_command_options *cfg)
{
    return strcmp(cfg->train.classify.task, "LAMBADA") == 0;
}

/* Loads the model for the task: LAMBADA generates, the other tasks evaluate windows. */
static mega_status load_model(mega_loaded *l, const mega_command_options *cfg)
{
    const int64_t positions = l->model.shape.positions;
    l->model.language.model.sequence_parallel = cfg->train.model.sequence_parallel;
    if (is_lambada(cfg))
        return mega_pretrained_load(&l->model,
                                    &(mega_pretrained_sizes){.mode = MEGA_GENERATE,
                                                             .samples = 1,
                                                             .positions = positions,
                                                             .prefill = mega_generator_prefill(1, positions, 0)});
    return mega_pretrained_load(
        &l->model,
        &(mega_pretrained_sizes){
            .mode = MEGA_EVAL,
            .samples = cfg->train.engine.optim.micro_batch_size > 0 ? cfg->train.engine.optim.micro_batch_size : 4,
            .positions =
                mega_options_was_set(cfg->train.engine.options, "seq_length") ? cfg->train.seq_length : positions});
}

static mega_status evaluate_task(const mega_loaded *l, const mega_command_options *cfg, const reading *r, bool overlap,
                                 mega_evaluation *out)
{
    const int64_t seq = mega_engine_positions(l->model.engine), step = cfg->tasks.overlapping_eval;
    const bool moves = overlap || mega_options_was_set(cfg->train.engine.options, "overlapping_eval");
    const int32_t eod = mega_tokenizer_eod(l->tokenizer);
    mega_progress progress;
    const mega_evaluate_options o = {.stride = moves && step < seq ? step : seq,
                                     .pad = eod >= 0 ? eod : 0,
                                     .progress = cfg->train.engine.rank == 0 ? show_progress : NULL,
                                     .user = &progress,
                                     .folder = l->model.folder};
    mega_progress_begin(&progress, "evaluating", "windows", 0, (uint64_t)mega_evaluate_windows(r->ids.count, o.stride));
    MEGA_TRY(mega_evaluate(l->model.engine, r->ids.id, r->ids.count, &o, out));
    if (cfg->train.engine.rank == 0) mega_progress_end(&progress, 0, (uint64_t)out->windows);
    return MEGA_OK;
}

/* Evaluates a file. LM_LOSS reads each token once unless --overlapping-eval is given; WIKITEXT103 overlaps windows, as
 * in Megatron. */
static mega_status evaluate_file(const mega_loaded *l, const mega_command_options *cfg, const char *path)
{
    const bool wikitext = strcmp(cfg->train.classify.task, "WIKITEXT103") == 0;
    reading r = {0};
    mega_evaluation e = {0};
    mega_status st = tasks_read_text(l, cfg, path, wikitext, &r);
    /* if one rank cannot read, all ranks stop */
    st = mega_comm_agree(mega_engine_layout(l->model.engine)->world.comm, st);
    if (st == MEGA_OK) st = evaluate_task(l, cfg, &r, wikitext, &e);
    if (st == MEGA_OK && wikitext) print_wikitext(&r, &e);
    if (st == MEGA_OK && !wikitext) st = print_lm_loss(l, path, &r, &e);
    mega_ids_fini(&r.ids);
    return st;
}

/* Reads all files before any is evaluated, so that a mistake in the last one is reported at once. */
static mega_status tasks_check_data(const mega_loaded *l, mega_command_options *cfg, mega_world *world)
{
    for (size_t i = 0; i < cfg->train.classify.valid_data.count; i++) {
        const char *path = cfg->train.classify.valid_data.item[i];
        reading r = {0};
        const bool wikitext = strcmp(cfg->train.classify.task, "WIKITEXT103") == 0;
        mega_options_add_mistake(cfg->train.engine.options, is_lambada(cfg)
                                                                ? mega_task_lambada_check(l, cfg, path)
                                                                : tasks_read_text(l, cfg, path, wikitext, &r));
        mega_ids_fini(&r.ids);
    }
    return mega_cli_agree(world, mega_options_report(cfg->train.engine.options));
}

static mega_status tasks_run(mega_loaded *l, mega_command_options *cfg, mega_world *world)
{
    const mega_classify_options *o = &cfg->train.classify;
    MEGA_TRY(mega_loaded_open(cfg, world, l));
    MEGA_TRY(mega_cli_agree(world, mega_loaded_need_decoder(l, "tasks")));
    MEGA_TRY(mega_cli_agree(world, mega_loaded_need_tokenizer(l)));
    MEGA_TRY(load_model(l, cfg));
    MEGA_TRY(tasks_check_data(l, cfg, world));
    if (cfg->train.dry_run) {
        mega_cli_dry_run("%zu files would be read by %s", o->valid_data.count, l->model.folder);
        return MEGA_OK;
    }
    for (size_t i = 0; i < o->valid_data.count; i++) {
        const char *path = o->valid_data.item[i];
        MEGA_TRY(is_lambada(cfg) ? mega_task_lambada(l, cfg, path) : evaluate_file(l, cfg, path));
    }
    return MEGA_OK;
}

static mega_status tasks_run_on(mega_world *world, mega_command_options *cfg)
{
    mega_loaded loaded = {0};
    if (mega_train_classifies(&cfg->train))
        return cfg->train.dry_run ? mega_cli_plan(cfg, world) : mega_cli_train(cfg, world);
    const mega_status st = mega_cli_agree(world, tasks_run(&loaded, cfg, world));
    mega_loaded_close(&loaded);
    return st;
}

int mega_command_tasks(int argc, char **argv)
{
    return mega_cli_on_ranks("tasks", "the command ends after the instruction under way, without a result", argc, argv,
                             tasks_run_on);
}
