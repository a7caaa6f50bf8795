/* The table of kinds of files, and how each is recognised. */
#include "megalith/file_kind.h"
#include "file_kind_impl.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { PROBED_BYTES = 512, LEAST_BYTES = 8, TAR_AT = 257, POINTERS = 3 /* the first rows of the table */ };

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

typedef struct kind {
    const char *name;
    const char *begin; /* the bytes at `at`; NULL: `is` decides alone */
    int at, size;
    bool (*is)(const uint8_t *bytes, size_t size); /* if not NULL, this must hold too */
    int taken_as;                                  /* a reader that takes this takes the kind; 0: none does */
    const char *remedy;                            /* %s stands for the path */
} kind;

/* ---- what some bytes alone do not show ---- */

static bool has_zero(const uint8_t *b, size_t n)
{
    return memchr(b, 0, n < PROBED_BYTES ? n : PROBED_BYTES) != NULL;
}

/* A stray zero byte is a mistake in a text, which its reader reports with the line. */
static bool has_many_zeros(const uint8_t *b, size_t n)
{
    size_t zeros = 0;
    if (n > PROBED_BYTES) n = PROBED_BYTES;
    for (size_t i = 0; i < n; i++) zeros += b[i] == 0;
    return zeros > n / 8;
}

/* A size of eight bytes, then a header in JSON. No header is so large that more than four of the bytes are used. */
static bool begins_safetensors(const uint8_t *b, size_t n)
{
    return n > 9 && b[4] == 0 && b[5] == 0 && b[6] == 0 && b[7] == 0 && b[8] == '{' && b[3] < 8;
}

static bool holds(const uint8_t *b, size_t n, const char *text)
{
    return memmem(b, n < PROBED_BYTES ? n : PROBED_BYTES, text, strlen(text)) != NULL;
}

static bool is_torch_zip(const uint8_t *b, size_t n)
{
    return holds(b, n, "/data.pkl") || holds(b, n, "/.format_version") || holds(b, n, "/byteorder");
}

static bool is_numpy_zip(const uint8_t *b, size_t n)
{
    return holds(b, n, ".npy");
}

static bool is_office_zip(const uint8_t *b, size_t n)
{
    return holds(b, n, "[Content_Types].xml") || holds(b, n, "mimetypeapplication/vnd.");
}

/* Every bzip2 file goes on with the size of its blocks. */
static bool is_bzip2(const uint8_t *b, size_t n)
{
    return n > 3 && b[3] >= '1' && b[3] <= '9' && (n == 4 || b[4] != ' ');
}

/* Some magics are letters that a word may begin with (PARENT, ORCHARD, RIFFRAFF). A file of such a format has bytes
 * that no text has, unless it is cut off or damaged; then it may still end as the format does. */
static bool is_no_prose(const uint8_t *b, size_t n)
{
    if (n > PROBED_BYTES) n = PROBED_BYTES;
    for (size_t i = 0; i < n; i++)
        if ((b[i] < 0x20 && memchr("\t\n\f\r", b[i], 4) == NULL) || b[i] == 0x7f) return true;
    return false;
}

static bool is_parquet(const uint8_t *b, size_t n)
{
    return is_no_prose(b, n) || (n > LEAST_BYTES && memcmp(b + n - 4, b, 4) == 0);
}

/* The last byte of an ORC file is the size of what comes before it, which ends with the magic. */
static bool is_orc(const uint8_t *b, size_t n)
{
    return is_no_prose(b, n) || (n > LEAST_BYTES && memcmp(b + n - 4, b, 3) == 0);
}

static bool is_riff(const uint8_t *b, size_t n)
{
    static const char form[][5] = {"WAVE", "AVI ", "WEBP", "RMID"};
    for (size_t i = 0; i < sizeof form / sizeof *form && n >= 12; i++)
        if (memcmp(b + 8, form[i], 4) == 0) return true;
    return is_no_prose(b, n);
}

static bool is_frame(const uint8_t *b, size_t n)
{
    return n > 3 && (b[0] & 0xf0) == 0x50 && memcmp(b + 1, "\x2a\x4d\x18", 3) == 0;
}

/* The two bytes are a multiple of 31, as RFC 1950 has them. "x^" may begin a text, which has no control characters. */
static bool is_zlib(const uint8_t *b, size_t n)
{
    if (n < LEAST_BYTES || (b[0] << 8 | b[1]) % 31 != 0) return false;
    size_t control = b[1] >= 0x80 || b[1] < 0x20;
    for (size_t i = 2; control == 0 && i < n && i < PROBED_BYTES; i++) control += b[i] < 0x20 && !isspace(b[i]);
    return control > 0;
}

/* A map whose first key is a name: its length after `key`, and letters. UTF-8 cannot begin with the byte of a map. */
static bool is_map(const uint8_t *b, size_t n, unsigned map, unsigned key)
{
    const size_t letters = n > 2 ? b[1] - key : 0;
    if (n < 2 || b[0] <= map || b[0] > map + 15 || letters < 1 || letters > 23 || n < letters + 3) return false;
    for (size_t i = 0; i < letters; i++)
        if (!isalnum(b[2 + i]) && strchr("_-. ", b[2 + i]) == NULL) return false;
    return true;
}

static bool is_msgpack(const uint8_t *b, size_t n)
{
    return is_map(b, n, 0x80, 0xa0);
}

static bool is_cbor(const uint8_t *b, size_t n)
{
    return is_map(b, n, 0xa0, 0x60);
}

const char *file_kind_text(const uint8_t *b, size_t *n)
{
    size_t at = *n >= 3 && memcmp(b, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    while (at < *n && isspace(b[at])) at++;
    *n -= at;
    return (const char *)b + at;
}

/* Where git-annex keeps files: the content that stands for one, and what its links point to. */
static bool is_annexed(const uint8_t *b, size_t n)
{
    static const char place[] = "annex/objects/";
    const char *text = (const char *)b;
    while (n > 3 && strncmp(text, "../", 3) == 0) text += 3, n -= 3;
    if (n > 5 && strncmp(text, ".git/", 5) == 0) text += 5, n -= 5;
    else if (text != (const char *)b || n == 0 || *text != '/')
        return false;
    else
        text++, n--;
    return n > sizeof place && strncmp(text, place, sizeof place - 1) == 0;
}

/* What the Hub and GitHub send in place of a file, whole. */
static bool is_answer_of_server(const uint8_t *b, size_t n)
{
    static const char *const answer[] = {"Entry not found",
                                         "Repository not found",
                                         "Invalid username or password.",
                                         "Not Found",
                                         "404: Not Found",
                                         "Unauthorized",
                                         "Access Denied",
                                         "Forbidden",
                                         "Invalid credentials in Authorization header",
                                         "Invalid rev id"};
    const char *text = file_kind_text(b, &n);
    while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
    for (size_t i = 0; i < sizeof answer / sizeof *answer; i++)
        if (n == strlen(answer[i]) && memcmp(text, answer[i], n) == 0) return true;
    return n > 10 && n < PROBED_BYTES && strncmp(text, "Access to ", 10) == 0 &&
           memmem(text, n, " is restricted", 14) != NULL;
}

static bool is_json_error(const uint8_t *b, size_t n)
{
    const char *text = file_kind_text(b, &n);
    return n > 9 && n < PROBED_BYTES && strncmp(text, "{\"error\":", 9) == 0;
}

/* ---- text that is not UTF-8 ---- */

static bool has_zeros_at(const uint8_t *b, size_t n, size_t which)
{
    enum { BLOCKS = 3 };
    size_t zeros[2] = {0, 0}, blocks = 0;
    bool is_met[256] = {false};
    if (n > PROBED_BYTES) n = PROBED_BYTES;
    if (n < LEAST_BYTES) return false;
    for (size_t i = 0; i < n; i++) {
        zeros[i % 2] += b[i] == 0;
        if (i % 2 != which) continue;
        blocks += !is_met[b[i]];
        is_met[b[i]] = true;
    }
    return zeros[1 - which] == 0 && zeros[which] > 0 && (zeros[which] > n / 4 || blocks <= BLOCKS);
}

/* In UTF-16 every first or every second byte is the number of a block of characters: zero for Latin letters, and at
 * least for spaces and ends of lines where another alphabet has a number of its own. */
static bool has_second_zeros(const uint8_t *b, size_t n)
{
    return has_zeros_at(b, n, 1);
}

static bool has_first_zeros(const uint8_t *b, size_t n)
{
    return has_zeros_at(b, n, 0);
}

/* ---- the table ---- */

#define BYTES(text) text, 0, sizeof(text) - 1
#define PANDAS(read)                                                     \
    "convert it to JSON lines: python3 -c \"import pandas; pandas." read \
    "('%s').to_json('lines.jsonl', orient='records', lines=True)\""
#define UNPACK(command) "unpack it: " command " %s"
#define ICONV(from)     "convert it: iconv -f " from " -t UTF-8 %s > utf8.txt"
#define MEDIA           "extract its text first"
#define AGAIN           "%s was not downloaded: read the message in it, and download the file again"
#define ANOTHER         "%s holds no text; give the file that was meant"

/* The first that fits counts: narrower kinds come before wider ones. */
static const kind kinds[] = {
    {"the pointer of a file in Git LFS", BYTES("version https://git-lfs.github.com/spec/"), NULL, 0,
     "the file itself is not here: run git lfs install and git lfs pull in the folder of %s"},
    {"the pointer of a file in Git LFS", BYTES("version https://hawser.github.com/spec/"), NULL, 0,
     "the file itself is not here: run git lfs pull in the folder of %s"},
    {"the pointer of a file in git-annex", NULL, 0, 0, is_annexed, 0, "the file itself is not here: git annex get %s"},
    /* before magics of two bytes, which its size may be */
    {"a safetensors file", NULL, 0, 0, begins_safetensors, MEGA_KIND_TENSORS,
     "weights are given as a folder, --load FOLDER; %s is no text"},
    {"a Parquet file", BYTES("PAR1"), NULL, 0, PANDAS("read_parquet")},
    {"an encrypted Parquet file", BYTES("PARE"), is_parquet, 0, PANDAS("read_parquet")},
    {"an Arrow file", BYTES("ARROW1"), NULL, 0, PANDAS("read_feather")},
    {"an Arrow (Feather) file", BYTES("FEA1"), NULL, 0, PANDAS("read_feather")},
    {"an Arrow stream", BYTES("\xff\xff\xff\xff"), NULL, 0,
     "convert it to JSON lines: python3 -c \"import datasets; "
     "datasets.Dataset.from_file('%s').to_json('lines.jsonl')\""},
    {"an ORC file", BYTES("ORC"), is_orc, 0, PANDAS("read_orc")},
    {"an Avro file", BYTES("Obj\x01"), NULL, 0, "convert it to JSON lines: avro-tools tojson %s > lines.jsonl"},
    {"a gzip file", BYTES("\x1f\x8b"), NULL, 0, UNPACK("gunzip -k")},
    {"a file of compress", BYTES("\x1f\x9d"), NULL, 0, UNPACK("gunzip -k")},
    {"a zstd file", BYTES("\x28\xb5\x2f\xfd"), NULL, 0, UNPACK("unzstd")},
    {"a zstd or lz4 file", NULL, 0, 0, is_frame, 0, UNPACK("unzstd")},
    {"an xz file",
     BYTES("\xfd"
           "7zXZ"),
     NULL, 0, UNPACK("unxz -k")},
    {"an lzma file", BYTES("\x5d\0\0"), NULL, 0, UNPACK("unlzma -k")},
    {"an lzip file", BYTES("LZIP\x01"), NULL, 0, UNPACK("lzip -dk")},
    {"an lz4 file", BYTES("\x04\x22\x4d\x18"), NULL, 0, UNPACK("unlz4")},
    {"a bzip2 file", BYTES("BZh"), is_bzip2, 0, UNPACK("bunzip2 -k")},
    {"zlib data", BYTES("\x78"), is_zlib, 0,
     "unpack it: python3 -c \"import sys, zlib; sys.stdout.buffer.write(zlib.decompress(open('%s', 'rb').read()))\""},
    {"a PyTorch file (a zip archive of pickles)", BYTES("PK\x03\x04"), is_torch_zip, 0,
     "save the weights as safetensors: python3 -c \"import torch, safetensors.torch as s; "
     "s.save_file(torch.load('%s', weights_only=True), 'model.safetensors')\""},
    {"a NumPy archive (.npz)", BYTES("PK\x03\x04"), is_numpy_zip, 0,
     "write its arrays as text or JSON lines; %s is none"},
    {"an Office document (a zip archive)", BYTES("PK\x03\x04"), is_office_zip, 0, MEDIA},
    {"a zip archive", BYTES("PK\x03\x04"), NULL, 0, UNPACK("unzip")},
    {"an empty zip archive", BYTES("PK\x05\x06"), NULL, 0, UNPACK("unzip")},
    {"a 7z archive", BYTES("7z\xbc\xaf"), NULL, 0, UNPACK("7z x")},
    {"a RAR archive", BYTES("Rar!\x1a\x07"), NULL, 0, UNPACK("unrar x")},
    {"a tar archive", "ustar", TAR_AT, 5, is_no_prose, 0, UNPACK("tar -xf")},
    {"a NumPy array (.npy)", BYTES("\x93NUMPY"), NULL, 0, "write it as text or JSON lines; %s is an array"},
    {"MessagePack", NULL, 0, 0, is_msgpack, 0, "write its records as JSON lines; %s is not read"},
    {"CBOR", NULL, 0, 0, is_cbor, 0, "write its records as JSON lines; %s is not read"},
    {"a GGUF file", BYTES("GGUF"), NULL, 0, "take the folder of Hugging Face that it was made from; %s is not read"},
    {"an HDF5 file", BYTES("\x89HDF"), NULL, 0, "export its data as text or JSON lines; %s is not read"},
    {"an SQLite database", BYTES("SQLite format 3"), NULL, 0,
     "export a table as JSON: sqlite3 -json %s 'select * from NAME' | jq -c '.[]' > lines.jsonl"},
    {"a pickle of Python", NULL, 0, 0, file_kind_is_pickle, 0,
     "a pickle can run any code and is not read; save %s as text, JSON lines or safetensors"},
    {"an index of Megatron's data sets (.idx)", BYTES("MMIDIDX"), NULL, 0,
     "it is given to --data-path by its name without .idx; %s is no text"},
    {"an index of fairseq's data sets (.idx)", BYTES("TNTIDX"), NULL, 0,
     "preprocess the texts again with preprocess_data; %s is not read"},
    {"a PDF document", BYTES("%PDF-"), NULL, 0, "extract its text: pdftotext %s"},
    {"an Office document", BYTES("\xd0\xcf\x11\xe0"), NULL, 0, MEDIA},
    {"a PostScript document", BYTES("%!PS"), NULL, MEGA_KIND_MARKUP, MEDIA},
    {"an RTF document", BYTES("{\\rtf"), NULL, MEGA_KIND_MARKUP, MEDIA},
    {"a PNG image", BYTES("\x89PNG"), NULL, 0, ANOTHER},
    {"a JPEG image", BYTES("\xff\xd8\xff"), NULL, 0, ANOTHER},
    {"a GIF image", BYTES("GIF87a"), NULL, 0, ANOTHER},
    {"a GIF image", BYTES("GIF89a"), NULL, 0, ANOTHER},
    {"a sound, film or image (RIFF)", BYTES("RIFF"), is_riff, 0, ANOTHER},
    {"a film (MP4)", "ftyp", 4, 4, has_zero, 0, ANOTHER},
    {"a sound (MP3)", BYTES("ID3"), is_no_prose, 0, ANOTHER},
    {"a sound (Ogg)", BYTES("OggS"), NULL, 0, ANOTHER},
    {"a sound (FLAC)", BYTES("fLaC"), NULL, 0, ANOTHER},
    {"a program (ELF)",
     BYTES("\x7f"
           "ELF"),
     NULL, 0, ANOTHER},
    {"a program (WebAssembly)", BYTES("\0asm"), NULL, 0, ANOTHER},
    {"a program of Windows", BYTES("MZ"), is_no_prose, 0, ANOTHER},
    {"an HTML page", NULL, 0, 0, file_kind_is_html, MEGA_KIND_MARKUP,
     "if it is the error page of a server, download the file again; the text of a web page is extracted first"},
    {"an XML document", NULL, 0, 0, file_kind_is_xml, MEGA_KIND_MARKUP,
     "if it is the error message of a server, download the file again; the text of a document is extracted first"},
    {"the answer of a server in place of a file", NULL, 0, 0, is_answer_of_server, MEGA_KIND_MARKUP, AGAIN},
    {"the error message of a server in place of a file", NULL, 0, 0, is_json_error, MEGA_KIND_MARKUP, AGAIN},
    /* text in another encoding, then anything else with zero bytes */
    {"UTF-32LE (its byte order mark)", BYTES("\xff\xfe\0\0"), NULL, 0, ICONV("UTF-32")},
    {"UTF-32BE (its byte order mark)", BYTES("\0\0\xfe\xff"), NULL, 0, ICONV("UTF-32")},
    {"UTF-16LE (its byte order mark)", BYTES("\xff\xfe"), NULL, 0, ICONV("UTF-16")},
    {"UTF-16BE (its byte order mark)", BYTES("\xfe\xff"), NULL, 0, ICONV("UTF-16")},
    {"UTF-16LE (zeros are second bytes)", NULL, 0, 0, has_second_zeros, MEGA_KIND_BINARY, ICONV("UTF-16LE")},
    {"UTF-16BE (zeros are first bytes)", NULL, 0, 0, has_first_zeros, MEGA_KIND_BINARY, ICONV("UTF-16BE")},
    {"binary data (zero bytes near its beginning)", NULL, 0, 0, has_many_zeros, MEGA_KIND_BINARY, ANOTHER},
};

/* CSV and TSV are text, so that only the name tells them from prose. The ending of a compression may follow. */
#define PANDAS_TABS                                                                                                  \
    "convert it to JSON lines: python3 -c \"import pandas; pandas.read_csv('%s', sep='\\t').to_json('lines.jsonl', " \
    "orient='records', lines=True)\""
static const kind tables[] = {
    {"a CSV file", ".csv", 0, 0, NULL, MEGA_KIND_TABLE, PANDAS("read_csv")},
    {"a TSV file", ".tsv", 0, 0, NULL, MEGA_KIND_TABLE, PANDAS_TABS},
    {"a TSV file", ".tab", 0, 0, NULL, MEGA_KIND_TABLE, PANDAS_TABS},
};

static size_t without_packing(const char *path)
{
    static const char *const packing[] = {".gz", ".zst", ".xz", ".bz2"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof packing / sizeof *packing; i++) {
        const size_t m = strlen(packing[i]);
        if (n > m && strcasecmp(path + n - m, packing[i]) == 0) return n - m;
    }
    return n;
}

/* "GGUF is a format": a magic in letters is a word of a sentence if a space comes after it, and only text. */
static bool is_word_of_text(const kind *k, const uint8_t *b, size_t n)
{
    for (int i = 0; i < k->size; i++)
        if (!isalnum((unsigned char)k->begin[i]) && k->begin[i] != ' ') return false;
    const size_t end = (size_t)(k->at + k->size);
    return k->at == 0 && n > end && b[end] == ' ' && !is_no_prose(b, n);
}

static bool kind_fits(const kind *k, const uint8_t *b, size_t n)
{
    const size_t end = (size_t)(k->at + k->size);
    if (k->begin != NULL && (n < end || memcmp(b + k->at, k->begin, (size_t)k->size) != 0)) return false;
    if (k->begin != NULL && is_word_of_text(k, b, n)) return false;
    return k->is == NULL || k->is(b, n);
}

/* A pointer is text, which an editor may have put a byte order mark before. */
static const kind *pointer_of(const uint8_t *b, size_t n)
{
    const size_t mark = n >= 3 && memcmp(b, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    for (const kind *k = kinds; k < kinds + POINTERS; k++)
        if (kind_fits(k, b + mark, n - mark)) return k;
    return NULL;
}

static const kind *kind_of(const char *path, const uint8_t *b, size_t n, int taken)
{
    const kind *pointer = pointer_of(b, n);
    if (pointer != NULL) return pointer;
    for (const kind *k = kinds + POINTERS; k < kinds + sizeof kinds / sizeof *kinds; k++)
        if (((k->taken_as & taken) == 0 || k->taken_as == MEGA_KIND_TENSORS) && kind_fits(k, b, n))
            return (k->taken_as & taken) == 0 ? k : NULL;
    const size_t m = without_packing(path);
    for (const kind *k = tables; k < tables + sizeof tables / sizeof *tables; k++)
        if ((taken & MEGA_KIND_TABLE) == 0 && m > 4 && strncasecmp(path + m - 4, k->begin, 4) == 0) return k;
    return NULL;
}

mega_status mega_file_kind_check(const char *path, const void *bytes, size_t size, const char *expected, int taken)
{
    const kind *k = size > 0 ? kind_of(path, bytes, size, taken) : NULL;
    if (k == NULL) return MEGA_OK;
    mega_buffer remedy = {0};
    const char *at = strstr(k->remedy, "%s");
    const int before = at != NULL ? (int)(at - k->remedy) : (int)strlen(k->remedy);
    mega_buffer_printf(&remedy, "%.*s%s%s", before, k->remedy, at != NULL ? path : "", at != NULL ? at + 2 : "");
    const mega_status st = MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found %s, expected %s; %s", path, k->name, expected,
                                     remedy.data != NULL ? remedy.data : "give another file");
    mega_buffer_fini(&remedy);
    return st;
}

const char *mega_file_pointer(const void *bytes, size_t size)
{
    const kind *k = size > 0 ? pointer_of(bytes, size) : NULL; /* an empty file has no memory */
    return k != NULL ? k->name : NULL;
}

bool mega_file_is_annexed(const char *path)
{
    char target[PATH_MAX];
    const ssize_t n = access(path, F_OK) == 0 ? -1 : readlink(path, target, sizeof target - 1);
    const char *at = n > 0 ? memmem(target, (size_t)n, ".git/annex/objects/", 19) : NULL;
    return at != NULL && (at == target || at[-1] == '/');
}

mega_status mega_file_read_kind(const char *path, const char *expected, int taken, char **out, size_t *out_size)
{
    size_t size = 0;
    MEGA_TRY(mega_file_read(path, out, &size));
    const mega_status st = mega_file_kind_check(path, *out, size, expected, taken);
    if (st != MEGA_OK) {
        mega_free(*out);
        *out = NULL;
    }
    if (out_size != NULL) *out_size = size;
    return st;
}
