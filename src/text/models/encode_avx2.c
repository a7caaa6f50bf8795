/* The fast encoder for processors with AVX2. */
#define encode_words mega_encode_words_avx2
#define word_ends    mega_word_ends_avx2
#include "encode_body.c"
