/* The fast encoder for processors with AVX-512 (F, BW, DQ, VL). */
#define encode_words mega_encode_words_avx512
#define word_ends    mega_word_ends_avx512
#include "encode_body.c"
