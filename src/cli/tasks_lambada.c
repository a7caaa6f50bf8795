/* LAMBADA: greedily predicts the last word of a passage. A passage counts as correct if every token of its label is
 * right.
 *
 * Megatron checks at every label position whether the largest logit is the label, each time given the correct tokens
 * before it. Greedy generation produces the label exactly if that is true, so this file generates. */
#include "megalith/generate.h"
#include "megalith/interval.h"
#include "megalith/log.h"
#include "megalith/progress.h"
#include "tasks.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct lambada {
    const mega_loaded *l;
    const mega_command_options *cfg;
    mega_generator *generator;
    mega_documents *documents;
    mega_document_chunk chunk;
    int64_t correct, total, empty; /* empty: passages without a word; they are not counted in total */
    mega_progress progress;
} lambada;

/* Splits a passage into context and label. Loose: the label is the last token; strict: the last word. */
static mega_status split_passage(const lambada *t, const mega_document_text *text, mega_ids *ids, int64_t *context)
{
    ids->count = 0;
    if (!t->cfg->tasks.strict_lambada) {
        MEGA_TRY(mega_encoder_encode(t->l->encoder, text->text, text->bytes, ids));
        *context = ids->count - 1;
        return MEGA_OK;
    }
    size_t end = text->bytes;
    while (end > 0 && isspace((unsigned char)text->text[end - 1])) end--;
    size_t word = end;
    while (word > 0 && !isspace((unsigned char)text->text[word - 1])) word--;
    size_t before = word;
    while (before > 0 && isspace((unsigned char)text->text[before - 1])) before--;
    MEGA_TRY(mega_encoder_encode(t->l->encoder, text->text, before, ids));
    *context = ids->count;
    char *label = mega_format(" %.*s", (int)(end - word), text->text + word);
    if (label == NULL) return MEGA_NO_MEMORY("LAMBADA", "a word");
    const mega_status st = mega_encoder_encode_part(t->l->encoder, label, strlen(label), ids);
    mega_free(label);
    return st;
}

static mega_status measure(lambada *t, const mega_ids *ids, int64_t context)
{
    const int64_t label = ids->count - context, most = t->l->model.shape.positions - label;
    if (context < 1 || label < 1 || most < 1) return MEGA_OK; /* nothing to predict from, or nothing to predict */
    const int64_t kept = context < most ? context : most;     /* only the end of a long passage is kept */
    mega_ids made = {0};
    MEGA_TRY(mega_ids_reserve(&made, label));
    mega_generation g = {.prompt = ids->id + context - kept, .prompt_count = kept, .max_new = label, .tokens = made.id};
    const mega_generation_rules greedy = {.sampling.greedy = true};
    const mega_status st = mega_generator_run(t->generator, &g, 1, &greedy);
    if (st == MEGA_OK && memcmp(made.id, ids->id + context, (size_t)label * sizeof *made.id) == 0) t->correct++;
    mega_ids_fini(&made);
    return st;
}

static bool is_blank(const mega_document_text *text)
{
    for (size_t i = 0; i < text->bytes; i++)
        if (!isspace((unsigned char)text->text[i])) return false;
    return true;
}

static mega_status passage(lambada *t, int64_t record, mega_buffer *space, mega_ids *ids)
{
    mega_document_text text;
    int64_t context = 0;
    MEGA_TRY(mega_task_text(t->cfg, &t->chunk, record, space, &text));
    if (is_blank(&text)) {
        t->empty++;
        return MEGA_OK;
    }
    MEGA_TRY(split_passage(t, &text, ids, &context));
    /* Copies of the model process passages in turn; ranks of ep share one. */
    const mega_axis *copies = &mega_engine_layout(t->l->model.engine)->edp;
    const bool is_mine = t->total++ % copies->size == copies->rank;
    if (t->generator == NULL) return MEGA_OK; /* the passage is only checked */
    if (is_mine) MEGA_TRY(measure(t, ids, context));
    if (t->cfg->train.engine.rank == 0) mega_progress_update(&t->progress, t->chunk.position, (uint64_t)t->total);
    return MEGA_OK;
}

static mega_status all_passages(lambada *t)
{
    mega_buffer space = {0};
    mega_ids ids = {0};
    mega_status st = mega_documents_read(t->documents, &t->chunk);
    while (st == MEGA_OK && t->chunk.count > 0) {
        for (int64_t r = 0; st == MEGA_OK && r < t->chunk.count; r++) st = passage(t, r, &space, &ids);
        if (st == MEGA_OK) st = mega_documents_read(t->documents, &t->chunk);
    }
    mega_buffer_fini(&space);
    mega_ids_fini(&ids);
    return st;
}

static mega_status lambada_check_total(const lambada *t, const char *path)
{
    if (t->total > 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "--valid-data %s: it holds no passage; expected JSON lines with the key %s", path,
                     t->cfg->tasks.json_key);
}

static mega_status lambada_run(lambada *t, const char *path)
{
    /* do not draw ids of the vocabulary's padding */
    const mega_generator_options g = {.draw_vocab = mega_pretrained_known(&t->l->model, t->l->tokenizer),
                                      .folder = t->l->model.folder};
    MEGA_TRY(mega_task_open(t->cfg, path, true, &t->documents));
    MEGA_TRY(mega_generator_create(t->l->model.engine, &t->l->model.language, &g, &t->generator));
    if (t->cfg->train.engine.rank == 0)
        mega_progress_begin(&t->progress, "evaluating", "passages", mega_documents_total_bytes(t->documents), 0);
    const mega_layout *layout = mega_engine_layout(t->l->model.engine);
    MEGA_TRY(mega_comm_agree(layout->world.comm, all_passages(t)));
    MEGA_TRY(mega_comm_all_reduce(layout->edp.comm, "correct passages", &t->correct, 1, MEGA_I64, MEGA_REDUCE_SUM));
    if (t->cfg->train.engine.rank == 0) mega_progress_end(&t->progress, t->chunk.position, (uint64_t)t->total);
    if (t->empty > 0 && t->cfg->train.engine.rank == 0)
        mega_warn("--valid-data %s: %lld passages without a word are left out", path, (long long)t->empty);
    MEGA_TRY(lambada_check_total(t, path));
    printf(" validation results on LAMBADA | number correct: %.4E | total examples: %.4E | avg accuracy: %.4E\n",
           (double)t->correct, (double)t->total, (double)t->correct / (double)t->total);
    const mega_interval i = mega_interval_of_share(t->correct, t->total);
    printf("   95 %% confidence interval (Wilson): avg accuracy: %.4E to %.4E\n", i.low, i.high);
    return MEGA_OK;
}

mega_status mega_task_lambada_check(const mega_loaded *l, const mega_command_options *cfg, const char *path)
{
    lambada t = {.l = l, .cfg = cfg};
    mega_status st = mega_task_open(cfg, path, true, &t.documents);
    if (st == MEGA_OK) st = all_passages(&t);
    if (st == MEGA_OK) st = lambada_check_total(&t, path);
    mega_document_chunk_fini(&t.chunk);
    mega_documents_close(t.documents);
    return st;
}

mega_status mega_task_lambada(const mega_loaded *l, const mega_command_options *cfg, const char *path)
{
    lambada t = {.l = l, .cfg = cfg};
    const mega_status st = lambada_run(&t, path);
    mega_generator_destroy(t.generator);
    mega_document_chunk_fini(&t.chunk);
    mega_documents_close(t.documents);
    return st;
}
