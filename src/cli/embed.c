/* megalith embed: the mean embedding of each line of a text file, by an encoder, as an array of NumPy. */
#include "megalith/embed.h"
#include "cli.h"
#include "commands.h"
#include "loaded.h"
#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/line.h"
#include "megalith/log.h"
#include "megalith/npy.h"
#include "megalith/output.h"

#include <string.h>

typedef struct embed_lines {
    mega_ids ids;
    int64_t *begin;
    int64_t count, room, cut; /* cut: number of texts with more tokens than positions */
} embed_lines;

/* Adds [CLS] text [SEP]; the end of a long text is left out. */
static mega_status embed_add_line(const mega_loaded *l, const char *text, size_t bytes, int64_t positions,
                                  embed_lines *out)
{
    const int32_t cls = mega_tokenizer_role(l->tokenizer, MEGA_ROLE_CLS, "[CLS] <s>"),
                  sep = mega_tokenizer_role(l->tokenizer, MEGA_ROLE_SEP, "[SEP] </s>");
    if (cls < 0 || sep < 0)
        return MEGA_MISTAKE("the tokenizer (%s) lacks %s; expected that of an encoder such as BERT",
                            mega_tokenizer_type(l->tokenizer), cls < 0 ? "[CLS]" : "[SEP]");
    if (!mega_array_reserve(&out->begin, &out->room, out->count + 2, sizeof *out->begin))
        return MEGA_NO_MEMORY("--input", "the list of its texts");
    out->begin[out->count] = out->ids.count;
    MEGA_TRY(mega_ids_reserve(&out->ids, 2));
    out->ids.id[out->ids.count++] = cls;
    MEGA_TRY(mega_encoder_encode_part(l->encoder, text, bytes, &out->ids));
    if (out->ids.count - out->begin[out->count] > positions - 1) {
        out->ids.count = out->begin[out->count] + positions - 1;
        out->cut++;
    }
    MEGA_TRY(mega_ids_reserve(&out->ids, 1));
    out->ids.id[out->ids.count++] = sep;
    out->begin[++out->count] = out->ids.count;
    return MEGA_OK;
}

static mega_status read_lines(const mega_loaded *l, const char *path, int64_t positions, embed_lines *out)
{
    char *text = NULL;
    size_t bytes = 0;
    if (positions < 2)
        return MEGA_MISTAKE("--seq-length %lld: a text is [CLS] and [SEP] at least; give 2 or more",
                            (long long)positions);
    MEGA_TRY(mega_file_read_kind(path, "text in UTF-8", 0, &text, &bytes));
    mega_status st = MEGA_OK;
    const size_t mark = mega_encoding_mark_bytes(text, bytes);
    for (mega_line line = {.rest = text + mark, .left = bytes - mark}; st == MEGA_OK && mega_line_next(&line);) {
        st = mega_encoding_check_line(path, line.number, line.text, line.bytes);
        if (st == MEGA_OK) st = embed_add_line(l, line.text, line.bytes, positions, out);
    }
    mega_free(text);
    if (st == MEGA_OK && out->count == 0) st = MEGA_FAIL(MEGA_ERR_FORMAT, "--input %s: it holds no text", path);
    return st;
}

/* The header has more spaces at its end than it needs: by them the command knows its own files. */
static size_t embed_put_header(char out[MEGA_NPY_HEADER_MAX], int64_t rows, int64_t columns)
{
    const size_t size = mega_npy_header(out, MEGA_NPY_F4, rows, columns), all = size + MEGA_OUTPUT_EMBEDDINGS_PADDING;
    const uint16_t text = (uint16_t)(all - 10);
    memset(out + size - 1, ' ', MEGA_OUTPUT_EMBEDDINGS_PADDING);
    out[all - 1] = '\n';
    memcpy(out + 8, &text, sizeof text);
    return all;
}

static mega_status write_array(const char *path, const float *value, int64_t rows, int64_t columns)
{
    mega_buffer b = {0};
    char header[MEGA_NPY_HEADER_MAX];
    mega_buffer_append(&b, header, embed_put_header(header, rows, columns));
    mega_buffer_append(&b, value, (size_t)(rows * columns) * sizeof *value);
    mega_status st = mega_buffer_check(&b, "--output");
    if (st == MEGA_OK) st = mega_file_write_atomic(path, b.data, b.size);
    mega_buffer_fini(&b);
    return st;
}

static mega_status embed_write(const mega_loaded *l, const mega_command_options *cfg, const embed_lines *lines)
{
    const int64_t hidden = l->model.shape.hidden, pad = l->model.shape.net.pad;
    const mega_embed_texts texts = {.tokens = lines->ids.id,
                                    .begin = lines->begin,
                                    .count = lines->count,
                                    .pad = pad >= 0 && pad < l->model.shape.vocab ? (int32_t)pad : 0};
    float *value = mega_calloc((size_t)lines->count, (size_t)hidden * sizeof *value);
    mega_comm *world = mega_engine_layout(l->model.engine)->world.comm;
    mega_status st = mega_comm_agree(world, value != NULL ? MEGA_OK : MEGA_NO_MEMORY("--output", "the embeddings"));
    if (st == MEGA_OK) st = mega_embed(l->model.engine, &texts, hidden, value);
    if (st == MEGA_OK && cfg->train.engine.rank == 0) st = write_array(cfg->embed.output, value, lines->count, hidden);
    if (st == MEGA_OK)
        printf("%lld texts, hidden size %lld: %s\n", (long long)lines->count, (long long)hidden, cfg->embed.output);
    mega_free(value);
    return st;
}

static mega_status embed_run(mega_loaded *l, mega_command_options *cfg, mega_world *world, embed_lines *lines)
{
    enum { TEXTS = 8 };
    const int64_t given = cfg->train.engine.optim.micro_batch_size;
    MEGA_TRY(mega_loaded_open(cfg, world, l));
    MEGA_TRY(mega_cli_agree(world, mega_loaded_need_tokenizer(l)));
    const bool is_said = mega_options_was_set(cfg->train.engine.options, "seq_length");
    const int64_t positions = is_said ? cfg->train.seq_length : l->model.shape.positions;
    MEGA_TRY(mega_cli_agree(world, read_lines(l, cfg->embed.input, positions, lines)));
    if (lines->cut > 0 && cfg->train.engine.rank == 0)
        mega_warn("--input %s: %lld texts have more than %lld tokens; their ends are left out", cfg->embed.input,
                  (long long)lines->cut, (long long)positions);
    if (cfg->train.dry_run) {
        mega_cli_dry_run("%lld texts would be read by %s", (long long)lines->count, l->model.folder);
        return MEGA_OK;
    }
    const mega_pretrained_sizes sizes = {
        .mode = MEGA_EVAL, .samples = given > 0 ? given : TEXTS, .positions = positions};
    MEGA_TRY(mega_pretrained_load(&l->model, &sizes));
    return mega_cli_agree(world, embed_write(l, cfg, lines));
}

static mega_status embed_run_on(mega_world *world, mega_command_options *cfg)
{
    mega_loaded loaded = {0};
    embed_lines lines = {.count = 0};
    const mega_status st = mega_cli_agree(world, embed_run(&loaded, cfg, world, &lines));
    mega_loaded_close(&loaded);
    mega_ids_fini(&lines.ids);
    mega_free(lines.begin);
    return st;
}

int mega_command_embed(int argc, char **argv)
{
    return mega_cli_on_ranks("embed", "the command ends after the instruction under way, without a result", argc, argv,
                             embed_run_on);
}
