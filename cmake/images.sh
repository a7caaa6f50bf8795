#!/bin/sh
# Packs the kernels for GPUs and writes the C file that has them in the program.   images.sh OUT.c PACKED PACKER NAME.ptx…
# The C file changes with what is packed, so that no cache of compilers takes an older one.
set -eu
out=$1 packed=$2 packer=$3
shift 3
if [ $# = 0 ]; then
    cat >"$out" <<END
#include <stddef.h>
extern const unsigned char mega_cuda_images[];
extern const size_t mega_cuda_images_bytes;
const unsigned char mega_cuda_images[1];
const size_t mega_cuda_images_bytes = 0;
END
    exit
fi
for image in "$@"; do
    name=${image##*/}
    printf '//@ %s\n' "${name%.ptx}"
    sed -e '/^[[:space:]]*\/\//d' -e '/^$/d' "$image"
    printf '\000'
done | "$packer" >"$packed"
bytes=$(wc -c <"$packed")
cat >"$out" <<END
/* $(cksum <"$packed") */
#include <stddef.h>
extern const unsigned char mega_cuda_images[];
extern const size_t mega_cuda_images_bytes;
__asm__(".pushsection .rodata\n"
        ".globl mega_cuda_images\n"
        ".balign 16\n"
        "mega_cuda_images:\n"
        ".incbin \"$packed\"\n"
        ".popsection\n");
const size_t mega_cuda_images_bytes = $bytes;
END
