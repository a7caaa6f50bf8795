/* Tests which texts are taken for a table. tests/cli/test_file_kinds.sh gives the other kinds to the commands. */
#include "kit.h"
#include "megalith/file_kind.h"
#include <stdio.h>
#include <string.h>

static void tables_without_their_name(void **state)
{
    (void)state;
    static const struct {
        int columns;
        char separator;
        const char *text;
    } row[] = {
        {2, ',', "label,text\n1,The fox runs.\n0,A dog sleeps.\n"},
        {3, ',', "\xef\xbb\xbfid,text,label\r\n1,\"The fox, who \"\"runs\"\".\nAgain.\",0\r\n2,A dog,1\r\n3,An o"},
        {2, '\t', "label\ttext\n1\tThe fox, who runs.\n0\tA dog sleeps.\n"},
        {2, ';', "\"label\";\"text\"\n1;The fox\n0;A dog\n"},
        {0, 0, "label,text\n1,The fox runs.\n"},                       /* one record shows no form */
        {0, 0, "label,text\n1,The fox runs.\n0,A dog, a cat.\n1,x\n"}, /* another number of fields */
        {0, 0, "First, the fox\nSecond, a dog\nThird, the owl\n"},     /* prose */
        {0, 0, "So,\nall,\nthat,\n"},
        {0, 0, "one word a line\nanother\nthird\n"},
        {0, 0, "1,2\n3,4\n5,6\n"}, /* no names */
        {0, 0, "name,\"text\n"},
        {0, 0, ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char separator = 0;
        const int columns = mega_file_table_columns(row[i].text, strlen(row[i].text), &separator);
        if (columns != row[i].columns || separator != row[i].separator)
            fail_msg("%s: %d columns by %d, expected %d by %d", row[i].text, columns, separator, row[i].columns,
                     row[i].separator);
    }
}

typedef struct sample {
    const char *bytes;
    int size;
    const char *kind; /* NULL: text */
} sample;

#define SAMPLE(bytes, kind)            \
    {                                  \
        bytes, sizeof(bytes) - 1, kind \
    }

static void check_sample(const char *bytes, size_t size, const char *kind)
{
    const mega_status st = mega_file_kind_check("x", bytes, size, "text", 0);
    char found[160] = "";
    if (kind != NULL) snprintf(found, sizeof found, "x: found %s, expected text; ", kind);
    if (kind == NULL && st != MEGA_OK) fail_msg("%.40s (%zu bytes): %s", bytes, size, mega_error_message());
    if (kind != NULL && (st == MEGA_OK || strncmp(mega_error_message(), found, strlen(found)) != 0))
        fail_msg("%.40s (%zu bytes): \"%s\", expected \"%s\"", bytes, size,
                 st == MEGA_OK ? "text" : mega_error_message(), found);
}

/* A file that begins as a format does is of that format, also if it is cut off there, or goes on with letters. */
static void damaged_files_are_no_text(void **state)
{
    static const sample all[] = {
        SAMPLE("PAR1", "a Parquet file"),
        SAMPLE("ARROW1", "an Arrow file"),
        SAMPLE("FEA1", "an Arrow (Feather) file"),
        SAMPLE("\xff\xff\xff\xff", "an Arrow stream"),
        SAMPLE("Obj\x01", "an Avro file"),
        SAMPLE("\x1f\x8b", "a gzip file"),
        SAMPLE("\x28\xb5\x2f\xfd", "a zstd file"),
        SAMPLE("\xfd\x37zXZ", "an xz file"),
        SAMPLE("LZIP\x01", "an lzip file"),
        SAMPLE("\x04\x22\x4d\x18", "an lz4 file"),
        SAMPLE("BZh9", "a bzip2 file"),
        SAMPLE("PK\x03\x04", "a zip archive"),
        SAMPLE("7z\xbc\xaf", "a 7z archive"),
        SAMPLE("Rar!\x1a\x07", "a RAR archive"),
        SAMPLE("\x93NUMPY", "a NumPy array (.npy)"),
        SAMPLE("GGUF", "a GGUF file"),
        SAMPLE("\x89HDF", "an HDF5 file"),
        SAMPLE("SQLite format 3", "an SQLite database"),
        SAMPLE("MMIDIDX", "an index of Megatron's data sets (.idx)"),
        SAMPLE("%PDF-", "a PDF document"),
        SAMPLE("\xd0\xcf\x11\xe0", "an Office document"),
        SAMPLE("\x89PNG", "a PNG image"),
        SAMPLE("\xff\xd8\xff", "a JPEG image"),
        SAMPLE("GIF89a", "a GIF image"),
        SAMPLE("OggS", "a sound (Ogg)"),
        SAMPLE("fLaC", "a sound (FLAC)"),
        SAMPLE("\x7f\x45LF", "a program (ELF)"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char more[80];
        check_sample(all[i].bytes, (size_t)all[i].size, all[i].kind);
        memcpy(more, all[i].bytes, (size_t)all[i].size);
        memcpy(more + all[i].size, "abcdefghijkl\nPAR1", 17);
        check_sample(more, (size_t)all[i].size + 17, all[i].kind);
    }
}

/* Magics that are the beginning of words. */
static void words_that_begin_formats(void **state)
{
    static const sample all[] = {
        SAMPLE("PAREabcdefghijklPARE", "an encrypted Parquet file"),
        SAMPLE("PARE\x15\x04", "an encrypted Parquet file"),
        SAMPLE("PARENTS are PARENTS\n", NULL),
        SAMPLE("ORCabcdefghijklORC\x17", "an ORC file"),
        SAMPLE("ORC\n\x0b", "an ORC file"),
        SAMPLE("ORCHARDS have apples.\n", NULL),
        SAMPLE("ORC\nThe fox runs.\n", NULL), /* no postscript, which ends with the magic and its size */
        SAMPLE("PAR1 is a word of Parquet.\n", NULL),
        SAMPLE("ARROW1 begins a file of Arrow.\n", NULL),
        SAMPLE("GGUF is a format.\n", NULL),
        SAMPLE("GGUF \x03", "a GGUF file"),
        SAMPLE("SQLite format 3 is what a database begins with.\n", NULL),
        SAMPLE("GIF89a came after GIF87a.\n", NULL),
        SAMPLE("GIF89a \0 \0", "a GIF image"),
        SAMPLE("fLaC and OggS begin sounds.\n", NULL),
        SAMPLE("BZh9 is bzip2's largest.\n", NULL),
        SAMPLE("RIFF\x24\x08", "a sound, film or image (RIFF)"),
        SAMPLE("RIFFabcdWAVEfmt ", "a sound, film or image (RIFF)"),
        SAMPLE("RIFFRAFF, all of them.\n", NULL),
        SAMPLE("ID3\x04", "a sound (MP3)"),
        SAMPLE("ID3 is an algorithm.\n", NULL),
        SAMPLE("MZ\x90\0", "a program of Windows"),
        SAMPLE("MZUNGU is a word of Swahili: caf\xc3\xa9.\n", NULL),
        SAMPLE("BZh is no word.\n", NULL),
        SAMPLE("xylophone", NULL),
        SAMPLE("\x78\x01\0\0\0\0\0\0{\"a\":", "a safetensors file"), /* by its size it could be zlib data */
        SAMPLE("MZ\0\0\0\0\0\0{\"a\":", "a safetensors file"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_sample(all[i].bytes, (size_t)all[i].size, all[i].kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_without_their_name),
                                       cmocka_unit_test(damaged_files_are_no_text),
                                       cmocka_unit_test(words_that_begin_formats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
