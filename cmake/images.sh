#!/bin/sh
# Packs the kernels for GPUs and writes the C file that has them in the program.
#   images.sh OUT.c PACKED PACKER NAME.ptx… NAME.sm_86.cubin…
# The packed file has a part for each kind of chip (86: sm_86) and one for PTX (0): a line of 32 characters, "CHIP
# BYTES", and a frame of zstd. What is in the frame: for each NAME a line of 64 characters, "NAME BYTES", and as many
# bytes, at least one NUL at their end. The C file changes with what is packed, so that no cache of compilers takes an
# older one.
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
chip_of() { # IMAGE
    case $1 in
    *.sm_*.cubin) chip=${1%.cubin} chip=${chip##*.sm_} ;;
    *) chip=0 ;;
    esac
}
chips=$(for image in "$@"; do chip_of "$image" && echo "$chip"; done | sort -nu)
for part in $chips; do
    for image in "$@"; do
        chip_of "$image"
        [ "$chip" = "$part" ] || continue
        name=${image##*/}
        if [ "$chip" = 0 ]; then sed -e '/^[[:space:]]*\/\//d' -e '/^$/d' "$image"; else cat "$image"; fi >"$packed.one"
        bytes=$(wc -c <"$packed.one")
        room=$(((bytes / 16 + 1) * 16))
        printf '%-63s\n' "${name%%.*} $room"
        cat "$packed.one"
        head -c $((room - bytes)) /dev/zero
    done | "$packer" >"$packed.part"
    printf '%-31s\n' "$part $(wc -c <"$packed.part")"
    cat "$packed.part"
done >"$packed"
rm -f "$packed.one" "$packed.part"
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
