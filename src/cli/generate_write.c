/* Writes the texts of generate_samples_gpt: to the terminal, as JSON lines, to the file of samples. */
#include "generate.h"
#include "megalith/json.h"
#include "megalith/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

bool generate_stream_token(void *user, int row, int32_t token)
{
    generate_stream *s = user;
    if (!s->on || row != 0 || token == s->eod) return true;
    s->status = mega_tokenizer_piece(s->tokenizer, token, &s->pending);
    s->on = s->status == MEGA_OK; /* on an error only the streaming ends: other ranks continue */
    if (!s->on) return true;
    const size_t rest = mega_utf8_incomplete(s->pending.data, s->pending.size);
    const size_t ready = s->pending.size - rest;
    fwrite(s->pending.data, 1, ready, stdout);
    fflush(stdout);
    memmove(s->pending.data, s->pending.data + ready, rest);
    s->pending.size = rest;
    return true;
}

static mega_status decode_text(const session *s, const mega_ids *ids, mega_buffer *out)
{
    const int64_t count = ids->count > 0 && ids->id[ids->count - 1] == mega_tokenizer_eod(s->loaded.tokenizer)
                              ? ids->count - 1
                              : ids->count;
    MEGA_TRY(mega_tokenizer_decode(s->loaded.tokenizer, ids->id, count, out));
    if (out->data == NULL) mega_buffer_puts(out, "");
    return mega_buffer_check(out, "generated text");
}

/* Appends text as valid UTF-8, which JSON requires: each invalid byte becomes U+FFFD. A sample may end inside a
 * character, and an untrained model produces arbitrary bytes. */
static mega_status append_utf8(mega_buffer *out, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const size_t valid = mega_utf8_valid_bytes(text, bytes);
        mega_buffer_append(out, text, valid);
        if (valid < bytes) mega_buffer_puts(out, "\xef\xbf\xbd");
        const size_t past = valid < bytes ? valid + 1 : valid;
        text += past;
        bytes -= past;
    }
    return mega_buffer_check(out, "generated text");
}

/* Writes {"text": prompt and continuation, "length": tokens of both, "finished": ended by itself}. */
static mega_status write_genfile(session *s, const sequence *q, const mega_buffer *text)
{
    if (s->genfile.writer == NULL) return MEGA_OK;
    mega_buffer whole = {0};
    mega_status st = append_utf8(&whole, q->prompt, strlen(q->prompt));
    if (st == MEGA_OK) st = append_utf8(&whole, text->data, text->size);
    json_t *row = st != MEGA_OK
                      ? NULL
                      : json_pack("{s:s%, s:I, s:b}", "text", whole.size > 0 ? whole.data : "", whole.size, "length",
                                  (json_int_t)(q->ids.count + q->fresh.count), "finished", q->finished);
    char *object = row == NULL ? NULL : mega_json_dump(row, JSON_COMPACT);
    char *line = object == NULL ? NULL : mega_format("%s\n", object);
    if (st == MEGA_OK && line == NULL) st = MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a line of --genfile");
    if (st == MEGA_OK) st = generate_output_write(&s->genfile, line);
    mega_free(line);
    free(object);
    json_decref(row);
    mega_buffer_fini(&whole);
    return st;
}

static mega_status write_sample_file(session *s, const sequence *q, const char *text)
{
    if (s->sample_file.writer == NULL) return MEGA_OK;
    char *block = mega_format("\nContext:%s\n\nMegatron-LM:%s\n", q->prompt, text);
    if (block == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "generation: no memory for a sample");
    const mega_status st = generate_output_write(&s->sample_file, block);
    mega_free(block);
    return st;
}

mega_status generate_report(session *s, const sequence *q, bool streamed)
{
    mega_buffer text = {0};
    mega_status st = decode_text(s, &q->fresh, &text);
    if (st == MEGA_OK && !streamed) {
        printf("%s", q->prompt);
        fwrite(text.data, 1, text.size, stdout);
    }
    if (st == MEGA_OK) {
        printf("\n");
        fflush(stdout);
        st = write_genfile(s, q, &text);
    }
    if (st == MEGA_OK) st = write_sample_file(s, q, text.data);
    mega_buffer_fini(&text);
    return st;
}
