# shellcheck shell=bash
# Files of kinds that no command reads as text, and functions that give them to commands. A test sources this after
# tests/kit/kit.sh.
# ---- the kinds ----
mkdir kinds
# kind FILE 'what the message must say' 'its beginning, as printf takes it'; zero bytes or a text follow
kinds=() says=()
kind() {
    # shellcheck disable=SC2059
    printf "$3" >"kinds/$1"
    kinds+=("$1") says+=("$2")
}
zeros='\0\0\0\0\0\0\0\0\1\0\0\0 some more bytes \0\0\0\0'
prose='\nThe fox runs. A dog sleeps. The owl runs.\n'
kind parquet 'a Parquet file' "PAR1\x15\x04$zeros"
kind arrow 'an Arrow file' "ARROW1\0\0$zeros"
kind feather 'an Arrow (Feather) file' "FEA1$zeros"
kind stream 'an Arrow stream' "\xff\xff\xff\xff$zeros"
kind orc 'an ORC file' "ORC\n\x0b$zeros"
kind avro 'an Avro file' "Obj\x01\x04$zeros"
kind xz 'an xz file' "\xfd7zXZ\0$zeros"
kind bzip2 'a bzip2 file' "BZh91AY&SY$zeros"
kind lz4 'an lz4 file' "\x04\x22\x4d\x18$zeros"
kind zip 'a zip archive' "PK\x03\x04\x14\0${zeros}text.txt"
kind docx 'an Office document' "PK\x03\x04\x14\0${zeros}[Content_Types].xml"
kind npz 'a NumPy archive (.npz)' "PK\x03\x04\x14\0${zeros}arr_0.npy"
kind torch 'a PyTorch file' "PK\x03\x04\0\0${zeros}archive/data.pkl"
kind 7z 'a 7z archive' "7z\xbc\xaf\x27\x1c$zeros"
kind pickle 'a pickle of Python' "\x80\x04\x95$zeros"
kind npy 'a NumPy array (.npy)' "\x93NUMPY\x01\0v\0{'descr': '<f4'$zeros"
kind tensors 'a safetensors file' "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"$zeros"
kind gguf 'a GGUF file' "GGUF\x03$zeros"
kind hdf5 'an HDF5 file' "\x89HDF\r\n\x1a\n$zeros"
kind sqlite 'an SQLite database' "SQLite format 3\0$zeros"
kind pdf 'a PDF document' "%%PDF-1.7\n%%\xe2\xe3$prose"
kind png 'a PNG image' "\x89PNG\r\n\x1a\n$zeros"
kind jpeg 'a JPEG image' "\xff\xd8\xff\xe0$zeros"
kind program 'a program (ELF)' "\x7fELF\x02\x01$zeros"
kind utf16 'UTF-16LE (its byte order mark)' '\xff\xfeT\0h\0e\0 \0f\0o\0x\0 \0r\0u\0n\0s\0.\0\n\0'
kind utf16be 'UTF-16BE (zeros are first bytes)' '\0T\0h\0e\0 \0f\0o\0x\0 \0r\0u\0n\0s\0.\0\n'
kind utf32 'UTF-32LE (its byte order mark)' '\xff\xfe\0\0T\0\0\0h\0\0\0'
kind tokens 'binary data (zero bytes near its beginning)' 'T\0\0\0h\0\0\0e\0\0\0 \0\0\0f\0\0\0'
kind lfs 'the pointer of a file in Git LFS' \
    'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n'
kind annex 'the pointer of a file in git-annex' '/annex/objects/SHA256E-s12345--4d7a214614ab2935c943.txt\n'
kind lfs_mark 'the pointer of a file in Git LFS' \
    '\xef\xbb\xbfversion https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n'
kind annex_link 'the pointer of a file in git-annex' \
    '../../.git/annex/objects/Gx/3f/SHA256E-s12345--4d7a214614/SHA256E-s12345--4d7a214614.txt'
kind page 'an HTML page' "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head>$prose"
kind page2 'an HTML page' "  \n<HTML lang=en><body>Sign in$prose"
kind page3 'an HTML page' "<!-- saved from a server -->\n<!-- today -->\n<div>The page</div>$prose"
kind page4 'an HTML page' "<br />\n<b>Warning</b>: no such file$prose"
kind page5 'an HTML page' "<title>404</title>\n<h1 class=\"big\">Not Found</h1>$prose"
kind list0 'a pickle of Python' "(lp0\nVThe fox runs.\np1\naVA dog sleeps.\np2\na.\n$prose"
kind dict0 'a pickle of Python' "(dp1\nS'text'\np2\nS'The fox runs.'\np3\ns."
kind array0 'a pickle of Python' "cnumpy._core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n(I0\ntp2\n"
kind call0 'a pickle of Python' "cos\nsystem\n(S'ls'\ntR."
kind tuple0 'a pickle of Python' "(I1\nI2\nI3\ntp0\n."
kind s3 'an XML document' "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code></Error>$prose"
kind utf16ru 'UTF-16LE (zeros are second bytes)' \
    '\x1b\x04\x38\x04\x41\x04\x30\x04\x20\0\x38\x04\x34\x04\x51\x04\x42\x04.\0\n\0'
kind lzma 'an lzma file' "\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0*\x1a\x08"
kind zlib 'zlib data' '\x78\x9c\xab\x56\x4a\xaf\x4f\x2d'
kind zlib1 'zlib data' '\x78\x5e\xab\x56\x4a\x01\x4f\x2d'
kind msgpack 'MessagePack' '\x82\xa4text\xadThe fox runs.\xa2id\x07'
kind cbor 'CBOR' '\xa2dtextmThe fox runs.bid\x07'
kind hub 'the answer of a server in place of a file' 'Entry not found'
kind github 'the answer of a server in place of a file' '404: Not Found\n'
kind error 'the error message of a server' '{"error":"Repository not found"}'
kind rows.csv 'a CSV file' 'label,text\n1,The fox runs.\n0,A dog sleeps.\n'
kind rows.tsv 'a TSV file' 'label\ttext\n1\tThe fox runs.\n0\tA dog sleeps.\n'
kind rows.tab 'a TSV file' 'label\ttext\n1\tThe fox runs.\n0\tA dog sleeps.\n'
# Formats cut off or damaged, without a zero byte
kind cut_parquet 'a Parquet file' 'PAR1abcdefghijklPAR1'
kind cut_arrow 'an Arrow file' "ARROW1$prose"
kind cut_orc 'an ORC file' 'ORC\n\x0b\x03\x04'
kind cut_bzip2 'a bzip2 file' 'BZh9'
kind cut_gguf 'a GGUF file' 'GGUF'
kind cut_sqlite 'an SQLite database' 'SQLite format 3'
kind cut_numpy 'a NumPy array (.npy)' '\x93NUMPY'
kind cut_gif 'a GIF image' "GIF89a$prose"
# No text, or not UTF-8: where it is, is said too
kind zero 'a zero byte' 'The fox runs. The owl\0 sleeps.\nA dog runs.\n'
kind latin1 'not UTF-8' 'The fox runs. The caf\xe9 sleeps.\nA dog runs.\n'
tar -cf kinds/tar kinds/page && kinds+=(tar) says+=('a tar archive')
gzip -c kinds/page >kinds/gzip && kinds+=(gzip) says+=('a gzip file')
printf '\x28\xb5\x2f\xfd\0' >kinds/zstd && kinds+=(zstd) says+=('a zstd file')
[ ${#kinds[@]} -ge 25 ] || note "kinds: ${#kinds[@]}"

# gives NAME 'kinds that it does read, or says nothing of' COMMAND…: the command with FILE replaced by each kind
# The readers of texts get all kinds; the others, which share one function, each some of them in turn.
runs=0 turn=0 some=1
gives() {
    local name=$1 left=" $2 " i words
    shift 2
    turn=$((turn + 1))
    for i in "${!kinds[@]}"; do
        case "$left" in *" ${kinds[i]} "*) continue ;; esac
        [ $((i % some)) -eq $((turn % some)) ] || continue
        words=("${@//FILE/kinds/${kinds[i]}}")
        "$MEGALITH" "${words[@]}" >out 2>&1 </dev/null
        status=$?
        runs=$((runs + 1))
        [ $status -ne 0 ] && [ $status -lt 126 ] || note "$name takes ${kinds[i]}: exit status $status"
        grep -qF -- "${says[i]}" out || note "$name does not say that ${kinds[i]} is ${says[i]}"
        grep -qF -- "kinds/${kinds[i]}" out || note "$name does not name the file ${kinds[i]}"
    done
}
# ---- folders: each of their files as a pointer of Git LFS, or another kind ----
# in_folder FILE 'kinds that are left out' COMMAND…: puts every kind in place of each file of the folder's that is
# named
in_folder() {
    local file=$1 left=" $2 " i
    shift 2
    turn=$((turn + 1))
    for i in "${!kinds[@]}"; do
        case "$left" in *" ${kinds[i]} "*) continue ;; esac
        [ "${kinds[i]}" = lfs ] || [ $((i % some)) -eq $((turn % some)) ] || continue
        rm -rf other && cp -r model other && cp "kinds/${kinds[i]}" "other/$file"
        "$MEGALITH" "$@" >out 2>&1 </dev/null
        status=$?
        runs=$((runs + 1))
        [ $status -ne 0 ] && [ $status -lt 126 ] || note "$1, $file as ${kinds[i]}: exit status $status"
        grep -qF -- "${says[i]}" out && grep -qF "other/$file" out ||
            note "$1, $file as ${kinds[i]} is not refused by its name"
    done
}
