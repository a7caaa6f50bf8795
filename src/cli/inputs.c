/* Checks the first documents of each input, reading them as the command will. */
#include "inputs.h"
#include "megalith/file.h"

enum { MOST_FILES = 100, LOOKED_AT = 64 << 10, LONGEST = 1 << 20 };

typedef struct look {
    const mega_cli_inputs *inputs;
    bool is_first;         /* the command reads the files again */
    mega_encoder *encoder; /* NULL without a tokenizer */
    mega_buffer space[64];
    mega_ids ids;
    int64_t documents;
} look;

static mega_status check_texts(look *l, const mega_document_chunk *chunk, int64_t record, mega_document_text *text)
{
    for (int k = 0; l->encoder != NULL && k < l->inputs->num_keys; k++) {
        l->ids.count = 0;
        if (text[k].bytes > LONGEST) continue;
        const mega_status st = mega_encoder_encode(l->encoder, text[k].text, text[k].bytes, &l->ids);
        if (st != MEGA_OK) mega_error_prepend("%s: line %lld", chunk->path, (long long)chunk->record[record].line);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}

static mega_status check_record(look *l, const mega_document_chunk *chunk, int64_t record)
{
    const mega_cli_inputs *in = l->inputs;
    mega_document_text text[64];
    mega_document_fault fault;
    if (mega_document_views(chunk, record, in->keys, in->num_keys, l->space, text, &fault))
        return check_texts(l, chunk, record, text);
    for (int k = 0; k < in->num_keys; k++) MEGA_TRY(mega_buffer_check(&l->space[k], chunk->path));
    if (in->skip_bad_lines) return MEGA_OK;
    return mega_document_refuse(chunk->path, &fault);
}

static mega_status check_file(look *l, const char *path)
{
    mega_documents_options o = l->inputs->files;
    mega_documents *d = NULL;
    mega_document_chunk chunk = {0};
    o.inputs = &path;
    o.num_inputs = 1;
    o.chunk_bytes = LOOKED_AT;
    mega_status st = mega_documents_open(&o, &d);
    if (st == MEGA_OK && l->is_first) mega_documents_look_first(d);
    if (st == MEGA_OK) st = mega_documents_read(d, &chunk);
    for (int64_t r = 0; st == MEGA_OK && r < chunk.count; r++) st = check_record(l, &chunk, r);
    l->documents += chunk.count;
    mega_document_chunk_fini(&chunk);
    mega_documents_close(d);
    return st;
}

static void check_files(mega_command_options *cfg, look *l, const mega_documents *d)
{
    const int64_t files = mega_documents_files(d), most = files < MOST_FILES ? files : MOST_FILES;
    bool knows_all = files <= MOST_FILES;
    for (int64_t i = 0; i < most; i++) {
        const char *path = mega_documents_path(d, i);
        const bool is_read = mega_file_is_regular(path);
        const mega_status st = is_read ? check_file(l, path) : MEGA_OK;
        knows_all = knows_all && is_read && st == MEGA_OK;
        mega_options_add_mistake(cfg->train.engine.options, st);
    }
    if (!knows_all || l->documents > 0) return;
    mega_options_add_mistake(cfg->train.engine.options,
                             MEGA_FAIL(MEGA_ERR_FORMAT, "--input: found no document in %s%s; expected one at least",
                                       mega_documents_path(d, 0), files > 1 ? " and the other files" : ""));
}

void mega_cli_check_inputs(mega_command_options *cfg, const mega_cli_inputs *inputs)
{
    look l = {.inputs = inputs, .is_first = !cfg->train.dry_run};
    mega_documents *d = NULL;
    /* reported elsewhere */
    if (inputs->files.num_inputs == 0 || inputs->num_keys == 0 || inputs->num_keys > 64) return;
    mega_status st = inputs->tokenizer != NULL ? mega_encoder_create(inputs->tokenizer, &l.encoder) : MEGA_OK;
    if (st == MEGA_OK) st = mega_documents_open(&inputs->files, &d);
    mega_options_add_mistake(cfg->train.engine.options, st);
    if (st == MEGA_OK) check_files(cfg, &l, d);
    mega_documents_close(d);
    for (int k = 0; k < inputs->num_keys; k++) mega_buffer_fini(&l.space[k]);
    mega_ids_fini(&l.ids);
    mega_encoder_destroy(l.encoder);
}
