/* megalith tokenize: prints the ids and pieces of a text, or the text of ids. */
#include "cli.h"
#include "cli_tokenizer.h"
#include "commands.h"
#include "megalith/encoding.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends a piece as in a C string literal: anything that is not printable UTF-8 becomes an escape. */
static void put_piece(mega_buffer *out, const char *bytes, size_t n)
{
    static const char special[] = "\n\r\t\"\\", names[] = "nrt\"\\";
    mega_buffer_puts(out, "\"");
    for (size_t i = 0; i < n;) {
        const unsigned char b = (unsigned char)bytes[i];
        const char *found = b == 0 ? NULL : strchr(special, (char)b);
        size_t length = b < 0x80 ? 1 : b < 0xC2 ? 0 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : b < 0xF5 ? 4 : 0;
        for (size_t k = 1; k < length; k++)
            if (i + k >= n || ((unsigned char)bytes[i + k] & 0xC0) != 0x80) length = 0;
        if (found != NULL) {
            mega_buffer_printf(out, "\\%c", names[found - special]);
        } else if (length == 0 || b < 0x20 || b == 0x7F) {
            mega_buffer_printf(out, "\\x%02X", b);
            length = 1;
        } else {
            mega_buffer_append(out, bytes + i, length);
        }
        i += length == 0 ? 1 : length;
    }
    mega_buffer_puts(out, "\"");
}

static int64_t count_characters(const char *text, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static mega_status read_stream(mega_buffer *out, FILE *stream, const char *name)
{
    char block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof block, stream)) > 0) mega_buffer_append(out, block, n);
    if (ferror(stream)) return MEGA_FAIL(MEGA_ERR_IO, "%s: cannot be read: %s", name, strerror(errno));
    return mega_buffer_check(out, "the text");
}

/* Reads a file. Named pipes are allowed too: their writer may come later. */
static mega_status tokenize_read_file(mega_buffer *out, const char *path)
{
    FILE *f = fopen(path, "r");
    if (f == NULL) return MEGA_FAIL(MEGA_ERR_NOT_FOUND, "--input %s: cannot be opened: %s", path, strerror(errno));
    const mega_status st = read_stream(out, f, path);
    fclose(f);
    return st;
}

static mega_status tokenize_check_kind(const mega_buffer *text, const char *name, int taken)
{
    return text->size == 0 ? MEGA_OK : mega_file_kind_check(name, text->data, text->size, "text in UTF-8", taken);
}

/* Reads the text: the words after the options, --text, --input, or standard input. */
static mega_status tokenize_read_text(mega_buffer *out, const mega_command_options *cfg)
{
    const mega_tokenize_options *o = &cfg->tokenize;
    const int sources = (mega_options_positional(cfg->train.engine.options)->count > 0) + (o->text != NULL) +
                        (o->input != NULL) + (o->ids.count > 0);
    if (sources > 1) return MEGA_MISTAKE("%d of TEXT, --text, --input and --ids are given; give one", sources);
    if (o->text != NULL) mega_buffer_puts(out, o->text);
    for (size_t i = 0; i < mega_options_positional(cfg->train.engine.options)->count; i++)
        mega_buffer_printf(out, "%s%s", i == 0 ? "" : " ", mega_options_positional(cfg->train.engine.options)->item[i]);
    if (sources == 0 || (o->input != NULL && strcmp(o->input, "-") == 0)) {
        MEGA_TRY(read_stream(out, stdin, "standard input"));
        return tokenize_check_kind(out, "standard input", MEGA_KIND_BINARY); /* a pipe may have any bytes */
    }
    if (o->input != NULL) {
        MEGA_TRY(tokenize_read_file(out, o->input));
        MEGA_TRY(tokenize_check_kind(out, o->input, 0));
        if (out->size > 0) MEGA_TRY(mega_encoding_check_text(o->input, 1, out->data, out->size));
    }
    return mega_buffer_check(out, "the text");
}

/* Reads ids separated by blanks or commas, in one or several arguments; ignores brackets as in a Python list. */
static mega_status read_ids(const mega_list *list, mega_ids *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *at = list->item[i];
        while (*(at += strspn(at, " ,[]\t\n")) != '\0') {
            char *end;
            const long id = strtol(at, &end, 10);
            if (end == at || strchr(" ,]\t\n", *end) == NULL || id < 0 || id > INT32_MAX)
                return MEGA_MISTAKE("--ids: '%s' is not an id; expected integers such as --ids 15496 995", at);
            MEGA_TRY(mega_ids_reserve(out, 1));
            out->id[out->count++] = (int32_t)id;
            at = end;
        }
    }
    return MEGA_OK;
}

static mega_status tokenize_print_table(const mega_tokenizer *t, const mega_ids *ids)
{
    mega_buffer piece = {0}, shown = {0};
    mega_status st = MEGA_OK;
    for (int64_t i = 0; i < ids->count && st == MEGA_OK; i++) {
        piece.size = shown.size = 0;
        st = mega_tokenizer_piece(t, ids->id[i], &piece);
        if (st != MEGA_OK) break;
        put_piece(&shown, piece.data, piece.size);
        st = mega_buffer_check(&shown, "a piece");
        if (st == MEGA_OK)
            printf("%8d  %s%s\n", ids->id[i], shown.data, mega_tokenizer_is_special(t, ids->id[i]) ? "  special" : "");
    }
    mega_buffer_fini(&piece);
    mega_buffer_fini(&shown);
    return st;
}

/* Prints the ids' text as a whole, because a character may span several ids. */
static mega_status print_text(const mega_buffer *text)
{
    mega_buffer shown = {0};
    put_piece(&shown, text->data, text->size);
    const mega_status st = mega_buffer_check(&shown, "the text");
    if (st == MEGA_OK) printf("    text  %s\n", shown.data);
    mega_buffer_fini(&shown);
    return st;
}

static void print_counts(const mega_ids *ids, const mega_buffer *text)
{
    printf("%lld token%s, %lld characters, %zu bytes", (long long)ids->count, ids->count == 1 ? "" : "s",
           (long long)count_characters(text->data, text->size), text->size);
    if (ids->count > 0) printf(", %.2f bytes a token", (double)text->size / (double)ids->count);
    putchar('\n');
}

static mega_status tokenize_show(const mega_tokenizer *t, const mega_command_options *cfg, const mega_ids *ids,
                                 const mega_buffer *text)
{
    const mega_tokenize_options *o = &cfg->tokenize;
    if (o->ids_only) {
        for (int64_t i = 0; i < ids->count; i++) printf("%s%d", i == 0 ? "" : " ", ids->id[i]);
        putchar('\n');
        return MEGA_OK;
    }
    if (o->text_only) {
        fwrite(text->data == NULL ? "" : text->data, 1, text->size, stdout);
        return MEGA_OK;
    }
    if (!o->count) {
        printf("%s, %lld ids, end of document %d\n", mega_tokenizer_type(t), (long long)mega_tokenizer_size(t),
               mega_tokenizer_eod(t));
        MEGA_TRY(tokenize_print_table(t, ids));
        if (o->ids.count > 0) MEGA_TRY(print_text(text));
    }
    print_counts(ids, text);
    return MEGA_OK;
}

static mega_status tokenize_encode(const mega_tokenizer *t, bool special, const mega_buffer *text, mega_ids *ids)
{
    mega_encoder *e;
    MEGA_TRY(mega_encoder_create(t, &e));
    const char *bytes = text->data == NULL ? "" : text->data;
    const mega_status st = special ? mega_encoder_encode_special(e, bytes, text->size, ids)
                                   : mega_encoder_encode(e, bytes, text->size, ids);
    mega_encoder_destroy(e);
    return st;
}

static mega_status tokenize_run(const mega_command_options *cfg)
{
    mega_tokenizer *t = NULL;
    mega_buffer text = {0};
    mega_ids ids = {0};
    mega_status st = mega_cli_tokenizer(cfg, &t);
    if (st == MEGA_OK && cfg->train.dry_run) {
        mega_cli_dry_run("a text would be shown as ids of a %s\n", mega_tokenizer_type(t));
    } else if (st == MEGA_OK) {
        st = tokenize_read_text(&text, cfg);
        if (st == MEGA_OK && cfg->tokenize.ids.count > 0) {
            st = read_ids(&cfg->tokenize.ids, &ids);
            if (st == MEGA_OK) st = mega_tokenizer_decode(t, ids.id, ids.count, &text);
        } else if (st == MEGA_OK) {
            st = tokenize_encode(t, cfg->tokenize.special, &text, &ids);
        }
        if (st == MEGA_OK) st = tokenize_show(t, cfg, &ids, &text);
    }
    mega_ids_fini(&ids);
    mega_buffer_fini(&text);
    mega_tokenizer_destroy(t);
    return st;
}

int mega_command_tokenize(int argc, char **argv)
{
    mega_command_options cfg;
    int exit_status;
    if (!mega_cli_parse(&cfg, "tokenize", argc, argv, &exit_status)) return exit_status;
    const mega_status st = tokenize_run(&cfg);
    mega_command_options_fini(&cfg);
    return st == MEGA_OK ? 0 : mega_cli_fail("tokenize", st);
}
