#!/bin/sh
# Makes images of two files of kernels for test_cubins.c and packs them.   make_cubins.sh FOLDER IMAGES.SH PACKER
# Of a cubin there is the ELF header alone, with the chip in its flags, which is all that the software device reads.
# mul.sm_90.cubin says that it is of another chip, as if the driver did not know it.
set -eu
folder=$1 script=$2 packer=$3
mkdir -p "$folder"
cubin() { # NAME CHIP FLAG
    { printf '\177ELF\002\001\001\051\010' && head -c 40 /dev/zero && printf '%b' "\\0$(printf %o "$3")" && head -c 14 /dev/zero; } \
        >"$folder/$1.sm_$2.cubin"
}
for name in add mul; do
    for chip in 80 86 90; do cubin $name $chip $chip; done
    printf '// %s\n.version 7.0\n.target sm_80\n.address_size 64\n' $name >"$folder/$name.ptx"
    for type in f32 bf16 f16; do printf '.visible .entry %s_%s()\n' $name $type >>"$folder/$name.ptx"; done
done
cubin mul 90 100
sh "$script" "$folder/images.c" "$folder/images.packed" "$packer" "$folder"/*.ptx "$folder"/*.cubin
