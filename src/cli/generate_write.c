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
    generate_logits *logits = s->session->logits;
    if (logits != NULL) generate_logits_token(logits, s->session->asked[row].index, token);
    if (!s->on || row != 0 || generate_is_stop(&s->session->ends, token)) return true;
    const bool continues = !generate_has_source(s->session);
    s->status = s->decoder == NULL ? mega_decoder_create(s->tokenizer, continues, &s->decoder) : MEGA_OK;
    if (s->status == MEGA_OK) s->status = mega_decoder_add(s->decoder, token, &s->pending);
    s->on = s->status == MEGA_OK; /* on an error only the streaming ends: other ranks continue */
    if (!s->on) return true;
    const size_t rest = mega_utf8_incomplete(s->pending.data, s->pending.size);
    const size_t ready = s->pending.size - rest;
    if (ready == 0) return true;
    fwrite(s->pending.data, 1, ready, stdout);
    fflush(stdout);
    memmove(s->pending.data, s->pending.data + ready, rest);
    s->pending.size = rest;
    return true;
}

void generate_stream_logits(void *user, int row, const float *logits, int64_t vocab)
{
    const generate_stream *s = user;
    (void)row;
    (void)vocab;
    if (s->session->logits != NULL) generate_logits_row(s->session->logits, logits);
}

static mega_status decode_text(const session *s, const mega_ids *ids, mega_buffer *out)
{
    const bool is_ended = ids->count > 0 && generate_is_stop(&s->ends, ids->id[ids->count - 1]);
    const int64_t count = is_ended ? ids->count - 1 : ids->count;
    MEGA_TRY(generate_has_source(s) ? mega_tokenizer_decode(s->loaded.tokenizer, ids->id, count, out)
                                    : mega_tokenizer_decode_more(s->loaded.tokenizer, ids->id, count, out));
    if (out->data == NULL) mega_buffer_puts(out, "");
    return mega_buffer_check(out, "generated text");
}

mega_status generate_append_utf8(mega_buffer *out, const char *text, size_t bytes)
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

static mega_status generated_put_tokens(mega_buffer *line, const session *s, const sequence *q)
{
    const int64_t begun = generate_begun(s, q), all = begun + q->fresh.count;
    const int32_t *first = generate_has_source(s) ? &s->loaded.model.language.start : q->ids.id;
    mega_buffer_puts(line, ",\"tokens\":[");
    for (int64_t i = 0; i < all; i++)
        mega_buffer_printf(line, "%s%d", i > 0 ? "," : "", i < begun ? first[i] : q->fresh.id[i - begun]);
    mega_buffer_puts(line, "],\"logprobs\":[");
    for (int64_t i = 0; i + 1 < all; i++) {
        if (i > 0) mega_buffer_puts(line, ",");
        mega_buffer_json_float(line, q->logprobs[i]);
    }
    mega_buffer_puts(line, "]");
    return mega_buffer_check(line, "a line of --genfile");
}

/* Writes {"text": prompt and continuation, "length": tokens of both, "finished": ended by itself}, the last member at
 * the end (base/output.c looks for it). Without the prompt where an encoder reads it. */
static mega_status write_genfile(session *s, const sequence *q, const mega_buffer *text)
{
    if (s->genfile.writer == NULL) return MEGA_OK;
    mega_buffer whole = {0}, line = {0};
    const int64_t shown = generate_has_source(s) ? 0 : q->ids.count;
    mega_status st = generate_has_source(s) ? MEGA_OK : generate_append_utf8(&whole, q->prompt, strlen(q->prompt));
    if (st == MEGA_OK) st = generate_append_utf8(&whole, text->data, text->size);
    json_t *string = st != MEGA_OK ? NULL : json_stringn(whole.size > 0 ? whole.data : "", whole.size);
    char *quoted = string == NULL ? NULL : mega_json_dump(string, JSON_COMPACT | JSON_ENCODE_ANY);
    if (st == MEGA_OK && quoted == NULL) st = MEGA_NO_MEMORY("generation", "a line of --genfile");
    if (st == MEGA_OK) {
        mega_buffer_printf(&line, "{\"text\":%s,\"length\":%lld", quoted, (long long)(shown + q->fresh.count));
        if (q->logprobs != NULL && !q->passed_over) st = generated_put_tokens(&line, s, q);
        if (s->beams.width > 1 && !q->passed_over) {
            mega_buffer_puts(&line, ",\"score\":");
            mega_buffer_json_double(&line, q->score);
        }
        mega_buffer_printf(&line, ",\"finished\":%s}\n", q->finished ? "true" : "false");
    }
    if (st == MEGA_OK) st = mega_buffer_check(&line, "a line of --genfile");
    if (st == MEGA_OK) st = generate_output_write(&s->genfile, line.data);
    free(quoted);
    json_decref(string);
    mega_buffer_fini(&line);
    mega_buffer_fini(&whole);
    return st;
}

static mega_status write_sample_file(session *s, const sequence *q, const char *text)
{
    if (s->sample_file.writer == NULL) return MEGA_OK;
    char *block = mega_format("\nContext:%s\n\nMegatron-LM:%s\n", q->prompt, text);
    if (block == NULL) return MEGA_NO_MEMORY("generation", "a sample");
    const mega_status st = generate_output_write(&s->sample_file, block);
    mega_free(block);
    return st;
}

mega_status generate_report(session *s, const sequence *q, bool streamed)
{
    mega_buffer text = {0};
    mega_status st = decode_text(s, &q->fresh, &text);
    if (st == MEGA_OK && !streamed) {
        if (!generate_has_source(s)) printf("%s", q->prompt);
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
