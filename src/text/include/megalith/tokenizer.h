/* Tokenizers: text to ids and back.
 *
 * A tokenizer is immutable and may be shared by any number of threads; the mutable state of encoding (word cache, merge
 * buffers) is in an encoder, one per thread. Bytes that are not UTF-8 are kept: for the byte-level types
 * decode(encode(x)) equals x for every byte string x. */
#ifndef MEGALITH_TOKENIZER_H
#define MEGALITH_TOKENIZER_H

#include "megalith/memory.h"
#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_tokenizer mega_tokenizer;

/* The tokenizer options of the command line; NULL or 0 if not given.
 *   GPT2BPETokenizer  vocab_file + merge_file, or vocab_file alone if it is a tokenizer.json
 *   ByteTokenizer     no files: ids 0..255 are the bytes, 256 ends a document
 *   CharTokenizer     vocab_file: a JSON list of characters, an object character -> id, or a tokenizer.json
 *   NullTokenizer     vocab_size: text is space-separated integers below it; id vocab_size ends a document
 *   HuggingFaceTokenizer (HFTokenizer, PretrainedFromHF)  model: a folder with a tokenizer.json, or its path
 *   SentencePieceTokenizer, GPTSentencePieceTokenizer, Llama2Tokenizer  model: a SentencePiece model of BPE or Unigram
 *   TikTokenizer      model: the JSON of Megatron-core; vocab_size, tiktoken_pattern, tiktoken_special
 *   BertWordPieceLowerCase, BertWordPieceCase  vocab_file: one token a line; extra_ids */
enum { MEGA_TOKENIZER_EXTRA_IDS = 1 << 16 }; /* the most extra_ids */

typedef struct mega_tokenizer_options {
    const char *type;
    const char *vocab_file;
    const char *merge_file;
    int64_t vocab_size;
    const char *model;
    const char *tiktoken_pattern; /* "v1" or "v2"; NULL: v2 */
    int64_t tiktoken_special;     /* number of special ids; 0: 1000 */
    int64_t extra_ids;            /* of SentencePieceTokenizer and BertWordPiece*: <extra_id_0> and so on, at the end */
} mega_tokenizer_options;

mega_status mega_tokenizer_create(const mega_tokenizer_options *options, mega_tokenizer **out);
/* Loads from a folder that holds tokenizer.json, tokenizer.model (SentencePiece, read as Llama2Tokenizer), vocab.json +
 * merges.txt, or vocab.txt (BERT's), or from the path of a tokenizer.json or *.model.
 * Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_FORMAT, MEGA_ERR_UNSUPPORTED or MEGA_ERR_MEMORY. */
mega_status mega_tokenizer_load(const char *path, mega_tokenizer **out);
/* Whether a folder has files that mega_tokenizer_load reads. */
bool mega_tokenizer_is_in(const char *folder);
/* Whether a type of the command line is read from --tokenizer-model. */
bool mega_tokenizer_needs_model(const char *type);
/* Whether it is read from a file at all: a ByteTokenizer and a NullTokenizer are not. */
bool mega_tokenizer_needs_file(const char *type);
void mega_tokenizer_destroy(mega_tokenizer *t);
/* Warns if --vocab-size was given (not 0) and differs from the number of ids of the tokenizer, which its files
 * determine. mega_tokenizer_create calls it; call it for tokenizers loaded from a folder. */
void mega_tokenizer_check_vocab_size(const mega_tokenizer *t, int64_t vocab_size);
/* How many tokens <extra_id_0>, <extra_id_1>, … it has. */
int64_t mega_tokenizer_extra_ids(const mega_tokenizer *t);

const char *mega_tokenizer_type(const mega_tokenizer *t); /* "GPT2BPETokenizer", … */
int64_t mega_tokenizer_size(const mega_tokenizer *t);     /* highest id + 1; not padded */
size_t mega_tokenizer_bytes(const mega_tokenizer *t);     /* bytes of memory that it holds; 0 for NULL */
int32_t mega_tokenizer_eod(const mega_tokenizer *t);      /* the id that ends a document; -1: none */
/* What a token is for. A folder says so in special_tokens_map.json or tokenizer_config.json, or else its class does. */
typedef enum mega_role {
    MEGA_ROLE_BOS,
    MEGA_ROLE_EOS,
    MEGA_ROLE_UNK,
    MEGA_ROLE_SEP,
    MEGA_ROLE_PAD,
    MEGA_ROLE_CLS,
    MEGA_ROLE_MASK,
    MEGA_ROLES
} mega_role;
/* The id of the token that the folder names for a role; -1: none. */
int32_t mega_tokenizer_named(const mega_tokenizer *t, mega_role role);
/* The same, and where the folder names none, the first of the names (blanks between them) that is a token. */
int32_t mega_tokenizer_role(const mega_tokenizer *t, mega_role role, const char *names);
/* Returns a hash of everything that determines the ids of a text; equal for the same tokenizer read from another kind
 * of file. */
uint64_t mega_tokenizer_fingerprint(const mega_tokenizer *t);
int64_t mega_tokenizer_known_ids(const mega_tokenizer *t); /* ids that stand for a text; 0: those of a NullTokenizer */
/* Returns a hash of the texts for which the first `count` ids stand. */
uint64_t mega_tokenizer_hash_ids(const mega_tokenizer *t, int64_t count);

/* A growing array of ids. Zero-initialised is valid and empty. */
typedef struct mega_ids {
    int32_t *id;
    int64_t count, capacity;
} mega_ids;
mega_status mega_ids_reserve(mega_ids *ids, int64_t more);
void mega_ids_fini(mega_ids *ids);

typedef struct mega_encoder mega_encoder;
mega_status mega_encoder_create(const mega_tokenizer *t, mega_encoder **out); /* t is borrowed and must outlive it */
void mega_encoder_destroy(mega_encoder *e);

/* Appends the ids of text. As in Megatron's GPT2BPETokenizer, special tokens are not recognised: the characters
 * <|endoftext|> in a document are ordinary text. As in its HuggingFaceTokenizer and TikTokenizer, for these they are
 * the token, and BOS or EOS are added where the tokenizer's template says so. Use this for data. On failure out keeps
 * its former count. Returns MEGA_ERR_FORMAT if a byte or character is not in the vocabulary, or MEGA_ERR_MEMORY. */
mega_status mega_encoder_encode(mega_encoder *e, const char *text, size_t bytes, mega_ids *out);
/* The same without the tokens of the template: for text that continues another. */
mega_status mega_encoder_encode_part(mega_encoder *e, const char *text, size_t bytes, mega_ids *out);
/* The same, but each occurrence of a special token becomes its id, as Hugging Face tokenizers do. Use this for prompts.
 */
mega_status mega_encoder_encode_special(mega_encoder *e, const char *text, size_t bytes, mega_ids *out);

/* Appends the text of ids; the raw bytes of a byte-level tokenizer. Returns an error that names the id and its index if
 * it is not in the vocabulary. */
mega_status mega_tokenizer_decode(const mega_tokenizer *t, const int32_t *ids, int64_t count, mega_buffer *out);
/* The same for ids that continue a text: a blank at their begin is kept. */
mega_status mega_tokenizer_decode_more(const mega_tokenizer *t, const int32_t *ids, int64_t count, mega_buffer *out);
/* Ids to text one by one: what is appended for all of them together is what mega_tokenizer_decode appends. continues:
 * the ids continue a text, so that a blank at their begin is kept. The tokenizer is borrowed. */
typedef struct mega_decoder mega_decoder;
mega_status mega_decoder_create(const mega_tokenizer *t, bool continues, mega_decoder **out);
void mega_decoder_destroy(mega_decoder *d);
mega_status mega_decoder_add(mega_decoder *d, int32_t id, mega_buffer *out);
mega_status mega_decoder_finish(mega_decoder *d, mega_buffer *out); /* bytes that waited for others; begins anew */
/* appends the bytes of one token */
mega_status mega_tokenizer_piece(const mega_tokenizer *t, int32_t id, mega_buffer *out);
/* Returns the id of the token with these bytes, or -1. Special tokens are found by their text. */
int32_t mega_tokenizer_find(const mega_tokenizer *t, const char *bytes, size_t n);
/* Returns the id of the first of these names that is a token, or -1. Blanks separate the names: "[CLS] <s>". */
int32_t mega_tokenizer_find_first(const mega_tokenizer *t, const char *names);
/* Whether a token goes on with a word, as "##ing" of WordPiece does. */
bool mega_tokenizer_continues_word(const mega_tokenizer *t, int32_t id);
bool mega_tokenizer_is_special(const mega_tokenizer *t, int32_t id);

/* Writes tokenizer.json and tokenizer_config.json, and for GPT2BPETokenizer vocab.json and merges.txt, into an existing
 * folder, each file atomically. Hugging Face's tokenizers loads the tokenizer.json of every type and gives the same
 * ids. */
mega_status mega_tokenizer_save(const mega_tokenizer *t, const char *folder);
bool mega_tokenizer_names(const char *name); /* whether it may write a file of this name there */
/* Writes the single file that --vocab-file takes: vocab.json for BPE, a JSON list for characters. */
mega_status mega_tokenizer_save_vocab(const mega_tokenizer *t, const char *path);

#endif
