/* Packs standard input for the program (images.sh): one frame of zstd, which says its size. PACK_LEVEL: zstd's level. */
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

enum { MOST = 256 << 20 };

int main(void)
{
    char *text = malloc(MOST);
    if (text == NULL) return 1;
    const size_t bytes = fread(text, 1, MOST, stdin), room = ZSTD_compressBound(bytes);
    char *packed = bytes < MOST ? malloc(room) : NULL;
    if (packed == NULL) return 1;
    const size_t size = ZSTD_compress(packed, room, text, bytes, PACK_LEVEL);
    const int failed = ZSTD_isError(size) || fwrite(packed, 1, size, stdout) != size || fflush(stdout) != 0;
    free(packed);
    free(text);
    return failed;
}
